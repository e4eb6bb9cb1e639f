"""Connect to databases, by a URL with references in place of secrets.

Sessions of PostgreSQL, MariaDB and MySQL are read-only and in UTC. Files of SQLite are opened
read-only, unless the URL begins with `sqlite:///file:`. Other dialects of SQLAlchemy are not
tested; they are used as their URL states.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pymysql  # type: ignore[import-untyped]  # it has no types
import sqlalchemy as sa
from psycopg.types.string import TextLoader
from pymysql.constants import FIELD_TYPE  # type: ignore[import-untyped]  # it has no types
from sqlalchemy.pool import NullPool

from schemas.errors import ConfigError
from transforms.sources.database.mapping import RowMapping
from transforms.sources.programs.redact import Mask
from transforms.sources.secrets import REFERENCE, resolve, secrets_in

CONNECT_SECONDS = 10
PASSWORD_REFERENCE = "${env:DATABASE_PASSWORD}"
"""Replaces a password in a file that is written for a user."""

_SECRET_OPTION = re.compile("pass|pwd|secret|token|api_?key", re.IGNORECASE)
_PLACEHOLDER = "90071992547409910"
"""Replaces a reference while a URL is parsed: digits, since it can be the port."""
_EXAMPLE = (
    "such as sqlite:///people.db or postgresql://reader:${env:PASSWORD}@db.example.com/people"
)
_DRIVERS = {  # the statements and the types of a session depend on the driver
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "mariadb": "mariadb+pymysql",
    "mysql": "mysql+pymysql",
}
_POSTGRESQL_START = (
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY; SET TimeZone TO 'UTC'; "
    "SET DateStyle TO 'ISO'; SET IntervalStyle TO 'postgres'"
)
_MYSQL_START = ("SET SESSION TRANSACTION READ ONLY", "SET time_zone = '+00:00'")


def check_connection(value: object) -> str:
    """Return the URL of a database; raise ValueError, which does not show it, for a secret in it.

    The whole URL can be one reference.
    """
    if not isinstance(value, str):
        raise ValueError(f"{type(value).__name__}; expected the URL of a database, {_EXAMPLE}")
    if REFERENCE.fullmatch(value):
        return value
    if "${" in REFERENCE.sub("", value):
        raise ValueError("an unknown ${ reference; expected ${env:NAME} or ${file:PATH}")
    url = _parse_url(value)
    if any(_is_plain(secret) for secret in _secrets(url).values()):
        raise ValueError("a password in plain text; expected ${env:NAME} or ${file:PATH} instead")
    return value


def hide_password(connection: str) -> str:
    """Return the URL of a database with a reference in place of each password in plain text."""
    url = _parse_url(connection)
    plain = {name: _PLACEHOLDER for name, value in _secrets(url).items() if _is_plain(value)}
    if not plain:
        return connection
    if plain.pop("", None):
        url = url.set(password=_PLACEHOLDER)
    hidden = url.update_query_dict(plain).render_as_string(hide_password=False)
    return hidden.replace(_PLACEHOLDER, PASSWORD_REFERENCE)


def _parse_url(text: str) -> sa.URL:
    try:
        return sa.make_url(REFERENCE.sub(_PLACEHOLDER, text))
    except (sa.exc.ArgumentError, ValueError):
        raise ValueError(f"not the URL of a database; expected one {_EXAMPLE}") from None


def _secrets(url: sa.URL) -> dict[str, str]:
    """Return secret options of a URL by name; the password has the empty name."""
    options = {name: str(value) for name, value in url.query.items() if _SECRET_OPTION.search(name)}
    return {"": str(url.password or ""), **options}


def _is_plain(secret: str) -> bool:
    return secret.replace(_PLACEHOLDER, "") != ""


def connect(mapping: RowMapping) -> sa.Engine:
    """Return an engine for the database of a mapping; it keeps no connection open.

    References are resolved here. Raise ConfigError for an unknown reference, and for a driver that
    is missing or not supported.
    """
    url = _resolve_url(mapping)
    backend = url.get_backend_name()
    driver = _DRIVERS.get(backend, url.drivername)
    if url.drivername != driver:
        raise ConfigError(
            f"connection: {url.drivername!r}; expected the driver that feedferry supports: "
            f"{driver.partition('+')[0]}:// or {driver}://"
        )
    try:
        arguments = _ARGUMENTS.get(url.drivername, {})
        engine = sa.create_engine(url, poolclass=NullPool, connect_args=arguments)
    except sa.exc.NoSuchModuleError:
        raise ConfigError(
            f"connection: {url.drivername!r}; expected a dialect of SQLAlchemy, such as "
            "postgresql, mariadb, mysql or sqlite"
        ) from None
    except ImportError as exc:
        raise ConfigError(
            f"connection: {url.drivername!r} needs the Python module {exc.name!r}; install its "
            "package, or use another driver"
        ) from None
    start = _START.get(backend)
    if start is not None:
        sa.event.listen(engine, "connect", start)
    return engine


def secrets_mask(mapping: RowMapping) -> Mask:
    """Return the mask that hides the secrets of a mapping."""
    secrets = _secrets(_resolve_url(mapping)).values()
    return Mask((*secrets_in([mapping.connection]), *secrets))


def database_name(mapping: RowMapping) -> str:
    """Return the URL of the database for messages, without login and options."""
    url = _resolve_url(mapping)
    if url.get_backend_name() == "sqlite":
        return f"sqlite:///{(url.database or '').removeprefix('file:')}"
    port = f":{url.port}" if url.port else ""
    name = f"{url.get_backend_name()}://{url.host or ''}{port}/{url.database or ''}"
    return secrets_mask(mapping).text(name)


def _resolve_url(mapping: RowMapping) -> sa.URL:
    """Return the URL with its secrets.

    A reference in a login or an option is literal text; a reference that is the whole URL is a URL.
    """
    text = mapping.connection
    if REFERENCE.fullmatch(text):
        text = resolve(text)
    else:
        address, question, options = text.partition("?")
        login, at, place = address.rpartition("@")
        text = _resolve_quoted(login) + at + resolve(place) + question + _resolve_quoted(options)
    try:
        url = sa.make_url(text)
    except (sa.exc.ArgumentError, ValueError):
        raise ConfigError(
            f"connection: not the URL of a database; expected one {_EXAMPLE}"
        ) from None
    if "+" not in url.drivername:
        url = url.set(drivername=_DRIVERS.get(url.drivername, url.drivername))
    return _read_only_file(url, mapping) if url.get_backend_name() == "sqlite" else url


def _resolve_quoted(text: str) -> str:
    return REFERENCE.sub(lambda match: quote(resolve(match[0]), safe=""), text)


def _read_only_file(url: sa.URL, mapping: RowMapping) -> sa.URL:
    """Return the URL of a file that SQLite neither creates nor changes."""
    if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
        return url
    path = Path(mapping.folder) / url.database
    query = {**url.query, "mode": "ro", "uri": "true"}
    return url.set(database=f"file:{quote(str(path))}", query=query)


def _start_postgresql(connection: Any, _record: object) -> None:  # Any: a driver's connection
    """Keep JSON as text: Python would lose digits of its numbers."""
    for name in ("json", "jsonb"):
        connection.adapters.register_loader(name, TextLoader)
    with connection.cursor() as cursor:
        cursor.execute(_POSTGRESQL_START)
    connection.commit()


def _start_mysql(connection: Any, _record: object) -> None:  # Any: a driver's connection
    with connection.cursor() as cursor:
        for statement in _MYSQL_START:
            cursor.execute(statement)


def _utc_timestamp(text: str) -> datetime | str:
    """Return a TIMESTAMP of MariaDB as an aware time: the session is in UTC."""
    value = _convert_datetime(text)
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else text


_convert_datetime: Callable[[str], object] = pymysql.converters.convert_datetime
_START = {
    "postgresql": _start_postgresql,
    "mariadb": _start_mysql,
    "mysql": _start_mysql,
}
_PYMYSQL = {
    "connect_timeout": CONNECT_SECONDS,
    "conv": pymysql.converters.conversions | {FIELD_TYPE.TIMESTAMP: _utc_timestamp},
}
_ARGUMENTS: dict[str, dict[str, Any]] = {  # Any: arguments of drivers
    "postgresql+psycopg": {
        "connect_timeout": CONNECT_SECONDS,
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "prepare_threshold": None,  # a plan for the actual keys is faster than a generic one
    },
    "mariadb+pymysql": _PYMYSQL,
    "mysql+pymysql": _PYMYSQL,
}
