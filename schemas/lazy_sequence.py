"""Sequences that are too long for the memory: an item is made each time it is needed."""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar, overload

Item_co = TypeVar("Item_co", covariant=True)
_Item = TypeVar("_Item")


class LazySequence(Sequence[Item_co]):
    """The items that a function makes of those of another sequence; slices are lists."""

    def __init__(self, items: Sequence[_Item], make: Callable[[_Item], Item_co]) -> None:
        self._count = items.__len__
        self._all: Callable[[], Iterator[Item_co]] = lambda: map(make, items)
        self._at: Callable[[int], Item_co] = lambda index: make(items[index])

    def __len__(self) -> int:
        return self._count()

    def __iter__(self) -> Iterator[Item_co]:
        return self._all()

    @overload
    def __getitem__(self, index: int) -> Item_co: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Item_co]: ...
    def __getitem__(self, index: int | slice) -> Item_co | Sequence[Item_co]:
        if isinstance(index, slice):
            return [*map(self._at, range(*index.indices(len(self))))]
        return self._at(index)


def chosen(items: Sequence[_Item], indexes: Sequence[int]) -> LazySequence[_Item]:
    """Return the items at some indexes."""
    return LazySequence(indexes, items.__getitem__)


def flagged(items: Sequence[_Item], flags: Iterable[bool]) -> LazySequence[_Item]:
    """Return the items whose flags, in the same order, are set."""
    return chosen(items, array("q", (index for index, flag in enumerate(flags) if flag)))
