"""Rows of second queries, for the keys of a page."""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from schemas.errors import ConfigError, SourceError
from support.databases import Proxy, Server, Sqlite
from transforms.sources.database.lookup_queries import Sides
from transforms.sources.database.mapping import ContentFrom, Mapping
from transforms.sources.database.session import Pauses, Session
from transforms.sources.database.table_query import Rows, connect, open_rows

DOCS = (
    "CREATE TABLE docs (id INT NOT NULL PRIMARY KEY, body VARCHAR(40))",
    "INSERT INTO docs VALUES (1, 'a'), (2, 'b'), (3, 'c')",
    "CREATE TABLE tags (doc INT, tag VARCHAR(40), weight INT)",
    "INSERT INTO tags VALUES (2, 'z', 1), (1, 'y', 2), (1, 'x', 3), (3, 'w', 4), (9, 'v', 5)",
)
MAPPING = Mapping(
    connection="",
    table="docs",
    url="https://docs.example.com/{id}",
    content=ContentFrom(column="body"),
)
TAGS = "SELECT doc, tag FROM tags"


def opened(server: Server | Sqlite, *statements: str, mapping: Mapping = MAPPING) -> Rows:
    connection = server.url(server.new_database(*statements))
    mapping = replace(mapping, connection=connection)
    return open_rows(mapping, connect(mapping))


@pytest.fixture
def sessions() -> Iterator[list[Session]]:
    """Closes what a test has put in."""
    found: list[Session] = []
    yield found
    found.pop().close()


def sides_of(rows: Rows, sessions: list[Session], pauses: Pauses | None = None) -> Sides:
    waiting = pauses or Pauses(sleep=silent)
    sessions.append(Session(rows.mapping, rows.engine, pauses=waiting, autocommit=False))
    return Sides(rows, sessions[0])


def silent(_seconds: float) -> None: ...


def test_a_query_gives_the_rows_of_a_key_without_it(
    server: Server | Sqlite, sessions: list[Session]
) -> None:
    sides = sides_of(opened(server, *DOCS), sessions)
    sides.turn((1,), (2,))
    assert sides(TAGS, (1,)) == [("x",), ("y",)]


def test_rows_come_in_the_order_of_their_values(
    server: Server | Sqlite, sessions: list[Session]
) -> None:
    sides = sides_of(opened(server, *DOCS), sessions)
    sides.turn((1,), (1,))
    query = "SELECT doc, -weight, tag FROM tags ORDER BY tag"
    assert sides(query, (1,)) == [(-3, "x"), (-2, "y")]


def test_a_key_without_rows_has_none(server: Server | Sqlite, sessions: list[Session]) -> None:
    sides = sides_of(opened(server, *DOCS, "DELETE FROM tags WHERE doc = 2"), sessions)
    sides.turn((1,), (3,))
    assert sides(TAGS, (2,)) == ()


def test_a_page_has_no_rows_of_another(server: Server | Sqlite, sessions: list[Session]) -> None:
    sides = sides_of(opened(server, *DOCS), sessions)
    sides.turn((2,), (2,))
    assert (sides(TAGS, (1,)), sides(TAGS, (2,)), sides(TAGS, (3,))) == ((), [("z",)], ())


def test_another_page_is_asked_for_anew(server: Server | Sqlite, sessions: list[Session]) -> None:
    sides = sides_of(opened(server, *DOCS), sessions)
    sides.turn((1,), (2,))
    sides(TAGS, (1,))
    sides.turn((3,), (3,))
    assert sides(TAGS, (3,)) == [("w",)]


def test_two_queries_are_told_apart(server: Server | Sqlite, sessions: list[Session]) -> None:
    sides = sides_of(opened(server, *DOCS), sessions)
    sides.turn((1,), (3,))
    weights = "SELECT doc, weight FROM tags"
    assert (sides(TAGS, (3,)), sides(weights, (3,))) == ([("w",)], [(4,)])


def test_before_any_page_there_are_no_rows(sqlite_server: Sqlite, sessions: list[Session]) -> None:
    assert sides_of(opened(sqlite_server, *DOCS), sessions)(TAGS, (1,)) == ()


def test_keys_of_two_columns_are_joined(server: Server | Sqlite, sessions: list[Session]) -> None:
    mapping = replace(MAPPING, key=("body", "id"))
    sides = sides_of(opened(server, *DOCS, mapping=mapping), sessions)
    sides.turn(("a", 1), ("c", 3))
    query = "SELECT 'b' AS part, doc, tag FROM tags"
    assert (sides(query, ("b", 2)), sides(query, ("a", 1))) == ([("z",)], ())


def test_what_is_the_same_key_is_for_the_database_to_say(
    mariadb_server: Server, sessions: list[Session]
) -> None:
    """A list of principals must not be lost because one table writes a key in capitals."""
    rows = opened(mariadb_server, *DOCS, mapping=replace(MAPPING, key=("body",)))
    sides = sides_of(rows, sessions)
    sides.turn(("a",), ("c",))
    assert sides("SELECT 'B ', tag FROM tags WHERE doc = 2", ("b",)) == [("z",)]


def test_keys_that_do_not_compare_are_told(
    postgresql_server: Server, sessions: list[Session]
) -> None:
    rows = opened(postgresql_server, *DOCS)
    sides = sides_of(rows, sessions)
    sides.turn((1,), (3,))
    with pytest.raises(ConfigError) as caught:
        sides("SELECT doc::text, tag FROM tags", (1,))
    assert "the query 'SELECT doc::text, tag FROM tags': operator does not exist: text = " in str(
        caught.value
    )


def test_a_query_without_a_value_is_told(server: Server | Sqlite, sessions: list[Session]) -> None:
    sides = sides_of(opened(server, *DOCS), sessions)
    sides.turn((1,), (3,))
    with pytest.raises(ConfigError) as caught:
        sides("SELECT doc FROM tags", (1,))
    assert str(caught.value) == (
        "query: 'SELECT doc FROM tags' selects doc; expected id, as the key, and then a value"
    )


def test_values_that_cannot_be_sorted_are_sorted_as_texts(
    postgresql_server: Server, sessions: list[Session]
) -> None:
    sides = sides_of(opened(postgresql_server, *DOCS), sessions)
    sides.turn((1,), (1,))
    query = "SELECT doc, json_build_object('tag', tag) FROM tags"
    assert sides(query, (1,)) == [('{"tag" : "x"}',), ('{"tag" : "y"}',)]


def test_a_value_that_cannot_be_read_is_told(
    postgresql_server: Server, sessions: list[Session]
) -> None:
    sides = sides_of(opened(postgresql_server, *DOCS), sessions)
    sides.turn((1,), (3,))
    with pytest.raises(SourceError) as caught:
        sides("SELECT doc, 1 / (weight - 3) FROM tags", (1,))
    assert str(caught.value) == (
        "the query 'SELECT doc, 1 / (weight - 3) FROM tags': division by zero; expected values "
        "that can be read"
    )


def test_a_connection_that_dies_is_made_anew(remote: Server, sessions: list[Session]) -> None:
    database = remote.new_database(*DOCS)
    mapping = replace(MAPPING, connection=remote.url(database))
    sides = sides_of(open_rows(mapping, connect(mapping)), sessions)
    sides.turn((1,), (1,))
    sides(TAGS, (1,))
    remote.end_connections(database)
    sides.turn((3,), (3,))
    assert sides(TAGS, (3,)) == [("w",)]


def test_a_query_that_is_cut_is_asked_again(remote: Server, sessions: list[Session]) -> None:
    proxy = Proxy(remote.port, [1 << 20, 100])
    database = remote.new_database(*DOCS)
    mapping = replace(MAPPING, connection=remote.url(database, port=proxy.port))
    sides = sides_of(open_rows(mapping, connect(mapping)), sessions)
    sides.turn((1,), (1,))
    found = sides(TAGS, (1,))
    proxy.close()
    assert found == [("x",), ("y",)]
