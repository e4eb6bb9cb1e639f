"""Which of the three command streams bytes are the beginning of."""

import re
from collections.abc import Iterator

from transforms.formats.command_stream.commands import ID_LIST
from transforms.formats.command_stream.document import LISTER, RETRIEVER
from transforms.formats.command_stream.tokenizer import BEFORE_HEADER, PREFIX

_HEADER = re.compile(
    BEFORE_HEADER + PREFIX + rb"[^\[]*\[([^\]]+)\]",
    re.DOTALL,
)
_AUTHORIZER = frozenset({"authz-status", "username", "user", "password", "group"})
_RETRIEVER = RETRIEVER - LISTER
_LISTER = LISTER - RETRIEVER


def sniff_stream(head: bytes) -> str | None:
    """Return the name of the format, None where there is no header of a command stream.

    The first command that only one of them has decides, but no retriever tells of several ids; ids
    alone are a listing.
    """
    header = _HEADER.match(head)
    if header is None:
        return None
    delimiter = header[1].replace(b"\xc0\x80", b"\0").replace(b"\xc0\x8a", b"\n")
    ids = 0
    for name in _names(head[header.end() :].split(delimiter)):
        ids += name == "id"
        if name in _AUTHORIZER:
            return "authorizer-stream"
        if name in _RETRIEVER and ids <= 1:
            return "retriever-stream"
        if name in _LISTER or name in _RETRIEVER:
            break
    return "lister-stream"


def _names(tokens: list[bytes]) -> Iterator[str]:
    """Yield the names of commands; the ids of a list are commands too."""
    in_list = False
    for token in tokens:
        stated = token.removesuffix(b"\r")
        if not stated or (stated == ID_LIST and not in_list):
            in_list = bool(stated)
        else:
            yield "id" if in_list else stated.partition(b"=")[0].decode("latin-1")
