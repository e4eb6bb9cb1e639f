"""Which inputs are trees, what is read of each, and how its files become records."""

import os
from pathlib import Path
from typing import Any

import pytest

from schemas.choices import Oversize
from schemas.errors import ConfigError, SourceError
from schemas.span import Span
from support.archives import gsa_feed, put
from transforms.sources import TREE, SourceOptions
from transforms.sources.tree.source import FILES, tree_of
from transforms.sources.tree.tree import Tree, TreeAcl

pytestmark = pytest.mark.usefixtures("here")


def options(**more: Any) -> SourceOptions:  # the fields of SourceOptions
    return SourceOptions(**{"to_format": "gsa-feed", **more})


def root(name: str = "docs") -> Span:
    """The span of a folder, which is made, or of a URI."""
    if "://" not in name:
        Path(name).mkdir(exist_ok=True)
    (span,) = TREE.list_inputs((name,), first=0)
    return span


def refusal(*inputs: str) -> str:
    with pytest.raises(ConfigError) as caught:
        TREE.list_inputs(inputs, first=0)
    return str(caught.value)


def roots(*inputs: str) -> list[tuple[str, tuple[str, ...]]]:
    """The names of the trees, and the files that are to be read of each."""
    return [
        (span.source, tree_of(span, options()).only) for span in TREE.list_inputs(inputs, first=0)
    ]


def acl_of(**more: Any) -> TreeAcl | None:
    return tree_of(root(), options(**more)).acl


def test_a_folder_of_documents_is_a_tree(here: Path) -> None:
    put(here / "docs/a/plan.pdf", b"%PDF-1.4\n")
    assert TREE.matches("docs")


def test_a_folder_of_feeds_is_none(here: Path) -> None:
    put(here / "docs/a/feed.xml", gsa_feed())
    assert not TREE.matches("docs")


def test_a_folder_of_json_and_csv_is_none(here: Path) -> None:
    put(here / "docs/a.jsonl", b'{"action":"DELETE","url":"http://a.example.com/"}\n')
    assert not TREE.matches("docs")


def test_a_text_that_shows_a_feed_is_a_document(here: Path) -> None:
    put(here / "docs/readme.txt", b"Feeds look like this:\n\n" + gsa_feed())
    assert TREE.matches("docs")


@pytest.mark.parametrize(("name", "expected"), [("s3://b/docs/", True), ("s3://b/a.xml", False)])
def test_a_uri_is_a_tree_if_it_ends_in_a_slash(name: str, expected: bool) -> None:
    assert TREE.matches(name) is expected


def test_a_file_is_no_tree(here: Path) -> None:
    assert not TREE.matches(put(here / "plan.pdf", b"%PDF-1.4\n"))


def test_what_is_hidden_tells_nothing_of_a_folder(here: Path) -> None:
    put(here / "docs/.git/config", b"[core]")
    put(here / "docs/feed.xml", gsa_feed())
    assert not TREE.matches("docs")


def test_a_file_that_cannot_be_read_tells_nothing_of_a_folder(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(here / "docs/plan.pdf", b"%PDF-1.4\n")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert not TREE.matches("docs")


def test_a_pipe_is_not_waited_for(here: Path) -> None:
    put(here / "docs/plan.pdf", b"%PDF-1.4\n")
    os.mkfifo("docs/pipe")
    assert TREE.matches("docs")


def test_a_folder_that_cannot_be_listed_is_told(
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
    (here / "docs").mkdir()
    assert TREE.list_inputs(("docs/",), first=0) == [
        Span(source="docs/", path=f"{here}/docs", source_ordinal=0, format=FILES)
    ]


def test_files_of_a_folder_are_one_tree_in_any_order(here: Path) -> None:
    names = [put(here / name, b"x") for name in ("a/2", "b/3", "a/1")]
    assert roots(*names) == [(f"{here}/a", ("1", "2")), (f"{here}/b", ("3",))]


def test_a_folder_is_read_whole_if_a_file_of_it_is_named_too(here: Path) -> None:
    put(here / "a/1", b"x")
    assert roots("a/1", "a", f"{here}/a/") == [("a", ())]


def test_a_file_of_this_folder_needs_no_folder(here: Path) -> None:
    put(here / "plan.pdf", b"x")
    assert roots("plan.pdf") == [(".", ("plan.pdf",))]


def test_what_is_not_there_is_told() -> None:
    assert refusal("docs") == "INPUT: 'docs' is not there; expected a file, a folder or a uri"


def test_a_glob_is_for_another_flag() -> None:
    assert refusal("docs/*.pdf") == (
        "INPUT: 'docs/*.pdf' is a glob; expected a folder, and the glob after --include"
    )


def test_a_name_that_is_no_utf_8_is_told() -> None:
    assert refusal("a\udcff") == "INPUT: 'a\\udcff'; expected a name in UTF-8"


def test_a_tree_is_read_as_the_flags_say(here: Path) -> None:
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
    assert tree_of(root(), flags) == Tree(
        root=f"{here}/docs",
        base_url="https://docs.example.com/",
        include=("*.pdf",),
        exclude=("old/",),
        takes_hidden=True,
        follows_links=True,
        opens_archives=True,
        oversize=Oversize.METADATA,
        states_paths=True,
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
def test_what_the_appliance_fetches_has_no_content(more: dict[str, object], expected: bool) -> None:
    assert tree_of(root(), options(**more)).is_crawled is expected


def test_acls_may_be_those_of_posix() -> None:
    found = acl_of(acl="posix", acl_namespace="corp", acl_everyone="all")
    assert found == TreeAcl(namespace="corp", everyone="all")


def test_acls_may_be_inherited() -> None:
    assert acl_of(acl="posix-inherited") == TreeAcl(is_inherited=True)


def test_acls_may_be_those_of_a_table(here: Path) -> None:
    assert acl_of(acl="acl.csv") == TreeAcl(table=f"{here}/acl.csv")


def test_a_uri_has_no_owners() -> None:
    with pytest.raises(ConfigError) as caught:
        tree_of(root("s3://b/docs/"), options(acl="posix"))
    assert str(caught.value) == (
        "--acl posix: not for a uri, which has no owners; expected a CSV file"
    )
