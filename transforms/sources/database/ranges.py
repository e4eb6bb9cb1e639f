"""Ranges of keys: the shares of a table that workers read, about as many bytes each.

They are cut from the data: at every so-many-th key, so that gaps in the keys cost nothing, and by
what some rows weigh, spread over all keys. The same rows give the same ranges.
"""

import enum
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec
import sqlalchemy as sa

from transforms.sources.database.columns import Column, octets
from transforms.sources.database.errors import TORN_VALUES, Fault, error_of, fault_of, told
from transforms.sources.database.keys import Key, equal, parameters, write_key
from transforms.sources.database.table_query import Rows, check_key

MOST_MARKS = 20_000
"""The most keys that are held in memory to cut ranges at."""

_SAMPLE_ROWS = 1_000
_BATCH_ROWS = 100
_ROW_BYTES = 64
"""What a row counts for beside its values."""


class Kind(enum.Enum):
    """Which rows a range has."""

    ROWS = "rows"
    NULLS = "nulls"
    """Those with NULL in their key, which belong to no other range."""


class KeyRange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The rows behind the key `after` up to the key `upto`, both as JSON; `None` is no bound.

    `rows` and `size`, in bytes, are estimates.
    """

    kind: Kind = Kind.ROWS
    after: str | None = None
    upto: str | None = None
    rows: int = 0
    size: int = 0

    @property
    def shown(self) -> str:
        """What messages call the range."""
        if self.kind is Kind.NULLS:
            return "rows with NULL in their key"
        after = f" behind {self.after}" if self.after else ""
        upto = f" up to {self.upto}" if self.upto else ""
        return f"rows{after}{upto}" if after or upto else "all rows"


def encode_range(key_range: KeyRange) -> bytes:
    """Return a range as the context of a span."""
    return msgspec.json.encode(key_range)


def decode_range(context: bytes) -> KeyRange:
    """Return the range that the context of a span holds."""
    return msgspec.json.decode(context, type=KeyRange)


def cut_rows(rows: Rows, *, span_bytes: int) -> Iterator[KeyRange]:
    """Yield ranges of about `span_bytes`, in the order of the keys; none if there are no rows.

    Rows with NULL in their key come last. Raise ConfigError if two rows have the same key.
    """
    check_key(rows)
    keyed, unkeyed = _count(rows)
    if keyed:
        yield from _cut_keyed(rows, keyed, span_bytes)
    if unkeyed:
        yield KeyRange(kind=Kind.NULLS, rows=unkeyed)


def _count(rows: Rows) -> tuple[int, int]:
    with told(rows.mapping, where=rows.shown), rows.engine.connect() as connection:
        counted = sa.select(sa.func.count()).select_from(rows.selectable)
        keyed = connection.scalar(counted.where(*rows.with_key)) or 0
        unkeyed = connection.scalar(counted.where(*rows.without_key)) if rows.nullable else 0
    return keyed, unkeyed or 0


def _cut_keyed(rows: Rows, count: int, span_bytes: int) -> Iterator[KeyRange]:
    step = -(-count // MOST_MARKS)
    marks = _marks(rows, step)
    width = _width(rows, marks[:: max(1, len(marks) // _SAMPLE_ROWS)])
    ranges = max(1, min(len(marks), -(-count * width // span_bytes)))
    ends = [marks[len(marks) * number // ranges - 1] for number in range(1, ranges)]
    after = None
    for number, upto in enumerate([*map(write_key, ends), None]):
        share = count * (number + 1) // ranges - count * number // ranges
        yield KeyRange(after=after, upto=upto, rows=share, size=share * width)
        after = upto


def _marks(rows: Rows, step: int) -> list[Key]:
    """Return every `step`-th key, in order; the database counts where it can."""
    try:
        return _marks_by_window(rows, step)
    except sa.exc.DBAPIError as exc:
        if fault_of(exc, rows.engine.dialect) is Fault.PASSING:
            with told(rows.mapping, where=rows.shown):
                raise
    return marks_by_stream(rows.keys_only(), step)


def _marks_by_window(rows: Rows, step: int) -> list[Key]:
    columns = rows.key_columns
    number = sa.func.row_number().over(order_by=columns).label("feedferry_number")
    numbered = sa.select(*columns, number).where(*rows.with_key).subquery("feedferry_keys")
    *keys, place = numbered.c
    every = sa.select(*keys).where(place % step == 0).order_by(place)
    with rows.engine.connect() as connection:
        return [tuple(row) for row in connection.execute(every)]


def marks_by_stream(keys: Iterable[Key], step: int) -> list[Key]:
    """Return every `step`-th key, for databases that cannot number rows."""
    return list(islice(keys, step - 1, None, step))


def _width(rows: Rows, sample: Sequence[Key]) -> int:
    """Return about how many bytes a row has, by those that have the keys of a sample."""
    batches = (sample[at : at + _BATCH_ROWS] for at in range(0, len(sample), _BATCH_ROWS))
    sizes = [size for batch in batches for size in _sizes(rows, batch)]
    return _ROW_BYTES + sum(sizes) // max(1, len(sizes))


def _sizes(rows: Rows, batch: Sequence[Key]) -> list[int]:
    dialect, columns = rows.engine.dialect, rows.key_columns
    either = sa.or_(*(equal(columns, f"k{number}_") for number, _ in enumerate(batch)))
    given: dict[str, object] = {}
    for number, key in enumerate(batch):
        given |= parameters(f"k{number}_", key, dialect)
    weighed = sa.select(*(_weighed(column, rows) for column in rows.columns))
    try:
        with rows.engine.connect() as connection:
            found = connection.execute(weighed.where(*rows.where, either), given).all()
    except (*TORN_VALUES, sa.exc.SQLAlchemyError) as exc:
        if fault_of(exc, dialect) is Fault.VALUE:  # of one row, which is set aside when it is read
            return []
        raise error_of(exc, rows.mapping, where=rows.shown) from None
    return [sum(map(_length, rows.columns, row)) for row in found]


def _weighed(column: Column, rows: Rows) -> sa.ColumnElement[Any]:
    """A value that may be large is not read, only how large it is."""
    value = rows.column(column.name)
    return octets(value, column, rows.engine.dialect) if column.is_unbounded else value


def _length(column: Column, value: Any) -> int:
    if value is None:
        return 0
    if column.is_unbounded:
        return int(value)
    return len(value) if isinstance(value, str | bytes) else len(str(value))
