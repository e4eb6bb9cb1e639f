"""Ranges of keys, cut from the data."""

from collections.abc import Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from schemas.errors import ConfigError, SourceError
from schemas.span import KeyRange, RowFilter, TimestampType, Watermark
from support.database_runs import Database
from support.databases import Server, Sqlite
from transforms.sources.database.column_index import Key
from transforms.sources.database.connection import connect
from transforms.sources.database.key_ranges import cut_rows, filter_rows
from transforms.sources.database.mapping import ContentSource, RowMapping
from transforms.sources.database.pages import PageReader
from transforms.sources.database.session import Session
from transforms.sources.database.table_query import TableQuery, open_rows

TABLE = "CREATE TABLE docs (id INT NOT NULL PRIMARY KEY, title VARCHAR(40), body TEXT)"
MAPPING = RowMapping(
    connection="",
    table="docs",
    url="https://docs.example.com/{id}",
    content=ContentSource(column="body"),
    title="title",
)


def numbers(count: int) -> str:
    """A query of the numbers from 1, as all three databases understand it."""
    digit = " UNION ALL ".join(f"SELECT {number} AS n" for number in range(10))
    digits = ", ".join(f"({digit}) d{place}" for place in range(5))
    term = " + ".join(f"{10**place} * d{place}.n" for place in range(5))
    return f"SELECT i FROM (SELECT 1 + {term} AS i FROM {digits}) ns WHERE i <= {count}"


def filled(count: int, *, key: str = "i", body: str = "'0123456789'") -> list[str]:
    return [TABLE, f"INSERT INTO docs SELECT {key}, 'title', {body} FROM ({numbers(count)}) n"]


def opened(
    server: Server | Sqlite, statements: Sequence[str], mapping: RowMapping = MAPPING
) -> TableQuery:
    connection = server.url(server.new_database(*statements))
    mapping = replace(mapping, connection=connection)
    return open_rows(mapping, connect(mapping))


def keys_in(rows: TableQuery, cuts: Sequence[KeyRange]) -> list[list[object]]:
    with closing(Session(rows.mapping, rows.engine)) as session:
        return [[row[0] for page in PageReader(rows, one, session) for row in page] for one in cuts]


def test_a_small_table_is_one_range_without_bounds(server: Server | Sqlite) -> None:
    rows = opened(server, filled(3))
    assert list(cut_rows(rows, span_bytes=1000)) == [KeyRange(rows=3, size=240)]


def test_an_empty_table_has_no_range(server: Server | Sqlite) -> None:
    assert list(cut_rows(opened(server, [TABLE]), span_bytes=1000)) == []


def test_ranges_have_the_size_of_a_span(server: Server | Sqlite) -> None:
    rows = opened(server, filled(10))
    assert list(cut_rows(rows, span_bytes=400)) == [
        KeyRange(upto="[5]", rows=5, size=400),
        KeyRange(after="[5]", rows=5, size=400),
    ]


def test_gaps_between_keys_make_no_small_ranges(server: Server | Sqlite) -> None:
    """Nine keys in ten are close together, and the last tenth is spread wide."""
    key = "CASE WHEN i <= 90 THEN i ELSE i * 10000 END"
    rows = opened(server, filled(100, key=key))
    cuts = list(cut_rows(rows, span_bytes=1700))
    assert list(map(len, keys_in(rows, cuts))) == [20, 20, 20, 20, 20]


def test_large_values_count_with_their_size(server: Server | Sqlite) -> None:
    long = "RPAD('', 100000, 'x')" if server.scheme == "mariadb" else "repeat('x', 100000)"
    if server.scheme == "sqlite":
        long = "hex(zeroblob(50000))"
    body = f"CASE WHEN i = 5 THEN {long} END"
    statements = [statement.replace("TEXT", "LONGTEXT") for statement in filled(10, body=body)]
    if server.scheme == "postgresql":
        statements = filled(10, body=body)
    (whole,) = cut_rows(opened(server, statements), span_bytes=1 << 20)
    assert whole == KeyRange(rows=10, size=100700)


def test_rows_with_null_in_their_key_have_a_range_of_their_own(server: Server | Sqlite) -> None:
    table = "CREATE TABLE docs (id INT, part INT, title VARCHAR(40), body TEXT)"
    values = "INSERT INTO docs VALUES (1, 1, 'a', ''), (1, NULL, 'b', ''), (NULL, NULL, 'c', '')"
    rows = opened(server, [table, values], replace(MAPPING, key=("id", "part")))
    assert list(cut_rows(rows, span_bytes=1000)) == [
        KeyRange(rows=1, size=67),
        KeyRange(has_null_keys=True, rows=2),
    ]


def test_a_key_that_is_not_unique_is_refused(server: Server | Sqlite) -> None:
    rows = opened(server, filled(3), replace(MAPPING, key=("title",)))
    with pytest.raises(ConfigError, match=r"^key: 3 rows of table 'docs' have title='title'; exp"):
        list(cut_rows(rows, span_bytes=1000))


def test_ranges_of_many_rows_hold_all_of_them_once(server: Server | Sqlite) -> None:
    rows = opened(server, filled(100_000, key="i * 7"))
    cuts = list(cut_rows(rows, span_bytes=1 << 20))
    assert list(chain.from_iterable(keys_in(rows, cuts))) == list(range(7, 700_001, 7))


def test_keys_of_two_columns_are_cut(server: Server | Sqlite) -> None:
    rows = opened(server, filled(10), replace(MAPPING, key=("title", "id")))
    assert list(cut_rows(rows, span_bytes=400)) == [
        KeyRange(upto='["title",5]', rows=5, size=400),
        KeyRange(after='["title",5]', rows=5, size=400),
    ]


def test_a_database_that_is_lost_while_ranges_are_cut_is_a_source_error(remote: Server) -> None:
    database = remote.new_database(*filled(10))
    mapping = replace(MAPPING, connection=remote.url(database))
    rows = open_rows(mapping, connect(mapping))

    def end(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if "OVER (" in statement:
            remote.end_connections(database)

    sa.event.listen(rows.engine, "before_cursor_execute", end)
    with pytest.raises(SourceError, match=r"/feeds\d+, table 'docs': .*; expected a database that"):
        list(cut_rows(rows, span_bytes=400))


SEVEN = Watermark(type=TimestampType.INTEGER, text="7")
EIGHT = Watermark(type=TimestampType.INTEGER, text="8")


@pytest.fixture
def people(tmp_path: Path) -> Database:
    return Database(
        tmp_path,
        "CREATE TABLE people (id INTEGER PRIMARY KEY, body TEXT, updated INTEGER)",
        "INSERT INTO people VALUES (1, '', 7), (2, '', 8), (3, '', 9), (4, '', NULL)",
    )


def keys(people: Database, row_filter: RowFilter) -> list[Key]:
    mapping = people.mapping
    rows = open_rows(mapping, connect(mapping))
    return list(filter_rows(rows, row_filter).read_keys())


def test_a_filter_above_a_timestamp_is_without_it(people: Database) -> None:
    people.remap(title="updated")
    assert keys(people, RowFilter(timestamp="updated", above=SEVEN)) == [(2,), (3,)]


def test_a_filter_up_to_a_timestamp_has_it(people: Database) -> None:
    people.remap(title="updated")
    assert keys(people, RowFilter(timestamp="updated", above=SEVEN, upto=EIGHT)) == [(2,)]


def test_a_filter_of_no_timestamp_has_those_with_null(people: Database) -> None:
    people.remap(title="updated")
    assert keys(people, RowFilter(timestamp="UPDATED", is_null=True)) == [(4,)]


def test_a_filter_of_keys_can_have_a_timestamp(people: Database) -> None:
    people.remap(title="updated")
    assert keys(people, RowFilter(timestamp="updated", upto=SEVEN, keys=("[1]", "[2]"))) == [(1,)]


def test_a_filter_can_have_a_thousand_keys(people: Database) -> None:
    asked = tuple(f"[{number}]" for number in range(3, 1003))
    assert keys(people, RowFilter(keys=asked)) == [(3,), (4,)]
