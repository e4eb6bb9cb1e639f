"""Rows that share a URL: they are listed, and what becomes of one concerns the others."""

import json
from pathlib import Path
from typing import Any

import pytest

from feedferry.pipelines.cli.main import main
from feedferry.schemas.source_options import SourceOptions
from feedferry.schemas.span import Span
from feedferry.transforms.formats.base import ReadOptions
from feedferry.transforms.sources.base import SourceRun
from feedferry.transforms.sources.database.mapping.row_mapping import (
    DATABASE,
    IncrementalReading,
    RowMapping,
)
from feedferry.transforms.sources.database.plan import plan_rows
from support.database_runs import AnyServer, Database, new_table


def shared(folder: Path, *statements: str, **keys: Any) -> Database:
    table = "CREATE TABLE people (id INT PRIMARY KEY, slug, body TEXT, at INT, gone INT)"
    rows = "INSERT INTO people VALUES (1, 'x', 'one', 1, NULL), (2, 'x', 'two', 1, NULL)"
    other = "INSERT INTO people VALUES (3, 'y', 'three', 1, NULL)"
    url = "http://db.example.com/{slug}"
    return Database(folder, table, rows, other, *statements, url=url, **keys)


COMPARED = {"incremental": IncrementalReading(deletes="compare")}
BY_TIME = {"incremental": IncrementalReading(timestamp="at", lag_seconds=0, deletes="compare")}
MARKED = {"incremental": IncrementalReading(timestamp="at", lag_seconds=0), "deleted_at": "gone"}


@pytest.mark.parametrize(
    ("keys", "statement", "left"),
    [
        ({}, "DELETE FROM people WHERE id = 1", "two"),
        ({}, "DELETE FROM people WHERE id = 2", "one"),
        (COMPARED, "DELETE FROM people WHERE id = 1", "two"),
        (COMPARED, "DELETE FROM people WHERE id = 2", "one"),
        (BY_TIME, "DELETE FROM people WHERE id = 2", "one"),
        (COMPARED, "UPDATE people SET slug = 'z' WHERE id = 2", "one"),
        (BY_TIME, "UPDATE people SET slug = 'z', at = 2 WHERE id = 2", "one"),
        (MARKED, "UPDATE people SET gone = 1, at = 2 WHERE id = 2", "one"),
        (MARKED, "UPDATE people SET gone = 1, at = 2 WHERE id = 1", "two"),
    ],
)
def test_the_row_that_remains_of_a_shared_url_is_sent_in_the_same_run(
    tmp_path: Path, keys: dict[str, Any], statement: str, left: str
) -> None:
    database = shared(tmp_path, **keys)
    database.run()
    assert database.run() == []
    database.execute(statement)
    database.run()
    assert database.target["http://db.example.com/x"] == left
    database.run()
    assert database.run() == []
    assert database.target["http://db.example.com/x"] == left


def test_a_query_may_return_a_deleted_row_of_a_shared_url_in_every_run(tmp_path: Path) -> None:
    query = "SELECT 2 AS id WHERE NOT EXISTS (SELECT 1 FROM people WHERE id = 2)"
    database = shared(tmp_path, incremental=IncrementalReading(deletes=query))
    database.run()
    database.execute("DELETE FROM people WHERE id = 2")
    assert database.run() == ["ADD http://db.example.com/x"]
    assert database.run() == []
    assert database.run() == []
    assert database.target["http://db.example.com/x"] == "one"


@pytest.mark.parametrize(
    ("keys", "statement"),
    [
        (COMPARED, "UPDATE people SET body = 'new' WHERE id = 1"),
        (BY_TIME, "UPDATE people SET body = 'new', at = 2 WHERE id = 1"),
        (MARKED, "UPDATE people SET body = 'new', at = 2 WHERE id = 1"),
        ({}, "INSERT INTO people VALUES (0, 'x', 'new', 2, NULL)"),
        (BY_TIME, "INSERT INTO people VALUES (0, 'x', 'new', 2, NULL)"),
    ],
)
def test_the_last_row_of_a_shared_url_stays_the_last_if_another_is_new_or_changed(
    tmp_path: Path, keys: dict[str, Any], statement: str
) -> None:
    database = shared(tmp_path, **keys)
    database.run()
    database.execute(statement)
    database.run()
    assert database.target["http://db.example.com/x"] == "two"
    assert database.run() == []


def test_a_row_that_takes_the_url_of_a_later_row_does_not_replace_it(tmp_path: Path) -> None:
    database = shared(tmp_path, **BY_TIME)
    database.run()
    database.execute("INSERT INTO people VALUES (0, 'y', 'new', 2, NULL)")
    database.run()
    assert database.target["http://db.example.com/y"] == "three"
    assert database.run() == []


def test_no_document_remains_if_all_rows_of_a_shared_url_are_deleted(tmp_path: Path) -> None:
    database = shared(tmp_path, **COMPARED)
    database.run()
    database.execute("DELETE FROM people WHERE slug = 'x'")
    assert set(database.run()) == {"DELETE http://db.example.com/x"}
    assert database.target == {"http://db.example.com/y": "three"}


def listed(database: Database) -> list[Any]:
    database.plan()
    (path,) = (database.folder / f"run{database.runs}").glob("*.shared.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_rows_that_share_a_url_are_listed(tmp_path: Path) -> None:
    url = "http://db.example.com/x"
    assert listed(shared(tmp_path)) == [[url, "[1]"], [url, "[2]"]]


def test_rows_that_are_marked_as_deleted_share_no_url(tmp_path: Path) -> None:
    database = shared(tmp_path, "UPDATE people SET gone = 1 WHERE id = 2", deleted_at="gone")
    assert listed(database) == [["http://db.example.com/x", "[1]"]]


@pytest.mark.slow
def test_a_run_reports_shared_urls_and_a_step_refuses_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shared(tmp_path)
    Path("people.yaml").write_text(
        "connection: sqlite:///people.db\ntable: people\nurl: http://db.acme.com/{slug}\n"
    )
    Path("steps.yaml").write_text("transform: [{urls: {merged: refuse}}]\n")
    words = ["--from", "database", "--mapping", "people.yaml", "--to", "jsonl"]
    detail = (
        "2 documents share 1 URL; the last of each is left: '[1]' and '[2]' share"
        " 'http://db.acme.com/x'"
    )
    assert main(["plan", *words]) == 0
    assert f"urls-shared: {detail}\n" in capsys.readouterr().out
    assert main(["convert", *words, "-o", "out"]) == 0
    assert Path("out/shared-urls.csv").read_text() == (
        "url,origin\nhttp://db.acme.com/x,[1]\nhttp://db.acme.com/x,[2]\n"
    )
    assert main(["convert", *words, "-o", "no", "--transform", "steps.yaml"]) == 3
    assert capsys.readouterr().err.endswith(
        f"{detail}; expected a URL for each, as urls: {{merged: refuse}} demands: correct the"
        " source\n"
    )


def test_urls_with_the_key_are_not_examined(tmp_path: Path) -> None:
    database = shared(tmp_path)
    database.remap(url="http://db.example.com/{slug}/{id}")
    database.plan()
    assert [*(tmp_path / "run0").glob("*.shared.jsonl")] == []


def test_the_columns_of_a_url_are_compared_in_every_database(
    server: AnyServer, tmp_path: Path
) -> None:
    table = "CREATE TABLE docs (id INT PRIMARY KEY, a VARCHAR(9), b VARCHAR(9))"
    rows = "INSERT INTO docs VALUES (1, 'x', 'y'), (2, 'x', 'z'), (3, 'x', 'y'), (4, NULL, 'y')"
    mapping = RowMapping(connection="", table="docs", url="http://db.example.com/{a}/{b}")
    run = SourceRun(
        span=Span(source="docs.yaml", path="docs.yaml", format=DATABASE),
        config=mapping,
        work=tmp_path,
        reading=ReadOptions(),
        options=SourceOptions(to_format="jsonl"),
    )
    plan_rows(new_table(server, mapping, table, rows), None, run)
    (path,) = tmp_path.glob("*.shared.jsonl")
    url = "http://db.example.com/x/y"
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        [url, "[1]"],
        [url, "[3]"],
    ]
