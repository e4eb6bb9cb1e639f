"""Keys as JSON, and the conditions of keyset pagination, which use an index."""

import uuid
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import ConfigError
from support.databases import Server, Sqlite
from transforms.sources.database.connection import connect
from transforms.sources.database.keys import above, parameters, read_key, upto, write_key
from transforms.sources.database.mapping import RowMapping

_values = st.one_of(
    st.integers(),
    st.text(),
    st.booleans(),
    st.decimals(allow_nan=False),
    st.datetimes(),
    st.datetimes(timezones=st.just(UTC)),
    st.dates(),
    st.uuids(),
    st.binary(),
)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ((7,), "[7]"),
        ((2**70, -1), "[1180591620717411303424,-1]"),
        (("Zoë 🎉", True), '["Zoë 🎉",true]'),
        (("a\0b ",), r'["a\u0000b "]'),
        ((Decimal("1.50"),), '[{"decimal":"1.50"}]'),
        ((datetime(2026, 1, 2, 3, 4, 5, 6),), '[{"datetime":"2026-01-02T03:04:05.000006"}]'),
        ((datetime(2026, 1, 2, tzinfo=UTC),), '[{"datetime":"2026-01-02T00:00:00+00:00"}]'),
        ((date(2026, 1, 2),), '[{"date":"2026-01-02"}]'),
        ((uuid.UUID(int=7),), '[{"uuid":"00000000-0000-0000-0000-000000000007"}]'),
        ((b"\x00\xff",), '[{"bytes":"AP8="}]'),
    ],
)
def test_a_key_is_written_as_json(key: tuple[object, ...], text: str) -> None:
    assert write_key(key) == text


@given(st.lists(_values, min_size=1, max_size=3).map(tuple))
def test_a_key_that_is_written_is_read_again(key: tuple[object, ...]) -> None:
    assert read_key(write_key(key)) == key


@given(_values)
def test_a_value_that_is_read_again_has_its_type(value: object) -> None:
    assert type(read_key(write_key((value,)))[0]) is type(value)


@pytest.mark.parametrize("value", [{"a": 1}, 0.5, None])
def test_a_value_of_another_type_is_refused(value: object) -> None:
    with pytest.raises(ConfigError) as caught:
        write_key((value,))
    assert str(caught.value) == (
        f"key: a value of the type {type(value).__name__}; expected columns of integers, decimals, "
        "texts, dates, timestamps, UUIDs or bytes, or a query that casts them"
    )


def plan(server: Server | Sqlite, explain: str) -> str:
    """The query plan for the rows between two keys of two columns."""
    numbers = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 899)"
    database = server.new_database(
        "CREATE TABLE docs (a INT NOT NULL, b INT NOT NULL, c INT, PRIMARY KEY (a, b))",
        f"INSERT INTO docs {numbers} SELECT x.i % 90, y.i, 0 FROM n x, n y WHERE x.i < 90",
        "ANALYZE TABLE docs" if server.scheme == "mariadb" else "ANALYZE docs",
    )
    engine = connect(RowMapping(connection=server.url(database)))
    dialect: Any = engine.dialect
    columns: list[Any] = [sa.column("a"), sa.column("b")]
    between = above(columns, "after", dialect), upto(columns, "upto", dialect)
    given = parameters("after", (7, 3), dialect) | parameters("upto", (7, 9), dialect)
    selected: Any = sa.select(sa.column("c"), *columns).where(*between).order_by(*columns)
    selected = selected.select_from(sa.table("docs"))
    named = selected.compile(dialect=type(dialect)(paramstyle="named"))
    with engine.connect() as connection:
        rows = connection.execute(sa.text(f"{explain} {named}"), {**named.params, **given}).all()
    return "\n".join(map(str, rows))


@pytest.mark.slow
def test_postgresql_looks_up_two_keys_in_the_index(postgresql_server: Server) -> None:
    found = plan(postgresql_server, "EXPLAIN")
    assert "Index Cond: ((ROW(a, b) > ROW(" in found


@pytest.mark.slow
def test_mariadb_looks_up_two_keys_in_the_index(mariadb_server: Server) -> None:
    assert "'docs', 'range', 'PRIMARY', 'PRIMARY', '8', None, '6'," in plan(
        mariadb_server, "EXPLAIN"
    )


def test_sqlite_looks_up_two_keys_in_the_index(sqlite_server: Sqlite) -> None:
    found = plan(sqlite_server, "EXPLAIN QUERY PLAN")
    assert "SEARCH docs USING INDEX sqlite_autoindex_docs_1 ((a,b)>(?,?) AND (a,b)<(?,?))" in found
