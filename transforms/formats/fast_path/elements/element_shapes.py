"""The signatures of elements that a reader knows, and the elements of a block that have them."""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from feedferry.schemas.content import CHECKED
from feedferry.transforms.formats.fast_path.columns.column_kinds import Column
from feedferry.transforms.formats.fast_path.columns.neutrality import are_neutral, find_not_neutral
from feedferry.transforms.formats.fast_path.elements.element_block import ElementGroup, ElementShape
from feedferry.transforms.formats.fast_path.learning.learning_budget import (
    RECORDS_A_PLAN,
    LearningBudget,
)

_FREE_SHAPES = 48
_MAX_SHAPES = 4096

LearnElement = Callable[[Any, Any], ElementShape | None]
"""Returns the shape of elements by their kind and their key; None if their records go alone."""


class ElementShapes:
    """The shapes of signatures, which are a kind and a key; learns those that are paid for."""

    def __init__(self, learn: LearnElement) -> None:
        self._learn = learn
        self._budget = LearningBudget(_FREE_SHAPES)
        self._shapes: dict[tuple[Hashable, Hashable], ElementShape | None] = {}
        self._met = Counter[tuple[Hashable, Hashable]]()

    def add(self, records: int) -> None:
        """Count records of which no element goes alone."""
        self._budget.add(records)

    def of(self, kind: Hashable, keys: Sequence[Hashable]) -> dict[Hashable, ElementShape | None]:
        """Return the shapes of signatures; elements of those without one go alone.

        A signature is learned if that is paid for, or if it was met often.
        """
        counts: Counter[Hashable] | None = None
        shapes: dict[Hashable, ElementShape | None] = {}
        for key in {*keys}:
            signature = kind, key
            if signature not in self._shapes and not self._budget.pay():
                counts = counts or Counter(keys)
                self._met[signature] += counts[key]
                if self._met[signature] < RECORDS_A_PLAN:
                    shapes[key] = None
                    continue
            if signature not in self._shapes:
                self._shapes[signature] = self._learn(kind, key)
            shapes[key] = self._shapes[signature]
        for known in (self._shapes, self._met):
            if len(known) > _MAX_SHAPES:
                known.clear()
        return shapes


class BlockElements:
    """The elements of a block: their codes, and groups of those that are known and neutral.

    All others keep the code that they have at first, by which their records go alone.
    """

    def __init__(
        self, codes: list[str], shapes: ElementShapes, *, max_content_bytes: int = CHECKED
    ) -> None:
        self.codes, self._shapes, self._max_bytes = codes, shapes, max_content_bytes
        self.groups: list[ElementGroup] = []

    def add(
        self,
        kind: Hashable,
        keys: Sequence[Hashable],
        columns: Sequence[Column],
        places: Sequence[int],
    ) -> None:
        """Add elements of one kind, with columns of the same kinds."""
        known = self._shapes.of(kind, keys)
        shapes = {key: shape for key, shape in known.items() if shape is not None}
        if not shapes:
            return
        group = ElementGroup(shapes, keys, columns, places)
        if len(shapes) < len(known):
            group = group.rows([row for row, key in enumerate(keys) if key in shapes])
        kinds, most, max_bytes = group.kinds, len(group.places), self._max_bytes
        if not are_neutral(kinds, group.columns, max_content_bytes=max_bytes):
            alone = find_not_neutral(kinds, group.columns, most=most, max_content_bytes=max_bytes)
            group = group.rows([row for row in range(most) if row not in alone])
        codes, of_keys = self.codes, {key: shape.code for key, shape in shapes.items()}
        if len({*of_keys.values()}) == 1:
            [code] = {*of_keys.values()}
            for place in group.places:
                codes[place] = code
        else:
            for place, key in zip(group.places, group.keys, strict=True):
                codes[place] = of_keys[key]
        if group.places:
            self.groups.append(group)
