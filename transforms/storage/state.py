"""What a source was when it was sent last: one SQLite file, for trees and databases alike.

A run reads it, and moves it on in one transaction when it has succeeded: whoever is killed in the
middle of that leaves it as it was. It keeps a `Known` for each document; besides, for each archive
that was opened, one without a url. The key of a folder, of which only an ACL is sent, ends in `/`,
or is empty, as that of the root is.
"""

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec

from schemas.errors import ConfigError, FatalError
from schemas.known import Known, Seen

VERSION = 1
_APPLICATION = 0x66657272  # "ferr", by which `file` and we know the file
_WAIT_SECONDS = 10.0
_CACHE = "PRAGMA cache_size = -16384"  # 16 MiB, whatever the number of documents
_LARGEST = (1 << 63) - 1

_SCHEMA = (
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
    "CREATE TABLE head (generation INTEGER, documents INTEGER, source TEXT, rules TEXT, mark TEXT,"
    " listed_at_ns INTEGER, run TEXT)",
    "CREATE TABLE known (key TEXT PRIMARY KEY, url TEXT NOT NULL, size INTEGER NOT NULL,"
    " modified_ns INTEGER, around TEXT NOT NULL, digest TEXT NOT NULL, parent TEXT) WITHOUT ROWID",
    "CREATE INDEX known_parent ON known (parent) WHERE parent IS NOT NULL",
    "CREATE INDEX known_url ON known (url)",
)
_COLUMNS = "SELECT key, url, size, modified_ns, around, digest, parent FROM known"
_HEAD = "SELECT generation, documents, source, rules, mark, listed_at_ns, run FROM head"
_REMEMBER = "INSERT OR REPLACE INTO known VALUES (?, ?, ?, ?, ?, ?, ?)"
_FORGET = "DELETE FROM known WHERE key = ?"
_COUNT = "SELECT count(*) FROM known WHERE url <> '' AND key <> '' AND substr(key, -1) <> '/'"
_SHARED = "SELECT EXISTS (SELECT 1 FROM known WHERE url <> '' GROUP BY url HAVING count(*) > 1)"


class Stamp(msgspec.Struct, frozen=True, kw_only=True):
    """What a run says of the state that it leaves, beside the documents.

    `rules` is a fingerprint of the options that records were made by, `mark` how far a database was
    read, `listed_at_ns` when the listing began. `run` names the run, so that it may move twice.
    """

    source: str
    rules: str = ""
    mark: str | None = None
    listed_at_ns: int = 0
    run: str = ""


class State:
    """A state as it stands; it can be read by any number of processes at once.

    `generation` counts how often it was moved, 0 if it is not there; `count` are its documents,
    without archives and folders.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        head = _head(connection)
        self.generation: int = head["generation"]
        self.count: int = head["documents"]
        self.source: str | None = head["source"]
        self.rules: str | None = head["rules"]
        self.mark: str | None = head["mark"]
        self.listed_at_ns: int = head["listed_at_ns"]

    def documents(self) -> Iterator[Known]:
        """Yield all that it knows, in the order of the UTF-8 bytes of their keys."""
        return self._select(f"{_COLUMNS} ORDER BY key")

    def outermost(self) -> Iterator[Known]:
        """Yield all but the members of archives, in the same order."""
        return self._select(f"{_COLUMNS} WHERE parent IS NULL ORDER BY key")

    def find(self, key: str) -> Known | None:
        """Return what it knows of a document, `None` if nothing."""
        return next(self._select(f"{_COLUMNS} WHERE key = ?", key), None)

    def members_of(self, key: str) -> tuple[Known, ...]:
        """Return the members of an archive, in the order of their keys."""
        return tuple(self._select(f"{_COLUMNS} WHERE parent = ? ORDER BY key", key))

    def shares_urls(self) -> bool:
        """Whether any two documents have one url."""
        return self._ask(_SHARED)

    def has_elsewhere(self, url: str, *, key: str) -> bool:
        """Whether a document with another key has this url."""
        return self._ask(_exists("key <> ?"), url, key)

    def has_behind(self, url: str, *, key: str) -> bool:
        """Whether a document with a greater key has this url."""
        return self._ask(_exists("key > ?"), url, key)

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> "State":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _select(self, query: str, *values: str) -> Iterator[Known]:
        with _explained(self._path), closing(self._connection.execute(query, values)) as rows:
            for key, url, size, modified_ns, fingerprint, digest, parent in rows:
                yield Known(
                    key=key,
                    url=url,
                    size=size,
                    modified_ns=modified_ns,
                    fingerprint=fingerprint,
                    digest=digest,
                    parent=parent,
                )

    def _ask(self, query: str, *values: str) -> bool:
        with _explained(self._path):
            (answer,) = self._connection.execute(query, values).fetchone()
        return bool(answer)


def open_state(path: Path, *, source: str | None = None) -> State:
    """Return the state at `path`, an empty one if nothing is there; nothing is made by that.

    Raise ConfigError for what is no state, or one of another `source` if that is given.
    """
    connection = _connect_existing(path)
    try:
        with _explained(path):
            if _is_blank(connection, path):
                connection.close()
                connection = _blank()
            state = State(connection, path)
        if source is not None and state.source not in (None, source):
            raise ConfigError(
                f"--state {path}: a state of {state.source!r}; expected one of {source!r}; "
                "name another path, and all is sent"
            )
    except BaseException:
        connection.close()
        raise
    return state


def check_state(path: Path, *, source: str | None = None) -> None:
    """Raise ConfigError unless a run can read the state and will be able to move it."""
    folder = path.parent
    if not folder.is_dir():
        raise ConfigError(f"--state {path}: no folder {str(folder)!r}; expected one that is there")
    for place in (folder, path) if path.exists() else (folder,):
        if not os.access(place, os.W_OK):
            raise ConfigError(f"--state {path}: {str(place)!r} is not writable; expected it to be")
    open_state(path, source=source).close()


def move(
    path: Path,
    seen: Iterable[Seen],
    *,
    before: int,
    stamp: Stamp,
    drop: Iterable[str] = (),
) -> int:
    """Move the state on from generation `before`, all or nothing; return how many documents it has.

    What is `seen` is taken in its order, which is that of the listing; then the keys in `drop` are
    forgotten. Raise FatalError, and leave all as it is, if the state has another generation: unless
    this very run has moved it, for that is a run that was interrupted just behind it.
    """
    with _explained(path), closing(_connect(path, "rwc")) as connection:
        connection.execute(_CACHE)
        connection.execute("BEGIN IMMEDIATE")
        if _is_blank(connection, path):
            _lay_out(connection)
        head = _head(connection)
        if stamp.run and (head["generation"], head["run"]) == (before + 1, stamp.run):
            return int(head["documents"])
        _require_generation(path, found=head["generation"], before=before)
        _write(connection, seen, drop)
        count = _stamp(connection, generation=before + 1, stamp=stamp)
        connection.execute("COMMIT")
    return count


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    """Open it for several threads: a DoFn may be set up in another one than it works in."""
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=_WAIT_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )


def _connect_existing(path: Path) -> sqlite3.Connection:
    """Open the file to be read; an empty state if it is not there.

    It is opened for writing too: what a run that was killed left in it is rolled back by the next
    that opens it, which a connection that may only read cannot do.
    """
    try:
        with path.open("rb"):
            pass
    except FileNotFoundError:
        return _blank()
    except OSError as exc:
        raise ConfigError(
            f"--state {path}: {exc.strerror}; expected a file that can be read"
        ) from exc
    with _explained(path):
        return _connect(path, "rw")


def _blank() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    _lay_out(connection)
    return connection


def _lay_out(connection: sqlite3.Connection) -> None:
    for statement in _SCHEMA:
        connection.execute(statement)


def _is_blank(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether nothing was ever written there; raise ConfigError for what is not ours."""
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if not tables:
        return True
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != _APPLICATION:
        raise _no_state(path)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != VERSION:
        raise ConfigError(
            f"--state {path}: a state of version {version}; expected {VERSION}; "
            "name a path where no file is, and all is sent"
        )
    return False


def _head(connection: sqlite3.Connection) -> dict[str, Any]:
    cursor = connection.execute(_HEAD)
    row = cursor.fetchone() or (0, 0, None, None, None, 0, "")
    return dict(zip((column[0] for column in cursor.description), row, strict=True))


def _require_generation(path: Path, *, found: int, before: int) -> None:
    if found != before:
        raise FatalError(
            f"{path}: generation {found}; expected {before}: another run has moved this state; "
            "start again with --fresh, and the source is compared with what is known now"
        )


def _write(connection: sqlite3.Connection, seen: Iterable[Seen], drop: Iterable[str]) -> None:
    for is_gone, run in groupby(seen, key=attrgetter("is_gone")):
        if is_gone:
            connection.executemany(_FORGET, ((one.known.key,) for one in run))
        else:
            connection.executemany(_REMEMBER, (_row(one.known) for one in run))
    connection.executemany(_FORGET, ((key,) for key in drop))


def _row(known: Known) -> tuple[object, ...]:
    """Return the columns; a time beyond the year 2262 is cut, and so never that of the file."""
    modified_ns = known.modified_ns
    if modified_ns is not None:
        modified_ns = max(-_LARGEST, min(modified_ns, _LARGEST))
    return (
        *(known.key, known.url, known.size, modified_ns),
        *(known.fingerprint, known.digest, known.parent),
    )


def _stamp(connection: sqlite3.Connection, *, generation: int, stamp: Stamp) -> int:
    (count,) = connection.execute(_COUNT).fetchone()
    connection.execute("DELETE FROM head")
    connection.execute(
        "INSERT INTO head VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            *(generation, count, stamp.source, stamp.rules),
            *(stamp.mark, stamp.listed_at_ns, stamp.run),
        ),
    )
    return int(count)


def _exists(condition: str) -> str:
    return f"SELECT EXISTS (SELECT 1 FROM known WHERE url = ? AND {condition})"


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Say what SQLite found in the words of its user."""
    try:
        yield
    except sqlite3.DatabaseError as exc:
        code = getattr(exc, "sqlite_errorcode", 0) & 0xFF  # the rest tells details
        if code == sqlite3.SQLITE_NOTADB:
            raise _no_state(path) from exc
        if code == sqlite3.SQLITE_BUSY:
            raise FatalError(
                f"{path}: in use by another run; start again when that has ended"
            ) from exc
        raise FatalError(f"{path}: {exc}; expected a state that can be read and written") from exc


def _no_state(path: Path) -> ConfigError:
    return ConfigError(
        f"--state {path}: no state of feedferry; expected one, or a path where no file is"
    )
