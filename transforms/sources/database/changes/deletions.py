"""Deletions besides rows that are marked as deleted, and the changes of a state after a run.

Keys without a row are those that the query for deletes returns, and, if keys are compared, the keys
of the state that no row has. `row_entries` describes the entries of a state.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple, TypeVar

import sqlalchemy as sa
from msgspec.structs import replace

from feedferry.schemas.errors import ConfigError, RecordError
from feedferry.schemas.sent_document import NO_DIGEST, SentDocument, StateChange
from feedferry.schemas.span import Watermark
from feedferry.transforms.sources.changes.detector import ChangeDetector
from feedferry.transforms.sources.database.changes.row_entries import (
    FormerUrl,
    SentDeletion,
    entries_without_rows,
    is_row,
    kind_of,
)
from feedferry.transforms.sources.database.changes.watermark import floor_of, is_above_floor
from feedferry.transforms.sources.database.mapping.columns import ColumnIndex, Row, url_getter
from feedferry.transforms.sources.database.mapping.row_mapping import IncrementalReading
from feedferry.transforms.sources.database.tables.table import TableQuery, subquery, write_key
from feedferry.transforms.sources.listing import EntryKind, ListingEntry
from feedferry.transforms.sources.state_changes import store_changes
from feedferry.transforms.storage.files.scratch import scratch_database
from feedferry.transforms.storage.state import SourceState

NULL_KEY = "[null]"
"""Replaces keys with NULL, which no row can have."""

BATCH_LENGTH = 1_000
"""The most keys in a condition, and so the most rejected rows that one span reads again."""

_ALIAS = "feedferry_deletes"
_T = TypeVar("_T")
_SCHEMA = """
CREATE TABLE existing (key TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE deleted (key TEXT PRIMARY KEY, url TEXT) WITHOUT ROWID;
"""


def batches(items: Iterable[_T]) -> Iterator[tuple[_T, ...]]:
    """Yield the items in parts of at most BATCH_LENGTH."""
    iterator = iter(items)
    while batch := tuple(islice(iterator, BATCH_LENGTH)):
        yield batch


class DeletedKey(NamedTuple):
    """A key that the query for deletes returns; its URL is empty if the query does not have it."""

    key: str
    url: str = ""


def read_deleted(table: TableQuery, query: str) -> Iterator[DeletedKey]:
    """Yield the keys of the query for deletes; raise ConfigError if it lacks a key column.

    It selects the key columns by name, and optionally the columns of the URL.
    """
    where = "the query for deletes"
    columns = table.session.describe(subquery(query, (), _ALIAS), where=where)
    index = ColumnIndex([column.name for column in columns], table.key)
    positions = [index.at("incremental: deletes", name) for name in index.key]
    make_url: Callable[[Row], str] = lambda row: ""  # noqa: E731
    with suppress(ConfigError):  # no columns of the URL
        make_url = url_getter("url", table.mapping.url or "", index)
    statement = sa.select(subquery(query, index.names, _ALIAS))
    for row in table.session.stream(statement, where=where):
        key, url = tuple(row[at] for at in positions), ""
        with suppress(RecordError):
            url = make_url(row)
        yield DeletedKey(NULL_KEY) if None in key else DeletedKey(write_key(key), url)


class KeySets:
    """Keys of rows and deleted keys, in a temporary file of SQLite."""

    def __init__(self) -> None:
        self._database = scratch_database(_SCHEMA)

    def add_existing(self, keys: Iterable[str]) -> None:
        rows = ((key,) for key in keys)
        self._database.executemany("INSERT OR IGNORE INTO existing VALUES (?)", rows)

    def add_deleted(self, deleted: Iterable[DeletedKey]) -> None:
        self._database.executemany("INSERT OR REPLACE INTO deleted VALUES (?, ?)", deleted)

    def existing(self) -> Iterator[list[str]]:
        """Yield the existing keys in pages, in the order of their UTF-8 bytes."""
        rows = self._database.execute("SELECT key FROM existing ORDER BY key")
        while page := rows.fetchmany(BATCH_LENGTH):
            yield [key for (key,) in page]

    def exists(self, key: str) -> bool:
        return self._has("SELECT 1 FROM existing WHERE key = ?", key)

    def is_deleted(self, key: str) -> bool:
        return self._has("SELECT 1 FROM deleted WHERE key = ?", key)

    def deleted(self) -> Iterator[DeletedKey]:
        """Yield the deleted keys in the order of their UTF-8 bytes."""
        rows = self._database.execute("SELECT key, url FROM deleted ORDER BY key")
        return map(DeletedKey._make, rows)

    def close(self) -> None:
        self._database.close()

    def _has(self, query: str, value: str) -> bool:
        return self._database.execute(query, (value,)).fetchone() is not None


class RowDeletions:
    """Passes the keys without a row to a detector.

    `keys` needs all existing keys if keys are compared, else those of the deleted keys that exist.
    """

    def __init__(
        self, detector: ChangeDetector, keys: KeySets, *, is_refresh: bool = False
    ) -> None:
        self._detector = detector
        self._state = detector.state
        self._keys = keys
        self._is_refresh = is_refresh

    def of_query(self) -> Iterator[ListingEntry]:
        """Add the keys of the query for deletes; yield those that are not deleted."""
        for deleted in self._keys.deleted():
            yield from self._of_key(deleted)

    def of_state(self, *, compares_keys: bool) -> None:
        """Add the keys that the query does not return: former URLs, deletions that were sent.

        If keys are compared, rows are added, too.
        """
        for entry in entries_without_rows(self._state):
            kind = kind_of(entry)
            self._add(entry.key, kind.url if isinstance(kind, FormerUrl) else "", is_expected=True)
        if compares_keys:
            for key, url in self._missing():
                self._add(key, url)

    def _missing(self) -> Iterator[tuple[str, str]]:
        """Yield the rows of the state without a row of the table, each with its URL."""
        pages = self._keys.existing()
        for keys, known in self._detector.joined((page, page) for page in pages):
            present = {*keys} if keys else ()
            self._detector.listed += len(present)
            for key, url, *_ in known:
                if key not in present and (url or self._is_row(key)):
                    yield key, url

    def _is_row(self, key: str) -> bool:
        entry = self._state.find(key)
        return entry is not None and is_row(entry)

    def _add(self, key: str, url: str, *, is_expected: bool = False) -> None:
        if not self._keys.is_deleted(key):
            self._detector.add_gone(key, url, is_expected=is_expected)

    def _of_key(self, deleted: DeletedKey) -> Iterator[ListingEntry]:
        key, before = deleted.key, self._state.find(deleted.key)
        kind = None if before is None else kind_of(before)
        url = deleted.url if before is None else before.url or deleted.url
        if self._keys.exists(key):
            reason = f"{key} is in the query for deletes, and a row has it; expected one of both"
            yield ListingEntry(key=key, kind=EntryKind.REJECTED, code="key-in-both", reason=reason)
        elif isinstance(kind, SentDeletion) and not self._is_refresh:
            yield ListingEntry(key=key, kind=EntryKind.FILTERED, url=kind.url, code="gone-before")
        elif isinstance(kind, SentDeletion):
            self._detector.add_gone(key, kind.url, is_expected=True)
        elif url:
            self._detector.add_gone(key, url, is_expected=True)
        else:
            reason = f"{key} is deleted, and its URL is not known; expected columns of the URL"
            yield ListingEntry(key=key, kind=EntryKind.REJECTED, code="unknown-key", reason=reason)


def advance_state(
    all_seen: Iterable[StateChange],
    *,
    state: SourceState,
    incremental: IncrementalReading,
    mark: Watermark | None,
    path: Path,
) -> Iterator[StateChange]:
    """Return the changes of the state, from the rows that a run has seen and its watermark."""
    changes = _StateChanges(state, incremental, mark)
    return store_changes(chain(changes.forgotten(), changes.of_rows(all_seen)), path)


class _StateChanges:
    def __init__(
        self, state: SourceState, incremental: IncrementalReading, mark: Watermark | None
    ) -> None:
        self._state = state
        self._has_deletes_query = incremental.deletes_query is not None
        self._floor: Watermark | None = None
        if mark is not None and not incremental.compares_keys:
            lag_seconds, name = incremental.lag_seconds, incremental.timestamp or ""
            self._floor = floor_of(mark, lag_seconds=lag_seconds, name=name)

    def forgotten(self) -> Iterator[StateChange]:
        """Yield old rows, and rejected rows: those that are rejected again are seen again."""
        for entry in self._state.documents() if self._floor else ():
            if is_row(entry) and not (entry.digest != NO_DIGEST and self._is_needed(entry)):
                yield StateChange(document=entry, is_deleted=True)

    def of_rows(self, all_seen: Iterable[StateChange]) -> Iterator[StateChange]:
        """Yield the changes for the rows that were seen."""
        for part in batches(all_seen):
            before = self._state.find_all([seen.document.key for seen in part])
            for seen in part:
                yield from self._of_row(seen, before.get(seen.document.key))

    def _of_row(self, seen: StateChange, before: SentDocument | None) -> Iterator[StateChange]:
        entry, has_digest = seen.document, seen.document.digest != NO_DIGEST
        if before is not None and before.url and has_digest and entry.url != before.url:
            yield StateChange(document=FormerUrl(before.url).entry())
        if seen.is_deleted:
            yield self._gone(entry, before)
        elif has_digest:
            yield StateChange(document=entry, is_deleted=not self._is_needed(entry))
        else:
            yield StateChange(document=replace(entry, url=before.url if before else ""))

    def _gone(self, entry: SentDocument, before: SentDocument | None) -> StateChange:
        if entry.digest != NO_DIGEST:  # a row that is marked as deleted, and still exists
            return StateChange(
                document=replace(entry, url=""), is_deleted=not self._is_needed(entry)
            )
        url = entry.url or (before.url if before and is_row(before) else "")
        if self._has_deletes_query and url and is_row(entry):
            return StateChange(document=SentDeletion(entry.key, url).entry())
        return StateChange(document=entry, is_deleted=True)

    def _is_needed(self, entry: SentDocument) -> bool:
        """Return whether the next run reads the row again, or may do so."""
        if self._floor is None or not entry.fingerprint:
            return True
        return is_above_floor(entry.fingerprint, self._floor) is not False
