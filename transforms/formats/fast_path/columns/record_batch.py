"""Records that are alike, in columns: one value for each record in place of a record for each.

A reader that finds many records with the same markup and the same constants makes a `Shape` of
them, once, and a `RecordBatch` of each run. The converter encodes a batch by the plan of its shape;
everyone else iterates over it and gets the records.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import pairwise
from typing import TypeVar

from feedferry.schemas.record import Record
from feedferry.transforms.formats.fast_path.columns.cells import plain, utf8_column
from feedferry.transforms.formats.fast_path.columns.column_kinds import (
    CONTENT_KINDS,
    Column,
    ColumnKind,
    Values,
)
from feedferry.transforms.formats.fast_path.columns.holes import InspectedError
from feedferry.transforms.formats.fast_path.columns.marks import hole

MakeRecord = Callable[[Values], Record]


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
            utf8_column(kind, group.column(at))
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


Key = TypeVar("Key", bound=Hashable)


def grouped(
    keys: Sequence[Key], columns: Sequence[Column]
) -> Iterator[tuple[Key, Sequence[int], list[Column]]]:
    """Yield each key with the places of its records, and with the columns of these records."""
    if keys and keys.count(keys[0]) == len(keys):
        yield keys[0], range(len(keys)), [*columns]
        return
    groups: dict[Key, list[int]] = {}
    for place, key in enumerate(keys):
        groups.setdefault(key, []).append(place)
    for key, places in groups.items():
        yield key, places, [[column[place] for place in places] for column in columns]
