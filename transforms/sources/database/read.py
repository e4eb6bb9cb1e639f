"""Read the rows of a span as records, in the order of their keys.

Rows are read page by page (keyset pagination). Each page is a statement and a transaction of its
own: no snapshot is open for hours. A row that changes meanwhile is read in one of its versions; no
other row is read twice or left out. A row with a changed key can be read under both keys, or not at
all: key columns should not change. After a lost connection, a page is read again.

With a state, a document is filtered as unchanged if its record has the digest of the last run,
wherever its parts come from: the row, lookup queries, a file, a template (`row_changes`).
"""

import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import lru_cache
from itertools import groupby

from feedferry.schemas.errors import RecordError
from feedferry.schemas.record import Record
from feedferry.schemas.reject import Reject
from feedferry.schemas.sent_document import OnChange
from feedferry.schemas.span import KeyRange, Span
from feedferry.transforms.formats.base import ReadOptions, ReadResult
from feedferry.transforms.formats.fast_path.columns.record_batch import RecordBatch
from feedferry.transforms.formats.fast_path.elements.element_block import ElementBlock
from feedferry.transforms.sources.database.changes.row_changes import RowChanges, signatures_of
from feedferry.transforms.sources.database.connection.session import Session
from feedferry.transforms.sources.database.mapping.columns import ColumnIndex, Row
from feedferry.transforms.sources.database.mapping.row_mapping import RowMapping
from feedferry.transforms.sources.database.records.record_maker import RecordMaker
from feedferry.transforms.sources.database.records.row_batches import RowBatches
from feedferry.transforms.sources.database.tables.lookup_queries import LookupQueries
from feedferry.transforms.sources.database.tables.pages import (
    IncompleteRow,
    PageReader,
    PageRow,
    fetched_ahead,
    row_of,
)
from feedferry.transforms.sources.database.tables.table import TableQuery, open_table
from feedferry.transforms.storage.state import SourceState

_MAX_OPEN_MAPPINGS = 4


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


def has_changes(
    span: Span, *, mapping: RowMapping, options: ReadOptions, state: SourceState
) -> bool:
    """Whether a row of a span has a record that the state does not have."""
    kinds = Record | RecordBatch | ElementBlock
    with closing(read_rows(span, mapping=mapping, options=options, state=state)) as outcomes:
        return any(isinstance(outcome, kinds) for outcome in outcomes)


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
        self._batches = RowBatches(
            self._maker, max_records=max_records, acls_in_blocks=options.acls_in_blocks
        )

    def outcomes(self, changes: RowChanges | None = None) -> Iterator[ReadResult]:
        """Yield all outcomes; with `changes`, those that it leaves."""
        with closing(self._loaded_pages()) as pages:
            for page in pages:
                if IncompleteRow not in {*map(type, page)}:
                    yield from self._of_rows(page, changes)
                    continue
                for type_, items in groupby(page, type):
                    if type_ is not IncompleteRow:
                        yield from self._of_rows([*map(row_of, items)], changes)
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
            pages = fetched_ahead(pages, self._session)
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


def _reject_null_keys(table: TableQuery, span: Span) -> Iterator[Reject]:
    error = RecordError("null-key", "NULL in the key; expected a value in each key column")
    index = ColumnIndex(table.key, table.key)
    return (index.reject(key, error, span=span) for key in table.read_null_keys())


@lru_cache(maxsize=_MAX_OPEN_MAPPINGS)
def _open(mapping: RowMapping, _process: int) -> TableQuery:
    """Return the table of a mapping, described once; a forked process opens its own."""
    return open_table(mapping)
