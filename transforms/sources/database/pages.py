"""Read the rows of a key range page by page (keyset pagination), in the order of their keys.

Each page is a statement and a transaction of its own: no snapshot is open for hours. A row that
changes meanwhile is read in one of its versions; no other row is read twice or left out. A row with
a changed key can be read under both keys, or not at all: key columns should not change.

After a lost connection, a page is read again, after the last row that was yielded. A page with a
value that cannot be read is read again row by row, and costs only the rows with such values.

Values of more than INLINE_BYTES are read one by one, and values above the size limit not at all.
Together with a page size that shrinks for wide rows, that bounds memory. Within these bounds, a
page is fetched at once: server-side cursors take twice the time.
"""

from collections.abc import Generator, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import sqlalchemy as sa

from schemas.errors import SourceError
from schemas.span import KeyRange
from transforms.sources.database.column_index import Key, Row
from transforms.sources.database.keys import above, equal, parameters, read_key, upto, write_key
from transforms.sources.database.result_columns import (
    INLINE_BYTES,
    Expression,
    ResultColumn,
    Select,
    size_in_bytes,
)
from transforms.sources.database.session import Session, UnreadableValueError
from transforms.sources.database.table_query import TableQuery

PAGE_BYTES = 8 << 20
"""The approximate size of a page of wide rows."""

_AFTER, _UPTO, _LIMIT, _KEY = "after", "upto", "page_rows", "key"
_SAMPLE_STEP = 16


class PartialRow(NamedTuple):
    """A row with None in place of its large values."""

    row: Row


class UnreadableRow(NamedTuple):
    """A row with a value that cannot be read: only its key is known."""

    key: Key
    reason: str


class CompleteRow(NamedTuple):
    """A row with its large values; `too_large` is the first column above the size limit."""

    row: Row
    too_large: str | None = None
    size: int = 0


PageRow = Row | PartialRow | UnreadableRow


class PageReader:
    """Yields lists of at most `page_rows` rows of a key range."""

    def __init__(self, table: TableQuery, key_range: KeyRange, session: Session) -> None:
        self._table = table
        self._session = session
        self._after = None if key_range.after is None else read_key(key_range.after)
        self._upto = None if key_range.upto is None else read_key(key_range.upto)
        self._page_rows = table.mapping.page_rows
        self._key_of = table.index.key_getter()
        self._large = large_columns(table)
        self._selected = _selected(table, [column for _, column in self._large])
        self._statements: dict[tuple[bool, bool], Select] = {}

    def __iter__(self) -> Generator[list[PageRow], None, None]:
        while True:
            limit = self._page_rows
            try:
                page = self._read(limit)
            except UnreadableValueError:
                page = list(self._read_one_by_one(limit))
            if page:
                self._after = self.key_of(page[-1])
                yield page
            if len(page) < limit:
                return
            self._page_rows = _fitting_rows(page, limit=self._table.mapping.page_rows)

    def key_of(self, row: PageRow) -> Key:
        if isinstance(row, UnreadableRow):
            return row.key
        return self._key_of(row.row if isinstance(row, PartialRow) else row)

    def _read_one_by_one(self, limit: int) -> Iterator[PageRow]:
        for _ in range(limit):
            try:
                page = self._read(1)
            except UnreadableValueError as exc:
                page = [UnreadableRow(self._read_key(), str(exc))]
            if not page:
                return
            self._after = self.key_of(page[0])
            yield page[0]

    def _read(self, limit: int) -> list[PageRow]:
        rows = self._fetch(limit, keys_only=False)
        if not self._large:
            return rows
        return [row[:-1] if row[-1] is None else PartialRow(row[:-1]) for row in rows]

    def _read_key(self) -> Key:
        try:
            key: Key = self._fetch(1, keys_only=True)[0]
        except UnreadableValueError as exc:
            raise SourceError(
                f"{self._where}: the first key: {exc}; expected a key that can be read"
            ) from None
        return key

    @property
    def _where(self) -> str:
        after, upto = (write_key(key) if key else None for key in (self._after, self._upto))
        return f"{self._table.shown}, {KeyRange(after=after, upto=upto).shown}"

    def _fetch(self, limit: int, *, keys_only: bool) -> list[Any]:
        is_first = self._after is None
        statement = self._statements.get((is_first, keys_only))
        if statement is None:
            statement = self._statement(is_first=is_first, keys_only=keys_only)
            self._statements[is_first, keys_only] = statement
        dialect = self._table.engine.dialect
        given = {
            **parameters(_AFTER, self._after or (), dialect),
            **parameters(_UPTO, self._upto or (), dialect),
            _LIMIT: limit,
        }
        return self._session.run(partial(_fetch_all, statement, given), where=self._where)

    def _statement(self, *, is_first: bool, keys_only: bool) -> Select:
        columns, dialect = self._table.key_columns, self._table.engine.dialect
        values = columns if keys_only else self._selected
        limits = [] if is_first else [above(columns, _AFTER, dialect)]
        if self._upto is not None:
            limits.append(upto(columns, _UPTO, dialect))
        statement = sa.select(*values).where(*self._table.with_key, *limits).order_by(*columns)
        return statement.limit(sa.bindparam(_LIMIT, type_=sa.Integer))


class LargeValueReader:
    """Completes rows with their large values."""

    def __init__(self, table: TableQuery, session: Session, *, max_bytes: int) -> None:
        self._table = table
        self._session = session
        self._max_bytes = max_bytes
        self._large = large_columns(table)
        self._key_of = table.index.key_getter()

    def complete(self, row: Row) -> CompleteRow:
        """Return a row with its large values; one that was deleted meanwhile is not changed."""
        key = self._key_of(row)
        dialect = self._table.engine.dialect
        columns = [(self._table.column(column.name), column) for _, column in self._large]
        sizes = self._select(key, *(size_in_bytes(*pair, dialect) for pair in columns))
        values = list(row)
        too_large: str | None = None
        total = 0
        for (at, column), (value, _), size in zip(self._large, columns, sizes, strict=False):
            if (size or 0) > self._max_bytes:
                too_large, total = too_large or column.name, total or size
            elif (size or 0) > INLINE_BYTES:
                (values[at],) = self._select(key, value) or (None,)
        return CompleteRow(tuple(values), too_large, total)

    def _select(self, key: Key, *values: Any) -> tuple[Any, ...]:
        """Return values of the row with a key, none if it was deleted."""
        table = self._table
        statement = sa.select(*values).where(*table.where, equal(table.key_columns, _KEY))
        given = parameters(_KEY, key, table.engine.dialect)
        where = f"{table.shown}, the row {write_key(key)}"
        rows = self._session.run(partial(_fetch_all, statement, given), where=where)
        return rows[0] if rows else ()


def large_columns(table: TableQuery) -> list[tuple[int, ResultColumn]]:
    """Return the columns that a page can leave out, with their positions."""
    return [
        (at, column)
        for at, column in enumerate(table.columns)
        if column.is_large and column.name not in table.key
    ]


def _selected(table: TableQuery, large: Sequence[ResultColumn]) -> list[Expression]:
    """Return the expressions of a row; the last is not NULL if a large value is left out."""
    dialect = table.engine.dialect
    is_left_out = {
        column.name: size_in_bytes(table.column(column.name), column, dialect) > INLINE_BYTES
        for column in large
    }
    values = []
    for column in table.columns:
        value = table.column(column.name)
        if column.name in is_left_out:
            value = sa.case((sa.not_(is_left_out[column.name]), value)).label(column.name)
        values.append(value)
    if is_left_out:
        values.append(sa.case((sa.or_(*is_left_out.values()), 1)))
    return values


def _fetch_all(statement: Select, given: dict[str, object], connection: sa.Connection) -> list[Any]:
    """Return tuples of the driver's cursor: SQLAlchemy's rows take as long as all other work."""
    result = connection.execute(statement, given)
    try:
        cursor: Any = result.cursor
        return list(map(tuple, cursor.fetchall()))
    finally:
        result.close()


def _fitting_rows(page: Sequence[PageRow], *, limit: int) -> int:
    """Return how many rows have about PAGE_BYTES, estimated from some rows of a page."""
    sample = page[::_SAMPLE_STEP]
    row_bytes = sum(map(_size_of, sample)) // len(sample)
    return max(1, min(limit, PAGE_BYTES // (row_bytes + 1)))


def _size_of(row: PageRow) -> int:
    """Return the approximate size of a row in memory; large values are not in it yet."""
    if isinstance(row, UnreadableRow):
        return 0
    values = row.row if isinstance(row, PartialRow) else row
    return sum(len(value) for value in values if isinstance(value, str | bytes))
