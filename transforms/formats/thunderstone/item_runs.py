"""Read Items without a parser if their markup was seen before."""

import re
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache

from feedferry.schemas.record import Record
from feedferry.transforms.formats.base import ReadOptions
from feedferry.transforms.formats.fast_path.columns.column_kinds import ColumnKind
from feedferry.transforms.formats.text.dates import rfc1123
from feedferry.transforms.formats.thunderstone.dataload_format import ELEMENT_NAMES
from feedferry.transforms.formats.thunderstone.rows import item_rows
from feedferry.transforms.formats.xml.bulk.element_runs import ElementRuns
from feedferry.transforms.formats.xml.bulk.run_shapes import MarkupTemplate, ShapeKey
from feedferry.transforms.formats.xml.elements import ParsedElement

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
"""Documents with the URL of their Item: their meaning depends on a value."""

_LEAF = re.compile(r"<([^<>/?!][^<>]*(?<!/))>([^<]*)</")
_TEXT, _PAIR, _NAMELESS = "\0", "\1", "\2"
_VALUES = {_TEXT: "([^<]*)", _PAIR: r"([^<\n]*)", _NAMELESS: r"((?:(?!: )[^<\n])*)"}
"""The mark of a value in a markup, and how it is found: that of a Meta ends with a line."""

_VALUE = re.compile(f"([{''.join(_VALUES)}])")
_NAMES = re.compile(r"<([^<>]*)>([^<]*)</")
_BLANKS = " \t\r\n"
_END = "</Item>"
_RECENT = 4
"""How many templates are tried before an element is taken apart."""


class ItemTemplate(MarkupTemplate):
    """A markup in which marks are in place of values; dates without a zone are in `zone`."""

    has_rules = True

    def __init__(self, markup: str, zone: str) -> None:
        self.markup, self._zone = markup, zone
        self.pieces = _VALUE.split(markup)
        names = [name for name, text in _NAMES.findall(markup) for _ in _VALUE.findall(text)]
        self._content_names = [name.partition(" ")[0] for name in names if _holds_content(name)]
        self._of_contents = [at for at, name in enumerate(names) if _holds_content(name)]
        super().__init__([*map(_kind, names)], contents=len(self._of_contents))

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

    def content_kinds(self, key: ShapeKey) -> list[ColumnKind]:
        return [
            ColumnKind.CDATA if is_cdata and name == "Body" else _CONTENTS[name]
            for name, is_cdata in zip(self._content_names, key.are_cdata, strict=True)
        ]

    def sample(self, key: ShapeKey, texts: Sequence[str]) -> str:
        values = self.values(key, texts)
        for at, content in zip(self._of_contents, texts[len(self.free) :], strict=True):
            values[at] = content
        pieces = [*self.pieces]
        pieces[1::2] = values
        return "".join(pieces) + _END

    def escaped(self, columns: Sequence[Sequence[str]]) -> list[Sequence[str]]:
        return [
            [_date(text, self._zone) for text in column]
            if kind is ColumnKind.DATE
            else _as_attributes(column)
            for kind, column in zip(self.kinds, columns, strict=False)
        ]


class ItemRuns(ElementRuns[ItemTemplate]):
    """Makes batches of runs of Items."""

    names = ELEMENT_NAMES
    content_names = tuple(_CONTENTS)

    def __init__(self, options: ReadOptions, read: Callable[[ParsedElement], Record]) -> None:
        super().__init__(options, read, lambda _context, _line: _as_read)
        self._recent: list[ItemTemplate] = []
        self._zone = options.zone

    def split(self, head: str) -> tuple[str, Sequence[str]]:
        for template in self._recent:
            if match := template.match(head):
                return template.markup, match.groups()
        found = self.template(_markup(head))
        if found is not None and (match := found.match(head)):
            self._recent = [found, *self._recent[: _RECENT - 1]]
            return found.markup, match.groups()
        return "", ()

    def split_run(self, text: str) -> tuple[str, list[Sequence[str]]] | None:
        markup, _ = self.split(text.partition(_END)[0])
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
        template = ItemTemplate(markup, self._zone)
        return template if template.has_url and template.constant else None


def _as_read(record: Record) -> Record:
    return record


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
