"""Sequences that are too long for the memory: an item is made each time it is needed."""

from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Self, TypeVar, overload

Item_co = TypeVar("Item_co", covariant=True)


class LazySequence(Sequence[Item_co], ABC):
    """A sequence of which a subclass makes the item at an index, from 0; slices are lists."""

    @abstractmethod
    def at(self, index: int) -> Item_co: ...

    @overload
    def __getitem__(self, index: int) -> Item_co: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Item_co]: ...
    def __getitem__(self, index: int | slice) -> Item_co | Sequence[Item_co]:
        places = range(len(self))[index]
        return self.at(places) if isinstance(places, int) else [*map(self.at, places)]


class Subsequence(LazySequence[Item_co]):
    """Some items of a sequence, by their indexes."""

    def __init__(self, items: Sequence[Item_co], indexes: Sequence[int]) -> None:
        self._items = items
        self._indexes = indexes

    @classmethod
    def where(cls, flags: Iterable[bool], items: Sequence[Item_co]) -> Self:
        """Return the items whose flags, in the same order, are set."""
        return cls(items, array("q", (index for index, flag in enumerate(flags) if flag)))

    def __len__(self) -> int:
        return len(self._indexes)

    def __iter__(self) -> Iterator[Item_co]:
        return map(self._items.__getitem__, self._indexes)

    def at(self, index: int) -> Item_co:
        return self._items[self._indexes[index]]
