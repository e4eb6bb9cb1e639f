"""Keys of rows: their text in spans and states, and how the rows behind one are asked for.

The text is JSON, exact for each type that can order rows. Whether a key is behind another is for
the database to say, in ORDER BY and in conditions alike: by its collation, with its own idea of
blanks at the end, of case and of accents.
"""

import base64
import json
import operator
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from ipaddress import ip_address, ip_interface, ip_network
from math import isfinite
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.types import NullType

from schemas.errors import ConfigError

Key = tuple[Any, ...]  # Any: what a driver gives
Columns = Sequence[sa.ColumnElement[Any]]
Compare = Callable[[Any, Any], Any]  # Any: SQLAlchemy's operators on columns and tuples of them

_ROW_VALUES = frozenset({"postgresql", "sqlite"})
"""Databases that look up `(a, b) > (1, 2)` in an index; MariaDB reads all rows for it."""
_MICROSECOND = timedelta(microseconds=1)


class TornText(bytes):
    """A text that is not UTF-8, as SQLite keeps it: sent back as bytes, it would equal no text."""


def write_key(key: Key) -> str:
    """Return a key as text; raise ConfigError for a value of a type that orders no rows.

    >>> write_key((7, "Anna", Decimal("1.50")))
    '[7,"Anna",{"decimal":"1.50"}]'
    """
    written = [_written(value) for value in key]
    return json.dumps(written, ensure_ascii=False, separators=(",", ":"))


def read_key(text: str) -> Key:
    """Return the key that `write_key` has written."""
    return tuple(_read(value) for value in json.loads(text))


def parameters(prefix: str, key: Key, dialect: sa.Dialect) -> dict[str, object]:
    """Return the parameters of a condition, each by its name."""
    return {f"{prefix}{at}": bound(value, dialect) for at, value in enumerate(key)}


def bound(value: object, dialect: sa.Dialect) -> object:
    """Return a value as it is to be sent, so that it compares exactly with a column of its type.

    Raise ConfigError for one that cannot be sent so.
    """
    _refuse_torn(value)
    if dialect.name == "postgresql" and isinstance(value, float):
        return repr(value)  # a text takes the type of the column, which may be `real`
    if dialect.name in ("mariadb", "mysql") and isinstance(value, datetime) and value.tzinfo:
        return value.astimezone(UTC).replace(tzinfo=None)  # the zone of the session
    return value


def above(columns: Columns, prefix: str, dialect: sa.Dialect) -> sa.ColumnElement[bool]:
    """Return the condition of the rows behind a key, whose values are parameters."""
    return _compared(columns, prefix, dialect, (operator.gt, operator.ge, operator.gt))


def since(columns: Columns, prefix: str, dialect: sa.Dialect) -> sa.ColumnElement[bool]:
    """Return the condition of the row that has a key, and of those behind it."""
    return _compared(columns, prefix, dialect, (operator.gt, operator.ge, operator.ge))


def upto(columns: Columns, prefix: str, dialect: sa.Dialect) -> sa.ColumnElement[bool]:
    """Return the condition of the rows up to a key, and of that itself."""
    return _compared(columns, prefix, dialect, (operator.lt, operator.le, operator.le))


def equal(columns: Columns, prefix: str) -> sa.ColumnElement[bool]:
    """Return the condition of the one row that has a key."""
    pairs = zip(columns, _parameters(columns, prefix), strict=True)
    return sa.and_(*(column == value for column, value in pairs))


def _compared(
    columns: Columns, prefix: str, dialect: sa.Dialect, compare: tuple[Compare, Compare, Compare]
) -> sa.ColumnElement[bool]:
    values = _parameters(columns, prefix)
    strictly, loosely, last = compare
    found: sa.ColumnElement[bool]
    if len(columns) == 1:
        found = last(columns[0], values[0])
    elif dialect.name in _ROW_VALUES:
        found = last(sa.tuple_(*columns), sa.tuple_(*values))
    else:
        nested = _nested(list(zip(columns, values, strict=True)), strictly, last)
        found = sa.and_(loosely(columns[0], values[0]), nested)
    return found


def _nested(pairs: Sequence[tuple[Any, Any]], strictly: Compare, last: Compare) -> Any:
    (column, value), *rest = pairs
    if not rest:
        return last(column, value)
    return sa.or_(strictly(column, value), sa.and_(column == value, _nested(rest, strictly, last)))


def _parameters(columns: Columns, prefix: str) -> list[sa.BindParameter[Any]]:
    return [sa.bindparam(f"{prefix}{at}", type_=NullType()) for at, _ in enumerate(columns)]


def _refuse_torn(value: object) -> None:
    if isinstance(value, TornText):
        raise ConfigError(
            f"key: {bytes(value)!r}, a text that is not UTF-8; expected one that is, or a query "
            "that makes bytes of it, as CAST(… AS BLOB) does"
        )


def _written(value: object) -> object:
    _refuse_torn(value)
    if isinstance(value, str | bool | int) or (isinstance(value, float) and isfinite(value)):
        return value
    for name, (kind, write, _) in _KINDS.items():
        if isinstance(value, kind):
            return {name: write(value)}
    for name in _ADDRESSES:
        if type(value).__name__.endswith(name.title()):
            return {name: str(value)}
    raise ConfigError(
        f"key: a value of the type {type(value).__name__}; expected columns of numbers, texts, "
        "dates, times, UUIDs or bytes"
    )


def _read(value: Any) -> object:
    if not isinstance(value, dict):
        return value
    ((name, text),) = value.items()
    return _ADDRESSES[name](text) if name in _ADDRESSES else _KINDS[name][2](text)


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _microseconds(value: timedelta) -> int:
    return value // _MICROSECOND


def _duration(microseconds: int) -> timedelta:
    return timedelta(microseconds=microseconds)


_ADDRESSES: dict[str, Callable[[str], object]] = {
    "address": ip_address,
    "interface": ip_interface,
    "network": ip_network,
}
_KINDS: dict[str, tuple[type, Callable[[Any], object], Callable[[Any], object]]] = {
    "float": (float, repr, float),
    "decimal": (Decimal, str, Decimal),
    "datetime": (datetime, datetime.isoformat, datetime.fromisoformat),
    "date": (date, date.isoformat, date.fromisoformat),
    "time": (time, time.isoformat, time.fromisoformat),
    "duration": (timedelta, _microseconds, _duration),
    "uuid": (UUID, str, UUID),
    "bytes": (bytes, _base64, base64.b64decode),
}
"""By the name in JSON, the first that fits: a type, how it is written and read."""
