"""The forms of columns: with references and without, as they are read and written."""

import html
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache

from feedferry.schemas.content import to_base64
from feedferry.schemas.record import Content, Encoding
from feedferry.transforms.formats.fast_path.columns.column_kinds import (
    ENCODINGS,
    Column,
    ColumnKind,
)
from feedferry.transforms.formats.text.dates import parse_date
from feedferry.transforms.formats.text.xml_text import IN_ATTRIBUTE, IN_TEXT, escape_bytes

_NUL = "\0"
_CHARS = {b"lt": b"<", b"gt": b">", b"quot": b'"', b"apos": b"'", b"amp": b"&"}  # `amp` is last
_REFERENCE = re.compile(rb"&(lt|gt|quot|apos|amp);")
_REFERENCE_TO_QUOTES = re.compile(rb"&(?:quot|apos);")
_BYTES_A_REFERENCE = 150
"""A text with fewer references for its size is searched once; in others, each kind is replaced."""

_LONG_TEXT = 200

_PLAIN_KINDS = {
    *(ColumnKind.NUMBER, ColumnKind.TIME, ColumnKind.CDATA, ColumnKind.FILE),
    *ENCODINGS,
}

EncodeColumn = Callable[[Column], Column]
"""Returns a column as it is written: as text, or as bytes for a binary format."""

Cells = Mapping[ColumnKind, Sequence[EncodeColumn]]
"""The forms in which a writer writes columns, by their kind; other kinds are not written."""


def of_dates(encode: Callable[[datetime], str | bytes | datetime]) -> EncodeColumn:
    """Return the function that encodes dates; most are stated many times."""

    @lru_cache(maxsize=65_536)
    def encode_date(text: str) -> str | bytes | datetime:
        moment = parse_date(text)
        if moment is None:
            raise ValueError(f"{text!r}; expected a date that a reader has checked")
        return encode(moment)

    return lambda values: [*map(encode_date, values)]


_moments = of_dates(lambda moment: moment)


def values_of(kind: ColumnKind, values: Column) -> Column:
    """Return a column as the values of the fields of records."""
    return _moments(values) if kind is ColumnKind.DATE else plain(kind, values)


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
    ColumnKind.FILE: (_escaped, _in_base64(ColumnKind.FILE)),
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


def utf8_column(kind: ColumnKind, values: Column) -> Column:
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
    if len(text) > _LONG_TEXT * len(texts):  # a copy of many long texts takes longer than calls
        for char, reference in found:
            texts = [each.replace(char, reference) for each in texts]
        return texts
    if text.count(_NUL) >= len(texts):
        table = str.maketrans(dict(references))
        return [part.translate(table) for part in texts]
    for char, reference in found:
        text = text.replace(char, reference)
    return text.split(_NUL)
