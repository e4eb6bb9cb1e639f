"""Read the rows of a span as records, in the order of their keys.

Rows are read page by page (keyset pagination). Each page is a statement and a transaction of its
own: no snapshot is open for hours. A row that changes meanwhile is read in one of its versions; no
other row is read twice or left out. A row with a changed key can be read under both keys, or not at
all: key columns should not change. After a lost connection, a page is read again.

A page with a value that cannot be read is read again from its first row, in pages of 1, 2, 4 rows
and so on; only the rows with such values are lost. A row with a value of more than INLINE_BYTES is
read again alone, without values above the size limit. SQLite itself refuses larger values, so the
sizes of values are asked for only after the first page with one. Together with a page size that
shrinks for wide rows, that bounds memory. Within these bounds, a page is fetched at once:
server-side cursors take twice the time. The next page is fetched from a server while a page is
converted.

With a state, a document is filtered as unchanged if its record has the digest of the last run,
wherever its parts come from: the row, lookup queries, a file, a template (`row_changes`).
"""

import os
import sys
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import lru_cache, partial
from itertools import groupby
from typing import NamedTuple

import sqlalchemy as sa

from feedferry.schemas.errors import ConfigError, RecordError
from feedferry.schemas.record import Record
from feedferry.schemas.reject import Reject
from feedferry.schemas.sent_document import OnChange
from feedferry.schemas.span import KeyRange, Span
from feedferry.transforms.formats.base import ReadOptions, ReadResult
from feedferry.transforms.sources.database.changes.row_changes import RowChanges, signatures_of
from feedferry.transforms.sources.database.connection.dialects import INLINE_BYTES, Expression
from feedferry.transforms.sources.database.connection.session import Session, UnreadableValueError
from feedferry.transforms.sources.database.mapping.columns import ColumnIndex, Key, Row
from feedferry.transforms.sources.database.mapping.row_mapping import RowMapping
from feedferry.transforms.sources.database.records.record_maker import RecordMaker
from feedferry.transforms.sources.database.records.row_batches import RowBatches
from feedferry.transforms.sources.database.tables.table import (
    KeyOrder,
    Select,
    TableQuery,
    fetch_all,
    fetch_limited,
    open_table,
    read_key,
    subquery,
    write_key,
)
from feedferry.transforms.storage.state import SourceState

PAGE_BYTES = 8 << 20
"""The approximate size of a page of wide rows."""

_LOOKUP = "feedferry_lookup"
_SAMPLE_STEP = 16
_MAX_OPEN_MAPPINGS = 4
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


def _row_of(item: PageRow) -> Row:
    return item.row if isinstance(item, IncompleteRow) else item


def range_of(span: Span) -> KeyRange:
    """Return the range of a span; without one, it has all rows."""
    return span.position if isinstance(span.position, KeyRange) else KeyRange()


def read_rows(
    span: Span,
    *,
    mapping: RowMapping,
    options: ReadOptions = ReadOptions(),
    see: OnChange | None = None,
    state: SourceState | None = None,
) -> Generator[ReadResult, None, None]:
    """Yield the outcomes of the rows in the key range of a span.

    `see` is called for each row that is not as in the state, before its outcome is yielded: a
    deletion is gone, a rejected row has no digest. Rows with the digest that the state has are
    filtered, except in a refresh. Raise SourceError if the database is lost.
    """
    key_range = range_of(span)
    table = _open(mapping, os.getpid()).filtered(key_range.filter)
    with closing(Session(mapping, table.session.engine)) as session:
        table = replace(table, session=session)
        if key_range.has_null_keys:
            yield from _reject_null_keys(table, span)
            return
        records = _RowRecords(table, span, options)
        if see is None and state is None:
            yield from records.outcomes()
            return
        sent = None if key_range.is_refresh else state
        signatures = signatures_of(mapping, options, key_range.secret)
        yield from records.outcomes(
            RowChanges(table.index, mapping, signatures, see=see, state=sent)
        )


class _RowRecords:
    """The outcomes of the rows of a span, in batches where rows are alike."""

    def __init__(self, table: TableQuery, span: Span, options: ReadOptions) -> None:
        self._pages = PageReader(table, range_of(span))
        self._session = table.session
        self._span = span
        self._max_bytes = options.max_content_bytes
        self._lookups = LookupQueries(table)
        self._maker = RecordMaker(
            table.mapping, table.index, self._lookups, span=span, options=options
        )
        self._key_index = ColumnIndex(table.key, table.key)
        content = table.mapping.content
        # Files, fetched documents and pages of templates have no common bound.
        is_bounded = content.path is None and content.fetch is None and content.template is None
        max_records = options.batch_records if is_bounded else 0
        self._batches = RowBatches(self._maker, max_records=max_records)

    def outcomes(self, changes: RowChanges | None = None) -> Iterator[ReadResult]:
        """Yield all outcomes; with `changes`, those that it leaves."""
        with closing(self._loaded_pages()) as pages:
            for page in pages:
                if IncompleteRow not in {*map(type, page)}:
                    yield from self._of_rows(page, changes)
                    continue
                for type_, items in groupby(page, type):
                    if type_ is not IncompleteRow:
                        yield from self._of_rows([*map(_row_of, items)], changes)
                        continue
                    if changes is None:
                        yield from (outcome for _, outcome in self._of(items))
                        continue
                    yield from changes.of_waiting(self._batches.outcomes)
                    for row, outcome in self._of(items):
                        yield from changes.of_outcome(row, outcome)
        if changes is not None:
            yield from changes.of_waiting(self._batches.outcomes)

    def _of_rows(self, rows: Sequence[Row], changes: RowChanges | None) -> Iterator[ReadResult]:
        if changes is None:
            return self._batches.outcomes(rows)
        return changes.of_rows(rows, self._batches.outcomes)

    def _loaded_pages(self) -> Generator[list[PageRow], None, None]:
        pages = iter(self._pages)
        if self._session.dialect.is_remote:
            pages = _fetched_ahead(pages, self._session)
        with closing(pages):
            for page in pages:
                self._lookups.load_page(self._pages.key_of(page[0]), self._pages.key_of(page[-1]))
                yield page

    def _of(self, items: Iterable[PageRow]) -> Iterator[tuple[Row, Record | Reject]]:
        """Yield the outcomes of incomplete rows, each with the values that were read first."""
        make = self._maker.make
        for item in items:
            row: PageRow | None = item
            if isinstance(row, IncompleteRow) and row.column:
                row = self._pages.read_alone(row, max_bytes=self._max_bytes)
            if row is None:  # deleted meanwhile
                continue
            if not isinstance(row, IncompleteRow):
                yield row, make(row)
            elif row.column:
                yield row.row, make(row.row, too_large=row.column)
            else:
                reason = f"{row.unreadable}; expected values that can be read"
                error = RecordError("unreadable", reason)
                key = self._pages.key_of(row)
                yield row.row, self._key_index.reject(key, error, span=self._span)


def _fetched_ahead(
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


def _reject_null_keys(table: TableQuery, span: Span) -> Iterator[Reject]:
    error = RecordError("null-key", "NULL in the key; expected a value in each key column")
    index = ColumnIndex(table.key, table.key)
    return (index.reject(key, error, span=span) for key in table.read_null_keys())


@lru_cache(maxsize=_MAX_OPEN_MAPPINGS)
def _open(mapping: RowMapping, _process: int) -> TableQuery:
    """Return the table of a mapping, described once; a forked process opens its own."""
    return open_table(mapping)


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
        return self._key_of(_row_of(row))

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
    values = (value for row in sample for value in _row_of(row))
    row_bytes = sum(len(value) for value in values if isinstance(value, str | bytes)) // len(sample)
    return max(1, PAGE_BYTES // (row_bytes + 1))


class LookupQueries:
    """Returns the rows that a query has for a key of the page, without their key columns.

    Each query, for ACLs or for metadata with several values, runs once for a page; its rows are
    kept in memory, sorted by their other columns, so that each run has the same order. The database
    decides which rows belong to a key, by its collation: a query is joined to the rows of the page.
    A list of principals is not lost because two tables differ in case.
    """

    def __init__(self, table: TableQuery) -> None:
        self._table = table
        self._joins: dict[str, tuple[Select, KeyOrder]] = {}
        self._page: tuple[Key, Key] = ((), ())
        self._rows: dict[str, dict[Key, list[Row]]] = {}

    def load_page(self, first: Key, last: Key) -> None:
        """Set the page by its first and its last key."""
        self._page = (first, last)
        self._rows.clear()

    def __call__(self, query: str, key: Key) -> Sequence[Row]:
        rows = self._rows.get(query)
        if rows is None:
            rows = self._rows[query] = self._run(query)
        return rows.get(key, ())

    def _run(self, query: str) -> dict[Key, list[Row]]:
        first, last = self._page
        if query not in self._joins:
            self._joins[query] = self._join(query)
        statement, lookup_order = self._joins[query]
        for order in (lookup_order, self._table.order):
            statement = statement.where(order.since(first), order.upto(last))
        rows: dict[Key, list[Row]] = defaultdict(list)
        width = len(self._table.key)
        for row in self._table.run(statement, where=f"the query {query!r}", is_retried=True):
            rows[row[:width]].append(row[width:])
        return dict(rows)

    def _join(self, query: str) -> tuple[Select, KeyOrder]:
        table, selectable = self._table, subquery(query, (), _LOOKUP)
        where = f"the query {query!r}"
        columns = table.session.describe(selectable, where=where, is_retried=True)
        names, width = [column.name for column in columns], len(table.key)
        if len(names) <= width:
            raise ConfigError(
                f"query: {query!r} selects {', '.join(names)}; expected the key, "
                f"{', '.join(table.key)}, and then a value"
            )
        lookup = subquery(query, names, _LOOKUP)
        key, values = list(lookup.c)[:width], list(lookup.c)[width:]
        pairs = zip(key, table.key_columns, strict=True)
        joined = lookup.join(table.selectable, sa.and_(*(left == right for left, right in pairs)))
        selected = sa.select(*table.key_columns, *values).select_from(joined)
        order = KeyOrder(key, table.session.dialect)
        return selected.order_by(*table.key_columns, *values), order
