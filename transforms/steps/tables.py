"""Tables of a step: a CSV file with old and new values, looked up on disk.

A table of a million lines takes no memory: a worker copies it into an SQLite file of its own, in
the folder of temporary files, and asks that. A small table is in memory, too.
"""

import csv
import os
import threading
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from feedferry.schemas.errors import ConfigError
from feedferry.transforms.storage.files.scratch import scratch_database

_CACHED = 65_536
_TABLES = 8
_SCHEMA = """
CREATE TABLE pairs (old TEXT PRIMARY KEY, new TEXT NOT NULL, line INTEGER NOT NULL) WITHOUT ROWID
"""


def load_table(path: Path) -> "Table":
    """Return the table of a file; a thread of a worker copies it again only after it has changed.

    Raise ConfigError for a file that is no table of pairs.
    """
    status = path.stat() if path.is_file() else None
    signature = status and (status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return _load(path, signature, os.getpid(), threading.get_ident())


class Table:
    """New values by old ones; see `load_table`."""

    def __init__(self, path: Path, *_signature: object) -> None:
        self._path = path
        self._database = scratch_database(_SCHEMA)
        for line, old, new in self._pairs():
            self._add(line, old, new)
        [(count,)] = self._database.execute("SELECT count(*) FROM pairs")
        pairs = self._database.execute("SELECT old, new FROM pairs")
        is_small = count <= _CACHED
        self.find = dict(pairs).get if is_small else lru_cache(maxsize=_CACHED)(self._find)

    def _find(self, old: str) -> str | None:
        """Return the new value, None if the table has none."""
        query = "SELECT new FROM pairs WHERE old = ?"
        row = self._database.execute(query, (old,)).fetchone()
        return None if row is None else str(row[0])

    def _pairs(self) -> Iterator[tuple[int, str, str]]:
        try:
            with self._path.open(encoding="utf-8-sig", newline="") as stream:
                for row in (reader := csv.reader(stream, strict=True)):
                    if not row:
                        continue
                    if len(row) != 2 or not row[0] or not row[1]:
                        place = f"{self._path}:{reader.line_num}"
                        raise ConfigError(
                            f"{place}: {len(row)} values; expected two, the old and the new one"
                        )
                    yield reader.line_num, row[0], row[1]
        except (OSError, UnicodeDecodeError, csv.Error) as exc:
            raise ConfigError(f"{self._path}: {exc}; expected a CSV file with two columns") from exc

    def _add(self, line: int, old: str, new: str) -> None:
        row = self._database.execute("SELECT new, line FROM pairs WHERE old = ?", (old,)).fetchone()
        if row is None:
            self._database.execute("INSERT INTO pairs VALUES (?, ?, ?)", (old, new, line))
        elif row[0] != new:
            raise ConfigError(
                f"{self._path}:{line}: {old!r} has another value in line {row[1]}; expected one"
            )


_load = lru_cache(maxsize=_TABLES)(Table)
