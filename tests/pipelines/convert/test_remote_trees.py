"""Trees of all kinds by one call, and those of a file system that only Beam knows."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apache_beam.io.filesystem import BeamIOError, FileMetadata, FileSystem

from pipelines.convert.remote_trees import list_tree, list_with_beam
from schemas.errors import ConfigError, SourceError
from support import remotes
from transforms.sources.listing import Kind, Listed
from transforms.sources.tree.remote import listing
from transforms.sources.tree.tree import Tree

BASE_URL = "https://docs.example.com/"
FLAT = {
    "flat://bucket/tree/b.txt": 4,
    "flat://bucket/tree/a/c.txt": 5,
    "flat://bucket/tree/a.txt.meta.json": 6,
    "flat://bucket/tree/a.txt": 7,
    "flat://bucket/tree/a/": 0,
    "flat://bucket/trees.txt": 8,
}
FOLDERS = {
    "deep://host/tree/": ["b.txt", "a", "empty.txt", "closed", "nothing"],
    "deep://host/tree/a/": ["c.txt", "d"],
    "deep://host/tree/a/d/": ["e.txt"],
    "deep://host/tree/nothing/": [],
}


class Played(FileSystem):
    """What a test needs of a file system, and nothing more: the rest is never called."""

    @classmethod
    def scheme(cls) -> str:
        return "played"

    def _unused(self, *_: Any) -> Any:
        raise NotImplementedError

    join = split = mkdirs = create = open = copy = rename = exists = _unused
    size = last_updated = checksum = delete = metadata = _list = _unused

    def has_dirs(self) -> bool:
        return False


class Flat(Played):
    """Lists by the beginnings of names, in no order."""

    @classmethod
    def scheme(cls) -> str:
        return "flat"

    def _list(self, dir_or_prefix: str) -> Iterator[FileMetadata]:
        if "broken" in dir_or_prefix:
            raise BeamIOError("List operation failed", {dir_or_prefix: "403 Forbidden"})
        for path, size in FLAT.items():
            if path.startswith(dir_or_prefix):
                yield FileMetadata(path, size, 1_700_000_000.123456)

    def exists(self, path: str) -> bool:
        return path in FLAT

    def metadata(self, path: str) -> FileMetadata:
        return FileMetadata(path, FLAT[path])


class Deep(Played):
    """Lists a folder at a time, and does not say which names are folders, as HDFS does."""

    @classmethod
    def scheme(cls) -> str:
        return "deep"

    def has_dirs(self) -> bool:
        return True

    def _list(self, dir_or_prefix: str) -> Iterator[FileMetadata]:
        if dir_or_prefix not in FOLDERS:
            cause = "Permission denied" if "closed" in dir_or_prefix else "x is not a directory."
            raise BeamIOError("List operation failed", {dir_or_prefix: cause})
        for name in FOLDERS[dir_or_prefix]:
            size = 3 if name.endswith(".txt") and name != "empty.txt" else 0
            yield FileMetadata(dir_or_prefix + name, size, 0.0)


def listed(root: str) -> list[Listed]:
    return list(list_with_beam(Tree(root=root, base_url=BASE_URL)))


def told(lines: list[Listed]) -> list[tuple[str, Kind, str]]:
    return [(line.key, line.kind, line.code) for line in lines]


def test_a_tree_of_a_file_system_of_beam_is_listed_in_order() -> None:
    assert told(listed("flat://bucket/tree")) == [
        ("a.txt", Kind.FILE, ""),
        ("a.txt.meta.json", Kind.FILTERED, "sidecar"),
        ("a/", Kind.FILTERED, "no-file"),
        ("a/c.txt", Kind.FILE, ""),
        ("b.txt", Kind.FILE, ""),
    ]


def test_a_file_of_beam_has_a_size_and_a_time() -> None:
    line = listed("flat://bucket/tree")[-1]

    assert line == Listed(
        key="b.txt",
        path="flat://bucket/tree/b.txt",
        url="https://docs.example.com/b.txt",
        size=4,
        modified_ns=1_700_000_000_123_456_000,
    )


def test_a_sidecar_that_is_far_away_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MOST_WAITING", 0)

    assert listed("flat://bucket/tree")[0].sidecars == ("flat://bucket/tree/a.txt.meta.json",)


def test_folders_are_found_by_trying_to_list_them() -> None:
    assert told(listed("deep://host/tree")) == [
        ("a/c.txt", Kind.FILE, ""),
        ("a/d/e.txt", Kind.FILE, ""),
        ("b.txt", Kind.FILE, ""),
        ("closed/", Kind.REJECTED, "unlistable-folder"),
        ("empty.txt", Kind.FILTERED, "empty"),
    ]


def test_a_folder_that_cannot_be_listed_is_told() -> None:
    closed = listed("deep://host/tree")[3]

    assert closed.reason == "Permission denied; expected a folder that can be listed"


def test_a_time_that_is_not_told_is_not_known() -> None:
    assert listed("deep://host/tree")[0].modified_ns is None


def test_a_root_that_cannot_be_listed_is_told() -> None:
    with pytest.raises(SourceError) as caught:
        listed("flat://bucket/broken")

    assert str(caught.value) == (
        "flat://bucket/broken: 403 Forbidden; expected a tree that can be listed"
    )


def test_a_scheme_that_beam_does_not_know_is_told() -> None:
    with pytest.raises(ConfigError) as caught:
        listed("gopher://host/tree")

    assert str(caught.value) == (
        "gopher: Beam has no file system for it, or not its options (Unable to get filesystem "
        "from specified path, please use the correct path or ensure the required dependency is "
        "installed, e.g., pip install apache-beam[gcp]. Path specified: gopher://host/tree); "
        "expected it: pip install 'apache-beam[gcp]', 'apache-beam[azure]' or hdfs"
    )


def test_a_local_tree_is_walked(tmp_path: Path) -> None:
    remotes.put_all(tmp_path, "a/b.txt")
    lines = list_tree(Tree(root=str(tmp_path), base_url=BASE_URL))

    assert [line.key for line in lines] == ["a/b.txt"]


def test_a_tree_of_a_server_is_listed(tmp_path: Path) -> None:
    remotes.put_all(tmp_path, "a/b.txt")
    with remotes.web_server(tmp_path) as server:
        lines = list(list_tree(Tree(root=server.root, base_url=BASE_URL)))

    assert [line.key for line in lines] == ["a/b.txt"]


@pytest.mark.parametrize("root", ["gopher://host/a", "s3://key:secret@bucket"])
def test_a_tree_that_cannot_be_used_is_refused_at_once(root: str) -> None:
    with pytest.raises(ConfigError):
        list_tree(Tree(root=root, base_url=BASE_URL))
