"""What differs between databases: drivers, sessions, types, sizes, orders and clocks.

A `Dialect` states it in one place, and the rest of the package compares no names of databases.
PostgreSQL, MariaDB, MySQL and SQLite are tested. Other dialects of SQLAlchemy are used as their URL
states.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import msgspec
import pymysql  # type: ignore[import-untyped]  # it has no types
import sqlalchemy as sa
from pymysql.constants import (  # type: ignore[import-untyped]  # it has no types
    FIELD_TYPE,
    FLAG,
)
from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor, DBAPIModule

Expression = sa.ColumnElement[Any]  # Any: values are not converted, so types do not matter

INLINE_BYTES = 1 << 16
"""The size up to which a value is read with its page; a row with a larger value is read alone."""

CONNECT_SECONDS = 10


class ResultColumn(msgspec.Struct, frozen=True):
    """A column; `type_name` is empty if the database does not state it.

    `is_large` columns can hold values of more than INLINE_BYTES. `is_ordered` columns have the same
    order in `>` and in ORDER BY.
    """

    name: str
    type_name: str = ""
    is_large: bool = False
    is_ordered: bool = True


class Dialect:
    """A database that is not tested: SQL that most databases have."""

    drivername: str | None = None
    """The driver that sessions and types depend on; None means any."""

    arguments: Mapping[str, object] = {}  # each driver has its own
    """The arguments of connections."""

    compares_rows = False
    """Whether an index is used for `(a, b) > (1, 2)`; MariaDB reads all rows for it."""

    is_remote = True
    """Whether reading waits for a server, so that a thread can do other work."""

    limits_values = False
    """Whether its driver refuses large values, so that no statement asks for their sizes."""

    clock: Expression = sa.func.now()
    """The present time, in UTC unless it has a zone."""

    zone_query = ""
    """Selects the time zone of the server, which is not that of the session."""

    def start(self, connection: DBAPIConnection, _record: object) -> None:
        """Prepare a new connection."""

    def read_odd_dates(self, connection: Any) -> None:  # Any: a driver's connection
        """Read dates that Python cannot hold as text; all dates take more time then."""

    def columns(self, cursor: DBAPICursor) -> Iterator[ResultColumn]:
        """Yield the columns of a result."""
        return (ResultColumn(column[0]) for column in cursor.description)

    def size(self, value: Expression, column: ResultColumn) -> Expression:
        """Return the expression of the size of a value in bytes."""
        return sa.func.octet_length(value, type_=sa.Integer)

    def bound(self, value: object) -> object:
        """Return a value as a parameter that compares exactly with a column of its type."""
        return value

    def is_sql_error(self, cause: Exception, dbapi: DBAPIModule) -> bool:
        """Whether the user has to correct a query."""
        return isinstance(cause, dbapi.ProgrammingError | dbapi.NotSupportedError)


class PostgreSql(Dialect):
    """PostgreSQL by psycopg 3, read-only and in UTC."""

    drivername = "postgresql+psycopg"
    arguments = {  # noqa: RUF012 # never changed
        "connect_timeout": CONNECT_SECONDS,
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "prepare_threshold": None,  # a plan for the actual keys is faster than a generic one
    }
    compares_rows = True
    zone_query = "SELECT reset_val FROM pg_settings WHERE name = 'TimeZone'"
    _START = (
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY; SET TimeZone TO 'UTC'; "
        "SET DateStyle TO 'ISO'; SET IntervalStyle TO 'postgres'"
    )
    _TEXTS = (
        *("json", "jsonb", "inet", "cidr", "interval"),
        *("int4range", "int8range", "numrange", "daterange", "tsrange", "tstzrange"),
        *("int4multirange", "int8multirange", "nummultirange"),
        *("datemultirange", "tsmultirange", "tstzmultirange"),
    )
    _KEYS = (
        *("int2", "int4", "int8", "oid", "numeric", "float4", "float8", "bool", "uuid"),
        *("text", "varchar", "bpchar", "char", "name", "bytea", "date", "timestamp", "timestamptz"),
    )
    """Types whose values compare with a parameter in the order of ORDER BY."""
    _ENUM_NAME = "SELECT typname FROM pg_type WHERE oid = %s AND typtype = 'e'"
    _DATES = ("date", "time", "timetz", "timestamp", "timestamptz")
    _LARGE = frozenset({"text", "varchar", "bytea", "xml", "json", "jsonb"})
    _PERMISSION_DENIED = "42501"

    def start(self, connection: DBAPIConnection, _record: object) -> None:
        """Read some types as the database writes them: of JSON, Python would lose digits."""
        # A driver that SQLite does not need; it takes 8 MB.
        from psycopg.types.string import TextLoader  # noqa: PLC0415

        from feedferry.transforms.sources.database.connection.page_cursor import PageCursor  # noqa: PLC0415

        for name in self._TEXTS:
            connection.adapters.register_loader(name, TextLoader)
        with closing(connection.cursor()) as cursor:
            cursor.execute(self._START)
        connection.commit()
        connection.cursor_factory = PageCursor

    def read_odd_dates(self, connection: Any) -> None:
        from feedferry.transforms.sources.database.connection.page_cursor import OddDateLoader  # noqa: PLC0415

        for name in self._DATES:
            connection.adapters.register_loader(name, OddDateLoader)

    def columns(self, cursor: Any) -> Iterator[ResultColumn]:  # Any: a cursor of psycopg
        for column in cursor.description:
            name = column.type_display
            is_unknown = cursor.adapters.types.get(column.type_code) is None  # citext, an enum
            is_ordered = name.partition("(")[0] in self._KEYS and not name.endswith("[]")
            if is_unknown:
                with cursor.connection.cursor() as types:
                    types.execute(self._ENUM_NAME, [column.type_code])
                    enum = types.fetchone()
                is_ordered, name = enum is None, enum[0] if enum else name
            is_large = name in self._LARGE or is_unknown
            yield ResultColumn(column.name, name, is_large, is_ordered)

    def size(self, value: Expression, column: ResultColumn) -> Expression:
        if column.type_name != "bytea":
            value = sa.cast(value, sa.Text)
        return sa.func.octet_length(value, type_=sa.Integer)

    def is_sql_error(self, cause: Exception, dbapi: DBAPIModule) -> bool:
        if getattr(cause, "sqlstate", None) == self._PERMISSION_DENIED:
            return False
        return super().is_sql_error(cause, dbapi)


def _utc_timestamp(text: str) -> object:
    """Return a TIMESTAMP as an aware time: the session is in UTC."""
    value = pymysql.converters.convert_datetime(text)
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value


class MySql(Dialect):
    """MariaDB and MySQL by PyMySQL, read-only and in UTC."""

    arguments = {  # noqa: RUF012 # never changed
        "connect_timeout": CONNECT_SECONDS,
        "conv": pymysql.converters.conversions
        | {FIELD_TYPE.TIMESTAMP: _utc_timestamp, FIELD_TYPE.TIME: str},
    }
    clock = sa.func.utc_timestamp()
    zone_query = "SELECT REPLACE(@@global.time_zone, 'SYSTEM', @@system_time_zone)"
    _START = ("SET SESSION TRANSACTION READ ONLY", "SET time_zone = '+00:00'")
    _NAMES: Mapping[object, str] = {
        code: name for name, code in vars(FIELD_TYPE).items() if isinstance(code, int)
    }
    _UNORDERED = frozenset({"BIT", "ENUM", "SET", "FLOAT", "GEOMETRY"})
    _BYTES_PER_CHARACTER = 4
    _COLUMN_ERRORS = ((1054,), (1060,))  # an unknown column, two of one name

    def __init__(self, drivername: str) -> None:
        self.drivername = drivername

    def start(self, connection: DBAPIConnection, _record: object) -> None:
        with closing(connection.cursor()) as cursor:
            for statement in self._START:
                cursor.execute(statement)

    def columns(self, cursor: DBAPICursor) -> Iterator[ResultColumn]:
        fields = getattr(getattr(cursor, "_result", None), "fields", ())
        for at, (label, code, _, length, *_) in enumerate(cursor.description):
            flags = fields[at].flags if at < len(fields) else 0
            name = self._NAMES.get(code, str(code))
            if flags & (FLAG.ENUM | FLAG.SET):  # sent as texts
                name = "ENUM" if flags & FLAG.ENUM else "SET"
            is_large = (length or 0) > INLINE_BYTES * self._BYTES_PER_CHARACTER
            yield ResultColumn(label, name, is_large, name not in self._UNORDERED)

    def bound(self, value: object) -> object:
        if isinstance(value, datetime) and value.tzinfo:
            return value.astimezone(UTC).replace(tzinfo=None)  # the zone of the session
        return value

    def is_sql_error(self, cause: Exception, dbapi: DBAPIModule) -> bool:
        return cause.args[:1] in self._COLUMN_ERRORS or super().is_sql_error(cause, dbapi)


class Sqlite(Dialect):
    """SQLite; any column can hold any value."""

    compares_rows = True
    is_remote = False
    limits_values = True
    _SQL_ERROR = 1

    def columns(self, cursor: DBAPICursor) -> Iterator[ResultColumn]:
        return (ResultColumn(column[0], is_large=True) for column in cursor.description)

    def size(self, value: Expression, column: ResultColumn) -> Expression:
        """Return a size for which the values of BLOBs are not read."""
        text = sa.func.length(sa.cast(value, sa.LargeBinary))
        return sa.case((sa.func.typeof(value) == "blob", sa.func.length(value)), else_=text)

    def is_sql_error(self, cause: Exception, dbapi: DBAPIModule) -> bool:
        code = getattr(cause, "sqlite_errorcode", None)
        return code == self._SQL_ERROR or super().is_sql_error(cause, dbapi)


_DIALECTS: Mapping[str, Dialect] = {
    "postgres": PostgreSql(),
    "postgresql": PostgreSql(),
    "mariadb": MySql("mariadb+pymysql"),
    "mysql": MySql("mysql+pymysql"),
    "sqlite": Sqlite(),
}
_OTHER = Dialect()


def dialect_of(name: str) -> Dialect:
    """Return the dialect of a database by the name that URLs and SQLAlchemy have for it."""
    return _DIALECTS.get(name.partition("+")[0], _OTHER)
