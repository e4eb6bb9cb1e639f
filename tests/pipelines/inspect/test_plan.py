"""The plan of a run."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli.main import main
from support.archives import gsa_feed, put
from support.runs import convert, left

TO = ("--to", "gsa-feed", "--datasource", "docs")
TREE = ("docs", "--from", "files", *TO, "--base-url", "https://docs.example.com/")

pytestmark = pytest.mark.usefixtures("here")


def plan(capsys: pytest.CaptureFixture[str], *args: str) -> Any:  # what JSON holds
    """The plan of the one source."""
    main(["plan", *args, "--format", "json"])
    (source,) = json.loads(capsys.readouterr().out)["sources"]
    return source


def refusal(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str]:
    code = main(["plan", *args])
    return code, capsys.readouterr().err


@pytest.fixture
def tree(here: Path) -> Path:
    put(here / "docs/a.txt", b"keel")
    put(here / "docs/b/c.txt", b"planks")
    put(here / "docs/empty.txt", b"")
    put(here / "docs/.hidden", b"x")
    return here / "docs"


def test_documents_and_files_that_are_left_out_are_counted(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = plan(capsys, *TREE)
    counted = {name: found[name] for name in ("documents", "bytes", "deleted", "codes", "chunks")}
    assert counted == {
        "documents": 2,
        "bytes": 10,
        "deleted": 0,
        "codes": {"empty": 1, "hidden": 1},
        "chunks": 1,
    }


def test_samples_are_shown_without_their_contents(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = plan(capsys, *TREE)["samples"]
    assert [(one["url"], one["content_bytes"], one["losses"]) for one in found] == [
        ("https://docs.example.com/a.txt", 4, {}),
        ("https://docs.example.com/b/c.txt", 6, {}),
    ]


def test_a_sample_shows_losses(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ("docs", "--from", "files", "--base-url", "https://docs.example.com/")
    found = plan(capsys, *args, "--to", "thunderstone", "--acl", "posix", "--acl-everyone", "all")
    assert "acl" in found["samples"][0]["losses"]


def test_a_sample_shows_the_reason_of_a_reject(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = plan(capsys, *TREE, "--oversize", "metadata", "--max-content-bytes", "4")
    assert found["samples"][1]["rejected"].startswith("no-content: ")


def test_a_large_tree_has_five_samples(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    list(map(put, [here / f"docs/{number:02}.txt" for number in range(40)], [b"keel"] * 40))
    found = plan(capsys, *TREE)
    names = [one["url"][-6:] for one in found["samples"]]
    assert names == ["00.txt", "08.txt", "16.txt", "24.txt", "32.txt"]


def test_nothing_is_written(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["plan", *TREE, "--state", "docs.state"])
    assert left(".") == [
        "docs/",
        "docs/.hidden",
        "docs/a.txt",
        "docs/b/",
        "docs/b/c.txt",
        "docs/empty.txt",
    ]


def test_a_plan_of_a_second_run_is_about_changes(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = ("--state", "docs.state", "--max-delete-percent", "50")
    convert(*TREE, *state, "-o", "out", "-q")
    capsys.readouterr()
    (tree / "a.txt").unlink()
    put(tree / "d.txt", b"ribs")
    found = plan(capsys, *TREE, *state)
    assert (found["deleted"], found["bytes"] >= 4) == (1, True)


def test_a_plan_is_a_text_by_default(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["plan", *TREE])
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        "source    docs",
        "read      2 documents, 10 bytes",
        "left out  empty 1",
        "left out  hidden 1",
    ]
    assert [line[:8] for line in lines[4:]] == ["written ", "sample  ", "sample  "]


def test_a_feed_has_no_plan(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(here / "a.xml", gsa_feed())
    assert refusal(capsys, "a.xml", *TO) == (
        2,
        "feedferry: INPUT: 'a.xml' is read as gsa-feed; expected a tree of files or a database;"
        " feedferry inspect says what is in a feed\n",
    )


def test_rows_have_a_plan(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with closing(sqlite3.connect("people.db")) as database, database:
        database.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT)")
        database.execute("INSERT INTO people VALUES (1, 'Ida'), (2, 'Tim')")
    put(
        here / "people.yaml",
        b"connection: sqlite:///people.db\ntable: people\nurl: https://people.example.com/{id}\n",
    )
    found = plan(capsys, "--from", "database", "--mapping", "people.yaml", *TO)
    assert (found["documents"], found["bytes"]) == (2, None)
    assert [one["url"] for one in found["samples"]] == [
        "https://people.example.com/1",
        "https://people.example.com/2",
    ]
