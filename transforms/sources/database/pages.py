"""Rows in the order of their keys, page by page; a page goes on where the last one ended.

Each page is a statement of its own, and so is a transaction: no snapshot is held open for hours. A
row that is changed meanwhile is read as it is when its page is; one that is added or taken away is
there or not, but no other row is read twice or left out for it. A row whose key is changed may be
read under both keys, or under none: what numbers rows should not be changed.

A page that goes wrong is read again, by another connection, behind the last row that was given.

Values of more than INLINE_BYTES are left out, and asked for one by one: see `_large`. Together with
`page_rows`, which is lowered where rows are wide, that bounds the memory that a page takes. Within
these bounds a page is fetched at once: cursors that are kept at the server, which are used
wherever a result has no bound, cost half of the speed here.
"""

from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import sqlalchemy as sa

from schemas.errors import SourceError
from transforms.sources.database.column_index import Row
from transforms.sources.database.columns import INLINE_BYTES, Column, octets
from transforms.sources.database.errors import TornValueError
from transforms.sources.database.keys import Key, above, parameters, read_key, upto, write_key
from transforms.sources.database.ranges import KeyRange, Kind
from transforms.sources.database.session import USUAL, Pauses, Session, stream
from transforms.sources.database.table_query import Rows

PAGE_BYTES = 8 << 20
"""About as much of a page is wanted, where rows are wide."""

_AFTER, _UPTO, _LIMIT = "after", "upto", "page_rows"
_SAMPLE_STEP = 16


class Partial(NamedTuple):
    """A row without those of its values that are large: they are None here."""

    row: Row


class Torn(NamedTuple):
    """A row that the driver cannot read; what is known of it is its key, and why."""

    key: Key
    reason: str


Paged = Row | Partial | Torn


def pages(
    rows: Rows, key_range: KeyRange, *, pauses: Pauses = USUAL
) -> Generator[list[Paged], None, None]:
    """Yield the rows of a range in lists of at most `page_rows`, in the order of their keys.

    Raise SourceError when a page went wrong more often than it has `retries`.
    """
    autocommit = key_range.kind is Kind.ROWS
    session = Session(rows.mapping, rows.engine, pauses=pauses, autocommit=autocommit)
    found = (_Keyed if autocommit else _Unkeyed)(rows, key_range, session)
    try:
        yield from found
    finally:
        session.close()


def selected(rows: Rows) -> list[sa.ColumnElement[Any]]:
    """Return what is selected of each row; behind its columns, whether one of them is large."""
    dialect = rows.engine.dialect
    unbounded = [column for column in rows.columns if _is_lazy(column, rows)]
    larger = {
        column.name: octets(rows.column(column.name), column, dialect) > INLINE_BYTES
        for column in unbounded
    }
    values = [_inline(rows, column, larger) for column in rows.columns]
    if larger:
        values.append(sa.case((sa.or_(*larger.values()), 1)))
    return values


def lazy_columns(rows: Rows) -> list[tuple[int, Column]]:
    """Return the columns that may be left out of a page, and where they stand."""
    return [(at, column) for at, column in enumerate(rows.columns) if _is_lazy(column, rows)]


class _Keyed:
    """The pages of a range of keys."""

    def __init__(self, rows: Rows, key_range: KeyRange, session: Session) -> None:
        self._rows = rows
        self._session = session
        session.hurries = True
        self._after = None if key_range.after is None else read_key(key_range.after)
        self._upto = None if key_range.upto is None else read_key(key_range.upto)
        self._page_rows = rows.mapping.page_rows
        self._key_of = rows.named.key_maker()
        self._selected = selected(rows)
        self._statements: dict[tuple[bool, bool], sa.Select[Any]] = {}

    @property
    def _where(self) -> str:
        after, upto = (None if key is None else write_key(key) for key in (self._after, self._upto))
        return f"{self._rows.shown}, {KeyRange(after=after, upto=upto).shown}"

    def __iter__(self) -> Iterator[list[Paged]]:
        while True:
            limit = self._page_rows
            page = self._read_or_part(limit)
            if page:
                self._after = self._key(page[-1])
                yield page
            if len(page) < limit:
                return
            self._page_rows = _fitting(page, most=self._rows.mapping.page_rows)

    def _read_or_part(self, limit: int) -> list[Paged]:
        try:
            return self._read(limit)
        except TornValueError:
            self._session.hurries = False
        try:
            return self._read(limit)
        except TornValueError:
            return list(self._one_by_one(limit))

    def _one_by_one(self, limit: int) -> Iterator[Paged]:
        for _ in range(limit):
            try:
                page = self._read(1)
            except TornValueError as exc:
                page = [Torn(self._read_key(), str(exc))]
            if not page:
                return
            self._after = self._key(page[0])
            yield page[0]

    def _read(self, limit: int) -> list[Paged]:
        found = self._fetch(limit, keys_only=False)
        if len(self._selected) == len(self._rows.columns):
            return found
        return [row[:-1] if row[-1] is None else Partial(row[:-1]) for row in found]

    def _read_key(self) -> Key:
        try:
            key: Key = self._fetch(1, keys_only=True)[0]
        except TornValueError:
            raise SourceError(
                f"{self._where}: the first key cannot be read; expected a key of values that can be"
            ) from None
        return key

    def _fetch(self, limit: int, *, keys_only: bool) -> list[Any]:
        is_first = self._after is None
        statement = self._statements.get((is_first, keys_only))
        if statement is None:
            values = self._rows.key_columns if keys_only else self._selected
            statement = self._statement(values, is_first=is_first)
            self._statements[is_first, keys_only] = statement
        dialect = self._rows.engine.dialect
        given = {
            **parameters(_AFTER, self._after or (), dialect),
            **parameters(_UPTO, self._upto or (), dialect),
            _LIMIT: limit,
        }
        return self._session.run(partial(_fetch, statement, given), where=self._where)

    def _statement(
        self, values: Sequence[sa.ColumnElement[Any]], *, is_first: bool
    ) -> sa.Select[Any]:
        columns, dialect = self._rows.key_columns, self._rows.engine.dialect
        bounds = [] if is_first else [above(columns, _AFTER, dialect)]
        if self._upto is not None:
            bounds.append(upto(columns, _UPTO, dialect))
        statement = sa.select(*values).where(*self._rows.with_key, *bounds).order_by(*columns)
        return statement.limit(sa.bindparam(_LIMIT, type_=sa.Integer))

    def _key(self, row: Paged) -> Key:
        if isinstance(row, Torn):
            return row.key
        key: Key = self._key_of(row.row if isinstance(row, Partial) else row)
        return key


class _Unkeyed:
    """The rows with NULL in their key: streamed, as no key tells where a page ends."""

    def __init__(self, rows: Rows, key_range: KeyRange, session: Session) -> None:
        self._rows = rows
        self._where = f"{rows.shown}, {key_range.shown}"
        self._session = session
        self._given = 0
        self._connection: sa.Connection | None = None
        self._opened = ExitStack()

    def __iter__(self) -> Iterator[list[Paged]]:
        with self._opened:
            while page := self._session.run(self._next, where=self._where):
                self._given += len(page)
                yield [tuple(row)[: len(self._rows.columns)] for row in page]

    def _next(self, connection: sa.Connection) -> Sequence[sa.Row[Any]]:
        if connection is not self._connection:  # the first, or another one after it was lost
            self._opened.close()
            self._result = self._opened.enter_context(self._stream(connection))
            deque(islice(self._result, self._given), maxlen=0)
            self._connection = connection
        return self._result.fetchmany(self._rows.mapping.page_rows)

    def _stream(self, connection: sa.Connection) -> AbstractContextManager[sa.CursorResult[Any]]:
        statement = sa.select(*selected(self._rows)).where(*self._rows.without_key)
        ordered = statement.order_by(*self._rows.key_columns)
        return stream(connection, ordered, rows=self._rows.mapping.page_rows)


def _fetch(
    statement: sa.Select[Any], given: dict[str, object], connection: sa.Connection
) -> list[Any]:
    """Fetch from the driver: what SQLAlchemy makes of a row takes as long as all the rest."""
    result = connection.execute(statement, given)
    try:
        cursor: Any = result.cursor
        return list(map(tuple, cursor.fetchall()))
    finally:
        result.close()


def _is_lazy(column: Column, rows: Rows) -> bool:
    return column.is_unbounded and column.name not in rows.key


def _inline(
    rows: Rows, column: Column, larger: Mapping[str, sa.ColumnElement[bool]]
) -> sa.ColumnElement[Any]:
    value = rows.column(column.name)
    if column.name not in larger:
        return value
    return sa.case((sa.not_(larger[column.name]), value)).label(column.name)


def _fitting(page: Sequence[Paged], *, most: int) -> int:
    """Return how many rows like those of a page have about PAGE_BYTES, by some of them."""
    sample = page[::_SAMPLE_STEP]
    sizes = (len(value) for row in sample for value in row if isinstance(value, str | bytes))
    width = sum(sizes) // len(sample) + 1
    return max(1, min(most, PAGE_BYTES // width))
