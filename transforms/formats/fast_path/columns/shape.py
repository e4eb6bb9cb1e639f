"""The shape of records that are alike: what they have in common."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property

from feedferry.schemas.record import Record
from feedferry.transforms.formats.fast_path.columns.column_kinds import ColumnKind, Values
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
