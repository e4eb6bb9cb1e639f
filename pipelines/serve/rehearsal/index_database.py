"""The SQLite file of an index, which one process writes and several read."""

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from feedferry.schemas.errors import ConfigError

VERSION = 5
_APPLICATION = 0x66657269  # "feri"
_SETTINGS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = NORMAL",  # a delivery that a power failure loses is digested again
    "PRAGMA journal_size_limit = 67108864",
    "PRAGMA cache_size = -65536",
)
_MARKS = (f"PRAGMA application_id = {_APPLICATION}", f"PRAGMA user_version = {VERSION}")
_EXPECTED = (
    f"expected a database of version {VERSION}; remove the file, and it is made again: the index"
    " from the deliveries, a cluster without documents"
)
Row = TypeVar("Row", bound=msgspec.Struct)


def json_object(row: type[msgspec.Struct], **expressions: str) -> str:
    """Return the SQL expression for a row as JSON: a column for each field, or an expression."""
    pairs = (f"'{name}', {expressions.get(name, name)}" for name in row.__struct_fields__)
    return f"json_object({', '.join(pairs)})"


class IndexDatabase:
    """A connection for several threads, which take the `lock` for each statement.

    `wait_seconds` is how long to wait for another process that writes. Raises ConfigError for a
    file that is no index of this version. A file that `is_made` by another process is opened as it
    is; another one is made with its `tables` if it is new.
    """

    def __init__(
        self, path: Path, tables: Sequence[str], *, wait_seconds: float, is_made: bool
    ) -> None:
        self.lock = threading.Lock()
        try:
            self.connection = _open(path, () if is_made else tables, wait_seconds)
        except sqlite3.DatabaseError as exc:
            if is_made:
                raise
            is_place = isinstance(exc, sqlite3.OperationalError)
            expected = "expected a folder where it can be written" if is_place else _EXPECTED
            raise ConfigError(f"{path}: {exc}; {expected}") from exc

    def rows(self, type_: type[Row], query: str, *values: object) -> list[Row]:
        """Return the rows of a query for JSON objects."""
        decode = msgspec.json.Decoder(type_).decode
        return [decode(row[0]) for row in self.query(query, *values)]

    def query(self, query: str, *values: object) -> list[tuple[str, ...]]:
        with self.lock:
            return self.connection.execute(query, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Yield the connection; the caller has the lock."""
        with _transaction(self.connection):
            yield self.connection

    def close(self) -> None:
        with self.lock:
            self.connection.close()


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _open(path: Path, tables: Sequence[str], wait_seconds: float) -> sqlite3.Connection:
    """Open the file; with tables, create it, and them if it is new."""
    uri = f"{path.absolute().as_uri()}?mode={'rwc' if tables else 'rw'}"
    with ExitStack() as opened:
        database = sqlite3.connect(
            uri, uri=True, timeout=wait_seconds, isolation_level=None, check_same_thread=False
        )
        opened.callback(database.close)
        if tables:
            for setting in _SETTINGS:
                database.execute(setting)
            with _transaction(database):
                for statement in (*_MARKS, *tables) if _is_blank(database, path) else ():
                    database.execute(statement)
        opened.pop_all()
    return database


def _is_blank(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether the database is new; raise ConfigError for another database or version."""
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if tables and (application, version) != (_APPLICATION, VERSION):
        raise ConfigError(f"{path}: another database, or another version; {_EXPECTED}")
    return not tables
