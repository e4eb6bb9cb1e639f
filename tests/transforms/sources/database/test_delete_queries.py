"""The query for deletes: keys, and the urls that its rows allow."""

from pathlib import Path

import pytest

from schemas.errors import ConfigError
from support.database_runs import Database
from transforms.sources.database.delete_queries import read_deleted
from transforms.sources.database.deletions import Deleted
from transforms.sources.database.table_query import connect, open_rows


@pytest.fixture
def people(tmp_path: Path) -> Database:
    return Database(tmp_path, "CREATE TABLE people (id INTEGER PRIMARY KEY, body TEXT, slug TEXT)")


def deleted(people: Database, query: str) -> list[Deleted]:
    mapping = people.mapping
    return list(read_deleted(open_rows(mapping, connect(mapping)), query))


def test_a_row_gives_a_key_and_a_url(people: Database) -> None:
    assert deleted(people, "SELECT 7 AS id") == [Deleted(key="[7]", url="http://db.example.com/7")]


def test_the_name_of_the_key_may_have_another_case(people: Database) -> None:
    assert deleted(people, "SELECT 7 AS ID") == [Deleted(key="[7]", url="http://db.example.com/7")]


def test_a_query_may_end_in_a_comment(people: Database) -> None:
    assert deleted(people, "SELECT 7 AS id -- :all") == [
        Deleted(key="[7]", url="http://db.example.com/7")
    ]


def test_a_query_may_give_nothing(people: Database) -> None:
    assert deleted(people, "SELECT 7 AS id WHERE 1 = 0") == []


def test_a_row_that_lacks_a_column_of_the_url_has_none(people: Database) -> None:
    people.remap(url="http://db.example.com/{slug}")
    assert deleted(people, "SELECT 7 AS id") == [
        Deleted(key="[7]", reason="url: 'slug'; expected a column: id")
    ]


def test_a_row_with_null_in_its_url_has_none(people: Database) -> None:
    people.remap(url="http://db.example.com/{slug}")
    assert deleted(people, "SELECT 7 AS id, NULL AS slug") == [
        Deleted(
            key="[7]",
            reason="slug is NULL or empty; expected a value, as the url is made of it",
        )
    ]


def test_a_url_may_be_a_column(people: Database) -> None:
    people.remap(url=None, url_column="slug")
    assert deleted(people, "SELECT 7 AS id, 'http://x.example.com/7' AS slug") == [
        Deleted(key="[7]", url="http://x.example.com/7")
    ]


def test_a_row_with_null_in_its_key_has_no_key(people: Database) -> None:
    assert deleted(people, "SELECT NULL AS id") == [
        Deleted(key="[null]", reason="NULL in its key; expected a value in each column")
    ]


def test_a_query_without_the_key_is_refused(people: Database) -> None:
    with pytest.raises(ConfigError) as raised:
        deleted(people, "SELECT 7 AS number, 8 AS ident")
    assert str(raised.value) == ("incremental: deletes: 'id'; expected a column: number, ident")


def test_a_query_that_is_no_sql_is_refused(people: Database) -> None:
    with pytest.raises(ConfigError) as raised:
        deleted(people, "SELEC 7")
    assert str(raised.value) == (
        f'sqlite:///{people.folder}/people.db, the query for deletes: near "7": syntax '
        "error; expected SQL that this database understands"
    )
