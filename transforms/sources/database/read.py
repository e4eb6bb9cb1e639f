"""Read the rows of a span as records, in the order of their keys.

With a state, a document is filtered as unchanged if its record has the digest of the last run,
wherever its parts come from: the row, lookup queries, a file, a template.
"""

import hashlib
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from functools import lru_cache

from msgspec.structs import replace

from schemas import avro
from schemas.errors import RecordError
from schemas.record import Action, Provenance, Record
from schemas.reject import Filtered, Reject, record_error
from schemas.sent_document import NO_DIGEST, UNCHANGED, OnChange, SentDocument, StateChange
from schemas.span import KeyRange, Span
from transforms.formats.base import ReadOptions, ReadResult
from transforms.sources.database.column_index import ColumnIndex, Key, Row
from transforms.sources.database.connection import connect
from transforms.sources.database.key_ranges import filter_rows, range_of
from transforms.sources.database.keys import write_key
from transforms.sources.database.lookup_queries import LookupQueries
from transforms.sources.database.mapping import RowMapping
from transforms.sources.database.pages import (
    LargeValueReader,
    PageReader,
    PageRow,
    PartialRow,
    UnreadableRow,
    large_columns,
)
from transforms.sources.database.records import RecordMaker
from transforms.sources.database.session import Session, UnreadableValueError
from transforms.sources.database.table_query import TableQuery, open_rows
from transforms.sources.database.watermark import timestamp_text

_MAX_OPEN_MAPPINGS = 4
_NO_PROVENANCE = Provenance()
_Outcome = Record | Reject
Recall = Callable[[str], SentDocument | None]
"""Returns the entry of a key in the state."""


def read_rows(
    span: Span,
    *,
    mapping: RowMapping,
    options: ReadOptions = ReadOptions(),
    see: OnChange | None = None,
    known: Recall | None = None,
) -> Generator[ReadResult, None, None]:
    """Yield the outcomes of the rows in the key range of a span.

    `see` is called for each row before its outcome is yielded: a deletion is gone, a rejected row
    has no digest. Rows that are `known` with the same digest are filtered, except in a refresh.
    Raise SourceError if the database is lost.
    """
    key_range = range_of(span)
    table = filter_rows(_open(mapping, os.getpid()), key_range.filter)
    if key_range.has_null_keys:
        yield from _reject_null_keys(table, span)
        return
    with closing(Session(mapping, table.engine)) as session:
        reader = RowReader(table, key_range, session, span=span, options=options)
        if see is None and known is None:
            yield from reader.records()
            return
        recall = known if known is not None and not key_range.is_refresh else lambda key: None
        timestamp_of = _timestamp_getter(table)
        for key, row, outcome in reader.outcomes():
            seen = _seen(write_key(key), outcome, timestamp_of(row))
            if see is not None:
                see(seen)
            yield outcome if _has_changed(seen, recall) else _unchanged(outcome)


class RowReader:
    """Yields the outcomes of the rows of a key range: a record or a reject for each."""

    def __init__(
        self,
        table: TableQuery,
        key_range: KeyRange,
        session: Session,
        *,
        span: Span,
        options: ReadOptions,
    ) -> None:
        self._table = table
        self._span = span
        self._max_bytes = options.max_content_bytes
        self._pages = PageReader(table, key_range, session)
        self._lookups = LookupQueries(table, session)
        self._large_values = LargeValueReader(table, session, max_bytes=self._max_bytes)
        self._index = table.index
        maker = RecordMaker(table.mapping, self._index, self._lookups, span=span, options=options)
        self._make = maker.make

    def outcomes(self) -> Iterator[tuple[Key, Row | None, _Outcome]]:
        """Yield the key of each row, the row, None if it cannot be read, and its outcome."""
        for page in self._load_pages():
            yield from map(self._outcome, page)

    def records(self) -> Iterator[_Outcome]:
        """Yield the outcome of each row, without the cost of its key."""
        make = self._make
        for page in self._load_pages():
            for row in page:
                yield make(row) if type(row) is tuple else self._outcome(row)[2]

    def _load_pages(self) -> Iterator[list[PageRow]]:
        key_of = self._pages.key_of
        for page in self._pages:
            self._lookups.load_page(key_of(page[0]), key_of(page[-1]))
            yield page

    def _outcome(self, row: PageRow) -> tuple[Key, Row | None, _Outcome]:
        key = self._pages.key_of(row)
        if isinstance(row, UnreadableRow):
            return key, None, self._reject_unreadable(key, row.reason)
        if not isinstance(row, PartialRow):
            return key, row, self._make(row)
        try:
            return key, row.row, self._complete(key, row.row)
        except Exception as exc:
            return key, row.row, self._reject_partial(row.row, record_error(exc))

    def _complete(self, key: Key, row: Row) -> _Outcome:
        try:
            complete = self._large_values.complete(row)
        except UnreadableValueError as exc:
            return self._reject_unreadable(key, str(exc))
        outcome = self._make(complete.row)
        is_deletion = isinstance(outcome, Record) and outcome.action is Action.DELETE
        if complete.too_large is None or is_deletion:
            return outcome
        reason = (
            f"{complete.too_large} has {complete.size} bytes; expected at most {self._max_bytes} "
            "bytes; raise --max-content-bytes to read it"
        )
        reject = self._reject_partial(row, RecordError("content-too-large", reason))
        action = outcome.action.value if isinstance(outcome, Record) else outcome.action
        return replace(reject, url=outcome.url, action=action)

    def _reject_unreadable(self, key: Key, reason: str) -> Reject:
        names = self._table.key
        error = RecordError("unreadable", f"{reason}; expected values that can be read")
        return ColumnIndex(names=names, key=names).reject(key, error, span=self._span)

    def _reject_partial(self, row: Row, error: RecordError) -> Reject:
        """Return the reject of a row, without its document and the values that were not read."""
        content = self._table.mapping.content.column
        without = {at for at, _ in large_columns(self._table) if row[at] is None}
        if content is not None:
            without.add(self._index.at("content: column", content))
        return self._index.reject(row, error, span=self._span, without=without)


def _reject_null_keys(table: TableQuery, span: Span) -> Iterator[Reject]:
    error = RecordError("null-key", "NULL in the key; expected a value in each key column")
    index = ColumnIndex(names=table.key, key=table.key)
    return (index.reject(key, error, span=span) for key in table.read_null_keys())


@lru_cache(maxsize=_MAX_OPEN_MAPPINGS)
def _open(mapping: RowMapping, _process: int) -> TableQuery:
    """Return the table of a mapping, described once; a forked process opens its own."""
    return open_rows(mapping, connect(mapping))


def _timestamp_getter(table: TableQuery) -> Callable[[Row | None], str]:
    if table.mapping.timestamp is None:
        return lambda row: ""
    at = table.index.at("incremental: timestamp", table.mapping.timestamp)
    return lambda row: "" if row is None else timestamp_text(row[at])


def _seen(key: str, outcome: _Outcome, timestamp: str) -> StateChange:
    digest = _digest(outcome) if isinstance(outcome, Record) else NO_DIGEST
    is_gone = isinstance(outcome, Record) and outcome.action is Action.DELETE
    known = SentDocument(key=key, url=outcome.url or "", fingerprint=timestamp, digest=digest)
    return StateChange(known=known, is_gone=is_gone)


def _digest(record: Record) -> str:
    """Return the SHA-256 of a record without its provenance; empty if no format can hold it."""
    try:
        datum = avro.encode(replace(record, provenance=_NO_PROVENANCE))
    except (RecordError, UnicodeEncodeError):  # the writer rejects it
        return NO_DIGEST
    return hashlib.sha256(datum).hexdigest()


def _has_changed(seen: StateChange, recall: Recall) -> bool:
    """Return whether a row differs from the state; a deletion has no URL in a state."""
    before = recall(seen.known.key)
    if before is None or before.digest == NO_DIGEST or before.digest != seen.known.digest:
        return True
    return before.url not in ("", seen.known.url)


def _unchanged(outcome: _Outcome) -> Filtered:
    action = outcome.action.value if isinstance(outcome, Record) else ""
    return Filtered(code=UNCHANGED, url=outcome.url or "", action=action)
