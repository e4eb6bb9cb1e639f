"""Members of archives whose URLs become those of other documents, over several nights."""

import json
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZipFile

import pytest

from feedferry.pipelines.cli.main import main

pytestmark = pytest.mark.slow

RULE = r"['re:http://a.example.com/.*/([^/]*)', 'http://b.example.com/\1']"
STEPS = f"transform: [{{urls: {{rewrite: [{RULE}]}}}}]\n"
URL = "http://b.example.com/x.txt"


def archive(path: Path, members: Mapping[str, str]) -> None:
    with ZipFile(path, "w") as file:
        for name, text in members.items():
            file.writestr(name, text)


class Nights:
    """Runs with one state, and the documents that a target has after each."""

    def __init__(self, folder: Path) -> None:
        self.tree = folder / "tree"
        self.tree.mkdir()
        self.target: dict[str, str] = {}
        self._folder = folder
        self._number = 0
        self.base_url = "http://a.example.com/"
        self.steps = STEPS

    def run(self) -> dict[str, str]:
        self._number += 1
        out = self._folder / f"out{self._number}"
        words = ["convert", str(self.tree), "--from", "files", "--to", "jsonl", "-o", str(out)]
        words += ["--base-url", self.base_url, "--open-archives", "--jobs", "1"]
        words += ["--state", str(self._folder / "state"), "--max-delete-percent", "100"]
        if self.steps:
            steps = self._folder / "steps.yaml"
            steps.write_text(self.steps)
            words += ["--transform", str(steps)]
        assert main(words) in {0, 1}  # 1 with rejects
        for path in sorted((out / "chunks").rglob("*.jsonl")):
            for line in path.read_text().splitlines():
                record = json.loads(line)
                self.target.pop(record["url"], None)
                if record["action"] == "ADD":
                    self.target[record["url"]] = b64decode(record["content"]["data"]).decode()
        return self.target


@pytest.fixture
def nights(tmp_path: Path) -> Nights:
    return Nights(tmp_path)


def test_a_new_member_keeps_the_url_of_a_removed_member_of_its_archive(nights: Nights) -> None:
    archive(nights.tree / "m.zip", {"old/x.txt": "old"})
    assert nights.run() == {URL: "old"}
    archive(nights.tree / "m.zip", {"other/x.txt": "new member"})
    assert nights.run() == {URL: "new member"}
    assert nights.run() == {URL: "new member"}


def test_a_new_file_keeps_the_url_of_a_removed_member_of_a_later_archive(nights: Nights) -> None:
    archive(nights.tree / "m.zip", {"old/x.txt": "old", "y.txt": "y"})
    nights.run()
    (nights.tree / "a").mkdir()
    (nights.tree / "a" / "x.txt").write_text("new file")
    archive(nights.tree / "m.zip", {"y.txt": "y"})
    assert nights.run() == {URL: "new file", "http://b.example.com/y.txt": "y"}
    assert nights.run() == {URL: "new file", "http://b.example.com/y.txt": "y"}


@pytest.mark.parametrize("other", ["a", "z"])
def test_what_remains_of_a_shared_url_is_sent_if_a_member_is_removed(
    nights: Nights, other: str
) -> None:
    archive(nights.tree / "m.zip", {"old/x.txt": "member", "y.txt": "y"})
    (nights.tree / other).mkdir()
    (nights.tree / other / "x.txt").write_text("file")
    nights.run()
    archive(nights.tree / "m.zip", {"y.txt": "changed y"})
    assert nights.run() == {URL: "file", "http://b.example.com/y.txt": "changed y"}
    assert nights.run() == {URL: "file", "http://b.example.com/y.txt": "changed y"}


def test_a_new_member_keeps_the_url_of_a_file_that_is_removed(nights: Nights) -> None:
    (nights.tree / "z").mkdir()
    (nights.tree / "z" / "x.txt").write_text("file")
    archive(nights.tree / "m.zip", {"y.txt": "y"})
    nights.run()
    (nights.tree / "z" / "x.txt").unlink()
    archive(nights.tree / "m.zip", {"x.txt": "new member", "y.txt": "y"})
    assert nights.run() == {URL: "new member", "http://b.example.com/y.txt": "y"}
    assert nights.run() == {URL: "new member", "http://b.example.com/y.txt": "y"}


@pytest.mark.parametrize("has_first", [True, False])
def test_a_new_member_keeps_the_url_of_a_removed_member_of_a_later_archive(
    nights: Nights, *, has_first: bool
) -> None:
    if has_first:
        archive(nights.tree / "a.zip", {"z.txt": "z"})
    archive(nights.tree / "m.zip", {"x.txt": "old", "y.txt": "y"})
    nights.run()
    archive(nights.tree / "a.zip", {"x.txt": "new", "z.txt": "z"})
    archive(nights.tree / "m.zip", {"y.txt": "y"})
    now = {"http://b.example.com/z.txt": "z", URL: "new", "http://b.example.com/y.txt": "y"}
    assert nights.run() == now
    assert nights.run() == now


def test_the_members_of_a_damaged_archive_stay(nights: Nights) -> None:
    archive(nights.tree / "m.zip", {"x.txt": "old", "y.txt": "y"})
    now = dict(nights.run())
    (nights.tree / "m.zip").write_bytes(b"damaged")
    assert nights.run() == now


def test_the_members_of_an_archive_with_a_new_url_move(nights: Nights) -> None:
    nights.steps = ""
    archive(nights.tree / "m.zip", {"x.txt": "x"})
    assert nights.run() == {"http://a.example.com/m.zip/x.txt": "x"}
    nights.base_url = "http://c.example.com/"
    assert nights.run() == {"http://c.example.com/m.zip/x.txt": "x"}


def test_what_remains_of_two_members_of_two_archives_is_sent(nights: Nights) -> None:
    archive(nights.tree / "a.zip", {"x.txt": "first"})
    archive(nights.tree / "m.zip", {"x.txt": "second", "y.txt": "y"})
    nights.run()
    archive(nights.tree / "m.zip", {"y.txt": "changed y"})
    assert nights.run() == {URL: "first", "http://b.example.com/y.txt": "changed y"}


def test_no_document_remains_of_a_shared_url_if_all_are_removed(nights: Nights) -> None:
    archive(nights.tree / "a.zip", {"x.txt": "first", "z.txt": "z"})
    archive(nights.tree / "m.zip", {"x.txt": "second", "y.txt": "y"})
    nights.run()
    archive(nights.tree / "a.zip", {"z.txt": "changed z"})
    archive(nights.tree / "m.zip", {"y.txt": "changed y"})
    assert nights.run() == {
        "http://b.example.com/z.txt": "changed z",
        "http://b.example.com/y.txt": "changed y",
    }
