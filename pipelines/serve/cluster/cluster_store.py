"""The file of a cluster: its indexes, aliases and documents, in SQLite in the spool.

A request that changes something is one transaction, which is on the disk before the reply. A search
sees a change at once; a real server shows it after a refresh.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from feedferry.pipelines.serve.cluster.cluster_documents import DOCUMENT_TABLES, ClusterDocuments
from feedferry.pipelines.serve.cluster.cluster_indexes import INDEX_TABLES, ClusterIndexes
from feedferry.pipelines.serve.rehearsal.index_database import IndexDatabase

CLUSTER_FILE = "cluster.db"
_TABLES = (*INDEX_TABLES, *DOCUMENT_TABLES)
_WAIT_SECONDS = 10.0


class ClusterStore:
    """Its `indexes` and `documents` are used in a `transaction`, in which other threads wait."""

    def __init__(self, folder: Path) -> None:
        path = folder / CLUSTER_FILE
        self._database = IndexDatabase(path, _TABLES, wait_seconds=_WAIT_SECONDS, is_made=False)
        connection = self._database.connection
        connection.execute("PRAGMA synchronous = FULL")  # nothing can be digested again
        self.indexes = ClusterIndexes(connection)
        self.documents = ClusterDocuments(connection)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Hold the lock; what the block changes is stored as a whole, or not at all."""
        with self._database.lock, self._database.transaction():
            yield

    def remove_index(self, name: str) -> None:
        self.documents.remove_all(name)
        self.indexes.remove(name)

    def totals(self) -> list[tuple[str, int]]:
        """Return the name of each index and the number of its documents."""
        with self._database.lock:
            return [(name, self.documents.count([name])) for name in self.indexes.names()]

    def close(self) -> None:
        self._database.close()
