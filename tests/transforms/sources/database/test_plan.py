"""Plans of runs, ranges of keys, and successive runs of a database that changes."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from feedferry.schemas.errors import ConfigError, SourceError, StoppedError
from feedferry.schemas.source_options import SourceOptions
from feedferry.schemas.span import KeyRange, RowFilter, Span, TimestampType, Watermark
from feedferry.transforms.sources.database.changes.watermark import read_clock
from feedferry.transforms.sources.database.connection.session import Session
from feedferry.transforms.sources.database.mapping.columns import Key
from feedferry.transforms.sources.database.mapping.row_mapping import (
    ActionColumn,
    ContentSource,
    IncrementalReading,
    RowMapping,
    rules_of,
)
from feedferry.transforms.sources.database.plan import cut_rows
from feedferry.transforms.sources.database.tables.pages import PageReader
from feedferry.transforms.sources.database.tables.table import TableQuery, open_table
from feedferry.transforms.sources.listing import LISTING
from support.database_runs import AnyServer, Database, ServedDatabase, new_table
from support.databases import Server

PEOPLE = "CREATE TABLE people (id INTEGER PRIMARY KEY, body TEXT, updated, action TEXT, slug TEXT)"
ROWS = (
    "INSERT INTO people VALUES (1, 'Anna', '2020-01-01 08:00:00', '', 'anna')",
    "INSERT INTO people VALUES (2, 'Bert', '2020-01-01 09:00:00', '', 'bert')",
    "INSERT INTO people VALUES (3, 'Carl', '2020-01-01 10:00:00', '', 'carl')",
)
LOG = "CREATE TABLE log (id INTEGER)"

BY_MARK = IncrementalReading(timestamp="updated")
EXACT = IncrementalReading(timestamp="updated", lag_seconds=0)
BY_KEYS = IncrementalReading(deletes="compare")
BY_BOTH = IncrementalReading(timestamp="updated", deletes="compare")
BY_QUERY = IncrementalReading(timestamp="updated", deletes="SELECT id FROM log")
TOMBSTONES = ActionColumn(column="action")
SLUGS = "http://db.example.com/{slug}"
SLUGS_BY_KEYS = {"incremental": BY_KEYS, "url": SLUGS}

ADD_1 = "ADD http://db.example.com/1"
ADD_2 = "ADD http://db.example.com/2"
ADD_3 = "ADD http://db.example.com/3"
ADD_4 = "ADD http://db.example.com/4"
ALL = [ADD_1, ADD_2, ADD_3]


@pytest.fixture
def people(tmp_path: Path) -> Database:
    return Database(tmp_path, PEOPLE, *ROWS, LOG, incremental=BY_MARK)


def row(number: int, updated: str) -> str:
    return f"INSERT INTO people VALUES ({number}, 'new', {updated}, '', 'new-{number}')"


def update(values: str) -> str:
    return f"UPDATE people SET {values} WHERE id = 1"


def delete(number: int) -> str:
    return f"DELETE FROM people WHERE id = {number}"


NOW = "strftime('%Y-%m-%d %H:%M:%S')"
FUTURE = row(4, "'2999-01-01 00:00:00'")
MARKED = update("action = 'delete', updated = '2020-01-01 10:05:00'")
LOGGED = "INSERT INTO log VALUES (1)"


SECOND_RUNS: dict[str, tuple[dict[str, Any], list[str], list[str], list[str]]] = {
    "within the lag": ({}, [], [row(4, "'2020-01-01 09:50:00'")], [ADD_4]),
    "later than the lag": ({}, [], [row(4, "'2020-01-01 09:49:00'")], []),
    "no lag": ({"incremental": EXACT}, [], [row(4, "'2020-01-01 10:00:00'")], [ADD_4]),
    "versions that are integers": (
        *({"incremental": EXACT}, ["UPDATE people SET updated = id"]),
        *([row(4, "4")], [ADD_4]),
    ),
    "future": ({}, [FUTURE], [row(5, NOW)], ["ADD http://db.example.com/5"]),
    "a row ahead of the clock is sent once": ({}, [FUTURE], [], []),
    "the newest row is deleted": ({}, [], [delete(3)], []),
    "timestamps of another type": (
        *({}, []),
        ["UPDATE people SET updated = 1600000000 + id", row(4, "1500000000")],
        [ADD_1, ADD_2, ADD_4],
    ),
    "a row without a timestamp is sent once": ({}, [row(4, "NULL")], [], []),
    "without a timestamp": ({"incremental": None}, [], [update("body = 'Ann'")], [ADD_1]),
    "corrected": ({}, [update("body = NULL")], [update("body = 'Anna'")], [ADD_1]),
    "a new URL": (
        *(SLUGS_BY_KEYS, [], [update("slug = 'anne'")]),
        ["ADD http://db.example.com/anne"],
    ),
}


@pytest.mark.parametrize(
    ("keys", "before", "between", "outcomes"), SECOND_RUNS.values(), ids=SECOND_RUNS
)
def test_a_second_run_sends_what_changed(
    people: Database,
    keys: dict[str, Any],
    before: list[str],
    between: list[str],
    outcomes: list[str],
) -> None:
    people.remap(**keys)
    people.execute(*before)
    people.run()
    people.execute(*between)
    assert people.run() == outcomes


THIRD_RUNS: dict[str, tuple[dict[str, Any], list[str], list[str], list[str]]] = {
    "marked": ({"action": TOMBSTONES}, [MARKED], [], []),
    "marked and then removed": (
        *({"action": TOMBSTONES, "incremental": BY_BOTH}, [MARKED]),
        *([delete(1)], []),
    ),
    "query": ({"incremental": BY_QUERY}, [delete(1), LOGGED], [], []),
    "former URL": (
        *(SLUGS_BY_KEYS, [update("slug = 'anne'")], []),
        ["DELETE http://db.example.com/anna"],
    ),
}


@pytest.mark.parametrize(
    ("keys", "first", "second", "outcomes"), THIRD_RUNS.values(), ids=THIRD_RUNS
)
def test_a_deletion_is_sent_once(
    people: Database, keys: dict[str, Any], first: list[str], second: list[str], outcomes: list[str]
) -> None:
    people.remap(**keys)
    people.run()
    people.execute(*first)
    people.run()
    people.execute(*second)
    assert people.run() == outcomes


def test_a_refresh_and_other_rules_send_all_rows(people: Database) -> None:
    people.run()
    assert people.run(is_refresh=True) == ALL
    people.remap(mimetype="text/html")
    assert people.run() == ALL
    people.remap(incremental=BY_BOTH)
    assert people.run() == ALL


def test_urls_of_other_rules_are_deleted_by_the_next_run(people: Database) -> None:
    people.remap(incremental=BY_KEYS)
    people.run()
    people.remap(url="http://db.example.com/new/{id}")
    people.run()
    assert people.run() == [outcome.replace("ADD", "DELETE") for outcome in ALL]


def test_a_url_that_another_row_has_taken_over_remains(people: Database) -> None:
    people.remap(incremental=BY_KEYS, url=SLUGS)
    people.run()
    people.execute(delete(1), "UPDATE people SET slug = 'anna' WHERE id = 2")
    people.run()
    people.run()
    assert people.target == {
        "http://db.example.com/anna": "Bert",
        "http://db.example.com/carl": "Carl",
    }


def test_a_rejected_row_and_a_deleted_key_are_forgotten(people: Database) -> None:
    people.remap(incremental=BY_QUERY)
    people.execute(update("body = NULL"))
    people.run()
    people.execute(delete(1), LOGGED)
    people.run()
    people.execute("DELETE FROM log")
    people.run()
    assert people.known() == ["[3]"]


def test_a_row_that_the_target_refused_is_read_again(people: Database) -> None:
    people.run(refuses=lambda record: record.url == "http://db.example.com/1")
    assert people.run() == [ADD_1]


def test_rows_of_an_unpublished_run_are_sent_again(people: Database) -> None:
    people.run_without_publishing()
    assert people.run() == ALL


def test_a_lag_of_integers_that_are_no_time_is_refused(tmp_path: Path) -> None:
    people = Database(tmp_path, PEOPLE, row(1, "7"), incremental=BY_MARK)
    with pytest.raises(ConfigError) as caught:
        people.plan()
    assert str(caught.value) == (
        "incremental: lag: 600s, and 'updated' holds 7, which is no time; expected lag: 0s, or a "
        "column of dates, times or seconds since 1970"
    )


def test_a_run_that_was_stopped_has_no_plan(people: Database) -> None:
    people.remap(incremental=BY_KEYS)
    people.run()
    people.execute(delete(1), delete(2))
    with pytest.raises(StoppedError):
        people.plan(options=SourceOptions(to_format="", max_delete_percent=Decimal(50)))
    assert list((people.folder / "run1").iterdir()) == []


def test_a_query_for_deletes_can_return_the_columns_of_the_url(people: Database) -> None:
    query = "SELECT id, 'x/' || id AS slug FROM log"
    people.remap(incremental=IncrementalReading(timestamp="updated", deletes=query), url=SLUGS)
    people.execute("INSERT INTO log VALUES (9)")
    assert people.run()[:1] == ["DELETE http://db.example.com/x%2F9"]


def test_keys_of_several_columns_are_deleted_and_read_again(tmp_path: Path) -> None:
    people = Database(
        tmp_path,
        "CREATE TABLE people (shop TEXT, id INTEGER, body TEXT, updated TEXT, slug TEXT)",
        "INSERT INTO people VALUES ('a', 1, NULL, '2020-01-01 08:00:00', 'a')",
        "INSERT INTO people VALUES ('b', 1, 'Bert', '2020-01-01 09:00:00', 'b')",
        "CREATE TABLE log (shop TEXT, id INTEGER)",
        incremental=IncrementalReading(timestamp="updated", deletes="SELECT shop, id FROM log"),
        key=("shop", "id"),
        url="http://db.example.com/{shop}/{id}",
    )
    people.run()
    people.execute("INSERT INTO log VALUES ('a', 2), ('b', 1), (NULL, 1)")
    assert people.run() == [
        "DELETE http://db.example.com/a/2",
        "key-in-both",
        "unknown-key",
        "null-content",
    ]


def test_a_resumed_run_has_the_same_plan(people: Database) -> None:
    plan = people.plan()
    people.execute(row(4, "'2020-01-03 00:00:00'"), delete(1))
    assert people.plan() == plan


def test_a_plan_begins_with_the_deletions(people: Database) -> None:
    people.remap(incremental=BY_BOTH)
    people.run()
    people.execute(delete(1))
    listing, *rows = people.plan().spans
    assert (listing.format, {span.format for span in rows}) == (LISTING, {"database"})


def filter_of(span: Span) -> RowFilter:
    assert isinstance(span.position, KeyRange)
    return span.position.filter


def test_the_spans_of_a_second_run_have_filters(people: Database) -> None:
    people.execute(update("body = NULL"))
    people.run()
    people.execute(row(4, "NULL"))
    below = Watermark(type=TimestampType.TEXT, text="2020-01-01 09:49:59")
    assert [filter_of(span) for span in people.plan().spans] == [
        RowFilter(timestamp="updated", above=below),
        RowFilter(timestamp="updated", is_null=True),
        RowFilter(timestamp="updated", upto=below, keys=("[1]",)),
    ]


@pytest.mark.parametrize(
    ("keys", "is_same"),
    [
        ({"connection": "postgresql://bert:${env:B}@db.example.com/people"}, True),
        ({"connection": "postgresql://${env:A}:${file:/run/a@b}@db.example.com/people"}, True),
        ({"page_rows": 7, "folder": "x"}, True),
        ({"incremental": IncrementalReading(lag_seconds=1, deletes="SELECT 1")}, True),
        ({"connection": "postgresql://db.example.com/other"}, False),
        ({"table": "other"}, False),
        ({"incremental": IncrementalReading(timestamp="updated")}, False),
        ({"incremental": IncrementalReading(deletes="compare")}, False),
    ],
)
def test_rules_depend_on_what_decides_about_records(keys: dict[str, Any], is_same: bool) -> None:
    usual = RowMapping(connection="postgresql://anna@db.example.com/people", table="people")
    assert (rules_of(replace(usual, **keys)) == rules_of(usual)) is is_same


def test_rules_depend_on_the_text_of_a_template(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    mapping = RowMapping(connection="sqlite://", content=ContentSource(template=str(path)))
    path.write_text("one")
    before = rules_of(mapping)
    path.write_text("other")
    assert rules_of(mapping) != before


DOCS = "CREATE TABLE docs (id INT NOT NULL PRIMARY KEY, title VARCHAR(40), body TEXT)"
BY_TITLE = RowMapping(
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
    return [DOCS, f"INSERT INTO docs SELECT {key}, 'title', {body} FROM ({numbers(count)}) n"]


def cut(table: TableQuery, span_bytes: int) -> list[KeyRange]:
    ranges = list(cut_rows(table, span_bytes=span_bytes))
    table.session.close()
    return ranges


def keys_in(rows: TableQuery, cuts: Sequence[KeyRange]) -> list[list[object]]:
    keys = [[row[0] for page in PageReader(rows, part) for row in page] for part in cuts]
    rows.session.close()
    return keys


HALVES = [KeyRange(upto="[5]", rows=5, size=400), KeyRange(after="[5]", rows=5, size=400)]
HALVES_BY_TITLE = [
    KeyRange(upto='["title",5]', rows=5, size=400),
    KeyRange(after='["title",5]', rows=5, size=400),
]
NULL_KEYS = (
    "CREATE TABLE docs (id INT, part INT, title VARCHAR(40), body TEXT)",
    "INSERT INTO docs VALUES (1, 1, 'a', ''), (1, NULL, 'b', ''), (NULL, NULL, 'c', '')",
)


RANGES = {
    "no rows": ([DOCS], (), 1000, []),
    "one range": (filled(3), (), 1000, [KeyRange(rows=3, size=240)]),
    "two ranges": (filled(10), (), 400, HALVES),
    "key of two columns": (filled(10), ("title", "id"), 400, HALVES_BY_TITLE),
    "NULL in the key": (
        *(NULL_KEYS, ("id", "part"), 1000),
        [KeyRange(rows=1, size=67), KeyRange(has_null_keys=True, rows=2)],
    ),
}


@pytest.mark.parametrize(("statements", "key", "span_bytes", "ranges"), RANGES.values(), ids=RANGES)
def test_ranges_have_the_size_of_a_span(
    server: AnyServer,
    statements: Sequence[str],
    key: tuple[str, ...],
    span_bytes: int,
    ranges: list[KeyRange],
) -> None:
    table = new_table(server, replace(BY_TITLE, key=key), *statements)
    assert cut(table, span_bytes) == ranges


def test_gaps_between_keys_make_no_small_ranges(server: AnyServer) -> None:
    """Nine keys in ten are close together, and the last tenth is spread wide."""
    key = "CASE WHEN i <= 90 THEN i ELSE i * 10000 END"
    rows = new_table(server, BY_TITLE, *filled(100, key=key))
    cuts = cut(rows, 1700)
    assert list(map(len, keys_in(rows, cuts))) == [20, 20, 20, 20, 20]


def test_large_values_count_with_their_size(server: AnyServer) -> None:
    long = "RPAD('', 100000, 'x')" if server.scheme == "mariadb" else "repeat('x', 100000)"
    if server.scheme == "sqlite":
        long = "hex(zeroblob(50000))"
    body = f"CASE WHEN i = 5 THEN {long} END"
    statements = filled(10, body=body)
    if server.scheme != "postgresql":
        statements = [statement.replace("TEXT", "LONGTEXT") for statement in statements]
    (whole,) = cut(new_table(server, BY_TITLE, *statements), 1 << 20)
    assert whole == KeyRange(rows=10, size=100700)


def test_a_key_that_is_not_unique_is_refused(server: AnyServer) -> None:
    rows = new_table(server, replace(BY_TITLE, key=("title",)), *filled(3))
    with pytest.raises(ConfigError, match=r"^key: 3 rows of table 'docs' have title='title'; exp"):
        cut(rows, 1000)


def test_ranges_of_many_rows_hold_all_of_them_once(server: AnyServer) -> None:
    rows = new_table(server, BY_TITLE, *filled(100_000, key="i * 7"))
    cuts = cut(rows, 1 << 20)
    assert list(chain.from_iterable(keys_in(rows, cuts))) == list(range(7, 700_001, 7))


def test_a_database_that_is_lost_while_ranges_are_cut_is_a_source_error(remote: Server) -> None:
    database = remote.new_database(*filled(10))
    mapping = replace(BY_TITLE, connection=remote.url(database))
    rows = open_table(mapping)

    def end(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if "OVER (" in statement:
            remote.end_connections(database)

    sa.event.listen(rows.session.engine, "before_cursor_execute", end)
    with pytest.raises(SourceError, match=r"/feeds\d+, table 'docs': .*; expected a database that"):
        cut(rows, 400)


SEVEN = Watermark(type=TimestampType.INTEGER, text="7")
EIGHT = Watermark(type=TimestampType.INTEGER, text="8")
MANY = tuple(f"[{number}]" for number in range(3, 1003))


@pytest.mark.parametrize(
    ("row_filter", "keys"),
    [
        (RowFilter(timestamp="updated", above=SEVEN), [(2,), (3,)]),
        (RowFilter(timestamp="updated", above=SEVEN, upto=EIGHT), [(2,)]),
        (RowFilter(timestamp="UPDATED", is_null=True), [(4,)]),
        (RowFilter(timestamp="updated", upto=SEVEN, keys=("[1]", "[2]")), [(1,)]),
        (RowFilter(keys=MANY), [(3,), (4,)]),
    ],
)
def test_a_filter_restricts_timestamps_and_keys(
    tmp_path: Path, row_filter: RowFilter, keys: list[Key]
) -> None:
    numbered = Database(
        tmp_path,
        "CREATE TABLE people (id INTEGER PRIMARY KEY, body TEXT, updated INTEGER)",
        "INSERT INTO people VALUES (1, '', 7), (2, '', 8), (3, '', 9), (4, '', NULL)",
        title="updated",
    )
    assert list(open_table(numbered.mapping).filtered(row_filter).read_keys()) == keys


STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "take", "run", "run without publishing"]), st.integers(1, 4)),
    max_size=25,
)


def take(step: tuple[str, int], at: int, people: Database, away: str) -> None:
    """Take a step in the minute `at`; `away` is the statement that deletes or marks a row."""
    stamp = f"'2020-01-01 {at // 60:02d}:{at % 60:02d}:00'"
    match step:
        case "put", number:
            people.execute(f"REPLACE INTO people VALUES ({number}, 'at {at}', {stamp}, '', 'new')")
        case "take", number:
            people.execute(away.format(number=number, stamp=stamp))
        case "run without publishing", _:
            people.run_without_publishing()
        case _:
            people.run()


def follow(steps: list[tuple[str, int]], people: Database, away: str) -> None:
    for at, step in enumerate(steps):
        take(step, at, people, away)
    people.run()


REMAINING = "SELECT 'http://db.example.com/' || id, body FROM people"
DELETE = "DELETE FROM people WHERE id = {number}"
MARK = "UPDATE people SET action = 'delete', updated = {stamp} WHERE id = {number}"


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(STEPS)
@pytest.mark.parametrize("incremental", [BY_KEYS, BY_BOTH])
def test_the_target_equals_the_table_when_keys_are_compared(
    incremental: IncrementalReading, steps: list[tuple[str, int]]
) -> None:
    with TemporaryDirectory() as folder:
        people = Database(Path(folder), PEOPLE, incremental=incremental)
        follow(steps, people, DELETE)
        assert people.target == people.rows(REMAINING)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(STEPS, st.sampled_from([0, 120, 86_400]))
def test_the_target_equals_the_table_when_rows_are_marked_as_deleted(
    steps: list[tuple[str, int]], lag_seconds: float
) -> None:
    incremental = IncrementalReading(timestamp="updated", lag_seconds=lag_seconds)
    with TemporaryDirectory() as folder:
        people = Database(Path(folder), PEOPLE, incremental=incremental, action=TOMBSTONES)
        follow(steps, people, MARK)
        assert people.target == people.rows(f"{REMAINING} WHERE action = ''")


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(STEPS)
def test_a_second_run_sends_nothing(steps: list[tuple[str, int]]) -> None:
    with TemporaryDirectory() as folder:
        people = Database(Path(folder), PEOPLE, incremental=BY_BOTH)
        follow(steps, people, DELETE)
        assert people.run() == []


SERVED = (
    "CREATE TABLE people (id VARCHAR(9), shop INTEGER, body TEXT, updated TIMESTAMP(6) NULL,"
    " PRIMARY KEY (id, shop))",
    "CREATE TABLE log (id VARCHAR(9), shop INTEGER)",
)
EXACT_DELETES = replace(EXACT, deletes="SELECT id, shop FROM log")
ADD_A = "ADD http://db.example.com/a/1"
ADD_B = "ADD http://db.example.com/b/2"
CORRECTION = "UPDATE people SET body = 'new', updated = '2020-01-01 07:00:00'"


def shop_row(name: str, shop: int, updated: str, body: str = "'new'") -> str:
    return f"INSERT INTO people VALUES ('{name}', {shop}, {body}, {updated})"


EARLY_A = shop_row("a", 1, "'2020-01-01 07:00:00'", "NULL")
EARLY_B = shop_row("b", 2, "'2020-01-01 07:00:00'", "NULL")
LATE_A = shop_row("a", 1, "'2020-01-01 08:00:00.123456'")
LATE_B = shop_row("b", 2, "'2020-01-01 08:00:00.123456'")


SERVED_RUNS = {
    "the microsecond of the watermark": ([LATE_A], LATE_B, [ADD_B]),
    "a row ahead of the clock": (
        *([shop_row("a", 1, "'2037-01-01 00:00:00'")], shop_row("b", 2, "NOW()"), [ADD_B]),
    ),
    "no timestamp": ([LATE_B], shop_row("a", 1, "NULL"), [ADD_A]),
    "rejected rows": (
        [EARLY_A, EARLY_B, shop_row("c", 3, "'2020-01-01 08:00:00'")],
        *(CORRECTION, [ADD_A, ADD_B]),
    ),
    "deleted keys": (
        *([LATE_A], "INSERT INTO log VALUES ('b', 2), ('a', 1)"),
        ["DELETE http://db.example.com/b/2", "key-in-both"],
    ),
}


@pytest.mark.parametrize(("rows", "between", "outcomes"), SERVED_RUNS.values(), ids=SERVED_RUNS)
def test_a_second_run_of_a_server_sends_what_changed(
    remote: Server, tmp_path: Path, rows: list[str], between: str, outcomes: list[str]
) -> None:
    url = "http://db.example.com/{id}/{shop}"
    statements = (*SERVED, *rows)
    database = ServedDatabase(remote, tmp_path, *statements, url=url, incremental=EXACT_DELETES)
    database.run()
    database.execute(between)
    assert sorted(database.run()) == outcomes


def test_the_clock_of_a_server_is_in_utc(remote: Server) -> None:
    mapping = RowMapping(connection=remote.url(remote.new_database("SELECT 1")))
    before = datetime.now(UTC) - timedelta(seconds=1)
    session = Session(mapping)
    clock = read_clock(session).replace(tzinfo=UTC)
    session.close()
    assert before <= clock <= datetime.now(UTC)


def test_a_watermark_of_infinity_is_an_error(postgresql_server: Server, tmp_path: Path) -> None:
    rows = (*SERVED, shop_row("a", 1, "'infinity'"))
    database = ServedDatabase(postgresql_server, tmp_path, *rows, incremental=EXACT)
    message = "timestamp: 'updated' has a value of 'infinity'; expected .*casts the column"
    with pytest.raises(ConfigError, match=message):
        database.run()
