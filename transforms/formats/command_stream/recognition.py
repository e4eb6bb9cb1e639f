"""Which of the command streams a stream is, by its first bytes.

The first command that only one of the formats has decides. A stream of ids alone is a listing, and
a stream of several ids is not of a retriever.
"""

import io
from collections.abc import Iterator

from schemas.errors import FormatError, UnavailableError
from schemas.span import Span
from transforms.formats.base import ReadOptions
from transforms.formats.command_stream.syntax import (
    LISTER,
    RETRIEVER,
    USERS,
    CommandReader,
    read_header,
)


def is_stream(name: str, head: bytes) -> bool:
    """Whether a stream that begins with `head` is of the format with a name."""
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
        if name == "authz-status" or name in USERS:
            return "authorizer-stream"
        if name in RETRIEVER and name not in LISTER and ids <= 1:
            return "retriever-stream"
        if (name in LISTER) != (name in RETRIEVER):
            break
    return "lister-stream"
