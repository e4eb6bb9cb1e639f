"""Cut a table into ranges of keys with about the same number of bytes, one for each span.

The limits are every n-th key of the data, so that gaps between keys cost nothing. Sizes are
estimated from a sample of rows over all keys. The same rows give the same ranges.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from schemas.span import KeyRange, RowFilter, Span
from transforms.sources.database.column_index import Key
from transforms.sources.database.keys import equal, parameters, write_key
from transforms.sources.database.result_columns import Expression, ResultColumn, size_in_bytes
from transforms.sources.database.session import DatabaseFault, fault_of
from transforms.sources.database.table_query import TableQuery

MAX_LIMITS = 20_000
"""The most keys in memory as possible limits of ranges."""

_SAMPLE_ROWS = 1_000
_BATCH_ROWS = 100
_ROW_BYTES = 64
"""The estimated size of a row besides its values."""


def filter_rows(table: TableQuery, row_filter: RowFilter) -> TableQuery:
    """Return the rows of a table that pass a filter."""
    if row_filter.is_null:
        table = table.restricted(table.timestamp_column(row_filter.timestamp).is_(None))
    elif row_filter.timestamp:
        above, upto = (mark and mark.value() for mark in (row_filter.above, row_filter.upto))
        table = table.between(row_filter.timestamp, above=above, upto=upto)
    return table.with_keys(row_filter.keys) if row_filter.keys else table


def range_of(span: Span) -> KeyRange:
    """Return the range of a span; without one, it has all rows."""
    return span.position if isinstance(span.position, KeyRange) else KeyRange()


def cut_rows(table: TableQuery, *, span_bytes: int) -> Iterator[KeyRange]:
    """Yield ranges of about `span_bytes` in the order of the keys; none for an empty table.

    The rows with NULL in the key come last. Raise ConfigError if two rows have the same key.
    """
    table.check_unique_key()
    with_key, without_key = _count(table)
    if with_key:
        yield from _cut(table, with_key, span_bytes)
    if without_key:
        yield KeyRange(has_null_keys=True, rows=without_key)


def _count(table: TableQuery) -> tuple[int, int]:
    count = sa.select(sa.func.count()).select_from(table.selectable)
    with table.translate_errors(), table.engine.connect() as connection:
        with_key = connection.scalar(count.where(*table.with_key)) or 0
        if not table.nullable_key:
            return with_key, 0
        return with_key, connection.scalar(count.where(*table.without_key)) or 0


def _cut(table: TableQuery, count: int, span_bytes: int) -> Iterator[KeyRange]:
    limits = _every_nth_key(table, -(-count // MAX_LIMITS))
    row_bytes = _estimate_row_bytes(table, limits[:: max(1, len(limits) // _SAMPLE_ROWS)])
    ranges = max(1, min(len(limits), -(-count * row_bytes // span_bytes)))
    ends = [limits[len(limits) * number // ranges - 1] for number in range(1, ranges)]
    after = None
    for number, upto in enumerate([*map(write_key, ends), None]):
        rows = count * (number + 1) // ranges - count * number // ranges
        yield KeyRange(after=after, upto=upto, rows=rows, size=rows * row_bytes)
        after = upto


def _every_nth_key(table: TableQuery, step: int) -> list[Key]:
    columns = table.key_columns
    number = sa.func.row_number().over(order_by=columns).label("feedferry_number")
    numbered = sa.select(*columns, number).where(*table.with_key).subquery("feedferry_keys")
    *keys, place = numbered.c
    every_nth = sa.select(*keys).where(place % step == 0).order_by(place)
    with table.translate_errors(), table.engine.connect() as connection:
        return [tuple(row) for row in connection.execute(every_nth)]


def _estimate_row_bytes(table: TableQuery, sample: Sequence[Key]) -> int:
    batches = (sample[at : at + _BATCH_ROWS] for at in range(0, len(sample), _BATCH_ROWS))
    sizes = [size for batch in batches for size in _row_sizes(table, batch)]
    return _ROW_BYTES + sum(sizes) // max(1, len(sizes))


def _row_sizes(table: TableQuery, batch: Sequence[Key]) -> list[int]:
    dialect, columns = table.engine.dialect, table.key_columns
    conditions = sa.or_(*(equal(columns, f"k{number}_") for number, _ in enumerate(batch)))
    given: dict[str, object] = {}
    for number, key in enumerate(batch):
        given |= parameters(f"k{number}_", key, dialect)
    values = (_value_or_size(column, table) for column in table.columns)
    statement = sa.select(*values).where(*table.where, conditions)
    with table.translate_errors(), table.engine.connect() as connection:
        try:
            rows = connection.execute(statement, given).all()
        except (ValueError, OverflowError, sa.exc.SQLAlchemyError) as exc:
            if fault_of(exc, dialect) is DatabaseFault.VALUE:  # reading rejects the row
                return []
            raise
    return [sum(map(_length, table.columns, row)) for row in rows]


def _value_or_size(column: ResultColumn, table: TableQuery) -> Expression:
    value = table.column(column.name)
    return size_in_bytes(value, column, table.engine.dialect) if column.is_large else value


def _length(column: ResultColumn, value: Any) -> int:  # Any: the value types of a driver
    if value is None:
        return 0
    if column.is_large:
        return int(value)
    return len(value) if isinstance(value, str | bytes) else len(str(value))
