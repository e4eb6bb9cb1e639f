"""The rows of a table, a view or a query in their database, in the order of their keys.

Values are those of the driver, without conversion by SQLAlchemy: times keep their zone, numbers
their digits. The order of keys is the database's, in ORDER BY and in conditions alike: its
collation decides about trailing blanks, case and accents.
"""

import base64
import json
import operator
import sqlite3
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from itertools import islice
from typing import Any
from uuid import UUID

import msgspec
import sqlalchemy as sa
from sqlalchemy.types import NullType

from feedferry.schemas.errors import ConfigError
from feedferry.schemas.span import RowFilter
from feedferry.transforms.sources.database.connection.dialects import (
    INLINE_BYTES,
    Dialect,
    Expression,
    ResultColumn,
)
from feedferry.transforms.sources.database.connection.session import Session, UnreadableValueError
from feedferry.transforms.sources.database.mapping.columns import ColumnIndex, Key
from feedferry.transforms.sources.database.mapping.row_mapping import TIMESTAMP, RowMapping
from feedferry.transforms.sources.database.records.record_maker import used_columns

Select = sa.Select[object]  # values are not converted, so types do not matter
_Condition = sa.ColumnElement[bool]
_Compare = Callable[[Any, Any], _Condition]  # Any: columns, and tuples of them

_ALIAS = "feedferry_rows"
_encode = msgspec.json.Encoder().encode
_Convert = Callable[[Any], object]  # Any: each function takes values of its own type
_KEY_TYPES: dict[str, tuple[type, _Convert, _Convert]] = {
    "decimal": (Decimal, str, Decimal),
    "datetime": (datetime, datetime.isoformat, datetime.fromisoformat),
    "date": (date, date.isoformat, date.fromisoformat),
    "uuid": (UUID, str, UUID),
    "bytes": (bytes, lambda value: base64.b64encode(value).decode(), base64.b64decode),
}
"""Types with a name in the JSON of a key, in the order of the search."""


def write_key(key: Key) -> str:
    """Return a key as JSON; raise ConfigError for a value of a type that cannot be a key.

    >>> write_key((7, "Anna", Decimal("1.50")))
    '[7,"Anna",{"decimal":"1.50"}]'
    """
    return _encode(tuple(map(_key_json, key))).decode()


def write_keys(columns: Sequence[Sequence[object]]) -> list[str]:
    """Return the keys of rows as `write_key` does, from the columns of the key."""
    keys = zip(*columns, strict=True)
    if all({*map(type, column)} <= {int, str} for column in columns):
        return [_encode(key).decode() for key in keys]
    return [*map(write_key, keys)]


def read_key(text: str) -> Key:
    """Return the key that `write_key` has written."""
    return tuple(map(_key_value, json.loads(text)))


def _key_value(value: object) -> object:
    if not isinstance(value, dict):
        return value
    ((name, text),) = value.items()
    return _KEY_TYPES[name][2](text)


def _key_json(value: object) -> object:
    for name, (type_, write, _) in _KEY_TYPES.items():
        if isinstance(value, type_):
            return {name: write(value)}
    if not isinstance(value, int | str):
        raise ConfigError(
            f"key: a value of the type {type(value).__name__}; expected columns of integers, "
            "decimals, texts, dates, timestamps, UUIDs or bytes, or a query that casts them"
        )
    return value


@dataclass(frozen=True)
class KeyOrder:
    """Compares key columns with a key."""

    columns: Sequence[Expression]
    dialect: Dialect

    def after(self, key: Key) -> _Condition:
        return self._compare(key, operator.gt, operator.ge, operator.gt)

    def since(self, key: Key) -> _Condition:
        return self._compare(key, operator.gt, operator.ge, operator.ge)

    def upto(self, key: Key) -> _Condition:
        return self._compare(key, operator.lt, operator.le, operator.le)

    def _compare(self, key: Key, strict: _Compare, loose: _Compare, last: _Compare) -> _Condition:
        """Return a condition that uses an index; `last` compares the last column."""
        columns = self.columns
        values = [literal(value, self.dialect) for value in key]
        condition: _Condition
        if len(columns) == 1:
            condition = last(columns[0], values[0])
        elif self.dialect.compares_rows:
            condition = last(sa.tuple_(*columns), sa.tuple_(*values))
        else:
            nested = _nest(list(zip(columns, values, strict=True)), strict, last)
            condition = sa.and_(loose(columns[0], values[0]), nested)
        return condition


def _nest(pairs: Sequence[tuple[object, Any]], strict: _Compare, last: _Compare) -> _Condition:
    """Return `a > 1 OR (a = 1 AND (b > 2 OR …))`."""
    (column, value), *others = pairs
    if not others:
        return last(column, value)
    return sa.or_(strict(column, value), sa.and_(column == value, _nest(others, strict, last)))


def literal(value: object, dialect: Dialect) -> Expression:
    """Return a value as a parameter; raise ConfigError as `write_key` does."""
    _key_json(value)
    return sa.literal(dialect.bound(value), NullType())


@dataclass(frozen=True, kw_only=True)
class TableQuery:
    """The rows of a mapping in their database.

    `columns` are those that the mapping uses, in the order of the table. `key` are the names of the
    columns that order the rows. `where` restricts the rows.
    """

    mapping: RowMapping
    session: Session
    selectable: sa.FromClause
    columns: tuple[ResultColumn, ...]
    key: tuple[str, ...]
    has_unique_key: bool = False
    where: tuple[_Condition, ...] = ()

    @property
    def index(self) -> ColumnIndex:
        return ColumnIndex([column.name for column in self.columns], self.key)

    @property
    def key_columns(self) -> list[Expression]:
        return [self.column(name) for name in self.key]

    @property
    def order(self) -> KeyOrder:
        return KeyOrder(self.key_columns, self.session.dialect)

    @property
    def has_key(self) -> _Condition:
        """The condition of rows without NULL in the key."""
        return sa.and_(*(column.is_not(None) for column in self.key_columns))

    def column(self, name: str) -> Expression:
        """Return a column without a type, so that its values are not converted."""
        column: Expression = self.selectable.c[name]
        return column

    def select(self, *values: Expression) -> Select:
        """Return the statement of all rows without NULL in the key, in the order of their keys."""
        return sa.select(*values).where(*self.where, self.has_key).order_by(*self.key_columns)

    def filtered(self, row_filter: RowFilter) -> "TableQuery":
        """Return the rows that pass a filter."""
        conditions: list[_Condition] = []
        dialect = self.session.dialect
        if row_filter.timestamp:
            column = self.timestamp_column(row_filter.timestamp)
            if row_filter.is_null:
                conditions.append(column.is_(None))
            if row_filter.above is not None:
                conditions.append(column > literal(row_filter.above.value(), dialect))
            if row_filter.upto is not None:
                conditions.append(column <= literal(row_filter.upto.value(), dialect))
        if row_filter.keys:
            conditions.append(self.has_one_of(list(map(read_key, row_filter.keys))))
        return replace(self, where=(*self.where, *conditions))

    def timestamp_column(self, name: str) -> Expression:
        index = self.index
        return self.column(index.names[index.at(TIMESTAMP, name)])

    def read_keys(self) -> Iterator[Key]:
        """Yield the keys of all rows in order, without those with NULL."""
        with self.readable_keys():
            statement = self.select(*self.key_columns)
            yield from self.session.stream(statement, where=self.mapping.rows_name)

    def read_null_keys(self) -> Iterator[Key]:
        """Yield the keys with NULL."""
        statement = sa.select(*self.key_columns).where(*self.where, sa.not_(self.has_key))
        with self.readable_keys():
            yield from self.session.stream(statement, where=self.mapping.rows_name)

    @contextmanager
    def readable_keys(self) -> Iterator[None]:
        """Raise ConfigError for a key that cannot be read: without it, no row has a place."""
        try:
            yield
        except UnreadableValueError as exc:
            raise ConfigError(
                f"key: {', '.join(self.key)} of {self.mapping.rows_name}: {exc.reason}; expected"
                " values that can be read: another column, or a query that casts it, such as"
                f" SELECT CAST({self.key[0]} AS text) AS {self.key[0]}, …"
            ) from None

    def run(
        self, statement: sa.Executable, *, where: str = "", is_retried: bool = False
    ) -> list[Any]:
        """Return tuples of the driver's cursor: SQLAlchemy's rows take as long as all other work.

        Raise the errors of `Session.run`.
        """
        call = partial(fetch_all, statement)
        return self.session.run(call, where=where or self.mapping.rows_name, is_retried=is_retried)

    def check_unique_key(self) -> None:
        """Raise ConfigError if two rows have the same key; not checked for the primary key.

        The database compares the keys, by its collation.
        """
        if self.has_unique_key:
            return
        count = sa.func.count()
        keys = sa.select(*self.key_columns, count).where(*self.where, self.has_key)
        duplicates = keys.group_by(*self.key_columns).having(count > 1).limit(1)
        with self.readable_keys():
            rows = self.run(duplicates)
        for *key, number in rows:
            values = ", ".join(map("{}={!r}".format, self.key, key))
            raise ConfigError(
                f"key: {number} rows of {self.mapping.rows_name} have {values}; expected columns "
                "that are unique for each row"
            )

    def has_one_of(self, keys: Sequence[Key]) -> _Condition:
        bound = self.session.dialect.bound
        values = [tuple(map(bound, key)) for key in keys]
        if len(self.key) == 1:
            return self.key_columns[0].in_([value for (value,) in values])
        row: Any = sa.tuple_(*self.key_columns, types=[NullType() for _ in self.key])
        condition: _Condition = row.in_(values)
        return condition


def fetch_all(statement: sa.Executable, connection: sa.Connection, *, step: int = 1) -> list[Any]:
    """Return all rows, or each row whose number is a multiple of `step`."""
    with closing(connection.execute(statement)) as result:
        cursor: Any = result.cursor
        rows = cursor.fetchall() if step == 1 else islice(cursor, step - 1, None, step)
        return list(map(tuple, rows))


def fetch_limited(statement: sa.Executable, connection: sa.Connection) -> list[Any]:
    """Return all rows from SQLite, which refuses values of more than INLINE_BYTES."""
    driver: Any = connection.connection.driver_connection
    before = driver.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, INLINE_BYTES)
    try:
        return fetch_all(statement, connection)
    finally:
        driver.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, before)


def open_table(mapping: RowMapping) -> TableQuery:
    """Return the rows of a mapping; raise ConfigError for missing tables and columns.

    Whether the key is unique is not checked here: see `TableQuery.check_unique_key`.
    """
    with closing(Session(mapping)) as session:
        primary: list[str] = []
        if mapping.table is not None:
            read_primary_key = partial(_read_primary_key, mapping)
            primary = session.run(read_primary_key, where=mapping.rows_name)
        columns = session.describe(_selectable(mapping, ()), where=mapping.rows_name)
    index = ColumnIndex([column.name for column in columns])
    key = tuple(index.names[index.at("key", name)] for name in mapping.key) or tuple(primary)
    if not key:
        raise ConfigError(
            f"key: missing, and {mapping.rows_name} has no primary key; expected key: [COLUMN]"
        )
    for column in columns:
        if column.name in key and not column.is_ordered:
            raise ConfigError(
                f"key: {column.name!r} has the type {column.type_name}, whose values cannot be "
                "compared in the order of ORDER BY; expected another column, or a query that casts"
                " it to a text"
            )
    used = used_columns(mapping, ColumnIndex(index.names, key))
    return TableQuery(
        mapping=mapping,
        session=session,
        selectable=_selectable(mapping, index.names),
        columns=tuple(column for at, column in enumerate(columns) if at in used),
        key=key,
        has_unique_key=bool(primary) and set(primary) <= set(key),
    )


def _read_primary_key(mapping: RowMapping, connection: sa.Connection) -> list[str]:
    inspector, table = sa.inspect(connection), mapping.table or ""
    if not inspector.has_table(table, mapping.schema):
        raise ConfigError(f"table: {table!r}; expected a table or view; feedferry init lists them")
    with warnings.catch_warnings(action="ignore", category=sa.exc.SAWarning):  # unknown types
        return inspector.get_pk_constraint(table, mapping.schema)["constrained_columns"]


def subquery(sql: str, names: Sequence[str], alias: str) -> sa.FromClause:
    """Return a user's query as a subquery; a colon in it is not a parameter."""
    text = sql.replace(":", "\\:") + "\n"  # it can end in a comment
    return sa.text(text).columns(*_untyped(names)).subquery(alias)


def _selectable(mapping: RowMapping, names: Sequence[str]) -> sa.FromClause:
    if mapping.table is None:
        return subquery(mapping.query or "", names, _ALIAS)
    return sa.table(mapping.table, *_untyped(names), schema=mapping.schema)


def _untyped(names: Sequence[str]) -> list[sa.ColumnClause[object]]:
    return [sa.column(name, NullType()) for name in names]
