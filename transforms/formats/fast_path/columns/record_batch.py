"""Records that are alike, in columns: one value for each record in place of a record for each.

A reader that finds many records with the same markup and the same constants makes a `Shape` of
them, once, and a `RecordBatch` of each run. The converter encodes a batch by the plan of its shape;
everyone else iterates over it and gets the records.
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from feedferry.schemas.record import Record
from feedferry.transforms.formats.fast_path.columns.cells import utf8_column
from feedferry.transforms.formats.fast_path.columns.column_kinds import CONTENT_KINDS
from feedferry.transforms.formats.fast_path.columns.shape_columns import Columns

PARTS = 8
"""Into how many parts records are divided of which some have a value that is refused."""


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
