"""Remote files as lines of a listing, without a server."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import SourceError
from transforms.sources.listing import Kind, Listed
from transforms.sources.tree.remote import listing
from transforms.sources.tree.remote.listing import (
    Remote,
    filtered,
    in_order,
    list_files,
    rejected,
    walk_folders,
    words_of,
)
from transforms.sources.tree.tree import Tree

TREE = Tree(root="s3://bucket", base_url="https://docs.example.com/")


def file(key: str, *, size: int | None = 5, fingerprint: str = "") -> Remote:
    return Remote(
        key=key, path=f"s3://bucket/{key}", size=size, modified_ns=7, fingerprint=fingerprint
    )


def folder(key: str) -> Remote:
    return Remote(key=key, path=f"s3://bucket/{key[:-1]}", kind=Kind.FOLDER)


def find_nothing(_key: str) -> Remote | None:
    return None


def listed(*found: Remote, tree: Tree = TREE) -> list[Listed]:
    return list(list_files(tree, found, find=find_nothing))


def codes(*found: Remote, tree: Tree = TREE) -> list[tuple[str, str]]:
    return [(line.key, line.code) for line in listed(*found, tree=tree)]


def test_a_file_is_a_line_of_a_listing() -> None:
    assert listed(file("a/b c.pdf", fingerprint="e1")) == [
        Listed(
            key="a/b c.pdf",
            path="s3://bucket/a/b c.pdf",
            url="https://docs.example.com/a/b%20c.pdf",
            size=5,
            modified_ns=7,
            fingerprint="e1",
        )
    ]


def test_a_file_of_unknown_size_is_not_taken_for_an_empty_one() -> None:
    assert codes(file("a", size=None)) == [("a", "")]


def test_the_rules_of_the_tree_are_kept() -> None:
    tree = Tree(root="s3://bucket", base_url="https://docs.example.com/", exclude=("*.log",))

    assert codes(file(".a"), file("a.log"), file("b", size=0), file("c"), tree=tree) == [
        (".a", "hidden"),
        ("a.log", "excluded"),
        ("b", "empty"),
        ("c", ""),
    ]


def test_an_object_that_stands_for_a_folder_is_no_file() -> None:
    (line,) = listed(file("a/", size=0))

    assert (line.kind, line.code) == (Kind.FILTERED, "no-file")
    assert line.reason == "an object that stands for a folder"


def test_the_root_itself_is_not_below_the_root() -> None:
    assert listed(file("", size=0)) == []


@pytest.mark.parametrize("key", ["a//b", "/a", "../a", "a/../b", "a/./b", ".."])
def test_a_name_that_no_url_can_have_is_rejected(key: str) -> None:
    (line,) = listed(file(key))

    assert (line.key, line.kind, line.code) == (key, Kind.REJECTED, "file-name")
    assert line.reason == f"{key!r}; expected no '//', '.' or '..' in the name of a file"


def test_what_a_server_says_of_something_else_is_passed_on() -> None:
    found = rejected("a/", "sftp://host/a", "unlistable-folder", "Permission denied; expected more")

    assert listed(found, filtered("b", "sftp://host/b", "symlink")) == [
        Listed(
            key="a/",
            kind=Kind.REJECTED,
            path="sftp://host/a",
            code="unlistable-folder",
            reason="Permission denied; expected more",
        ),
        Listed(key="b", kind=Kind.FILTERED, path="sftp://host/b", code="symlink"),
    ]


def test_only_the_files_that_are_named_are_listed() -> None:
    tree = Tree(root="s3://bucket", base_url="https://docs.example.com/", only=("b",))

    assert codes(file("a"), file("b"), file("c"), tree=tree) == [("b", "")]


def test_names_out_of_order_are_told() -> None:
    with pytest.raises(SourceError) as caught:
        listed(file("b"), file("a"))

    assert str(caught.value) == "s3://bucket: 'a' behind 'b'; expected names in their order"


def test_the_sidecars_of_a_file_are_with_it() -> None:
    names = ("a.pdf", "a.pdf.meta.json", "a.pdf.meta.yaml", "a.pdf.metadata.xml")
    first, *others = listed(*map(file, names))

    assert first.sidecars == tuple(f"s3://bucket/{name}" for name in names[1:])
    assert [(one.kind, one.code) for one in others] == [(Kind.FILTERED, "sidecar")] * 3


def test_a_sidecar_is_found_behind_other_files() -> None:
    lines = listed(file("a"), file("a b"), file("a-1"), file("a.doc"), file("a.meta.json"))

    assert [line.key for line in lines if line.sidecars] == ["a"]


def test_files_stay_in_order_while_one_waits_for_its_sidecars() -> None:
    names = ["a", "a b", "a-1", "a.meta.json", "a.pdf", "a/b", "b"]

    assert [line.key for line in listed(*map(file, names))] == names


def test_a_file_is_what_its_sidecars_are() -> None:
    (line, _) = listed(file("a", fingerprint="e1"), file("a.meta.json", size=9, fingerprint="e2"))

    assert line.fingerprint == "e1\na.meta.json 9 7 e2"


def test_a_sidecar_of_nothing_is_a_file() -> None:
    assert codes(file("a.pdf.meta.json"), file("b")) == [("a.pdf.meta.json", ""), ("b", "")]


def test_a_sidecar_has_no_sidecar() -> None:
    names = ("a", "a.meta.json", "a.meta.json.meta.json")

    assert codes(*map(file, names)) == [
        ("a", ""),
        ("a.meta.json", "sidecar"),
        ("a.meta.json.meta.json", ""),
    ]


def test_a_sidecar_of_another_folder_is_none() -> None:
    assert codes(file("a/x"), file("b/x.meta.json")) == [("a/x", ""), ("b/x.meta.json", "")]


def test_files_that_would_wait_for_too_long_are_asked_for_their_sidecars(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listing, "MOST_WAITING", 2)
    asked: list[str] = []

    def find(key: str) -> Remote | None:
        asked.append(key)
        return file(key) if key == "a.metadata.xml" else None

    names = ("a", "a 1", "a 2", "a.metadata.xml")
    lines = list(list_files(TREE, map(file, names), find=find))

    assert asked == ["a.meta.json", "a.meta.yaml", "a.meta.yml", "a.metadata.xml"]
    assert lines[0].sidecars == ("s3://bucket/a.metadata.xml",)
    assert (lines[-1].key, lines[-1].code) == ("a.metadata.xml", "sidecar")


@given(st.lists(st.text(max_size=4), max_size=30, unique=True))
def test_files_come_in_the_order_of_the_bytes_of_their_keys(keys: list[str]) -> None:
    keys = [key for key in keys if key.isprintable()]
    ordered = [remote.key for remote in in_order(map(file, keys), run_length=4)]

    assert ordered == sorted(keys, key=str.encode)


def test_what_is_sorted_in_a_file_comes_back_as_it_was() -> None:
    found = [
        file("b", size=None, fingerprint='a "quoted"\ntext'),
        folder("a/"),
        rejected("c", "s3://bucket/c", "file-name", "ö"),
    ]

    assert list(in_order(found, run_length=1)) == [found[1], found[0], found[2]]


def test_folders_are_entered_where_they_stand() -> None:
    below = {"b/": ["b/1", "b/c/", "b/d"], "b/c/": ["b/c/2"]}

    def descend(found: Remote) -> Iterator[Remote]:
        return iter([folder(key) if key.endswith("/") else file(key) for key in below[found.key]])

    top = iter([file("a"), folder("b/"), file("c")])
    walked = [remote.key for remote in walk_folders(TREE, top, descend)]
    assert walked == ["a", "b/1", "b/c/2", "b/d", "c"]


def test_a_folder_that_cannot_be_listed_stops_nothing() -> None:
    def descend(_found: Remote) -> Iterator[Remote]:
        raise PermissionError(13, "Permission denied")

    first, second = walk_folders(TREE, iter([folder("a/"), file("b")]), descend)

    assert (first.key, first.code, second.key) == ("a/", "unlistable-folder", "b")
    assert first.reason == "Permission denied; expected a folder that can be listed"


def test_a_folder_that_is_left_out_is_not_entered() -> None:
    def descend(_found: Remote) -> Iterator[Remote]:
        raise AssertionError("entered")

    (line,) = walk_folders(TREE, iter([folder(".git/")]), descend)

    assert (line.key, line.kind, line.code) == (".git/", Kind.FILTERED, "hidden")


def test_folders_without_end_come_to_an_end() -> None:
    def descend(found: Remote) -> Iterator[Remote]:
        return iter([folder(f"{found.key}a/")])

    (line,) = walk_folders(TREE, iter([folder("a/")]), descend)

    assert (line.key, line.code) == ("a/" * 100, "unlistable-folder")
    assert line.reason == "100 folders above it; expected fewer"


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        (OSError(5, "it is full", "sftp://host/a"), "it is full"),
        (OSError("it is full"), "it is full"),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_a_trouble_is_told_in_words(trouble: OSError, words: str) -> None:
    assert words_of(trouble) == words
