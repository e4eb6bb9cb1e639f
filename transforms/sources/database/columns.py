"""What is known of the columns of a table or query: their types, as the database names them."""

from collections.abc import Iterator
from typing import Any

import msgspec
import sqlalchemy as sa
from pymysql.constants import (  # type: ignore[import-untyped]  # it has no types
    FIELD_TYPE,
    FLAG,
)

from schemas.errors import ConfigError

INLINE_BYTES = 1 << 16
"""The most bytes of a value that is read with its row; a larger one is read by itself."""

_POSTGRESQL_TEXTS = frozenset({"text", "citext", "xml", "json", "jsonb", "bytea"})
_POSTGRESQL_DOCUMENTS = _POSTGRESQL_TEXTS | {"varchar", "bpchar", "name", "unknown"}
_POSTGRESQL_MARKUP = frozenset({"xml", "json", "jsonb"})
_MYSQL_NAMES: dict[int, str] = {
    code: name for name, code in vars(FIELD_TYPE).items() if isinstance(code, int)
}
_MYSQL_TEXTS = frozenset(
    {
        *(FIELD_TYPE.VARCHAR, FIELD_TYPE.VAR_STRING, FIELD_TYPE.STRING, FIELD_TYPE.JSON),
        *(FIELD_TYPE.TINY_BLOB, FIELD_TYPE.BLOB, FIELD_TYPE.MEDIUM_BLOB, FIELD_TYPE.LONG_BLOB),
    }
)
_MYSQL_BYTES_OF_A_CHARACTER = 4


class Column(msgspec.Struct, frozen=True):
    """A column: `type_name` in the words of the database, empty where it does not say.

    One that is unbounded may hold values of more than INLINE_BYTES; one that is `ordered` is told
    from others by `>` in the same order that ORDER BY gives.
    """

    name: str
    type_name: str = ""
    is_unbounded: bool = False
    is_document: bool = True
    is_ordered: bool = True


def describe(connection: sa.Connection, selectable: sa.FromClause) -> tuple[Column, ...]:
    """Return the columns of a table or query, in its order, without reading any row."""
    nothing = sa.select(sa.text("*")).select_from(selectable).where(sa.text("1=0"))
    result = connection.execute(nothing)
    cursor: Any = result.cursor
    columns = tuple(_describers(connection)(cursor))
    result.close()
    _check_apart([column.name for column in columns])
    return columns


def sliceable(value: sa.ColumnElement[Any], column: Column) -> sa.ColumnElement[Any]:
    """Return a value as an expression whose parts can be asked for."""
    return sa.cast(value, sa.Text) if column.type_name in _POSTGRESQL_MARKUP else value


def octets(
    value: sa.ColumnElement[Any], column: Column, dialect: sa.Dialect
) -> sa.ColumnElement[int]:
    """Return how many bytes a value has, by an expression that reads not all of it if it can."""
    if dialect.name == "sqlite":
        blob = sa.func.length(sa.cast(value, sa.LargeBinary))
        return sa.case((sa.func.typeof(value) == "blob", sa.func.length(value)), else_=blob)
    return sa.func.octet_length(sliceable(value, column), type_=sa.Integer)


def _describers(connection: sa.Connection) -> Any:
    name = connection.dialect.name
    if name == "postgresql" and connection.dialect.driver == "psycopg":
        return lambda cursor: _of_postgresql(cursor, connection)
    if name in ("mariadb", "mysql"):
        return _of_mysql
    if name == "sqlite":
        return _of_sqlite
    return lambda cursor: (Column(said[0]) for said in cursor.description)


def _of_postgresql(cursor: Any, connection: sa.Connection) -> Iterator[Column]:
    known = cursor.adapters.types
    for said in cursor.description:
        name = said.type_display
        if known.get(said.type_code) is None:
            name = connection.scalar(sa.select(sa.func.format_type(said.type_code, None)))
        base = name.partition("(")[0]
        yield Column(
            said.name,
            name,
            is_unbounded=name in _POSTGRESQL_TEXTS or name == "varchar",
            is_document=base in _POSTGRESQL_DOCUMENTS,
        )


def _of_mysql(cursor: Any) -> Iterator[Column]:
    for at, said in enumerate(cursor.description):
        code, length = said[1], said[3] or 0
        name = _mysql_name(cursor, at, code)
        is_text = code in _MYSQL_TEXTS
        yield Column(
            said[0],
            name,
            is_unbounded=is_text and length > INLINE_BYTES * _MYSQL_BYTES_OF_A_CHARACTER,
            is_document=is_text,
            is_ordered=name not in ("BIT", "ENUM", "SET", "FLOAT", "GEOMETRY"),
        )


def _mysql_name(cursor: Any, at: int, code: int) -> str:
    """An enum and a set are sent as texts; only their flags tell."""
    fields = getattr(getattr(cursor, "_result", None), "fields", ())
    flags = fields[at].flags if at < len(fields) else 0
    if flags & FLAG.ENUM:
        return "ENUM"
    return "SET" if flags & FLAG.SET else _MYSQL_NAMES.get(code, str(code))


def _of_sqlite(cursor: Any) -> Iterator[Column]:
    """Any column may hold anything."""
    for said in cursor.description:
        yield Column(said[0], is_unbounded=True)


def _check_apart(names: list[str]) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(
            f"query: {names.count(twice)} columns are called {twice!r}; expected a name of its own "
            "for each, as AS gives one"
        )
