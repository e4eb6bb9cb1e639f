"""Databases as a source by the command line, and what a second run makes of them."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from support.archives import put
from support.runs import chunks, convert, report

MAPPING = """\
connection: sqlite:///people.db
table: people
url: https://people.example.com/{dept}/{id}
content: {column: body}
title: name
metadata: [dept]
modified: updated_at
"""
WORDS = ("--from", "database", "--mapping", "people.yaml", "--to", "gsa-feed")
FEED = (*WORDS, "--datasource", "people")
STATE = (*FEED, "--state", "people.state")

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("people")]


@pytest.fixture
def people(here: Path) -> Path:
    """A database of a hundred people, and the file that maps them."""
    ask(
        "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT, dept TEXT, body TEXT,"
        " updated_at TEXT)"
    )
    rows = [
        (number, f"Person {number}", "R&D", f"hello {number}", "2026-11-20 08:00:00")
        for number in range(1, 101)
    ]
    with closing(sqlite3.connect("people.db")) as connection, connection:
        connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?)", rows)
    put(here / "people.yaml", MAPPING.encode())
    return here


def ask(statement: str) -> None:
    with closing(sqlite3.connect("people.db")) as connection, connection:
        connection.execute(statement)


def incremental(how: str) -> None:
    Path("people.yaml").write_text(f"{MAPPING}incremental: {how}\n", "utf-8")


def test_a_row_becomes_a_record() -> None:
    code = convert(*FEED, "-o", "out")
    assert code == 0
    assert report("out")["account"]["written"] == {"ADD": 100}
    assert (
        b'<record url="https://people.example.com/R%26D/7" mimetype="text/plain"'
        b' last-modified="Fri, 20 Nov 2026 08:00:00 GMT">\n<metadata>\n'
        b'<meta name="title" content="Person 7"/>\n<meta name="dept" content="R&amp;D"/>\n'
        b"</metadata>\n<content>hello 7</content>\n</record>\n"
    ) in chunks("out")[0]


def test_a_second_run_sends_what_changed_and_deletes_what_is_gone() -> None:
    incremental("{timestamp: updated_at, deletes: compare}")
    convert(*STATE, "-o", "one")
    ask("UPDATE people SET body = 'new', updated_at = '2026-11-20 09:00:00' WHERE id = 8")
    ask("DELETE FROM people WHERE id = 7")
    convert(*STATE, "-o", "two")
    written = b"".join(chunks("two"))
    assert written.count(b"<record ") == 2
    assert b"<content>new</content>" in written
    assert b'<record url="https://people.example.com/R%26D/7" action="delete"' in written


def test_a_table_that_was_emptied_stops_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    incremental("{deletes: compare}")
    convert(*STATE, "-o", "one")
    ask("DELETE FROM people WHERE id > 50")
    code = convert(*STATE, "-o", "two")
    assert code == 3
    assert "50 of 100 documents in the state are gone" in capsys.readouterr().err


def test_a_rejected_row_is_read_again_until_it_is_accepted() -> None:
    incremental("{timestamp: updated_at, lag: 0s}")
    ask("UPDATE people SET body = NULL WHERE id = 7")
    ask("UPDATE people SET updated_at = '2026-11-20 09:00:00' WHERE id = 8")
    first = convert(*STATE, "-o", "one")
    second = convert(*STATE, "-o", "two")
    ask("UPDATE people SET body = 'corrected' WHERE id = 7")
    third = convert(*STATE, "-o", "three")
    assert (first, second, third) == (1, 1, 0)
    assert b"<content>corrected</content>" in chunks("three")[0]


def test_a_password_is_nowhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PEOPLE", "s3cr3t")
    text = MAPPING.replace(
        "sqlite:///people.db", "postgresql+psycopg://reader:${env:PEOPLE}@127.0.0.1:1/people"
    )
    Path("people.yaml").write_text(text, "utf-8")
    code = convert(*FEED, "-o", "out", "-vv")
    assert code == 4
    assert "s3cr3t" not in capsys.readouterr().err


def test_rows_whose_acls_do_not_inherit_go_to_a_target_of_decisions() -> None:
    acl = "acl: {users: dept}\n"
    Path("people.yaml").write_text(MAPPING + acl, "utf-8")
    assert convert(*FEED, "--to", "opensearch", "-o", "out") == 0
    assert report("out")["account"]["written"] == {"ADD": 100}
    assert "step-unused" not in report("out")["account"]["notices"]  # the user has not stated it
    assert chunks("out")[0].count(b'"acl_1_permit_1":["us:Default:R%26D"]') == 100


def test_rows_whose_acls_inherit_are_not_read_twice(capsys: pytest.CaptureFixture[str]) -> None:
    acl = "acl: {users: dept, inherit_from: 'https://people.example.com/{dept}/'}\n"
    Path("people.yaml").write_text(MAPPING + acl, "utf-8")
    assert convert(*FEED, "--to", "opensearch", "-o", "out") == 2
    assert "write an archive with --to avro" in capsys.readouterr().err
