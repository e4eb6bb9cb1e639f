"""Neutrality: whether values can be in columns.

Only *neutral* values are in columns: those that every rule and every writer copies. Texts are not
empty, have no control characters, no white space but blanks inside, no noncharacters, and no
references but those that a writer makes. Contents are not empty and not too large. `_TEXTS` and
`_CONTENTS` have what else is true of the values of a kind; numbers and times are always neutral.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from feedferry.schemas.content import CHECKED, check, clean_base64
from feedferry.schemas.errors import RecordError
from feedferry.schemas.record import Content
from feedferry.transforms.formats.fast_path.columns.column_kinds import (
    ENCODINGS,
    Column,
    ColumnKind,
)
from feedferry.transforms.formats.text.byte_scans import count, find, has_any, has_controls
from feedferry.transforms.formats.text.dates import parse_date, rfc1123
from feedferry.transforms.formats.text.xml_text import holds_bytes

_NOT_NEUTRAL = bytes(range(0x20)) + b"<>"
_OTHER_REFERENCE = re.compile(rb"&(?!(?:lt|gt|quot|apos|amp);)")
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


def are_neutral(
    kinds: Sequence[ColumnKind], columns: Sequence[Column], *, max_content_bytes: int = CHECKED
) -> bool:
    """Whether all values of columns are neutral; texts are escaped. Extra kinds are left."""
    pairs = [*zip(kinds, columns, strict=False)]
    texts = [(kind, '"'.join(column), column) for kind, column in pairs if kind in _TEXTS]
    try:
        return (
            _is_neutral('"'.join([text for _, text, _ in texts]))
            and all(all(column) and _TEXTS[kind](text, column) for kind, text, column in texts)
            and all(
                all(column) and _CONTENTS[kind](column, max_content_bytes)
                for kind, column in pairs
                if kind in _CONTENTS
            )
        )
    except UnicodeEncodeError:  # lone surrogates
        return False


def find_not_neutral(
    kinds: Sequence[ColumnKind],
    columns: Sequence[Column],
    *,
    most: int,
    max_content_bytes: int = CHECKED,
) -> set[int]:
    """Return the rows with values that are not neutral; if they are more than `most`, some."""
    rows = set[int]()
    for kind, column in zip(kinds, columns, strict=False):
        for row in _find(kind, column, 0, max_content_bytes):
            rows.add(row)
            if len(rows) > most:
                return rows
    return rows


def _find(kind: ColumnKind, column: Column, begin: int, max_bytes: int) -> Iterator[int]:
    """Yield the rows of values that are not neutral, by checking parts of a column."""
    if are_neutral((kind,), (column,), max_content_bytes=max_bytes):
        return
    if len(column) == 1:
        yield begin
        return
    step = -(-len(column) // _PARTS)
    for at in range(0, len(column), step):
        yield from _find(kind, column[at : at + step], begin + at, max_bytes)


def are_read(kinds: Sequence[ColumnKind], columns: Sequence[Column]) -> bool:
    """Whether a parser returns contents unchanged but for their references; others are left."""
    return all(
        all(map(_READ[kind], column))
        for kind, column in zip(kinds, columns, strict=False)
        if kind in _READ
    )


def _is_neutral(text: str) -> bool:
    """Whether escaped texts with double quotes between them are neutral, if none is empty."""
    utf8 = text.encode()
    return not (
        has_any(utf8, _NOT_NEUTRAL)
        or _has_blank_at_end(utf8)
        or not _has_our_references(utf8)
        or (not text.isascii() and (find(utf8, b"\xef\xbf") >= 0 or _has_other_space(text, utf8)))
    )


def _has_other_space(text: str, utf8: bytes) -> bool:
    """Whether there is white space other than blanks; most languages need no search."""
    has_lead = any([lead in utf8 for lead in _SPACE_LEADS])  # noqa: C419 - faster as a list
    return has_lead and _OTHER_SPACE.search(text) is not None


def _has_blank_at_end(text: bytes) -> bool:
    """Whether a value begins or ends with a blank, of values with a quote between them."""
    is_inside = find(text, b'" ') >= 0 or find(text, b' "') >= 0
    return is_inside or text.startswith(b" ") or text.endswith(b" ")


def _has_our_references(text: bytes) -> bool:
    """Whether all references are those that a writer makes in an attribute."""
    number = count(text, b"&")
    if not number or number == (known := count(text, b"&amp;")):
        return True
    return number == known + sum(text.count(b"&%b;" % name) for name in (b"lt", b"gt", b"quot"))


def _are_urls(text: str, values: Column) -> bool:
    """Whether neutral texts are URLs that an appliance can serve."""
    host = _HOST.match(text)
    if host is not None and text.count(f'"{host[0]}') == len(values) - 1:
        return text.split(None, 1) == [text]  # all have a host that is one, and no blanks
    return _URLS.fullmatch(text + '"') is not None


def _are_parents(text: str, values: Column) -> bool:
    """Whether neutral texts are URLs without a query and a fragment."""
    have_schemes = all(["://" in value for value in values])  # noqa: C419 - faster as a list
    return have_schemes and "?" not in text and "#" not in text


def _are_dates(text: str, values: Column) -> bool:
    """Whether all are dates in the form of RFC 1123, with their own day of the week."""
    if _DATES.fullmatch(text + '"') is None:
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


_TEXTS: Mapping[ColumnKind, Callable[[str, Column], bool]] = {
    ColumnKind.TEXT: lambda _text, _values: True,
    ColumnKind.NAME: lambda text, _values: "&quot;" not in text,
    ColumnKind.URL: _are_urls,
    ColumnKind.DOCID: lambda text, _values: "://" not in text,
    ColumnKind.PARENT: _are_parents,
    ColumnKind.DATE: _are_dates,
    ColumnKind.INTEGER: lambda text, _values: _INTEGERS.fullmatch(text + '"') is not None,
}
"""Whether neutral texts, which are also joined with double quotes, have the form of a kind."""


def _is_escaped_text(text: bytes) -> bool:
    """Whether it is text without markup and with no references but the five of XML."""
    return (
        b"<" not in text
        and find(text, b"]]>") < 0
        and not (b"&" in text and _OTHER_REFERENCE.search(text))
        and _is_section_text(text)
    )


def _is_section_text(text: bytes) -> bool:
    """Whether it is text in the form that a parser returns: without carriage returns."""
    return not has_controls(text) and _is_utf8(text)


def _is_utf8(text: bytes) -> bool:
    """Whether it is UTF-8 without noncharacters."""
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return find(text, b"\xef\xbf\xbe") < 0 and find(text, b"\xef\xbf\xbf") < 0


_READ: Mapping[ColumnKind, Callable[[bytes], bool]] = {
    ColumnKind.CONTENT: _is_escaped_text,
    ColumnKind.CDATA: _is_section_text,
    ColumnKind.BASE64: bytes.isascii,
    ColumnKind.ZLIB: bytes.isascii,
}


def _are_texts(kind: ColumnKind, values: Column, max_bytes: int) -> bool:
    return max(map(len, values)) <= max_bytes and all(map(_READ[kind], values))


def _are_files(values: Column, max_bytes: int) -> bool:
    """Whether XML can hold documents, with any line ends."""
    text = b"\n".join(values)
    return max(map(len, values)) <= max_bytes and holds_bytes(text) and _is_utf8(text)


def _are_documents(values: Column, max_bytes: int) -> bool:
    """Whether XML can hold texts as documents."""
    documents = [*map(str.encode, values)]  # which proves that they are UTF-8
    return max(map(len, documents)) <= max_bytes and holds_bytes(b"\n".join(documents))


def _are_encoded(kind: ColumnKind, values: Column, max_bytes: int) -> bool:
    """Whether base64 is that of whole documents, as it is written."""
    try:
        for value in values:
            if clean_base64(value) is not value:
                return False
            check(Content(value, ENCODINGS[kind]), max_bytes=max_bytes)
    except RecordError:
        return False
    return True


_CONTENTS: Mapping[ColumnKind, Callable[[Column, int], bool]] = {
    ColumnKind.CONTENT: partial(_are_texts, ColumnKind.CONTENT),
    ColumnKind.CDATA: partial(_are_texts, ColumnKind.CDATA),
    ColumnKind.FILE: _are_files,
    ColumnKind.DOCUMENT: _are_documents,
    ColumnKind.BASE64: partial(_are_encoded, ColumnKind.BASE64),
    ColumnKind.ZLIB: partial(_are_encoded, ColumnKind.ZLIB),
}
"""Whether contents, which are not empty, are copied, and have at most a number of bytes."""
