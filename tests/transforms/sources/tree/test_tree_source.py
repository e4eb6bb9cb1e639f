"""Which inputs are trees, which files of each are read, and the options of a tree."""

import os
from pathlib import Path
from typing import Any

import pytest

from feedferry.schemas.choices import Oversize
from feedferry.schemas.errors import ConfigError, SourceError
from feedferry.schemas.span import Span
from feedferry.transforms.sources import TREE, SourceOptions
from feedferry.transforms.sources.tree.rules.tree import Tree, TreeAcl
from feedferry.transforms.sources.tree.tree_source import FILES, tree_of
from support.archives import gsa_feed, put

pytestmark = pytest.mark.usefixtures("here")

PDF = b"%PDF-1.4\n"
DELETION = b'{"action":"DELETE","url":"http://a.example.com/"}\n'


def options(**more: Any) -> SourceOptions:  # the fields of SourceOptions
    return SourceOptions(**{"to_format": "gsa-feed", **more})


def root(name: str = "docs") -> Span:
    """Return the span of a folder, which is made, or of a URI."""
    if "://" not in name:
        Path(name).mkdir(exist_ok=True)
    (span,) = TREE.list_inputs((name,), first=0)
    return span


def roots(*inputs: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return the names of the trees, and the files that are read of each."""
    spans = TREE.list_inputs(inputs, first=0)
    return [(span.source, tree_of(span, options()).only) for span in spans]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"a/plan.pdf": PDF}, True),
        ({"a/feed.xml": gsa_feed()}, False),
        ({"a.jsonl": DELETION}, False),
        ({"readme.txt": b"Feeds look like this:\n\n" + gsa_feed()}, True),
        ({".git/config": b"[core]", "feed.xml": gsa_feed()}, False),
    ],
)
def test_a_folder_of_documents_is_a_tree_and_a_folder_of_feeds_is_not(
    here: Path, files: dict[str, bytes], expected: bool
) -> None:
    for name, content in files.items():
        put(here / "docs" / name, content)
    assert TREE.matches("docs") is expected


@pytest.mark.parametrize(
    ("name", "expected"), [("s3://b/docs/", True), ("s3://b/a.xml", False), ("plan.pdf", False)]
)
def test_a_uri_is_a_tree_if_it_ends_in_a_slash_and_a_file_is_no_tree(
    here: Path, name: str, expected: bool
) -> None:
    put(here / "plan.pdf", PDF)
    assert TREE.matches(name) is expected


def test_a_file_that_cannot_be_read_does_not_count(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(here / "docs/plan.pdf", PDF)
    os.mkfifo("docs/pipe")
    assert TREE.matches("docs")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert not TREE.matches("docs")


def test_a_folder_that_cannot_be_listed_is_reported(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def scandir(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    (here / "docs").mkdir()
    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(SourceError) as caught:
        TREE.matches("docs")
    assert str(caught.value) == "docs: Permission denied; expected a folder that can be listed"


def test_a_folder_is_a_span(here: Path) -> None:
    assert root("docs/") == Span(
        source="docs/", path=f"{here}/docs", source_ordinal=0, format=FILES
    )


def test_the_named_files_of_a_folder_are_one_tree_in_any_order(here: Path) -> None:
    names = [put(here / name, b"x") for name in ("a/2", "b/3", "a/1")]
    assert roots(*names) == [(f"{here}/a", ("1", "2")), (f"{here}/b", ("3",))]
    assert roots("a/1", "a", f"{here}/a/") == [("a", ())]
    put(here / "plan.pdf", PDF)
    assert roots("plan.pdf") == [(".", ("plan.pdf",))]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("docs", "INPUT: 'docs' is not there; expected a file, a folder or a uri"),
        (
            "docs/*.pdf",
            "INPUT: 'docs/*.pdf' is a glob; expected a folder, and the glob after --include",
        ),
        ("a\udcff", "INPUT: 'a\\udcff'; expected a name in UTF-8"),
    ],
)
def test_an_input_that_does_not_exist_is_refused(name: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TREE.list_inputs((name,), first=0)
    assert str(caught.value) == expected


def test_a_tree_has_the_options_of_the_run(here: Path) -> None:
    flags = options(
        base_url="https://docs.example.com/",
        include=("*.pdf",),
        exclude=("old/",),
        hidden=True,
        follow_links=True,
        open_archives=True,
        oversize=Oversize.METADATA,
        path_metadata=True,
        charset="windows-1252",
        state="s",
    )
    assert TREE.load(root(), flags) == Tree(
        root=f"{here}/docs",
        base_url="https://docs.example.com/",
        include=("*.pdf",),
        exclude=("old/",),
        hidden=True,
        follow_links=True,
        open_archives=True,
        oversize=Oversize.METADATA,
        path_metadata=True,
        charset="windows-1252",
    )


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, False),
        ({"feedtype": "metadata-and-url"}, True),
        ({"datasource": "web"}, True),
        ({"to_format": "lister-stream"}, True),
        ({"to_format": "avro", "feedtype": "metadata-and-url"}, False),
    ],
)
def test_documents_that_the_appliance_fetches_have_no_content(
    more: dict[str, object], expected: bool
) -> None:
    assert tree_of(root(), options(**more)).is_crawled is expected


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (
            {"acl": "posix", "acl_namespace": "corp", "acl_everyone": "all"},
            TreeAcl(namespace="corp", everyone="all"),
        ),
        ({"acl": "posix-inherited"}, TreeAcl(is_inherited=True)),
        ({"acl": "public"}, None),
        ({"acl": "/acl.csv"}, TreeAcl(table="/acl.csv")),
    ],
)
def test_acls_are_made_as_the_options_state(
    more: dict[str, object], expected: TreeAcl | None
) -> None:
    tree = tree_of(root(), options(**more))
    assert (tree.acl, tree.is_public) == (expected, more["acl"] == "public")


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (
            {"acl": "posix"},
            "--acl posix: not for a uri, which has no owners; expected a CSV file",
        ),
        (
            {"follow_links": True, "base_url": "https://docs.example.com/"},
            "--follow-links: not for a uri; expected it for a local folder",
        ),
    ],
)
def test_options_of_local_trees_are_refused_for_a_uri(
    more: dict[str, object], expected: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        TREE.load(root("s3://b/docs/"), options(**more))
    assert str(caught.value) == expected
