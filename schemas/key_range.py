"""A part of a table: the rows of a span of a database."""

import enum
from collections.abc import Callable
from datetime import date, datetime
from typing import Any

import msgspec

Timestamp = datetime | date | int | str
"""The values of a timestamp column."""


class TimestampType(enum.Enum):
    """The type of a timestamp, which its text does not show."""

    AWARE = "AWARE"
    NAIVE = "NAIVE"
    DATE = "DATE"
    INTEGER = "INTEGER"
    TEXT = "TEXT"


class Watermark(msgspec.Struct, frozen=True, kw_only=True):
    """A timestamp as text, exact to the microsecond, and its type."""

    type: TimestampType
    text: str

    def value(self) -> Timestamp:
        return _PARSERS[self.type](self.text)

    def is_above(self, other: "Watermark") -> bool:
        return is_above(self.value(), other.value())


class RowFilter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which rows a run reads: by timestamp, by key, or by both; without conditions, all rows.

    The values of the column `timestamp` are greater than `above` and at most `upto`, or NULL. The
    `keys` are JSON.
    """

    timestamp: str = ""
    above: Watermark | None = None
    upto: Watermark | None = None
    is_null: bool = False
    keys: tuple[str, ...] = ()


class KeyRange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="rows"):
    """The filtered rows after the key `after`, up to the key `upto`; `None` is no limit.

    With `has_null_keys`, the rows with NULL in the key, which are in no other range. `rows` and
    `size`, in bytes, are estimates. A range of a refresh is sent without comparison to the state.
    """

    after: str | None = None
    upto: str | None = None
    has_null_keys: bool = False
    rows: int = 0
    size: int = 0
    filter: RowFilter = RowFilter()
    is_refresh: bool = False

    @property
    def shown(self) -> str:
        if self.has_null_keys:
            return "rows with NULL in the key"
        after = f" after {self.after}" if self.after else ""
        upto = f" up to {self.upto}" if self.upto else ""
        return f"rows{after}{upto}" if after or upto else "all rows"


def is_above(value: Timestamp, other: Timestamp) -> bool:
    above: Any = value  # values of one column can be compared, which the types do not show
    return bool(above > other)


_PARSERS: dict[TimestampType, Callable[[str], Timestamp]] = {
    TimestampType.AWARE: datetime.fromisoformat,
    TimestampType.NAIVE: datetime.fromisoformat,
    TimestampType.DATE: date.fromisoformat,
    TimestampType.INTEGER: int,
    TimestampType.TEXT: str,
}
