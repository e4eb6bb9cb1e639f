"""The rows that a mapping names, of a table, a view or a query, bound to a database.

What is read is what the driver gives, without what SQLAlchemy would make of it: the times of a row
are those of the database, a number is as exact as it was.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.types import NullType

from schemas.errors import ConfigError
from schemas.spelling import did_you_mean
from transforms.sources.database.column_index import Rows as Named
from transforms.sources.database.columns import Column, describe
from transforms.sources.database.engine import new_engine, url_of
from transforms.sources.database.errors import told
from transforms.sources.database.keys import Key, bound
from transforms.sources.database.mapping import Mapping
from transforms.sources.database.session import stream
from transforms.sources.database.used_columns import used_columns

ALIAS = "feedferry_rows"

_SHOWN_NAMES = 20
_STREAMED_ROWS = 10_000
_Where = tuple[sa.ColumnElement[bool], ...]


@dataclass(frozen=True, kw_only=True)
class Rows:
    """What a mapping names, in its database.

    `columns` are those that the mapping makes use of, in the order of the table or query, `key`
    their names that order the rows. `nullable` are those of the key that may hold NULL. `where`
    narrows the rows. A key that is `known_unique` needs no proof.
    """

    mapping: Mapping
    engine: sa.Engine
    selectable: sa.FromClause
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    nullable: tuple[str, ...] = ()
    known_unique: bool = False
    where: _Where = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def named(self) -> Named:
        """The names alone, as records are made by them."""
        return Named(names=self.names, key=self.key)

    @property
    def key_columns(self) -> tuple[sa.ColumnElement[Any], ...]:
        return tuple(self.column(name) for name in self.key)

    @property
    def with_key(self) -> _Where:
        """The conditions of a row that is read: `where`, and no NULL in its key."""
        return (*self.where, *(self.column(name).is_not(None) for name in self.nullable))

    @property
    def without_key(self) -> _Where:
        """The conditions of a row that no key tells from others."""
        return (*self.where, sa.or_(*(self.column(name).is_(None) for name in self.nullable)))

    @property
    def shown(self) -> str:
        """What messages call the rows."""
        return shown(self.mapping)

    def column(self, name: str) -> sa.ColumnElement[Any]:
        """Return a column of them, of no type: nothing is made of its values."""
        found: sa.ColumnElement[Any] = self.selectable.c[name]
        return found

    def narrowed(self, name: str, *, after: object = None, upto: object = None) -> "Rows":
        """Return the rows with a value of a column above `after` and not above `upto`."""
        column = self.column(self.names[self.named.at("incremental: timestamp", name)])
        dialect = self.engine.dialect
        above = () if after is None else (column > _literal(bound(after, dialect)),)
        below = () if upto is None else (column <= _literal(bound(upto, dialect)),)
        return replace(self, where=(*self.where, *above, *below))

    def keys_only(self) -> Iterator[Key]:
        """Yield the keys of all rows in their order; those with NULL in them are left out."""
        columns = self.key_columns
        keys = sa.select(*columns).where(*self.with_key).order_by(*columns)
        with (
            told(self.mapping, where=self.shown),
            self.engine.connect() as connection,
            stream(connection, keys, rows=_STREAMED_ROWS) as result,
        ):
            yield from map(tuple, result)

    def maximum(self, name: str) -> Any:
        """Return the highest value of a column, None if there is none."""
        column = self.column(self.names[self.named.at("incremental: timestamp", name)])
        with told(self.mapping, where=self.shown), self.engine.connect() as connection:
            return connection.scalar(sa.select(sa.func.max(column)).where(*self.where))


def shown(mapping: Mapping) -> str:
    """Return what messages call the rows of a mapping."""
    return f"table {mapping.table!r}" if mapping.table else "the query"


def connect(mapping: Mapping) -> sa.Engine:
    """Return what connects to the database of a mapping, to read only.

    References to secrets are looked up here. Raise ConfigError if there are none, or if the driver
    is not installed. No connection is made, and none is kept when it was used.
    """
    return new_engine(url_of(mapping))


def open_rows(mapping: Mapping, engine: sa.Engine) -> Rows:
    """Return the rows of a mapping; raise ConfigError for what is not there, or cannot be used.

    That a key is unique is not proven here: see `check_key`.
    """
    with told(mapping, where=shown(mapping)), engine.connect() as connection:
        if mapping.table is not None:
            _check_table(mapping, sa.inspect(connection))
        columns = describe(connection, _unnamed(mapping))
        known = _Known(mapping, connection)
    key = _key_of(mapping, columns, known.primary)
    used = used_columns(mapping, columns, key)
    _check_types(mapping, columns, key)
    return Rows(
        mapping=mapping,
        engine=engine,
        selectable=_selectable(mapping, columns),
        columns=used,
        key=key,
        nullable=tuple(name for name in key if name not in known.filled),
        known_unique=any(unique <= set(key) for unique in known.uniques),
    )


def check_key(rows: Rows) -> None:
    """Raise ConfigError if two rows have the same key; costs nothing if an index forbids it."""
    if rows.known_unique:
        return
    columns = rows.key_columns
    twice = (
        sa.select(*columns, sa.func.count())
        .where(*rows.with_key)
        .group_by(*columns)
        .having(sa.func.count() > 1)
        .limit(1)
    )
    with told(rows.mapping, where=rows.shown), rows.engine.connect() as connection:
        found = connection.execute(twice).first()
    if found is not None:
        *key, count = found
        shown = ", ".join(map("{}={!r}".format, rows.key, key))
        raise ConfigError(
            f"key: {count} rows of {rows.shown} have {shown}; expected columns whose values no "
            "two rows share"
        )


def _check_table(mapping: Mapping, inspector: sa.Inspector) -> None:
    table, schema = mapping.table or "", mapping.schema
    if inspector.has_table(table, schema):
        return
    try:
        names = inspector.get_table_names(schema) + inspector.get_view_names(schema)
    except sa.exc.SQLAlchemyError:  # the schema is not there, either
        names = []
    if not names:
        raise ConfigError(f"table: {table!r}; expected a table or view, and there is none")
    shown = ", ".join(sorted(names)[:_SHOWN_NAMES]) + (", …" if len(names) > _SHOWN_NAMES else "")
    raise ConfigError(f"table: {table!r}; expected one of {shown}{did_you_mean(table, names)}")


class _Known:
    """What the database knows of a table: its primary key, what is unique, what is never NULL."""

    def __init__(self, mapping: Mapping, connection: sa.Connection) -> None:
        self.primary: tuple[str, ...] = ()
        self.uniques: list[frozenset[str]] = []
        self.filled: frozenset[str] = frozenset()
        if mapping.table is not None:
            with warnings.catch_warnings(action="ignore", category=sa.exc.SAWarning):
                self._ask(sa.inspect(connection), mapping.table, mapping.schema)

    def _ask(self, inspector: sa.Inspector, table: str, schema: str | None) -> None:
        self.primary = tuple(inspector.get_pk_constraint(table, schema)["constrained_columns"])
        columns = inspector.get_columns(table, schema)
        self.filled = frozenset(one["name"] for one in columns if not one["nullable"])
        if self.primary:
            self.uniques.append(frozenset(self.primary))
        self.uniques += [
            frozenset(name for name in index["column_names"] if name is not None)
            for index in inspector.get_indexes(table, schema)
            if _is_unique(index)
        ]
        self.uniques += [
            frozenset(constraint["column_names"])
            for constraint in inspector.get_unique_constraints(table, schema)
        ]


def _is_unique(index: Any) -> bool:
    """Whether no two rows agree in its columns; a partial one, or one of terms, says less."""
    options = index.get("dialect_options", {})
    is_partial = any(name.endswith("_where") for name in options)
    return bool(index["unique"]) and not is_partial and None not in index["column_names"]


def _unnamed(mapping: Mapping) -> sa.FromClause:
    if mapping.table is not None:
        return sa.table(mapping.table, schema=mapping.schema)
    return _query(mapping.query or "", ())


def _selectable(mapping: Mapping, columns: Sequence[Column]) -> sa.FromClause:
    names = tuple(column.name for column in columns)
    if mapping.table is None:
        return _query(mapping.query or "", names)
    return sa.table(mapping.table, *_untyped(names), schema=mapping.schema)


def query_of(sql: str, names: Sequence[str], alias: str) -> sa.FromClause:
    """Return a query of a user as something to select from.

    A colon in it is no parameter, and it may end in a semicolon or a comment.
    """
    text = sql.strip().rstrip(";").replace(":", "\\:") + "\n"
    return sa.text(text).columns(*_untyped(names)).subquery(alias)


def _query(sql: str, names: Sequence[str]) -> sa.FromClause:
    return query_of(sql, names, ALIAS)


def _untyped(names: Sequence[str]) -> list[sa.ColumnClause[Any]]:
    return [sa.column(name, NullType()) for name in names]


def _key_of(
    mapping: Mapping, columns: Sequence[Column], primary: tuple[str, ...]
) -> tuple[str, ...]:
    named = Named(names=tuple(column.name for column in columns))
    key = tuple(named.names[named.at("key", name)] for name in mapping.key) or primary
    if key:
        return key
    lacking = f"table {mapping.table!r} has no primary key" if mapping.table else "a query has none"
    raise ConfigError(f"key: not given, and {lacking}; expected a list of columns: key: [COLUMN]")


def _check_types(mapping: Mapping, columns: Sequence[Column], key: Sequence[str]) -> None:
    named = Named(names=tuple(column.name for column in columns))
    for column in columns:
        if column.name in key and not column.is_ordered:
            raise ConfigError(
                f"key: {column.name!r} has the type {column.type_name}, whose values are not "
                "ordered as they compare; expected another column, or a query that casts it"
            )
    content = mapping.content.column
    if content is not None:
        column = columns[named.at("content: column", content)]
        if not column.is_document:
            raise ConfigError(
                f"content: column: {column.name!r} has the type {column.type_name}; expected one "
                "that holds documents: text, bytes, JSON or XML"
            )


def _literal(value: object) -> sa.ColumnElement[Any]:
    return sa.literal(value, NullType())
