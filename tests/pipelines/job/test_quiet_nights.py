"""Nights without changes: a run without chunks is done, and the next one sends what has changed."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from feedferry.pipelines.cli.main import main
from feedferry.pipelines.folders.job_folders import runs_of
from feedferry.schemas.run_record import Phase
from support.archives import document, gsa_feed, put
from support.served import Served, serving
from support.spools import HandSpool

pytestmark = pytest.mark.slow

Night = Callable[[int], None]
"""Makes the source of a night: it has a new document in the first and the fourth one."""
HAS_NEWS = (1, 4)


def files(night: int) -> None:
    if night in HAS_NEWS:
        put(Path(f"docs/{night}.txt"), b"text")


def database(night: int) -> None:
    put(
        Path("people.yaml"),
        b"connection: sqlite:///people.db\ntable: people\nurl: http://intranet.example.com/{id}.txt"
        b"\ncontent: {column: body}\nmimetype: text/plain\n",
    )
    with closing(sqlite3.connect("people.db")) as connection, connection:
        connection.execute("CREATE TABLE IF NOT EXISTS people (id integer PRIMARY KEY, body text)")
        if night in HAS_NEWS:
            connection.execute("INSERT INTO people VALUES (?, 'text')", (night,))


def programs(night: int) -> None:
    put(Path("programs.yaml"), b"lister: [cat, listing]\nretriever: [./get.sh]\n")
    get = b"#!/bin/sh\nprintf 'GSA Adaptor Data Version 1 [\\n]\\nid=%s\\ncontent\\ntext' $1\n"
    put(Path("get.sh"), get)
    Path("get.sh").chmod(0o755)
    listed = f"id={night}.txt\n" if night in HAS_NEWS else ""
    put(Path("listing"), f"GSA Adaptor Data Version 1 [\n]\n{listed}".encode())


def feeds(night: int) -> None:
    put(Path("feed.xml"), gsa_feed(*[document(night)] if night in HAS_NEWS else []))


def spool(night: int) -> None:
    put(Path("spool/deliveries.jsonl"), b"")
    HandSpool().feed(gsa_feed(*[document(night)] if night in HAS_NEWS else []))


BASE = "base_url: 'http://intranet.example.com/'"
SOURCES: dict[str, tuple[str, Night]] = {
    "files": (f"{{type: files, path: docs, {BASE}}}", files),
    "database": ("{type: database, mapping: people.yaml}", database),
    "adaptor": (f"{{type: adaptor, path: programs.yaml, {BASE}}}", programs),
    "gsa-feed": ("{type: gsa-feed, path: feed.xml}", feeds),
    "spool": ("{type: spool, path: spool}", spool),
}


@pytest.fixture(scope="module")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("appliance") / "spool") as served:
        yield served


def nights_of(job: str, make: Night) -> list[int]:
    """Run the job on four nights, and return the exit codes; all runs have reached their end."""
    Path("job.yaml").write_text(job)
    codes = []
    for night in (1, 2, 3, 4):
        make(night)
        codes.append(main(["run", "job.yaml", "--progress", "none"]))
    phases = [(run.phase, run.attempts, run.is_abandoned) for run in runs_of(Path("runs/job"))]
    assert phases == [(Phase.DONE, 1, False)] * 4
    return codes


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("verified", ["", "verify: target\n"], ids=["no verify", "verify"])
def test_a_change_after_two_nights_without_changes_is_sent(
    here: Path, appliance: Served, kind: str, verified: str
) -> None:
    source, make = SOURCES[kind]
    name = f"{kind}-{len(verified)}"
    target = f"{{type: gsa-feed, datasource: {name}, url: '{appliance.url}'}}"
    codes = nights_of(f"version: 1\njob: job\nsource: {source}\ntarget: {target}\n{verified}", make)

    assert codes == [0, 0, 0, 0]
    assert "http://intranet.example.com/4.txt" in appliance.urls()
    runs = [Path("runs/job", run.id) for run in runs_of(Path("runs/job"))]
    has_proof = [(run / "verification.json").exists() for run in runs]
    assert has_proof == [bool(verified), False, False, bool(verified)]


@pytest.mark.parametrize("kind", SOURCES)
def test_a_job_without_a_push_is_done_on_each_night(here: Path, kind: str) -> None:
    source, make = SOURCES[kind]
    target = "{type: gsa-feed, datasource: people}"
    codes = nights_of(f"version: 1\njob: job\nsource: {source}\ntarget: {target}\n", make)
    assert codes == [0, 0, 0, 0]


@pytest.mark.parametrize("verified", ["verify: urls\n", "verify: other\n"])
def test_a_night_without_chunks_asks_no_target(
    here: Path, appliance: Served, verified: str
) -> None:
    Path("docs").mkdir()
    put(Path("other/feed.xml"), gsa_feed(document(1)))
    target = f"{{type: gsa-feed, datasource: quiet, url: '{appliance.url}'}}"
    source, _ = SOURCES["files"]
    job = f"version: 1\njob: job\nsource: {source}\ntarget: {target}\n{verified}"
    assert nights_of(job, lambda night: None) == [0, 0, 0, 0]
