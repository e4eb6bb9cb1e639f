"""The documents of a cluster, with their versions.

A deleted document keeps its version, so that an older one is refused afterwards. A real server
forgets that version after a minute.
"""

import sqlite3
from collections.abc import Iterator, Sequence

import msgspec

DOCUMENT_TABLES = (
    "CREATE TABLE cluster_documents (name TEXT NOT NULL, id TEXT NOT NULL,"
    " version INTEGER NOT NULL, sequence INTEGER NOT NULL, rank INTEGER NOT NULL,"
    " url TEXT NOT NULL, source BLOB, PRIMARY KEY (name, id))",
    "CREATE INDEX cluster_order ON cluster_documents (rank, url)",
)
DocumentFields = dict[str, object]
SortValue = int | float | str | None
ORDER_COLUMNS = {
    "version": "rank",
    "url": "url",
    "datasource": "coalesce(json_extract(CAST(source AS TEXT), '$.datasource'), '')",
}
"""The columns that documents are ordered by, by the fields of a search."""

_LEAST_RANK = -(1 << 63)
"""The rank of a document without the field `version`, as a search sorts it."""

_LIVE = "source IS NOT NULL"
_PUT = (
    "INSERT INTO cluster_documents VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
    " version = excluded.version, sequence = excluded.sequence, rank = excluded.rank,"
    " url = excluded.url, source = excluded.source"
)


class StoredDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document, or a deleted one without `source`; `version` is that of the index."""

    version: int
    sequence: int
    source: bytes | None


class FoundDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document of a list, with the values that the list is sorted by."""

    index: str
    id: str
    source: bytes
    sort: tuple[SortValue, ...]


class ClusterDocuments:
    """`name` and `names` are those of indexes."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def find(self, name: str, id: str) -> StoredDocument | None:
        query = "SELECT version, sequence, source FROM cluster_documents WHERE name = ? AND id = ?"
        row = self._connection.execute(query, (name, id)).fetchone()
        return row and StoredDocument(version=row[0], sequence=row[1], source=row[2])

    def put(
        self, name: str, id: str, *, version: int, source: bytes | None, fields: DocumentFields
    ) -> int:
        """Store a document, or a deletion without `source`; return its sequence number."""
        count = (
            "UPDATE cluster_indexes SET sequence = sequence + 1 WHERE name = ? RETURNING sequence"
        )
        sequence = int(self._connection.execute(count, (name,)).fetchone()[0]) - 1
        rank, url = fields.get("version"), fields.get("url")
        rank = rank if isinstance(rank, int) else _LEAST_RANK
        values = name, id, version, sequence, rank, url if isinstance(url, str) else "", source
        self._connection.execute(_PUT, values)
        return sequence

    def remove_all(self, name: str) -> None:
        self._connection.execute("DELETE FROM cluster_documents WHERE name = ?", (name,))

    def count(self, names: Sequence[str]) -> int:
        query = (
            f"SELECT count(*) FROM cluster_documents WHERE name IN ({_places(names)}) AND {_LIVE}"
        )
        return int(self._connection.execute(query, names).fetchone()[0])

    def listed(
        self, names: Sequence[str], order: Sequence[str] = (), after: Sequence[SortValue] = ()
    ) -> Iterator[FoundDocument]:
        """Yield the documents in ascending order of fields, beginning after these values."""
        return self._select(f"name IN ({_places(names)})", names, order, after)

    def of_ids(
        self,
        names: Sequence[str],
        ids: Sequence[str],
        order: Sequence[str] = (),
        after: Sequence[SortValue] = (),
    ) -> Iterator[FoundDocument]:
        """Yield the documents with these ids, as `listed` does."""
        condition = f"name IN ({_places(names)}) AND id IN (SELECT value FROM json_each(?))"
        text = msgspec.json.encode(ids).decode()
        return self._select(condition, (*names, text), order, after)

    def _select(
        self,
        condition: str,
        values: Sequence[str],
        order: Sequence[str],
        after: Sequence[SortValue],
    ) -> Iterator[FoundDocument]:
        columns = [ORDER_COLUMNS[field] for field in order]
        sorting = ", ".join(columns) or "rowid"
        beyond = f" AND ({sorting}) > ({_places(after)})" if after else ""
        query = (
            f"SELECT {', '.join(['name', 'id', 'source', *columns])} FROM cluster_documents"
            f" WHERE {condition} AND {_LIVE}{beyond} ORDER BY {sorting}"
        )
        for name, id, source, *sort in self._connection.execute(query, (*values, *after)):
            yield FoundDocument(index=name, id=id, source=source, sort=tuple(sort))


def _places(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
