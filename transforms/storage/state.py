"""The state of a source after its last run: one SQLite file, for trees and databases.

A run reads the state, and updates it in one transaction after it has succeeded. A run that is
killed during the update leaves the state as it was. The state has a `SentDocument` for each
document, and one without a URL for each archive that was opened. The key of a folder, of which only
an ACL is sent, ends in `/`; the key of the root is empty. The URLs that several documents have are
listed, too, so that no run has to compare all of them.
"""

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import Self

import msgspec
from msgspec.structs import replace

from feedferry.schemas.errors import ConfigError, FatalError
from feedferry.schemas.sent_document import SentDocument, StateChange, StateRow

VERSION = 2
_APPLICATION = 0x66657272  # "ferr", the type of the file
_WAIT_SECONDS = 10.0
_CACHE = "PRAGMA cache_size = -16384"  # 16 MiB for any number of documents
_BATCH_LENGTH = 1_000
_MAX_INTEGER = (1 << 63) - 1
_PAGE_ROWS = 1_000

_IS_FOLDER = "(key = '' OR substr(key, -1) = '/')"
_SCHEMA = (
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
    "CREATE TABLE head (generation INTEGER, documents INTEGER, source TEXT, rules TEXT, mark TEXT,"
    " listed_at_ns INTEGER, run TEXT, secret TEXT)",
    "CREATE TABLE known (key TEXT PRIMARY KEY, url TEXT NOT NULL, size INTEGER NOT NULL,"
    " modified_ns INTEGER, around TEXT NOT NULL, digest TEXT NOT NULL, parent TEXT) WITHOUT ROWID",
    "CREATE INDEX known_parent ON known (parent) WHERE parent IS NOT NULL",
    "CREATE INDEX known_url ON known (url)",
    f"CREATE INDEX known_folder ON known (url) WHERE {_IS_FOLDER}",
    "CREATE TABLE shared (url TEXT PRIMARY KEY) WITHOUT ROWID",
)
_SHARES = (
    "ON known WHEN new.url <> '' AND EXISTS (SELECT 1 FROM known WHERE url = new.url"
    " AND key <> new.key) BEGIN INSERT OR IGNORE INTO shared VALUES (new.url); END"
)
_LIST_SHARED = (  # once; after that, the triggers add URLs, and _NOT_SHARED removes them
    "INSERT INTO shared SELECT url FROM known WHERE url <> '' GROUP BY 1 HAVING count(*) > 1",
    f"CREATE TRIGGER known_added AFTER INSERT {_SHARES}",
    f"CREATE TRIGGER known_moved AFTER UPDATE OF url {_SHARES}",
)
_NOT_SHARED = (
    "DELETE FROM shared WHERE (SELECT count(*) FROM known WHERE known.url = shared.url) < 2",
)
_COUNT = (  # all entries are counted in a tenth of the time that a condition takes
    "SELECT (SELECT count(*) FROM known) - (SELECT count(*) FROM known WHERE url = '')"
    f" - (SELECT count(*) FROM known WHERE url <> '' AND {_IS_FOLDER})"
)

_REPLACE = "INSERT OR REPLACE INTO known VALUES (?, ?, ?, ?, ?, ?, ?)"
_STORE = (  # leaves a document with another URL; the index of URLs does not change
    "INSERT INTO known VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET"
    " size = excluded.size, modified_ns = excluded.modified_ns, around = excluded.around,"
    " digest = excluded.digest, parent = excluded.parent WHERE url = excluded.url"
)
_CHANGED = (
    "SELECT signed.value FROM json_each(?) AS signed WHERE NOT EXISTS (SELECT 1 FROM known WHERE"
    " key = signed.key AND size = signed.value AND size <> 0 AND url <> '' AND digest <> '')"
)


_REWRITTEN = (
    "CREATE TEMP TABLE IF NOT EXISTS rewritten AS"
    " SELECT rewritten(url) AS url, key FROM known WHERE url <> ''",
    "CREATE INDEX IF NOT EXISTS temp.rewritten_url ON rewritten (url)",
)


class StateHead(msgspec.Struct, frozen=True, kw_only=True):
    """The only row of the table `head`: the last update, in the order of its columns.

    `generation` counts the updates and is 0 if there is no file. `documents` is the number of
    documents without archives and folders. `rules` is a fingerprint of the options that affect
    records, `mark` the watermark of a database, `listed_at_ns` the time when the listing began.
    `run` names the run, so that it may repeat the update. `secret` is a random text that the
    signatures of rows are made with.
    """

    generation: int = 0
    documents: int = 0
    source: str | None = None
    rules: str | None = None
    mark: str | None = None
    listed_at_ns: int = 0
    run: str = ""
    secret: str = ""


class SourceState:
    """A state for reading; several processes may read it at the same time."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._sharing: dict[Callable[[str], str] | None, Sequence[SentDocument]] = {}
        self.head = _read_head(connection)

    def documents(self) -> Iterator[SentDocument]:
        """Yield all documents, in the order of the UTF-8 bytes of their keys."""
        return self._select("")

    def outermost(self) -> Iterator[Sequence[StateRow]]:
        """Yield the rows of all documents but the members of archives, in pages in this order."""
        query = "SELECT key, url, size, modified_ns, around FROM known WHERE parent IS NULL"
        with _explained(self._path), closing(self._connection.cursor()) as cursor:
            cursor.execute(f"{query} ORDER BY key")
            while page := cursor.fetchmany(_PAGE_ROWS):
                yield page

    def with_digest(self, digest: str) -> Iterator[SentDocument]:
        """Yield the documents with a digest, in the same order."""
        return self._select("WHERE digest = ?", digest)

    def since(self, key: str, *, before: str) -> Iterator[SentDocument]:
        """Yield the documents whose keys are in a range, in the same order."""
        return self._select("WHERE key >= ? AND key < ?", key, before)

    def find(self, key: str) -> SentDocument | None:
        """Return a document, None if the state does not have it."""
        return next(self._select("WHERE key = ?", key), None)

    def find_all(self, keys: Iterable[str]) -> dict[str, SentDocument]:
        """Return the documents that the state has of some keys, by their keys."""
        several = msgspec.json.encode([*keys]).decode()
        documents = self._select("WHERE key IN (SELECT value FROM json_each(?))", several)
        return {document.key: document for document in documents}

    def changed(self, signatures: Mapping[str, int]) -> set[int]:
        """Return those of the signatures that the state does not have for their keys.

        The size of a row is a signature of its values, its key included. Without a URL or a digest
        in the state, it counts as changed.
        """
        with _explained(self._path):  # a set of the rows of the state takes twice the time
            rows = self._connection.execute(_CHANGED, (msgspec.json.encode(signatures).decode(),))
            return {signature for (signature,) in rows}

    def members_of(self, key: str) -> tuple[SentDocument, ...]:
        """Return the members of an archive, in the order of their keys."""
        return tuple(self._select("WHERE parent = ?", key))

    def count_below(self, folder: str) -> int:
        """Return the number of documents whose keys begin with that of a folder, which ends in /.

        0 follows / in the order of keys.
        """
        query = "SELECT count(*) FROM known WHERE key > ? AND key < ? AND url <> ''"
        with _explained(self._path):
            return _value_of(self._connection, query, folder, f"{folder[:-1]}0")

    def with_url(
        self, url: str, rewrite: Callable[[str], str] | None = None
    ) -> Iterator[SentDocument]:
        """Yield the documents with a URL, or with the same URL after a rewriting."""
        if rewrite is None:
            return self._select("WHERE url = ?", url)
        with _explained(self._path):
            self._connection.create_function("rewritten", 1, rewrite, deterministic=True)
            for statement in _REWRITTEN:
                self._connection.execute(statement)
        return self._select(
            "WHERE key IN (SELECT key FROM temp.rewritten WHERE url = ?)", rewrite(url)
        )

    def sharing(self, rewrite: Callable[[str], str] | None) -> Sequence[SentDocument]:
        """Return the documents whose URL, after a rewriting, another document has, too."""
        if rewrite not in self._sharing:
            url, several = "url", "SELECT url FROM shared"
            if rewrite is not None:
                self._connection.create_function("rewritten", 1, rewrite, deterministic=True)
                url = "rewritten(url)"
                several = f"SELECT {url} FROM known WHERE url <> '' GROUP BY 1 HAVING count(*) > 1"
            self._sharing[rewrite] = [*self._select(f"WHERE {url} IN ({several})")]
        return self._sharing[rewrite]

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _select(self, where: str, *values: str) -> Iterator[SentDocument]:
        query = f"SELECT * FROM known {where} ORDER BY key"
        with _explained(self._path), closing(self._connection.execute(query, values)) as rows:
            for key, url, size, modified_ns, fingerprint, digest, parent in rows:
                yield SentDocument(  # a dictionary of the row takes six times as long
                    key=key,
                    url=url,
                    size=size,
                    modified_ns=modified_ns,
                    fingerprint=fingerprint,
                    digest=digest,
                    parent=parent,
                )


def open_state(path: Path, *, source: str | None = None) -> SourceState:
    """Return the state at `path`, an empty one if there is no file; make no file.

    Raises ConfigError if the file is no state, or the state of another source than `source`.
    """
    connection = _connect_existing(path)
    try:
        with _explained(path):
            if connection is None or _is_blank(connection, path):
                if connection is not None:
                    connection.close()
                connection = sqlite3.connect(
                    ":memory:", isolation_level=None, check_same_thread=False
                )
                _create_tables(connection)
            state = SourceState(connection, path)
        if source is not None and state.head.source not in (None, source):
            raise ConfigError(
                f"⟦state⟧ {path}: a state of {state.head.source!r}; expected one of {source!r}; "
                "name another path to send all documents"
            )
    except BaseException:
        if connection is not None:
            connection.close()
        raise
    return state


def check_state(path: Path, *, source: str | None = None) -> None:
    """Raise ConfigError unless a run can read the state and will be able to update it."""
    folder = path.parent
    if not folder.is_dir():
        raise ConfigError(f"⟦state⟧ {path}: no folder {str(folder)!r}; expected an existing one")
    for place in (folder, path) if path.exists() else (folder,):
        if not os.access(place, os.W_OK):
            raise ConfigError(f"⟦state⟧ {path}: {str(place)!r} is not writable; expected it to be")
    open_state(path, source=source).close()


def update_state(
    path: Path, changes: Iterable[StateChange], *, before: int, stamp: StateHead
) -> int:
    """Update the state from generation `before`, all or nothing; return its number of documents.

    `changes` are stored in their order. Raises FatalError without a change if the state has another
    generation, unless this run has updated it: the run was then interrupted after the update.
    `stamp` names the source and the run.
    """
    with _transaction(path, "rwc") as connection:
        is_new = _is_blank(connection, path)
        if is_new:
            _create_tables(connection)
        head = _read_head(connection)
        if stamp.run and (head.generation, head.run) == (before + 1, stamp.run):
            return head.documents
        if head.generation != before:
            raise FatalError(
                f"{path}: generation {head.generation}; expected {before}: another run has updated "
                "this state; start again with ⟦fresh⟧ to compare the source with the new state"
            )
        _write_documents(connection, changes)
        for statement in _LIST_SHARED if is_new else _NOT_SHARED:
            connection.execute(statement)
        count = _value_of(connection, _COUNT)
        _write_head(connection, replace(stamp, generation=before + 1, documents=count))
    return count


def replace_head(path: Path, head: StateHead) -> None:
    """Replace the head of a state; `documents` stays as it is."""
    with _transaction(path, "rw") as connection:
        _write_head(connection, replace(head, documents=_read_head(connection).documents))


def write_state(path: Path, head: StateHead, documents: Iterable[SentDocument]) -> None:
    """Write a state at a path without a file.

    Raises ValueError, and leaves no file, if two documents have one key, or if their number is not
    that in the head.
    """
    try:
        with _transaction(path, "rwc") as connection:
            _create_tables(connection)
            insert = "INSERT INTO known VALUES (?, ?, ?, ?, ?, ?, ?)"
            try:
                connection.executemany(insert, map(_row, documents))
            except sqlite3.IntegrityError as exc:
                raise ValueError("a key twice; expected each document once") from exc
            for statement in _LIST_SHARED:
                connection.execute(statement)
            if (count := _value_of(connection, _COUNT)) != head.documents:
                raise ValueError(f"{count} documents; expected {head.documents}")
            _write_head(connection, head)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


@contextmanager
def _transaction(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    """Store all changes of the block, or none if it raises."""
    with _explained(path), closing(_connect(path, mode)) as connection:
        connection.execute(_CACHE)
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        connection.execute("COMMIT")


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    """Open the file for several threads: a DoFn is set up in any thread."""
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=_WAIT_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )


def _connect_existing(path: Path) -> sqlite3.Connection | None:
    """Open the file for reading; return None if there is no file.

    The connection may write too: the update of a killed run is rolled back by the next connection,
    which a connection that may only read cannot do.
    """
    try:
        with path.open("rb"):
            pass
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise ConfigError(f"⟦state⟧ {path}: {exc.strerror}; expected a readable file") from exc
    with _explained(path):
        return _connect(path, "rw")


def _create_tables(connection: sqlite3.Connection) -> None:
    for statement in _SCHEMA:
        connection.execute(statement)


def _is_blank(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether the file has no tables; raise ConfigError if it is no state of this version."""
    if not _value_of(connection, "SELECT count(*) FROM sqlite_schema"):
        return True
    if _value_of(connection, "PRAGMA application_id") != _APPLICATION:
        raise _not_a_state(path)
    version = _value_of(connection, "PRAGMA user_version")
    if version != VERSION:
        raise ConfigError(
            f"⟦state⟧ {path}: a state of version {version}; expected {VERSION}; "
            "name a path without a file to send all documents"
        )
    return False


def _value_of(connection: sqlite3.Connection, query: str, *values: str) -> int:
    (value,) = connection.execute(query, values).fetchone()
    return int(value)


def _read_head(connection: sqlite3.Connection) -> StateHead:
    row = connection.execute("SELECT * FROM head").fetchone() or ()
    return StateHead(**dict(zip(StateHead.__struct_fields__, row, strict=False)))


def _write_head(connection: sqlite3.Connection, head: StateHead) -> None:
    connection.execute("DELETE FROM head")
    values = msgspec.structs.astuple(head)
    connection.execute("INSERT INTO head VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)


def _write_documents(connection: sqlite3.Connection, changes: Iterable[StateChange]) -> None:
    delete = "DELETE FROM known WHERE key = ?"
    for is_deleted, run in groupby(changes, key=attrgetter("is_deleted")):
        if is_deleted:
            connection.executemany(delete, ((change.document.key,) for change in run))
        else:
            rows = (_row(change.document) for change in run)
            while batch := [*islice(rows, _BATCH_LENGTH)]:
                if connection.executemany(_STORE, batch).rowcount < len(batch):
                    connection.executemany(_REPLACE, batch)


def _row(document: SentDocument) -> tuple[object, ...]:
    """Return the columns; a time after the year 2262 is limited, and never equals the file's."""
    modified_ns = document.modified_ns
    if modified_ns is not None:
        modified_ns = max(-_MAX_INTEGER, min(modified_ns, _MAX_INTEGER))
    return msgspec.structs.astuple(replace(document, modified_ns=modified_ns))


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Translate the errors of SQLite."""
    try:
        yield
    except sqlite3.DatabaseError as exc:
        code = getattr(exc, "sqlite_errorcode", 0) & 0xFF  # the other bits are details
        if code == sqlite3.SQLITE_NOTADB:
            raise _not_a_state(path) from exc
        if code == sqlite3.SQLITE_BUSY:
            raise FatalError(
                f"{path}: in use by another run; start again when that has ended"
            ) from exc
        raise FatalError(f"{path}: {exc}; expected a readable and writable state") from exc


def _not_a_state(path: Path) -> ConfigError:
    return ConfigError(
        f"⟦state⟧ {path}: no state of feedferry; expected one, or a path without a file"
    )
