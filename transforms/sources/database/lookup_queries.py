"""Rows of second queries, as those for ACLs or for many values of a name, for a page at once.

What belongs to a key is what the database finds equal to it, by its own collation: a query is
joined to the rows it is about, in the range of keys that a page has.
"""

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any

import sqlalchemy as sa

from schemas.errors import ConfigError, SourceError
from transforms.sources.database.column_index import Row
from transforms.sources.database.columns import Column, describe
from transforms.sources.database.errors import TornValueError
from transforms.sources.database.keys import Key, parameters, since, upto
from transforms.sources.database.session import Session
from transforms.sources.database.table_query import Rows, query_of

ALIAS = "feedferry_sides"

_FIRST, _LAST = "first", "last"
_UNSORTED = frozenset({"json", "xml", "point", "line", "lseg", "box", "path", "polygon", "circle"})
"""Types of PostgreSQL that ORDER BY refuses."""
_Grouped = dict[Key, list[Row]]


class Sides:
    """Gives the rows that a query has for a key, without their key columns.

    They come in the order of those other columns, so that each run gives them in the same one. A
    page has to be announced before the rows of its keys are asked for; each query is asked once for
    it, and its rows are held in memory.
    """

    def __init__(self, rows: Rows, session: Session) -> None:
        self._rows = rows
        self._session = session
        self._statements: dict[str, sa.Select[Any]] = {}
        self._page: tuple[Key, Key] | None = None
        self._found: dict[str, _Grouped] = {}

    def turn(self, first: Key, last: Key) -> None:
        """Announce a page by its first and its last key."""
        self._page = (first, last)
        self._found.clear()

    def __call__(self, query: str, key: Key) -> Sequence[Row]:
        found = self._found.get(query)
        if found is None:
            found = self._found[query] = self._ask(query)
        return found.get(key, ())

    def _ask(self, query: str) -> _Grouped:
        if self._page is None:
            return {}
        first, last = self._page
        dialect = self._rows.engine.dialect
        given = parameters(_FIRST, first, dialect) | parameters(_LAST, last, dialect)
        where = f"the query {query!r}"
        try:
            return self._session.run(partial(self._fetch, query, given), where=where)
        except TornValueError as exc:
            raise SourceError(f"{where}: {exc}; expected values that can be read") from None

    def _fetch(self, query: str, given: dict[str, object], connection: sa.Connection) -> _Grouped:
        if query not in self._statements:
            self._statements[query] = self._statement(query, connection)
        grouped: _Grouped = defaultdict(list)
        width = len(self._rows.key)
        for row in connection.execute(self._statements[query], given):
            grouped[tuple(row[:width])].append(tuple(row[width:]))
        connection.rollback()
        return dict(grouped)

    def _statement(self, query: str, connection: sa.Connection) -> sa.Select[Any]:
        rows = self._rows
        columns = describe(connection, query_of(query, (), ALIAS))
        names = [column.name for column in columns]
        width = len(rows.key)
        if len(names) <= width:
            raise ConfigError(
                f"query: {query!r} selects {', '.join(names)}; expected {', '.join(rows.key)}, as "
                "the key, and then a value"
            )
        side, dialect = query_of(query, names, ALIAS), connection.dialect
        own, values = list(side.c)[:width], list(side.c)[width:]
        of_rows = rows.key_columns
        joined = side.join(
            rows.selectable, sa.and_(*(a == b for a, b in zip(own, of_rows, strict=True)))
        )
        in_page = (
            bound(columns, prefix, dialect)
            for columns in (own, of_rows)
            for bound, prefix in ((since, _FIRST), (upto, _LAST))
        )
        order = map(_sortable, values, columns[width:])
        selected = sa.select(*of_rows, *values).select_from(joined).where(*in_page)
        return selected.order_by(*of_rows, *order)


def _sortable(value: sa.ColumnElement[Any], column: Column) -> sa.ColumnElement[Any]:
    return sa.cast(value, sa.Text) if column.type_name in _UNSORTED else value
