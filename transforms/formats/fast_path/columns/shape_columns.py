"""Records of one shape, in columns."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TypeVar

from feedferry.schemas.record import Record
from feedferry.transforms.formats.fast_path.columns.cells import plain
from feedferry.transforms.formats.fast_path.columns.column_kinds import Column
from feedferry.transforms.formats.fast_path.columns.shape import Shape


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
