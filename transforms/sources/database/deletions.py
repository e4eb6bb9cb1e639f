"""What is to be deleted at the target besides rows that say so: keys that a run finds gone.

They are the keys that the query for deletes gives, and, where keys are compared, those that the
state knows and no row has. Each is a line of a listing, which stands before all rows: a url that
another row has taken over is deleted first, and then sent.

What is no document at the target has no url in a state. A key whose deletion was sent stays there
for as long as the query gives it, with the digest `gone` and its url as `fingerprint`, so it is
sent once; a run from scratch sends it again. A url that a row had before it got another one is
known by a key of its own until the next run has deleted it.
"""

import sqlite3
from collections.abc import Iterable, Iterator

import msgspec

from schemas.known import Known
from transforms.sources.deletion_guard import Counts, Safety, check_safety
from transforms.sources.listing import Kind, Listed
from transforms.storage.state import State

GONE = "gone"
"""The digest of a key whose deletion was sent."""

NO_KEY = "[null]"
"""Stands for all keys with NULL in them, which no row can be found by."""

GONE_BEFORE = "gone-before"
KEY_IN_BOTH = "key-in-both"
UNKNOWN_KEY = "unknown-key"

_MOVED = '"'  # the key of a row is a JSON array
_SCHEMA = (
    "CREATE TABLE standing (key TEXT PRIMARY KEY) WITHOUT ROWID",
    "CREATE TABLE deleted (key TEXT PRIMARY KEY, url TEXT, reason TEXT) WITHOUT ROWID",
    "CREATE TABLE claimed (url TEXT PRIMARY KEY) WITHOUT ROWID",
)


class Deleted(msgspec.Struct, frozen=True, kw_only=True):
    """A key that the query for deletes gives, with the url that it has, or why it has none."""

    key: str
    url: str = ""
    reason: str = ""


class Keys:
    """The keys that rows have now, and those that are deleted: in a file that ends with us."""

    def __init__(self) -> None:
        self._connection = sqlite3.connect("", isolation_level=None)
        for statement in _SCHEMA:
            self._connection.execute(statement)
        self.standing = 0

    def stand(self, keys: Iterable[str]) -> None:
        """Add keys that rows have."""
        statement = "INSERT OR IGNORE INTO standing VALUES (?)"
        self.standing += self._insert(statement, ((key,) for key in keys))

    def delete(self, deleted: Iterable[Deleted]) -> None:
        """Add keys that are deleted."""
        rows = ((one.key, one.url, one.reason) for one in deleted)
        self._insert("INSERT OR REPLACE INTO deleted VALUES (?, ?, ?)", rows)

    def claim(self, url: str) -> None:
        """Keep a url from being deleted."""
        self._connection.execute("INSERT OR IGNORE INTO claimed VALUES (?)", (url,))

    def stands(self, key: str) -> bool:
        return self._has("SELECT 1 FROM standing WHERE key = ?", key)

    def is_deleted(self, key: str) -> bool:
        return self._has("SELECT 1 FROM deleted WHERE key = ?", key)

    def is_claimed(self, url: str) -> bool:
        return self._has("SELECT 1 FROM claimed WHERE url = ?", url)

    def deleted(self) -> Iterator[Deleted]:
        """Yield the keys that are deleted, in the order of their UTF-8 bytes."""
        rows = self._connection.execute("SELECT key, url, reason FROM deleted ORDER BY key")
        for key, url, reason in rows:
            yield Deleted(key=key, url=url, reason=reason)

    def close(self) -> None:
        self._connection.close()

    def _insert(self, statement: str, rows: Iterable[tuple[str, ...]]) -> int:
        self._connection.execute("BEGIN")
        inserted = self._connection.executemany(statement, rows).rowcount
        self._connection.execute("COMMIT")
        return max(inserted, 0)

    def _has(self, query: str, value: str) -> bool:
        return self._connection.execute(query, (value,)).fetchone() is not None


def list_gone(state: State, keys: Keys, *, compares_keys: bool, is_anew: bool) -> Iterator[Listed]:
    """Yield what is to be deleted, in the order of keys, and what is asked for and is not.

    A line that is GONE and has no url deletes nothing: its key is only to be forgotten. `keys`
    must have all that stand if keys are compared, else those that stand of the deleted ones.
    """
    _claim(state, keys, compares_keys=compares_keys)
    for key, known, deleted in _join(state.documents(), keys.deleted()):
        if deleted is not None:
            yield _line_of_deleted(deleted, known, state, keys, is_anew=is_anew)
        elif known is not None and _is_gone(known, keys, compares_keys=compares_keys):
            yield _deletion(key, _free_url(known, state, keys))


def check_gone(
    lines: Iterable[Listed], state: State, keys: Keys, safety: Safety
) -> Iterator[Listed]:
    """Yield all lines; raise StoppedError behind the last if too much is gone by comparing keys.

    What the query for deletes gives was asked for, and does not count.
    """
    counts = Counts(listed=keys.standing)
    for line in lines:
        if line.kind is Kind.GONE and line.url and is_row(line.key):
            counts.gone += not keys.is_deleted(line.key)
        yield line
    check_safety(counts, known=state.count, safety=safety)


def is_row(key: str) -> bool:
    """Whether a key is that of a row, and not a url that a row had."""
    return not key.startswith(_MOVED)


def moved_key(url: str) -> str:
    """Return the key of a url that a row had before it got another one."""
    return msgspec.json.encode(url).decode()


def _is_gone(known: Known, keys: Keys, *, compares_keys: bool) -> bool:
    """Whether what no query deletes is to be deleted or forgotten."""
    if known.digest == GONE or not is_row(known.key):
        return True
    return compares_keys and not keys.stands(known.key)


def _claim(state: State, keys: Keys, *, compares_keys: bool) -> None:
    """Keep urls that several keys have, for those of them that stay."""
    for known in state.documents() if state.shares_urls() else ():
        if keys.is_deleted(known.key) or _is_gone(known, keys, compares_keys=compares_keys):
            continue
        if known.url and state.has_elsewhere(known.url, key=known.key):
            keys.claim(known.url)


def _free_url(known: Known, state: State, keys: Keys) -> str:
    """The url that is to be deleted, none if a row that stays has it."""
    if is_row(known.key):
        return "" if keys.is_claimed(known.url) else known.url
    url = msgspec.json.decode(known.key, type=str)
    return "" if state.has_elsewhere(url, key=known.key) else url


def _line_of_deleted(
    deleted: Deleted, known: Known | None, state: State, keys: Keys, *, is_anew: bool
) -> Listed:
    key = deleted.key
    if keys.stands(key):
        reason = f"{key} is given by the query for deletes, and a row has it; expected only one"
        return Listed(key=key, kind=Kind.REJECTED, code=KEY_IN_BOTH, reason=reason)
    if known is not None and known.digest == GONE:
        if not is_anew:
            return Listed(key=key, kind=Kind.FILTERED, url=known.fingerprint, code=GONE_BEFORE)
        return _deletion(key, known.fingerprint)
    if known is not None and known.url:
        return _deletion(key, _free_url(known, state, keys))
    return _line_of_unknown(deleted, state)


def _line_of_unknown(deleted: Deleted, state: State) -> Listed:
    key, url = deleted.key, deleted.url
    if not url:
        reason = f"{key} is gone, and its url is not known: {deleted.reason}"
        return Listed(key=key, kind=Kind.REJECTED, code=UNKNOWN_KEY, reason=reason)
    return _deletion(key, "" if state.has_elsewhere(url, key=key) else url)


def _deletion(key: str, url: str) -> Listed:
    return Listed(key=key, kind=Kind.GONE, url=url, known=Known(key=key, url=url))


def _join(
    knowns: Iterator[Known], all_deleted: Iterator[Deleted]
) -> Iterator[tuple[str, Known | None, Deleted | None]]:
    """Yield what is known of each key, and that it is deleted, in the order of keys."""
    known = next(knowns, None)
    for deleted in all_deleted:
        while known is not None and known.key < deleted.key:
            yield known.key, known, None
            known = next(knowns, None)
        if known is not None and known.key == deleted.key:
            yield known.key, known, deleted
            known = next(knowns, None)
        else:
            yield deleted.key, None, deleted
    while known is not None:
        yield known.key, known, None
        known = next(knowns, None)
