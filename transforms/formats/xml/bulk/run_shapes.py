"""The shapes of elements that are read without a parser.

The parser reads one element of each shape, with marks in place of the values that differ from
element to element. Where the marks come out in what it returns, the other elements of the shape
have values of their own. So no rule of the parser's way is written again.

No constant of the shape is taken for a mark. If the parser copies values, marks begin with a
noncharacter, which XML allows and no text needs. If the parser applies rules, a mark needs the form
of its column. A constant that equals a mark all the same shows in an element with real values, and
the parser reads all elements of the shape.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import cached_property
from operator import itemgetter
from typing import Any, ClassVar, NamedTuple

from msgspec import Struct
from msgspec.structs import astuple, replace

from feedferry.schemas.content import clean_base64
from feedferry.schemas.errors import RecordError
from feedferry.schemas.record import Meta, Record
from feedferry.transforms.formats.fast_path.columns.column_kinds import (
    CONTENT_KINDS,
    ENCODINGS,
    TEXT_CONTENT_KINDS,
    Column,
    ColumnKind,
    Values,
)
from feedferry.transforms.formats.fast_path.columns.marks import hole, stated, variants
from feedferry.transforms.formats.fast_path.columns.neutrality import are_read
from feedferry.transforms.formats.fast_path.columns.shape import Shape
from feedferry.transforms.formats.fast_path.learning.learning_budget import (
    RECORDS_A_PLAN,
    LearningBudget,
)
from feedferry.transforms.formats.text.dates import parse_date
from feedferry.transforms.formats.text.xml_text import may_be_attribute

FREQUENT = 8
"""How many records are read before a model is made: it costs as much as a few."""

_OTHER_REFERENCE = re.compile("&(?!(?:lt|gt|quot|apos|amp);)")

_NONCHARACTER = "\ufdd0"
_VALUE_TYPES = (str, bytes, int, datetime)
_NO_MARK: tuple[int, None] = (-1, None)

ParseElement = Callable[[bytes, int, int], object]
"""Parses an element at a line and an offset, into a type of its format; raises RecordError."""

BuildRecord = Callable[[Any], Record]
"""Builds a record of a parsed element."""

Fill = Callable[[Values], Any]
"""Puts the values of a record into a part of a parsed element; the type is that of the part."""


class ShapeKey(NamedTuple):
    """What records of a shape have in common besides their markup."""

    are_cdata: tuple[bool, ...]
    constants: tuple[str, ...]


class MarkupTemplate(ABC):
    """The meaning of the values of elements with the same markup, by their index.

    `kinds` are those of values that differ from record to record, and `free` are the indexes of
    these. `constant` are those of all others, which records of one shape share. `contents` is the
    number of contents. With `has_rules`, the parser applies rules to values: only neutral values
    are read without it.
    """

    has_rules: ClassVar[bool]
    markup: str

    def __init__(self, kinds: Sequence[ColumnKind | None], *, contents: int) -> None:
        self.free = [at for at, kind in enumerate(kinds) if kind]
        self.constant = [at for at, kind in enumerate(kinds) if not kind]
        self.kinds = [kind for kind in kinds if kind]
        self.contents = contents

    @property
    def has_url(self) -> bool:
        """Whether an element has one URL, without which no record is in a batch."""
        return self.kinds.count(ColumnKind.URL) == 1

    @abstractmethod
    def content_kinds(self, key: ShapeKey) -> list[ColumnKind]:
        """Return the kinds of the contents of a shape."""

    @abstractmethod
    def sample(self, key: ShapeKey, texts: Sequence[str]) -> str:
        """Return an element of a shape, with a text for each of its columns."""

    @abstractmethod
    def escaped(self, columns: Sequence[Sequence[str]]) -> list[Sequence[str]]:
        """Return texts as they would be stated in attributes."""

    def values(self, key: ShapeKey, texts: Sequence[str]) -> list[str]:
        """Return the values of an element by their index."""
        values = dict(zip(self.constant, key.constants, strict=True))
        values |= zip(self.free, texts, strict=False)
        return [values[at] for at in range(len(values))]


class RunShape(Shape):
    """The shape of elements with the same markup and the same constants.

    The last columns are lines and offsets.
    """

    def __init__(
        self, template: MarkupTemplate, key: ShapeKey, parse: ParseElement, build: BuildRecord
    ) -> None:
        places = [ColumnKind.NUMBER, ColumnKind.NUMBER]
        super().__init__(self._make, [*template.kinds, *template.content_kinds(key), *places])
        self._template, self._key, self._parse, self._build = template, key, parse, build
        self.escaped = template.escaped
        self.seen = 0
        """How many records were in the runs with this shape."""

    @property
    def is_frequent(self) -> bool:
        """Whether a model is worth its cost."""
        return self.seen >= FREQUENT

    @property
    def is_learned(self) -> bool:
        return "_fill" in self.__dict__

    @property
    def is_readable(self) -> bool:
        """Whether records are made of values; others need the parser."""
        is_worth_it = self.is_frequent or not self._template.has_rules
        return is_worth_it and self._fill is not None

    def is_readable_within(self, budget: LearningBudget) -> bool:
        """Whether records are made of values; a shape is learned if it is frequent or paid for."""
        return (self.is_learned or budget.pay() or self.seen >= RECORDS_A_PLAN) and self.is_readable

    def reads(self, texts: Sequence[str], columns: Sequence[Column]) -> bool:
        """Whether a record is made of values that are not neutral, with references of XML only."""
        text = '"'.join(texts)  # the one character that no value has
        return (
            not self._template.has_rules
            and may_be_attribute(text)
            and _OTHER_REFERENCE.search(text) is None
            and are_read(self.kinds, columns)
        )

    def _make(self, values: Values) -> Record:
        if self._fill is None:
            raise AssertionError("a record of a shape that is not readable")
        return self._build(self._fill(values))

    @cached_property
    def _fill(self) -> Fill | None:
        """Return the function that fills in values; None if the parser is needed."""
        has_rules, rows = self._template.has_rules, variants(self.kinds)
        marks = _Marks(self.kinds, "" if has_rules else _NONCHARACTER)
        try:
            fill = marks.filler(self._sample(marks.row))
            if fill is None or not marks.found.issuperset(range(len(marks.row))):
                return None
            proof = rows if has_rules else rows[:1]
            is_proven = all(fill(plain) == self._sample(row) for row, plain in proof)
        except RecordError:
            return None
        return fill if is_proven else None

    def _sample(self, row: Values) -> object:
        """Return what the parser makes of an element with a row of escaped values."""
        *cells, line, offset = row
        count = len(cells) - len(self._key.are_cdata)
        contents = [
            f"<![CDATA[{content.decode()}]]>" if is_cdata else content.decode()
            for content, is_cdata in zip(cells[count:], self._key.are_cdata, strict=True)
        ]
        element = self._template.sample(self._key, cells[:count] + contents)
        return self._parse(element.encode(), line, offset)


class _Marks:
    """A row of values in place of the columns of a shape; `found` are those that came out.

    Texts begin with `begin`. With it, no text is a date or a URL.
    """

    def __init__(self, kinds: Sequence[ColumnKind], begin: str) -> None:
        marks = [(kind, stated(hole(kind, number))) for number, kind in enumerate(kinds)]
        self.row = [_with_begin(*mark, begin) for mark in marks]
        self.found: set[int] = set()
        self._fills = {
            form: (number, fill)
            for number, (kind, mark) in enumerate(zip(kinds, self.row, strict=True))
            for form, fill in _forms(kind, number, mark).items()
        }

    def filler(self, node: object) -> Fill | None:
        """Return the function that puts values in place of the marks in a part; None without."""
        if isinstance(node, _VALUE_TYPES):
            number, fill = self._fills.get(node, _NO_MARK)
            self.found.add(number)
            return fill
        if isinstance(node, Struct):
            fields = self._fillers(zip(node.__struct_fields__, astuple(node), strict=True))
            if fields:
                return lambda values: replace(node, **{name: fill(values) for name, fill in fields})
        elif isinstance(node, dict):
            entries = self._fillers(node.items())
            if entries:
                return lambda values: node | {key: fill(values) for key, fill in entries}
        elif isinstance(node, (list, tuple)):
            return self._sequence_filler(node)
        return None

    def _fillers(self, parts: Iterable[tuple[str, object]]) -> list[tuple[str, Fill]]:
        return [(name, fill) for name, part in parts if part and (fill := self.filler(part))]

    def _sequence_filler(self, parts: list[Any] | tuple[Any, ...]) -> Fill | None:
        """Return the function that makes a sequence; metadata are made at once, in less time."""
        make = type(parts)
        if {Meta} == {type(part) for part in parts}:
            fill_fields = self._sequence_filler([*zip(*map(astuple, parts), strict=True)])
            return fill_fields and (lambda values: make(map(Meta, *fill_fields(values))))
        fills = [self.filler(part) for part in parts]
        if not any(fills):
            return None
        pairs = [*zip(fills, parts, strict=True)]
        return lambda values: make([fill(values) if fill else part for fill, part in pairs])


def _with_begin(kind: ColumnKind, mark: Any, begin: str) -> Any:  # of any column
    if isinstance(mark, str):
        return begin + mark
    return begin.encode() + mark if kind in TEXT_CONTENT_KINDS else mark


def _forms(kind: ColumnKind, number: int, mark: Any) -> dict[object, Fill]:  # of any column
    """Return the forms in which a mark may come out, and what puts a value in that form."""
    as_it_is = itemgetter(number)
    if kind is ColumnKind.DATE:
        return {mark: as_it_is, parse_date(mark): lambda values: parse_date(values[number])}
    if kind is ColumnKind.INTEGER:
        return {int(mark): lambda values: int(values[number])}
    if kind in ENCODINGS:
        return {mark: lambda values: clean_base64(values[number])}
    if kind in CONTENT_KINDS:
        return {mark: as_it_is, mark.decode(): lambda values: values[number].decode()}
    return {mark: as_it_is}
