"""Serialise row keys as JSON, and build keyset-pagination conditions.

The JSON is exact for each type. The order of keys is the database's, in ORDER BY and in conditions
alike: its collation decides about trailing blanks, case and accents.
"""

import base64
import json
import operator
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.types import NullType

from schemas.errors import ConfigError
from transforms.sources.database.column_index import Key
from transforms.sources.database.result_columns import Expression

Columns = Sequence[Expression]
_Compare = Callable[[Any, Any], Any]  # Any: SQLAlchemy's operators on columns and tuples of them

_ROW_VALUES = frozenset({"postgresql", "sqlite"})
"""Databases that use an index for `(a, b) > (1, 2)`; MariaDB reads all rows for it."""

_TYPES: dict[str, tuple[type, Callable[[Any], object], Callable[[Any], object]]] = {
    "decimal": (Decimal, str, Decimal),
    "datetime": (datetime, datetime.isoformat, datetime.fromisoformat),
    "date": (date, date.isoformat, date.fromisoformat),
    "uuid": (UUID, str, UUID),
    "bytes": (bytes, lambda value: base64.b64encode(value).decode(), base64.b64decode),
}
"""Types with a name in JSON, in the order of the search: how they are written and read."""

_KEY_TYPES = (int, str, *(type_ for type_, _, _ in _TYPES.values()))


def write_key(key: Key) -> str:
    """Return a key as text; raise ConfigError for a value of a type that cannot be a key.

    >>> write_key((7, "Anna", Decimal("1.50")))
    '[7,"Anna",{"decimal":"1.50"}]'
    """
    values = [_to_json(value) for value in key]
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))


def read_key(text: str) -> Key:
    """Return the key that `write_key` has written."""
    return tuple(_from_json(value) for value in json.loads(text))


def parameters(prefix: str, key: Key, dialect: sa.Dialect) -> dict[str, object]:
    """Return the named parameters of a condition; raise ConfigError as `write_key` does."""
    return {f"{prefix}{at}": bound_value(value, dialect) for at, value in enumerate(key)}


def bound_value(value: object, dialect: sa.Dialect) -> object:
    """Return a value as a parameter that compares exactly with a column of its type."""
    _check_type(value)
    if dialect.name in ("mariadb", "mysql") and isinstance(value, datetime) and value.tzinfo:
        return value.astimezone(UTC).replace(tzinfo=None)  # the zone of the session
    return value


def above(columns: Columns, prefix: str, dialect: sa.Dialect) -> sa.ColumnElement[bool]:
    """Return the condition of the rows after a key, given as parameters."""
    return _compare(columns, prefix, dialect, (operator.gt, operator.ge, operator.gt))


def since(columns: Columns, prefix: str, dialect: sa.Dialect) -> sa.ColumnElement[bool]:
    """Return the condition of the row with a key and of the rows after it."""
    return _compare(columns, prefix, dialect, (operator.gt, operator.ge, operator.ge))


def upto(columns: Columns, prefix: str, dialect: sa.Dialect) -> sa.ColumnElement[bool]:
    """Return the condition of the rows up to and including a key."""
    return _compare(columns, prefix, dialect, (operator.lt, operator.le, operator.le))


def equal(columns: Columns, prefix: str) -> sa.ColumnElement[bool]:
    """Return the condition of the row with a key."""
    pairs = zip(columns, _bind(columns, prefix), strict=True)
    return sa.and_(*(column == value for column, value in pairs))


def _compare(
    columns: Columns, prefix: str, dialect: sa.Dialect, operators: tuple[_Compare, ...]
) -> sa.ColumnElement[bool]:
    values = _bind(columns, prefix)
    strict, loose, last = operators
    condition: sa.ColumnElement[bool]
    if len(columns) == 1:
        condition = last(columns[0], values[0])
    elif dialect.name in _ROW_VALUES:
        condition = last(sa.tuple_(*columns), sa.tuple_(*values))
    else:
        nested = _nest(list(zip(columns, values, strict=True)), strict, last)
        condition = sa.and_(loose(columns[0], values[0]), nested)
    return condition


def _nest(pairs: Sequence[tuple[Any, Any]], strict: _Compare, last: _Compare) -> Any:
    """Return `a > 1 OR (a = 1 AND (b > 2 OR …))`."""
    (column, value), *others = pairs
    if not others:
        return last(column, value)
    return sa.or_(strict(column, value), sa.and_(column == value, _nest(others, strict, last)))


def _bind(columns: Columns, prefix: str) -> list[sa.BindParameter[Any]]:
    return [sa.bindparam(f"{prefix}{at}", type_=NullType()) for at, _ in enumerate(columns)]


def _check_type(value: object) -> None:
    if not isinstance(value, _KEY_TYPES):
        raise ConfigError(
            f"key: a value of the type {type(value).__name__}; expected columns of integers, "
            "decimals, texts, dates, timestamps, UUIDs or bytes, or a query that casts them"
        )


def _to_json(value: object) -> object:
    _check_type(value)
    for name, (type_, write, _) in _TYPES.items():
        if isinstance(value, type_):
            return {name: write(value)}
    return value


def _from_json(value: Any) -> object:  # Any: JSON
    if not isinstance(value, dict):
        return value
    ((name, text),) = value.items()
    return _TYPES[name][2](text)
