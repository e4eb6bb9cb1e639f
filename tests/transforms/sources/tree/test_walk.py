"""Listings of trees: their order, the files that are left out, sidecars, links and permissions."""

import os
import socket
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedferry.schemas.errors import ConfigError, SourceError
from feedferry.transforms.sources.listing import (
    EntryKind,
    ListingEntry,
    entries_of,
    file_entry,
    read_listing,
    write_listing,
)
from feedferry.transforms.sources.tree.folders.folders import FolderItems, ListFolder, LocalFolders
from feedferry.transforms.sources.tree.folders.walk import list_tree, walk
from feedferry.transforms.sources.tree.rules.patterns import judge
from feedferry.transforms.sources.tree.rules.tree import Tree, TreeAcl
from support.archives import put

BASE = "https://docs.example.com/"
LATIN_1 = b"/caf\xe9.txt"
INHERITED = TreeAcl(is_inherited=True)
BUCKET = Tree(root="s3://bucket", base_url=BASE)


def tree(root: Path, **rules: Any) -> Tree:  # the fields of a Tree
    return Tree(root=str(root), base_url=BASE, **rules)


def lines(root: Path, **rules: Any) -> list[ListingEntry]:
    return list(list_tree(tree(root, **rules)))


def only(root: Path, **rules: Any) -> ListingEntry:
    (line,) = lines(root, **rules)
    return line


def keys(root: Path, **rules: Any) -> list[str]:
    return [line.key for line in lines(root, **rules)]


def outcomes(root: Path, **rules: Any) -> list[tuple[str, str]]:
    """Return keys, each with its code, or with its kind if it has none."""
    return [(line.key, line.code or line.kind.value) for line in lines(root, **rules)]


def files(root: Path, *names: str) -> None:
    for name in names:
        put(root / name, b"x")


def listed(*entries: ListingEntry, rules: Tree = BUCKET) -> list[ListingEntry]:
    """Return the lines of a remote tree of one folder."""
    return list(entries_of(walk(rules, lambda _root: FolderItems(entries))))


def folder_of(entries: Callable[[ListingEntry], Iterable[ListingEntry]]) -> ListFolder:
    return lambda above: FolderItems(entries(above))


def remote(key: str, *, size: int | None = 5, fingerprint: str = "") -> ListingEntry:
    return file_entry(key, f"s3://bucket/{key}", size, 7, fingerprint)


def refusing(function: Callable[..., Any], path: Path, problem: OSError) -> Callable[..., Any]:
    """Return a function of paths that raises for one: as root, the tests may read any file."""

    def refuse(given_path: str, *flags: int, dir_fd: int | None = None, **options: Any) -> Any:
        folder = "" if dir_fd is None else os.readlink(f"/proc/self/fd/{dir_fd}")
        if os.path.join(folder, given_path) == str(path):
            raise problem
        return function(given_path, *flags, dir_fd=dir_fd, **options)

    return refuse


def _become_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _become_empty(path: Path) -> None:
    path.write_bytes(b"")


def _become_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("a")


def denied() -> OSError:
    return PermissionError(13, "Permission denied")


def test_a_file_is_listed_with_all_its_properties(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    put(tmp_path / "a b/plan.pdf", b"%PDF")
    path = tmp_path / "a b/plan.pdf"
    os.utime(path, ns=(0, 1_700_000_000_123_456_789))
    assert only(tmp_path) == ListingEntry(
        key="a b/plan.pdf",
        path=f"{tmp_path}/a b/plan.pdf",
        url="https://docs.example.com/a%20b/plan.pdf",
        size=4,
        modified_ns=1_700_000_000_123_456_789,
        changed_ns=path.stat().st_ctime_ns,
    )


def test_keys_are_in_the_order_of_their_bytes(tmp_path: Path) -> None:
    files(tmp_path, "a/b", "a.b", "a-b", "a0", "B", "ä", "\uffff", "\U0001f600")
    assert keys(tmp_path) == ["B", "a-b", "a.b", "a/b", "a0", "ä", "\uffff", "\U0001f600"]


@given(
    st.lists(
        st.lists(st.text("aä-/.0\n", min_size=1, max_size=2), min_size=1, max_size=3).map("/".join),
        max_size=12,
    ),
    st.integers(1, 3),
)
def test_the_order_is_that_of_all_keys_sorted(names: list[str], run_length: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        result = make(Path(folder), names)
        rules = tree(Path(folder), hidden=True)
        walked = entries_of(walk(rules, LocalFolders(rules), run_length=run_length))
        assert [line.key for line in walked] == sorted(result, key=str.encode)


@given(
    st.lists(st.text("aä #%~./\n\x01", min_size=1, max_size=5), max_size=9),
    st.sampled_from(({}, {"hidden": True}, {"exclude": ("a*",)}, {"base_url": None})),
)
def test_lines_of_files_are_those_of_their_entries(names: list[str], rules: dict[str, Any]) -> None:
    """The URLs of a folder are made together; the oracle is the URL of each key."""
    with tempfile.TemporaryDirectory() as folder:
        made = make(Path(folder), [*names, "a.tmp~", "b/plain"] if names else names)
        options = msgspec.structs.replace(tree(Path(folder)), **rules)
        code_of = judge(options)
        base = "" if options.base_url is None else BASE
        expected = {
            key: (code_of(key), base + (quote(key) if base else key))
            for key in made
            if not any(code_of(f"{above}/") for above in _folders_of(key))
        }
        result = {line.key: (line.code or None, line.url) for line in list_tree(options)}
        assert {key: each for key, each in result.items() if key in made} == expected


def _folders_of(key: str) -> list[str]:
    names = key.split("/")
    return ["/".join(names[:count]) for count in range(1, len(names))]


@pytest.mark.parametrize("run_length", [1, 9])
@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        (Path.unlink, (EntryKind.FILTERED, "vanished")),
        (_become_folder, (EntryKind.FILTERED, "vanished")),
        (_become_empty, (EntryKind.FILTERED, "empty")),
        (_become_link, (EntryKind.FILTERED, "symlink")),
    ],
    ids=["gone", "folder", "empty", "link"],
)
def test_a_file_may_change_between_the_listing_of_its_folder_and_its_line(
    tmp_path: Path, change: Callable[[Path], None], outcome: tuple[EntryKind, str], run_length: int
) -> None:
    files(tmp_path, "a", "b", "c", "d/e", "e")
    rules = tree(tmp_path)
    folders = LocalFolders(rules)

    def list_folder(above: ListingEntry) -> FolderItems:
        listed = folders(above)
        items = [*listed.items]
        if not above.key:
            change(tmp_path / "b")
        return listed._replace(items=items)

    walked = entries_of(walk(rules, list_folder, run_length=run_length))
    assert [(line.key, line.kind, line.code) for line in walked] == [
        ("a", EntryKind.FILE, ""),
        ("b", *outcome),
        ("c", EntryKind.FILE, ""),
        ("d/e", EntryKind.FILE, ""),
        ("e", EntryKind.FILE, ""),
    ]


def make(root: Path, names: list[str]) -> set[str]:
    """Make files unless there is a folder, or would have to be one; return their keys."""
    for name in names:
        try:
            put(root / name.strip("/"), b"x")
        except OSError:
            continue
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


def test_a_listing_of_a_tree_can_be_written_and_read(tmp_path: Path) -> None:
    files(tmp_path / "docs", "ä\n/b", ".hidden")
    Path(os.fsdecode(bytes(tmp_path) + b"/docs" + LATIN_1)).touch()
    write_listing(list_tree(tree(tmp_path / "docs")), tmp_path / "listing")
    with open(tmp_path / "listing", "rb") as stream:
        assert [line for _, line in read_listing(stream)] == lines(tmp_path / "docs")


def test_folders_nested_without_end_are_rejected() -> None:
    def list_folder(above: ListingEntry) -> list[ListingEntry]:
        return [ListingEntry(key=f"{above.key}a/", kind=EntryKind.FOLDER, path="s3://bucket/a")]

    (line,) = entries_of(walk(BUCKET, folder_of(list_folder)))
    assert (line.key, line.code) == ("a/" * 100, "unlistable-folder")
    assert line.reason == "100 folders above it; expected a folder that can be listed"


def test_files_that_are_left_out_are_listed_with_a_code(tmp_path: Path) -> None:
    files(tmp_path, ".hidden", "a.bak", "b.tmp", "d.pdf", ".git/config", "old/a.pdf", "new/a.pdf")
    put(tmp_path / "c.pdf", b"")
    assert outcomes(tmp_path, exclude=("*.bak", "old")) == [
        (".git/", "hidden"),
        (".hidden", "hidden"),
        ("a.bak", "excluded"),
        ("b.tmp", "temporary"),
        ("c.pdf", "empty"),
        ("d.pdf", "FILE"),
        ("new/a.pdf", "FILE"),
        ("old/", "excluded"),
    ]
    assert lines(tmp_path, include=("c.pdf",))[3] == ListingEntry(
        key="b.tmp",
        kind=EntryKind.FILTERED,
        path=f"{tmp_path}/b.tmp",
        url="https://docs.example.com/b.tmp",
        code="temporary",
    )


def test_a_remote_file_of_unknown_size_is_not_empty() -> None:
    names = listed(remote("a", size=0), remote("b", size=None))
    assert [(line.key, line.code) for line in names] == [("a", "empty"), ("b", "")]


@pytest.mark.parametrize("key", ["a//b", "/a", "a/../b", "a/./b", ".."])
def test_a_name_that_cannot_be_in_a_url_is_rejected(key: str) -> None:
    (line,) = listed(remote(key))
    assert (line.key, line.kind, line.code) == (key, EntryKind.REJECTED, "file-name")
    assert line.reason == f"{key!r}; expected no '//', '.' or '..' in a path"


@pytest.mark.parametrize(
    ("follow_links", "expected"),
    [
        (False, [("to a", "symlink"), ("to b", "symlink")]),
        (True, [("to a/x", "FILE"), ("to b", "FILE")]),
    ],
)
def test_links_are_followed_on_demand(
    tmp_path: Path, follow_links: bool, expected: list[tuple[str, str]]
) -> None:
    files(tmp_path, "a/x", "b")
    (tmp_path / "to a").symlink_to("a")
    (tmp_path / "to b").symlink_to("b")
    assert outcomes(tmp_path, follow_links=follow_links)[2:] == expected
    assert keys(tmp_path / "to a") == ["x"]  # the root may be a link


@pytest.mark.parametrize("target", ["../../a", "../.."])
def test_a_folder_is_not_listed_below_itself(tmp_path: Path, target: str) -> None:
    files(tmp_path, "root/a/b/x")
    (tmp_path / "root/a/b/up").symlink_to(target)
    assert outcomes(tmp_path / "root", follow_links=True) == [
        ("a/b/up/", "symlink-loop"),
        ("a/b/x", "FILE"),
    ]


def test_a_link_that_leads_to_itself_is_a_loop(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("a")
    assert outcomes(tmp_path, follow_links=True) == [("a", "symlink-loop")]


def test_a_link_to_nothing_is_rejected_if_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").symlink_to("gone/b.pdf")
    assert only(tmp_path, follow_links=True) == ListingEntry(
        key="a.pdf",
        kind=EntryKind.REJECTED,
        path=f"{tmp_path}/a.pdf",
        url="https://docs.example.com/a.pdf",
        code="broken-link",
        reason="a link to 'gone/b.pdf', which does not exist; expected a file or a folder",
    )


def test_a_broken_link_that_a_rule_leaves_out_is_not_rejected(tmp_path: Path) -> None:
    (tmp_path / ".a").symlink_to("gone")
    (tmp_path / ".#b").symlink_to("tim@host.1234:1700000000")
    assert outcomes(tmp_path, follow_links=True) == [(".#b", "temporary"), (".a", "hidden")]


def bind_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path.name)


@pytest.mark.parametrize(
    "make", [os.mkfifo, bind_socket, lambda path: path.symlink_to("/dev/null")]
)
def test_a_file_that_is_not_regular_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], object]
) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    make(tmp_path / "a.pdf")
    line = only(tmp_path, follow_links=True)
    assert (line.kind, line.code) == (EntryKind.FILTERED, "no-file")


def test_a_name_that_is_not_utf_8_is_rejected(tmp_path: Path) -> None:
    Path(os.fsdecode(bytes(tmp_path) + LATIN_1)).touch()
    assert only(tmp_path) == ListingEntry(
        key="caf\\xe9.txt",
        kind=EntryKind.REJECTED,
        code="file-name",
        reason="caf\\xe9.txt: a name that is not UTF-8; expected one that is, or ⟦name_charset⟧"
        " that decodes it to a name of its own",
    )
    assert outcomes(tmp_path, exclude=("*.txt",)) == [("caf\\xe9.txt", "excluded")]


def test_a_folder_that_cannot_be_listed_is_rejected_and_others_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(tmp_path, "a/x", "b/x")
    monkeypatch.setattr(os, "open", refusing(os.open, tmp_path / "a", denied()))
    assert lines(tmp_path)[0] == ListingEntry(
        key="a/",
        kind=EntryKind.REJECTED,
        path=f"{tmp_path}/a",
        url="https://docs.example.com/a/",
        code="unlistable-folder",
        reason="Permission denied; expected a folder that can be listed",
    )
    assert outcomes(tmp_path, acl=INHERITED) == [
        ("", "FOLDER"),
        ("a/", "unlistable-folder"),
        ("b/", "FOLDER"),
        ("b/x", "FILE"),
    ]


def test_no_file_of_a_folder_is_listed_if_its_listing_breaks_off() -> None:
    def list_folder(above: ListingEntry) -> Iterator[ListingEntry]:
        if above.key:
            yield remote("a/x")
            raise OSError(5, "Input/output error")
        yield ListingEntry(key="a/", kind=EntryKind.FOLDER, path="s3://bucket/a")

    (line,) = entries_of(walk(BUCKET, folder_of(list_folder)))
    expected = "Input/output error; expected a folder that can be listed"
    assert (line.key, line.code, line.reason) == ("a/", "unlistable-folder", expected)


def test_a_folder_whose_connection_ends_is_listed_again_once() -> None:
    problems = [OSError(5, "Input/output error")]

    def list_folder(_above: ListingEntry) -> Iterator[ListingEntry]:
        yield remote("a")
        if problems:
            raise problems.pop()

    assert [line.key for line in entries_of(walk(BUCKET, folder_of(list_folder)))] == ["a"]


def test_a_folder_that_vanishes_is_rejected(tmp_path: Path) -> None:
    files(tmp_path, "a/x")
    (tmp_path / "b").mkdir()
    walked = list_tree(tree(tmp_path))
    next(walked)
    (tmp_path / "b").rmdir()
    line = next(walked)
    expected = "No such file or directory; expected a folder that can be listed"
    assert (line.key, line.code, line.reason) == ("b/", "unlistable-folder", expected)


def test_a_file_whose_status_is_refused_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(tmp_path, "a.pdf")
    monkeypatch.setattr(os, "stat", refusing(os.stat, tmp_path / "a.pdf", denied()))
    line = only(tmp_path)
    assert (line.kind, line.code) == (EntryKind.REJECTED, "unreadable")
    assert line.reason == "Permission denied; expected a file that can be read"


@pytest.mark.parametrize(
    ("root", "reason"),
    [
        ("none", ": No such file or directory; expected a folder that can be listed"),
        ("file", " is not a folder; expected a folder that can be listed"),
        ("caf\udce9", ": a path that is not UTF-8; expected one that is"),
    ],
)
@pytest.mark.parametrize("named", [(), ("a",)])
def test_a_root_that_is_no_folder_is_refused(
    tmp_path: Path, root: str, reason: str, named: tuple[str, ...]
) -> None:
    files(tmp_path, "file")
    with pytest.raises(ConfigError) as caught:
        lines(tmp_path / root, only=named)
    assert str(caught.value) == f"INPUT: {str(tmp_path / root)!r}{reason}"


def test_a_root_that_cannot_be_listed_stops_the_walk() -> None:
    def list_folder(_above: ListingEntry) -> list[ListingEntry]:
        raise denied()

    with pytest.raises(SourceError) as caught:
        list(walk(BUCKET, folder_of(list_folder)))
    assert str(caught.value) == (
        "s3://bucket: Permission denied; expected a folder that can be listed"
    )


def test_a_walk_that_is_given_up_leaves_no_file_open(tmp_path: Path) -> None:
    files(tmp_path, "a/x", "b", "c")
    before = len(os.listdir("/dev/fd"))
    walked = walk(tree(tmp_path), LocalFolders(tree(tmp_path)), run_length=1)
    next(walked)
    del walked
    assert len(os.listdir("/dev/fd")) == before


def test_sidecars_are_listed_with_their_file(tmp_path: Path) -> None:
    files(tmp_path, "a/x.pdf", "a/x.pdf.metadata.xml", "a/x.pdf.meta.json", "a/y.pdf")
    described, *sidecars, plain = lines(tmp_path)
    assert [(line.key, line.code) for line in sidecars] == [
        ("a/x.pdf.meta.json", "sidecar"),
        ("a/x.pdf.metadata.xml", "sidecar"),
    ]
    assert described.sidecars == (
        f"{tmp_path}/a/x.pdf.meta.json",
        f"{tmp_path}/a/x.pdf.metadata.xml",
    )
    assert plain.sidecars == ()


def test_other_files_may_be_between_a_file_and_its_sidecar() -> None:
    names = ["a", "a b", "a-1", "a.doc", "a.meta.json", "a.pdf", "a/b", "b"]
    results = listed(*map(remote, names))
    assert [line.key for line in results] == names
    assert [line.key for line in results if line.sidecars] == ["a"]


def test_the_fingerprint_of_a_file_has_size_time_and_version_of_its_sidecars(
    tmp_path: Path,
) -> None:
    first = listed(remote("a", fingerprint="e1"), remote("a.meta.json", size=9, fingerprint="e2"))[
        0
    ]
    assert first.fingerprint == ".meta.json=9:7:e2 e1"
    files(tmp_path, "x.pdf", "x.pdf.meta.json", "x.pdf.meta.yaml")
    os.utime(tmp_path / "x.pdf.meta.json", ns=(0, 3))
    os.utime(tmp_path / "x.pdf.meta.yaml", ns=(0, 4))
    changed, other = (
        (tmp_path / f"x.pdf.meta.{kind}").stat().st_ctime_ns for kind in ("json", "yaml")
    )
    assert lines(tmp_path, is_public=True)[0].fingerprint == (
        f".meta.json=1:{changed} .meta.yaml=1:{other}"
    )


PAIR = ("x.pdf", "x.pdf.meta.json")


@pytest.mark.parametrize(
    ("names", "rules", "expected"),
    [
        (("x/y", "x.meta.json"), {}, ["FILE", "FILE"]),
        (("x.meta.json",), {}, ["FILE"]),
        (("c/x.meta.json", "x"), {}, ["FILE", "FILE"]),
        ((*PAIR, "x.pdf.meta.json.meta.json"), {}, ["FILE", "sidecar", "FILE"]),
        (PAIR, {"exclude": ("x.pdf",)}, ["excluded", "sidecar"]),
        (PAIR, {"include": ("*.pdf",)}, ["FILE", "sidecar"]),
        (PAIR, {"only": PAIR}, ["FILE", "sidecar"]),
        (PAIR, {"only": ("x.pdf.meta.json",)}, ["FILE"]),
    ],
)
def test_a_sidecar_is_a_document_only_without_its_file(
    tmp_path: Path, names: tuple[str, ...], rules: dict[str, Any], expected: list[str]
) -> None:
    files(tmp_path, *names)
    assert [code for _, code in outcomes(tmp_path, **rules)] == expected


@pytest.mark.parametrize("named", [(), ("x.pdf",)])
@pytest.mark.parametrize("follow_links", [False, True])
@pytest.mark.parametrize("target", ["elsewhere", "nowhere"])
def test_a_link_describes_a_file_even_if_it_cannot_be_read(
    tmp_path: Path, follow_links: bool, target: str, named: tuple[str, ...]
) -> None:
    put(tmp_path / "elsewhere", b"{}")
    put(tmp_path / "x.pdf", b"x")
    (tmp_path / "x.pdf.meta.json").symlink_to(target)
    results = {line.key: line for line in lines(tmp_path, follow_links=follow_links, only=named)}
    assert results["x.pdf"].sidecars == (f"{tmp_path}/x.pdf.meta.json",)


def test_a_folder_does_not_describe_a_file(tmp_path: Path) -> None:
    files(tmp_path, "x.pdf")
    (tmp_path / "folder").mkdir()
    (tmp_path / "x.pdf.meta.json").symlink_to("folder")
    assert only(tmp_path, follow_links=True).sidecars == ()


def test_only_named_files_are_listed_and_those_that_vanished(tmp_path: Path) -> None:
    files(tmp_path, "a", "b", "c")
    assert outcomes(tmp_path, only=("c", "a", "d")) == [
        ("a", "FILE"),
        ("c", "FILE"),
        ("d", "vanished"),
    ]


def test_folders_are_listed_if_files_inherit_from_them(tmp_path: Path) -> None:
    files(tmp_path, "a/b/x", "c")
    (tmp_path / "d").mkdir()
    assert outcomes(tmp_path, acl=INHERITED) == [
        ("", "FOLDER"),
        ("a/", "FOLDER"),
        ("a/b/", "FOLDER"),
        ("a/b/x", "FILE"),
        ("c", "FILE"),
        ("d/", "FOLDER"),
    ]
    assert outcomes(tmp_path, only=("c",), acl=INHERITED) == [("", "FOLDER"), ("c", "FILE")]


def test_a_folder_is_listed_with_its_url_and_its_permissions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b").chmod(0o750)
    monkeypatch.setattr(os, "getxattr", lambda _path, _name: b"\x02\x00")
    line = lines(tmp_path, acl=INHERITED)[1]
    group = (tmp_path / "a b").stat().st_gid
    assert line == ListingEntry(
        key="a b/",
        kind=EntryKind.FOLDER,
        path=f"{tmp_path}/a b",
        url="https://docs.example.com/a%20b/",
        fingerprint=f"40750:{os.getuid()}:{group}:0200",
    )


def test_with_posix_acls_the_fingerprint_has_mode_owners_and_ctime(tmp_path: Path) -> None:
    files(tmp_path, "a")
    (tmp_path / "a").chmod(0o640)
    status = (tmp_path / "a").stat()
    fingerprint = lines(tmp_path, acl=INHERITED)[1].fingerprint
    assert fingerprint == f"100640:{status.st_uid}:{status.st_gid}:{status.st_ctime_ns}"


@pytest.mark.parametrize("rules", [{"is_public": True}, {"acl": TreeAcl(table="acl.csv")}])
def test_without_posix_acls_the_fingerprint_has_no_permissions(
    tmp_path: Path, rules: dict[str, Any]
) -> None:
    files(tmp_path, "a")
    assert only(tmp_path, **rules).fingerprint == ""


@pytest.mark.parametrize(
    ("closed", "marked"),
    [("", []), ("a/x", ["a/x"]), ("a", ["a/x", "a/y/z"]), (".", ["a/x", "a/y/z", "b"])],
)
def test_files_that_others_may_not_read_are_marked_without_acls(
    tmp_path: Path, closed: str, marked: list[str]
) -> None:
    tmp_path.chmod(0o755)
    files(tmp_path, "a/x", "a/y/z", "b")
    (tmp_path / closed).chmod(0o750 if closed else 0o755)
    assert [line.key for line in lines(tmp_path) if line.fingerprint == "shut"] == marked


def test_a_named_file_has_the_same_line_as_in_a_walk(tmp_path: Path) -> None:
    files(tmp_path, "x", "x.meta.yml", "y")
    for rules in ({"acl": TreeAcl()}, {"acl": None}):
        assert only(tmp_path, only=("x",), **rules) == lines(tmp_path, **rules)[0]


def test_the_fingerprint_changes_with_the_permissions_of_folders_above(tmp_path: Path) -> None:
    files(tmp_path, "a/b/x")
    before = lines(tmp_path, acl=TreeAcl())[0]
    files(tmp_path, "a/b/y")
    assert lines(tmp_path, acl=TreeAcl())[0] == before
    (tmp_path / "a").chmod(0o700)
    assert lines(tmp_path, acl=TreeAcl())[0].fingerprint != before.fingerprint


def test_the_fingerprint_does_not_change_with_a_folder_that_has_an_acl(tmp_path: Path) -> None:
    files(tmp_path, "a/x")
    before = lines(tmp_path, acl=INHERITED)
    (tmp_path / "a").chmod(0o700)
    after = lines(tmp_path, acl=INHERITED)
    assert [was.key for was, now in zip(before, after, strict=True) if was != now] == ["a/"]
