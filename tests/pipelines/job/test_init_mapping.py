"""The init verb: a draft of a mapping file for a table."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from feedferry.pipelines.cli.main import main
from support.archives import put
from support.runs import convert, report

pytestmark = pytest.mark.usefixtures("here")


@pytest.fixture
def people() -> None:
    with closing(sqlite3.connect("people.db")) as database, database:
        database.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT NOT NULL)")
        database.execute("INSERT INTO people VALUES (1, 'Ida'), (2, 'Tim')")


@pytest.fixture
def boats() -> None:
    with closing(sqlite3.connect("people.db")) as database, database:
        database.execute("CREATE TABLE boats (hull INTEGER PRIMARY KEY)")


def refusal(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str]:
    code = main(["init", *args])
    return code, capsys.readouterr().err


def test_the_only_table_is_described(people: None, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["init", "--from", "database", "sqlite:///people.db"])
    lines = capsys.readouterr().out.splitlines()
    assert code == 0
    assert 'connection: "sqlite:///people.db"' in lines
    assert "table: people" in lines
    assert "key: [id]" in lines
    assert "#   name: TEXT, not NULL" in lines


def test_a_mapping_can_be_used_as_it_is(
    here: Path, people: None, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["init", "sqlite:///people.db"])
    put(here / "people.yaml", capsys.readouterr().out.encode())
    args = ("--from", "database", "--mapping", "people.yaml", "--to", "jsonl")
    assert convert(*args, "-o", "out", "-q") == 0
    assert report("out")["account"]["written"] == {"ADD": 2}


def test_a_named_table_is_described(
    people: None, boats: None, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["init", "sqlite:///people.db", "--table", "boats"])
    assert "key: [hull]" in capsys.readouterr().out.splitlines()


def test_one_of_several_tables_must_be_named(
    people: None, boats: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refusal(capsys, "sqlite:///people.db") == (
        2,
        "feedferry: --table: missing; expected one of boats, people\n",
    )


def test_a_missing_database_is_an_error(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(capsys, "sqlite:///none.db") == (
        2,
        f"feedferry: connection: '{here}/none.db': no such file; expected a file of SQLite\n",
    )


def test_other_sources_have_no_mapping(capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(capsys, "--from", "files", "sqlite:///people.db") == (
        2,
        "feedferry: --from files: not for init; expected database\n",
    )
