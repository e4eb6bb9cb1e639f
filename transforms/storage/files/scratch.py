"""SQLite databases of one process, which nothing needs after a crash."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

_PRAGMAS = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"


def scratch_database(schema: str, path: Path | None = None) -> sqlite3.Connection:
    """Return a new database with a schema.

    Without a path, it is a temporary file, which SQLite removes.
    """
    database = sqlite3.connect("" if path is None else path)
    database.executescript(_PRAGMAS + schema)
    return database


@contextmanager
def whole_scratch(schema: str, path: Path) -> Iterator[sqlite3.Connection]:
    """Yield a new database, which gets its path when the block ends; others then read it."""
    part = path.with_name(f"{path.name}.part")
    part.unlink(missing_ok=True)
    with closing(scratch_database(schema, part)) as database, database:
        yield database
    os.replace(part, path)


def read_scratch(path: Path) -> sqlite3.Connection:
    """Return a database that another process has finished, to be read only."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


def pack_rows(database: sqlite3.Connection) -> None:
    """Pack the rows of a database into pages: those that were added in order leave a tenth."""
    database.commit()
    database.execute("VACUUM main")


def has_table(database: sqlite3.Connection, name: str, *, of: str = "main") -> bool:
    """Whether a database has a table, which may be empty."""
    query = f"SELECT 1 FROM {of}.sqlite_master WHERE type = 'table' AND name = ?"
    return database.execute(query, (name,)).fetchone() is not None


def has_rows(database: sqlite3.Connection, table: str) -> bool:
    """Whether a database has a table that is not empty."""
    first = f"SELECT 1 FROM {table} LIMIT 1"
    return has_table(database, table) and database.execute(first).fetchone() is not None
