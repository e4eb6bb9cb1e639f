"""A span: a part of the input that one worker reads from its beginning to its end."""

import enum
import sys
from collections.abc import Callable
from datetime import date, datetime

import msgspec

from feedferry.schemas.feed import Feed

FIRST = -1
"""The number of a source whose spans come before those of all others."""

_FIVE_DIGITS = 100_000


class FileSignature(msgspec.Struct, frozen=True, kw_only=True):
    """Properties that distinguish versions of a file; unknown ones are None or empty.

    `version` is the version that a server names. `sha256` is known only for files that were copied
    for the run.
    """

    size: int | None = None
    modified_ns: int | None = None
    version: str = ""
    sha256: str = ""


class ElementContext(msgspec.Struct, frozen=True, tag="element"):
    """The start tags of root and group before an element, and the header element, as bytes.

    A `group` that is not empty and does not end in `>` could not be read. End tags get lost in
    damaged feeds, so a group that begins inside a group (`depth` 2) is read as its successor. The
    end tag may not have been lost, so the records after the inner group have a group of their own.
    """

    root: bytes = b""
    header: bytes = b""
    group: bytes = b""
    depth: int = 0


class ContainerHeader(msgspec.Struct, frozen=True, tag="container"):
    """The header of an Avro container, which has the schema of its blocks, by its length.

    The `data` are read from the begin of the file when the span is read: those of many spans would
    take too much memory.
    """

    length: int
    data: bytes = b""


class TokenState(msgspec.Struct, frozen=True, tag="tokens"):
    """The delimiter of a command stream, and whether the position is inside an id-list."""

    delimiter: bytes
    is_in_list: bool


class NamedFiles(msgspec.Struct, frozen=True, tag="files"):
    """The files of a tree that are read, by their keys; other files are not."""

    keys: tuple[str, ...]


class UnreadableFile(msgspec.Struct, frozen=True, tag="unreadable"):
    """A file that could not be read when the inputs were listed: it becomes a reject."""

    code: str
    reason: str


Timestamp = datetime | date | int | str
"""The values of a timestamp column."""


class TimestampType(enum.Enum):
    """The type of a timestamp, which its text does not show."""

    AWARE = "AWARE"
    NAIVE = "NAIVE"
    DATE = "DATE"
    INTEGER = "INTEGER"
    TEXT = "TEXT"


class Watermark(msgspec.Struct, frozen=True, kw_only=True):
    """A timestamp as text, exact to the microsecond, and its type."""

    type: TimestampType
    text: str

    def value(self) -> Timestamp:
        return _PARSERS[self.type](self.text)

    def is_above(self, other: "Watermark") -> bool:
        """Compare two timestamps of one column, whose types can be compared."""
        return bool(self.value() > other.value())  # type: ignore[operator]  # the same type


class RowFilter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which rows a run reads: by timestamp, by key, or by both; without conditions, all rows.

    The values of the column `timestamp` are greater than `above` and at most `upto`, or NULL. The
    `keys` are JSON.
    """

    timestamp: str = ""
    above: Watermark | None = None
    upto: Watermark | None = None
    is_null: bool = False
    keys: tuple[str, ...] = ()


class KeyRange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="rows"):
    """The filtered rows after the key `after`, up to the key `upto`; `None` is no limit.

    With `has_null_keys`, the rows with NULL in the key, which are in no other range. `rows` and
    `size`, in bytes, are estimates. A range of a refresh is sent without comparison to the state,
    whose `secret` signatures are made with.
    """

    after: str | None = None
    upto: str | None = None
    has_null_keys: bool = False
    rows: int = 0
    size: int = 0
    filter: RowFilter = RowFilter()
    is_refresh: bool = False
    secret: str = ""

    @property
    def description(self) -> str:
        if self.has_null_keys:
            return "rows with NULL in the key"
        after = f" after {self.after}" if self.after else ""
        upto = f" up to {self.upto}" if self.upto else ""
        return f"rows{after}{upto}" if after or upto else "all rows"


_PARSERS: dict[TimestampType, Callable[[str], Timestamp]] = {
    TimestampType.AWARE: datetime.fromisoformat,
    TimestampType.NAIVE: datetime.fromisoformat,
    TimestampType.DATE: date.fromisoformat,
    TimestampType.INTEGER: int,
    TimestampType.TEXT: str,
}


Position = ElementContext | ContainerHeader | TokenState | KeyRange | NamedFiles | UnreadableFile
"""The state of a reader where a span begins, or the part of a source that a span has."""


class SpanEnd(msgspec.Struct, frozen=True):
    """The place where a span ends because the next one begins there, and the state there."""

    offset: int
    line: int
    position: Position | None = None


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """A file, or a byte range of a large file that begins and ends between two records.

    `source` is the name that messages show, `path` the place to open, if it differs. `format` is
    the name of a format, or of the kind of span that a source reads. `source_ordinal` numbers the
    sources of a run, `ordinal` the spans of a source, both from 0. `offset` and `length` count
    decompressed bytes; without a `length`, the span ends with the file. `line` counts from 1.

    With a `grid`, the span ends where its reader finds the next border: the first record of XML,
    line or block of Avro that begins at or after the next multiple of `grid`. A record of XML is a
    main one that does not directly follow a fault. The last span ends with the file. Borders depend
    on the bytes only. The `ordinal` of such a span is the number of multiples of `grid` up to its
    begin, so that there may be gaps. Its `length` is not needed to read it.

    `position` is everything else that a worker must know to begin at the span; each format and each
    source has its own type. A span of several small files has them as `members`, and no bytes of
    its own. `feed` is the feed that the file was posted as, `encoding` the encoding of XML that the
    user stated; both override the file. `signature` is that of the file when the run began, or when
    the file was split. A file that is not in its format is a reject; if it `is_only`, the only file
    of the input, it is an error.
    """

    source: str = ""
    path: str = ""
    source_ordinal: int = 0
    format: str = ""
    ordinal: int = 0
    offset: int = 0
    length: int | None = None
    grid: int = 0
    line: int = 1
    position: Position | None = None
    members: tuple["Span", ...] = ()
    feed: Feed | None = None
    encoding: str = ""
    signature: FileSignature | None = None
    is_only: bool = False

    @property
    def name(self) -> str:
        """The name of the span's files; these names sort in the order of the input."""
        return f"{_sortable(self.source_ordinal)}-{_sortable(self.ordinal)}"

    def stop_after(self, offset: int) -> int:
        """Return the next multiple of the grid; without a grid, one that is never reached."""
        return (offset // self.grid + 1) * self.grid if self.grid else sys.maxsize

    def next(self, end: SpanEnd) -> "Span":
        """Return the span after one with a grid, which begins where that one has ended."""
        return msgspec.structs.replace(
            self,
            ordinal=end.offset // self.grid,
            offset=end.offset,
            line=end.line,
            position=end.position,
        )


def _sortable(ordinal: int) -> str:
    """Return text that sorts like the number; more than five digits sort after all others.

    >>> _sortable(FIRST) < _sortable(0) < _sortable(99_999) < _sortable(100_000)
    True
    """
    return f"{ordinal:05d}" if ordinal < _FIVE_DIGITS else f"z{ordinal:012d}"
