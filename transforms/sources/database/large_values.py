"""Values that are too large to be read with their rows: asked for by key, in pieces.

All pieces of a value come from one statement, so that they are of one version of the row, and they
come one at a time. Of a value that is larger than a document may be, nothing is read at all.
"""

from functools import partial
from typing import Any, NamedTuple

import sqlalchemy as sa

from transforms.sources.database.column_index import Row
from transforms.sources.database.columns import INLINE_BYTES, Column, octets, sliceable
from transforms.sources.database.keys import Key, equal, parameters, write_key
from transforms.sources.database.pages import lazy_columns
from transforms.sources.database.session import Session, stream
from transforms.sources.database.table_query import Rows

_PIECE_BYTES = 4 << 20
_MOST_PIECES = 8
_KEY = "key"


class Whole(NamedTuple):
    """A row with its large values; the first of those that are `too_large`, and so left out."""

    row: Row
    too_large: str | None = None
    length: int = 0


class Large:
    """Completes rows, by a session of its own: the pages are read by another."""

    def __init__(self, rows: Rows, session: Session, *, max_bytes: int) -> None:
        self._rows = rows
        self._session = session
        self._max_bytes = max_bytes
        self._lazy = lazy_columns(rows)
        self._key_of = rows.named.key_maker()

    def complete(self, row: Row) -> Whole:
        """Return a row whole; one that has been deleted meanwhile stays as it is."""
        key = self._key_of(row)
        where = f"{self._rows.shown}, the row {write_key(key)}"
        lengths = self._session.run(partial(self._lengths, key), where=where)
        values = list(row)
        found = Whole(row)
        for (at, column), length in zip(self._lazy, lengths, strict=True):
            if length > self._max_bytes:
                found = found if found.too_large else Whole(row, column.name, length)
            elif length > INLINE_BYTES:
                read = partial(self._value, column, length, key)
                values[at] = self._session.run(read, where=where)
        return found._replace(row=tuple(values))

    def _lengths(self, key: Key, connection: sa.Connection) -> tuple[int, ...]:
        dialect = self._rows.engine.dialect
        lengths = (octets(self._rows.column(one.name), one, dialect) for _, one in self._lazy)
        found = connection.execute(self._of_row(key, *lengths), self._given(key)).first()
        return tuple(length or 0 for length in found or [0] * len(self._lazy))

    def _value(self, column: Column, length: int, key: Key, connection: sa.Connection) -> Any:
        """Text is counted in characters, of which there are no more than bytes."""
        size = max(_PIECE_BYTES, -(-length // _MOST_PIECES))
        whole = sliceable(self._rows.column(column.name), column)
        pieces = (
            self._of_row(key, sa.literal(at), sa.func.substr(whole, at + 1, size))
            for at in range(0, length, size)
        )
        with stream(connection, sa.union_all(*pieces), self._given(key), rows=1) as result:
            found = dict(map(tuple, result))
        connection.rollback()
        return _joined([found[at] for at in sorted(found)])

    def _of_row(self, key: Key, *values: Any) -> sa.Select[Any]:
        rows = self._rows
        return sa.select(*values).where(*rows.where, equal(rows.key_columns, _KEY))

    def _given(self, key: Key) -> dict[str, object]:
        return parameters(_KEY, key, self._rows.engine.dialect)


def _joined(parts: list[Any]) -> Any:
    """A value of its parts; None if the row was deleted, or its value, since it was weighed.

    Of a text of SQLite that is not UTF-8, only some parts may be bytes.
    """
    if not parts or None in parts:
        return None
    if len(set(map(type, parts))) > 1:
        parts = [part.encode() if isinstance(part, str) else bytes(part) for part in parts]
    return parts[0] if len(parts) == 1 else parts[0][:0].join(parts)
