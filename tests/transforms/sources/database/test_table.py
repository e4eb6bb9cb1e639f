"""Tables and queries of a mapping: columns, keys, conditions, errors, and secrets in messages."""

import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from feedferry.schemas.errors import ConfigError, FeedferryError, SourceError
from feedferry.transforms.sources.database.mapping.columns import ColumnIndex, Key
from feedferry.transforms.sources.database.mapping.row_mapping import ContentSource, RowMapping
from feedferry.transforms.sources.database.plan import cut_rows
from feedferry.transforms.sources.database.tables.table import (
    TableQuery,
    open_table,
    read_key,
    write_key,
    write_keys,
)
from support.database_runs import AnyServer, new_table
from support.databases import PASSWORD, Server, Sqlite
from support.ports import kept_port
from support.served import wait_until

NO_KEY = (
    "whose values cannot be compared in the order of ORDER BY; expected another column, or a query"
    " that casts it to a text"
)
DOCS = (
    "CREATE TABLE docs (id INT NOT NULL PRIMARY KEY, title VARCHAR(40), body TEXT, level INT)",
    "INSERT INTO docs VALUES (1, 'One', 'first', 3), (2, 'Two', 'second', 5), (3, NULL, '', 5)",
)
MAPPING = RowMapping(
    connection="",
    table="docs",
    url="https://docs.example.com/{id}",
    content=ContentSource(column="body"),
    title="title",
)


def opened(server: AnyServer, *statements: str, **keys: Any) -> TableQuery:
    return new_table(server, replace(MAPPING, **keys), *DOCS, *statements)


def keys_of(table: TableQuery) -> list[Key]:
    return list(table.read_keys())


def refusal(act: Callable[[], object], kind: type[FeedferryError] = ConfigError) -> str:
    with pytest.raises(kind) as caught:
        act()
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return str(caught.value)


def test_columns_are_those_that_records_need(server: AnyServer) -> None:
    assert opened(server).index.names == ("id", "title", "body")
    page = opened(server, content=ContentSource())
    assert page.index.names == ("id", "title", "body", "level")


def test_the_key_is_the_primary_key_by_default(server: AnyServer) -> None:
    table = opened(server)
    assert (table.key, table.has_unique_key) == (("id",), True)


def test_a_view_has_rows(server: AnyServer) -> None:
    view = "CREATE VIEW seen AS SELECT id, title, body FROM docs WHERE level > 3"
    assert keys_of(opened(server, view, table="seen", key=("id",))) == [(2,), (3,)]


def test_a_query_can_have_colons_and_end_in_a_comment(server: AnyServer) -> None:
    query = (
        "SELECT d.id, e.title, d.body, ':x' AS colon FROM docs d JOIN docs e ON e.id = d.id -- 1"
    )
    assert keys_of(opened(server, table=None, query=query, key=("id",))) == [(1,), (2,), (3,)]


@pytest.mark.parametrize(
    ("second", "keys", "name"),
    [
        ("d.title", {"title": "title"}, "title"),
        ("d.id", {}, "id"),
        ("d.level AS a, e.level AS a", {"content": ContentSource()}, "a"),
    ],
)
def test_two_columns_of_one_name_are_refused_if_they_are_needed(
    server: AnyServer, second: str, keys: dict[str, Any], name: str
) -> None:
    query = f"SELECT d.id, e.title, d.body, {second} FROM docs d JOIN docs e ON e.id = d.id"
    message = refusal(lambda: opened(server, table=None, query=query, key=("id",), **keys))
    if server.scheme == "mariadb":  # it does not allow such a query in another one
        assert f"Duplicate column name '{name}'" in message
    else:
        assert message.endswith(
            f": '{name}' is the name of 2 columns; expected different names, as AS gives them"
        )


def test_a_query_can_cast_as_postgresql_writes_it(postgresql_server: Server) -> None:
    query = "SELECT id::text AS id, title, body FROM docs WHERE title LIKE 'T%'"
    assert keys_of(opened(postgresql_server, table=None, query=query, key=("id",))) == [("2",)]


def test_a_table_can_be_in_a_schema(postgresql_server: Server) -> None:
    old = ("CREATE SCHEMA old", "CREATE TABLE old.docs AS SELECT * FROM docs WHERE id = 2")
    assert keys_of(opened(postgresql_server, *old, schema="old", key=("id",))) == [(2,)]


def test_names_that_need_quotes_are_quoted(server: AnyServer) -> None:
    quote = "`" if server.scheme == "mariadb" else '"'
    table = 'CREATE TABLE "My %docs" ("Key id" INT NOT NULL PRIMARY KEY, "order" VARCHAR(9))'
    keys: dict[str, Any] = {"url": "https://x.example.com/{Key id}", "content": ContentSource()}
    keys |= {"table": "My %docs", "title": "order"}
    rows = opened(server, table.replace('"', quote), **keys)
    assert rows.index.names == ("Key id", "order")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"table": "dosc"}, "table: 'dosc'; expected a table or view; feedferry init lists them"),
        (
            {"table": None, "query": "SELECT * FROM docs"},
            "key: missing, and the query has no primary key; expected key: [COLUMN]",
        ),
        (
            {"title": "titel"},
            "title: 'titel'; expected a column: id, title, body, level; did you mean 'title'?",
        ),
    ],
)
def test_a_missing_table_key_or_column_is_refused(
    server: AnyServer, keys: dict[str, Any], message: str
) -> None:
    assert refusal(lambda: opened(server, **keys)) == message


def test_the_collation_decides_whether_keys_are_the_same(mariadb_server: Server) -> None:
    query = "SELECT CASE id WHEN 1 THEN 'a' ELSE 'A ' END AS id, title, body FROM docs WHERE id < 3"
    table = opened(mariadb_server, table=None, query=query, key=("id",))
    assert refusal(table.check_unique_key) == (
        "key: 2 rows of the query have id='a'; expected columns that are unique for each row"
    )
    table.session.close()


@pytest.mark.parametrize("type_", ["FLOAT", "BIT", "ENUM('b','a')", "SET('b','a')"])
def test_a_key_needs_the_same_order_in_conditions_and_in_order_by(
    mariadb_server: Server, type_: str
) -> None:
    table = f"CREATE TABLE more (id {type_} PRIMARY KEY, title TEXT, body TEXT)"
    assert refusal(lambda: opened(mariadb_server, table, table="more")) == (
        f"key: 'id' has the type {type_.partition('(')[0]}, {NO_KEY}"
    )


@pytest.mark.parametrize(
    "type_",
    ["mood", "inet", "cidr", "interval", "int4range", "jsonb", "time", "bit(3)", "varchar(9)[]"],
)
def test_a_key_of_postgresql_needs_a_type_that_is_compared(
    postgresql_server: Server, type_: str
) -> None:
    kind = "CREATE TYPE mood AS ENUM ('sad', 'glad')"
    table = f"CREATE TABLE more (id {type_} PRIMARY KEY, title TEXT, body TEXT)"
    assert refusal(lambda: opened(postgresql_server, kind, table, table="more")) == (
        f"key: 'id' has the type {type_}, {NO_KEY}"
    )


def test_a_key_that_cannot_be_read_is_refused_with_the_cast(postgresql_server: Server) -> None:
    statements = (
        "CREATE TABLE more (n INT, title TEXT, body TEXT)",
        "INSERT INTO more VALUES (0, '', '')",
        "CREATE VIEW torn AS SELECT 6 / n AS id, title, body FROM more",
    )
    torn = opened(postgresql_server, *statements, table="torn", key=("id",))
    message = (
        "key: id of table 'torn': division by zero; expected values that can be read: another"
        " column, or a query that casts it, such as SELECT CAST(id AS text) AS id, …"
    )
    assert refusal(lambda: [*cut_rows(torn, span_bytes=0)]) == message
    assert refusal(lambda: [*torn.read_keys()]) == message
    torn.session.close()


@pytest.mark.parametrize(
    "statement",
    ["INSERT INTO docs (id) VALUES (9)", "DELETE FROM docs", "CREATE TABLE more (id INT)"],
)
def test_nothing_can_be_written(server: AnyServer, statement: str) -> None:
    engine = opened(server).session.engine
    with pytest.raises(sa.exc.DBAPIError, match=r"(?i)read.?only"), engine.connect() as connection:
        connection.exec_driver_sql(statement)


def test_no_connection_is_kept(postgresql_server: Server) -> None:
    database = postgresql_server.new_database(*DOCS)
    keys_of(open_table(replace(MAPPING, connection=postgresql_server.url(database))))
    wait_until(lambda: postgresql_server.connections(database) == 0)


def test_a_file_is_found_in_the_folder_of_the_mapping(
    sqlite_server: Sqlite, tmp_path: Path
) -> None:
    connection = f"sqlite:///{sqlite_server.new_database(*DOCS)}.db"
    mapping = replace(MAPPING, connection=connection, folder=str(tmp_path))
    assert keys_of(open_table(mapping)) == [(1,), (2,), (3,)]


AN_ANSWER = "expected a database that answers, and a login that may read it"


def failure(**keys: Any) -> SourceError:
    with pytest.raises(SourceError) as caught:
        open_table(replace(MAPPING, **keys))
    return caught.value


def test_a_missing_file_is_not_created(tmp_path: Path) -> None:
    message = refusal(
        lambda: open_table(replace(MAPPING, connection=f"sqlite:///{tmp_path}/no.db"))
    )
    assert message == f"connection: '{tmp_path}/no.db': no such file; expected a file of SQLite"
    assert not (tmp_path / "no.db").exists()


def test_a_secret_is_resolved_when_a_database_is_connected(
    remote: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is literal text, even if it has characters with a meaning in a URL."""
    monkeypatch.setenv("DOCS_PASSWORD", PASSWORD)
    connection = remote.url(remote.new_database(*DOCS), password="X").replace(
        ":X@", ":${env:DOCS_PASSWORD}@"
    )
    assert len(keys_of(open_table(replace(MAPPING, connection=connection)))) == 3


def test_no_error_of_a_connection_shows_the_password(remote: Server) -> None:
    database = remote.new_database(*DOCS)
    wrong = failure(connection=remote.url(database, password="wr0ng/pass"))
    place = f"{remote.scheme}://127.0.0.1:{remote.port}/{database}, table 'docs'"
    assert str(wrong).startswith(place)
    assert "wr0ng" not in repr(wrong)
    missing = failure(connection=remote.url("nowhere"))
    assert "nowhere" in str(missing)
    assert "s3same" not in repr(missing)
    with kept_port() as port:
        unreachable = failure(connection=remote.url("docs", port=port))
    assert f"{remote.scheme}://127.0.0.1:{port}/docs" in str(unreachable)
    assert "s3same" not in repr(unreachable)
    repeated = failure(connection=remote.url("s3same", password="s3same"))
    assert "s3same" not in repr(repeated)


@pytest.mark.parametrize(
    ("server", "grant", "message"),
    [
        (
            "postgresql",
            "CREATE ROLE nobody_{name} LOGIN PASSWORD '{password}'",
            "permission denied for table docs",
        ),
        (
            "mariadb",
            "GRANT SELECT ON {name}.other TO nobody_{name}@'%' IDENTIFIED BY '{password}'",
            "SELECT command denied to user 'nobody_{name}'@'127.0.0.1' for table `{name}`.`docs`",
        ),
    ],
    indirect=["server"],
)
@pytest.mark.slow
def test_a_login_without_permission_is_a_source_error(
    server: Server, grant: str, message: str
) -> None:
    name = server.new_database(*DOCS, "CREATE TABLE other (id INT)")
    server.execute(name, [grant.format(name=name, password=PASSWORD)])
    connection = server.url(name).replace("feeder", f"nobody_{name}")
    assert str(failure(connection=connection)) == (
        f"{server.scheme}://127.0.0.1:{server.port}/{name}, table 'docs': "
        f"{message.format(name=name)}; {AN_ANSWER}"
    )


def test_the_case_of_a_column_matters_only_if_names_differ_in_nothing_else() -> None:
    index = ColumnIndex(names=("id", "Name", "name"))
    assert (index.at("title", "ID"), index.at("title", "Name")) == (0, 1)
    assert refusal(lambda: index.at("title", "NAME")) == (
        "title: 'NAME' is the name of 2 columns; expected different names, as AS gives them"
    )


VALUES = st.one_of(
    *(st.integers(), st.text(), st.booleans(), st.decimals(allow_nan=False), st.datetimes()),
    *(st.datetimes(timezones=st.just(UTC)), st.dates(), st.uuids(), st.binary()),
)


@pytest.mark.parametrize(
    ("key", "text"),
    [
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


@given(st.lists(st.tuples(VALUES, st.integers() | st.text()), max_size=3))
def test_keys_of_columns_are_written_as_each_of_them(keys: list[tuple[object, object]]) -> None:
    columns: Sequence[Sequence[object]] = [*zip(*keys, strict=True)] or [(), ()]
    assert write_keys(columns) == [*map(write_key, keys)]
    assert write_keys(columns[1:]) == [write_key(key[1:]) for key in keys]


@given(st.lists(VALUES, min_size=1, max_size=3).map(tuple))
def test_a_key_that_is_written_is_read_again_with_its_types(key: tuple[object, ...]) -> None:
    result = read_key(write_key(key))
    assert result == key
    assert list(map(type, result)) == list(map(type, key))


@pytest.mark.parametrize("value", [{"a": 1}, 0.5, None])
def test_a_value_of_another_type_is_no_key(value: object) -> None:
    assert refusal(lambda: write_key((value,))) == (
        f"key: a value of the type {type(value).__name__}; expected columns of integers, decimals, "
        "texts, dates, timestamps, UUIDs or bytes, or a query that casts them"
    )


EXPLAIN = {"postgresql": "EXPLAIN", "mariadb": "EXPLAIN", "sqlite": "EXPLAIN QUERY PLAN"}
INDEX_SEARCH = {
    "postgresql": "Index Cond: ((ROW(a, b) > ROW(",
    "mariadb": "'docs', 'range', 'PRIMARY', 'PRIMARY', '8', None, '6',",
    "sqlite": "SEARCH docs USING INDEX sqlite_autoindex_docs_1 ((a,b)>(?,?) AND (a,b)<(?,?))",
}


def test_a_page_of_two_keys_uses_the_index(server: AnyServer) -> None:
    numbers = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 899)"
    mapping = replace(MAPPING, url="https://docs.example.com/{a}/{b}", title="c")
    table = new_table(
        server,
        replace(mapping, content=ContentSource(is_none=True)),
        "CREATE TABLE docs (a INT NOT NULL, b INT NOT NULL, c INT, PRIMARY KEY (a, b))",
        f"INSERT INTO docs {numbers} SELECT x.i % 90, y.i, 0 FROM n x, n y WHERE x.i < 90",
        "ANALYZE TABLE docs" if server.scheme == "mariadb" else "ANALYZE docs",
    )
    columns = [table.column(name) for name in "cab"]
    statement = table.select(*columns).where(table.order.after((7, 3)), table.order.upto((7, 9)))
    dialect: Any = table.session.engine.dialect
    named = statement.compile(dialect=type(dialect)(paramstyle="named"))
    with table.session.engine.connect() as connection:
        explained = sa.text(f"{EXPLAIN[server.scheme]} {named}")
        rows = connection.execute(explained, named.params).all()
    assert INDEX_SEARCH[server.scheme] in "\n".join(map(str, rows))
