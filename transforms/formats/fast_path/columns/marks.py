"""Samples of the values of columns: marks, which are in place of values, and real values."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import pybase64
from isal import isal_zlib

from feedferry.transforms.formats.fast_path.columns.cells import plain
from feedferry.transforms.formats.fast_path.columns.column_kinds import (
    CONTENT_KINDS,
    ENCODINGS,
    TEXT_CONTENT_KINDS,
    ColumnKind,
    Values,
)
from feedferry.transforms.formats.fast_path.columns.holes import (
    ContentHole,
    DocidHole,
    EncodedHole,
    ParentHole,
    TextHole,
    UrlHole,
)


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


_ENCODE: dict[ColumnKind, Callable[[bytes], bytes]] = {
    **dict.fromkeys(TEXT_CONTENT_KINDS, lambda data: data),
    ColumnKind.BASE64: pybase64.b64encode,
    ColumnKind.ZLIB: lambda data: pybase64.b64encode(isal_zlib.compress(data)),
}
_BINARY = bytes(range(256)) * 4
_DOCUMENT = "<p>Z\u00fcrich &amp; \u6771\u4eac & \"'\r\n\t</p>" * 9
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
        ColumnKind.FILE: _DOCUMENT.encode(),
        ColumnKind.DOCUMENT: _DOCUMENT,
        **{kind: _ENCODE[kind](_BINARY) for kind in ENCODINGS},
        ColumnKind.TIME: datetime(2020, 2, 29, 23, 59, 59, 999_999, tzinfo=UTC),
        ColumnKind.INTEGER: str(1 << 40),
        ColumnKind.NUMBER: 1 << 40,
    },
)
