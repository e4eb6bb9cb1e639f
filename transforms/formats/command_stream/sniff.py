"""Recognise command streams by their first bytes."""

import re
from collections.abc import Iterator

from transforms.formats.command_stream.commands import ID_LIST
from transforms.formats.command_stream.document import LISTER, RETRIEVER
from transforms.formats.command_stream.syntax import PREFIX
from transforms.formats.command_stream.tokenizer import BEFORE_HEADER

_HEADER = re.compile(BEFORE_HEADER + PREFIX + rb"[^\[]*\[([^\]]+)\]", re.DOTALL)
_AUTHORIZER = frozenset({"authz-status", "username", "user", "password", "group"})


def sniff_stream(head: bytes) -> str | None:
    """Return the name of the format, None without the header of a command stream.

    The first command that only one of the formats has decides. A stream of ids alone is a listing,
    and a stream of several ids is not of a retriever.
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
        if name in RETRIEVER and name not in LISTER and ids <= 1:
            return "retriever-stream"
        if (name in LISTER) != (name in RETRIEVER):
            break
    return "lister-stream"


def _names(tokens: list[bytes]) -> Iterator[str]:
    """Yield the names of commands; each id of a list is `id`."""
    in_list = False
    for token in (token.removesuffix(b"\r") for token in tokens):
        if not token or (token == ID_LIST and not in_list):
            in_list = bool(token)
        else:
            yield "id" if in_list else token.partition(b"=")[0].decode("latin-1")
