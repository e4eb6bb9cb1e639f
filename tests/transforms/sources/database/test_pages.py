"""Pages of rows: order, completeness, memory limits, and recovery after a lost connection."""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from itertools import chain

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from schemas.errors import ConfigError, SourceError
from schemas.span import KeyRange
from support.databases import Proxy, Server, Sqlite
from support.served import wait_until
from transforms.sources.database.connection import connect
from transforms.sources.database.keys import write_key
from transforms.sources.database.mapping import ContentSource, MetadataColumn, RowMapping
from transforms.sources.database.pages import (
    CompleteRow,
    LargeValueReader,
    PageReader,
    PageRow,
    PartialRow,
    UnreadableRow,
)
from transforms.sources.database.session import DEFAULT_PAUSES, Pauses, Session
from transforms.sources.database.table_query import TableQuery, open_rows

MAPPING = RowMapping(
    connection="",
    table="docs",
    url="https://docs.example.com/{id}",
    content=ContentSource(column="body"),
    page_rows=2,
    retries=2,
    backoff_seconds=1,
)
FIVE = (
    "CREATE TABLE docs (id INT NOT NULL PRIMARY KEY, body VARCHAR(40))",
    "INSERT INTO docs VALUES (5, 'e'), (3, 'c'), (1, 'a'), (2, 'b'), (4, 'd')",
)
ALL = KeyRange()


def opened(server: Server | Sqlite, *statements: str, mapping: RowMapping = MAPPING) -> TableQuery:
    connection = server.url(server.new_database(*statements))
    mapping = replace(mapping, connection=connection)
    return open_rows(mapping, connect(mapping))


def pages(
    rows: TableQuery, key_range: KeyRange, *, pauses: Pauses = DEFAULT_PAUSES
) -> Iterator[list[PageRow]]:
    with closing(Session(rows.mapping, rows.engine, pauses=pauses)) as session:
        yield from PageReader(rows, key_range, session)


def keyed(server: Server | Sqlite, sort: str, *values: str) -> TableQuery:
    """TableQuery whose key has a type, and these values, written in SQL."""
    table = f"CREATE TABLE docs (id {sort} NOT NULL PRIMARY KEY, body VARCHAR(9))"
    inserts = [f"INSERT INTO docs VALUES ({value}, '')" for value in values]
    return opened(server, table, *inserts, mapping=replace(MAPPING, page_rows=1))


def keys_of(rows: TableQuery, key_range: KeyRange = ALL) -> list[object]:
    return [row[0] for row in chain.from_iterable(pages(rows, key_range))]


def test_rows_come_in_pages_in_the_order_of_their_keys(server: Server | Sqlite) -> None:
    assert list(pages(opened(server, *FIVE), ALL)) == [
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
    server: Server | Sqlite, key_range: KeyRange, keys: list[int]
) -> None:
    assert keys_of(opened(server, *FIVE), key_range) == keys


def test_keys_of_three_columns_are_paged_through(server: Server | Sqlite) -> None:
    columns = "a INT NOT NULL, b VARCHAR(9) NOT NULL, id INT NOT NULL"
    table = f"CREATE TABLE docs ({columns}, body TEXT, PRIMARY KEY (a, b, id))"
    values = "INSERT INTO docs VALUES (1,'x',1,''), (1,'x',2,''), (1,'y',1,''), (2,'a',0,'')"
    rows = opened(server, table, values, mapping=replace(MAPPING, page_rows=1))
    found = [row[:3] for row in chain.from_iterable(pages(rows, ALL)) if type(row) is tuple]
    assert found == [(1, "x", 1), (1, "x", 2), (1, "y", 1), (2, "a", 0)]


def test_keys_are_numbers_beyond_any_register(server: Server | Sqlite) -> None:
    sort = "TEXT" if server.scheme == "sqlite" else "DECIMAL(30, 2)"
    one, other = "'123456789012345678901234567.89'", "'123456789012345678901234567.88'"
    found = [Decimal(str(key)) for key in keys_of(keyed(server, sort, one, other))]
    assert found == [
        Decimal("123456789012345678901234567.88"),
        Decimal("123456789012345678901234567.89"),
    ]


def test_keys_are_times_to_the_microsecond(remote: Server) -> None:
    sort = "TIMESTAMP(6)"
    values = ("'2026-01-02 03:04:05.000002'", "'2026-01-02 03:04:05.000001'", "'2026-01-02'")
    zone = UTC if remote.scheme == "mariadb" else None
    assert keys_of(keyed(remote, sort, *values)) == [
        datetime(2026, 1, 2, tzinfo=zone),
        datetime(2026, 1, 2, 3, 4, 5, 1, tzinfo=zone),
        datetime(2026, 1, 2, 3, 4, 5, 2, tzinfo=zone),
    ]


def test_keys_are_times_in_a_zone(postgresql_server: Server) -> None:
    values = ("'2026-01-02 03:04:05.000001+02'", "'2026-01-02 01:04:05+00'")
    assert keys_of(keyed(postgresql_server, "TIMESTAMPTZ", *values)) == [
        datetime(2026, 1, 2, 1, 4, 5, tzinfo=UTC),
        datetime(2026, 1, 2, 1, 4, 5, 1, tzinfo=UTC),
    ]


def test_keys_are_bytes(server: Server | Sqlite) -> None:
    sorts = {"postgresql": "BYTEA", "mariadb": "VARBINARY(9)", "sqlite": "BLOB"}
    values = ("'\\x00ff'", "'\\x0001'") if server.scheme == "postgresql" else ("x'00ff'", "x'0001'")
    assert keys_of(keyed(server, sorts[server.scheme], *values)) == [b"\x00\x01", b"\x00\xff"]


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
def test_keys_are_any_texts(server: Server | Sqlite, values: Sequence[str]) -> None:
    """In the order of the database, none twice, and none left out."""
    slash = "\\\\" if server.scheme == "mariadb" else "\\"
    written = [value.replace("'", "''").replace("\\", slash) for value in values]
    binary = " COLLATE utf8mb4_bin" if server.scheme == "mariadb" else ""
    if "" in values and server.scheme == "mariadb":
        binary = " COLLATE utf8mb4_nopad_bin"
    rows = keyed(server, f"VARCHAR(40){binary}", *(f"'{value}'" for value in written))
    assert sorted(map(str, keys_of(rows))) == sorted(values)


def test_keys_are_texts_of_a_collation_that_ignores_case(mariadb_server: Server) -> None:
    rows = keyed(mariadb_server, "VARCHAR(9) COLLATE utf8mb4_general_ci", "'b'", "'A'", "'C'")
    assert keys_of(rows) == ["A", "b", "C"]


def test_keys_are_texts_of_an_enum_in_its_order(postgresql_server: Server) -> None:
    kind = "CREATE TYPE size AS ENUM ('small', 'large')"
    table = "CREATE TABLE docs (id size PRIMARY KEY, body TEXT)"
    values = "INSERT INTO docs VALUES ('large', ''), ('small', '')"
    rows = opened(postgresql_server, kind, table, values, mapping=replace(MAPPING, page_rows=1))
    assert keys_of(rows) == ["small", "large"]


def test_keys_are_of_several_types_in_sqlite(sqlite_server: Sqlite) -> None:
    """Numbers come first there, then texts, then bytes."""
    assert keys_of(keyed(sqlite_server, "", "x'00'", "'a'", "1")) == [1, "a", b"\x00"]


def test_a_key_of_another_type_is_refused(server: Server | Sqlite) -> None:
    """A float that compares differently from the column would be read for ever."""
    sort = "DOUBLE" if server.scheme == "mariadb" else "REAL"
    with pytest.raises(ConfigError, match="key: a value of the type float; expected"):
        keys_of(keyed(server, sort, "0.1", "0.2"))


def test_rows_with_null_in_their_key_are_in_no_range_of_keys(server: Server | Sqlite) -> None:
    table = "CREATE TABLE docs (a INT, id INT, body VARCHAR(9))"
    values = "INSERT INTO docs VALUES (1, 1, ''), (1, NULL, ''), (NULL, 2, ''), (2, 1, '')"
    rows = opened(server, table, values, mapping=replace(MAPPING, key=("a", "id")))
    assert [write_key(tuple(row[:2])) for row in chain.from_iterable(pages(rows, ALL))] == [
        "[1,1]",
        "[2,1]",
    ]


def test_a_row_that_is_deleted_meanwhile_is_left_out(server: Server | Sqlite) -> None:
    rows = opened(server, *FIVE)
    found = pages(rows, ALL)
    next(found)
    engine = sa.make_url(rows.mapping.connection).database or ""
    server.execute(engine.rpartition("/")[2].removesuffix(".db"), ["DELETE FROM docs WHERE id = 3"])
    assert list(found) == [[(4, "d"), (5, "e")]]


def long_text(server: Server | Sqlite, length: int) -> str:
    if server.scheme == "sqlite":
        return f"replace(hex(zeroblob({length})), '00', 'x')"
    return f"repeat('x', {length})"


def wide(server: Server | Sqlite, *lengths: int) -> TableQuery:
    """TableQuery with texts of these lengths."""
    sort = "LONGTEXT" if server.scheme == "mariadb" else "TEXT"
    table = f"CREATE TABLE docs (id INT NOT NULL PRIMARY KEY, body {sort})"
    inserts = [
        f"INSERT INTO docs VALUES ({number}, {long_text(server, length)})"
        for number, length in enumerate(lengths)
    ]
    return opened(server, table, *inserts, mapping=replace(MAPPING, page_rows=1000))


def test_a_large_value_is_left_out(server: Server | Sqlite) -> None:
    assert list(pages(wide(server, 3, 65537), ALL)) == [[(0, "xxx"), PartialRow((1, None))]]


def test_pages_of_wide_rows_have_fewer(sqlite_server: Sqlite) -> None:
    rows = wide(sqlite_server, *[60_000] * 300)
    narrow = replace(rows.mapping, page_rows=100)
    rows = open_rows(narrow, rows.engine)
    first, *others = map(len, pages(rows, ALL))
    assert first == 100
    assert max(others) <= 139


def test_rows_without_their_large_values_are_wide_by_the_other_values(
    sqlite_server: Sqlite,
) -> None:
    numbers = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)"
    rows = opened(
        sqlite_server,
        "CREATE TABLE docs (id INT NOT NULL PRIMARY KEY, note TEXT, body BLOB)",
        f"{numbers} INSERT INTO docs SELECT i, printf('%.60000c', 'x'), zeroblob(65537) FROM n",
        mapping=replace(MAPPING, title="note", page_rows=150),
    )
    sizes = [len(page) for page in pages(rows, ALL)]
    assert sizes == [150, 139, 11]


def silent(_seconds: float) -> None: ...


PATIENT = Pauses(sleep=silent, chance=lambda: 1.0)


def many(server: Server, *, port: int = 0, count: int = 2000) -> tuple[TableQuery, str]:
    """TableQuery of 1 kB in pages of 100, and the name of their database."""
    digit = " UNION ALL ".join(f"SELECT {number} AS n" for number in range(10))
    numbers = (
        f"SELECT 1000 * d.n + 100 * c.n + 10 * b.n + a.n + 1 AS i FROM ({digit}) a, ({digit}) b, "
        f"({digit}) c, ({digit}) d"
    )
    fill = f"INSERT INTO docs SELECT i, repeat('x', 1000) FROM ({numbers}) ns WHERE i <= {count}"
    table = "CREATE TABLE docs (id INT NOT NULL PRIMARY KEY, body VARCHAR(2000))"
    database = server.new_database(table, fill)
    url = server.url(database, port=port)
    mapping = replace(MAPPING, connection=url, page_rows=100)
    return open_rows(mapping, connect(mapping)), database


def test_a_lost_connection_is_replaced(remote: Server) -> None:
    rows, database = many(remote)
    found = pages(rows, ALL, pauses=PATIENT)
    first = [row[0] for _ in range(3) for row in next(found)]
    wait_until(lambda: remote.connections(database) == 1)
    remote.end_connections(database)
    rest = [row[0] for row in chain.from_iterable(found)]
    assert first + rest == list(range(1, 2001))


@contextmanager
def cut(server: Server, cuts: Sequence[int]) -> Iterator[Proxy]:
    proxy = Proxy(server.port, cuts)
    try:
        yield proxy
    finally:
        proxy.close()


def test_a_page_that_is_cut_in_the_middle_is_read_again(remote: Server) -> None:
    """The first connection tells the columns; the next two break off in their second page."""
    with cut(remote, [1 << 20, 150_000, 150_000]) as proxy:
        rows, _ = many(remote, port=proxy.port)
        found = [row[0] for row in chain.from_iterable(pages(rows, ALL, pauses=PATIENT))]
    assert found == list(range(1, 2001))
    assert proxy.connections == 4


def test_a_page_that_is_cut_too_often_ends_it(remote: Server) -> None:
    pauses: list[float] = []
    with cut(remote, [1 << 20, 150_000, *[30_000] * 9]) as proxy:
        rows, database = many(remote, port=proxy.port)
        found = pages(rows, KeyRange(upto="[1500]"), pauses=replace(PATIENT, sleep=pauses.append))
        given = next(found)
        with pytest.raises(SourceError) as caught:
            next(found)
    assert [row[0] for row in given] == list(range(1, 101))
    assert pauses == [1.0, 2.0]
    place = f"{remote.scheme}://127.0.0.1:{proxy.port}/{database}"
    assert str(caught.value).startswith(f"{place}, table 'docs', rows after [100] up to [1500]: ")
    assert str(caught.value).endswith(
        " (3 times); expected a database that answers, and a login that may read it"
    )
    assert "s3same" not in repr(caught.value)


def test_wrong_sql_is_not_retried(server: Server | Sqlite) -> None:
    rows = opened(server, *FIVE)
    pauses: list[float] = []
    database = (sa.make_url(rows.mapping.connection).database or "").rpartition("/")[2]
    server.execute(database.removesuffix(".db"), ["ALTER TABLE docs RENAME COLUMN body TO text"])
    with pytest.raises(ConfigError, match="; expected SQL that this database understands"):
        list(pages(rows, ALL, pauses=replace(PATIENT, sleep=pauses.append)))
    assert pauses == []


def test_a_locked_file_is_retried(sqlite_server: Sqlite) -> None:
    rows = opened(sqlite_server, *FIVE)
    fails = iter([True, True, False])
    sa.event.listen(rows.engine, "before_cursor_execute", lock_of(lambda: next(fails)))
    assert keys_of_first_page(rows) == [1, 2]


def keys_of_first_page(rows: TableQuery) -> list[object]:
    return [row[0] for row in next(pages(rows, ALL, pauses=PATIENT))]


def lock_of(fails: Callable[[], bool]) -> Callable[..., None]:
    def lock(*_: object) -> None:
        if fails():
            raise sa.exc.OperationalError("", None, sqlite3.OperationalError("locked"))

    return lock


@pytest.mark.parametrize(
    ("scheme", "value"), [("postgresql", "'infinity'"), ("sqlite", "CAST(x'c3' AS TEXT)")]
)
def test_a_value_that_python_cannot_hold_costs_its_row_only(
    request: pytest.FixtureRequest, scheme: str, value: str
) -> None:
    server: Server | Sqlite = request.getfixturevalue(f"{scheme}_server")
    table = "CREATE TABLE docs (id INT PRIMARY KEY, body TEXT, changed TIMESTAMP)"
    rows = f"INSERT INTO docs VALUES (1, '', NULL), (2, '', {value}), (3, '', NULL)"
    mapping = replace(MAPPING, modified="changed", page_rows=3)
    ((first, second, third),) = pages(opened(server, table, rows, mapping=mapping), ALL)
    assert (first, third) == ((1, "", None), (3, "", None))
    assert isinstance(second, UnreadableRow)
    assert second.key == (2,)


def test_a_row_that_cannot_be_read_costs_no_other(postgresql_server: Server) -> None:
    view = "CREATE VIEW torn AS SELECT id, body, 6 / (id - 3) AS part FROM docs"
    mapping = replace(MAPPING, table="torn", key=("id",), title="part", page_rows=4)
    assert list(pages(opened(postgresql_server, *FIVE, view, mapping=mapping), ALL)) == [
        [(1, "a", -3), (2, "b", -6), UnreadableRow((3,), "division by zero"), (4, "d", 6)],
        [(5, "e", 3)],
    ]


def test_a_key_that_cannot_be_read_ends_it(postgresql_server: Server) -> None:
    view = "CREATE VIEW torn AS SELECT 6 / (id - 3) AS id, body FROM docs"
    rows = opened(
        postgresql_server, *FIVE, view, mapping=replace(MAPPING, table="torn", key=("id",))
    )
    with pytest.raises(SourceError) as caught:
        list(pages(rows, ALL))
    assert str(caught.value) == (
        "table 'torn', all rows: the first key: division by zero; expected a key that can be read"
    )


LARGE = replace(MAPPING, metadata=(MetadataColumn(column="note"),))
SORTS = {
    "sqlite": ("BLOB", "TEXT"),
    "postgresql": ("BYTEA", "TEXT"),
    "mariadb": ("LONGBLOB", "LONGTEXT"),
}


def filled(server: Server | Sqlite, body: str, note: str) -> str:
    """A database of one row: bytes of a length, and a text of one, where they are not SQL."""
    blob, text = SORTS[server.scheme]
    table = f"CREATE TABLE docs (id INT NOT NULL PRIMARY KEY, body {blob}, note {text})"
    return server.new_database(table, f"INSERT INTO docs VALUES (7, {body}, {note})")


def completed(
    server: Server | Sqlite, database: str, row: tuple[object, ...], *, max_bytes: int = 1 << 20
) -> CompleteRow:
    mapping = replace(LARGE, connection=server.url(database))
    rows = open_rows(mapping, connect(mapping))
    with closing(Session(mapping, rows.engine)) as session:
        return LargeValueReader(rows, session, max_bytes=max_bytes).complete(row)


def many_bytes(server: Server | Sqlite, length: int) -> str:
    """Bytes that count up to 255, and again, as SQL."""
    counted = "".join(f"{number:02x}" for number in range(256))
    if server.scheme == "postgresql":
        return f"decode(repeat('{counted}', {length // 256}), 'hex')"
    if server.scheme == "mariadb":
        return f"unhex(repeat('{counted}', {length // 256}))"
    return f"CAST(x'{counted * (length // 256)}' AS BLOB)"


def many_letters(server: Server | Sqlite, count: int) -> str:
    if server.scheme == "sqlite":
        return f"replace(hex(zeroblob({count})), '00', 'ä')"
    return f"repeat('ä', {count})"


def test_a_row_gets_its_large_values(server: Server | Sqlite) -> None:
    database = filled(server, many_bytes(server, 1 << 18), many_letters(server, 100_000))
    assert completed(server, database, (7, None, None)) == CompleteRow(
        (7, bytes(range(256)) * 1024, "ä" * 100_000)
    )


def test_a_value_above_the_limit_is_not_read(server: Server | Sqlite) -> None:
    database = filled(server, many_bytes(server, 1 << 18), many_letters(server, 50_000))
    assert completed(server, database, (7, None, None), max_bytes=(1 << 18) - 1) == CompleteRow(
        (7, None, "ä" * 50_000), "body", 1 << 18
    )


def test_a_row_that_was_deleted_meanwhile_is_not_changed(server: Server | Sqlite) -> None:
    database = filled(server, "NULL", "NULL")
    assert completed(server, database, (8, None, "note")) == CompleteRow((8, None, "note"))


@pytest.mark.parametrize("sort", ["JSON", "JSONB"])
def test_json_is_a_text(postgresql_server: Server, sort: str) -> None:
    table = f"CREATE TABLE docs (id INT PRIMARY KEY, body {sort}, note TEXT)"
    values = "INSERT INTO docs VALUES (7, to_json(repeat('y', 70000)), NULL)"
    database = postgresql_server.new_database(table, values)
    row = completed(postgresql_server, database, (7, None, None)).row
    assert row == (7, f'"{"y" * 70000}"', None)
