"""Read Items without a parser if their markup was seen before.

The parser reads one Item of each shape, with marks in place of the values that differ from Item to
Item. Where the marks come out in its record, the other records of the shape have values of their
own. Items with real values prove it. So no rule of the parser's way is written again.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from schemas.errors import RecordError
from schemas.record import Record
from schemas.span import ElementContext
from transforms.formats.base import ReadOptions
from transforms.formats.dates import parse_date, rfc1123
from transforms.formats.record_batch import (
    Column,
    ColumnKind,
    Values,
    hole,
    plain_row,
    stated,
    variants,
)
from transforms.formats.thunderstone.rows import item_rows
from transforms.formats.xml.element_runs import (
    FREQUENT,
    ElementRuns,
    MarkupPieces,
    MarkupTemplate,
    RunShape,
    ShapeKey,
)

FREE_ELEMENTS = {
    **dict.fromkeys(("Title", "Keywords", "Description", "Meta", "Category"), ColumnKind.TEXT),
    **dict.fromkeys(("Size", "Depth", "Views", "Clicks", "Pop"), ColumnKind.INTEGER),
    **dict.fromkeys(("Visited", "Modified", "NextCheck"), ColumnKind.DATE),
    "Url": ColumnKind.URL,
    "value": ColumnKind.TEXT,
}
"""The elements that differ from Item to Item, and the kinds of their columns.

So do elements of a namespace: additional fields.
"""

_CONTENTS = {"Body": ColumnKind.CONTENT, "RawData": ColumnKind.BASE64}
_ITEM = re.compile(r"<Item[\s>]")
_NESTED = re.compile(r"<(?:Refs|Errors)\b")
"""Documents with the URL of their Item: what they mean depends on a value."""

_LEAF = re.compile(r"<([^<>/?!][^<>]*(?<!/))>([^<]*)</")
_TEXT, _PAIR, _NAMELESS = "\0", "\1", "\2"
_VALUES = {_TEXT: "([^<]*)", _PAIR: r"([^<\n]*)", _NAMELESS: r"((?:(?!: )[^<\n])*)"}
"""What is in place of a value in a markup, and how it is found: that of a Meta ends with a line."""

_VALUE = re.compile(f"([{''.join(_VALUES)}])")
_NAMES = re.compile(r"<([^<>]*)>([^<]*)</")
_BLANKS = " \t\r\n"
_END = "</Item>"
_RECENT = 4
"""How many templates are tried before an element is taken apart."""

BuildItem = Callable[[bytes, int, int, ElementContext], Record]
"""Parses an Item at a line and an offset and returns its record; raises RecordError."""

Fill = Callable[[Values], Any]
"""Puts the values of a record into a part of a model; the type is that of the part."""


class ItemTemplate(MarkupTemplate):
    """A markup in which marks are in place of values: `kinds` are those of values that are free."""

    def __init__(self, markup: str) -> None:
        self.markup = markup
        self.pieces = _VALUE.split(markup)
        names = [name for name, text in _NAMES.findall(markup) for _ in _VALUE.findall(text)]
        kinds = [_kind(name) for name in names]
        self.content_names = [name.partition(" ")[0] for name in names if _holds_content(name)]
        self.of_contents = [at for at, name in enumerate(names) if _holds_content(name)]
        self.contents = len(self.of_contents)
        self.free = [at for at, kind in enumerate(kinds) if kind]
        self.kinds = [kind for kind in kinds if kind]
        self.constant = [at for at, kind in enumerate(kinds) if not kind]
        self.seen = 0

    @cached_property
    def _pattern(self) -> str:
        pieces = (_VALUES.get(piece) or re.escape(piece) for piece in self.pieces)
        return rf"[{_BLANKS}]*{''.join(pieces)}"

    @cached_property
    def match(self) -> Callable[[str], re.Match[str] | None]:
        """Match an element without its end tag."""
        return re.compile(self._pattern).fullmatch

    @cached_property
    def run(self) -> re.Pattern[str]:
        """Matches an element before another one or before the end."""
        return re.compile(rf"{self._pattern}{_END}(?=[{_BLANKS}]*(?:<Item|\Z))")

    def sample(self, values: Mapping[int, str]) -> bytes:
        """Return an Item with values by their index."""
        pieces = list(self.pieces)
        pieces[1::2] = [values[at] for at in range(len(pieces) // 2)]
        return ("".join(pieces) + _END).encode()


class ItemRuns(ElementRuns[ItemTemplate]):
    """Makes batches of runs of Items, which `build` parses and builds."""

    def __init__(self, options: ReadOptions, build: BuildItem) -> None:
        super().__init__(options, record="Item", contents=[*_CONTENTS])
        self._build = build
        self._recent: list[ItemTemplate] = []
        self._zone = options.zone

    def enter(self, context: ElementContext, line: int, *, is_new: bool) -> None:
        self._item_context = context

    def split(self, head: str) -> MarkupPieces:
        for template in self._recent:
            if match := template.match(head):
                return MarkupPieces(template.markup, "", match.groups())
        found = self.template(_markup(head))
        if found is not None:
            found.seen += 1
            match = found.match(head) if found.seen >= FREQUENT or not self.is_single else None
            if match:
                self._recent = [found, *self._recent[: _RECENT - 1]]
                return MarkupPieces(found.markup, "", match.groups())
        return MarkupPieces("", "", ())

    def split_run(self, text: str) -> tuple[str, list[Sequence[str]]] | None:
        markup = self.split(text.partition(_END)[0]).markup
        template = self.template(markup)
        if template is None or not template.run.match(text):
            return None
        rows = template.run.findall(text)
        if not text.count("<Item") == text.count(_END) == len(rows):
            return None
        return markup, [*zip(*rows, strict=True)]

    def learn(self, markup: str) -> ItemTemplate | None:
        if not _ITEM.match(markup) or _NESTED.search(markup):
            return None
        template = ItemTemplate(markup)
        has_url = template.kinds.count(ColumnKind.URL) == 1
        return template if has_url and template.constant else None

    def shape(self, template: ItemTemplate, key: ShapeKey) -> RunShape:
        context, build = self._item_context, self._build
        return _ItemShape(
            template, key, lambda item, line, at: build(item, line, at, context), self._zone
        )


class _ItemShape(RunShape):
    """The shape of Items with the same markup and constants."""

    def __init__(
        self,
        template: ItemTemplate,
        key: ShapeKey,
        build: Callable[[bytes, int, int], Record],
        zone: str,
    ) -> None:
        self._template, self._key, self._build, self._zone = template, key, build, zone
        contents = [
            ColumnKind.CDATA if is_cdata and name == "Body" else _CONTENTS[name]
            for name, is_cdata in zip(template.content_names, key.are_cdata, strict=True)
        ]
        super().__init__(self._make, [*template.kinds, *contents])

    @property
    def is_readable(self) -> bool:
        return self.is_frequent and self._fill is not None

    def escaped(self, columns: Sequence[Sequence[str]]) -> list[Sequence[str]]:
        return [
            [_date(text, self._zone) for text in column]
            if kind is ColumnKind.DATE
            else _as_attributes(column)
            for kind, column in zip(self.kinds, columns, strict=False)
        ]

    def reads(self, texts: Sequence[str], columns: Sequence[Column]) -> bool:
        return False

    def _make(self, values: Values) -> Record:
        if self._fill is None:
            raise AssertionError("a record of a shape that is not readable")
        record: Record = self._fill(values)
        return record

    @cached_property
    def _fill(self) -> Fill | None:
        """Return the function that makes a record of values; None if the parser is needed."""
        with suppress(RecordError):
            marks = [stated(hole(kind, number)) for number, kind in enumerate(self.kinds)]
            numbers = {
                form: number
                for number, (kind, mark) in enumerate(zip(self.kinds, marks, strict=True))
                for form in _forms(kind, mark)
            }
            found: set[int] = set()
            fill = _filler(self._sample(marks), numbers, found)
            if fill is None or len(found) < len(marks):
                return None
            for row in variants(self.kinds):
                if fill(plain_row(self.kinds, row)) != self._sample(row):
                    return None
            return fill
        return None

    def _sample(self, row: Values) -> Record:
        """Return the record that the parser makes of an Item with a row of escaped values."""
        *texts, line, offset = row
        template, key = self._template, self._key
        contents = [
            f"<![CDATA[{content.decode()}]]>" if is_cdata else content.decode()
            for content, is_cdata in zip(texts[len(template.free) :], key.are_cdata, strict=True)
        ]
        values = dict(zip(template.constant, key.constants, strict=True))
        values |= dict(zip(template.free, texts, strict=False))
        values |= dict(zip(template.of_contents, contents, strict=True))
        return self._build(template.sample(values), line, offset)


def _markup(head: str) -> str:
    """Return an element with marks in place of its values, empty if it has a mark."""
    return "" if _VALUE.search(head) else _LEAF.sub(_blank, head.lstrip(_BLANKS))


def _blank(leaf: re.Match[str]) -> str:
    name, text = leaf.groups()
    if name != "Meta":
        return f"<{name}>{_TEXT}</"
    lines = "\n".join(map(_blank_line, text.split("\n")))
    return f"<Meta>{lines}</"


def _blank_line(line: str) -> str:
    name, separator, _ = line.partition(": ")
    if separator:
        return f"{name}{separator}{_PAIR}"
    return _NAMELESS if line.strip() else line


def _kind(name: str) -> ColumnKind | None:
    if ":" in name and " " not in name:
        return ColumnKind.TEXT
    return FREE_ELEMENTS.get(name)


def _holds_content(name: str) -> bool:
    return name.startswith(tuple(_CONTENTS))


@lru_cache(maxsize=65_536)
def _date(text: str, zone: str) -> str:
    """Return a date in the form of RFC 1123, empty if an Item cannot state it."""
    (row,) = (row for row in item_rows(zone).rows if row.name == "Modified")
    moment = row.codec.decode(text)
    return "" if moment is None else rfc1123(moment)


def _as_attributes(column: Sequence[str]) -> Sequence[str]:
    """Escape what needs no escape in an element; `]]>` must not be in one, and stays."""
    text = "<".join(column)  # the one character that no value has
    if '"' in text:
        text = text.replace('"', "&quot;")
    elif ">" not in text:
        return column
    return (text if "]]>" in text else text.replace(">", "&gt;")).split("<")


def _forms(kind: ColumnKind, mark: Any) -> list[object]:
    """Return a mark as it may come out in a record."""
    if kind is ColumnKind.DATE:
        return [parse_date(mark)]
    if kind is ColumnKind.INTEGER:
        return [int(mark)]
    return [mark, mark.decode()] if isinstance(mark, bytes) else [mark]


def _filler(node: Any, numbers: Mapping[object, int], found: set[int]) -> Fill | None:
    """Return the function that puts values in place of the marks in a part of a record."""
    if isinstance(node, Struct):
        pairs = [(name, getattr(node, name)) for name in node.__struct_fields__]
        parts = [(name, fill) for name, part in pairs if (fill := _filler(part, numbers, found))]
        fill_struct = lambda values: replace(node, **{name: fill(values) for name, fill in parts})  # noqa: E731
        return fill_struct if parts else None
    if isinstance(node, tuple):
        fills = [(part, _filler(part, numbers, found)) for part in node]
        fill_tuple = lambda values: tuple(fill(values) if fill else part for part, fill in fills)  # noqa: E731
        return fill_tuple if any(fill for _, fill in fills) else None
    number = numbers.get(node)
    if number is None:
        return None
    found.add(number)
    convert = _CONVERT[type(node)]
    return lambda values: convert(values[number])


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


_CONVERT: dict[type, Callable[[Any], object]] = {
    str: _text,
    bytes: lambda value: value,
    int: int,
    datetime: parse_date,
}
"""How the values of columns become those of a record, by the type of its field."""
