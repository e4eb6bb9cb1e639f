"""The command streams of GSA adaptors, listers, retrievers and authorizers, and their first bytes.

The first command that only one of the formats has decides. A stream of ids alone is a listing, and
a stream of several ids is not of a retriever.
"""

import re
from collections.abc import Iterator
from functools import partial

from transforms.formats.base import Format
from transforms.formats.command_stream import adapt, authorizer, documents, lister
from transforms.formats.command_stream.documents import LISTER, RETRIEVER
from transforms.formats.command_stream.syntax import BEFORE_HEADER, ID_LIST, PREFIX
from transforms.formats.command_stream.writer import (
    AuthorizerEncoder,
    ListerEncoder,
    RetrieverEncoder,
)

_HEADER = re.compile(BEFORE_HEADER + PREFIX + rb"[^\[]*\[([^\]]+)\]", re.DOTALL)
_AUTHORIZER = frozenset({"authz-status", "username", "user", "password", "group"})


def _is_stream(name: str, head: bytes) -> bool:
    header = _HEADER.match(head)
    if header is None:
        return False
    delimiter = header[1].replace(b"\xc0\x80", b"\0").replace(b"\xc0\x8a", b"\n")
    return name == _deciding_stream(_names(head[header.end() :].split(delimiter)))


def _deciding_stream(names: Iterator[str]) -> str:
    ids = 0
    for name in names:
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


LISTER_STREAM = Format(
    name="lister-stream",
    title="GSA adaptor command streams: ids, and when they changed",
    matches=partial(_is_stream, "lister-stream"),
    read=lister.read,
    split=lister.cut,
    encoder=ListerEncoder,
    adapter=adapt.lister_adapter,
    hole_codes=frozenset(),
    is_command_stream=True,
    lists_urls=True,
)

RETRIEVER_STREAM = Format(
    name="retriever-stream",
    title="GSA adaptor command streams: a document each",
    matches=partial(_is_stream, "retriever-stream"),
    read=documents.read,
    encoder=RetrieverEncoder,
    adapter=adapt.retriever_adapter,
    hole_codes=frozenset(),
    is_command_stream=True,
    has_one_record=True,
)

AUTHORIZER_STREAM = Format(
    name="authorizer-stream",
    title="GSA adaptor command streams: who may see what",
    matches=partial(_is_stream, "authorizer-stream"),
    read=authorizer.read,
    encoder=AuthorizerEncoder,
    adapter=adapt.authorizer_adapter,
    hole_codes=frozenset(),
    is_command_stream=True,
)
