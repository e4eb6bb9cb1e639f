"""What databases say when something goes wrong, as errors that may be shown.

No message has the parameters of a statement, nor a password, whoever wrote it there.
"""

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from schemas.errors import ConfigError, FatalError, SourceError
from transforms.sources.database.engine import mask_of, place_of
from transforms.sources.database.mapping import Mapping

_PASSING_CLASSES = ("08", "40", "53", "55", "57", "58", "XX")
"""Of SQLSTATE: connection, rollback, resources, lock, operator, system, internal."""
_PASSING_NUMBERS = frozenset(
    {
        *(1020, 1040, 1053, 1158, 1159, 1160, 1161, 1203, 1205, 1213, 1317, 1927, 1969),
        *(2002, 2003, 2006, 2013, 2014, 2055, 3024, 4031),
    }
)
"""Of MariaDB and MySQL: too many connections, shut down, killed, deadlock, timeout, gone away."""
_PASSING_RESULTS = frozenset({5, 6, 10, 14, 15})
"""Of SQLite: busy, locked, input or output, cannot open, protocol."""
TORN_VALUES = (ValueError, OverflowError)
_SQL = 1  # of SQLite: "SQL error or missing database"
_UNDECODABLE = "Could not decode to UTF-8"  # which SQLite's driver counts among what passes
_DENIED = "42501"
_DENIED_NUMBERS = frozenset({1044, 1045, 1142, 1143})
_CONFIG_CLASSES = ("42", "3F")
_CONFIG_NUMBERS = frozenset({1052, 1054, 1060, 1064, 1066, 1146, 1149, 1248, 1305, 1356, 1630})
"""Of MariaDB and MySQL: unknown or ambiguous names, and syntax."""


class Fault(enum.Enum):
    """What becomes of a statement that went wrong."""

    PASSING = "PASSING"
    """It is sent again."""
    VALUE = "VALUE"
    """One row cannot be read; the others may be."""
    SQL = "SQL"
    """Its user has to change it."""


class TornValueError(Exception):
    """A value of a row that cannot be read, as it is broken or out of all bounds."""


def fault_of(exc: Exception, dialect: sa.Dialect) -> Fault:
    """Return what is to be done about an error of a database, its driver, or SQLAlchemy."""
    said = _original(exc)
    if isinstance(said, TORN_VALUES) or _UNDECODABLE in str(said):
        return Fault.VALUE
    if isinstance(exc, sa.exc.DBAPIError) and exc.connection_invalidated:
        return Fault.PASSING
    dbapi = dialect.loaded_dbapi
    if isinstance(said, dbapi.DataError):
        return Fault.VALUE
    if _is_passing(said, dialect.name, dbapi):
        return Fault.PASSING
    return Fault.SQL


@contextmanager
def told(mapping: Mapping, *, where: str = "") -> Iterator[None]:
    """Raise what goes wrong at a database as SourceError, or as ConfigError if it is the SQL."""
    try:
        yield
    except (sa.exc.SQLAlchemyError, *TORN_VALUES) as exc:
        raise error_of(exc, mapping, where=where) from None


def error_of(
    exc: Exception, mapping: Mapping, *, where: str = "", tries: int = 1
) -> FatalError | ConfigError:
    """Return what is told of an error; nobody may be shown what it was raised from."""
    place = f"{place_of(mapping)}, {where}" if where else place_of(mapping)
    times = f" ({tries} times)" if tries > 1 else ""
    said = f"{place}: {said_by(exc)}{times}"
    mask = mask_of(mapping)
    if _is_config(_original(exc)):
        return ConfigError(mask.text(f"{said}; expected SQL that this database understands"))
    expected = (
        "a login that may read it" if _is_denied(_original(exc)) else "a database that answers"
    )
    return SourceError(mask.text(f"{said}; expected {expected}"))


def said_by(exc: Exception) -> str:
    """Return the first line of what a database said: others quote the statement."""
    said = _original(exc)
    arguments = said.args
    text = str(arguments[1]) if len(arguments) == 2 else str(said)
    lines = text.strip().splitlines()
    return lines[0].rstrip(".") if lines else type(said).__name__


def _original(exc: Exception) -> Exception:
    """SQLAlchemy wraps what a driver raises, and adds the statement and its parameters."""
    said = getattr(exc, "orig", None)
    return said if isinstance(said, Exception) else exc


def _is_passing(said: Exception, name: str, dbapi: Any) -> bool:
    if name == "postgresql":
        state = getattr(said, "sqlstate", None)
        lost = isinstance(said, dbapi.OperationalError | dbapi.InterfaceError) and state is None
        return lost or (state or "").startswith(_PASSING_CLASSES)
    if name in ("mariadb", "mysql"):
        return said.args[:1] in {(number,) for number in _PASSING_NUMBERS} or isinstance(
            said, dbapi.InterfaceError
        )
    if name == "sqlite":
        return getattr(said, "sqlite_errorcode", 0) & 0xFF in _PASSING_RESULTS
    return isinstance(said, dbapi.OperationalError | dbapi.InterfaceError)


def _is_denied(said: Exception) -> bool:
    if getattr(said, "sqlstate", None) == _DENIED:
        return True
    number = next(iter(said.args), None)
    return isinstance(number, int) and number in _DENIED_NUMBERS


def _is_config(said: Exception) -> bool:
    """Whether a statement was not understood, so that nothing was read."""
    number = next(iter(said.args), None)
    if isinstance(number, int):
        return number in _CONFIG_NUMBERS
    state = getattr(said, "sqlstate", None)
    if state is not None:
        return str(state).startswith(_CONFIG_CLASSES) and state != _DENIED
    return getattr(said, "sqlite_errorcode", 0) == _SQL
