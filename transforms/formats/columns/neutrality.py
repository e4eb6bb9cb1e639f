"""Neutrality: whether the values of a column can be in a batch.

Only *neutral* values are in a batch: texts that every rule and every writer copies. They are not
empty, have no control characters, no white space but blanks inside, no noncharacters, and no
references but those that a writer makes. URLs have a host that an appliance can serve; dates have
the form that is written again.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from schemas.content import check, clean_base64
from schemas.errors import RecordError
from schemas.record import Content, Encoding
from transforms.formats.byte_scans import find, has_controls
from transforms.formats.columns.column_kinds import CONTENT_KINDS, ENCODINGS, Column, ColumnKind
from transforms.formats.dates import parse_date, rfc1123
from transforms.formats.xml_text import holds_bytes

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

_MANY = 4
"""Values that are not neutral are many if they are more than this, and one in this number."""


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
