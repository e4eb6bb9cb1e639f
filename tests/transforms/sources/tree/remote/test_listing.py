"""Entries of remote trees as lines of a listing, without a server."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import SourceError
from transforms.sources.listing import EntryKind, ListingEntry
from transforms.sources.tree.external_sort import ExternalSort
from transforms.sources.tree.remote import listing
from transforms.sources.tree.remote.listing import (
    RemoteEntry,
    list_entries,
    object_folder,
    walk_folders,
)
from transforms.sources.tree.remote.stream import modified_ns_of, version_in
from transforms.sources.tree.tree import Tree

TREE = Tree(root="s3://bucket", base_url="https://docs.example.com/")


def file(key: str, *, size: int | None = 5, fingerprint: str = "") -> RemoteEntry:
    path = f"s3://bucket/{key}"
    return RemoteEntry(key=key, path=path, size=size, modified_ns=7, fingerprint=fingerprint)


def folder(key: str) -> RemoteEntry:
    return RemoteEntry(key=key, path=f"s3://bucket/{key[:-1]}", kind=EntryKind.FOLDER)


def listed(*entries: RemoteEntry, tree: Tree = TREE) -> list[ListingEntry]:
    return list(list_entries(tree, entries))


def codes(*keys: str, tree: Tree = TREE) -> list[tuple[str, str]]:
    return [(line.key, line.code) for line in listed(*map(file, keys), tree=tree)]


def test_a_file_is_a_line_of_a_listing() -> None:
    assert listed(file("a/b c.pdf", fingerprint="e1")) == [
        ListingEntry(
            key="a/b c.pdf",
            path="s3://bucket/a/b c.pdf",
            url="https://docs.example.com/a/b%20c.pdf",
            size=5,
            modified_ns=7,
            fingerprint="e1",
        )
    ]


def test_the_rules_of_the_tree_apply_and_an_unknown_size_is_not_empty() -> None:
    tree = Tree(root="s3://bucket", base_url="https://docs.example.com/", exclude=("*.log",))
    entries = (file(".a"), file("a.log"), file("b", size=0), file("c", size=None))

    assert [(line.key, line.code) for line in listed(*entries, tree=tree)] == [
        (".a", "hidden"),
        ("a.log", "excluded"),
        ("b", "empty"),
        ("c", ""),
    ]


def test_an_object_that_represents_a_folder_is_left_out() -> None:
    (line,) = listed(file("", size=0), file("a/", size=0))

    assert (line.key, line.kind, line.code) == ("a/", EntryKind.FILTERED, "no-file")
    assert line.reason == "an object that represents a folder"


@pytest.mark.parametrize("key", ["a//b", "/a", "a/../b", "a/./b", ".."])
def test_a_name_that_cannot_be_in_a_url_is_rejected(key: str) -> None:
    (line,) = listed(file(key))

    assert (line.key, line.kind, line.code) == (key, EntryKind.REJECTED, "file-name")
    assert line.reason == f"{key!r}; expected no '//', '.' or '..' in the name of a file"


def test_only_the_named_files_are_listed() -> None:
    tree = Tree(root="s3://bucket", base_url="https://docs.example.com/", only=("b",))

    assert codes("a", "b", "c", tree=tree) == [("b", "")]


def test_names_out_of_order_end_the_listing() -> None:
    with pytest.raises(SourceError) as caught:
        codes("b", "a")

    assert str(caught.value) == "s3://bucket: 'a' is listed after 'b'; expected names in order"


def test_sidecars_are_listed_with_their_file() -> None:
    names = ("a.pdf", "a.pdf.meta.json", "a.pdf.meta.yaml", "a.pdf.metadata.xml")
    first, *others = listed(*map(file, names))

    assert first.sidecars == tuple(f"s3://bucket/{name}" for name in names[1:])
    assert [(line.kind, line.code) for line in others] == [(EntryKind.FILTERED, "sidecar")] * 3


def test_a_sidecar_is_found_after_other_files_and_all_stay_in_order() -> None:
    names = ["a", "a b", "a-1", "a.doc", "a.meta.json", "a.pdf", "a/b", "b"]
    lines = listed(*map(file, names))

    assert [line.key for line in lines] == names
    assert [line.key for line in lines if line.sidecars] == ["a"]


def test_the_fingerprint_of_a_file_contains_its_sidecars() -> None:
    first = file("a", fingerprint="e1")
    sidecar = file("a.meta.json", size=9, fingerprint="e2")
    (line, _) = listed(first, sidecar)

    assert line.fingerprint == "e1\na.meta.json 9 7 e2"


def test_a_sidecar_describes_a_file_in_its_own_folder_only() -> None:
    assert codes("a", "a.meta.json", "a.meta.json.meta.json", "b.meta.json", "c/a.meta.json") == [
        ("a", ""),
        ("a.meta.json", "sidecar"),
        ("a.meta.json.meta.json", ""),
        ("b.meta.json", ""),
        ("c/a.meta.json", ""),
    ]


def test_too_many_files_between_a_file_and_its_sidecars_end_the_listing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listing, "MAX_WAITING", 2)

    with pytest.raises(SourceError) as caught:
        codes("a", "a 1", "a 2", "a.metadata.xml")

    assert str(caught.value) == (
        "s3://bucket: more than 2 names begin with 'a' and come before its sidecars; "
        "expected another name for that file"
    )


@given(st.lists(st.text(max_size=4), max_size=30, unique=True), st.integers(1, 8))
def test_entries_are_sorted_by_the_bytes_of_their_keys(keys: list[str], run_length: int) -> None:
    keys = [key for key in keys if key.isprintable()]
    entries = ExternalSort(map(file, keys), listing._CODEC, run_length=run_length)
    ordered = [entry.key for entry in entries]
    entries.close()

    assert ordered == sorted(keys, key=str.encode)


def walked(below: dict[str, list[str]]) -> list[RemoteEntry]:
    def list_folder(above: RemoteEntry) -> Iterator[RemoteEntry]:
        if above.key not in below:
            raise PermissionError(13, "Permission denied")
        for key in below[above.key]:
            yield folder(key) if key.endswith("/") else file(key)

    return list(walk_folders(TREE, list_folder))


def test_folders_are_entered_in_the_order_of_keys() -> None:
    below = {"": ["c", "b/", "b.x", "a"], "b/": ["b/d", "b/c/", "b/1"], "b/c/": ["b/c/2"]}

    assert [entry.key for entry in walked(below)] == ["a", "b.x", "b/1", "b/c/2", "b/d", "c"]


def test_a_folder_that_cannot_be_listed_is_rejected_alone() -> None:
    first, second = walked({"": ["a/", "b"]})

    assert (first.key, first.code, second.key) == ("a/", "unlistable-folder", "b")
    assert first.reason == "Permission denied; expected a folder that can be listed"


def test_a_root_that_cannot_be_listed_ends_the_run() -> None:
    with pytest.raises(SourceError) as caught:
        walked({})

    assert str(caught.value) == (
        "s3://bucket: Permission denied; expected a folder that can be listed"
    )


def test_a_folder_that_a_rule_leaves_out_is_not_entered() -> None:
    (entry,) = walked({"": [".git/"]})

    assert (entry.key, entry.kind, entry.code) == (".git/", EntryKind.FILTERED, "hidden")


def test_folders_nested_without_end_are_rejected() -> None:
    def list_folder(above: RemoteEntry) -> Iterator[RemoteEntry]:
        return iter([folder(f"{above.key}a/")])

    (entry,) = walk_folders(TREE, list_folder)

    assert (entry.key, entry.code) == ("a/" * 100, "unlistable-folder")
    assert entry.reason == "100 folders above it; expected fewer"


def test_a_file_system_of_fsspec_is_listed_by_folders() -> None:
    memory = MemoryFileSystem(skip_instance_cache=True)
    memory.store = {}
    for name in ("b.txt", "a/c.txt", "a.txt"):
        memory.pipe(f"/bucket/tree/{name}", b"text")
    tree = Tree(root="gs://bucket/tree", base_url="https://docs.example.com/")
    entries = walk_folders(
        tree, lambda above: object_folder(above, memory, above.path.removeprefix("gs:/"))
    )

    assert [(entry.key, entry.path, entry.size) for entry in entries] == [
        ("a.txt", "gs://bucket/tree/a.txt", 4),
        ("a/c.txt", "gs://bucket/tree/a/c.txt", 4),
        ("b.txt", "gs://bucket/tree/b.txt", 4),
    ]


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({"LastModified": datetime(2026, 1, 2, tzinfo=UTC)}, 1_767_312_000_000_000_000),
        ({"last_modified": datetime(2026, 1, 2, 0, 0, 0, 5)}, 1_767_312_000_000_005_000),
        ({"Last-Modified": "Fri, 02 Jan 2026 00:00:00 GMT"}, 1_767_312_000_000_000_000),
        ({"Last-Modified": "yesterday"}, None),
        ({}, None),
    ],
)
def test_every_file_system_names_the_time_of_change_in_its_own_way(
    info: dict[str, object], expected: int | None
) -> None:
    assert modified_ns_of(info) == expected


@pytest.mark.parametrize(
    ("info", "expected"),
    [({"ETag": '"e1"'}, "e1"), ({"etag": "e2"}, "e2"), ({"generation": 17}, "17"), ({}, "")],
)
def test_every_file_system_names_the_version_in_its_own_way(
    info: dict[str, object], expected: str
) -> None:
    assert version_in(info) == expected
