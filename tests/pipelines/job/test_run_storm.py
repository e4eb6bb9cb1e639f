"""Runs that are killed at any operation, while their sources change, end as their sources are."""

import random
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path

import pytest

from feedferry.pipelines.folders.job_folders import run_folders, runs_of
from feedferry.transforms.sources.spool import read_deliveries
from support.forks import Forks, forks
from support.served import Served, serving

pytestmark = pytest.mark.slow

KILLS = 20
DOCUMENTS = 12
HOST = "http://docs.example.com/"
SMALL = ("--set", "source.span_bytes=200B", "--set", "chunk.max_records=3", "--set", "keep.runs=2")
CAN_DELETE = ("--set", "safety.max_delete_percent=100")
TREE = """\
version: 1
job: tree
source: {type: files, path: docs, base_url: "http://docs.example.com/"}
target: {type: gsa-feed, datasource: tree, url: URL}
"""
FEEDS = """\
version: 1
job: feeds
source: {type: gsa-feed, path: [feed.xml]}
target: {type: gsa-feed, url: URL}
"""
ROWS = """\
version: 1
job: rows
source: {type: database, mapping: mapping.yaml}
target: {type: gsa-feed, datasource: rows, url: URL}
"""
MAPPING = """\
connection: sqlite:///rows.db
table: people
url: "http://docs.example.com/{id}"
content: {column: body}
mimetype: text/plain
incremental: {timestamp: updated, lag: 0s, deletes: compare}
"""


class Documents:
    """The documents of a source by name; each version of one has a greater number."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self.texts: dict[str, str] = {}
        self._version = 0
        for number in range(DOCUMENTS):
            self._change(f"{number}.txt")

    def change(self) -> None:
        """Write, change and delete some documents; at least one is left."""
        for _ in range(self.random.randrange(3)):
            self._change(f"{self.random.randrange(2 * DOCUMENTS)}.txt")
        if len(self.texts) > 1 and self.random.random() < 0.5:
            del self.texts[self.random.choice(sorted(self.texts))]

    def digests(self) -> dict[str, str]:
        return {HOST + name: sha256(text.encode()).hexdigest() for name, text in self.texts.items()}

    def _change(self, name: str) -> None:
        self._version += 1
        self.texts[name] = f"{name} is at version {self._version:05d}."

    @property
    def version(self) -> int:
        return self._version


def write_tree(documents: Documents) -> None:
    folder = documents.folder / "docs"
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        if path.name not in documents.texts:
            path.unlink()
    for name, text in documents.texts.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def write_feed(documents: Documents) -> None:
    records = "".join(
        f'<record url="{HOST}{name}" mimetype="text/plain"><content>{text}</content></record>\n'
        for name, text in documents.texts.items()
    )
    (documents.folder / "feed.xml").write_text(
        "<gsafeed><header><datasource>feeds</datasource><feedtype>full</feedtype></header>"
        f"<group>\n{records}</group></gsafeed>\n"
    )


def write_rows(documents: Documents) -> None:
    (documents.folder / "mapping.yaml").write_text(MAPPING)
    with closing(sqlite3.connect(documents.folder / "rows.db")) as database, database:
        database.execute("CREATE TABLE IF NOT EXISTS people (id PRIMARY KEY, body, updated)")
        known = dict(database.execute("SELECT id, body FROM people"))
        for name in known.keys() - documents.texts.keys():
            database.execute("DELETE FROM people WHERE id = ?", (name,))
        for name, text in documents.texts.items():
            if known.get(name) != text:
                updated = f"2026-11-21 00:00:00.{documents.version:06d}"
                row = (name, text, updated)
                database.execute("INSERT OR REPLACE INTO people VALUES (?, ?, ?)", row)


@contextmanager
def storm(folder: Path, job: str) -> Iterator[tuple[Forks, Served]]:
    folder.mkdir()
    with serving(folder / "spool") as appliance, forks(folder) as runs:
        (folder / "job.yaml").write_text(job.replace("URL", f'"{appliance.url}"'))
        yield runs, appliance


@pytest.mark.parametrize(
    ("job", "write", "flags", "seed"),
    [
        (TREE, write_tree, CAN_DELETE, 1),
        (FEEDS, write_feed, (), 2),
        (ROWS, write_rows, CAN_DELETE, 3),
    ],
)
def test_after_any_kills_the_appliance_has_what_the_source_has(
    tmp_path: Path,
    job: str,
    write: Callable[[Documents], None],
    flags: tuple[str, ...],
    seed: int,
) -> None:
    folder = tmp_path / "job"
    words = ("run", "job.yaml", "--progress", "none", *SMALL, *flags)
    with storm(folder, job) as (runs, appliance):
        documents = Documents(folder, seed)
        write(documents)
        first = runs.run(*words)
        assert first.returncode == 0, first.output
        kills = 0
        while kills < KILLS:
            documents.change()
            write(documents)
            last = documents.random.randrange(1, 2 * first.operations)  # of two runs
            fresh = ["--fresh"] * (documents.random.random() < 0.2)
            run = runs.run(*words, *fresh, last=last)
            assert run.returncode in (0, -9), run.output
            kills += run.returncode == -9
            listed = runs.run("runs", "list", "job.yaml")
            assert listed.returncode == 0, listed.output
            if run.returncode == 0:
                check_documents(appliance, documents)
        run = runs.run(*words)  # an unfinished run, and a run of what has changed since
        assert run.returncode == 0, run.output
        check_documents(appliance, documents)
        check_order(appliance)
        (home,) = (path.parent for path in folder.glob("runs/*/lock"))
        assert [record.is_over for record in runs_of(home)] == [True, True]
        assert len(run_folders(home)) == 2


def check_documents(appliance: Served, documents: Documents) -> None:
    stored = {document["url"]: document["sha256"] for document in appliance.documents()}
    assert stored == documents.digests()


def check_order(appliance: Served) -> None:
    """No older version of a document came after a newer one."""
    newest: dict[str, int] = {}
    for delivery in read_deliveries(appliance.spool):
        text = (appliance.spool / (delivery.path or "")).read_text()
        for url, version in re.findall(r'<record url="([^"]+)".*?version (\d{5})', text, re.DOTALL):
            assert int(version) >= newest.get(url, 0), url
            newest[url] = int(version)
