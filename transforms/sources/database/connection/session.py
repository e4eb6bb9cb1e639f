"""Connect to databases, by a URL with references in place of secrets, and run statements.

Sessions of PostgreSQL, MariaDB and MySQL are read-only and in UTC. Files of SQLite are opened
read-only, unless the URL begins with `sqlite:///file:`. No message has the parameters of a
statement or a password.
"""

import enum
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import TypeVar
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from feedferry.schemas.errors import ConfigError, FeedferryError, SourceError
from feedferry.transforms.config.secrets import REFERENCE, resolve, secrets_in
from feedferry.transforms.net.redaction import Mask
from feedferry.transforms.net.retry import RetryPolicy, retry
from feedferry.transforms.sources.database.connection.dialects import (
    Dialect,
    ResultColumn,
    dialect_of,
)
from feedferry.transforms.sources.database.mapping.connection_url import parse_url, secrets_of
from feedferry.transforms.sources.database.mapping.row_mapping import RowMapping

RETRIES = RetryPolicy(max_attempts=6)
_ONCE = RetryPolicy(max_attempts=1)
_STREAMED_ROWS = 10_000
_UNREADABLE = (ValueError, OverflowError)
_NOT_UTF8 = "Could not decode to UTF-8"  # of SQLite
_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class UnreadableValueError(SourceError):
    """A value that the driver or the database cannot give; other rows may be readable."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class DatabaseFault(enum.Enum):
    """The concern of an error of a database: VALUE one row, SQL a query that the user corrects."""

    RETRY = "retry"
    VALUE = "value"
    SQL = "sql"
    FATAL = "fatal"


def connect(mapping: RowMapping) -> sa.Engine:
    """Return an engine for the database of a mapping; it keeps no connection open.

    References are resolved here. Raise ConfigError for an unknown reference, and for a driver that
    is missing or not supported.
    """
    url = _resolve_url(mapping)
    dialect = dialect_of(url.drivername)
    if dialect.drivername not in (None, url.drivername):
        raise ConfigError(
            f"connection: {url.drivername!r}; expected the driver that feedferry supports: "
            f"{url.get_backend_name()}:// or {dialect.drivername}://"
        )
    try:
        engine = sa.create_engine(url, poolclass=NullPool, connect_args=dict(dialect.arguments))
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
    sa.event.listen(engine, "connect", dialect.start)
    return engine


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
        url = parse_url(text)
    except ValueError as exc:
        raise ConfigError(f"connection: {exc}") from None
    if "+" not in url.drivername:
        url = url.set(drivername=dialect_of(url.drivername).drivername or url.drivername)
    return _read_only_file(url, mapping) if url.get_backend_name() == "sqlite" else url


def _resolve_quoted(text: str) -> str:
    return REFERENCE.sub(lambda match: quote(resolve(match[0]), safe=""), text)


def _read_only_file(url: sa.URL, mapping: RowMapping) -> sa.URL:
    """Return the URL of a file that SQLite neither creates nor changes."""
    if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
        return url
    path = mapping.resolve(url.database)
    if not path.is_file():
        raise ConfigError(f"connection: {str(path)!r}: no such file; expected a file of SQLite")
    query = {**url.query, "mode": "ro", "uri": "true"}
    return url.set(database=f"file:{quote(str(path))}", query=query)


class Session:
    """Runs statements on one connection, opened when needed and again after an error.

    Threads run them one after another. Each statement autocommits. `where` names what is read in
    messages.
    """

    def __init__(
        self,
        mapping: RowMapping,
        engine: sa.Engine | None = None,
        *,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        self.engine = connect(mapping) if engine is None else engine
        self.dialect: Dialect = dialect_of(self.engine.dialect.name)
        self._mapping = mapping
        self._lock = threading.Lock()
        self._is_stopped = threading.Event()
        self._sleep = sleep or self._is_stopped.wait
        self._connection: sa.Connection | None = None
        self._has_odd_dates = False

    def run(
        self, call: Callable[[sa.Connection], _T], *, where: str, is_retried: bool = False
    ) -> _T:
        """Return the result of `call`, which is called again after transient errors if wanted.

        Raise SourceError after the last retry, ConfigError for wrong SQL, UnreadableValueError for
        a value that cannot be read.
        """
        policy = RETRIES if is_retried else _ONCE
        with self._lock, self.translate_errors(where, attempts=policy.max_attempts):
            return retry(
                lambda: self._attempt(call),
                policy,
                is_temporary=lambda exc: (
                    self._fault_of(exc) is DatabaseFault.RETRY and not self._is_stopped.is_set()
                ),
                sleep=self._sleep,
                notify=lambda exc, seconds: _log.info("%s: next try in %.0f s", where, seconds),
            )

    def stream(self, statement: sa.Executable, *, where: str) -> Iterator[tuple[object, ...]]:
        """Yield rows in batches, from a server-side cursor if possible."""
        options = {"yield_per": _STREAMED_ROWS}
        with self.translate_errors(where), self.engine.connect() as connection:
            self.dialect.read_odd_dates(connection.connection.driver_connection)
            result = connection.execute(statement, execution_options=options)
            yield from map(tuple, result)

    def describe(
        self, selectable: sa.FromClause, *, where: str, is_retried: bool = False
    ) -> list[ResultColumn]:
        """Return the columns of a table or query in order, without reading a row."""
        no_rows = sa.select(sa.text("*")).select_from(selectable).where(sa.text("1=0"))

        def read_columns(connection: sa.Connection) -> list[ResultColumn]:
            with closing(connection.execute(no_rows)) as result:
                return list(self.dialect.columns(result.cursor))

        return self.run(read_columns, where=where, is_retried=is_retried)

    @contextmanager
    def translate_errors(self, where: str, *, attempts: int = 1) -> Iterator[None]:
        """Raise errors of a database as ConfigError if the SQL is wrong, else as SourceError."""
        dbapi = self.engine.dialect.loaded_dbapi
        try:
            yield
        except (sa.exc.SQLAlchemyError, dbapi.Error, *_UNREADABLE) as exc:
            raise self._explain(exc, where, attempts) from None

    def close(self) -> None:
        """Close the connection; errors of a lost connection are ignored."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()

    def stop_waiting(self) -> None:
        """End the pauses between retries in another thread, and try no more."""
        self._is_stopped.set()

    def _attempt(self, call: Callable[[sa.Connection], _T]) -> _T:
        try:
            if self._connection is None:
                connection = self.engine.connect()
                self._connection = connection.execution_options(isolation_level="AUTOCOMMIT")
                if self._has_odd_dates:
                    self.dialect.read_odd_dates(connection.connection.driver_connection)
            return call(self._connection)
        except Exception as exc:
            self.close()
            if self._has_odd_dates or self._fault_of(exc) is not DatabaseFault.VALUE:
                raise
        self._has_odd_dates = True
        return self._attempt(call)

    def _fault_of(self, exc: Exception) -> DatabaseFault:
        """Classify an error of SQLAlchemy, a driver, or the conversion of a value."""
        cause, dbapi = _cause(exc), self.engine.dialect.loaded_dbapi
        if isinstance(cause, (*_UNREADABLE, dbapi.DataError)) or _NOT_UTF8 in str(cause):
            return DatabaseFault.VALUE
        if self.dialect.is_sql_error(cause, dbapi):
            return DatabaseFault.SQL
        if getattr(exc, "connection_invalidated", False):  # SQLAlchemy's is_disconnect
            return DatabaseFault.RETRY
        if isinstance(cause, dbapi.OperationalError | dbapi.InterfaceError | dbapi.InternalError):
            return DatabaseFault.RETRY
        return DatabaseFault.FATAL

    def _explain(self, exc: Exception, where: str, attempts: int) -> FeedferryError:
        fault, reason = self._fault_of(exc), _first_line(exc)
        is_repeated = fault is DatabaseFault.RETRY and attempts > 1
        times = f" ({attempts} times)" if is_repeated else ""
        url = _resolve_url(self._mapping)
        mask = Mask((*secrets_in([self._mapping.connection]), *secrets_of(url)))
        text = mask.text(f"{_describe_url(url)}, {where}: {reason}{times}; expected ")
        if fault is DatabaseFault.SQL:
            return ConfigError(f"{text}SQL that this database understands")
        if fault is DatabaseFault.VALUE:
            return UnreadableValueError(f"{text}values that can be read", mask.text(reason))
        return SourceError(f"{text}a database that answers, and a login that may read it")


def _describe_url(url: sa.URL) -> str:
    """Return a URL without login and options."""
    if url.get_backend_name() == "sqlite":
        return f"sqlite:///{(url.database or '').removeprefix('file:')}"
    port = f":{url.port}" if url.port else ""
    return f"{url.get_backend_name()}://{url.host or ''}{port}/{url.database or ''}"


def _cause(exc: Exception) -> Exception:
    """Return the error of the driver: SQLAlchemy adds the statement and its parameters."""
    cause = getattr(exc, "orig", None)
    return cause if isinstance(cause, Exception) else exc


def _first_line(exc: Exception) -> str:
    """Return the first line of a database's message: other lines quote the statement."""
    cause = _cause(exc)
    text = str(cause.args[1]) if len(cause.args) == 2 else str(cause)
    lines = text.strip().splitlines()
    return lines[0].rstrip(".") if lines else type(cause).__name__
