"""The values that the parts of a push exchange."""

import enum
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec

from schemas.account import Chunk
from schemas.feed import CLEANUP, FULL, REPLACE
from schemas.receipt import Refusal

REQUEST_BYTES_LIMIT = 1_000_000_000
"""An appliance refuses a request with a body of this many bytes or more."""

ERASING_FEEDTYPES = (FULL, REPLACE, CLEANUP)
"""Feedtypes that delete the previous content of a datasource; only its first request has one."""

_NOT_IN_NAME = re.compile("[^A-Za-z0-9.-]")


class ApplianceProtocol(enum.Enum):
    """How an appliance takes feeds."""

    FEEDERGATE = "feedergate"
    """A Google Search Appliance: multipart forms to /xmlfeed and /xmlgroups."""

    RECVDATA = "recvdata"
    """A Thunderstone appliance: URL-encoded forms to recvdata.xml."""


class Appliance(msgspec.Struct, frozen=True, kw_only=True):
    """The address of an appliance and how to connect to it.

    `url` has scheme, host and port for FEEDERGATE, and is the whole address of recvdata.xml for
    RECVDATA. `ca_file` replaces the certificate authorities of the system. Without `proxy`, none is
    used. Each timeout limits one step of a request; `reply_seconds` limits the head of a response,
    and again its body. With `gzip`, requests below 1 MiB to a FEEDERGATE are compressed.
    """

    protocol: ApplianceProtocol
    url: str
    profile: str = ""
    ca_file: str | None = None
    proxy: str | None = None
    connect_seconds: float = 10.0
    write_seconds: float = 60.0
    reply_seconds: float = 900.0
    gzip: bool = False

    @property
    def name(self) -> str:
        """The name of its folder of receipts: letters, digits, `.`, `-` and `_`."""
        address = "/".join(filter(None, (self.url.split("://")[-1], self.profile)))
        return _NOT_IN_NAME.sub("_", address).strip("._")


class ChunkPart(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk, or some of its records, as a document: `head`, a range of the file, `tail`.

    It holds records `first` to `first + count` of the chunk. A `count` of 0 means the whole file,
    without head and tail. `length` counts the bytes of the range. `sha256` is the digest of the
    range; a part without one cannot be sent.
    """

    chunk: Chunk
    path: Path
    offset: int
    length: int
    head: bytes = b""
    tail: bytes = b""
    first: int = 0
    count: int = 0
    sha256: str | None = None

    @property
    def size(self) -> int:
        """The number of bytes of the document."""
        return len(self.head) + self.length + len(self.tail)

    @property
    def is_whole(self) -> bool:
        return self.count == 0

    @property
    def records(self) -> int:
        return self.count or count_records(self.chunk)

    def blocks(self, stream: IO[bytes], *, block_bytes: int = 1 << 20) -> Iterator[bytes]:
        """Yield the document from an open file, one block at a time."""
        if self.head:
            yield self.head
        stream.seek(self.offset)
        left = self.length
        while left and (block := stream.read(min(left, block_bytes))):
            left -= len(block)
            yield block
        if self.tail:
            yield self.tail


def count_records(chunk: Chunk) -> int:
    return sum(chunk.records.values())


class ApplianceResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The response to one request, or the error that occurred in its place.

    Without a response, `status` is None and `error` says why. `is_permanent` marks an error that
    another attempt would meet again, such as a certificate that is not trusted or a changed file.
    `is_unsent` says that the appliance cannot have taken the feed: there was no connection, or the
    body was not sent to its end. `body` has at most the first 16 MiB. `sent_bytes` counts the bytes
    of the request body that were sent, `url` is the address of the request.
    """

    status: int | None = None
    content_type: str = ""
    body: bytes = b""
    error: str = ""
    is_unsent: bool = False
    is_permanent: bool = False
    location: str = ""
    retry_after: str = ""
    sent_bytes: int = 0
    seconds: float = 0.0
    url: str = ""


class ResponseMeaning(enum.Enum):
    """The meaning of a response for the chunk that was sent."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    """This chunk is refused as it is; the appliance may take another one."""

    RETRY = "retry"
    """The same request may succeed later."""

    FULL_DISK = "full-disk"
    """The same request may succeed when the appliance has room again."""

    FATAL = "fatal"
    """The appliance takes nothing until somebody changes its configuration or ours."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The meaning of a response, with a message for the operator.

    `refused` are single records of an accepted chunk, numbered from the start of the request.
    `notices` are remarks of the appliance about records that it took. `can_split` says that the
    appliance may take a part of a refused chunk.
    """

    meaning: ResponseMeaning
    message: str = ""
    refused: tuple[Refusal, ...] = ()
    notices: tuple[str, ...] = ()
    can_split: bool = False
