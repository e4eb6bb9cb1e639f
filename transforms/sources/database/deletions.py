"""List the documents to delete besides rows that are marked as deleted: keys without a row.

These are the keys that the query for deletes returns, and, if keys are compared, the keys of the
state that no row has. Each is a line of a listing that is sent before all rows: a URL that another
row took over is deleted first, and then sent.

A state has no URL for a document that the target does not have. A key whose deletion was sent is
kept, with the digest `gone` and its URL as the fingerprint, while the query returns it: it is sent
once, and again by a refresh. The former URL of a row with a new URL has a key of its own until the
next run has deleted it.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from itertools import groupby
from operator import attrgetter

import msgspec
import sqlalchemy as sa

from schemas.errors import ConfigError, RecordError
from schemas.sent_document import DELETION_SENT, SentDocument
from transforms.sources.change_detection import Counts, Safety, check_safety
from transforms.sources.database.column_index import ColumnIndex, Row
from transforms.sources.database.keys import write_key
from transforms.sources.database.result_columns import describe
from transforms.sources.database.session import STREAMED_ROWS, stream
from transforms.sources.database.table_query import TableQuery, subquery
from transforms.sources.database.url_templates import url_getter
from transforms.sources.listing import EntryKind, ListingEntry
from transforms.storage.state import SourceState

NULL_KEY = "[null]"
"""Replaces keys with NULL, which no row can have."""

_ALIAS = "feedferry_deletes"
_URL_PREFIX = '"'  # the key of a row is a JSON array
_SCHEMA = (
    "CREATE TABLE existing (key TEXT PRIMARY KEY) WITHOUT ROWID",
    "CREATE TABLE deleted (key TEXT PRIMARY KEY, url TEXT, reason TEXT) WITHOUT ROWID",
    "CREATE TABLE kept (url TEXT PRIMARY KEY) WITHOUT ROWID",
)


class DeletedKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key that the query for deletes returns, with its URL or the reason why it has none."""

    key: str
    url: str = ""
    reason: str = ""


def read_deleted(table: TableQuery, query: str) -> Iterator[DeletedKey]:
    """Yield the keys of the query for deletes; raise ConfigError if it lacks a key column.

    It selects the key columns by name, and optionally the columns of the URL.
    """
    errors = table.translate_errors("the query for deletes")
    with errors, table.engine.connect() as connection:
        columns = describe(connection, subquery(query, (), _ALIAS))
        index = ColumnIndex(names=tuple(column.name for column in columns), key=table.key)
        positions = [index.at("incremental: deletes", name) for name in index.key]
        make_url = _url_getter(table, index)
        statement = sa.select(subquery(query, index.names, _ALIAS))
        with stream(connection, statement, rows=STREAMED_ROWS) as result:
            for row in result:
                yield _deleted_key(row, positions, make_url)


def _url_getter(table: TableQuery, index: ColumnIndex) -> Callable[[Row], str]:
    try:
        return url_getter("url", table.mapping.url or "", index)
    except ConfigError as exc:
        reason = str(exc)

    def refuse(row: Row) -> str:
        raise RecordError("", reason)

    return refuse


def _deleted_key(row: Row, positions: list[int], make_url: Callable[[Row], str]) -> DeletedKey:
    key = tuple(row[at] for at in positions)
    if None in key:
        return DeletedKey(key=NULL_KEY, reason="NULL in the key; expected a value in each column")
    try:
        return DeletedKey(key=write_key(key), url=make_url(row))
    except RecordError as exc:
        return DeletedKey(key=write_key(key), reason=exc.reason)


class KeySets:
    """Keys of rows, deleted keys, and URLs to keep, in a temporary file of SQLite."""

    def __init__(self) -> None:
        self._connection = sqlite3.connect("", isolation_level=None)
        for statement in _SCHEMA:
            self._connection.execute(statement)
        self.existing_count = 0

    def add_existing(self, keys: Iterable[str]) -> None:
        statement = "INSERT OR IGNORE INTO existing VALUES (?)"
        self.existing_count += self._insert(statement, ((key,) for key in keys))

    def add_deleted(self, deleted: Iterable[DeletedKey]) -> None:
        rows = ((one.key, one.url, one.reason) for one in deleted)
        self._insert("INSERT OR REPLACE INTO deleted VALUES (?, ?, ?)", rows)

    def keep_url(self, url: str) -> None:
        """Exclude a URL from deletion."""
        self._connection.execute("INSERT OR IGNORE INTO kept VALUES (?)", (url,))

    def exists(self, key: str) -> bool:
        return self._has("SELECT 1 FROM existing WHERE key = ?", key)

    def is_deleted(self, key: str) -> bool:
        return self._has("SELECT 1 FROM deleted WHERE key = ?", key)

    def is_kept(self, url: str) -> bool:
        return self._has("SELECT 1 FROM kept WHERE url = ?", url)

    def deleted(self) -> Iterator[DeletedKey]:
        """Yield the deleted keys in the order of their UTF-8 bytes."""
        rows = self._connection.execute("SELECT key, url, reason FROM deleted ORDER BY key")
        return (DeletedKey(key=key, url=url, reason=reason) for key, url, reason in rows)

    def close(self) -> None:
        self._connection.close()

    def _insert(self, statement: str, rows: Iterable[tuple[str, ...]]) -> int:
        self._connection.execute("BEGIN")
        inserted = self._connection.executemany(statement, rows).rowcount
        self._connection.execute("COMMIT")
        return max(inserted, 0)

    def _has(self, query: str, value: str) -> bool:
        return self._connection.execute(query, (value,)).fetchone() is not None


def list_deletions(
    state: SourceState, keys: KeySets, *, compares_keys: bool, is_refresh: bool
) -> Iterator[ListingEntry]:
    """Yield a line for each deletion, and for each deleted key without one, in the order of keys.

    A GONE line without a URL deletes nothing: its key is removed from the state. `keys` needs all
    existing keys if keys are compared, else those of the deleted keys that exist.
    """
    _keep_shared_urls(state, keys, compares_keys=compares_keys)
    for key, known, deleted in _merge(state.documents(), keys.deleted()):
        if deleted is not None:
            yield _deleted_line(deleted, known, state, keys, is_refresh=is_refresh)
        elif known is not None and _is_gone(known, keys, compares_keys=compares_keys):
            yield _deletion(key, _deletable_url(known, state, keys))


def check_deletions(
    lines: Iterable[ListingEntry], state: SourceState, keys: KeySets, safety: Safety
) -> Iterator[ListingEntry]:
    """Yield all lines; then raise StoppedError if comparing keys found too many deletions.

    The keys of the query for deletes do not count.
    """
    counts = Counts(listed=keys.existing_count)
    for line in lines:
        if line.kind is EntryKind.GONE and line.url and is_row_key(line.key):
            counts.gone += not keys.is_deleted(line.key)
        yield line
    check_safety(counts, known=state.count, safety=safety)


def is_row_key(key: str) -> bool:
    """Return whether a key of the state is that of a row, not a former URL."""
    return not key.startswith(_URL_PREFIX)


def former_url_key(url: str) -> str:
    """Return the key of the former URL of a row."""
    return msgspec.json.encode(url).decode()


def _is_gone(known: SentDocument, keys: KeySets, *, compares_keys: bool) -> bool:
    """Return whether a key that the query does not return is to be deleted or forgotten."""
    if known.digest == DELETION_SENT or not is_row_key(known.key):
        return True
    return compares_keys and not keys.exists(known.key)


def _keep_shared_urls(state: SourceState, keys: KeySets, *, compares_keys: bool) -> None:
    """Keep the URLs of remaining rows that other keys have, too."""
    for known in state.documents() if state.shares_urls() else ():
        if keys.is_deleted(known.key) or _is_gone(known, keys, compares_keys=compares_keys):
            continue
        if known.url and state.has_elsewhere(known.url, key=known.key):
            keys.keep_url(known.url)


def _deletable_url(known: SentDocument, state: SourceState, keys: KeySets) -> str:
    """Return the URL to delete, empty if a remaining row has it."""
    if is_row_key(known.key):
        return "" if keys.is_kept(known.url) else known.url
    url = msgspec.json.decode(known.key, type=str)
    return "" if state.has_elsewhere(url, key=known.key) else url


def _deleted_line(
    deleted: DeletedKey,
    known: SentDocument | None,
    state: SourceState,
    keys: KeySets,
    *,
    is_refresh: bool,
) -> ListingEntry:
    key, url = deleted.key, deleted.url
    if keys.exists(key):
        reason = f"{key} is in the query for deletes, and a row has it; expected one of both"
        return ListingEntry(key=key, kind=EntryKind.REJECTED, code="key-in-both", reason=reason)
    if known is not None and known.digest == DELETION_SENT:
        if is_refresh:
            return _deletion(key, known.fingerprint)
        return ListingEntry(
            key=key, kind=EntryKind.FILTERED, url=known.fingerprint, code="gone-before"
        )
    if known is not None and known.url:
        return _deletion(key, _deletable_url(known, state, keys))
    if not url:
        reason = f"{key} is deleted, and its URL is not known: {deleted.reason}"
        return ListingEntry(key=key, kind=EntryKind.REJECTED, code="unknown-key", reason=reason)
    return _deletion(key, "" if state.has_elsewhere(url, key=key) else url)


def _deletion(key: str, url: str) -> ListingEntry:
    return ListingEntry(key=key, kind=EntryKind.GONE, url=url, known=SentDocument(key=key, url=url))


def _merge(
    knowns: Iterator[SentDocument], all_deleted: Iterator[DeletedKey]
) -> Iterator[tuple[str, SentDocument | None, DeletedKey | None]]:
    """Yield each key with its line of the state and its deletion, in the order of keys."""
    both: tuple[Iterator[SentDocument | DeletedKey], ...] = (knowns, all_deleted)
    by_key = attrgetter("key")
    for key, items in groupby(merge(*both, key=by_key), key=by_key):
        known, deleted = None, None
        for item in items:
            if isinstance(item, SentDocument):
                known = item
            else:
                deleted = item
        yield key, known, deleted
