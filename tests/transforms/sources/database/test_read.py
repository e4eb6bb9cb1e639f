"""Rows of a span as records: pages, large values, lookup queries, and lost connections."""

import sqlite3
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace as with_fields
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from feedferry.schemas.acl import Access, Acl, Principal, Scope
from feedferry.schemas.errors import ConfigError, SourceError
from feedferry.schemas.record import Action, Arrival, Content, Meta, Provenance, Record
from feedferry.schemas.reject import Filtered, Reject
from feedferry.schemas.sent_document import SentDocument, StateChange
from feedferry.schemas.span import KeyRange, Span
from feedferry.transforms.formats.base import ReadOptions, ReadResult
from feedferry.transforms.sources.database.connection.session import Session
from feedferry.transforms.sources.database.mapping.row_mapping import (
    DATABASE,
    AclSource,
    ActionColumn,
    ContentSource,
    IncrementalReading,
    MetadataColumn,
    RowMapping,
)
from feedferry.transforms.sources.database.read import read_rows
from feedferry.transforms.sources.database.tables.lookup_queries import LookupQueries
from feedferry.transforms.sources.database.tables.pages import IncompleteRow, PageReader, PageRow
from feedferry.transforms.sources.database.tables.table import TableQuery, open_table, write_key
from feedferry.transforms.storage.state import StateHead, open_state, write_state
from support.database_runs import AnyServer, new_mapping, new_table
from support.databases import Proxy, Server, Sqlite
from support.served import wait_until

PAGED = RowMapping(
    connection="",
    table="docs",
    url="https://docs.example.com/{id}",
    content=ContentSource(column="body"),
    page_rows=2,
)
FIVE = (
    "CREATE TABLE docs (id INT NOT NULL PRIMARY KEY, body VARCHAR(40))",
    "INSERT INTO docs VALUES (5, 'e'), (3, 'c'), (1, 'a'), (2, 'b'), (4, 'd')",
)
ALL = KeyRange()


def pages(
    table: TableQuery, key_range: KeyRange = ALL, *, pauses: list[float] | None = None
) -> Iterator[list[PageRow]]:
    """The pages of a range; `pauses` collects the pauses between retries."""
    sleep = ([] if pauses is None else pauses).append
    with closing(Session(table.mapping, table.session.engine, sleep=sleep)) as session:
        yield from PageReader(with_fields(table, session=session), key_range)


def keyed(server: AnyServer, type_: str, *values: str) -> TableQuery:
    """Rows whose key has a type, and these values, written in SQL."""
    table = f"CREATE TABLE docs (id {type_} NOT NULL PRIMARY KEY, body VARCHAR(9))"
    inserts = [f"INSERT INTO docs VALUES ({value}, '')" for value in values]
    return new_table(server, replace(PAGED, page_rows=1), table, *inserts)


def keys_of(table: TableQuery, key_range: KeyRange = ALL) -> list[Any]:
    return [row[0] for row in chain.from_iterable(pages(table, key_range))]


def database_of(table: TableQuery) -> str:
    path = sa.make_url(table.mapping.connection).database or ""
    return path.rpartition("/")[2].removesuffix(".db")


def test_rows_are_read_in_pages_in_the_order_of_their_keys(server: AnyServer) -> None:
    assert list(pages(new_table(server, PAGED, *FIVE))) == [
        [(1, "a"), (2, "b")],
        [(3, "c"), (4, "d")],
        [(5, "e")],
    ]


@pytest.mark.parametrize(
    ("key_range", "keys"),
    [
        (KeyRange(after="[2]"), [3, 4, 5]),
        (KeyRange(upto="[2]"), [1, 2]),
        (KeyRange(after="[1]", upto="[4]"), [2, 3, 4]),
        (KeyRange(after="[5]"), []),
    ],
)
def test_a_range_has_the_rows_after_one_key_up_to_another(
    server: AnyServer, key_range: KeyRange, keys: list[int]
) -> None:
    assert keys_of(new_table(server, PAGED, *FIVE), key_range) == keys


def test_the_next_page_is_read_while_a_page_is_converted(remote: Server) -> None:
    mapping = new_mapping(remote, PAGED, *FIVE)
    statements: list[str] = []

    def listen(_connection: object, _cursor: object, statement: str, *_others: object) -> None:
        if "LIMIT" in statement:
            statements.append(statement)

    sa.event.listen(sa.Engine, "after_cursor_execute", listen)
    try:
        with closing(read_rows(span(), mapping=mapping)) as rows:
            next(rows)
            wait_until(lambda: len(statements) == 2)
            next(rows)
            assert len(statements) == 2
            next(rows)
            wait_until(lambda: len(statements) == 3)
        assert len(statements) == 3
    finally:
        sa.event.remove(sa.Engine, "after_cursor_execute", listen)


def test_no_page_is_being_read_after_a_reader_is_closed(remote: Server) -> None:
    rows = read_rows(span(), mapping=new_mapping(remote, PAGED, *FIVE))
    next(rows)
    assert page_threads() == 1
    rows.close()
    assert page_threads() == 0


def test_a_thread_that_reads_a_page_waits_less_long_for_the_one_that_converts(
    remote: Server,
) -> None:
    before = sys.getswitchinterval()
    with closing(read_rows(span(), mapping=new_mapping(remote, PAGED, *FIVE))) as rows:
        next(rows)
        assert sys.getswitchinterval() < before
    assert sys.getswitchinterval() == before


@pytest.mark.slow
def test_a_page_of_postgresql_arrives_in_one_call(
    postgresql_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[str] = []
    wait = psycopg.Connection.wait

    def record(connection: psycopg.Connection[Any], *arguments: Any) -> object:
        waiting.append(threading.current_thread().name)
        return wait(connection, *arguments)

    monkeypatch.setattr(psycopg.Connection, "wait", record)
    with closing(read_rows(span(), mapping=new_mapping(postgresql_server, PAGED, *FIVE))) as rows:
        next(rows)
        assert any(name.startswith("next-page") for name in waiting)
        waiting.clear()
        assert len([*rows]) == 4
    assert not any(name.startswith("next-page") for name in waiting)


def page_threads() -> int:
    return sum(thread.name.startswith("next-page") for thread in threading.enumerate())


def test_keys_of_three_columns_are_paged(server: AnyServer) -> None:
    columns = "a INT NOT NULL, b VARCHAR(9) NOT NULL, id INT NOT NULL"
    table = f"CREATE TABLE docs ({columns}, body TEXT, PRIMARY KEY (a, b, id))"
    values = "INSERT INTO docs VALUES (1,'x',1,''), (1,'x',2,''), (1,'y',1,''), (2,'a',0,'')"
    rows = chain.from_iterable(pages(new_table(server, replace(PAGED, page_rows=1), table, values)))
    assert [row[:3] for row in rows if type(row) is tuple] == [
        (1, "x", 1),
        (1, "x", 2),
        (1, "y", 1),
        (2, "a", 0),
    ]


TIMES = ["2026-01-02 03:04:05.000002", "2026-01-02 03:04:05.000001", "2026-01-02"]
MORNING = datetime(2026, 1, 2, 3, 4, 5)
LARGE = ["123456789012345678901234567.88", "123456789012345678901234567.89"]


def times(zone: tzinfo | None) -> list[datetime]:
    moments = datetime(2026, 1, 2), MORNING.replace(microsecond=1), MORNING.replace(microsecond=2)
    return [moment.replace(tzinfo=zone) for moment in moments]


@pytest.mark.parametrize(
    ("server", "type_", "values", "keys"),
    [
        ("sqlite", "TEXT", LARGE[::-1], LARGE),
        ("postgresql", "DECIMAL(30, 2)", LARGE[::-1], list(map(Decimal, LARGE))),
        ("mariadb", "DECIMAL(30, 2)", LARGE[::-1], list(map(Decimal, LARGE))),
        ("postgresql", "TIMESTAMP(6)", TIMES, times(None)),
        ("postgresql", "TIMESTAMPTZ", [f"{time}+00" for time in TIMES], times(UTC)),
        ("mariadb", "TIMESTAMP(6)", TIMES, times(UTC)),
        ("sqlite", "BLOB", [b"\x00\xff", b"\x00\x01"], [b"\x00\x01", b"\x00\xff"]),
        ("postgresql", "BYTEA", ["\\x00ff", "\\x0001"], [b"\x00\x01", b"\x00\xff"]),
        ("mariadb", "VARBINARY(9)", [b"\x00\xff", b"\x00\x01"], [b"\x00\x01", b"\x00\xff"]),
        ("mariadb", "VARCHAR(9) COLLATE utf8mb4_general_ci", ["b", "A", "C"], ["A", "b", "C"]),
        ("sqlite", "", [b"\x00", "a", 1], [1, "a", b"\x00"]),
    ],
    indirect=["server"],
)
@pytest.mark.slow
def test_keys_of_a_type_are_in_the_order_of_the_database(
    server: AnyServer, type_: str, values: list[Any], keys: list[Any]
) -> None:
    assert keys_of(keyed(server, type_, *map(as_sql, values))) == keys


def as_sql(value: object) -> str:
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    return f"'{value}'" if isinstance(value, str) else str(value)


@pytest.mark.parametrize(
    "values",
    [
        ("a", "b", "ab"),
        ("Zoë 🎉", "Zoe", "zoë 🎊"),
        ("it's", 'a "b"', "100%", ":x", "a\\b"),
        ("", " ", "  x"),
        ("%s", "%(x)s", "?", "{id}"),
    ],
)
def test_keys_can_be_any_texts(server: AnyServer, values: Sequence[str]) -> None:
    """In the order of the database, none twice, and none left out."""
    slash = "\\\\" if server.scheme == "mariadb" else "\\"
    written = [value.replace("'", "''").replace("\\", slash) for value in values]
    binary = " COLLATE utf8mb4_nopad_bin" if server.scheme == "mariadb" else ""
    table = keyed(server, f"VARCHAR(40){binary}", *(f"'{value}'" for value in written))
    assert sorted(map(str, keys_of(table))) == sorted(values)


def test_a_key_of_another_type_is_refused(server: AnyServer) -> None:
    """A float that compares differently from the column would be read for ever."""
    type_ = "DOUBLE" if server.scheme == "mariadb" else "REAL"
    with pytest.raises(ConfigError, match="key: a value of the type float; expected"):
        keys_of(keyed(server, type_, "0.1", "0.2"))


def test_rows_with_null_in_the_key_are_in_no_page(server: AnyServer) -> None:
    table = "CREATE TABLE docs (a INT, id INT, body VARCHAR(9))"
    values = "INSERT INTO docs VALUES (1, 1, ''), (1, NULL, ''), (NULL, 2, ''), (2, 1, '')"
    rows = pages(new_table(server, replace(PAGED, key=("a", "id")), table, values))
    assert [write_key(tuple(row[:2])) for row in chain.from_iterable(rows)] == ["[1,1]", "[2,1]"]


def test_a_row_that_is_deleted_meanwhile_is_left_out(server: AnyServer) -> None:
    table = new_table(server, PAGED, *FIVE)
    others = pages(table)
    next(others)
    server.execute(database_of(table), ["DELETE FROM docs WHERE id = 3"])
    assert list(others) == [[(4, "d"), (5, "e")]]


LARGE_TYPES = {
    "sqlite": ("BLOB", "TEXT"),
    "postgresql": ("BYTEA", "TEXT"),
    "mariadb": ("LONGBLOB", "LONGTEXT"),
}


def letters(server: AnyServer, length: int, letter: str = "x") -> str:
    if server.scheme == "sqlite":
        return f"replace(hex(zeroblob({length})), '00', '{letter}')"
    return f"repeat('{letter}', {length})"


def many_bytes(server: AnyServer, length: int) -> str:
    """Bytes that count up to 255, and again, as SQL."""
    counted = "".join(f"{number:02x}" for number in range(256))
    if server.scheme == "postgresql":
        return f"decode(repeat('{counted}', {length // 256}), 'hex')"
    if server.scheme == "mariadb":
        return f"unhex(repeat('{counted}', {length // 256}))"
    return f"CAST(x'{counted * (length // 256)}' AS BLOB)"


def wide(server: AnyServer, *rows: tuple[str, str], **keys: Any) -> TableQuery:
    """Rows of bytes and a text, written in SQL."""
    blob, text = LARGE_TYPES[server.scheme]
    table = f"CREATE TABLE docs (id INT NOT NULL PRIMARY KEY, body {blob}, note {text})"
    inserts = [
        f"INSERT INTO docs VALUES ({number}, {body}, {note})"
        for number, (body, note) in enumerate(rows)
    ]
    mapping = replace(PAGED, metadata=(MetadataColumn(column="note"),), page_rows=1000)
    return new_table(server, replace(mapping, **keys), table, *inserts)


def test_a_large_value_is_left_out_of_a_page(server: AnyServer) -> None:
    table = wide(server, ("NULL", "'xxx'"), ("NULL", letters(server, 65537)))
    assert list(pages(table)) == [[(0, None, "xxx"), IncompleteRow((1, None, None), "note")]]


def test_sizes_are_asked_for_after_the_first_page_with_a_large_value(
    sqlite_server: Sqlite,
) -> None:
    """Rows that are large together, and so refused with them, are read as they are."""
    large, small = ("NULL", letters(sqlite_server, 65537)), ("x'00'", "'a'")
    two = (letters(sqlite_server, 40_000), letters(sqlite_server, 40_000, "y"))
    table = wide(sqlite_server, small, two, large, small, small, page_rows=2)
    assert list(pages(table)) == [
        [(0, b"\0", "a"), (1, "x" * 40_000, "y" * 40_000)],
        [IncompleteRow((2, None, None), "note"), (3, b"\0", "a")],
        [(4, b"\0", "a")],
    ]


def test_rows_that_are_large_where_they_are_sorted_are_read(sqlite_server: Sqlite) -> None:
    query = "SELECT id + 0 AS id, body, note FROM docs"
    two = (letters(sqlite_server, 40_000), letters(sqlite_server, 40_000, "y"))
    stored = wide(sqlite_server, two, ("NULL", "'z'"))
    table = open_table(replace(stored.mapping, table=None, query=query, key=("id",)))
    assert list(pages(table)) == [[(0, "x" * 40_000, "y" * 40_000), (1, None, "z")]]


@pytest.mark.parametrize(
    ("max_bytes", "body"), [(1 << 18, bytes(range(256)) * 1024), ((1 << 18) - 1, None)]
)
def test_a_row_with_large_values_is_read_alone_up_to_the_limit(
    server: AnyServer, max_bytes: int, body: bytes | None
) -> None:
    table = wide(server, (many_bytes(server, 1 << 18), letters(server, 100_000, "ä")))
    row = (0, body, "ä" * 100_000)
    result = PageReader(table, ALL).read_alone(
        IncompleteRow((0, None, None), "body"), max_bytes=max_bytes
    )
    table.session.close()
    assert result == (row if body else IncompleteRow(row, "body"))


def test_a_large_row_that_is_deleted_meanwhile_is_left_out(server: AnyServer) -> None:
    table = wide(server, ("NULL", "NULL"))
    result = PageReader(table, ALL).read_alone(IncompleteRow((8, None, None), "body"), max_bytes=9)
    table.session.close()
    assert result is None


@pytest.mark.parametrize("type_", ["JSON", "JSONB"])
def test_large_json_is_text(postgresql_server: Server, type_: str) -> None:
    table = f"CREATE TABLE docs (id INT PRIMARY KEY, body {type_})"
    values = "INSERT INTO docs VALUES (7, to_json(repeat('y', 70000)))"
    (result,) = read(new_mapping(postgresql_server, PAGED, table, values))
    assert isinstance(result, Record)
    assert result.content == Content(b'"' + b"y" * 70000 + b'"')


def test_pages_of_wide_rows_have_fewer_rows(sqlite_server: Sqlite) -> None:
    rows = [(letters(sqlite_server, 65537), letters(sqlite_server, 60_000))] * 300
    assert [len(page) for page in pages(wide(sqlite_server, *rows, page_rows=150))] == [
        150,
        139,
        11,
    ]


def many(server: Server, *, port: int = 0, count: int = 2000) -> tuple[TableQuery, str]:
    """Rows of 1 kB in pages of 100, and the name of their database."""
    digit = " UNION ALL ".join(f"SELECT {number} AS n" for number in range(10))
    numbers = (
        f"SELECT 1000 * d.n + 100 * c.n + 10 * b.n + a.n + 1 AS i FROM ({digit}) a, ({digit}) b, "
        f"({digit}) c, ({digit}) d"
    )
    fill = f"INSERT INTO docs SELECT i, repeat('x', 1000) FROM ({numbers}) ns WHERE i <= {count}"
    table = "CREATE TABLE docs (id INT NOT NULL PRIMARY KEY, body VARCHAR(2000))"
    database = server.new_database(table, fill)
    url = server.url(database, port=port)
    return open_table(replace(PAGED, connection=url, page_rows=100)), database


def test_a_lost_connection_is_replaced(remote: Server) -> None:
    table, database = many(remote)
    result = pages(table, pauses=[])
    first = [row[0] for _ in range(3) for row in next(result)]
    wait_until(lambda: remote.connections(database) == 1)
    remote.end_connections(database)
    others = [row[0] for row in chain.from_iterable(result)]
    assert first + others == list(range(1, 2001))


def test_a_page_that_is_cut_in_the_middle_is_read_again(remote: Server) -> None:
    """The first connection reads the columns; the next two break off in their second page."""
    with closing(Proxy(remote.port, [1 << 20, 150_000, 150_000])) as proxy:
        table, _ = many(remote, port=proxy.port)
        result = [row[0] for row in chain.from_iterable(pages(table, pauses=[]))]
    assert result == list(range(1, 2001))
    assert proxy.connections == 4


def test_a_page_that_is_cut_too_often_ends_the_run(remote: Server) -> None:
    pauses: list[float] = []
    with closing(Proxy(remote.port, [1 << 20, 150_000, *[30_000] * 9])) as proxy:
        table, database = many(remote, port=proxy.port)
        result = pages(table, KeyRange(upto="[1500]"), pauses=pauses)
        first = next(result)
        with pytest.raises(SourceError) as caught:
            next(result)
    assert [row[0] for row in first] == list(range(1, 101))
    assert len(pauses) == 5
    place = f"{remote.scheme}://127.0.0.1:{proxy.port}/{database}"
    assert str(caught.value).startswith(f"{place}, table 'docs', rows after [100] up to [1500]: ")
    assert str(caught.value).endswith(
        " (6 times); expected a database that answers, and a login that may read it"
    )
    assert "s3same" not in repr(caught.value)


def test_wrong_sql_is_not_retried(server: AnyServer) -> None:
    table = new_table(server, PAGED, *FIVE)
    pauses: list[float] = []
    server.execute(database_of(table), ["ALTER TABLE docs RENAME COLUMN body TO text"])
    with pytest.raises(ConfigError, match="; expected SQL that this database understands"):
        list(pages(table, pauses=pauses))
    assert pauses == []


def test_a_locked_file_is_retried(sqlite_server: Sqlite) -> None:
    table = new_table(sqlite_server, PAGED, *FIVE)
    failures = [sqlite3.OperationalError("database is locked")] * 2

    def lock(*_: object) -> None:
        if failures:
            raise sa.exc.OperationalError("", None, failures.pop())

    sa.event.listen(table.session.engine, "before_cursor_execute", lock)
    assert next(pages(table, pauses=[])) == [(1, "a"), (2, "b")]


@pytest.mark.slow
def test_a_value_that_python_cannot_hold_costs_its_row_only(sqlite_server: Sqlite) -> None:
    table = "CREATE TABLE docs (id INT PRIMARY KEY, body TEXT, changed TIMESTAMP)"
    value = "CAST(x'c3' AS TEXT)"
    rows = f"INSERT INTO docs VALUES (1, '', NULL), (2, '', {value}), (3, '', NULL)"
    mapping = replace(PAGED, modified="changed", page_rows=3)
    items = pages(new_table(sqlite_server, mapping, table, rows))
    first, second, third = chain.from_iterable(items)
    assert (first, third) == ((1, "", None), (3, "", None))
    assert isinstance(second, IncompleteRow)
    assert second.row == (2, None, None)


TORN = "CREATE VIEW torn AS SELECT id, body, 6 / (id - 3) AS part FROM docs"


@pytest.mark.kind("database")
def test_a_row_that_cannot_be_read_costs_no_other(postgresql_server: Server) -> None:
    mapping = replace(PAGED, table="torn", key=("id",), title="part", page_rows=4)
    assert list(pages(new_table(postgresql_server, mapping, *FIVE, TORN))) == [
        [(1, "a", -3)],
        [(2, "b", -6)],
        [IncompleteRow((3, None, None), unreadable="division by zero")],
        [(4, "d", 6), (5, "e", 3)],
    ]


def test_a_key_that_cannot_be_read_ends_the_run(postgresql_server: Server) -> None:
    mapping = replace(PAGED, table="torn", key=("part",))
    with pytest.raises(ConfigError, match="key: part of table 'torn': division by zero; expected"):
        list(pages(new_table(postgresql_server, mapping, *FIVE, TORN)))


DOCS = (
    "CREATE TABLE docs (id INT NOT NULL PRIMARY KEY, body VARCHAR(40), state VARCHAR(9), rev INT)",
    "INSERT INTO docs VALUES (1, 'a', 'live', 7), (2, 'b', 'delete', 8), (3, NULL, 'live', 9)",
    "CREATE TABLE tags (doc INT, tag VARCHAR(40), weight INT)",
    "INSERT INTO tags VALUES (1, 'y', 2), (1, 'x', 3), (3, 'w', 4), (9, 'v', 5)",
    "CREATE TABLE readers (doc INT, name VARCHAR(40))",
    "INSERT INTO readers VALUES (1, 'anna')",
)
TAGS = "SELECT doc, tag FROM tags"
MAPPING = replace(
    PAGED,
    mimetype="text/plain",
    action=ActionColumn(column="state"),
    incremental=IncrementalReading(timestamp="rev"),
)
ORIGIN = Provenance(source="people", span=4)
ONE = Record(
    url="https://docs.example.com/1",
    action=Action.ADD,
    arrival=Arrival.PUSHED,
    content=Content(b"a"),
    mimetype="text/plain",
    charset="utf-8",
    provenance=ORIGIN,
)
TWO = Record(url="https://docs.example.com/2", action=Action.DELETE, provenance=ORIGIN)


@pytest.fixture
def opened() -> Iterator[list[TableQuery]]:
    """Tables whose sessions are closed after the test."""
    tables: list[TableQuery] = []
    yield tables
    for table in tables:
        table.session.close()


def lookup(
    server: AnyServer, opened: list[TableQuery], *page: tuple[Any, ...], **keys: Any
) -> LookupQueries:
    """Lookup queries for the keys of a page."""
    opened.append(new_table(server, replace(MAPPING, **keys), *DOCS))
    lookups = LookupQueries(opened[0])
    lookups.load_page(page[0], page[-1])
    return lookups


def test_a_lookup_query_returns_the_sorted_rows_of_a_key(
    server: AnyServer, opened: list[TableQuery]
) -> None:
    lookups = lookup(server, opened, (1,), (2,))
    query = "SELECT doc, -weight, tag FROM tags ORDER BY tag DESC"
    assert lookups(TAGS, (1,)) == [("x",), ("y",)]
    assert lookups(query, (1,)) == [(-3, "x"), (-2, "y")]
    assert (lookups(TAGS, (2,)), lookups(TAGS, (3,))) == ((), ())


def test_a_lookup_query_is_joined_by_all_columns_of_the_key(
    server: AnyServer, opened: list[TableQuery]
) -> None:
    lookups = lookup(server, opened, ("a", 1), ("b", 2), key=("body", "id"))
    query = "SELECT 'a' AS part, doc, tag FROM tags WHERE weight > 2"
    assert (lookups(query, ("a", 1)), lookups(query, ("b", 2))) == ([("x",)], ())


def test_the_database_compares_the_keys_of_a_lookup_query(
    mariadb_server: Server, opened: list[TableQuery]
) -> None:
    """A list of principals must not be lost because one table writes a key in capitals."""
    lookups = lookup(mariadb_server, opened, ("a",), ("c",), key=("body",))
    assert lookups("SELECT 'B ', tag FROM tags WHERE doc = 3", ("b",)) == [("w",)]


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        ("SELECT doc::text, tag FROM tags", ConfigError, ": operator does not exist: text = "),
        ("SELECT doc FROM tags", ConfigError, " selects doc; expected the key, id, and then a"),
        (
            "SELECT doc, 1 / (weight - 3) FROM tags",
            SourceError,
            ": division by zero; expected values that can be read",
        ),
    ],
)
def test_a_wrong_lookup_query_ends_the_run(
    postgresql_server: Server,
    opened: list[TableQuery],
    query: str,
    error: type[Exception],
    message: str,
) -> None:
    lookups = lookup(postgresql_server, opened, (1,), (3,))
    with pytest.raises(error) as caught:
        lookups(query, (1,))
    assert f"{query!r}{message}" in str(caught.value)


def test_a_lookup_query_is_repeated_after_a_lost_connection(remote: Server) -> None:
    database = remote.new_database(*DOCS)
    with closing(Proxy(remote.port, [1 << 20, 100])) as proxy:
        url = remote.url(database, port=proxy.port)
        table = open_table(replace(MAPPING, connection=url))
        session = Session(table.mapping, table.session.engine, sleep=lambda seconds: None)
        with closing(session):
            lookups = LookupQueries(with_fields(table, session=session))
            lookups.load_page((1,), (1,))
            assert lookups(TAGS, (1,)) == [("x",), ("y",)]


def test_a_session_that_is_stopped_does_not_wait_for_a_lost_connection(remote: Server) -> None:
    database, pauses = remote.new_database(*DOCS), list[float]()
    with closing(Proxy(remote.port, [1 << 20, *[100] * 9])) as proxy:
        table = open_table(replace(MAPPING, connection=remote.url(database, port=proxy.port)))
        with closing(Session(table.mapping, table.session.engine, sleep=pauses.append)) as session:
            session.stop_waiting()
            with pytest.raises(SourceError):
                with_fields(table, session=session).run(sa.text("SELECT 1"), is_retried=True)
    assert pauses == []


def span(key_range: KeyRange = ALL) -> Span:
    return Span(source="people", ordinal=4, format=DATABASE, position=key_range)


def read(mapping: RowMapping, key_range: KeyRange = ALL, **options: Any) -> list[ReadResult]:
    return list(read_rows(span(key_range), mapping=mapping, options=ReadOptions(**options)))


def test_rows_become_records_deletions_and_rejects(server: AnyServer) -> None:
    *records, reject = read(new_mapping(server, MAPPING, *DOCS))
    assert records == [ONE, TWO]
    assert isinstance(reject, Reject)


def test_lookup_queries_run_for_each_page(server: AnyServer) -> None:
    tags = MetadataColumn(name="tag", query=TAGS)
    readers = "SELECT doc, name, 'user' AS scope, 'permit' AS access FROM readers"
    mapping = replace(
        MAPPING, metadata=(tags,), acl=AclSource(query=readers), content=ContentSource(is_none=True)
    )
    outcomes = read(new_mapping(server, mapping, *DOCS))
    anna = Principal(name="anna", scope=Scope.USER, access=Access.PERMIT)
    assert [(item.metadata, item.acl) for item in outcomes if isinstance(item, Record)] == [
        ((Meta("tag", "x"), Meta("tag", "y")), Acl(principals=(anna,))),
        ((), None),
        ((Meta("tag", "w"),), Acl()),
    ]


def test_rows_of_a_join_become_records(server: AnyServer) -> None:
    query = "SELECT t.tag, d.id, d.body, d.state, d.rev FROM docs d JOIN tags t ON t.doc = d.id"
    mapping = replace(MAPPING, table=None, query=query, key=("id", "tag"))
    mapping = replace(mapping, url="https://docs.example.com/{id}/{tag}")
    outcomes = read(new_mapping(server, mapping, *DOCS))
    assert [item.url for item in outcomes if isinstance(item, Record | Reject)] == [
        "https://docs.example.com/1/x",
        "https://docs.example.com/1/y",
        "https://docs.example.com/3/w",
    ]


def test_a_row_with_null_in_its_key_is_rejected(server: AnyServer) -> None:
    table = "CREATE TABLE docs (id INT, body VARCHAR(40), state VARCHAR(9), rev INT)"
    row = "INSERT INTO docs VALUES (NULL, 'a', 'live', 7)"
    mapping = new_mapping(server, replace(MAPPING, key=("id",)), table, row)
    assert read(mapping, KeyRange(has_null_keys=True)) == [
        Reject(
            code="null-key",
            key="id=NULL",
            reason="NULL in the key; expected a value in each key column",
            stage="read",
            source="people",
            span=4,
            length=12,
            data=b'{"id": null}',
        )
    ]


def test_a_row_that_cannot_be_read_is_rejected(postgresql_server: Server) -> None:
    view = "CREATE VIEW torn AS SELECT id, body, state, 6 / (id - 2) AS rev FROM docs WHERE id < 3"
    mapping = replace(MAPPING, table="torn", key=("id",))
    assert read(new_mapping(postgresql_server, mapping, *DOCS, view)) == [
        ONE,
        Reject(
            code="unreadable",
            key="id=2",
            reason="division by zero; expected values that can be read",
            stage="read",
            source="people",
            span=4,
            length=9,
            data=b'{"id": 2}',
        ),
    ]


def large(server: AnyServer, state: str = "live") -> RowMapping:
    """A row with a document of 100,000 letters."""
    _, text = LARGE_TYPES[server.scheme]
    table = f"CREATE TABLE docs (id INT NOT NULL PRIMARY KEY, body {text}, state TEXT, rev INT)"
    values = f"INSERT INTO docs VALUES (1, {letters(server, 100_000)}, '{state}', 7)"
    return new_mapping(server, MAPPING, table, values)


def test_a_large_document_is_read_whole(server: AnyServer) -> None:
    (result,) = read(large(server))
    assert isinstance(result, Record)
    assert result.content == Content(b"x" * 100_000)


def test_a_document_that_is_too_large_is_rejected(server: AnyServer) -> None:
    assert read(large(server), max_content_bytes=99_999) == [
        Reject(
            code="content-too-large",
            key="id=1",
            reason="body has more than 99999 bytes; expected at most that; raise "
            "--max-content-bytes to read it",
            stage="read",
            source="people",
            span=4,
            url="https://docs.example.com/1",
            action="ADD",
            length=36,
            data=b'{"id": 1, "state": "live", "rev": 7}',
        )
    ]


def test_a_deletion_needs_no_document(server: AnyServer) -> None:
    (result,) = read(large(server, "delete"), max_content_bytes=99_999)
    assert isinstance(result, Record)
    assert result.action is Action.DELETE


def changes_of(mapping: RowMapping, whole: Span = span()) -> list[StateChange]:
    changes: list[StateChange] = []
    list(read_rows(whole, mapping=mapping, see=changes.append))
    return changes


def test_the_state_gets_key_url_and_timestamp_of_a_row(server: AnyServer) -> None:
    changes = changes_of(new_mapping(server, MAPPING, *DOCS))
    documents = [change.document for change in changes]
    assert [(entry.key, entry.url, entry.fingerprint) for entry in documents] == [
        ("[1]", "https://docs.example.com/1", "7"),
        ("[2]", "https://docs.example.com/2", "8"),
        ("[3]", "https://docs.example.com/3", "9"),
    ]
    assert [change.is_deleted for change in changes] == [False, True, False]


def test_a_digest_does_not_depend_on_the_span(sqlite_server: Sqlite) -> None:
    mapping = new_mapping(sqlite_server, MAPPING, *DOCS)
    other = Span(source="elsewhere", ordinal=9, position=ALL)
    assert changes_of(mapping, other) == changes_of(mapping)


def test_a_digest_changes_with_lookup_queries(sqlite_server: Sqlite) -> None:
    query = "SELECT doc, name, 'user', 'permit' FROM readers"
    mapping = new_mapping(sqlite_server, replace(MAPPING, acl=AclSource(query=query)), *DOCS)
    before = changes_of(mapping)
    database = mapping.connection.rpartition("/")[2].removesuffix(".db")
    sqlite_server.execute(database, ["UPDATE readers SET name = 'ben'"])
    pairs = zip(before, changes_of(mapping), strict=True)
    assert [first.document.digest == second.document.digest for first, second in pairs] == [
        False,
        True,
        True,
    ]


def test_a_row_is_seen_before_its_outcome(sqlite_server: Sqlite) -> None:
    changes: list[StateChange] = []
    mapping = new_mapping(sqlite_server, MAPPING, *DOCS)
    with closing(read_rows(span(), mapping=mapping, see=changes.append)) as outcomes:
        next(outcomes)
        assert [change.document.key for change in changes] == ["[1]"]


def read_again(mapping: RowMapping, key_range: KeyRange = ALL, **changes: Any) -> list[ReadResult]:
    """The outcomes of a second run; `changes` replace fields of the state's entries."""
    entries: list[SentDocument] = [
        replace(change.document, **changes) for change in changes_of(mapping)
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "state")
        documents = sum(bool(entry.url) for entry in entries)
        write_state(path, StateHead(generation=1, documents=documents), entries)
        with open_state(path) as state:
            return list(read_rows(span(key_range), mapping=mapping, state=state))


def test_an_unchanged_row_is_filtered(server: AnyServer) -> None:
    first, second, third = read_again(new_mapping(server, MAPPING, *DOCS))
    assert first == Filtered(code="unchanged", url="", action="ADD", count=1)
    assert second == Filtered(code="unchanged", url="https://docs.example.com/2", action="DELETE")
    assert isinstance(third, Reject)


def test_a_row_without_a_signature_is_compared_by_its_digest(server: AnyServer) -> None:
    first, *_ = read_again(new_mapping(server, MAPPING, *DOCS), size=0)
    assert first == Filtered(code="unchanged", url="https://docs.example.com/1", action="ADD")


def test_a_row_is_sent_if_its_digest_differs_and_in_a_refresh(sqlite_server: Sqlite) -> None:
    mapping = new_mapping(sqlite_server, MAPPING, *DOCS)
    assert read_again(mapping, digest="0" * 64, size=0)[:2] == [ONE, TWO]
    assert read_again(mapping, KeyRange(is_refresh=True))[:2] == [ONE, TWO]


def test_a_deletion_that_was_sent_has_no_url_and_is_filtered(sqlite_server: Sqlite) -> None:
    mapping = new_mapping(sqlite_server, MAPPING, *DOCS)
    assert isinstance(read_again(mapping, url="")[1], Filtered)


def test_a_missing_database_ends_the_run(remote: Server) -> None:
    mapping = new_mapping(remote, MAPPING, *DOCS)
    read(mapping)
    remote.execute("", [f"DROP DATABASE {mapping.connection.rpartition('/')[2]}"])
    with pytest.raises((SourceError, ConfigError)) as caught:
        read(mapping)
    assert "s3same" not in repr(caught.value)
