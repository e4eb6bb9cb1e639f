"""Which rows a span has: a range of keys, of those rows that a run is to read at all.

The context of a span says both, so that a worker finds the rows that the driver meant.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.types import NullType

from transforms.sources.database.keys import bound, read_key
from transforms.sources.database.ranges import KeyRange
from transforms.sources.database.table_query import Rows
from transforms.sources.database.watermark import Mark


class Scope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Rows by their timestamp, by their keys, or by both; all rows if it says nothing.

    `timestamp` is the column whose values are above `above` and not above `upto`, or NULL. `keys`
    are JSON. Of a run that is `anew` all is sent, however well it is known.
    """

    timestamp: str = ""
    above: Mark | None = None
    upto: Mark | None = None
    is_null: bool = False
    keys: tuple[str, ...] = ()
    anew: bool = False


class Share(KeyRange, frozen=True, kw_only=True, omit_defaults=True):
    """A range of keys of the rows in a scope."""

    scope: Scope = Scope()


def encode_share(key_range: KeyRange, scope: Scope) -> bytes:
    """Return the context of a span; a `KeyRange` can be read from it, too."""
    return msgspec.json.encode(Share(**msgspec.structs.asdict(key_range), scope=scope))


def scope_of(context: bytes) -> Scope:
    """Return the scope that the context of a span holds."""
    return msgspec.json.decode(context, type=Share).scope


def scoped(rows: Rows, scope: Scope) -> Rows:
    """Return the rows that are in a scope."""
    if scope.timestamp:
        rows = rows.narrowed(scope.timestamp, after=_value(scope.above), upto=_value(scope.upto))
    if scope.is_null:
        place = rows.named.at("incremental: timestamp", scope.timestamp)
        rows = replace(rows, where=(*rows.where, rows.column(rows.names[place]).is_(None)))
    return replace(rows, where=(*rows.where, _among(rows, scope.keys))) if scope.keys else rows


def _value(mark: Mark | None) -> object:
    return None if mark is None else mark.value()


def _among(rows: Rows, texts: Sequence[str]) -> sa.ColumnElement[bool]:
    """The condition of the rows that have one of these keys."""
    dialect, columns = rows.engine.dialect, rows.key_columns
    keys = [tuple(bound(value, dialect) for value in read_key(text)) for text in texts]
    if len(columns) == 1:
        return columns[0].in_([value for (value,) in keys])
    either: Any = sa.tuple_(*columns, types=[NullType() for _ in columns])
    found: sa.ColumnElement[bool] = either.in_(keys)
    return found
