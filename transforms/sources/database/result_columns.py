"""Describe the result columns of a table or query: their types, as the database names them."""

from collections.abc import Iterator
from typing import Any

import msgspec
import sqlalchemy as sa
from pymysql.constants import (  # type: ignore[import-untyped]  # it has no types
    FIELD_TYPE,
    FLAG,
)

from schemas.errors import ConfigError

Expression = sa.ColumnElement[Any]  # Any: values are not converted, so types do not matter
Select = sa.Select[Any]

INLINE_BYTES = 1 << 16
"""The size up to which a value is read with its row; a larger value is read alone."""

_POSTGRESQL_LARGE = frozenset({"text", "varchar", "bytea"})
_POSTGRESQL_MARKUP = frozenset({"xml", "json", "jsonb"})
_MYSQL_NAMES: dict[int, str] = {
    code: name for name, code in vars(FIELD_TYPE).items() if isinstance(code, int)
}
_MYSQL_LARGE = frozenset(
    {
        *(FIELD_TYPE.VARCHAR, FIELD_TYPE.VAR_STRING, FIELD_TYPE.STRING, FIELD_TYPE.JSON),
        *(FIELD_TYPE.TINY_BLOB, FIELD_TYPE.BLOB, FIELD_TYPE.MEDIUM_BLOB, FIELD_TYPE.LONG_BLOB),
    }
)
_MYSQL_UNORDERED = frozenset({"BIT", "ENUM", "SET", "FLOAT", "GEOMETRY"})
_MYSQL_BYTES_PER_CHARACTER = 4


class ResultColumn(msgspec.Struct, frozen=True):
    """A column; `type_name` is empty if the database does not state it.

    `is_large` columns can hold values of more than INLINE_BYTES. `is_ordered` columns have the same
    order in `>` and in ORDER BY.
    """

    name: str
    type_name: str = ""
    is_large: bool = False
    is_ordered: bool = True


def describe(connection: sa.Connection, selectable: sa.FromClause) -> tuple[ResultColumn, ...]:
    """Return the columns of a table or query in order, without reading a row."""
    no_rows = sa.select(sa.text("*")).select_from(selectable).where(sa.text("1=0"))
    result = connection.execute(no_rows)
    cursor: Any = result.cursor
    columns = tuple(_read_description(connection, cursor))
    result.close()
    names = [column.name for column in columns]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(
                f"query: {names.count(name)} columns are called {name!r}; expected different "
                "names, as AS gives them"
            )
    return columns


def size_in_bytes(
    value: Expression, column: ResultColumn, dialect: sa.Dialect
) -> sa.ColumnElement[int]:
    """Return the expression of the size of a value."""
    if dialect.name == "sqlite":
        blob = sa.func.length(sa.cast(value, sa.LargeBinary))
        return sa.case((sa.func.typeof(value) == "blob", sa.func.length(value)), else_=blob)
    if dialect.name == "postgresql" and column.type_name not in _POSTGRESQL_LARGE:
        value = sa.cast(value, sa.Text)
    return sa.func.octet_length(value, type_=sa.Integer)


def _read_description(connection: sa.Connection, cursor: Any) -> Iterator[ResultColumn]:
    dialect = connection.dialect
    for at, column in enumerate(cursor.description):
        if dialect.name == "postgresql" and dialect.driver == "psycopg":
            name = column.type_display
            is_unknown = cursor.adapters.types.get(column.type_code) is None  # citext, an enum
            is_large = name in _POSTGRESQL_LARGE or name in _POSTGRESQL_MARKUP or is_unknown
            yield ResultColumn(column.name, name, is_large=is_large)
        elif dialect.name in ("mariadb", "mysql"):
            name, length = _mysql_type(cursor, at, column[1]), column[3] or 0
            is_long = length > INLINE_BYTES * _MYSQL_BYTES_PER_CHARACTER
            yield ResultColumn(
                column[0],
                name,
                is_large=column[1] in _MYSQL_LARGE and is_long,
                is_ordered=name not in _MYSQL_UNORDERED,
            )
        else:  # any column of SQLite can hold any value
            yield ResultColumn(column[0], is_large=dialect.name == "sqlite")


def _mysql_type(cursor: Any, at: int, code: int) -> str:
    """Return the type; an enum and a set are sent as texts, with a flag."""
    fields = getattr(getattr(cursor, "_result", None), "fields", ())
    flags = fields[at].flags if at < len(fields) else 0
    if flags & FLAG.ENUM:
        return "ENUM"
    return "SET" if flags & FLAG.SET else _MYSQL_NAMES.get(code, str(code))
