"""The rows of a table, a view or a query, bound to a database.

Values are those of the driver, without conversion by SQLAlchemy: times keep their zone, numbers
their digits.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.types import NullType

from schemas.errors import ConfigError
from schemas.spelling import did_you_mean
from transforms.sources.database.column_index import ColumnIndex, Key
from transforms.sources.database.keys import bound_value, read_key
from transforms.sources.database.mapping import RowMapping
from transforms.sources.database.records import used_columns
from transforms.sources.database.result_columns import Expression, ResultColumn, Select, describe
from transforms.sources.database.session import STREAMED_ROWS, stream, translate_errors

_ALIAS = "feedferry_rows"
_MAX_NAMES_SHOWN = 20
_TIMESTAMP = "incremental: timestamp"
_Where = tuple[sa.ColumnElement[bool], ...]


@dataclass(frozen=True, kw_only=True)
class TableQuery:
    """The rows of a mapping in their database.

    `columns` are those that the mapping uses, in the order of the table. `key` are the names of the
    columns that order the rows, `nullable_key` those of them that can be NULL. `where` restricts
    the rows.
    """

    mapping: RowMapping
    engine: sa.Engine
    selectable: sa.FromClause
    columns: tuple[ResultColumn, ...]
    key: tuple[str, ...]
    nullable_key: tuple[str, ...] = ()
    has_unique_key: bool = False
    where: _Where = ()

    @property
    def index(self) -> ColumnIndex:
        return ColumnIndex(names=tuple(column.name for column in self.columns), key=self.key)

    @property
    def key_columns(self) -> tuple[Expression, ...]:
        return tuple(self.column(name) for name in self.key)

    @property
    def with_key(self) -> _Where:
        """The conditions of rows without NULL in the key."""
        return (*self.where, *(self.column(name).is_not(None) for name in self.nullable_key))

    @property
    def without_key(self) -> _Where:
        """The conditions of rows with NULL in the key."""
        return (*self.where, sa.or_(*(self.column(name).is_(None) for name in self.nullable_key)))

    @property
    def shown(self) -> str:
        return self.mapping.shown

    def column(self, name: str) -> Expression:
        """Return a column without a type, so that its values are not converted."""
        column: Expression = self.selectable.c[name]
        return column

    def restricted(self, *conditions: sa.ColumnElement[bool]) -> "TableQuery":
        """Return the rows that also meet these conditions."""
        return replace(self, where=(*self.where, *conditions))

    def timestamp_column(self, name: str) -> Expression:
        index = self.index
        return self.column(index.names[index.at(_TIMESTAMP, name)])

    def between(self, timestamp: str, *, above: object = None, upto: object = None) -> "TableQuery":
        """Return the rows with a timestamp greater than `above` and at most `upto`."""
        column, dialect = self.timestamp_column(timestamp), self.engine.dialect
        conditions = []
        if above is not None:
            conditions.append(column > sa.literal(bound_value(above, dialect), NullType()))
        if upto is not None:
            conditions.append(column <= sa.literal(bound_value(upto, dialect), NullType()))
        return self.restricted(*conditions)

    def with_keys(self, keys: Sequence[str]) -> "TableQuery":
        """Return the rows with these keys, given as JSON."""
        columns, dialect = self.key_columns, self.engine.dialect
        values = [tuple(bound_value(value, dialect) for value in read_key(key)) for key in keys]
        if len(columns) == 1:
            return self.restricted(columns[0].in_([value for (value,) in values]))
        row: Any = sa.tuple_(*columns, types=[NullType() for _ in columns])
        return self.restricted(row.in_(values))

    def read_keys(self) -> Iterator[Key]:
        """Yield the keys of all rows in order, without those with NULL."""
        columns = self.key_columns
        keys = sa.select(*columns).where(*self.with_key).order_by(*columns)
        yield from self._stream(keys)

    def read_null_keys(self) -> Iterator[Key]:
        """Yield the keys with NULL."""
        if self.nullable_key:
            yield from self._stream(sa.select(*self.key_columns).where(*self.without_key))

    def highest(self, name: str) -> Any:
        """Return the highest value of a timestamp column, None if there is none."""
        statement = sa.select(sa.func.max(self.timestamp_column(name))).where(*self.where)
        where = f"{self.shown}, {_TIMESTAMP} {name!r}"
        with self.translate_errors(where), self.engine.connect() as connection:
            return connection.scalar(statement)

    def check_unique_key(self) -> None:
        """Raise ConfigError if two rows have the same key; not checked if a constraint forbids it.

        The database compares the keys, by its collation.
        """
        if self.has_unique_key:
            return
        columns, count = self.key_columns, sa.func.count()
        groups = sa.select(*columns, count).where(*self.with_key).group_by(*columns)
        with self.translate_errors(), self.engine.connect() as connection:
            duplicate = connection.execute(groups.having(count > 1).limit(1)).first()
        if duplicate is not None:
            *key, number = duplicate
            shown = ", ".join(map("{}={!r}".format, self.key, key))
            raise ConfigError(
                f"key: {number} rows of {self.shown} have {shown}; expected columns that are "
                "unique for each row"
            )

    def translate_errors(self, where: str = "") -> AbstractContextManager[None]:
        """Return the context manager that raises errors of the database as our own."""
        dialect = self.engine.dialect
        return translate_errors(self.mapping, where=where or self.shown, dialect=dialect)

    def _stream(self, statement: Select) -> Iterator[Key]:
        with (
            self.translate_errors(),
            self.engine.connect() as connection,
            stream(connection, statement, rows=STREAMED_ROWS) as result,
        ):
            yield from map(tuple, result)


def open_rows(mapping: RowMapping, engine: sa.Engine) -> TableQuery:
    """Return the rows of a mapping; raise ConfigError for missing tables and columns.

    Whether the key is unique is not checked here: see `TableQuery.check_unique_key`.
    """
    with (
        translate_errors(mapping, where=mapping.shown, dialect=engine.dialect),
        engine.connect() as connection,
    ):
        if mapping.table is not None:
            _check_table(mapping, sa.inspect(connection))
        columns = describe(connection, _selectable(mapping, ()))
        constraints = _read_constraints(mapping, connection)
    index = ColumnIndex(names=tuple(column.name for column in columns))
    key = tuple(index.names[index.at("key", name)] for name in mapping.key) or constraints.primary
    if not key:
        raise ConfigError(
            f"key: missing, and {mapping.shown} has no primary key; expected key: [COLUMN]"
        )
    for column in columns:
        if column.name in key and not column.is_ordered:
            raise ConfigError(
                f"key: {column.name!r} has the type {column.type_name}, with different orders in "
                "> and ORDER BY; expected another column, or a query that casts it"
            )
    return TableQuery(
        mapping=mapping,
        engine=engine,
        selectable=_selectable(mapping, index.names),
        columns=_used_columns(mapping, columns, key),
        key=key,
        nullable_key=tuple(name for name in key if name not in constraints.not_null),
        has_unique_key=any(unique <= set(key) for unique in constraints.unique),
    )


def subquery(sql: str, names: Sequence[str], alias: str) -> sa.FromClause:
    """Return a user's query as a subquery.

    A colon in it is not a parameter, and it can end in a semicolon or a comment.
    """
    text = sql.strip().rstrip(";").replace(":", "\\:") + "\n"
    return sa.text(text).columns(*_untyped(names)).subquery(alias)


def _selectable(mapping: RowMapping, names: Sequence[str]) -> sa.FromClause:
    if mapping.table is None:
        return subquery(mapping.query or "", names, _ALIAS)
    return sa.table(mapping.table, *_untyped(names), schema=mapping.schema)


def _untyped(names: Sequence[str]) -> list[sa.ColumnClause[Any]]:
    return [sa.column(name, NullType()) for name in names]


def _used_columns(
    mapping: RowMapping, columns: Sequence[ResultColumn], key: tuple[str, ...]
) -> tuple[ResultColumn, ...]:
    """Return the columns that records need; raise ConfigError for a missing column."""
    index = ColumnIndex(names=tuple(column.name for column in columns), key=key)
    used = used_columns(mapping, index)
    if mapping.content.is_page or any(entry.is_all for entry in mapping.metadata_columns):
        return tuple(columns)
    return tuple(column for at, column in enumerate(columns) if at in used or column.name in key)


def _check_table(mapping: RowMapping, inspector: sa.Inspector) -> None:
    table, schema = mapping.table or "", mapping.schema
    if inspector.has_table(table, schema):
        return
    try:
        names = sorted(inspector.get_table_names(schema) + inspector.get_view_names(schema))
    except sa.exc.SQLAlchemyError:  # a missing schema
        names = []
    if not names:
        raise ConfigError(f"table: {table!r}; expected a table or view, and there is none")
    shown = ", ".join(names[:_MAX_NAMES_SHOWN]) + (", …" if len(names) > _MAX_NAMES_SHOWN else "")
    raise ConfigError(f"table: {table!r}; expected one of {shown}{did_you_mean(table, names)}")


@dataclass(frozen=True)
class TableConstraints:
    """Constraints of a table: its primary key, unique sets of columns, and NOT NULL columns."""

    primary: tuple[str, ...] = ()
    unique: tuple[frozenset[str], ...] = ()
    not_null: frozenset[str] = frozenset()


def _read_constraints(mapping: RowMapping, connection: sa.Connection) -> TableConstraints:
    if mapping.table is None:
        return TableConstraints()
    place = mapping.table, mapping.schema
    with warnings.catch_warnings(action="ignore", category=sa.exc.SAWarning):
        inspector = sa.inspect(connection)
        primary = tuple(inspector.get_pk_constraint(*place)["constrained_columns"])
        columns = inspector.get_columns(*place)
        indexes = filter(_is_unique, inspector.get_indexes(*place))
        groups = [primary] if primary else []
        groups += [tuple(filter(None, index["column_names"])) for index in indexes]
        groups += [
            tuple(constraint["column_names"])
            for constraint in inspector.get_unique_constraints(*place)
        ]
    return TableConstraints(
        primary,
        tuple(map(frozenset, groups)),
        frozenset(column["name"] for column in columns if not column["nullable"]),
    )


def _is_unique(index: Any) -> bool:  # Any: SQLAlchemy's TypedDict
    """Return whether all rows differ in the columns; not so for partial and expression indexes."""
    is_partial = any(name.endswith("_where") for name in index.get("dialect_options", {}))
    return bool(index["unique"]) and not is_partial and None not in index["column_names"]
