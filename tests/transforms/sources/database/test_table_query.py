"""The tables and queries of a mapping: columns, keys, errors, and secrets in messages."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from schemas.errors import ConfigError, FeedferryError, SourceError
from support.databases import PASSWORD, Server, Sqlite
from support.ports import kept_port
from support.served import wait_until
from transforms.sources.database.column_index import ColumnIndex
from transforms.sources.database.connection import connect
from transforms.sources.database.mapping import (
    ContentSource,
    IncrementalReading,
    RowMapping,
)
from transforms.sources.database.table_query import TableQuery, open_rows

DOCS = (
    "CREATE TABLE docs (id INT NOT NULL PRIMARY KEY, title VARCHAR(40), body TEXT, level INT)",
    "INSERT INTO docs VALUES (1, 'One', 'first', 3), (2, 'Two', 'second', 5), (3, NULL, '', 5)",
)
BY_TITLE = RowMapping(
    connection="",
    table="docs",
    url="https://docs.example.com/{id}",
    content=ContentSource(column="body"),
    title="title",
)


def opened(server: Server | Sqlite, *statements: str, mapping: RowMapping = BY_TITLE) -> TableQuery:
    """The rows of a mapping in a new database."""
    connection = server.url(server.new_database(*statements))
    mapping = replace(mapping, connection=connection)
    return open_rows(mapping, connect(mapping))


def refusal(act: Callable[[], object], kind: type[FeedferryError] = ConfigError) -> str:
    with pytest.raises(kind) as caught:
        act()
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return str(caught.value)


def test_columns_are_those_that_records_are_made_of(server: Server | Sqlite) -> None:
    assert opened(server, *DOCS).index.names == ("id", "title", "body")


def test_columns_are_all_where_a_page_is_made_of_the_row(server: Server | Sqlite) -> None:
    rows = opened(server, *DOCS, mapping=replace(BY_TITLE, content=ContentSource()))
    assert rows.index.names == ("id", "title", "body", "level")


def test_a_key_that_is_not_given_is_the_primary_key(server: Server | Sqlite) -> None:
    assert opened(server, *DOCS).key == ("id",)


def test_a_unique_index_needs_no_proof(server: Server | Sqlite) -> None:
    index = "CREATE UNIQUE INDEX levels ON docs (level, id)"
    rows = opened(server, *DOCS, index, mapping=replace(BY_TITLE, key=("level", "id")))
    assert rows.has_unique_key


def test_a_unique_index_of_some_rows_proves_nothing(postgresql_server: Server) -> None:
    index = "CREATE UNIQUE INDEX titles ON docs (title) WHERE level < 5"
    rows = opened(postgresql_server, *DOCS, index, mapping=replace(BY_TITLE, key=("title",)))
    assert not rows.has_unique_key


def test_nullable_columns_of_a_key_are_found(server: Server | Sqlite) -> None:
    rows = opened(server, *DOCS, mapping=replace(BY_TITLE, key=("level", "id")))
    assert rows.nullable_key == ("level",)


def test_a_view_has_rows(server: Server | Sqlite) -> None:
    view = "CREATE VIEW seen AS SELECT id, title, body FROM docs WHERE level > 3"
    rows = opened(server, *DOCS, view, mapping=replace(BY_TITLE, table="seen", key=("id",)))
    assert list(rows.read_keys()) == [(2,), (3,)]


def test_a_query_has_rows(server: Server | Sqlite) -> None:
    """It can end in a comment and a semicolon, and a colon is no parameter."""
    query = (
        "SELECT d.id, e.title, d.body, ':x' AS colon FROM docs d JOIN docs e ON e.id = d.id -- 1"
    )
    mapping = replace(BY_TITLE, table=None, query=f"{query}\n;\n", key=("id",))
    assert list(opened(server, *DOCS, mapping=mapping).read_keys()) == [(1,), (2,), (3,)]


def test_a_query_casts_as_postgresql_writes_it(postgresql_server: Server) -> None:
    query = "SELECT id::text AS id, title, body FROM docs WHERE title LIKE 'T%'"
    mapping = replace(BY_TITLE, table=None, query=query, key=("id",))
    assert list(opened(postgresql_server, *DOCS, mapping=mapping).read_keys()) == [("2",)]


def test_a_table_can_be_in_a_schema(postgresql_server: Server) -> None:
    schema = "CREATE SCHEMA old"
    table = "CREATE TABLE old.docs AS SELECT * FROM docs WHERE id = 2"
    mapping = replace(BY_TITLE, schema="old", key=("id",))
    rows = opened(postgresql_server, *DOCS, schema, table, mapping=mapping)
    assert list(rows.read_keys()) == [(2,)]


def test_names_that_need_quotes_are_quoted(server: Server | Sqlite) -> None:
    quote = "`" if server.scheme == "mariadb" else '"'
    table = 'CREATE TABLE "My %docs" ("Key id" INT NOT NULL PRIMARY KEY, "order" VARCHAR(9))'
    mapping = replace(
        BY_TITLE, table="My %docs", url="https://x.example.com/{Key id}", title="order"
    )
    mapping = replace(mapping, content=ContentSource())
    rows = opened(server, table.replace('"', quote), mapping=mapping)
    assert rows.index.names == ("Key id", "order")


def test_the_highest_value_is_read(server: Server | Sqlite) -> None:
    mapping = replace(BY_TITLE, incremental=IncrementalReading(timestamp="level"))
    assert opened(server, *DOCS, mapping=mapping).highest("level") == 5


def test_a_missing_table_is_an_error_with_the_tables(server: Server | Sqlite) -> None:
    other = "CREATE VIEW people AS SELECT id FROM docs"
    mapping = replace(BY_TITLE, table="dosc")
    assert refusal(lambda: opened(server, *DOCS, other, mapping=mapping)) == (
        "table: 'dosc'; expected one of docs, people; did you mean 'docs'?"
    )


def test_a_database_without_tables_is_an_error(server: Server | Sqlite) -> None:
    assert refusal(lambda: opened(server)) == (
        "table: 'docs'; expected a table or view, and there is none"
    )


def test_a_query_needs_a_key(server: Server | Sqlite) -> None:
    mapping = replace(BY_TITLE, table=None, query="SELECT * FROM docs")
    assert refusal(lambda: opened(server, *DOCS, mapping=mapping)) == (
        "key: missing, and the query has no primary key; expected key: [COLUMN]"
    )


def test_two_rows_with_one_key_are_an_error(server: Server | Sqlite) -> None:
    rows = opened(server, *DOCS, mapping=replace(BY_TITLE, key=("level",)))
    assert refusal(rows.check_unique_key) == (
        "key: 2 rows of table 'docs' have level=5; expected columns that are unique for each row"
    )


def test_keys_are_the_same_as_their_collation_has_it(mariadb_server: Server) -> None:
    query = "SELECT CASE id WHEN 1 THEN 'a' ELSE 'A ' END AS id, title, body FROM docs WHERE id < 3"
    mapping = replace(BY_TITLE, table=None, query=query, key=("id",))
    rows = opened(mariadb_server, *DOCS, mapping=mapping)
    assert refusal(rows.check_unique_key) == (
        "key: 2 rows of the query have id='a'; expected columns that are unique for each row"
    )


def test_two_columns_of_one_name_are_an_error(postgresql_server: Server) -> None:
    query = "SELECT a.id, b.id, a.title, a.body FROM docs a JOIN docs b ON a.id = b.id"
    mapping = replace(BY_TITLE, table=None, query=query, key=("id",))
    assert refusal(lambda: opened(postgresql_server, *DOCS, mapping=mapping)) == (
        "query: 2 columns are called 'id'; expected different names, as AS gives them"
    )


@pytest.mark.parametrize("sort", ["FLOAT", "BIT", "ENUM('b','a')", "SET('b','a')"])
def test_a_key_needs_one_order_in_conditions_and_in_order_by(
    mariadb_server: Server, sort: str
) -> None:
    table = f"CREATE TABLE docs (id {sort} PRIMARY KEY, title TEXT, body TEXT)"
    assert refusal(lambda: opened(mariadb_server, table)) == (
        f"key: 'id' has the type {sort.partition('(')[0]}, with different orders in > and ORDER "
        "BY; expected another column, or a query that casts it"
    )


def test_wrong_sql_is_a_config_error(server: Server | Sqlite) -> None:
    mapping = replace(BY_TITLE, table=None, query="SELECT idd, title FROM docs", key=("id",))
    message = refusal(lambda: opened(server, *DOCS, mapping=mapping))
    assert message.endswith("; expected SQL that this database understands")


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO docs (id) VALUES (9)",
        "DELETE FROM docs",
        "CREATE TABLE more (id INT)",
    ],
)
def test_nothing_can_be_written(server: Server | Sqlite, statement: str) -> None:
    engine = opened(server, *DOCS).engine
    with pytest.raises(sa.exc.DBAPIError, match=r"(?i)read.?only"):
        run(engine, statement)


def run(engine: sa.Engine, statement: str) -> None:
    with engine.connect() as connection:
        connection.exec_driver_sql(statement)


def test_no_connection_is_kept(postgresql_server: Server) -> None:
    database = postgresql_server.new_database(*DOCS)
    mapping = replace(BY_TITLE, connection=postgresql_server.url(database))
    list(open_rows(mapping, connect(mapping)).read_keys())
    wait_until(lambda: postgresql_server.connections(database) == 0)


def test_a_file_is_found_below_the_folder_of_the_mapping(
    sqlite_server: Sqlite, tmp_path: Path
) -> None:
    database = sqlite_server.new_database(*DOCS)
    mapping = replace(BY_TITLE, connection=f"sqlite:///{database}.db", folder=str(tmp_path))
    assert list(open_rows(mapping, connect(mapping)).read_keys()) == [(1,), (2,), (3,)]


def test_a_missing_file_is_not_created(tmp_path: Path) -> None:
    mapping = replace(BY_TITLE, connection=f"sqlite:///{tmp_path}/none.db")
    assert refusal(lambda: open_rows(mapping, connect(mapping)), SourceError) == (
        f"sqlite:///{tmp_path}/none.db, table 'docs': unable to open database file; expected a "
        "database that answers, and a login that may read it"
    )
    assert not (tmp_path / "none.db").exists()


def test_a_secret_is_looked_up_when_it_is_needed(
    remote: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is literal text, even if it has characters with a meaning in a URL."""
    monkeypatch.setenv("DOCS_PASSWORD", PASSWORD)
    connection = remote.url(remote.new_database(*DOCS), password="X").replace(
        ":X@", ":${env:DOCS_PASSWORD}@"
    )
    mapping = replace(BY_TITLE, connection=connection)
    assert list(open_rows(mapping, connect(mapping)).read_keys()) == [(1,), (2,), (3,)]


def failing(mapping: RowMapping, **changes: Any) -> SourceError:
    mapping = replace(mapping, **changes)
    with pytest.raises(SourceError) as caught:
        open_rows(mapping, connect(mapping))
    return caught.value


def test_a_wrong_password_is_not_shown(remote: Server) -> None:
    database = remote.new_database(*DOCS)
    exc = failing(BY_TITLE, connection=remote.url(database, password="wr0ng/pass"))
    assert str(exc).startswith(
        f"{remote.scheme}://127.0.0.1:{remote.port}/{database}, table 'docs'"
    )
    assert "wr0ng" not in repr(exc)


def test_a_missing_database_is_an_error_without_the_password(remote: Server) -> None:
    exc = failing(BY_TITLE, connection=remote.url("nowhere"))
    assert "nowhere" in str(exc)
    assert "s3same" not in repr(exc)


def test_a_missing_server_is_an_error_without_the_password(remote: Server) -> None:
    with kept_port() as port:
        exc = failing(BY_TITLE, connection=remote.url("docs", port=port))
    assert f"{remote.scheme}://127.0.0.1:{port}/docs" in str(exc)
    assert "s3same" not in repr(exc)


def test_a_password_that_the_database_repeats_is_hidden(remote: Server) -> None:
    """Here the name of the database is the password, too."""
    exc = failing(BY_TITLE, connection=remote.url("s3same", password="s3same"))
    assert "s3same" not in repr(exc)


@pytest.mark.parametrize(
    ("server", "grant", "said"),
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
def test_a_login_without_permission_is_a_source_error(
    server: Server, grant: str, said: str
) -> None:
    name = server.new_database(*DOCS, "CREATE TABLE other (id INT)")
    server.execute(name, [grant.format(name=name, password=PASSWORD)])
    connection = server.url(name).replace("feeder", f"nobody_{name}")
    mapping = replace(BY_TITLE, connection=connection)
    with pytest.raises(SourceError) as caught:
        open_rows(mapping, connect(mapping))
    assert str(caught.value) == (
        f"{server.scheme}://127.0.0.1:{server.port}/{name}, table 'docs': "
        f"{said.format(name=name)}; expected a database that answers, and a login that may read it"
    )


def test_the_case_of_a_column_matters_only_if_names_differ_in_nothing_else() -> None:
    index = ColumnIndex(names=("id", "Name", "name"))
    assert (index.at("title", "ID"), index.at("title", "Name")) == (0, 1)
    assert refusal(lambda: index.at("title", "NAME")) == (
        "title: 'NAME' is the name of 2 columns; expected different names, as AS gives them"
    )
    assert refusal(lambda: index.at("title", "nmae")) == (
        "title: 'nmae'; expected a column: id, Name, name; did you mean 'name'?"
    )
