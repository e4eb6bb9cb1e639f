"""The values that the parts of a push exchange: parts of chunks, responses and their meaning."""

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec

from feedferry.schemas.account import Chunk
from feedferry.schemas.errors import SourceError
from feedferry.schemas.feed import CLEANUP, FULL, REPLACE
from feedferry.schemas.receipt import Refusal
from feedferry.transforms.storage.run_folders.mirrors import open_file

REQUEST_BYTES_LIMIT = 1_000_000_000
"""An appliance refuses a request with a body of this many bytes or more."""

ERASING_FEEDTYPES = (FULL, REPLACE, CLEANUP)
"""Feedtypes that delete the previous content of a datasource; only its first request has one."""

MAX_REPLY_LETTERS = 2000
"""How much of a response a receipt keeps."""

BLOCK_BYTES = 1 << 21
"""Smaller blocks wake the receiver more often; larger ones do not stay in the processor cache."""


def count_records(chunk: Chunk) -> int:
    return sum(chunk.records.values())


class ChunkPart(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk, or some of its records, as a document: `head`, a range of the file, `tail`.

    It holds records `first` to `first + count` of the chunk. A `count` of 0 means the whole file,
    without head and tail. `length` counts the bytes of the range, `sha256` is their digest.
    """

    chunk: Chunk
    path: Path
    offset: int
    length: int
    head: bytes = b""
    tail: bytes = b""
    first: int = 0
    count: int = 0
    sha256: str

    @property
    def size(self) -> int:
        """The number of bytes of the document."""
        return len(self.head) + self.length + len(self.tail)

    @property
    def records(self) -> int:
        return self.count or count_records(self.chunk)


def changed_error(path: Path, found: str, expected: str) -> SourceError:
    """Return the error for a file that is not the one that was converted."""
    fix = "the file was changed; convert again to make the chunk anew"
    return SourceError(f"{path}: {found}; expected {expected}: {fix}")


@contextmanager
def open_chunk_file(path: Path) -> Iterator[IO[bytes]]:
    """Open the file of a chunk; raise SourceError if it cannot be read."""
    try:
        with open_file(path) as stream:
            yield stream
    except OSError as exc:
        raise SourceError(f"{path}: {exc.strerror}; expected a readable chunk file") from exc


def range_blocks(
    stream: IO[bytes], offset: int, length: int, block_bytes: int = BLOCK_BYTES
) -> Iterator[bytes]:
    """Yield a range of a file, one block at a time."""
    stream.seek(offset)
    while length and (block := stream.read(min(length, block_bytes))):
        length -= len(block)
        yield block


class ApplianceResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The response to one request, or the error that occurred in its place.

    Without a response, `status` is None and `error` says why. `is_permanent` marks an error that
    another attempt would meet again, such as a certificate that is not trusted or a changed file.
    `date` is the Date header, `certificate_ends` the last moment of its certificate, in seconds
    since 1970. `is_unsent` says that the appliance cannot have taken the feed: there was no
    connection, or the body was not sent to its end. `body` has at most the first 16 MiB.
    `sent_bytes` counts the bytes of the request body that were sent, `url` is the address of the
    request.
    """

    status: int | None = None
    content_type: str = ""
    body: bytes = b""
    error: str = ""
    is_unsent: bool = False
    is_permanent: bool = False
    location: str = ""
    retry_after: str = ""
    date: str = ""
    certificate_ends: float | None = None
    sent_bytes: int = 0
    seconds: float = 0.0
    url: str = ""

    @property
    def is_success(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


class ResponseMeaning(enum.Enum):
    """The meaning of a response for the chunk that was sent."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    """This chunk is refused as it is; the appliance may take a part of it, or another one."""

    RETRY = "retry"
    """The same request may succeed later."""

    FULL_DISK = "full-disk"
    """The same request may succeed when the appliance has room again."""

    UNFINISHED = "unfinished"
    """The appliance has not finished yet; the same request returns the result later."""

    FATAL = "fatal"
    """The appliance takes nothing until somebody changes its configuration or ours."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The meaning of a response, with a message for the operator.

    `refused` are single records of an accepted chunk, numbered from the start of the request.
    `notices` are remarks of the appliance about records that it took. `newer` counts the records of
    which it has newer versions.
    """

    meaning: ResponseMeaning
    message: str = ""
    refused: tuple[Refusal, ...] = ()
    notices: tuple[str, ...] = ()
    newer: int = 0
