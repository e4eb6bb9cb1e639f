"""What a reader and a writer may be told, the same for every format."""

import enum
from collections.abc import Iterable, Iterator
from typing import IO, Any, Protocol

import msgspec

from schemas.content import MAX_CONTENT_BYTES
from schemas.feed import Feed, FeedHeader
from schemas.membership import Carried
from schemas.notice import Notice
from schemas.reject import Filtered, Reject
from schemas.span import Span

DIALECT_5_0 = "5.0"
DIALECTS = ("7.x", DIALECT_5_0)
MAX_TOKEN_BYTES = 16 << 20
MORE_BYTES = 4 << 20
"""What a record may have beside a content of the largest size."""
MIN_TAGS = 10_000
BYTES_A_TAG = 100
"""Bytes of the largest content for which a record may have one more tag."""

Found = Carried | Reject | Filtered | Notice | FeedHeader
"""What a reader may yield; most formats have records and rejects only."""


class Mode(enum.Enum):
    """How a command stream is read: as the deployed parser does, or with repairs."""

    STRICT = "strict"
    LENIENT = "lenient"


class NotFound(enum.Enum):
    """What a retriever's `not-found` becomes."""

    SKIP = "skip"
    DELETE = "delete"


class Docids(msgspec.Struct, frozen=True, kw_only=True):
    """The rule by which doc ids of command streams become urls, and urls doc ids again.

    With a `base_url`, that of the deployed adaptor; with a `template`, which holds `{id}` once,
    percent-encoding in its place; with neither, ids are urls.
    """

    base_url: str | None = None
    template: str | None = None


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Limits and conventions of reading.

    `max_content_bytes` bounds one document when it is decoded. `zone` is the IANA time zone of
    dates that state none. `mode`, `docids`, `not_found` and `max_token_bytes`, the most bytes
    between two delimiters, are for command streams.
    """

    max_content_bytes: int = MAX_CONTENT_BYTES
    zone: str = "UTC"
    mode: Mode = Mode.LENIENT
    docids: Docids = Docids()
    not_found: NotFound = NotFound.SKIP
    max_token_bytes: int = MAX_TOKEN_BYTES

    @property
    def max_unit_bytes(self) -> int:
        """Most bytes of a record as it stands: a content in base64 or with entities, and more."""
        return self.max_content_bytes * 3 // 2 + MORE_BYTES

    @property
    def max_tags(self) -> int:
        """Most tags of a record that is parsed, as each takes about a kilobyte of memory."""
        return max(MIN_TAGS, self.max_content_bytes // BYTES_A_TAG)


class WriteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Conventions of writing; each format takes what concerns it.

    `feed` heads a gsafeed, `dialect` is the release of the feeds protocol that it is written
    for, `zone` the IANA time zone of dates that state none. `docids`, `delimiter` and
    `max_content_bytes`, the bound of a document that is decoded to be written, are for command
    streams. `memberships` says that groups are to be written, where a format holds both.
    """

    feed: Feed = Feed(datasource="default", feedtype="incremental")
    dialect: str = DIALECTS[0]
    zone: str = "UTC"
    docids: Docids = Docids()
    delimiter: str = "\0"
    max_content_bytes: int = MAX_CONTENT_BYTES
    memberships: bool = False


class Reader(Protocol):
    """Yields what a stream holds, in its order; raises FormatError where nothing can be found."""

    def __call__(
        self, stream: IO[bytes], *, span: Span = ..., options: ReadOptions = ...
    ) -> Iterator[Found]: ...


class Cutter(Protocol):
    """Yields spans of about `span_bytes`, end to end, that read as the whole stream would.

    A record that the reader does not take by its options is not looked into by the cutter either.
    """

    def __call__(
        self, stream: IO[bytes], *, source: str, span_bytes: int, options: ReadOptions = ...
    ) -> Iterator[Span]: ...


class Encoder(Protocol):
    """One format's writer, in the pieces of which chunks of an exact size are made.

    A chunk is `prolog()`, then `frame(…)` of each run of encoded records, then `epilog()`; a frame
    is at most `frame_bytes` longer than its records. All of them are stateless.
    """

    extension: str
    frame_bytes: int

    def prolog(self) -> bytes: ...

    def encode(self, record: Any) -> bytes:  # a Record, a Membership, or either
        """Return one record's bytes; raise RecordError if the format cannot hold it."""
        ...

    def frame(self, records: list[bytes]) -> bytes: ...

    def epilog(self) -> bytes: ...


def write_all(encoder: Encoder, records: Iterable[Carried], stream: IO[bytes]) -> None:
    """Write one document of all `records`; the stream stays open."""
    stream.write(encoder.prolog())
    for record in records:
        stream.write(encoder.frame([encoder.encode(record)]))
    stream.write(encoder.epilog())
