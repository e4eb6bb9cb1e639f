"""What the parts of a push hand to each other."""

import enum
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec

from schemas.account import Chunk
from schemas.delivery import Door
from schemas.feed import CLEANUP, FULL, REPLACE
from schemas.receipt import Refusal
from transforms.formats import find_format

REQUEST_BYTES_LIMIT = 1_000_000_000
"""An appliance refuses a feed of this many bytes as they go over the wire."""

ERASING = (FULL, REPLACE, CLEANUP)
"""The feedtypes of what erases all that stood there before: only ever sent first."""

_NOT_IN_NAME = re.compile("[^A-Za-z0-9.-]")


class ApplianceProtocol(enum.Enum):
    """What an appliance speaks at its door."""

    FEEDERGATE = "feedergate"
    RECVDATA = "recvdata"


class Appliance(msgspec.Struct, frozen=True, kw_only=True):
    """Where chunks go, and how it is reached.

    `url` has scheme, host and port, without a path, for FEEDERGATE; it is the whole address of
    recvdata.xml for RECVDATA. `ca_file` replaces the certificate authorities of the system. A
    `proxy` is used only if it is named. Time-outs are in seconds, each for one step on the wire;
    `reply_seconds` is how long the head of an answer may take, and again what follows it. With
    `gzip`, requests are compressed that a FEEDERGATE takes so: those below 1 MiB.
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
        """What a folder of receipts is called: only letters, digits, `.`, `-` and `_`."""
        full = "/".join(filter(None, (self.url.split("://")[-1], self.profile)))
        return _NOT_IN_NAME.sub("_", full).strip("._")


class ChunkPart(msgspec.Struct, frozen=True, kw_only=True):
    """A chunk, or some records of one, as a document: `head`, a range of the file, `tail`.

    Holds records `first` to `first + count` of the chunk; a `count` of 0 means all of it, as it
    stands in its file, with nothing at its ends. `length` counts the bytes of the range.
    `sha256` is that of the range, where it is known beforehand.
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
        """How many bytes the document has."""
        return len(self.head) + self.length + len(self.tail)

    @property
    def is_whole(self) -> bool:
        return self.count == 0

    def blocks(self, stream: IO[bytes], *, block_bytes: int = 1 << 20) -> Iterator[bytes]:
        """Yield the document from an open file, at most a block in memory."""
        if self.head:
            yield self.head
        stream.seek(self.offset)
        left = self.length
        while left and (block := stream.read(min(left, block_bytes))):
            left -= len(block)
            yield block
        if self.tail:
            yield self.tail


def is_groups(chunk: Chunk) -> bool:
    """Whether a chunk is a groups feed."""
    format_ = find_format(chunk.format)
    return format_ is not None and format_.door is Door.GROUPS


class ApplianceResponse(msgspec.Struct, frozen=True, kw_only=True):
    """What came back for one request, or what came instead.

    `status` is None where no answer came; `fault` then says why, in words. `is_unsent` says that
    the appliance cannot have taken it: no connection was made, or the body was not sent to its
    end. `body` is at most the first 16 MiB. `sent_bytes` is how long the body of the request was,
    `where` the address that it was for. `is_final` tells of a fault that another attempt meets
    again: a certificate that is not trusted, a file that has changed.
    """

    status: int | None = None
    content_type: str = ""
    body: bytes = b""
    fault: str = ""
    is_unsent: bool = False
    location: str = ""
    retry_after: str = ""
    sent_bytes: int = 0
    seconds: float = 0.0
    where: str = ""
    is_final: bool = False


class ResponseMeaning(enum.Enum):
    """What a pusher does next.

    ACCEPTED go on · REFUSED this chunk as it stands: another one may be taken · RETRY soon ·
    FULL_DISK retry, when there is room again · FATAL nothing will be taken until somebody acts.
    """

    ACCEPTED = "accepted"
    REFUSED = "refused"
    RETRY = "retry"
    FULL_DISK = "full-disk"
    FATAL = "fatal"


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What an answer means, and why, in the appliance's words and with the cure if there is one.

    `refused` are single records of an accepted chunk, by their place in what was sent;
    `notices` what the appliance remarked of records that it took. `can_split` says that a part
    of the chunk may be taken.
    """

    meaning: ResponseMeaning
    message: str = ""
    refused: tuple[Refusal, ...] = ()
    notices: tuple[str, ...] = ()
    can_split: bool = False
