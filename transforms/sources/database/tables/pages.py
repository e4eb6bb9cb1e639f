"""Pages of the rows of a key range, in the order of the keys.

A page with a value that cannot be read is read again from its first row, in pages of 1, 2, 4 rows
and so on; only the rows with such values are lost. A row with a value of more than INLINE_BYTES is
read again alone, without values above the size limit. SQLite itself refuses larger values, so the
sizes of values are asked for only after the first page with one. Together with a page size that
shrinks for wide rows, that bounds memory. Within these bounds, a page is fetched at once:
server-side cursors take twice the time. The next page is fetched from a server while a page is
converted.
"""

import sys
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import sqlalchemy as sa

from feedferry.schemas.span import KeyRange
from feedferry.transforms.sources.database.connection.dialects import INLINE_BYTES, Expression
from feedferry.transforms.sources.database.connection.session import Session, UnreadableValueError
from feedferry.transforms.sources.database.mapping.columns import Key, Row
from feedferry.transforms.sources.database.tables.table import (
    Select,
    TableQuery,
    fetch_all,
    fetch_limited,
    read_key,
    write_key,
)

PAGE_BYTES = 8 << 20
"""The approximate size of a page of wide rows."""

_SAMPLE_STEP = 16
_PAGE_THREAD = "next-page"
_SWITCH_SECONDS = 0.0002
"""How soon the thread goes on that fetches a page, of which it gets a part at a time.

With Python's 5 milliseconds, a page was converted before the next part was asked for.
"""


class IncompleteRow(NamedTuple):
    """A row with NULL in place of values that are too large or cannot be read.

    `column` is the first of the large values. `unreadable` says why a value cannot be read; such a
    row has only its key.
    """

    row: Row
    column: str = ""
    unreadable: str = ""


PageRow = Row | IncompleteRow


def row_of(item: PageRow) -> Row:
    return item.row if isinstance(item, IncompleteRow) else item


class PageReader:
    """Yields lists of at most `page_rows` rows of a key range."""

    def __init__(self, table: TableQuery, key_range: KeyRange) -> None:
        self._table = table
        self._after = None if key_range.after is None else read_key(key_range.after)
        self._upto = None if key_range.upto is None else read_key(key_range.upto)
        self._key_of = table.index.key_getter()
        self._has_large = any(column.is_large for column in table.columns)
        self._is_limited = self._has_large and table.session.dialect.limits_values
        self._values = [table.column(column.name) for column in table.columns]
        if not self._is_limited:
            self._values = _values(table, max_bytes=INLINE_BYTES)

    def __iter__(self) -> Generator[list[PageRow], None, None]:
        limit = self._table.mapping.page_rows
        while True:
            try:
                statement = self._select(self._values, limit)
                page = self._rows(statement, where=self._range, is_limited=self._is_limited)
            except UnreadableValueError as exc:
                if self._is_limited:
                    self._is_limited = False
                    self._values = _values(self._table, max_bytes=INLINE_BYTES)
                    continue
                if limit > 1:
                    limit = 1
                    continue
                page = [IncompleteRow(self._read_key_values(), unreadable=exc.reason)]
            if page:
                self._after = self.key_of(page[-1])
                yield page
            if len(page) < limit:
                return
            limit = min(2 * limit, self._table.mapping.page_rows, _fitting_rows(page))

    def key_of(self, row: PageRow) -> Key:
        return self._key_of(row_of(row))

    def read_alone(self, row: IncompleteRow, *, max_bytes: int) -> PageRow | None:
        """Return a row with its large values, None if it was deleted meanwhile.

        It is still incomplete if a value has more than `max_bytes`.
        """
        table, key = self._table, self.key_of(row)
        values = _values(table, max_bytes=max_bytes)
        statement = table.select(*values).where(table.has_one_of([key]))
        try:
            rows = self._rows(statement, where=f"the row {write_key(key)}")
        except UnreadableValueError as exc:
            return IncompleteRow(row.row, unreadable=exc.reason)
        return rows[0] if rows else None

    def _read_key_values(self) -> Row:
        """Return the first row with NULL in place of all values but the key."""
        table = self._table
        values = [
            table.column(column.name) if column.name in table.key else sa.null()
            for column in table.columns
        ]
        statement = self._select(values, 1)
        where = f"{table.mapping.rows_name}, {self._range}, the first key"
        with table.readable_keys():
            row: Row = table.run(statement, where=where, is_retried=True)[0]
        return row

    @property
    def _range(self) -> str:
        after, upto = (write_key(key) if key else None for key in (self._after, self._upto))
        return KeyRange(after=after, upto=upto).description

    def _select(self, values: Sequence[Expression], limit: int) -> Select:
        statement, order = self._table.select(*values), self._table.order
        if self._after is not None:
            statement = statement.where(order.after(self._after))
        if self._upto is not None:
            statement = statement.where(order.upto(self._upto))
        return statement.limit(limit)

    def _rows(self, statement: Select, *, where: str, is_limited: bool = False) -> list[PageRow]:
        fetch = partial(fetch_limited if is_limited else fetch_all, statement)
        where = f"{self._table.mapping.rows_name}, {where}"
        rows: list[PageRow] = self._table.session.run(fetch, where=where, is_retried=True)
        if is_limited or not self._has_large:
            return rows
        return [row[:-1] if row[-1] is None else IncompleteRow(row[:-1], row[-1]) for row in rows]


def fetched_ahead(
    pages: Iterator[list[PageRow]], session: Session
) -> Generator[list[PageRow], None, None]:
    """Yield pages; the next one is fetched in a thread while a page is converted."""
    with ThreadPoolExecutor(1, _PAGE_THREAD) as thread:
        before = sys.getswitchinterval()
        sys.setswitchinterval(min(before, _SWITCH_SECONDS))
        following = thread.submit(next, pages, None)
        try:
            while (page := following.result()) is not None:
                following = thread.submit(next, pages, None)
                yield page
        finally:
            sys.setswitchinterval(before)
            session.stop_waiting()


def _values(table: TableQuery, *, max_bytes: int) -> list[Expression]:
    """Return the expressions of a row without values of more than `max_bytes`.

    If there are large columns, the last value is the name of the first one that is left out.
    """
    values: list[Expression] = []
    left_out: list[tuple[Expression, str]] = []
    for column in table.columns:
        value = table.column(column.name)
        if column.is_large and column.name not in table.key:
            is_too_large = table.session.dialect.size(value, column) > max_bytes
            left_out.append((is_too_large, column.name))
            value = sa.case((sa.not_(is_too_large), value)).label(column.name)
        values.append(value)
    if any(column.is_large for column in table.columns):
        values.append(sa.case(*left_out) if left_out else sa.null())
    return values


def _fitting_rows(page: Sequence[PageRow]) -> int:
    """Return how many rows have about PAGE_BYTES, estimated from some rows of a page."""
    sample = page[::_SAMPLE_STEP]
    values = (value for row in sample for value in row_of(row))
    row_bytes = sum(len(value) for value in values if isinstance(value, str | bytes)) // len(sample)
    return max(1, PAGE_BYTES // (row_bytes + 1))
