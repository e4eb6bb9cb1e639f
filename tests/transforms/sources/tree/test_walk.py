"""Walks of real trees: in order, and with all that stands in their way."""

import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import ConfigError, SourceError
from support.archives import put
from transforms.sources.listing import EntryKind, ListingEntry, read_listing, write_listing
from transforms.sources.tree.tree import Tree, TreeAcl
from transforms.sources.tree.urls import listed_file
from transforms.sources.tree.walk import sidecars_of, walk

BASE = "https://docs.example.com/"
LATIN_1 = b"/caf\xe9.txt"


def tree(root: Path, **rules: Any) -> Tree:  # the fields of a Tree
    return Tree(root=str(root), base_url=BASE, **rules)


def lines(root: Path, **rules: Any) -> list[ListingEntry]:
    return list(walk(tree(root, **rules)))


def only(root: Path, **rules: Any) -> ListingEntry:
    (line,) = lines(root, **rules)
    return line


def keys(root: Path, **rules: Any) -> list[str]:
    return [line.key for line in lines(root, **rules)]


def outcomes(root: Path, **rules: Any) -> list[tuple[str, str]]:
    """Keys, each with its code, or with its kind where it has none."""
    return [(line.key, line.code or line.kind.value) for line in lines(root, **rules)]


def fingerprints(root: Path, **rules: Any) -> list[str]:
    return [line.fingerprint for line in lines(root, **rules)]


def files(root: Path, *names: str) -> None:
    for name in names:
        put(root / name, b"x")


def refusing(function: Callable[..., Any], path: Path, trouble: OSError) -> Callable[..., Any]:
    """A function of paths that raises for one: root, who tests, may do anything."""

    def refuse(asked: str, **given: Any) -> Any:
        if asked == str(path):
            raise trouble
        return function(asked, **given)

    return refuse


def denied() -> OSError:
    return PermissionError(13, "Permission denied")


def test_a_file_is_listed_with_all_that_is_known_of_it(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    put(tmp_path / "a b/plan.pdf", b"%PDF")
    os.utime(tmp_path / "a b/plan.pdf", ns=(0, 1_700_000_000_123_456_789))

    assert only(tmp_path) == ListingEntry(
        key="a b/plan.pdf",
        kind=EntryKind.FILE,
        path=f"{tmp_path}/a b/plan.pdf",
        url="https://docs.example.com/a%20b/plan.pdf",
        size=4,
        modified_ns=1_700_000_000_123_456_789,
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
def test_the_order_is_that_of_all_keys_sorted(names: list[str], run_names: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        made = make(Path(folder), names)
        walked = walk(tree(Path(folder), takes_hidden=True), run_names=run_names)
        assert [line.key for line in walked] == sorted(made, key=str.encode)


def make(root: Path, names: list[str]) -> set[str]:
    """Make files, but where there is a folder, or would have to be one; return their keys."""
    for name in names:
        try:
            put(root / name.strip("/"), b"x")
        except OSError:
            continue
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


def test_a_listing_of_a_tree_can_be_written_and_read(tmp_path: Path) -> None:
    files(tmp_path / "docs", "ä\n/b", ".hidden")
    Path(os.fsdecode(bytes(tmp_path) + b"/docs" + LATIN_1)).touch()
    write_listing(walk(tree(tmp_path / "docs")), tmp_path / "listing")

    with open(tmp_path / "listing", "rb") as stream:
        assert [line for _, line in read_listing(stream)] == lines(tmp_path / "docs")


def test_an_empty_folder_has_nothing(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    assert lines(tmp_path) == []


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[str]:
    """A file in more folders than Python may call functions; nobody else can take them away."""
    folder = "/".join("d" * 1200)
    for depth in range(500, len(folder), 500):
        os.makedirs(tmp_path / folder[:depth])
    os.makedirs(tmp_path / folder)
    files(tmp_path, "d.txt", f"{folder}/x")
    yield f"{folder}/x"
    (tmp_path / folder / "x").unlink()
    os.removedirs(tmp_path / folder)  # up to what is not empty


@pytest.mark.slow
def test_folders_may_be_nested_deeper_than_the_stack(tmp_path: Path, deep: str) -> None:
    assert keys(tmp_path) == ["d.txt", deep]


def test_files_that_are_left_out_are_listed_with_a_code(tmp_path: Path) -> None:
    files(tmp_path, ".hidden", "a.bak", "b.tmp", "d.pdf")
    put(tmp_path / "c.pdf", b"")
    assert outcomes(tmp_path, exclude=("*.bak",)) == [
        (".hidden", "hidden"),
        ("a.bak", "excluded"),
        ("b.tmp", "temporary"),
        ("c.pdf", "empty"),
        ("d.pdf", "FILE"),
    ]


def test_a_file_that_is_left_out_has_its_url(tmp_path: Path) -> None:
    files(tmp_path, "a b.tmp")
    assert only(tmp_path) == ListingEntry(
        key="a b.tmp",
        kind=EntryKind.FILTERED,
        path=f"{tmp_path}/a b.tmp",
        url="https://docs.example.com/a%20b.tmp",
        code="temporary",
    )


def test_folders_that_are_left_out_are_not_entered(tmp_path: Path) -> None:
    files(tmp_path, ".git/config", "old/a.pdf", "new/a.pdf")
    assert outcomes(tmp_path, exclude=("old",)) == [
        (".git/", "hidden"),
        ("new/a.pdf", "FILE"),
        ("old/", "excluded"),
    ]


@pytest.mark.parametrize(
    ("follows_links", "expected"),
    [
        (False, [("to a", "symlink"), ("to b", "symlink")]),
        (True, [("to a/x", "FILE"), ("to b", "FILE")]),
    ],
)
def test_links_are_followed_on_demand(
    tmp_path: Path, follows_links: bool, expected: list[tuple[str, str]]
) -> None:
    files(tmp_path, "a/x", "b")
    (tmp_path / "to a").symlink_to("a")
    (tmp_path / "to b").symlink_to("b")
    assert outcomes(tmp_path, follows_links=follows_links)[2:] == expected


def test_the_root_may_be_a_link(tmp_path: Path) -> None:
    files(tmp_path, "docs/a")
    (tmp_path / "link").symlink_to("docs")
    assert keys(tmp_path / "link") == ["a"]


def test_a_folder_is_not_entered_from_below_itself(tmp_path: Path) -> None:
    files(tmp_path, "a/b/x")
    (tmp_path / "a/b/up").symlink_to("../../a")
    assert outcomes(tmp_path, follows_links=True) == [
        ("a/b/up/", "symlink-loop"),
        ("a/b/x", "FILE"),
    ]


def test_a_link_that_leads_to_itself_is_a_loop(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("a")
    assert outcomes(tmp_path, follows_links=True) == [("a", "symlink-loop")]


def test_a_file_system_without_inodes_has_no_loops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(tmp_path, "a/b/x")
    stat_of = os.stat

    def without_inode(path: str, **given: Any) -> os.stat_result:
        status = stat_of(path, **given)
        return os.stat_result((status.st_mode, 0, *status[2:10]), {"st_mtime_ns": 5})

    monkeypatch.setattr(os, "stat", without_inode)
    assert keys(tmp_path) == ["a/b/x"]


def test_a_link_to_nothing_is_rejected_if_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").symlink_to("gone/b.pdf")
    assert only(tmp_path, follows_links=True) == ListingEntry(
        key="a.pdf",
        kind=EntryKind.REJECTED,
        path=f"{tmp_path}/a.pdf",
        url="https://docs.example.com/a.pdf",
        code="broken-link",
        reason="a link to 'gone/b.pdf', which does not exist; expected a file or a folder",
    )


def test_a_broken_link_that_is_hidden_is_only_that(tmp_path: Path) -> None:
    (tmp_path / ".a").symlink_to("gone")
    (tmp_path / ".#b").symlink_to("tim@host.1234:1700000000")
    assert outcomes(tmp_path, follows_links=True) == [(".#b", "temporary"), (".a", "hidden")]


def bind_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path.name)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (os.mkfifo, "a pipe"),
        (bind_socket, "a socket"),
        (lambda path: path.symlink_to("/dev/null"), "a device"),
    ],
)
def test_a_file_that_is_not_regular_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], object], reason: str
) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    make(tmp_path / "a.pdf")
    line = only(tmp_path, follows_links=True)
    assert (line.kind, line.code, line.reason) == (EntryKind.FILTERED, "no-file", reason)


def test_a_name_that_is_not_utf_8_is_rejected(tmp_path: Path) -> None:
    Path(os.fsdecode(bytes(tmp_path) + LATIN_1)).touch()
    assert only(tmp_path) == ListingEntry(
        key="caf\\xe9.txt",
        kind=EntryKind.REJECTED,
        code="file-name",
        reason="caf\\xe9.txt: a name that is not UTF-8; expected one that is, so rename it",
    )


def test_names_that_are_not_utf_8_can_be_folders_or_excluded(tmp_path: Path) -> None:
    Path(os.fsdecode(bytes(tmp_path) + LATIN_1)).touch()
    folder = os.fsdecode(bytes(tmp_path) + b"/caf\xe9")
    os.mkdir(folder)
    files(Path(folder), "a")
    assert outcomes(tmp_path, exclude=("*.txt",)) == [
        ("caf\\xe9.txt", "excluded"),
        ("caf\\xe9/", "file-name"),
    ]


def test_a_folder_that_cannot_be_listed_is_rejected_and_others_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(tmp_path, "a/x", "b/x")
    monkeypatch.setattr(os, "scandir", refusing(os.scandir, tmp_path / "a", denied()))
    rejected, listed = lines(tmp_path)

    assert listed.key == "b/x"
    assert rejected == ListingEntry(
        key="a/",
        kind=EntryKind.REJECTED,
        path=f"{tmp_path}/a",
        url="https://docs.example.com/a/",
        code="unlistable-folder",
        reason="Permission denied; expected a folder that can be listed",
    )


def test_of_a_folder_that_cannot_be_listed_to_its_end_nothing_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(tmp_path, "a/x", "a/y")

    class Torn:
        def __init__(self, path: str) -> None:
            self._found = scandir(path)

        def __enter__(self) -> Iterator["os.DirEntry[str]"]:
            return self._torn()

        def _torn(self) -> Iterator["os.DirEntry[str]"]:
            yield next(self._found)
            raise OSError(5, "Input/output error")

        def __exit__(self, *_: object) -> None:
            self._found.close()

    scandir = os.scandir
    monkeypatch.setattr(
        os, "scandir", lambda path: Torn(path) if path.endswith("/a") else scandir(path)
    )
    line = only(tmp_path)
    expected = "Input/output error; expected a folder that can be listed"
    assert (line.key, line.code, line.reason) == ("a/", "unlistable-folder", expected)


def test_a_folder_that_vanishes_is_rejected(tmp_path: Path) -> None:
    files(tmp_path, "a/x")
    (tmp_path / "b").mkdir()
    walked = walk(tree(tmp_path))
    next(walked)
    (tmp_path / "b").rmdir()
    line = next(walked)

    expected = "No such file or directory; expected a folder that can be listed"
    assert (line.key, line.code, line.reason) == ("b/", "unlistable-folder", expected)


@pytest.mark.parametrize(
    ("make", "code", "reason"),
    [
        (lambda path: None, "vanished", ""),
        (lambda path: path.symlink_to("a"), "symlink", ""),
        (lambda path: path.mkdir(), "no-file", "a folder by now"),
    ],
)
def test_a_file_that_becomes_something_else_is_left_out(
    tmp_path: Path, make: Callable[[Path], object], code: str, reason: str
) -> None:
    files(tmp_path, "a", "b")
    walked = walk(tree(tmp_path))
    next(walked)
    (tmp_path / "b").unlink()
    make(tmp_path / "b")
    line = next(walked)
    assert (line.key, line.code, line.reason) == ("b", code, reason)


def test_a_file_whose_status_is_refused_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(tmp_path, "a.pdf")
    monkeypatch.setattr(os, "stat", refusing(os.stat, tmp_path / "a.pdf", denied()))
    assert only(tmp_path) == ListingEntry(
        key="a.pdf",
        kind=EntryKind.REJECTED,
        path=f"{tmp_path}/a.pdf",
        url="https://docs.example.com/a.pdf",
        code="unreadable",
        reason="Permission denied; expected a file that can be read",
    )


@pytest.mark.parametrize(
    ("root", "reason"),
    [
        ("none", ": No such file or directory; expected a folder that can be listed"),
        ("file", " is not a folder; expected a folder that can be listed"),
        ("caf\udce9", ": a path that is not UTF-8; expected one that is"),
    ],
)
def test_a_root_that_is_no_folder_stops_the_walk(tmp_path: Path, root: str, reason: str) -> None:
    files(tmp_path, "file")
    with pytest.raises(ConfigError) as caught:
        lines(tmp_path / root)
    assert str(caught.value) == f"INPUT: {str(tmp_path / root)!r}{reason}"


def test_a_root_that_cannot_be_listed_stops_the_walk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "scandir", refusing(os.scandir, tmp_path, denied()))
    with pytest.raises(SourceError) as caught:
        lines(tmp_path)

    assert str(caught.value) == (
        f"{tmp_path}: Permission denied; expected a folder that can be listed"
    )


def test_a_walk_that_is_given_up_leaves_nothing_open(tmp_path: Path) -> None:
    files(tmp_path, "a/x", "b", "c")
    before = len(os.listdir("/dev/fd"))
    walked = iter(walk(tree(tmp_path), run_names=1))
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


def test_the_fingerprint_of_a_file_has_size_and_time_of_its_sidecars(tmp_path: Path) -> None:
    files(tmp_path, "x.pdf", "x.pdf.meta.json", "x.pdf.meta.yaml")
    os.utime(tmp_path / "x.pdf.meta.json", ns=(0, 3))
    os.utime(tmp_path / "x.pdf.meta.yaml", ns=(0, 4))
    assert lines(tmp_path, is_public=True)[0].fingerprint == ".meta.json=1:3 .meta.yaml=1:4"


@pytest.mark.parametrize(
    ("names", "rules", "expected"),
    [
        (("x/y", "x.meta.json"), {}, [("x.meta.json", "FILE"), ("x/y", "FILE")]),
        (("x.meta.json",), {}, [("x.meta.json", "FILE")]),
        (
            ("x.pdf", "x.pdf.meta.json"),
            {"exclude": ("x.pdf",)},
            [("x.pdf", "excluded"), ("x.pdf.meta.json", "sidecar")],
        ),
        (
            ("x.pdf", "x.pdf.meta.json"),
            {"include": ("*.pdf",)},
            [("x.pdf", "FILE"), ("x.pdf.meta.json", "sidecar")],
        ),
        (
            ("x.pdf", "x.pdf.meta.json"),
            {"only": ("x.pdf", "x.pdf.meta.json")},
            [("x.pdf", "FILE"), ("x.pdf.meta.json", "sidecar")],
        ),
        (
            ("x.pdf", "x.pdf.meta.json"),
            {"only": ("x.pdf.meta.json",)},
            [("x.pdf.meta.json", "FILE")],
        ),
    ],
)
def test_a_sidecar_is_a_document_only_without_its_file(
    tmp_path: Path, names: tuple[str, ...], rules: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    files(tmp_path, *names)
    assert outcomes(tmp_path, **rules) == expected


def test_only_named_files_are_listed(tmp_path: Path) -> None:
    files(tmp_path, "a", "b", "c/d", "c/e")
    assert keys(tmp_path, only=("c/d", "a")) == ["a", "c/d"]


def test_a_file_that_is_named_and_vanishes_is_left_out(tmp_path: Path) -> None:
    assert outcomes(tmp_path, only=("a",)) == [("a", "vanished")]


def test_files_that_are_named_need_a_root(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file or directory"):
        lines(tmp_path / "docs", only=("a",))


def test_folders_are_listed_if_files_inherit_from_them(tmp_path: Path) -> None:
    files(tmp_path, "a/b/x", "c")
    (tmp_path / "d").mkdir()
    assert outcomes(tmp_path, acl=TreeAcl(is_inherited=True)) == [
        ("", "FOLDER"),
        ("a/", "FOLDER"),
        ("a/b/", "FOLDER"),
        ("a/b/x", "FILE"),
        ("c", "FILE"),
        ("d/", "FOLDER"),
    ]


def test_a_folder_is_listed_with_its_url_and_who_may_search_it(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b").chmod(0o750)
    (line,) = lines(tmp_path, acl=TreeAcl(is_inherited=True))[1:]
    owners = f"{os.getuid()}:{(tmp_path / 'a b').stat().st_gid}"

    assert line == ListingEntry(
        key="a b/",
        kind=EntryKind.FOLDER,
        path=f"{tmp_path}/a b",
        url="https://docs.example.com/a%20b/",
        fingerprint=f"40750:{owners}:",
    )


def test_the_folders_of_files_that_are_named_are_listed(tmp_path: Path) -> None:
    files(tmp_path, "a/b/x", "a/y", "c/z")
    assert keys(tmp_path, only=("a/b/x",), acl=TreeAcl(is_inherited=True)) == [
        "",
        "a/",
        "a/b/",
        "a/b/x",
    ]


def test_a_folder_that_cannot_be_listed_has_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(tmp_path, "a/x")
    monkeypatch.setattr(os, "scandir", refusing(os.scandir, tmp_path / "a", denied()))
    assert outcomes(tmp_path, acl=TreeAcl(is_inherited=True)) == [
        ("", "FOLDER"),
        ("a/", "unlistable-folder"),
    ]


def test_with_posix_acls_the_fingerprint_has_mode_owners_and_ctime(tmp_path: Path) -> None:
    files(tmp_path, "a")
    (tmp_path / "a").chmod(0o640)
    status = (tmp_path / "a").stat()

    found = lines(tmp_path, acl=TreeAcl(is_inherited=True))[1].fingerprint
    assert found == f"100640:{status.st_uid}:{status.st_gid}:{status.st_ctime_ns}"


@pytest.mark.parametrize("rules", [{"is_public": True}, {"acl": TreeAcl(table="acl.csv")}])
def test_without_posix_acls_the_fingerprint_has_no_permissions(
    tmp_path: Path, rules: dict[str, Any]
) -> None:
    files(tmp_path, "a")
    assert only(tmp_path, **rules).fingerprint == ""


@pytest.mark.parametrize(
    ("shut", "marked"),
    [("", []), ("a/x", ["a/x"]), ("a", ["a/x", "a/y/z"]), (".", ["a/x", "a/y/z", "b"])],
)
def test_files_that_others_may_not_read_are_marked_without_acls(
    tmp_path: Path, shut: str, marked: list[str]
) -> None:
    tmp_path.chmod(0o755)
    files(tmp_path, "a/x", "a/y/z", "b")
    (tmp_path / shut).chmod(0o750 if shut else 0o755)
    assert [one.key for one in lines(tmp_path) if one.fingerprint == "shut"] == marked


def test_a_named_file_that_others_may_not_read_is_marked(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    files(tmp_path, "a/x")
    (tmp_path / "a").chmod(0o700)
    assert only(tmp_path, only=("a/x",)).fingerprint == "shut"


@pytest.mark.parametrize("named", [(), ("a/b/x",)])
def test_the_fingerprint_changes_with_the_permissions_of_folders_above(
    tmp_path: Path, named: tuple[str, ...]
) -> None:
    files(tmp_path, "a/b/x")
    before = fingerprints(tmp_path, acl=TreeAcl(), only=named)
    (tmp_path / "a").chmod(0o700)
    assert fingerprints(tmp_path, acl=TreeAcl(), only=named) != before


def test_a_named_file_has_the_same_line_as_in_a_walk(tmp_path: Path) -> None:
    files(tmp_path, "a/b/x", "a/b/x.meta.yml")
    found = lines(tmp_path, acl=TreeAcl())[0]
    assert only(tmp_path, acl=TreeAcl(), only=("a/b/x",)) == found


def test_the_fingerprint_does_not_change_with_a_folder_with_an_acl(
    tmp_path: Path,
) -> None:
    files(tmp_path, "a/x")
    acl = TreeAcl(is_inherited=True)
    before = lines(tmp_path, acl=acl)
    (tmp_path / "a").chmod(0o700)
    after = lines(tmp_path, acl=acl)
    assert [was.key for was, now in zip(before, after, strict=True) if was != now] == ["a/"]


def test_the_fingerprint_does_not_change_with_other_files(tmp_path: Path) -> None:
    files(tmp_path, "a/x")
    before = lines(tmp_path, acl=TreeAcl())[0]
    files(tmp_path, "a/y")
    assert lines(tmp_path, acl=TreeAcl())[0] == before


def test_a_file_elsewhere_is_listed_by_the_same_rules() -> None:
    line_of = listed_file(Tree(root="s3://bucket", base_url=BASE))
    path, sidecar = "s3://bucket/a b.pdf", "s3://bucket/a b.pdf.meta.json"
    assert line_of("a b.pdf", path, 4, 5, (sidecar,)) == ListingEntry(
        key="a b.pdf",
        path=path,
        url="https://docs.example.com/a%20b.pdf",
        size=4,
        modified_ns=5,
        sidecars=(sidecar,),
    )


@pytest.mark.parametrize(
    ("key", "size", "code"),
    [("a/.git/config", 1, "hidden"), ("old/a/b", 1, "excluded"), ("a", 0, "empty")],
)
def test_a_file_elsewhere_is_left_out_by_the_same_rules(key: str, size: int, code: str) -> None:
    line = listed_file(Tree(root="s3://b", base_url=BASE, exclude=("old/",)))(key, "p", size, 5, ())
    assert line == ListingEntry(
        key=key, kind=EntryKind.FILTERED, path="p", url=f"https://docs.example.com/{key}", code=code
    )


@pytest.mark.parametrize("key", ["a/../b", "./a", ".."])
def test_a_path_with_dot_segments_is_rejected(key: str) -> None:
    line = listed_file(Tree(root="s3://b", base_url=BASE))(key, "p", 1, 5, ())
    assert line == ListingEntry(
        key=key,
        kind=EntryKind.REJECTED,
        path="p",
        code="file-name",
        reason=f"{key!r}; expected no '.' and no '..' in a path",
    )


@pytest.mark.parametrize("follows_links", [False, True])
@pytest.mark.parametrize("target", ["elsewhere", "nowhere"])
def test_a_link_describes_a_file_even_if_it_cannot_be_read(
    tmp_path: Path, follows_links: bool, target: str
) -> None:
    put(tmp_path / "elsewhere", b"{}")
    (tmp_path / "x.pdf.meta.json").symlink_to(target)
    assert len(sidecars_of(str(tmp_path / "x.pdf"), follows_links=follows_links)) == 1


def test_a_link_that_is_followed_to_a_folder_describes_no_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "x.pdf.meta.json").symlink_to("folder")
    assert sidecars_of(str(tmp_path / "x.pdf"), follows_links=True) == []


def test_the_fingerprint_of_a_folder_contains_its_posix_acl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o750)
    monkeypatch.setattr(os, "getxattr", lambda _path, _name: b"\x02\x00")
    assert only(tmp_path, acl=TreeAcl(is_inherited=True)).fingerprint.endswith(":0200")
