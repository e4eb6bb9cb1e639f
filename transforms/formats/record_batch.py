"""Records that are alike, in columns: one value for each record in place of a record for each.

A reader that finds many records with the same markup and the same constants makes a `Shape` of
them, once, and a `RecordBatch` of each run. The converter encodes a batch by the plan of its shape;
everyone else iterates over it and gets the records.

Only *neutral* values are in a batch: texts that every rule and every writer copies. They are not
empty, have no control characters, no white space but blanks inside, no noncharacters, and no
references but those that a writer makes. URLs have a host that an appliance can serve; dates have
the form that is written again.
"""

import enum
import html
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pybase64

from schemas.record import Record
from transforms.formats.dates import parse_date, rfc1123
from transforms.formats.holes import ContentHole, InspectedError, TextHole, UrlHole

_NOT_NEUTRAL = bytes(range(0x20)) + b"<>"
_NOT_CONTENT = bytes({*range(0x20)} - {0x09, 0x0A}) + b"<"
_REFERENCES = (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&apos;", "'"), ("&amp;", "&"))
_OTHER_SPACE = re.compile(r"[^\S ]")
_URLS = re.compile(
    r'(?:(?:https?://(?![0-9.]+[:/?#"])[^./?#\[\s"]+\.[^/?#:\s"]|(?!http)[a-z][a-z0-9+.-]*://[^\s"])'
    r'[^\s"]*")*'
)
_DATES = re.compile(
    r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), [0-3]\d"
    r" (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
    r' \d{4} (?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d GMT")*',
    re.ASCII,
)
_MIDNIGHT = "00:00:00 GMT"
_DAY_LENGTH = -len(_MIDNIGHT)
_MAX_DAYS = 50_000


class ColumnKind(enum.Enum):
    """The form of the values in a column.

    Texts, URLs and dates are escaped as in an attribute of XML, contents as in an element. Dates
    are in the form of RFC 1123.
    """

    TEXT = "text"
    URL = "url"
    DATE = "date"
    CONTENT = "content"
    NUMBER = "number"


Column = Sequence[Any]
"""Texts, contents or numbers."""

Values = Sequence[Any]
"""A value of each column, without references."""

MakeRecord = Callable[[Values], Record]

EncodeColumn = Callable[[Column], Column]
"""Returns a column as it is written: as text, or as bytes for a binary format."""

Cells = Mapping[ColumnKind, Sequence[EncodeColumn]]
"""The forms in which a writer writes columns, by their kind; other kinds are not written."""


class Shape:
    """What the records of a batch share: the function that makes one, and the kinds of columns.

    There is no model if `make` looks at values of columns; it may parse dates. `plans` are those of
    the converters that have seen the shape; it is None if the records go one by one.
    """

    def __init__(self, make: MakeRecord, kinds: Sequence[ColumnKind]) -> None:
        self.make = make
        self.kinds = tuple(kinds)
        self._model: Record | None = None
        with suppress(InspectedError):
            self._model = make([hole(kind, number) for number, kind in enumerate(kinds)])
        self.plans: dict[tuple[object, ...], object] = {}

    @property
    def has_model(self) -> bool:
        return self._model is not None

    @property
    def model(self) -> Record:
        """The record with a hole in each column."""
        if self._model is None:
            raise AssertionError("a shape without a model in a batch")
        return self._model

    @property
    def url_at(self) -> int:
        return self.kinds.index(ColumnKind.URL)


class Columns:
    """Records of one shape, in the order of the source; `count` is at least 1.

    A column may be a function that returns it: positions are only computed for those who ask.
    """

    __slots__ = ("_columns", "count", "shape")

    def __init__(
        self, shape: Shape, columns: Iterable[Column | Callable[[], Column]], count: int
    ) -> None:
        self.shape = shape
        self._columns = [*columns]
        self.count = count

    def column(self, at: int) -> Column:
        """Return the values of a column."""
        column = self._columns[at]
        if callable(column):
            column = self._columns[at] = column()
        return column

    def part(self, begin: int, end: int | None) -> "Columns":
        """Return some of the records, at least one."""
        columns = [self.column(at)[begin:end] for at in range(len(self._columns))]
        return Columns(self.shape, columns, len(columns[0]))

    def __iter__(self) -> Iterator[Record]:
        columns = [plain(kind, self.column(at)) for at, kind in enumerate(self.shape.kinds)]
        return map(self.shape.make, zip(*columns, strict=True))


class RecordBatch:
    """Records of a few shapes: the columns of each, and for each record the number of its shape."""

    __slots__ = ("groups", "order")

    def __init__(self, groups: Sequence[Columns], order: Sequence[int]) -> None:
        self.groups = groups
        self.order = order

    def __iter__(self) -> Iterator[Record]:
        records = [iter(group) for group in self.groups]
        return (next(records[number]) for number in self.order)

    def parts(self, max_records: int) -> Iterator["RecordBatch"]:
        """Yield batches of at most `max_records`."""
        if len(self.order) <= max_records:
            yield self
            return
        begins = [0] * len(self.groups)
        for begin in range(0, len(self.order), max_records):
            order = self.order[begin : begin + max_records]
            numbers = sorted(set(order))
            groups = []
            for number in numbers:
                end = begins[number] + order.count(number)
                groups.append(self.groups[number].part(begins[number], end))
                begins[number] = end
            yield RecordBatch(groups, [numbers.index(number) for number in order])


def hole(kind: ColumnKind, number: int) -> object:
    """Return the value of a column in a model; no two are alike or occur in other texts."""
    if kind is ColumnKind.URL:
        return UrlHole(f"http://hole-{number:04}.example.com/~")
    if kind is ColumnKind.DATE:
        return f"Fri, 03 Apr 1998 07:{number // 60:02}:{number % 60:02} GMT"
    if kind is ColumnKind.NUMBER:
        return 0x1ACE_5EED_0000 + number
    text = f"~hole-{number:04}~"
    return ContentHole(text.encode()) if kind is ColumnKind.CONTENT else TextHole(text)


def variants(kinds: Sequence[ColumnKind]) -> Iterator[Values]:
    """Yield rows of real values, escaped: short ones, and long ones with references."""
    for texts in _VARIANTS:
        yield [texts[kind] for kind in kinds]


_VARIANTS: tuple[dict[ColumnKind, object], ...] = (
    {
        ColumnKind.TEXT: "v",
        ColumnKind.URL: "http://h.x/",
        ColumnKind.DATE: "Thu, 01 Jan 1970 00:00:00 GMT",
        ColumnKind.CONTENT: "c",
        ColumnKind.NUMBER: 0,
    },
    {
        ColumnKind.TEXT: "Zürich &amp; 東京 &lt;b&gt; &quot;" + "x" * 300,
        ColumnKind.URL: "https://other.example.org:8080/a%20b?x=1&amp;y=ü#f" + "/z" * 150,
        ColumnKind.DATE: "Sat, 29 Feb 2020 23:59:59 GMT",
        ColumnKind.CONTENT: "&lt;p>Z\u00fcrich &amp;amp; \u6771\u4eac &gt; \"' &quot;\n\t&lt;/p>"
        * 9,
        ColumnKind.NUMBER: 1 << 40,
    },
)


def as_stated(values: Column) -> Column:
    """Return a column for an attribute of XML."""
    return values


def escaped_contents(values: Column) -> list[str]:
    """Return contents as character data of an element as our writers escape it."""
    return [_written_text(value) for value in values]


def _written_text(value: str | bytes) -> str:
    text = value if isinstance(value, str) else bytes.decode(value)
    if "&quot;" in text or "&apos;" in text:
        text = text.replace("&quot;", '"').replace("&apos;", "'")
    return text.replace(">", "&gt;")


def base64_contents(values: Column) -> list[str]:
    """Return contents in base64."""
    return [pybase64.b64encode(value).decode() for value in contents_of(values)]


def plain(kind: ColumnKind, values: Column) -> Column:
    """Return a column without references, as the values of records."""
    if kind is ColumnKind.NUMBER:
        return values
    return contents_of(values) if kind is ColumnKind.CONTENT else unescaped(values)


def contents_of(values: Column) -> list[bytes]:
    """Return contents as bytes, without references; a hole stays as it is."""
    return [value if isinstance(value, bytes) else _plain_text(value).encode() for value in values]


def _plain_text(text: str) -> str:
    if "&" in text:
        for reference, char in _REFERENCES:
            text = text.replace(reference, char)
    return text


def unescaped(values: Column) -> Column:
    """Return texts without their references, which are at most the five of XML."""
    text = '"'.join(values)  # the one character that no escaped value has
    if "&" not in text:
        return values
    if text.count("&") == text.count("&amp;"):
        return text.replace("&amp;", "&").split('"')
    return [html.unescape(value) if "&" in value else value for value in values]


def are_neutral(values: Sequence[str]) -> bool:
    """Whether escaped texts are neutral."""
    text = '"'.join(values)
    utf8 = text.encode()
    return not (
        len(utf8.translate(None, _NOT_NEUTRAL)) != len(utf8)
        or '""' in text
        or '" ' in text
        or ' "' in text
        or text[:1] in ("", " ", '"')
        or text[-1] in ' "'
        or not _has_our_references(text)
        or (not text.isascii() and (b"\xef\xbf" in utf8 or _OTHER_SPACE.search(text)))
    )


def _has_our_references(text: str) -> bool:
    """Whether all references are those that a writer makes in an attribute."""
    count = text.count("&")
    if not count or count == (known := text.count("&amp;")):
        return True
    return count == known + text.count("&lt;") + text.count("&gt;") + text.count("&quot;")


def has_neutral_columns(kinds: Sequence[ColumnKind], columns: Sequence[Column]) -> bool:
    """Whether neutral texts are URLs and dates where a record needs them; extra kinds are left."""
    return all(
        (kind is not ColumnKind.URL or are_urls(column))
        and (kind is not ColumnKind.DATE or are_dates(column))
        and (kind is not ColumnKind.CONTENT or (are_contents(column) and all(column)))
        for kind, column in zip(kinds, columns, strict=False)
    )


def are_contents(values: Sequence[str]) -> bool:
    """Whether character data is text that a parser returns unchanged but for its references."""
    text = "\n".join(values)
    utf8 = text.encode()
    return (
        len(utf8.translate(None, _NOT_CONTENT)) == len(utf8)
        and "]]>" not in text
        and text.count("&") == sum(text.count(reference) for reference, _ in _REFERENCES)
        and (text.isascii() or b"\xef\xbf" not in utf8)
    )


def are_urls(values: Sequence[str]) -> bool:
    """Whether neutral texts are URLs that an appliance can serve."""
    return _URLS.fullmatch('"'.join(values) + '"') is not None


def are_dates(values: Sequence[str]) -> bool:
    """Whether all are dates in the form of RFC 1123, with their own day of the week."""
    if _DATES.fullmatch('"'.join(values) + '"') is None:
        return False
    days = {value[:_DAY_LENGTH] for value in values} - _known_days
    if any(_written_again(day + _MIDNIGHT) != day + _MIDNIGHT for day in days):
        return False
    if len(_known_days) > _MAX_DAYS:
        _known_days.clear()
    _known_days.update(days)
    return True


_known_days: set[str] = set()


def _written_again(text: str) -> str | None:
    moment = parse_date(text)
    return None if moment is None else rfc1123(moment)
