"""The indexes of a cluster without their documents, and their aliases."""

import os
import sqlite3
from fnmatch import fnmatchcase

import msgspec

from feedferry.pipelines.serve.cluster.cluster_error import (
    ClusterError,
    bad_argument,
    no_index,
    not_played,
)
from feedferry.pipelines.serve.cluster.strict_mapping import MappedFields, mapped_fields

INDEX_TABLES = (
    "CREATE TABLE cluster_indexes (name TEXT PRIMARY KEY, uuid TEXT NOT NULL,"
    " mapping TEXT NOT NULL, settings TEXT NOT NULL, sequence INTEGER NOT NULL DEFAULT 0)",
    "CREATE TABLE cluster_aliases (alias TEXT, name TEXT, PRIMARY KEY (alias, name))",
)
Mapping = dict[str, object]
IndexSettings = dict[str, str]


class ClusterIndex(msgspec.Struct, frozen=True, kw_only=True):
    """An index without its documents; `fields` are those of its mapping."""

    name: str
    uuid: str
    mapping: Mapping
    fields: MappedFields
    settings: IndexSettings


class ClusterIndexes:
    """`name` is that of an index, `alias` that of an alias of one or more indexes."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def index(self, name: str) -> ClusterIndex | None:
        query = "SELECT uuid, mapping, settings FROM cluster_indexes WHERE name = ?"
        row = self._connection.execute(query, (name,)).fetchone()
        if row is None:
            return None
        mapping = msgspec.json.decode(row[1], type=Mapping)
        return ClusterIndex(
            name=name,
            uuid=row[0],
            mapping=mapping,
            fields=mapped_fields(mapping),
            settings=msgspec.json.decode(row[2], type=IndexSettings),
        )

    def names(self) -> list[str]:
        return self._column("SELECT name FROM cluster_indexes ORDER BY name")

    def aliases_of(self, name: str) -> list[str]:
        return self._column("SELECT alias FROM cluster_aliases WHERE name = ? ORDER BY alias", name)

    def is_alias(self, alias: str) -> bool:
        return bool(self._indexes_behind(alias))

    def named(self, expression: str) -> list[ClusterIndex]:
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
        return [index for name in found if (index := self.index(name)) is not None]

    def written_to(self, name: str, *, requires_alias: bool) -> ClusterIndex:
        """Return the index that is written to by a name; raise ClusterError if there is none."""
        if requires_alias and not self.is_alias(name):
            reason = (
                f"no such index [{name}] and [require_alias] request flag is [true] and [{name}] is"
                " not an alias"
            )
            kind = "index_not_found_exception"
            raise ClusterError(404, kind, reason, index=name, index_uuid="_na_")
        if self.index(name) is None and not self.is_alias(name):
            raise not_played("an index that makes itself", "a request that makes the index first")
        index, *others = self.named(name)
        if others:
            raise bad_argument(
                f"no write index is defined for alias [{name}]. The write index may be explicitly"
                " disabled using is_write_index=false or the alias points to multiple indices"
                " without one being designated as a write index"
            )
        return index

    def make(self, name: str, mapping: Mapping, settings: IndexSettings) -> None:
        values = name, os.urandom(11).hex(), _text(mapping), _text(settings)
        insert = "INSERT INTO cluster_indexes (name, uuid, mapping, settings) VALUES (?, ?, ?, ?)"
        self._connection.execute(insert, values)

    def set_mapping(self, name: str, mapping: Mapping) -> None:
        update = "UPDATE cluster_indexes SET mapping = ? WHERE name = ?"
        self._connection.execute(update, (msgspec.json.encode(mapping).decode(), name))

    def set_settings(self, name: str, settings: IndexSettings) -> None:
        update = "UPDATE cluster_indexes SET settings = ? WHERE name = ?"
        self._connection.execute(update, (_text(settings), name))

    def remove(self, name: str) -> None:
        """Remove an index and its aliases, not its documents."""
        for table in ("cluster_indexes", "cluster_aliases"):
            self._connection.execute(f"DELETE FROM {table} WHERE name = ?", (name,))

    def add_alias(self, name: str, alias: str) -> None:
        self._connection.execute(
            "INSERT OR IGNORE INTO cluster_aliases VALUES (?, ?)", (alias, name)
        )

    def remove_alias(self, name: str, alias: str) -> bool:
        """Remove an alias; return whether the index had it."""
        delete = "DELETE FROM cluster_aliases WHERE alias = ? AND name = ?"
        return self._connection.execute(delete, (alias, name)).rowcount > 0

    def _of_name(self, name: str) -> list[str]:
        return [name] if self.index(name) else self._indexes_behind(name)

    def _indexes_behind(self, alias: str) -> list[str]:
        return self._column("SELECT name FROM cluster_aliases WHERE alias = ? ORDER BY name", alias)

    def _all_names(self) -> list[str]:
        aliases = self._column("SELECT DISTINCT alias FROM cluster_aliases ORDER BY alias")
        return [*self.names(), *aliases]

    def _column(self, query: str, *values: str) -> list[str]:
        return [row[0] for row in self._connection.execute(query, values)]


def _matches(name: str, pattern: str) -> bool:
    return pattern == "_all" or fnmatchcase(name, pattern)


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()
