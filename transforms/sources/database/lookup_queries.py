"""Run lookup queries, for ACLs or for metadata with several values, once for each page.

The database decides which rows belong to a key, by its collation: a lookup query is joined to the
rows of the page. A list of principals is not lost because two tables differ in case.
"""

from collections import defaultdict
from collections.abc import Sequence
from functools import partial

import sqlalchemy as sa

from schemas.errors import ConfigError, SourceError
from transforms.sources.database.column_index import Key, Row
from transforms.sources.database.keys import parameters, since, upto
from transforms.sources.database.result_columns import Expression, ResultColumn, Select, describe
from transforms.sources.database.session import Session, UnreadableValueError
from transforms.sources.database.table_query import TableQuery, subquery

_ALIAS = "feedferry_lookup"
_FIRST, _LAST = "first", "last"
_UNSORTED = frozenset({"json", "xml", "point", "line", "lseg", "box", "path", "polygon", "circle"})
"""Types of PostgreSQL that ORDER BY refuses."""

_RowsByKey = dict[Key, list[Row]]


class LookupQueries:
    """Returns the rows that a query has for a key of the page, without their key columns.

    Rows are sorted by their other columns, so that each run has the same order. Each query runs
    once for a page; its rows are kept in memory.
    """

    def __init__(self, table: TableQuery, session: Session) -> None:
        self._table = table
        self._session = session
        self._statements: dict[str, Select] = {}
        self._page: tuple[Key, Key] | None = None
        self._rows: dict[str, _RowsByKey] = {}

    def load_page(self, first: Key, last: Key) -> None:
        """Set the page by its first and its last key."""
        self._page = (first, last)
        self._rows.clear()

    def __call__(self, query: str, key: Key) -> Sequence[Row]:
        rows = self._rows.get(query)
        if rows is None:
            rows = self._rows[query] = self._run(query)
        return rows.get(key, ())

    def _run(self, query: str) -> _RowsByKey:
        if self._page is None:
            return {}
        first, last = self._page
        dialect = self._table.engine.dialect
        given = parameters(_FIRST, first, dialect) | parameters(_LAST, last, dialect)
        where = f"the query {query!r}"
        try:
            return self._session.run(partial(self._fetch, query, given), where=where)
        except UnreadableValueError as exc:
            raise SourceError(f"{where}: {exc}; expected values that can be read") from None

    def _fetch(self, query: str, given: dict[str, object], connection: sa.Connection) -> _RowsByKey:
        if query not in self._statements:
            self._statements[query] = self._statement(query, connection)
        rows: _RowsByKey = defaultdict(list)
        width = len(self._table.key)
        for row in connection.execute(self._statements[query], given):
            rows[tuple(row[:width])].append(tuple(row[width:]))
        return dict(rows)

    def _statement(self, query: str, connection: sa.Connection) -> Select:
        table, dialect = self._table, connection.dialect
        columns = describe(connection, subquery(query, (), _ALIAS))
        names, width = [column.name for column in columns], len(table.key)
        if len(names) <= width:
            raise ConfigError(
                f"query: {query!r} selects {', '.join(names)}; expected the key, "
                f"{', '.join(table.key)}, and then a value"
            )
        lookup, key_columns = subquery(query, names, _ALIAS), table.key_columns
        lookup_key, values = list(lookup.c)[:width], list(lookup.c)[width:]
        pairs = zip(lookup_key, key_columns, strict=True)
        joined = lookup.join(table.selectable, sa.and_(*(left == right for left, right in pairs)))
        in_page = (
            condition(side, prefix, dialect)
            for side in (lookup_key, key_columns)
            for condition, prefix in ((since, _FIRST), (upto, _LAST))
        )
        selected = sa.select(*key_columns, *values).select_from(joined).where(*in_page)
        return selected.order_by(*key_columns, *map(_sortable, values, columns[width:]))


def _sortable(value: Expression, column: ResultColumn) -> Expression:
    return sa.cast(value, sa.Text) if column.type_name in _UNSORTED else value
