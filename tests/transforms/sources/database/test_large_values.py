"""Values that are too large to be read with their rows."""

from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from support.databases import Server, Sqlite
from transforms.sources.database.large_values import Large, Whole
from transforms.sources.database.mapping import Columns, ContentFrom, Mapping
from transforms.sources.database.session import Pauses, Session
from transforms.sources.database.table_query import connect, open_rows

KIB = 1 << 10
Call = Callable[[sa.Connection], object]
MAPPING = Mapping(
    connection="",
    table="docs",
    url="https://docs.example.com/{id}",
    content=ContentFrom(column="body"),
    metadata=(Columns(name="note", column="note"),),
)
SORTS = {
    "sqlite": ("BLOB", "TEXT"),
    "postgresql": ("BYTEA", "TEXT"),
    "mariadb": ("LONGBLOB", "LONGTEXT"),
}


@pytest.fixture
def sessions() -> Iterator[list[Session]]:
    """Closes what a test has put in."""
    found: list[Session] = []
    yield found
    found.pop().close()


def filled(server: Server | Sqlite, body: str, note: str) -> str:
    """A database of one row: bytes of a length, and a text of one, where they are not SQL."""
    blob, text = SORTS[server.scheme]
    table = f"CREATE TABLE docs (id INT NOT NULL PRIMARY KEY, body {blob}, note {text})"
    return server.new_database(table, f"INSERT INTO docs VALUES (7, {body}, {note})")


def large_of(
    server: Server | Sqlite, database: str, sessions: list[Session], *, max_bytes: int = 64 << 20
) -> Large:
    mapping = replace(MAPPING, connection=server.url(database))
    rows = open_rows(mapping, connect(mapping))
    pauses = Pauses(sleep=silent)
    sessions.append(Session(mapping, rows.engine, pauses=pauses, autocommit=False))
    return Large(rows, sessions[0], max_bytes=max_bytes)


def silent(_seconds: float) -> None: ...


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


def test_a_row_gets_its_large_values(server: Server | Sqlite, sessions: list[Session]) -> None:
    database = filled(server, many_bytes(server, 256 * KIB), many_letters(server, 100_000))
    large = large_of(server, database, sessions)
    assert large.complete((7, None, None)) == Whole(
        (7, bytes(range(256)) * KIB, "ä" * 100_000), None, 0
    )


def test_values_that_the_row_has_are_left_alone(
    server: Server | Sqlite, sessions: list[Session]
) -> None:
    database = filled(server, many_bytes(server, 256 * KIB), "'short'")
    large = large_of(server, database, sessions)
    assert large.complete((7, None, "as it was")).row[2] == "as it was"


def test_values_come_in_pieces(server: Server | Sqlite, sessions: list[Session]) -> None:
    """Of 4 MiB: bytes are two, and letters of two bytes are three, of which the last is empty."""
    letters = many_letters(server, 5 << 20)
    large = large_of(server, filled(server, many_bytes(server, 5 << 20), letters), sessions)
    _, body, note = large.complete((7, None, None)).row
    assert body == bytes(range(256)) * (5 << 12)
    assert note == "ä" * (5 << 20)


def test_of_a_value_that_is_too_large_nothing_is_read(
    server: Server | Sqlite, sessions: list[Session]
) -> None:
    database = filled(server, many_bytes(server, 256 * KIB), many_letters(server, 50_000))
    large = large_of(server, database, sessions, max_bytes=256 * KIB - 1)
    assert large.complete((7, None, None)) == Whole((7, None, "ä" * 50_000), "body", 262144)


def test_a_value_that_is_just_not_too_large_is_read(
    server: Server | Sqlite, sessions: list[Session]
) -> None:
    database = filled(server, many_bytes(server, 256 * KIB), "NULL")
    large = large_of(server, database, sessions, max_bytes=256 * KIB)
    assert large.complete((7, None, None)).too_large is None


def test_a_row_that_was_deleted_meanwhile_stays_as_it_is(
    server: Server | Sqlite, sessions: list[Session]
) -> None:
    large = large_of(server, filled(server, "NULL", "NULL"), sessions)
    assert large.complete((8, None, "note")) == Whole((8, None, "note"), None, 0)


@pytest.mark.parametrize("sort", ["JSON", "JSONB"])
def test_json_is_a_text(postgresql_server: Server, sessions: list[Session], sort: str) -> None:
    table = f"CREATE TABLE docs (id INT PRIMARY KEY, body {sort}, note TEXT)"
    values = "INSERT INTO docs VALUES (7, to_json(repeat('y', 70000)), NULL)"
    large = large_of(postgresql_server, postgresql_server.new_database(table, values), sessions)
    assert large.complete((7, None, None)).row == (7, f'"{"y" * 70000}"', None)


def test_a_connection_that_dies_is_made_anew(remote: Server, sessions: list[Session]) -> None:
    database = filled(remote, many_bytes(remote, 256 * KIB), "NULL")
    large = large_of(remote, database, sessions)
    large.complete((7, None, None))
    remote.end_connections(database)
    assert large.complete((7, None, None)).row == (7, bytes(range(256)) * KIB, None)


def test_a_text_that_is_not_utf_8_comes_in_pieces(
    sqlite_server: Sqlite, sessions: list[Session]
) -> None:
    text = "CAST(CAST(replace(hex(zeroblob(5000000)), '00', 'y') AS BLOB) || x'ff' AS TEXT)"
    large = large_of(sqlite_server, filled(sqlite_server, "NULL", text), sessions)
    assert large.complete((7, None, None)).row[2] == b"y" * 5_000_000 + b"\xff"


@pytest.mark.parametrize("change", ["DELETE FROM docs", "UPDATE docs SET body = NULL"])
def test_a_value_that_is_gone_since_it_was_weighed_is_null(
    sqlite_server: Sqlite, sessions: list[Session], change: str
) -> None:
    database = filled(sqlite_server, many_bytes(sqlite_server, 256 * KIB), "NULL")
    large = large_of(sqlite_server, database, sessions)
    run = sessions[0].run

    def run_and_change(call: Call, *, where: str) -> object:
        found = run(call, where=where)
        sessions[0].close()
        sqlite_server.execute(database, [change])
        return found

    sessions[0].run = run_and_change  # type: ignore[method-assign,assignment]  # of this one only
    assert large.complete((7, None, None)) == Whole((7, None, None), None, 0)
