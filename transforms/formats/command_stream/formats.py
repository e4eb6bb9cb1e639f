"""The command streams of GSA adaptors, listers, retrievers and authorizers, and their first bytes.

The first command that only one of the formats has decides. A stream of ids alone is a listing, and
a stream of several ids is not of a retriever.
"""

import io
from collections.abc import Iterator
from functools import partial

from schemas.errors import FormatError, UnavailableError
from schemas.span import Span
from transforms.formats.base import Format, ReadOptions
from transforms.formats.command_stream import adapt, authorizer, documents, lister
from transforms.formats.command_stream.documents import LISTER, RETRIEVER
from transforms.formats.command_stream.syntax import CommandReader, read_header
from transforms.formats.command_stream.writer import (
    AuthorizerEncoder,
    ListerEncoder,
    RetrieverEncoder,
)

_AUTHORIZER = frozenset({"authz-status", "username", "user", "password", "group"})


def _is_stream(name: str, head: bytes) -> bool:
    commands = CommandReader(io.BytesIO(head), Span(), ReadOptions())
    names = (command.name for command in commands)
    try:
        for _ in read_header(commands):
            pass
        return name == _deciding_stream(names)
    except UnavailableError:
        return name == "lister-stream"
    except FormatError:
        return False


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
