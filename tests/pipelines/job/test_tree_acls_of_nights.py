"""Nights of a tree to an index: a permission of a folder counts for all its files at once."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.forks import run
from support.index_searches import found_by
from support.served import Served, serving

pytestmark = pytest.mark.slow

HOST = "http://docs.example.com/"


class TreeJob:
    """A job that reads `docs`, whose others are the group `everyone`."""

    def __init__(self, folder: Path, served: Served) -> None:
        self.folder, self._served, self.docs = folder, served, folder / "docs"
        for name in ("a/one.txt", "a/b/two.txt", "c/three.txt"):
            path = self.docs / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"text of {name}", "utf-8")
            self.age(path)
        (folder / "tree.yaml").write_text(
            "version: 1\njob: tree\n"
            f"source: {{type: files, path: docs, base_url: {HOST!r},"
            " acl: posix-inherited, acl_everyone: everyone}\n"
            f"target: {{type: opensearch, datasource: share, url: {served.url}/docs}}\n",
            "utf-8",
        )

    @staticmethod
    def age(path: Path) -> None:
        os.utime(path, (10**9, 10**9))

    def night(self) -> int:
        done = run("run", "tree.yaml", "--progress", "none", cwd=self.folder)
        assert done.returncode in (0, 1), done.stderr
        return done.returncode

    def found(self, *groups: str) -> list[str]:
        """Return the documents that a member of groups finds, by their paths."""
        return found_by(f"{self._served.url}/docs", "somebody", *groups, base=HOST)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[TreeJob]:
    with serving(tmp_path / "spool") as served:
        yield TreeJob(tmp_path, served)


def test_a_folder_that_is_closed_hides_all_its_files_the_same_night(job: TreeJob) -> None:
    every = ["a/b/two.txt", "a/one.txt", "c/three.txt"]
    assert job.night() == 0
    assert (job.found("everyone"), job.found()) == (every, [])
    [folder] = (job.folder / "runs" / "tree").glob("*-*/report.json")
    assert json.loads(folder.read_text("utf-8"))["account"]["notices"].keys() == set()
    (job.docs / "a").chmod(0o700)
    assert job.night() == 0
    assert job.found("everyone") == ["c/three.txt"]
    (job.docs / "a").chmod(0o755)
    (job.docs / "a" / "b").chmod(0o750)
    assert job.night() == 0
    assert job.found("everyone") == ["a/one.txt", "c/three.txt"]


def test_a_new_file_inherits_from_folders_that_have_not_changed(job: TreeJob) -> None:
    (job.docs / "a").chmod(0o700)
    assert job.night() == 0
    assert job.night() == 0
    (job.docs / "a" / "b" / "four.txt").write_text("text", "utf-8")
    assert job.night() == 0
    assert job.found("everyone") == ["c/three.txt"]
    (job.docs / "a").chmod(0o755)
    assert job.night() == 0
    assert job.found("everyone") == ["a/b/four.txt", "a/b/two.txt", "a/one.txt", "c/three.txt"]


def test_without_the_acls_of_its_folders_a_new_file_is_rejected(job: TreeJob) -> None:
    assert job.night() == 0
    (job.folder / "runs" / "tree" / "state.acls").unlink()
    (job.docs / "c" / "five.txt").write_text("text", "utf-8")
    assert job.night() == 1
    assert "c/five.txt" not in job.found("everyone")
