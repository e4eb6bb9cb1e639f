"""Rows that a mapping names: what is there, what is not, and what nobody may be shown."""

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
from transforms.sources.database.mapping import (
    Columns,
    ContentFrom,
    Incremental,
    Mapping,
)
from transforms.sources.database.table_query import Rows, check_key, connect, open_rows

DOCS = (
    "CREATE TABLE docs (id INT NOT NULL PRIMARY KEY, title VARCHAR(40), body TEXT, level INT)",
    "INSERT INTO docs VALUES (1, 'One', 'first', 3), (2, 'Two', 'second', 5), (3, NULL, '', 5)",
)
BY_TITLE = Mapping(
    connection="",
    table="docs",
    url="https://docs.example.com/{id}",
    content=ContentFrom(column="body"),
    title="title",
)


def opened(server: Server | Sqlite, *statements: str, mapping: Mapping = BY_TITLE) -> Rows:
    """The rows of a mapping in a new database."""
    connection = server.url(server.new_database(*statements))
    mapping = replace(mapping, connection=connection)
    return open_rows(mapping, connect(mapping))


def refusal(act: Callable[[], object], kind: type[FeedferryError] = ConfigError) -> str:
    with pytest.raises(kind) as caught:
        act()
    assert caught.value.__cause__ is None
    return str(caught.value)


def test_columns_are_those_that_records_are_made_of(server: Server | Sqlite) -> None:
    assert opened(server, *DOCS).names == ("id", "title", "body")


def test_columns_are_all_where_a_page_is_made_of_the_row(server: Server | Sqlite) -> None:
    rows = opened(server, *DOCS, mapping=replace(BY_TITLE, content=ContentFrom()))
    assert rows.names == ("id", "title", "body", "level")


def test_columns_are_all_where_all_are_metadata(server: Server | Sqlite) -> None:
    rows = opened(server, *DOCS, mapping=replace(BY_TITLE, all_metadata=True))
    assert rows.names == ("id", "title", "body", "level")


def test_a_key_that_is_not_given_is_the_primary_key(server: Server | Sqlite) -> None:
    assert opened(server, *DOCS).key == ("id",)


def test_a_primary_key_needs_no_proof(server: Server | Sqlite) -> None:
    assert opened(server, *DOCS).known_unique


def test_a_unique_index_needs_no_proof(server: Server | Sqlite) -> None:
    index = "CREATE UNIQUE INDEX levels ON docs (level, id)"
    rows = opened(server, *DOCS, index, mapping=replace(BY_TITLE, key=("level", "id")))
    assert rows.known_unique


def test_a_unique_index_of_some_rows_proves_nothing(postgresql_server: Server) -> None:
    index = "CREATE UNIQUE INDEX titles ON docs (title) WHERE level < 5"
    rows = opened(postgresql_server, *DOCS, index, mapping=replace(BY_TITLE, key=("title",)))
    assert not rows.known_unique


def test_columns_of_a_key_that_may_be_null_are_known(server: Server | Sqlite) -> None:
    rows = opened(server, *DOCS, mapping=replace(BY_TITLE, key=("level", "id")))
    assert rows.nullable == ("level",)


def test_a_column_is_found_whatever_its_case(server: Server | Sqlite) -> None:
    assert opened(server, *DOCS, mapping=replace(BY_TITLE, key=("ID",))).key == ("id",)


def test_a_view_has_rows(server: Server | Sqlite) -> None:
    view = "CREATE VIEW seen AS SELECT id, title, body FROM docs WHERE level > 3"
    rows = opened(server, *DOCS, view, mapping=replace(BY_TITLE, table="seen", key=("id",)))
    assert list(rows.keys_only()) == [(2,), (3,)]


def test_a_query_has_rows(server: Server | Sqlite) -> None:
    """With all that a person may end it with, and colons that are no parameters."""
    query = (
        "SELECT d.id, e.title, d.body, ':x' AS colon FROM docs d JOIN docs e ON e.id = d.id -- 1"
    )
    mapping = replace(BY_TITLE, table=None, query=f"{query}\n;\n", key=("id",))
    assert list(opened(server, *DOCS, mapping=mapping).keys_only()) == [(1,), (2,), (3,)]


def test_a_query_casts_as_postgresql_writes_it(postgresql_server: Server) -> None:
    query = "SELECT id::text AS id, title, body FROM docs WHERE title LIKE 'T%'"
    mapping = replace(BY_TITLE, table=None, query=query, key=("id",))
    assert list(opened(postgresql_server, *DOCS, mapping=mapping).keys_only()) == [("2",)]


def test_a_table_stands_in_its_schema(postgresql_server: Server) -> None:
    schema = "CREATE SCHEMA old"
    table = "CREATE TABLE old.docs AS SELECT * FROM docs WHERE id = 2"
    mapping = replace(BY_TITLE, schema="old", key=("id",))
    rows = opened(postgresql_server, *DOCS, schema, table, mapping=mapping)
    assert list(rows.keys_only()) == [(2,)]


def test_names_that_need_quotes_are_quoted(server: Server | Sqlite) -> None:
    quote = "`" if server.scheme == "mariadb" else '"'
    table = 'CREATE TABLE "My %docs" ("Key id" INT NOT NULL PRIMARY KEY, "order" VARCHAR(9))'
    mapping = replace(
        BY_TITLE, table="My %docs", url="https://x.example.com/{Key id}", title="order"
    )
    mapping = replace(mapping, content=ContentFrom())
    rows = opened(server, table.replace('"', quote), mapping=mapping)
    assert rows.names == ("Key id", "order")


def test_rows_are_narrowed_to_those_between_two_values(server: Server | Sqlite) -> None:
    mapping = replace(BY_TITLE, incremental=Incremental(timestamp="level"))
    rows = opened(server, *DOCS, mapping=mapping)
    assert list(rows.narrowed("level", after=3, upto=5).keys_only()) == [(2,), (3,)]


def test_rows_are_narrowed_by_one_bound(server: Server | Sqlite) -> None:
    mapping = replace(BY_TITLE, incremental=Incremental(timestamp="level"))
    assert list(opened(server, *DOCS, mapping=mapping).narrowed("level", upto=3).keys_only()) == [
        (1,)
    ]


def test_the_highest_value_is_told(server: Server | Sqlite) -> None:
    mapping = replace(BY_TITLE, incremental=Incremental(timestamp="level"))
    assert opened(server, *DOCS, mapping=mapping).maximum("level") == 5


def test_the_highest_value_of_no_rows_is_none(server: Server | Sqlite) -> None:
    mapping = replace(BY_TITLE, incremental=Incremental(timestamp="level"))
    assert opened(server, DOCS[0], mapping=mapping).maximum("level") is None


def test_a_table_that_is_not_there_is_told_with_those_that_are(server: Server | Sqlite) -> None:
    other = "CREATE VIEW people AS SELECT id FROM docs"
    mapping = replace(BY_TITLE, table="dosc")
    assert refusal(lambda: opened(server, *DOCS, other, mapping=mapping)) == (
        "table: 'dosc'; expected one of docs, people; did you mean 'docs'?"
    )


def test_a_table_where_there_is_none_is_told(server: Server | Sqlite) -> None:
    assert refusal(lambda: opened(server)) == (
        "table: 'docs'; expected a table or view, and there is none"
    )


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        (
            replace(BY_TITLE, title="titel"),
            "title: 'titel'; expected a column: id, title, body, level; did you mean 'title'?",
        ),
        (
            replace(BY_TITLE, key=("number",)),
            "key: 'number'; expected a column: id, title, body, level",
        ),
        (
            replace(BY_TITLE, metadata=(Columns(name="Level", column="levels"),)),
            "metadata: Level: 'levels'; expected a column: id, title, body, level; did you mean "
            "'level'?",
        ),
        (
            replace(BY_TITLE, content=ContentFrom(column="html")),
            "content: 'html'; expected a column: id, title, body, level",
        ),
        (
            replace(BY_TITLE, incremental=Incremental(timestamp="changed")),
            "incremental: timestamp: 'changed'; expected a column: id, title, body, level",
        ),
    ],
)
def test_a_column_that_is_not_there_is_told_with_those_that_are(
    sqlite_server: Sqlite, mapping: Mapping, message: str
) -> None:
    assert refusal(lambda: opened(sqlite_server, *DOCS, mapping=mapping)) == message


def test_a_table_without_primary_key_needs_a_key(server: Server | Sqlite) -> None:
    table = "CREATE TABLE docs (id INT, title VARCHAR(9), body TEXT)"
    assert refusal(lambda: opened(server, table)) == (
        "key: not given, and table 'docs' has no primary key; expected a list of columns: "
        "key: [COLUMN]"
    )


def test_a_query_needs_a_key(server: Server | Sqlite) -> None:
    mapping = replace(BY_TITLE, table=None, query="SELECT * FROM docs")
    assert refusal(lambda: opened(server, *DOCS, mapping=mapping)) == (
        "key: not given, and a query has none; expected a list of columns: key: [COLUMN]"
    )


def test_two_rows_with_one_key_are_told(server: Server | Sqlite) -> None:
    rows = opened(server, *DOCS, mapping=replace(BY_TITLE, key=("level",)))
    assert refusal(lambda: check_key(rows)) == (
        "key: 2 rows of table 'docs' have level=5; expected columns whose values no two rows share"
    )


def test_two_rows_with_two_keys_are_fine(server: Server | Sqlite) -> None:
    rows = opened(server, *DOCS, mapping=replace(BY_TITLE, key=("level", "body")))
    check_key(rows)


def test_keys_are_the_same_as_their_collation_has_it(mariadb_server: Server) -> None:
    query = "SELECT CASE id WHEN 1 THEN 'a' ELSE 'A ' END AS id, title, body FROM docs WHERE id < 3"
    mapping = replace(BY_TITLE, table=None, query=query, key=("id",))
    rows = opened(mariadb_server, *DOCS, mapping=mapping)
    assert refusal(lambda: check_key(rows)) == (
        "key: 2 rows of the query have id='a'; expected columns whose values no two rows share"
    )


def test_two_columns_of_one_name_are_told(postgresql_server: Server) -> None:
    query = "SELECT a.id, b.id, a.title, a.body FROM docs a JOIN docs b ON a.id = b.id"
    mapping = replace(BY_TITLE, table=None, query=query, key=("id",))
    assert refusal(lambda: opened(postgresql_server, *DOCS, mapping=mapping)) == (
        "query: 2 columns are called 'id'; expected a name of its own for each, as AS gives one"
    )


@pytest.mark.parametrize("sort", ["INT[]", "POINT", "TSVECTOR", "INT4RANGE", "INT", "DATE"])
def test_a_type_that_cannot_be_content_is_told_in_postgresql(
    postgresql_server: Server, sort: str
) -> None:
    table = f"CREATE TABLE docs (id INT PRIMARY KEY, title TEXT, body {sort})"
    names = {"INT[]": "int4[]", "INT": "int4"}
    assert refusal(lambda: opened(postgresql_server, table)) == (
        f"content: column: 'body' has the type {names.get(sort, sort.lower())}; expected one that "
        "holds documents: text, bytes, JSON or XML"
    )


@pytest.mark.parametrize("sort", ["GEOMETRY", "DATETIME", "DOUBLE"])
def test_a_type_that_cannot_be_content_is_told_in_mariadb(
    mariadb_server: Server, sort: str
) -> None:
    table = f"CREATE TABLE docs (id INT PRIMARY KEY, title TEXT, body {sort})"
    assert refusal(lambda: opened(mariadb_server, table)) == (
        f"content: column: 'body' has the type {sort}; expected one that holds documents: text, "
        "bytes, JSON or XML"
    )


@pytest.mark.parametrize("sort", ["FLOAT", "BIT", "ENUM('b','a')", "SET('b','a')"])
def test_a_type_that_compares_otherwise_than_it_orders_is_no_key(
    mariadb_server: Server, sort: str
) -> None:
    table = f"CREATE TABLE docs (id {sort} PRIMARY KEY, title TEXT, body TEXT)"
    assert refusal(lambda: opened(mariadb_server, table)) == (
        f"key: 'id' has the type {sort.partition('(')[0]}, whose values are not ordered as they "
        "compare; expected another column, or a query that casts it"
    )


def test_sql_that_is_wrong_is_told_in_one_line(postgresql_server: Server) -> None:
    database = postgresql_server.new_database(*DOCS)
    mapping = replace(
        BY_TITLE,
        connection=postgresql_server.url(database),
        table=None,
        query="SELECT idd, title, body FROM docs",
        key=("id",),
    )
    assert refusal(lambda: open_rows(mapping, connect(mapping))) == (
        f"postgresql://127.0.0.1:{postgresql_server.port}/{database}, the query: column "
        '"idd" does not exist; expected SQL that this database understands'
    )


def test_sql_that_is_wrong_is_the_fault_of_who_wrote_it(server: Server | Sqlite) -> None:
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
    list(open_rows(mapping, connect(mapping)).keys_only())
    wait_until(lambda: postgresql_server.connections(database) == 0)


def test_a_file_is_found_below_the_folder_of_the_mapping(
    sqlite_server: Sqlite, tmp_path: Path
) -> None:
    database = sqlite_server.new_database(*DOCS)
    mapping = replace(BY_TITLE, connection=f"sqlite:///{database}.db", folder=str(tmp_path))
    assert list(open_rows(mapping, connect(mapping)).keys_only()) == [(1,), (2,), (3,)]


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    mapping = replace(BY_TITLE, connection=f"sqlite:///{tmp_path}/none.db")
    assert refusal(lambda: open_rows(mapping, connect(mapping)), SourceError) == (
        f"sqlite:///{tmp_path}/none.db, table 'docs': unable to open database file; expected a "
        "database that answers"
    )
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize(
    ("connection", "message"),
    [
        (
            "docs",
            "connection: no url; expected one such as postgresql://user:${env:PASSWORD}@host/name",
        ),
        (
            "access://host/docs",
            "connection: 'access'; expected a database that SQLAlchemy knows, such as postgresql, "
            "mariadb, mysql or sqlite",
        ),
        (
            "oracle+oracledb://s3same@host/docs",
            "connection: 'oracle+oracledb' needs the Python package 'oracledb', which is not "
            "installed; expected it, or another driver",
        ),
        (
            "mysql+mysqldb://host/docs",
            "connection: 'mysql+mysqldb' needs the Python package 'mysqlclient', which is not "
            "installed; expected it, or another driver",
        ),
        (
            "postgresql://me:${env:NOT_SET_ANYWHERE}@host/docs",
            "${env:NOT_SET_ANYWHERE}: not set; expected a variable of the environment",
        ),
    ],
)
def test_what_cannot_be_connected_to_is_told(connection: str, message: str) -> None:
    assert refusal(lambda: connect(replace(BY_TITLE, connection=connection))) == message


def test_a_secret_is_looked_up_when_it_is_needed(
    remote: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is taken as it is, whatever it would mean in a url."""
    monkeypatch.setenv("DOCS_PASSWORD", PASSWORD)
    connection = remote.url(remote.new_database(*DOCS), password="X").replace(
        ":X@", ":${env:DOCS_PASSWORD}@"
    )
    mapping = replace(BY_TITLE, connection=connection)
    assert list(open_rows(mapping, connect(mapping)).keys_only()) == [(1,), (2,), (3,)]


def test_a_url_may_be_a_secret_as_a_whole(remote: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCS_URL", remote.url(remote.new_database(*DOCS)))
    mapping = replace(BY_TITLE, connection="${env:DOCS_URL}")
    assert list(open_rows(mapping, connect(mapping)).keys_only()) == [(1,), (2,), (3,)]


def failing(mapping: Mapping, **changes: Any) -> SourceError:
    mapping = replace(mapping, **changes)
    with pytest.raises(SourceError) as caught:
        open_rows(mapping, connect(mapping))
    return caught.value


def test_a_wrong_password_is_told_and_not_shown(remote: Server) -> None:
    database = remote.new_database(*DOCS)
    exc = failing(BY_TITLE, connection=remote.url(database, password="wr0ng/pass"))
    assert str(exc).startswith(
        f"{remote.scheme}://127.0.0.1:{remote.port}/{database}, table 'docs'"
    )
    assert "wr0ng" not in repr(exc)


def test_a_database_that_is_not_there_is_told_without_the_password(remote: Server) -> None:
    exc = failing(BY_TITLE, connection=remote.url("nowhere"))
    assert "nowhere" in str(exc)
    assert "s3same" not in repr(exc)


def test_a_server_that_is_not_there_is_told_without_the_password(remote: Server) -> None:
    with kept_port() as port:
        exc = failing(BY_TITLE, connection=remote.url("docs", port=port))
    assert f"{remote.scheme}://127.0.0.1:{port}/docs" in str(exc)
    assert "s3same" not in repr(exc)


def test_a_password_that_the_database_repeats_is_hidden(remote: Server) -> None:
    """As a name of a database that is a password, too."""
    exc = failing(BY_TITLE, connection=remote.url("s3same", password="s3same"))
    assert "s3same" not in repr(exc)


def test_nothing_of_rows_shows_a_password(remote: Server) -> None:
    rows = opened(remote, *DOCS)
    assert "s3same" not in repr((rows.engine, rows.columns, rows.selectable, rows.key, rows.shown))


def test_an_error_has_no_trace_of_what_it_was_raised_from(remote: Server) -> None:
    exc = failing(BY_TITLE, connection=remote.url("nowhere"))
    assert exc.__suppress_context__


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
def test_a_login_that_may_not_read_is_told_apart(server: Server, grant: str, said: str) -> None:
    name = server.new_database(*DOCS, "CREATE TABLE other (id INT)")
    server.execute(name, [grant.format(name=name, password=PASSWORD)])
    connection = server.url(name).replace("feeder", f"nobody_{name}")
    mapping = replace(BY_TITLE, connection=connection)
    with pytest.raises(SourceError) as caught:
        open_rows(mapping, connect(mapping))
    assert str(caught.value) == (
        f"{server.scheme}://127.0.0.1:{server.port}/{name}, table 'docs': "
        f"{said.format(name=name)}; expected a login that may read it"
    )
