"""The kinds of columns: the form of their values."""

import enum
from collections.abc import Sequence
from typing import Any

from feedferry.schemas.record import Encoding


class ColumnKind(enum.Enum):
    """The form of the values in a column.

    Texts, URLs and dates are escaped as in an attribute of XML; names have no quotes. Document ids
    are texts that are no URLs, and parents are URLs without a query and a fragment. Dates are in
    the form of RFC 1123, times are aware moments, and integers are in decimal digits. Contents are
    bytes as they came: text that is escaped as in an element, text of a CDATA section, text of a
    file with any line ends, and base64 of a document or of its zlib stream. Documents are texts of
    a database, not escaped.
    """

    TEXT = "text"
    NAME = "name"
    URL = "url"
    DOCID = "docid"
    PARENT = "parent"
    DATE = "date"
    CONTENT = "content"
    CDATA = "cdata"
    FILE = "file"
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

TEXT_KINDS = (ColumnKind.TEXT, ColumnKind.NAME, ColumnKind.URL, ColumnKind.DOCID)
TEXT_CONTENT_KINDS = (
    ColumnKind.CONTENT,
    ColumnKind.CDATA,
    ColumnKind.FILE,
    ColumnKind.DOCUMENT,
)
CONTENT_KINDS = (*TEXT_CONTENT_KINDS, ColumnKind.BASE64, ColumnKind.ZLIB)
ENCODINGS = {ColumnKind.BASE64: Encoding.BASE64, ColumnKind.ZLIB: Encoding.ZLIB_BASE64}
"""The encodings of the kinds of contents that are encoded."""
