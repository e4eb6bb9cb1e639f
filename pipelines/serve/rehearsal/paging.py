"""Pages of a table, in the order of a name."""

import sqlite3
from collections.abc import Iterable
from typing import Any

Condition = tuple[str, object]
"""SQL with one mark, and its value; where that is `None` nothing is asked."""

Row = tuple[Any, ...]


def read_page(
    connection: sqlite3.Connection,
    select: str,
    conditions: Iterable[Condition],
    *,
    order: tuple[str, ...],
    limit: int,
) -> list[Row]:
    """Return rows in order, the first column of which is the first of `order`: a name.

    Rows of one name stand on one page, so that the next can begin behind it; a page may have more
    than `limit` for that.
    """
    stated = [condition for condition in conditions if condition[1] is not None]
    rows = _fetch(connection, select, stated, order, limit)
    if not rows or len(rows) < limit:
        return rows
    last = rows[-1][0]
    alike = _fetch(connection, select, [*stated, (f"{order[0]} = ?", last)], order, -1)
    return [row for row in rows if row[0] != last] + alike


def _fetch(
    connection: sqlite3.Connection,
    select: str,
    conditions: list[Condition],
    order: tuple[str, ...],
    limit: int,
) -> list[Row]:
    where = " AND ".join(["true", *(clause for clause, _ in conditions)])
    values = [value for _, value in conditions]
    query = f"{select} WHERE {where} ORDER BY {', '.join(order)} LIMIT ?"
    return connection.execute(query, (*values, limit)).fetchall()
