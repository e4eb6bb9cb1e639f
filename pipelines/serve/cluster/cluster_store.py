"""The indexes, aliases and documents of a cluster, in a SQLite file of the spool.

A request that changes something is one transaction, which is on the disk before the reply. A search
sees a change at once; a real server shows it after a refresh.

A deleted document keeps its version, so that an older one is refused afterwards. A real server
forgets that version after a minute.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec

from feedferry.pipelines.serve.cluster.cluster_error import no_index
from feedferry.pipelines.serve.rehearsal.index_database import IndexDatabase

CLUSTER_FILE = "cluster.db"
LEAST_RANK = -(1 << 63)
"""The rank of a document without the field `version`, as a search sorts it."""

_SCHEMA = (
    "CREATE TABLE cluster_indexes (name TEXT PRIMARY KEY, uuid TEXT NOT NULL,"
    " mapping TEXT NOT NULL, settings TEXT NOT NULL, sequence INTEGER NOT NULL DEFAULT 0)",
    "CREATE TABLE cluster_aliases (alias TEXT, name TEXT, PRIMARY KEY (alias, name))",
    "CREATE TABLE cluster_documents (name TEXT NOT NULL, id TEXT NOT NULL,"
    " version INTEGER NOT NULL, sequence INTEGER NOT NULL, rank INTEGER NOT NULL,"
    " url TEXT NOT NULL, source BLOB, PRIMARY KEY (name, id))",
    "CREATE INDEX cluster_order ON cluster_documents (rank, url)",
)
_WAIT_SECONDS = 10.0
_LIVE = "source IS NOT NULL"
_DATASOURCE = "coalesce(json_extract(CAST(source AS TEXT), '$.datasource'), '')"
_COLUMNS = {"datasource": _DATASOURCE}
"""Expressions of orders that are no columns."""
_PUT = (
    "INSERT INTO cluster_documents VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
    " version = excluded.version, sequence = excluded.sequence, rank = excluded.rank,"
    " url = excluded.url, source = excluded.source"
)


class ClusterIndex(msgspec.Struct, frozen=True, kw_only=True):
    """An index without its documents."""

    name: str
    uuid: str
    mapping: dict[str, Any]
    settings: dict[str, Any]


class StoredDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document, or a deleted one without `source`; `version` is that of the index."""

    version: int
    sequence: int
    source: bytes | None


class ClusterStore:
    """All methods need the lock of `transaction`, in which other threads wait.

    `names` maps the name of an index or alias to the indexes that it names.
    """

    def __init__(self, folder: Path) -> None:
        path = folder / CLUSTER_FILE
        self._database = IndexDatabase(path, _SCHEMA, wait_seconds=_WAIT_SECONDS, is_made=False)
        self._connection = self._database.connection
        self._connection.execute("PRAGMA synchronous = FULL")  # nothing can be digested again

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Hold the lock; what the block changes is stored as a whole, or not at all."""
        with self._database.lock, self._database.transaction():
            yield

    def close(self) -> None:
        self._database.close()

    def index(self, name: str) -> ClusterIndex | None:
        query = "SELECT uuid, mapping, settings FROM cluster_indexes WHERE name = ?"
        row = self._connection.execute(query, (name,)).fetchone()
        if row is None:
            return None
        mapping, settings = map(msgspec.json.decode, row[1:])
        return ClusterIndex(name=name, uuid=row[0], mapping=mapping, settings=settings)

    def aliases_of(self, name: str) -> list[str]:
        query = "SELECT alias FROM cluster_aliases WHERE name = ? ORDER BY alias"
        return [row[0] for row in self._connection.execute(query, (name,))]

    def is_alias(self, alias: str) -> bool:
        return bool(self._indexes_behind(alias))

    def named(self, expression: str) -> list[str]:
        """Return the indexes of a name, an alias, a pattern with `*`, or several with commas.

        Raise ClusterError for a name that no index has.
        """
        found: dict[str, None] = {}
        for name in expression.split(","):
            if "*" in name or name == "_all":
                names = [held for held in self._all_names() if _matches(held, name)]
                found |= dict.fromkeys(index for held in names for index in self._of_name(held))
            elif indexes := self._of_name(name):
                found |= dict.fromkeys(indexes)
            else:
                raise no_index(name)
        return [*found]

    def make_index(self, name: str, mapping: object, settings: object) -> None:
        values = name, os.urandom(11).hex(), _text(mapping), _text(settings)
        insert = "INSERT INTO cluster_indexes (name, uuid, mapping, settings) VALUES (?, ?, ?, ?)"
        self._connection.execute(insert, values)

    def update_index(self, index: ClusterIndex) -> None:
        """Store the mapping and the settings of an index."""
        update = "UPDATE cluster_indexes SET mapping = ?, settings = ? WHERE name = ?"
        values = _text(index.mapping), _text(index.settings), index.name
        self._connection.execute(update, values)

    def remove_index(self, name: str) -> None:
        for table in ("cluster_indexes", "cluster_aliases", "cluster_documents"):
            self._connection.execute(f"DELETE FROM {table} WHERE name = ?", (name,))

    def add_alias(self, name: str, alias: str) -> None:
        self._connection.execute(
            "INSERT OR IGNORE INTO cluster_aliases VALUES (?, ?)", (alias, name)
        )

    def remove_alias(self, name: str, alias: str) -> bool:
        delete = "DELETE FROM cluster_aliases WHERE alias = ? AND name = ?"
        return self._connection.execute(delete, (alias, name)).rowcount > 0

    def document(self, name: str, id: str) -> StoredDocument | None:
        query = "SELECT version, sequence, source FROM cluster_documents WHERE name = ? AND id = ?"
        row = self._connection.execute(query, (name, id)).fetchone()
        return row and StoredDocument(version=row[0], sequence=row[1], source=row[2])

    def put(
        self, name: str, id: str, *, version: int, source: bytes | None, fields: dict[str, Any]
    ) -> int:
        """Store a document, or a deletion without `source`; return its sequence number."""
        count = (
            "UPDATE cluster_indexes SET sequence = sequence + 1 WHERE name = ? RETURNING sequence"
        )
        sequence = int(self._connection.execute(count, (name,)).fetchone()[0]) - 1
        rank, url = fields.get("version"), fields.get("url")
        rank = rank if isinstance(rank, int) else LEAST_RANK
        values = name, id, version, sequence, rank, url if isinstance(url, str) else "", source
        self._connection.execute(_PUT, values)
        return sequence

    def count(self, names: list[str]) -> int:
        query = (
            f"SELECT count(*) FROM cluster_documents WHERE name IN ({_places(names)}) AND {_LIVE}"
        )
        return int(self._connection.execute(query, names).fetchone()[0])

    def documents(
        self, names: list[str], order: list[str], after: list[Any]
    ) -> Iterator[tuple[str, str, dict[str, Any], bytes]]:
        """Yield name, id, values of `order` and source of each document, in ascending order."""
        columns = ", ".join(_COLUMNS.get(name, name) for name in order) or "rowid"
        beyond = f" AND ({columns}) > ({_places(after)})" if after else ""
        query = (
            f"SELECT name, id, rank, url, {_DATASOURCE}, source FROM cluster_documents WHERE name"
            f" IN ({_places(names)}) AND {_LIVE}{beyond} ORDER BY {columns}"
        )
        rows = self._connection.execute(query, (*names, *after))
        for name, id, rank, url, datasource, source in rows:
            yield name, id, {"rank": rank, "url": url, "datasource": datasource}, source

    def totals(self) -> list[tuple[str, int]]:
        """Return the name of each index and the number of its documents."""
        with self._database.lock:
            return [(name, self.count([name])) for name in self._index_names()]

    def _of_name(self, name: str) -> list[str]:
        return [name] if self.index(name) else self._indexes_behind(name)

    def _indexes_behind(self, alias: str) -> list[str]:
        query = "SELECT name FROM cluster_aliases WHERE alias = ? ORDER BY name"
        return [row[0] for row in self._connection.execute(query, (alias,))]

    def _index_names(self) -> list[str]:
        rows = self._connection.execute("SELECT name FROM cluster_indexes ORDER BY name")
        return [row[0] for row in rows]

    def _all_names(self) -> list[str]:
        rows = self._connection.execute("SELECT DISTINCT alias FROM cluster_aliases ORDER BY alias")
        return [*self._index_names(), *(row[0] for row in rows)]


def _matches(name: str, pattern: str) -> bool:
    return pattern == "_all" or fnmatchcase(name, pattern)


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _places(values: list[Any]) -> str:
    return ", ".join("?" * len(values))
