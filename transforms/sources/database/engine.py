"""How each database is connected to: read-only, in UTC, and with no value that only it can tell.

PostgreSQL, MariaDB, MySQL and SQLite are known; any other that SQLAlchemy has a dialect for is
connected to as its url says. What is asked of a database here is asked of each connection once.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import psycopg
import pymysql  # type: ignore[import-untyped]  # it has no types
import sqlalchemy as sa
from psycopg.adapt import Buffer, Loader
from psycopg.types.string import TextLoader
from pymysql.constants import FIELD_TYPE  # type: ignore[import-untyped]  # it has no types
from sqlalchemy.pool import NullPool

from schemas.errors import ConfigError
from transforms.sources.database.keys import TornText
from transforms.sources.database.mapping import Mapping
from transforms.sources.programs.redact import Mask
from transforms.sources.secrets import REFERENCE, resolve, secrets_in

CONNECT_SECONDS = 10

_DRIVERS = {
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "mariadb": "mariadb+pymysql",
    "mysql": "mysql+pymysql",
}
_PACKAGES = {"MySQLdb": "mysqlclient", "cx_Oracle": "cx-Oracle", "mysql": "mysql-connector-python"}
_SECRET_WORDS = ("pass", "pwd", "secret", "token", "key")
_POSTGRESQL_DATES = ("date", "timestamp", "timestamptz", "time", "timetz", "interval")
_POSTGRESQL_STARTS = (
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
    "SET TimeZone TO 'UTC'",
    "SET DateStyle TO 'ISO'",
    "SET IntervalStyle TO 'postgres'",
)
_MYSQL_STARTS = ("SET SESSION TRANSACTION READ ONLY", "SET time_zone = '+00:00'")


def url_of(mapping: Mapping) -> sa.URL:
    """Return the url that a mapping connects to, secrets and all; raise ConfigError if it is none.

    A secret that is a part of the url is taken as it is; one that is all of it is a url itself.
    """
    said = mapping.connection
    text = resolve(said) if REFERENCE.fullmatch(said) else _resolve_parts(said)
    try:
        url = sa.make_url(text)
    except (sa.exc.ArgumentError, ValueError):
        raise ConfigError(
            "connection: no url; expected one such as postgresql://user:${env:PASSWORD}@host/name"
        ) from None
    if "+" not in url.drivername:
        url = url.set(drivername=_DRIVERS.get(url.drivername, url.drivername))
    return _read_only(url, mapping) if url.get_backend_name() == "sqlite" else url


def mask_of(mapping: Mapping) -> Mask:
    """Return what hides the secrets of a mapping."""
    url = url_of(mapping)
    return Mask((*secrets_in([mapping.connection]), *_passwords(url)))


def place_of(mapping: Mapping) -> str:
    """Return where a mapping connects to, so that it may be shown."""
    url = url_of(mapping)
    if url.get_backend_name() == "sqlite":
        return f"sqlite:///{(url.database or '').removeprefix('file:')}"
    port = f":{url.port}" if url.port else ""
    shown = f"{url.get_backend_name()}://{url.host or ''}{port}/{url.database or ''}"
    return mask_of(mapping).text(shown)


def new_engine(url: sa.URL) -> sa.Engine:
    """Return an engine that keeps no connection open; raise ConfigError if it lacks its driver."""
    try:
        arguments = _ARGUMENTS.get(url.drivername, {})
        engine = sa.create_engine(url, poolclass=NullPool, connect_args=arguments)
    except sa.exc.NoSuchModuleError:
        raise ConfigError(
            f"connection: {url.drivername!r}; expected a database that SQLAlchemy knows, such as "
            "postgresql, mariadb, mysql or sqlite"
        ) from None
    except ImportError as exc:
        missing = _PACKAGES.get(exc.name or "", exc.name)
        raise ConfigError(
            f"connection: {url.drivername!r} needs the Python package {missing!r}, which is not "
            "installed; expected it, or another driver"
        ) from None
    start = _STARTS.get(url.get_backend_name())
    if start is not None:
        sa.event.listen(engine, "connect", start)
    return engine


def hurry(connection: sa.Connection) -> None:
    """Let a connection raise an error for a value that would be a text instead: that is faster."""
    driver: Any = connection.connection.driver_connection
    if connection.dialect.name == "sqlite":
        driver.text_factory = str
    elif connection.dialect.driver == "psycopg":
        for name in _POSTGRESQL_DATES:
            driver.adapters.register_loader(name, _exact_loader(driver.adapters.types[name].oid))


def _resolve_parts(said: str) -> str:
    """Percent-encode what stands for a user, a password or an option, and nothing else."""
    address, question, options = said.partition("?")
    login, at, place = address.rpartition("@")
    return _resolve_quoted(login) + at + resolve(place) + question + _resolve_quoted(options)


def _resolve_quoted(text: str) -> str:
    return REFERENCE.sub(lambda match: quote(resolve(match[0]), safe=""), text)


def _passwords(url: sa.URL) -> list[str]:
    options = {key: value for key, value in url.query.items() if isinstance(value, str)}
    secret = [
        value
        for key, value in options.items()
        if any(word in key.lower() for word in _SECRET_WORDS)
    ]
    return [str(url.password), *secret] if url.password else secret


def _read_only(url: sa.URL, mapping: Mapping) -> sa.URL:
    """Return the url of a file that SQLite does not make, if it is not there, nor change."""
    if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
        return url
    path = Path(mapping.folder) / url.database
    query = {**url.query, "mode": "ro", "uri": "true"}
    return url.set(database=f"file:{quote(str(path))}", query=query)


class _Lenient(Loader):
    """Gives a date as text where Python has none for it, as for `infinity` and years BC."""

    def __init__(self, oid: int, context: Any = None) -> None:
        super().__init__(oid, context)
        self._exact = _exact_loader(oid)(oid, context)

    def load(self, data: Buffer) -> Any:
        try:
            return self._exact.load(data)
        except psycopg.DataError:
            return bytes(data).decode()


def _exact_loader(oid: int) -> type[Loader]:
    found = psycopg.adapters.get_loader(oid, psycopg.pq.Format.TEXT)
    return cast("type[Loader]", found or TextLoader)


def _start_postgresql(connection: Any, _record: object) -> None:
    """JSON stays the text that it is: Python would lose digits of its numbers."""
    for name in _POSTGRESQL_DATES:
        connection.adapters.register_loader(name, _Lenient)
    for name in ("json", "jsonb"):
        connection.adapters.register_loader(name, TextLoader)
    with connection.cursor() as cursor:
        cursor.execute("; ".join(_POSTGRESQL_STARTS))
    connection.commit()


def _start_mysql(connection: Any, _record: object) -> None:
    with connection.cursor() as cursor:
        for statement in _MYSQL_STARTS:
            cursor.execute(statement)


def _start_sqlite(connection: Any, _record: object) -> None:
    connection.text_factory = _text_or_bytes


def _text_or_bytes(stored: bytes) -> str | bytes:
    """SQLite keeps as text whatever it was told is text."""
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return TornText(stored)


def _instant(text: str) -> datetime | str:
    """A TIMESTAMP of MariaDB is a time in UTC, as that is the zone of the session."""
    found = _naive(text)
    return found.replace(tzinfo=UTC) if isinstance(found, datetime) else text


_naive: Callable[[str], object] = pymysql.converters.convert_datetime

# Last, for they name what stands above.
_STARTS = {
    "postgresql": _start_postgresql,
    "mariadb": _start_mysql,
    "mysql": _start_mysql,
    "sqlite": _start_sqlite,
}
_PSYCOPG = {
    "connect_timeout": CONNECT_SECONDS,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "prepare_threshold": None,  # a plan that knows the keys beats one that was made before
}
_PYMYSQL = {
    "connect_timeout": CONNECT_SECONDS,
    "conv": pymysql.converters.conversions | {FIELD_TYPE.TIMESTAMP: _instant},
}
_ARGUMENTS: dict[str, dict[str, Any]] = {
    "postgresql+psycopg": _PSYCOPG,
    "mariadb+pymysql": _PYMYSQL,
    "mysql+pymysql": _PYMYSQL,
}
