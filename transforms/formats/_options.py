"""What a reader and a writer may be told, the same for every format."""

from collections.abc import Iterable, Iterator
from typing import IO, Protocol

import msgspec

from schemas.content import MAX_CONTENT_BYTES
from schemas.feed import Feed
from schemas.record import Record
from schemas.reject import Reject
from schemas.span import Span

DIALECT_5_0 = "5.0"
DIALECTS = ("7.x", DIALECT_5_0)


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Limits and conventions of reading.

    `max_content_bytes` bounds one document when it is decoded. `zone` is the IANA time zone of
    dates that state none.
    """

    max_content_bytes: int = MAX_CONTENT_BYTES
    zone: str = "UTC"


class WriteOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Conventions of writing; each format takes what concerns it.

    `feed` heads a gsafeed, `dialect` is the release of the feeds protocol that it is written
    for, `zone` the IANA time zone of dates that state none.
    """

    feed: Feed = Feed(datasource="default", feedtype="incremental")
    dialect: str = DIALECTS[0]
    zone: str = "UTC"


class Reader(Protocol):
    """Yields what a stream holds, in its order; raises FormatError where nothing can be found."""

    def __call__(
        self, stream: IO[bytes], *, span: Span = ..., options: ReadOptions = ...
    ) -> Iterator[Record | Reject]: ...


class Cutter(Protocol):
    """Yields spans of about `span_bytes`, end to end, that read as the whole stream would."""

    def __call__(self, stream: IO[bytes], *, source: str, span_bytes: int) -> Iterator[Span]: ...


class Encoder(Protocol):
    """One format's writer, in the pieces of which chunks of an exact size are made.

    A chunk is `prolog()`, then `frame(…)` of each run of encoded records, then `epilog()`; a frame
    is at most `frame_bytes` longer than its records. All of them are stateless.
    """

    extension: str
    frame_bytes: int

    def prolog(self) -> bytes: ...

    def encode(self, record: Record) -> bytes:
        """Return one record's bytes; raise RecordError if the format cannot hold it."""
        ...

    def frame(self, records: list[bytes]) -> bytes: ...

    def epilog(self) -> bytes: ...


def write_all(encoder: Encoder, records: Iterable[Record], stream: IO[bytes]) -> None:
    """Write one document of all `records`; the stream stays open."""
    stream.write(encoder.prolog())
    for record in records:
        stream.write(encoder.frame([encoder.encode(record)]))
    stream.write(encoder.epilog())
