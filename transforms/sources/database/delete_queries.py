"""The query for deletes: which keys are gone, and the urls that can be made of its rows.

It selects the key columns by their names, and others that the url is made of if it likes. It may
give a key in every run: what was deleted is remembered, see `gone`.
"""

from collections.abc import Callable, Iterator

import sqlalchemy as sa

from schemas.errors import ConfigError, RecordError
from transforms.sources.database.column_index import Row
from transforms.sources.database.column_index import Rows as Named
from transforms.sources.database.columns import describe
from transforms.sources.database.deletions import NO_KEY, Deleted
from transforms.sources.database.errors import told
from transforms.sources.database.keys import write_key
from transforms.sources.database.table_query import Rows, query_of
from transforms.sources.database.url_templates import column_url_maker, url_maker

_ALIAS = "feedferry_deletes"
_WHERE = "the query for deletes"
_KEY = "incremental: deletes"
_STREAMED_ROWS = 10_000


def read_deleted(rows: Rows, query: str) -> Iterator[Deleted]:
    """Yield what the query gives; raise ConfigError if it lacks a column of the key."""
    with told(rows.mapping, where=_WHERE), rows.engine.connect() as connection:
        columns = describe(connection, query_of(query, (), _ALIAS))
        named = Named(names=tuple(column.name for column in columns), key=rows.key)
        ats = [named.at(_KEY, name) for name in named.key]
        selected = sa.select(query_of(query, named.names, _ALIAS))
        make_url = _url_maker(rows, named)
        streamed = connection.execution_options(yield_per=_STREAMED_ROWS).execute(selected)
        for row in streamed:
            yield _deleted(row, ats, make_url)


def _url_maker(rows: Rows, named: Named) -> Callable[[Row], str]:
    """The function that makes the url of a row, or raises RecordError if none can be made."""
    mapping = rows.mapping
    try:
        if mapping.url_column is not None:
            return column_url_maker("url", mapping.url_column, named)
        return url_maker("url", mapping.url or "", named)
    except ConfigError as exc:
        reason = str(exc)

    def refuse(row: Row) -> str:
        raise RecordError("", reason)

    return refuse


def _deleted(row: Row, ats: list[int], make_url: Callable[[Row], str]) -> Deleted:
    key = tuple(row[at] for at in ats)
    if None in key:
        return Deleted(key=NO_KEY, reason="NULL in its key; expected a value in each column")
    try:
        return Deleted(key=write_key(key), url=make_url(row))
    except RecordError as exc:
        return Deleted(key=write_key(key), reason=exc.reason)
