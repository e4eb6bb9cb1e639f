"""SQLite databases of one process, which nothing needs after a crash."""

import sqlite3
from pathlib import Path

_PRAGMAS = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"


def scratch_database(schema: str, path: Path | None = None) -> sqlite3.Connection:
    """Return a new database with a schema.

    Without a path, it is a temporary file, which SQLite removes.
    """
    database = sqlite3.connect("" if path is None else path)
    database.executescript(_PRAGMAS + schema)
    return database


def read_scratch(path: Path) -> sqlite3.Connection:
    """Return a database that another process has finished, to be read only."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
