"""TableQuery of second queries, for the keys of a page."""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from schemas.errors import ConfigError, SourceError
from support.databases import Proxy, Server, Sqlite
from transforms.sources.database.connection import connect
from transforms.sources.database.lookup_queries import LookupQueries
from transforms.sources.database.mapping import ContentSource, RowMapping
from transforms.sources.database.session import DEFAULT_PAUSES, Session
from transforms.sources.database.table_query import TableQuery, open_rows

DOCS = (
    "CREATE TABLE docs (id INT NOT NULL PRIMARY KEY, body VARCHAR(40))",
    "INSERT INTO docs VALUES (1, 'a'), (2, 'b'), (3, 'c')",
    "CREATE TABLE tags (doc INT, tag VARCHAR(40), weight INT)",
    "INSERT INTO tags VALUES (2, 'z', 1), (1, 'y', 2), (1, 'x', 3), (3, 'w', 4), (9, 'v', 5)",
)
MAPPING = RowMapping(
    connection="",
    table="docs",
    url="https://docs.example.com/{id}",
    content=ContentSource(column="body"),
)
TAGS = "SELECT doc, tag FROM tags"


def opened(server: Server | Sqlite, *statements: str, mapping: RowMapping = MAPPING) -> TableQuery:
    connection = server.url(server.new_database(*statements))
    mapping = replace(mapping, connection=connection)
    return open_rows(mapping, connect(mapping))


@pytest.fixture
def sessions() -> Iterator[list[Session]]:
    """Sessions that are closed after the test."""
    found: list[Session] = []
    yield found
    found.pop().close()


def lookups_of(rows: TableQuery, sessions: list[Session]) -> LookupQueries:
    pauses = replace(DEFAULT_PAUSES, sleep=lambda seconds: None)
    sessions.append(Session(rows.mapping, rows.engine, pauses=pauses))
    return LookupQueries(rows, sessions[0])


def test_a_query_gives_the_rows_of_a_key_without_it(
    server: Server | Sqlite, sessions: list[Session]
) -> None:
    lookups = lookups_of(opened(server, *DOCS), sessions)
    lookups.load_page((1,), (2,))
    assert lookups(TAGS, (1,)) == [("x",), ("y",)]


def test_rows_come_in_the_order_of_their_values(
    server: Server | Sqlite, sessions: list[Session]
) -> None:
    lookups = lookups_of(opened(server, *DOCS), sessions)
    lookups.load_page((1,), (1,))
    query = "SELECT doc, -weight, tag FROM tags ORDER BY tag"
    assert lookups(query, (1,)) == [(-3, "x"), (-2, "y")]


def test_a_page_has_no_rows_of_another(server: Server | Sqlite, sessions: list[Session]) -> None:
    lookups = lookups_of(opened(server, *DOCS), sessions)
    lookups.load_page((2,), (2,))
    assert (lookups(TAGS, (1,)), lookups(TAGS, (2,)), lookups(TAGS, (3,))) == ((), [("z",)], ())


def test_keys_of_two_columns_are_joined(server: Server | Sqlite, sessions: list[Session]) -> None:
    mapping = replace(MAPPING, key=("body", "id"))
    lookups = lookups_of(opened(server, *DOCS, mapping=mapping), sessions)
    lookups.load_page(("a", 1), ("c", 3))
    query = "SELECT 'b' AS part, doc, tag FROM tags"
    assert (lookups(query, ("b", 2)), lookups(query, ("a", 1))) == ([("z",)], ())


def test_the_database_compares_the_keys(mariadb_server: Server, sessions: list[Session]) -> None:
    """A list of principals must not be lost because one table writes a key in capitals."""
    rows = opened(mariadb_server, *DOCS, mapping=replace(MAPPING, key=("body",)))
    lookups = lookups_of(rows, sessions)
    lookups.load_page(("a",), ("c",))
    assert lookups("SELECT 'B ', tag FROM tags WHERE doc = 2", ("b",)) == [("z",)]


def test_keys_of_different_types_are_refused(
    postgresql_server: Server, sessions: list[Session]
) -> None:
    rows = opened(postgresql_server, *DOCS)
    lookups = lookups_of(rows, sessions)
    lookups.load_page((1,), (3,))
    with pytest.raises(ConfigError) as caught:
        lookups("SELECT doc::text, tag FROM tags", (1,))
    assert "the query 'SELECT doc::text, tag FROM tags': operator does not exist: text = " in str(
        caught.value
    )


def test_a_query_without_a_value_is_refused(
    server: Server | Sqlite, sessions: list[Session]
) -> None:
    lookups = lookups_of(opened(server, *DOCS), sessions)
    lookups.load_page((1,), (3,))
    with pytest.raises(ConfigError) as caught:
        lookups("SELECT doc FROM tags", (1,))
    assert str(caught.value) == (
        "query: 'SELECT doc FROM tags' selects doc; expected the key, id, and then a value"
    )


def test_values_that_cannot_be_sorted_are_sorted_as_texts(
    postgresql_server: Server, sessions: list[Session]
) -> None:
    lookups = lookups_of(opened(postgresql_server, *DOCS), sessions)
    lookups.load_page((1,), (1,))
    query = "SELECT doc, json_build_object('tag', tag) FROM tags"
    assert lookups(query, (1,)) == [('{"tag" : "x"}',), ('{"tag" : "y"}',)]


def test_a_value_that_cannot_be_read_ends_the_run(
    postgresql_server: Server, sessions: list[Session]
) -> None:
    lookups = lookups_of(opened(postgresql_server, *DOCS), sessions)
    lookups.load_page((1,), (3,))
    with pytest.raises(SourceError) as caught:
        lookups("SELECT doc, 1 / (weight - 3) FROM tags", (1,))
    assert str(caught.value) == (
        "the query 'SELECT doc, 1 / (weight - 3) FROM tags': division by zero; expected values "
        "that can be read"
    )


def test_a_lost_connection_is_replaced(remote: Server, sessions: list[Session]) -> None:
    database = remote.new_database(*DOCS)
    mapping = replace(MAPPING, connection=remote.url(database))
    lookups = lookups_of(open_rows(mapping, connect(mapping)), sessions)
    lookups.load_page((1,), (1,))
    lookups(TAGS, (1,))
    remote.end_connections(database)
    lookups.load_page((3,), (3,))
    assert lookups(TAGS, (3,)) == [("w",)]


def test_a_query_is_repeated_after_a_lost_connection(
    remote: Server, sessions: list[Session]
) -> None:
    proxy = Proxy(remote.port, [1 << 20, 100])
    database = remote.new_database(*DOCS)
    mapping = replace(MAPPING, connection=remote.url(database, port=proxy.port))
    lookups = lookups_of(open_rows(mapping, connect(mapping)), sessions)
    lookups.load_page((1,), (1,))
    found = lookups(TAGS, (1,))
    proxy.close()
    assert found == [("x",), ("y",)]
