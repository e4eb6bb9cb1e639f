"""Lookup queries: the rows of another table that belong to the rows of a page."""

from collections import defaultdict
from collections.abc import Sequence

import sqlalchemy as sa

from feedferry.schemas.errors import ConfigError
from feedferry.transforms.sources.database.mapping.columns import Key, Row
from feedferry.transforms.sources.database.tables.table import (
    KeyOrder,
    Select,
    TableQuery,
    subquery,
)

_LOOKUP = "feedferry_lookup"


class LookupQueries:
    """Returns the rows that a query has for a key of the page, without their key columns.

    Each query, for ACLs or for metadata with several values, runs once for a page; its rows are
    kept in memory, sorted by their other columns, so that each run has the same order. The database
    decides which rows belong to a key, by its collation: a query is joined to the rows of the page.
    A list of principals is not lost because two tables differ in case.
    """

    def __init__(self, table: TableQuery) -> None:
        self._table = table
        self._joins: dict[str, tuple[Select, KeyOrder]] = {}
        self._page: tuple[Key, Key] = ((), ())
        self._rows: dict[str, dict[Key, list[Row]]] = {}

    def load_page(self, first: Key, last: Key) -> None:
        """Set the page by its first and its last key."""
        self._page = (first, last)
        self._rows.clear()

    def __call__(self, query: str, key: Key) -> Sequence[Row]:
        rows = self._rows.get(query)
        if rows is None:
            rows = self._rows[query] = self._run(query)
        return rows.get(key, ())

    def _run(self, query: str) -> dict[Key, list[Row]]:
        first, last = self._page
        if query not in self._joins:
            self._joins[query] = self._join(query)
        statement, lookup_order = self._joins[query]
        for order in (lookup_order, self._table.order):
            statement = statement.where(order.since(first), order.upto(last))
        rows: dict[Key, list[Row]] = defaultdict(list)
        width = len(self._table.key)
        for row in self._table.run(statement, where=f"the query {query!r}", is_retried=True):
            rows[row[:width]].append(row[width:])
        return dict(rows)

    def _join(self, query: str) -> tuple[Select, KeyOrder]:
        table, selectable = self._table, subquery(query, (), _LOOKUP)
        where = f"the query {query!r}"
        columns = table.session.describe(selectable, where=where, is_retried=True)
        names, width = [column.name for column in columns], len(table.key)
        if len(names) <= width:
            raise ConfigError(
                f"query: {query!r} selects {', '.join(names)}; expected the key, "
                f"{', '.join(table.key)}, and then a value"
            )
        lookup = subquery(query, names, _LOOKUP)
        key, values = list(lookup.c)[:width], list(lookup.c)[width:]
        pairs = zip(key, table.key_columns, strict=True)
        joined = lookup.join(table.selectable, sa.and_(*(left == right for left, right in pairs)))
        selected = sa.select(*table.key_columns, *values).select_from(joined)
        order = KeyOrder(key, table.session.dialect)
        return selected.order_by(*table.key_columns, *values), order
