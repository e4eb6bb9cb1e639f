"""Plans and marks where a server compares timestamps and keys, and tells the time."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from support.database_runs import ServedDatabase
from support.databases import Server
from transforms.sources.database.mapping import Incremental, Mapping
from transforms.sources.database.table_query import connect
from transforms.sources.database.watermark import Kind, Mark, decode_mark, read_clock

pytestmark = pytest.mark.slow

BY_QUERY = Incremental(timestamp="updated", deletes="SELECT id, shop FROM log")
EXACT = Incremental(timestamp="updated", lag_seconds=0)
LOG = "CREATE TABLE log (id VARCHAR(9), shop INTEGER)"

ADD_A = "ADD http://db.example.com/a/1"
ADD_B = "ADD http://db.example.com/b/2"


def row(name: str, shop: int, updated: str, body: str = "'new'") -> str:
    return f"INSERT INTO people VALUES ('{name}', {shop}, {body}, {updated})"


def people(server: Server, folder: Path, incremental: Incremental, *rows: str) -> ServedDatabase:
    return ServedDatabase(
        server,
        folder,
        "CREATE TABLE people (id VARCHAR(9), shop INTEGER, body TEXT, updated TIMESTAMP(6) NULL,"
        " PRIMARY KEY (id, shop))",
        LOG,
        *rows,
        url="http://db.example.com/{id}/{shop}",
        incremental=incremental,
    )


def test_a_row_of_the_microsecond_of_the_mark_is_sent(remote: Server, tmp_path: Path) -> None:
    database = people(remote, tmp_path, EXACT, row("a", 1, "'2020-01-01 08:00:00.123456'"))
    database.run()
    database.execute(row("b", 2, "'2020-01-01 08:00:00.123456'"))
    assert database.run() == [ADD_B]


def test_a_row_of_the_microsecond_before_the_mark_is_not(remote: Server, tmp_path: Path) -> None:
    database = people(remote, tmp_path, EXACT, row("a", 1, "'2020-01-01 08:00:00.123456'"))
    database.run()
    database.execute(row("b", 2, "'2020-01-01 08:00:00.123455'"))
    assert database.run() == []


def test_a_row_ahead_of_the_clock_does_not_move_the_mark(remote: Server, tmp_path: Path) -> None:
    database = people(remote, tmp_path, EXACT, row("a", 1, "'2037-01-01 00:00:00'"))
    database.run()
    database.execute(row("b", 2, "NOW()"))
    assert database.run() == [ADD_B]


def test_a_row_without_a_timestamp_is_sent_once(remote: Server, tmp_path: Path) -> None:
    database = people(remote, tmp_path, EXACT, row("b", 2, "'2020-01-01 08:00:00'"))
    database.run()
    database.execute(row("a", 1, "NULL"))
    assert (database.run(), database.run()) == ([ADD_A], [])


def test_rows_that_were_rejected_are_read_by_their_keys(remote: Server, tmp_path: Path) -> None:
    database = people(
        remote,
        tmp_path,
        EXACT,
        row("a", 1, "'2020-01-01 07:00:00'", "NULL"),
        row("b", 2, "'2020-01-01 07:00:00'", "NULL"),
        row("c", 3, "'2020-01-01 08:00:00'"),
    )
    database.run()
    database.execute("UPDATE people SET body = 'mended', updated = '2020-01-01 07:00:00'")
    assert database.run() == [ADD_A, ADD_B]


def test_keys_that_a_query_gives_are_deleted(remote: Server, tmp_path: Path) -> None:
    database = people(remote, tmp_path, BY_QUERY, row("a", 1, "'2020-01-01 08:00:00'"))
    database.run()
    database.execute("INSERT INTO log VALUES ('b', 2), ('a', 1)")
    assert database.run() == ["key-in-both", "DELETE http://db.example.com/b/2"]


def test_the_clock_of_a_server_is_in_utc(remote: Server) -> None:
    mapping = Mapping(connection=remote.url(remote.new_database("SELECT 1")))
    before = datetime.now(UTC) - timedelta(seconds=1)
    with connect(mapping).connect() as connection:
        clock = read_clock(connection)
    assert before <= clock.aware <= datetime.now(UTC)


def test_a_session_in_utc_has_one_clock(remote: Server) -> None:
    mapping = Mapping(connection=remote.url(remote.new_database("SELECT 1")))
    with connect(mapping).connect() as connection:
        clock = read_clock(connection)
    assert clock.naive == clock.aware.replace(tzinfo=None)


def test_a_timestamp_of_infinity_does_not_move_the_mark(
    postgresql_server: Server, tmp_path: Path
) -> None:
    database = people(
        postgresql_server,
        tmp_path,
        EXACT,
        row("a", 1, "'infinity'"),
        row("b", 2, "'2020-01-01 08:00:00.123456'"),
    )
    database.run()
    assert decode_mark(database.mark() or "") == Mark(
        kind=Kind.NAIVE, text="2020-01-01T08:00:00.123456"
    )


def test_a_row_of_infinity_is_sent_once(postgresql_server: Server, tmp_path: Path) -> None:
    database = people(postgresql_server, tmp_path, EXACT, row("b", 2, "'2020-01-01 08:00:00'"))
    database.run()
    database.execute(row("a", 1, "'infinity'"))
    assert (database.run(), database.run()) == ([ADD_A], [])


def test_timestamps_that_are_all_infinite_make_no_mark(
    postgresql_server: Server, tmp_path: Path
) -> None:
    database = people(postgresql_server, tmp_path, EXACT, row("a", 1, "'-infinity'"))
    database.run()
    assert database.mark() is None
