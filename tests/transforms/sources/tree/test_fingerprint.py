"""What decides over a record beside the content of its file, and what does not."""

import os
from pathlib import Path
from typing import Any

import pytest

from support.archives import put
from transforms.sources.tree.fingerprint import (
    around_file,
    around_folder,
    asks_others,
    decides_by_posix,
    digest,
    is_shut,
    sidecars_of,
)
from transforms.sources.tree.tree import Tree, TreeAcl


def status(*, mode: int = 0o100640, uid: int = 7, gid: int = 8) -> os.stat_result:
    return os.stat_result((mode, 1, 2, 1, uid, gid, 100, 0, 0, 0), {"st_ctime_ns": 5})


def test_what_stands_beside_a_file_describes_it(tmp_path: Path) -> None:
    put(tmp_path / "x.pdf.metadata.xml", b"<metadata/>")
    put(tmp_path / "x.pdf.meta.json", b"{}")
    os.utime(tmp_path / "x.pdf.metadata.xml", ns=(0, 4))
    os.utime(tmp_path / "x.pdf.meta.json", ns=(0, 3))

    assert sidecars_of(str(tmp_path / "x.pdf"), follows_links=False) == [
        (f"{tmp_path}/x.pdf.meta.json", ".meta.json=2:3"),
        (f"{tmp_path}/x.pdf.metadata.xml", ".metadata.xml=11:4"),
    ]


def test_a_folder_describes_no_file(tmp_path: Path) -> None:
    (tmp_path / "x.pdf.meta.json").mkdir()
    assert sidecars_of(str(tmp_path / "x.pdf"), follows_links=False) == []


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


def test_who_may_read_a_file_is_its_mode_its_owners_and_when_that_changed() -> None:
    assert around_file(status(), "") == "100640:7:8:5"


def test_who_may_read_a_file_is_who_may_search_the_folders_above_it_too() -> None:
    assert around_file(status(), "d1") == "100640:7:8:5 d1"


def test_who_may_search_a_folder_does_not_change_with_its_files(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    before = around_folder(tmp_path.stat(), str(tmp_path))
    put(tmp_path / "x.pdf", b"x")
    assert around_folder(tmp_path.stat(), str(tmp_path)) == before


def test_who_may_search_a_folder_is_its_mode_and_its_owners(tmp_path: Path) -> None:
    found = around_folder(status(mode=0o40750), str(tmp_path))
    assert found == "40750:7:8:"


def test_who_may_search_a_folder_is_its_posix_acl_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acls = {str(tmp_path): b"\x02\x00"}
    monkeypatch.setattr(os, "getxattr", lambda path, _name: acls[path])
    assert around_folder(status(mode=0o40750), str(tmp_path)) == "40750:7:8:0200"


def test_a_digest_stands_for_all_marks_in_their_order() -> None:
    assert digest(("40750:7:8:", "40755:0:0:")) != digest(("40755:0:0:", "40750:7:8:"))


@pytest.mark.parametrize(
    ("acl", "is_posix"), [(None, False), (TreeAcl(), True), (TreeAcl(table="acl.csv"), False)]
)
def test_posix_decides_unless_there_is_a_table(acl: TreeAcl | None, is_posix: bool) -> None:
    assert decides_by_posix(Tree(root="/srv", acl=acl)) is is_posix


@pytest.mark.parametrize(
    ("mode", "shut"),
    [(0o100644, False), (0o100640, True), (0o040751, False), (0o040754, True), (0o100604, False)],
)
def test_a_file_is_shut_that_others_may_not_read_and_a_folder_that_they_may_not_search(
    mode: int, shut: bool
) -> None:
    assert is_shut(status(mode=mode)) is shut


@pytest.mark.parametrize(
    ("rules", "asks"),
    [({}, True), ({"is_public": True}, False), ({"acl": TreeAcl(table="acl.csv")}, False)],
)
def test_others_are_asked_about_unless_something_else_tells(
    rules: dict[str, Any], asks: bool
) -> None:
    assert asks_others(Tree(root="/srv", **rules)) is asks
