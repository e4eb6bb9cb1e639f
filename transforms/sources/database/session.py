"""Run statements on one connection, with retries; explain errors of databases.

No message has the parameters of a statement or a password.
"""

import enum
import logging
import math
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa

from schemas.errors import ConfigError, FatalError, SourceError
from transforms.retry import RetryPolicy, retry
from transforms.sources.database.connection import database_name, secrets_mask
from transforms.sources.database.mapping import RowMapping

STREAMED_ROWS = 10_000
"""The rows of a batch, where a result is streamed of which only the keys are needed."""

_UNREADABLE = (ValueError, OverflowError)
_SQLITE_SQL_ERROR = 1
_SQLITE_NOT_UTF8 = "Could not decode to UTF-8"
_MYSQL_UNKNOWN_COLUMN = 1054
_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class UnreadableValueError(Exception):
    """A value that the driver or the database cannot give; other rows may be readable."""


class Pauses(msgspec.Struct, frozen=True, kw_only=True):
    """How to wait between retries, and the jitter of the pauses."""

    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random


DEFAULT_PAUSES = Pauses()


class DatabaseFault(enum.Enum):
    """The reaction of the caller to an error of a database."""

    RETRY = "retry"
    VALUE = "value"
    """Read the rows one by one: only some of them fail."""
    SQL = "sql"
    """The user has to correct a query."""
    FATAL = "fatal"


def fault_of(exc: Exception, dialect: sa.Dialect) -> DatabaseFault:
    """Classify an error of SQLAlchemy, a driver, or the conversion of a value."""
    cause, dbapi = _cause(exc), dialect.loaded_dbapi
    if isinstance(cause, (*_UNREADABLE, dbapi.DataError)) or _SQLITE_NOT_UTF8 in str(cause):
        return DatabaseFault.VALUE
    if _is_sql_error(cause, dbapi):
        return DatabaseFault.SQL
    if getattr(exc, "connection_invalidated", False):  # SQLAlchemy's is_disconnect
        return DatabaseFault.RETRY
    if isinstance(cause, dbapi.OperationalError | dbapi.InterfaceError | dbapi.InternalError):
        return DatabaseFault.RETRY
    return DatabaseFault.FATAL


def _is_sql_error(cause: Exception, dbapi: Any) -> bool:  # Any: the module of a driver
    if getattr(cause, "sqlstate", None) == "42501":  # of PostgreSQL: permission denied
        return False
    if isinstance(cause, dbapi.ProgrammingError | dbapi.NotSupportedError):
        return True
    is_sqlite = getattr(cause, "sqlite_errorcode", None) == _SQLITE_SQL_ERROR
    return is_sqlite or cause.args[:1] == (_MYSQL_UNKNOWN_COLUMN,)


@contextmanager
def translate_errors(mapping: RowMapping, *, where: str, dialect: sa.Dialect) -> Iterator[None]:
    """Raise errors of a database as ConfigError if the SQL is wrong, else as SourceError."""
    try:
        yield
    except (sa.exc.SQLAlchemyError, *_UNREADABLE, dialect.loaded_dbapi.Error) as exc:
        fault = fault_of(exc, dialect)
        raise _explain(exc, fault, mapping, where=where) from None


def _explain(
    exc: Exception, fault: DatabaseFault, mapping: RowMapping, *, where: str, tries: int = 1
) -> FatalError | ConfigError:
    times = f" ({tries} times)" if tries > 1 else ""
    text = f"{database_name(mapping)}, {where}: {_first_line(exc)}{times}; expected "
    mask = secrets_mask(mapping)
    if fault is DatabaseFault.SQL:
        return ConfigError(mask.text(f"{text}SQL that this database understands"))
    if fault is DatabaseFault.VALUE:
        return SourceError(mask.text(f"{text}values that can be read"))
    return SourceError(mask.text(f"{text}a database that answers, and a login that may read it"))


def _first_line(exc: Exception) -> str:
    """Return the first line of a database's message: other lines quote the statement."""
    cause = _cause(exc)
    text = str(cause.args[1]) if len(cause.args) == 2 else str(cause)
    lines = text.strip().splitlines()
    return lines[0].rstrip(".") if lines else type(cause).__name__


def _cause(exc: Exception) -> Exception:
    """Return the error of the driver: SQLAlchemy adds the statement and its parameters."""
    cause = getattr(exc, "orig", None)
    return cause if isinstance(cause, Exception) else exc


@contextmanager
def stream(
    connection: sa.Connection, statement: sa.Executable, *, rows: int
) -> Iterator[sa.CursorResult[Any]]:
    """Yield a result that is fetched in batches of `rows`, from a server-side cursor if possible.

    Its cursor is closed after a lost connection, too, which SQLAlchemy does not do.
    """
    result = connection.execute(statement, execution_options={"yield_per": rows})
    cursor: Any = result.cursor
    try:
        yield result
    finally:
        with suppress(Exception):
            cursor.close()


class Session:
    """One connection, opened when needed and again after an error. Each statement autocommits."""

    def __init__(
        self, mapping: RowMapping, engine: sa.Engine, *, pauses: Pauses = DEFAULT_PAUSES
    ) -> None:
        self._mapping = mapping
        self._engine = engine
        self._pauses = pauses
        self._connection: sa.Connection | None = None

    def run(self, call: Callable[[sa.Connection], _T], *, where: str) -> _T:
        """Return the result of `call`, which can be called again.

        Raise SourceError after the last retry, ConfigError for wrong SQL, UnreadableValueError for
        a value that cannot be read.
        """
        dialect, tries = self._engine.dialect, self._mapping.retries + 1
        policy = RetryPolicy(
            first_seconds=self._mapping.backoff_seconds,
            max_attempts=tries,
            max_total_seconds=math.inf,
            jitter=self._pauses.chance,
        )
        try:
            return retry(
                lambda: self._attempt(call),
                policy,
                is_temporary=lambda exc: fault_of(exc, dialect) is DatabaseFault.RETRY,
                sleep=self._pauses.sleep,
                notify=lambda exc, seconds: _log.info("%s: next try in %.0f s", where, seconds),
            )
        except (sa.exc.SQLAlchemyError, dialect.loaded_dbapi.Error, *_UNREADABLE) as exc:
            fault = fault_of(exc, dialect)
            if fault is DatabaseFault.VALUE:
                raise UnreadableValueError(_first_line(exc)) from None
            tries = tries if fault is DatabaseFault.RETRY else 1
            raise _explain(exc, fault, self._mapping, where=where, tries=tries) from None

    def _attempt(self, call: Callable[[sa.Connection], _T]) -> _T:
        try:
            return call(self._connected())
        except Exception:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection; errors of a lost connection are ignored."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()

    def _connected(self) -> sa.Connection:
        if self._connection is None:
            connection = self._engine.connect()
            self._connection = connection.execution_options(isolation_level="AUTOCOMMIT")
        return self._connection
