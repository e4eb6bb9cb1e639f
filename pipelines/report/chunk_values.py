"""A number for each chunk of a run."""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Literal


class ChunkValues(Mapping[int, float]):
    """Numbers by the ordinals of chunks, in their order; 16 bytes for each.

    The last number of an ordinal counts. `kind` is the type of an array.
    """

    def __init__(self, kind: Literal["q", "d"], numbers: Iterable[tuple[int, float]] = ()) -> None:
        self._ordinals = array("q")
        self._values: array[int] | array[float] = array(kind)
        for ordinal, number in numbers:
            self._ordinals.append(ordinal)
            self._values.append(number)  # type: ignore[arg-type]  # integers for "q"
        if any(after <= before for before, after in pairwise(self._ordinals)):
            index_of = {ordinal: index for index, ordinal in enumerate(self._ordinals)}
            self._ordinals = array("q", sorted(index_of))
            self._values = array(kind, (self._values[index_of[at]] for at in self._ordinals))

    def __len__(self) -> int:
        return len(self._ordinals)

    def __iter__(self) -> Iterator[int]:
        return iter(self._ordinals)

    def __getitem__(self, ordinal: int) -> float:
        index = bisect_left(self._ordinals, ordinal)
        if self._ordinals[index : index + 1] != array("q", [ordinal]):
            raise KeyError(ordinal)
        return self._values[index]


NO_VALUES = ChunkValues("q")
