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
from collections.abc import (
    Callable,
    Collection,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from typing import Any, TypeVar

import pybase64
from isal import isal_zlib

from schemas.content import check, clean_base64, to_base64
from schemas.errors import RecordError
from schemas.record import Content, Encoding, Record
from transforms.formats.byte_scans import find, has_controls
from transforms.formats.dates import parse_date, rfc1123
from transforms.formats.holes import (
    ContentHole,
    DocidHole,
    EncodedHole,
    InspectedError,
    ParentHole,
    TextHole,
    UrlHole,
)
from transforms.formats.xml_text import IN_ATTRIBUTE, IN_TEXT, escape_bytes, holds_bytes

_NUL = "\0"
_NOT_NEUTRAL = bytes(range(0x20)) + b"<>"
_CHARS = {b"lt": b"<", b"gt": b">", b"quot": b'"', b"apos": b"'", b"amp": b"&"}  # `amp` is last
_REFERENCE = re.compile(rb"&(lt|gt|quot|apos|amp);")
_OTHER_REFERENCE = re.compile(rb"&(?!(?:lt|gt|quot|apos|amp);)")
_REFERENCE_TO_QUOTES = re.compile(rb"&(?:quot|apos);")
_BYTES_A_REFERENCE = 150
"""A text with fewer references for its size is searched once; in others, each kind is replaced."""
_OTHER_SPACE = re.compile(r"[^\S ]")
_SPACE_LEADS = (b"\xc2", b"\xe1", b"\xe2", b"\xe3")
"""The first bytes of white space that is not ASCII, in UTF-8."""

_URLS = re.compile(
    r'(?:(?:https?://(?![0-9.]+[:/?#"])[^./?#\[\s"]+\.[^/?#:\s"]|(?!http)[a-z][a-z0-9+.-]*://[^\s"])'
    r'[^\s"]*")*'
)
_HOST = re.compile(r'https?://(?![0-9.]+[:/?#"])[^./?#\[\s"]+\.[^/?#:\s"][^/?#\s"]*/')
"""The begin of a URL up to the slash after a host that an appliance can serve."""

_DATES = re.compile(
    r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), [0-3]\d"
    r" (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
    r' \d{4} (?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d GMT")*',
    re.ASCII,
)
_INTEGERS = re.compile(r'(?:(?:0|[1-9]\d{0,17})")*', re.ASCII)
_MIDNIGHT = "00:00:00 GMT"
_DAY_LENGTH = -len(_MIDNIGHT)
_MAX_DAYS = 50_000
_PARTS = 8
"""Into how many parts a column is divided that has a value that is not neutral."""

_MANY = 4
"""Values that are not neutral are many if they are more than this, and one in this number."""


class ColumnKind(enum.Enum):
    """The form of the values in a column.

    Texts, URLs and dates are escaped as in an attribute of XML; names have no quotes. Document ids
    are texts that are no URLs, and parents are URLs without a query and a fragment. Dates are in
    the form of RFC 1123, times are aware moments, and integers are in decimal digits. Contents are
    bytes as they came: text that is escaped as in an element, text of a CDATA section or a file,
    and base64 of a document or of its zlib stream. Documents are texts of a database, not escaped.
    """

    TEXT = "text"
    NAME = "name"
    URL = "url"
    DOCID = "docid"
    PARENT = "parent"
    DATE = "date"
    CONTENT = "content"
    CDATA = "cdata"
    DOCUMENT = "document"
    BASE64 = "base64"
    ZLIB = "zlib"
    TIME = "time"
    INTEGER = "integer"
    NUMBER = "number"

    __hash__ = object.__hash__  # kinds are keys everywhere; that of Enum is written in Python


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
    """The common part of the records of a batch: how one is made, and the kinds of columns.

    There is no model if `make` looks at values of columns; it may parse dates. `plans` are those of
    the converters that have seen the shape; it is None if the records go one by one.
    """

    def __init__(self, make: MakeRecord, kinds: Sequence[ColumnKind]) -> None:
        self.make = make
        self.kinds = tuple(kinds)
        self.plans: dict[tuple[object, ...], object] = {}

    @cached_property
    def _model(self) -> Record | None:
        with suppress(InspectedError):
            return self.make([hole(kind, number) for number, kind in enumerate(self.kinds)])
        return None

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
        kinds = (ColumnKind.URL, ColumnKind.DOCID)
        return next(at for at, kind in enumerate(self.kinds) if kind in kinds)


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

    def first(self) -> "Columns":
        """Return the first record, with 1 in place of a number that was not asked for."""
        return Columns(self.shape, [[1] if callable(c) else c[:1] for c in self._columns], 1)

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

    @classmethod
    def of(cls, groups: Sequence[tuple[Columns, Sequence[int]]]) -> "RecordBatch":
        """Return the records of groups, with the places that they have in the batch."""
        order = [0] * sum(len(places) for _, places in groups)
        for number, (_, places) in enumerate(groups[1:], start=1):
            for place in places:
                order[place] = number
        return cls([columns for columns, _ in groups], order)

    def __iter__(self) -> Iterator[Record]:
        records = [iter(group) for group in self.groups]
        return (next(records[number]) for number in self.order)

    @property
    def content_bytes(self) -> int:
        """The size of the contents of all records."""
        columns = (
            _utf8_column(kind, group.column(at))
            for group in self.groups
            for at, kind in enumerate(group.shape.kinds)
            if kind in CONTENT_KINDS
        )
        return sum(len(content) for column in columns for content in column)

    def parts(self, max_records: int, alone: Collection[int] = ()) -> Iterator["RecordBatch"]:
        """Yield batches of at most `max_records`; the records at some places are in their own."""
        count = len(self.order)
        if count <= max_records and not alone:
            yield self
            return
        begins = [0] * len(self.groups)
        ends = {*range(0, count, max_records), count, *alone, *(place + 1 for place in alone)}
        for begin, after in pairwise(sorted(ends)):
            order = self.order[begin:after]
            numbers = sorted(set(order))
            groups = []
            for number in numbers:
                end = begins[number] + order.count(number)
                groups.append(self.groups[number].part(begins[number], end))
                begins[number] = end
            numbered = {number: at for at, number in enumerate(numbers)}
            yield RecordBatch(groups, [*map(numbered.__getitem__, order)])


Item = TypeVar("Item")


def singly(results: Iterable[Item | RecordBatch]) -> Iterator[Item | Record]:
    """Yield results in their order, the records of a batch in place of the batch."""
    for result in results:
        if isinstance(result, RecordBatch):
            yield from result
        else:
            yield result


@lru_cache(maxsize=4096)
def hole(kind: ColumnKind, number: int) -> object:
    """Return the value of a column in a model; no two are alike."""
    text = f"~hole-{number:04}~"
    if kind in CONTENT_KINDS:
        data = _ENCODE[kind](text.encode())
        return EncodedHole(data) if kind in ENCODINGS else ContentHole(data)
    holes = {
        ColumnKind.URL: UrlHole(f"http://hole-{number:04}.example.com/~"),
        ColumnKind.DOCID: DocidHole(text),
        ColumnKind.PARENT: ParentHole(f"http://hole-{number:04}.example.com/~"),
        ColumnKind.DATE: f"Fri, 03 Apr 1998 07:{number // 60:02}:{number % 60:02} GMT",
        ColumnKind.TIME: datetime(1998, 4, 3, 8, number // 60, number % 60, tzinfo=UTC),
        ColumnKind.INTEGER: str(0x1ACE_5EED_0000 + number),
        ColumnKind.NUMBER: 0x1ACE_5EED_0000 + number,
    }
    return holes.get(kind, TextHole(text))


def stated(value: object) -> Any:  # a value of any column
    """Return the value of a hole."""
    if isinstance(value, bytes):
        return bytes(value)
    return str.__str__(value) if isinstance(value, str) else value


def mark(kind: ColumnKind, number: int) -> object:
    """Return the value of a hole as it is in a column."""
    value = stated(hole(kind, number))
    return value.decode() if kind is ColumnKind.DOCUMENT else value


@lru_cache(maxsize=256)
def variants(kinds: tuple[ColumnKind, ...]) -> list[tuple[Values, Values]]:
    """Return rows of real values, escaped and plain: short ones, and long ones with references."""
    short, _ = _VARIANTS
    rows = [
        [texts[kind] for kind in kinds] for texts in (*_VARIANTS, {**short, ColumnKind.NUMBER: 1})
    ]
    return [
        (row, [plain(kind, [value])[0] for kind, value in zip(kinds, row, strict=True)])
        for row in rows
    ]


TEXT_KINDS = (ColumnKind.TEXT, ColumnKind.NAME, ColumnKind.URL, ColumnKind.DOCID)
_TEXT_CONTENT_KINDS = (ColumnKind.CONTENT, ColumnKind.CDATA, ColumnKind.DOCUMENT)
CONTENT_KINDS = (*_TEXT_CONTENT_KINDS, ColumnKind.BASE64, ColumnKind.ZLIB)
ENCODINGS = {ColumnKind.BASE64: Encoding.BASE64, ColumnKind.ZLIB: Encoding.ZLIB_BASE64}
"""The encodings of the kinds of contents that are encoded."""

_PLAIN_KINDS = {ColumnKind.NUMBER, ColumnKind.TIME, ColumnKind.CDATA, *ENCODINGS}
_ENCODE: dict[ColumnKind, Callable[[bytes], bytes]] = {
    **dict.fromkeys(_TEXT_CONTENT_KINDS, lambda data: data),
    ColumnKind.BASE64: pybase64.b64encode,
    ColumnKind.ZLIB: lambda data: pybase64.b64encode(isal_zlib.compress(data)),
}
_BINARY = bytes(range(256)) * 4
_VARIANTS: tuple[dict[ColumnKind, object], ...] = (
    {
        ColumnKind.TEXT: "v",
        ColumnKind.NAME: "n",
        ColumnKind.URL: "http://h.x/",
        ColumnKind.DOCID: "d",
        ColumnKind.PARENT: "http://h.x/p",
        ColumnKind.DATE: "Thu, 01 Jan 1970 00:00:00 GMT",
        **{kind: _ENCODE[kind](b"c") for kind in CONTENT_KINDS},
        ColumnKind.DOCUMENT: "c",
        ColumnKind.TIME: datetime(1970, 1, 1, tzinfo=UTC),
        ColumnKind.INTEGER: "0",
        ColumnKind.NUMBER: 0,
    },
    {
        ColumnKind.TEXT: "Z\u00fcrich &amp; \u6771\u4eac &lt;b&gt; &quot;" + "x" * 300,
        ColumnKind.NAME: "EXAMPLE\\Z\u00fcrich &amp; \u6771\u4eac &lt;b&gt; '" + "x" * 300,
        ColumnKind.URL: "https://other.example.org:8080/a%20b?x=1&amp;y=\u00fc#f" + "/z" * 150,
        ColumnKind.DOCID: "/Z\u00fcrich %20 &amp; \u6771\u4eac &lt;b&gt; &quot;" + "/x" * 150,
        ColumnKind.PARENT: "smb://other.example.org/a%20b/&amp;y=\u00fc &lt;&quot;" + "/z" * 150,
        ColumnKind.DATE: "Sat, 29 Feb 2020 23:59:59 GMT",
        ColumnKind.CONTENT: (
            "&lt;p>Z\u00fcrich &amp;amp; \u6771\u4eac &gt; \"' &quot;\n\t&lt;/p>" * 9
        ).encode(),
        ColumnKind.CDATA: ("<p>Z\u00fcrich &amp; \u6771\u4eac & \"'\n\t</p>" * 9).encode(),
        ColumnKind.DOCUMENT: "<p>Z\u00fcrich &amp; \u6771\u4eac & \"'\r\n\t</p>" * 9,
        **{kind: _ENCODE[kind](_BINARY) for kind in ENCODINGS},
        ColumnKind.TIME: datetime(2020, 2, 29, 23, 59, 59, 999_999, tzinfo=UTC),
        ColumnKind.INTEGER: str(1 << 40),
        ColumnKind.NUMBER: 1 << 40,
    },
)


def of_dates(encode: Callable[[datetime], str | bytes]) -> EncodeColumn:
    """Return the function that encodes dates; most are stated many times."""

    @lru_cache(maxsize=65_536)
    def encode_date(text: str) -> str | bytes:
        moment = parse_date(text)
        if moment is None:
            raise ValueError(f"{text!r}; expected a date that a reader has checked")
        return encode(moment)

    return lambda values: [*map(encode_date, values)]


def as_stated(values: Column) -> Column:
    """Return a column for an attribute of XML."""
    return values


def _escaped_again(values: Column) -> Column:
    """Return contents as character data of an element as our writers escape it."""
    return [_written_text(value) for value in values]


def _written_text(text: bytes) -> bytes:
    if _REFERENCE_TO_QUOTES.search(text):
        text = text.replace(b"&quot;", b'"').replace(b"&apos;", b"'")
    return text.replace(b">", b"&gt;")


def _escaped(values: Column) -> Column:
    return [*map(escape_bytes, values)]


def _escaped_documents(values: Column) -> Column:
    return escaped(values, IN_TEXT)


def _in_base64(kind: ColumnKind) -> EncodeColumn:
    """Return the function that encodes documents of any kind in base64."""
    encoding = ENCODINGS.get(kind, Encoding.NONE)
    return lambda values: [to_base64(Content(data, encoding)) for data in plain(kind, values)]


CONTENT_CELLS: Cells = {
    ColumnKind.CONTENT: (_escaped_again, _in_base64(ColumnKind.CONTENT)),
    ColumnKind.CDATA: (_escaped, _in_base64(ColumnKind.CDATA)),
    ColumnKind.DOCUMENT: (_escaped_documents, _in_base64(ColumnKind.DOCUMENT)),
    ColumnKind.BASE64: (as_stated,),
    ColumnKind.ZLIB: (as_stated, _in_base64(ColumnKind.ZLIB)),
}
"""The forms of contents in XML."""


def plain(kind: ColumnKind, values: Column) -> Column:
    """Return a column without references, as the values of records."""
    if kind in _PLAIN_KINDS:
        return values
    if kind is ColumnKind.CONTENT:
        return [_plain_text(value) for value in values]
    if kind is ColumnKind.DOCUMENT:
        return [*map(str.encode, values)]
    return unescaped(values)


def _utf8_column(kind: ColumnKind, values: Column) -> Column:
    """Return contents as documents, or several as one."""
    return ["".join(values).encode()] if kind is ColumnKind.DOCUMENT else plain(kind, values)


def _plain_text(text: bytes) -> bytes:
    count = text.count(b"&")
    if count * _BYTES_A_REFERENCE < len(text):
        return _REFERENCE.sub(lambda match: _CHARS[match[1]], text) if count else text
    for name, char in _CHARS.items():
        text = text.replace(b"&%b;" % name, char)
    return text


def unescaped(values: Column) -> Column:
    """Return texts without their references, which are at most the five of XML."""
    text = '"'.join(values)  # the one character that no escaped value has
    if "&" not in text:
        return values
    if text.count("&") == text.count("&amp;"):
        return text.replace("&amp;", "&").split('"')
    return [html.unescape(value) if "&" in value else value for value in values]


def unescaped_utf8(values: Column) -> list[bytes]:
    """Return texts without their references, as UTF-8."""
    text = '"'.join(values)
    count = text.count("&")
    if not count or count == text.count("&amp;"):
        return text.replace("&amp;", "&").encode().split(b'"')
    return [*map(str.encode, unescaped(values))]


def escaped(
    texts: Sequence[str], references: Sequence[tuple[str, str]] = IN_ATTRIBUTE
) -> Sequence[str]:
    """Return texts as they are escaped in XML, with references for an attribute or for text."""
    text = _NUL.join(texts)
    found = [pair for pair in references if pair[0] in text]  # ten times as fast as a replace
    if not found:
        return texts
    if text.count(_NUL) >= len(texts):
        table = str.maketrans(dict(references))
        return [part.translate(table) for part in texts]
    for char, reference in found:
        text = text.replace(char, reference)
    return text.split(_NUL)


Key = TypeVar("Key", bound=Hashable)


def grouped(
    keys: Sequence[Key], columns: Sequence[Column]
) -> Iterator[tuple[Key, Sequence[int], list[Column]]]:
    """Yield each key with the places of its records, and with the columns of these records."""
    if keys.count(keys[0]) == len(keys):
        yield keys[0], range(len(keys)), [*columns]
        return
    groups: dict[Key, list[int]] = {}
    for place, key in enumerate(keys):
        groups.setdefault(key, []).append(place)
    for key, places in groups.items():
        yield key, places, [[column[place] for place in places] for column in columns]


def are_neutral(values: Sequence[str]) -> bool:
    """Whether escaped texts are neutral."""
    text = '"'.join(values)
    utf8 = text.encode()
    return not (
        not all(values)
        or not values
        or len(utf8.translate(None, _NOT_NEUTRAL)) != len(utf8)
        or (" " in text and _has_blank_at_end(text))
        or not _has_our_references(text)
        or (not text.isascii() and (b"\xef\xbf" in utf8 or _has_other_space(text, utf8)))
    )


def _has_other_space(text: str, utf8: bytes) -> bool:
    """Whether there is white space other than blanks; most languages need no search."""
    has_lead = any([lead in utf8 for lead in _SPACE_LEADS])  # noqa: C419 - faster as a list
    return has_lead and _OTHER_SPACE.search(text) is not None


def _has_blank_at_end(text: str) -> bool:
    """Whether a value begins or ends with a blank, of values with a quote between them."""
    return '" ' in text or ' "' in text or text[0] == " " or text[-1] == " "


def _has_our_references(text: str) -> bool:
    """Whether all references are those that a writer makes in an attribute."""
    count = text.count("&")
    if not count or count == (known := text.count("&amp;")):
        return True
    return count == known + text.count("&lt;") + text.count("&gt;") + text.count("&quot;")


def has_neutral_columns(
    kinds: Sequence[ColumnKind], columns: Sequence[Column], *, max_content_bytes: int
) -> bool:
    """Whether neutral texts are URLs, dates, integers and names where a record needs them.

    Contents must not be empty, and can be copied. Extra kinds are left.
    """
    return all(
        (kind is not ColumnKind.URL or are_urls(column))
        and (kind is not ColumnKind.DOCID or are_docids(column))
        and (kind is not ColumnKind.PARENT or are_parents(column))
        and (kind is not ColumnKind.DATE or are_dates(column))
        and (kind is not ColumnKind.INTEGER or _INTEGERS.fullmatch('"'.join(column) + '"'))
        and (kind is not ColumnKind.NAME or "&quot;" not in '"'.join(column))
        and (kind not in CONTENT_KINDS or _are_clean(kind, column, max_content_bytes))
        for kind, column in zip(kinds, columns, strict=False)
    )


def find_not_neutral(
    kinds: Sequence[ColumnKind], columns: Sequence[Column], *, max_content_bytes: int
) -> set[int] | None:
    """Return the rows with values that are not neutral, None if a column has many.

    The check of a column stops at the first part with many, so that it costs little.
    """
    rows = set[int]()
    for kind, column in zip(kinds, columns, strict=False):
        is_neutral = partial(_is_neutral_column, kind, max_content_bytes)
        for number, row in enumerate(_find_others(column, is_neutral)):
            if number > _MANY + row // _MANY:
                return None
            rows.add(row)
    return rows


def _is_neutral_column(kind: ColumnKind, max_content_bytes: int, column: Column) -> bool:
    return (kind in CONTENT_KINDS or are_neutral(column)) and has_neutral_columns(
        [kind], [column], max_content_bytes=max_content_bytes
    )


def _find_others(
    column: Column, is_neutral: Callable[[Column], bool], begin: int = 0
) -> Iterator[int]:
    """Yield the rows of values that are not neutral, by checking parts of a column."""
    if is_neutral(column):
        return
    if len(column) == 1:
        yield begin
        return
    step = -(-len(column) // _PARTS)
    for at in range(0, len(column), step):
        yield from _find_others(column[at : at + step], is_neutral, begin + at)


def are_read(kinds: Sequence[ColumnKind], columns: Sequence[Column]) -> bool:
    """Whether a parser returns contents unchanged but for their references; others are left."""
    return all(
        all(map(_READ[kind], column))
        for kind, column in zip(kinds, columns, strict=False)
        if kind in _READ
    )


def _are_clean(kind: ColumnKind, values: Sequence[bytes], max_bytes: int) -> bool:
    """Whether contents are read, and base64 is that of whole documents, as it is written."""
    encoding = ENCODINGS.get(kind, Encoding.NONE)
    try:
        for value in values:
            check(Content(value, encoding), max_bytes=max_bytes)
            if not value or (
                clean_base64(value) is not value if kind in ENCODINGS else not _READ[kind](value)
            ):
                return False
    except RecordError:
        return False
    return True


def _is_escaped_text(text: bytes) -> bool:
    """Whether it is text without markup and with no references but the five of XML."""
    return (
        b"<" not in text
        and find(text, b"]]>") < 0
        and not (b"&" in text and _OTHER_REFERENCE.search(text))
        and _is_text(text)
    )


def _is_text(text: bytes) -> bool:
    return not has_controls(text) and _is_utf8(text)


def is_document_text(text: bytes) -> bool:
    """Whether a document is text that XML can hold, with any line ends."""
    return holds_bytes(text) and _is_utf8(text)


def _is_utf8(text: bytes) -> bool:
    """Whether it is UTF-8 without noncharacters."""
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return b"\xef\xbf\xbe" not in text and b"\xef\xbf\xbf" not in text


_READ: dict[ColumnKind, Callable[[bytes], bool]] = {
    ColumnKind.CONTENT: _is_escaped_text,
    ColumnKind.CDATA: _is_text,
    ColumnKind.BASE64: bytes.isascii,
    ColumnKind.ZLIB: bytes.isascii,
}


def are_urls(values: Sequence[str]) -> bool:
    """Whether neutral texts are URLs that an appliance can serve."""
    text = '"'.join(values)
    host = _HOST.match(text)
    if host is not None and text.count(f'"{host[0]}') == len(values) - 1:
        return text.split(None, 1) == [text]  # all have a host that is one, and no blanks
    return _URLS.fullmatch(text + '"') is not None


def are_docids(values: Sequence[str]) -> bool:
    """Whether neutral texts have no scheme of a URL."""
    return "://" not in '"'.join(values)


def are_parents(values: Sequence[str]) -> bool:
    """Whether neutral texts are URLs without a query and a fragment."""
    text = '"'.join(values)
    have_schemes = all(["://" in value for value in values])  # noqa: C419 - faster as a list
    return have_schemes and "?" not in text and "#" not in text


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
