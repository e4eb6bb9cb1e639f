"""The rows of a span as records, in the order of their keys.

With a state, a document that is as it was when it was sent is filtered; what decides is the digest
of its record, wherever that comes from: its row, second queries, a file, a template.
"""

import hashlib
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from functools import lru_cache
from itertools import chain

import msgspec

from schemas import avro
from schemas.defect import record_error
from schemas.errors import RecordError
from schemas.known import UNCHANGED, Known, See, Seen
from schemas.record import Action, Provenance, Record
from schemas.reject import Filtered, Reject
from schemas.span import Span
from transforms.formats.base import ReadOptions, ReadResult
from transforms.sources.database.column_index import Row, reject_row
from transforms.sources.database.column_index import Rows as Named
from transforms.sources.database.errors import TornValueError
from transforms.sources.database.filters import scope_of, scoped
from transforms.sources.database.keys import Key, write_key
from transforms.sources.database.large_values import Large
from transforms.sources.database.lookup_queries import Sides
from transforms.sources.database.mapping import Mapping
from transforms.sources.database.pages import Paged, Partial, Torn, lazy_columns, pages
from transforms.sources.database.ranges import Kind, decode_range
from transforms.sources.database.records import record_maker
from transforms.sources.database.session import USUAL, Pauses, Session
from transforms.sources.database.table_query import Rows, connect, open_rows
from transforms.sources.database.watermark import timestamp_text

NULL_KEY = "null-key"
TOO_LARGE = "content-too-large"
UNREADABLE = "unreadable"

_OPENED = 4
_NOWHERE = Provenance()
Recall = Callable[[str], Known | None]
_Outcome = Record | Reject


def read_rows(
    span: Span,
    *,
    mapping: Mapping,
    options: ReadOptions = ReadOptions(),
    see: See | None = None,
    known: Recall | None = None,
) -> Generator[ReadResult, None, None]:
    """Yield what is made of the rows in the range and scope that the context of a span says.

    `see` is told of each row before its outcome is yielded: of one that says `delete` as gone, of
    one that was rejected without a digest. What is `known` by its key as it is now is filtered,
    unless the scope is of a run that begins anew. Raise SourceError if the database is lost.
    """
    scope = scope_of(span.context)
    rows = scoped(_opened(mapping, os.getpid()), scope)
    with closing(_Reading(rows, span, options)) as reading:
        if see is None and known is None:
            yield from reading.records()
            return
        recall = _nothing if known is None or scope.anew else known
        fingerprint_of = _fingerprint_maker(rows)
        for key, row, outcome in reading.outcomes():
            if key is None:
                yield outcome
                continue
            seen = _seen(write_key(key), outcome, fingerprint=fingerprint_of(row))
            if see is not None:
                see(seen)
            yield outcome if _is_news(seen, recall) else _unchanged(outcome)


class _Reading:
    """Makes what becomes of the rows of a range."""

    def __init__(
        self, rows: Rows, span: Span, options: ReadOptions, *, pauses: Pauses = USUAL
    ) -> None:
        self._rows = rows
        self._span = span
        self._range = decode_range(span.context)
        self._max_bytes = options.max_content_bytes
        self._session = Session(rows.mapping, rows.engine, pauses=pauses, autocommit=False)
        self._sides = Sides(rows, self._session)
        self._large = Large(rows, self._session, max_bytes=options.max_content_bytes)
        self._named = rows.named
        self._key_of = self._named.key_maker()
        self._make = record_maker(
            rows.mapping, self._named, self._sides, span=span, options=options
        )
        self._pages = pages(rows, self._range, pauses=pauses)

    def records(self) -> Iterator[_Outcome]:
        """Yield what became of each row, where nothing is to be remembered of it."""
        if self._range.kind is Kind.NULLS:
            return (outcome for _, _, outcome in self.outcomes())
        return chain.from_iterable(map(self._records, self._pages))

    def _records(self, page: list[Paged]) -> Iterator[_Outcome]:
        self._turn(page)
        make = self._make
        return (make(row) if type(row) is tuple else self._outcome(row)[2] for row in page)

    def outcomes(self) -> Iterator[tuple[Key | None, Row | None, _Outcome]]:
        """Yield the key of each row, the row, and what became of it.

        There is no key where it has NULL in it, and no row where the driver cannot read it.
        """
        if self._range.kind is Kind.NULLS:
            yield from ((None, row, self._unkeyed(row)) for page in self._pages for row in page)
            return
        for page in self._pages:
            self._turn(page)
            yield from map(self._outcome, page)

    def close(self) -> None:
        """Close what is connected to the database."""
        self._pages.close()
        self._session.close()

    def _turn(self, page: list[Paged]) -> None:
        self._sides.turn(self._key(page[0]), self._key(page[-1]))

    def _key(self, row: Paged) -> Key:
        if isinstance(row, Torn):
            return row.key
        return self._key_of(row.row if isinstance(row, Partial) else row)

    def _outcome(self, row: Paged) -> tuple[Key, Row | None, _Outcome]:
        if isinstance(row, Torn):
            return row.key, None, self._torn(row.key, row.reason)
        if isinstance(row, Partial):
            return self._key_of(row.row), row.row, self._whole_or_reject(row.row)
        return self._key_of(row), row, self._make(row)

    def _whole_or_reject(self, row: Row) -> _Outcome:
        try:
            return self._whole(row)
        except Exception as exc:
            error = record_error(exc)
            return self._reject(error.code, error.reason, row)

    def _whole(self, row: Row) -> _Outcome:
        try:
            whole = self._large.complete(row)
        except TornValueError as exc:
            return self._torn(self._key_of(row), str(exc))
        made = self._make(whole.row)
        if whole.too_large is None or (isinstance(made, Record) and made.action is Action.DELETE):
            return made
        reason = (
            f"{whole.too_large} has {whole.length} bytes; expected at most {self._max_bytes} "
            "bytes; raise --max-content-bytes to read it"
        )
        action = made.action.value if isinstance(made, Record) else made.action
        reject = self._reject(TOO_LARGE, reason, row)
        return msgspec.structs.replace(reject, url=made.url, action=action)

    def _unkeyed(self, row: Row) -> Reject:
        return self._reject(NULL_KEY, "NULL in its key; expected a value, which names it", row)

    def _torn(self, key: Key, reason: str) -> Reject:
        """A row of which only the key can be read."""
        named = Named(names=self._rows.key, key=self._rows.key)
        exc = RecordError(UNREADABLE, f"{reason}; expected values that can be read")
        return reject_row(named, key, exc, span=self._span)

    def _reject(self, code: str, reason: str, row: Row) -> Reject:
        exc = RecordError(code, reason)
        return reject_row(self._named, row, exc, span=self._span, without=self._unkept(row))

    def _unkept(self, row: Row) -> set[int]:
        """Where the document stands, and what was too large to be read with the row."""
        content = self._rows.mapping.content.column
        document = () if content is None else (self._named.at("content", content),)
        left_out = (at for at, _ in lazy_columns(self._rows) if row[at] is None)
        return {*document, *left_out}


@lru_cache(maxsize=_OPENED)
def _opened(mapping: Mapping, _process: int) -> Rows:
    """Return the rows of a mapping, looked up once: a forked process must not share them."""
    return open_rows(mapping, connect(mapping))


def _nothing(_key: str) -> None:
    return None


def _fingerprint_maker(rows: Rows) -> Callable[[Row | None], str]:
    incremental = rows.mapping.incremental
    if incremental is None or incremental.timestamp is None:
        return lambda row: ""
    at = rows.named.at("incremental: timestamp", incremental.timestamp)
    return lambda row: "" if row is None else timestamp_text(row[at])


def _seen(key: str, outcome: _Outcome, *, fingerprint: str) -> Seen:
    digest = _digest(outcome) if isinstance(outcome, Record) else ""
    is_gone = isinstance(outcome, Record) and outcome.action is Action.DELETE
    known = Known(key=key, url=outcome.url or "", fingerprint=fingerprint, digest=digest)
    return Seen(known=known, is_gone=is_gone)


def _digest(record: Record) -> str:
    """SHA-256 of a record but for where it was read; empty for one that no format can hold."""
    try:
        datum = avro.encode(msgspec.structs.replace(record, provenance=_NOWHERE))
    except (RecordError, UnicodeEncodeError):  # whoever writes it rejects it
        return ""
    return hashlib.sha256(datum).hexdigest()


def _is_news(seen: Seen, recall: Recall) -> bool:
    """Whether a document is not known as it is now; a deletion has no url in a state."""
    before = recall(seen.known.key)
    if before is None or not before.digest or before.digest != seen.known.digest:
        return True
    return before.url not in ("", seen.known.url)


def _unchanged(outcome: _Outcome) -> Filtered:
    action = outcome.action.value if isinstance(outcome, Record) else ""
    return Filtered(code=UNCHANGED, url=outcome.url or "", action=action)
