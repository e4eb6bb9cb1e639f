"""What describes a file beside its content, put together."""

import grp
import os
import pwd
from io import BytesIO
from pathlib import Path
from typing import IO

import msgspec
import pytest

from schemas.acl import Access, Acl, Inheritance, Principal, Scope
from schemas.errors import ConfigError, RecordError
from schemas.record import Action, Crawl, Meta, Record
from transforms.sources.listing import EntryKind, ListingEntry
from transforms.sources.tree.describe import describer, folder_acl
from transforms.sources.tree.tree import Tree, TreeAcl

BASE = "https://docs.example.com/"
PLAIN = Tree(root="/srv", base_url=BASE)
LISTED = ListingEntry(key="a/x.pdf", path="/srv/a/x.pdf")
RECORD = Record(url=f"{BASE}a/x.pdf", action=Action.ADD)
STAFF = Principal(name="staff", scope=Scope.GROUP, access=Access.PERMIT)
TIM = Principal(name="tim", scope=Scope.USER, access=Access.DENY)
INHERITED = TreeAcl(is_inherited=True, everyone="everyone")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A tree of one file, a/x.pdf, whose owner alone may read it."""
    (tmp_path / "a").mkdir(mode=0o700)
    (tmp_path / "a" / "x.pdf").touch(mode=0o600)
    tmp_path.chmod(0o700)
    return Tree(root=str(tmp_path), base_url=BASE)


@pytest.fixture
def owner() -> Principal:
    return Principal(
        name=pwd.getpwuid(os.geteuid()).pw_name,
        scope=Scope.USER,
        access=Access.PERMIT,
        case_sensitive=True,
    )


def nothing(path: str) -> IO[bytes]:
    raise AssertionError(f"{path} was opened")


def described(
    tree: Tree, listed: ListingEntry = LISTED, record: Record = RECORD, **texts: str
) -> Record:
    """The record of a file, with sidecars of these texts, by their extensions."""
    files = {f"/srv/a/x.pdf.{name.replace('_', '.')}": text for name, text in texts.items()}
    listed = msgspec.structs.replace(listed, sidecars=tuple(files))
    return describer(tree, lambda path: BytesIO(files[path].encode()))(listed, record)


def in_tree(tree: Tree, key: str, kind: EntryKind = EntryKind.FILE) -> ListingEntry:
    return ListingEntry(key=key, kind=kind, path=f"{tree.root}/{key}".rstrip("/"))


def with_acl(tree: Tree, acl: TreeAcl) -> Tree:
    return msgspec.structs.replace(tree, acl=acl)


def test_a_file_that_nothing_describes_stays_as_it_is() -> None:
    assert describer(PLAIN, nothing)(LISTED, RECORD) == RECORD


def test_a_record_has_the_metadata_of_sidecars() -> None:
    record = described(PLAIN, meta_json='{"a": 1}', meta_yml="b: 2")

    assert record == msgspec.structs.replace(RECORD, metadata=(Meta("a", "1"), Meta("b", "2")))


def test_a_path_is_metadata_if_it_is_asked_for() -> None:
    tree = msgspec.structs.replace(PLAIN, states_paths=True)

    assert described(tree, meta_json='{"a": 1}').metadata == (
        Meta("a", "1"),
        Meta("path", "a/x.pdf"),
        Meta("name", "x.pdf"),
        Meta("extension", "pdf"),
        Meta("folder", "a"),
    )


def test_metadata_is_added_to_what_is_there() -> None:
    record = msgspec.structs.replace(RECORD, metadata=(Meta("z", "0"),))

    assert described(PLAIN, record=record, meta_json='{"a": 1}').metadata == (
        Meta("z", "0"),
        Meta("a", "1"),
    )


def test_a_display_url_is_a_hint_beside_others() -> None:
    tree = msgspec.structs.replace(PLAIN, display_url="https://www.example.com/?f={path}")
    record = msgspec.structs.replace(RECORD, crawl=Crawl(lock=True))

    assert described(tree, record=record).crawl == Crawl(
        lock=True, display_url="https://www.example.com/?f=a/x.pdf"
    )


def test_a_bad_sidecar_costs_the_record() -> None:
    with pytest.raises(RecordError) as caught:
        described(PLAIN, meta_json="[]")
    assert caught.value.code == "bad-sidecar"


def test_a_record_has_the_acl_of_a_table(tmp_path: Path) -> None:
    table = tmp_path / "people.csv"
    table.write_text("pattern,access,scope,name\na/**,permit,group,staff\n")

    assert described(with_acl(PLAIN, TreeAcl(table=str(table)))).acl == Acl(principals=(STAFF,))


def test_a_bad_table_ends_it_before_anything_is_read(tmp_path: Path) -> None:
    rules = TreeAcl(table=str(tmp_path / "none.csv"))

    with pytest.raises(ConfigError, match=r"none\.csv: No such file or directory; expected"):
        describer(with_acl(PLAIN, rules), nothing)


def test_a_file_that_no_row_matches_is_no_record(tmp_path: Path) -> None:
    table = tmp_path / "people.csv"
    table.write_text("pattern,access,scope,name\nb/**,permit,group,staff\n")

    with pytest.raises(RecordError) as caught:
        described(with_acl(PLAIN, TreeAcl(table=str(table))))
    assert caught.value.code == "no-acl-row"


def test_an_acl_of_a_sidecar_stands_before_others(tmp_path: Path) -> None:
    table = tmp_path / "people.csv"
    table.write_text("pattern,access,scope,name\n**,permit,group,staff\n")
    text = '<record><acl><principal scope="user" access="deny">tim</principal></acl></record>'

    record = described(with_acl(PLAIN, TreeAcl(table=str(table))), metadata_xml=text)
    assert record.acl == Acl(principals=(TIM,))


def test_a_sidecar_says_whether_metadata_may_overwrite_acls() -> None:
    record = described(PLAIN, metadata_xml='<metadata overwrite-acls="false"/>')

    assert record.overwrite_acls is False


def test_a_record_has_the_acl_of_its_file(tree: Tree, owner: Principal) -> None:
    describe = describer(with_acl(tree, TreeAcl()), nothing)

    assert describe(in_tree(tree, "a/x.pdf"), RECORD).acl == Acl(principals=(owner,))


def test_a_file_inherits_from_its_folder(tree: Tree, owner: Principal) -> None:
    describe = describer(with_acl(tree, INHERITED), nothing)

    assert describe(in_tree(tree, "a/x.pdf"), RECORD).acl == Acl(
        inherit_from="https://docs.example.com/a/", principals=(owner,)
    )


def test_a_file_of_the_root_inherits_from_the_root(tree: Tree, owner: Principal) -> None:
    Path(tree.root, "x.pdf").touch(mode=0o600)
    describe = describer(with_acl(tree, INHERITED), nothing)

    assert describe(in_tree(tree, "x.pdf"), RECORD).acl == Acl(
        inherit_from="https://docs.example.com/", principals=(owner,)
    )


def test_a_member_has_the_acl_of_its_archive(tree: Tree, owner: Principal) -> None:
    listed = ListingEntry(key="a/x.pdf/inner/y.txt", path=f"{tree.root}/a/x.pdf")
    describe = describer(with_acl(tree, INHERITED), nothing)

    assert describe(listed, RECORD).acl == Acl(
        inherit_from="https://docs.example.com/a/", principals=(owner,)
    )


def test_a_root_may_be_named_from_where_one_stands(
    tree: Tree, owner: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tree.root)
    relative = msgspec.structs.replace(with_acl(tree, INHERITED), root="a")
    describe = describer(relative, nothing)

    assert describe(in_tree(tree, "a/x.pdf"), RECORD).acl == Acl(
        inherit_from="https://docs.example.com/", principals=(owner,)
    )


def test_a_folder_inherits_from_the_one_above(tree: Tree, owner: Principal) -> None:
    acl_of = folder_acl(with_acl(tree, INHERITED))

    assert acl_of(in_tree(tree, "a/", EntryKind.FOLDER)) == Acl(
        inheritance=Inheritance.AND_BOTH_PERMIT,
        inherit_from="https://docs.example.com/",
        principals=(owner,),
        alone=True,
    )


def test_a_folder_in_a_folder_inherits_from_that(tree: Tree) -> None:
    Path(tree.root, "a", "b").mkdir()
    acl_of = folder_acl(with_acl(tree, INHERITED))

    acl = acl_of(in_tree(tree, "a/b/", EntryKind.FOLDER))
    assert acl.inherit_from == "https://docs.example.com/a/"


def test_the_root_inherits_from_nothing(tree: Tree, owner: Principal) -> None:
    acl_of = folder_acl(with_acl(tree, INHERITED))

    assert acl_of(in_tree(tree, "", EntryKind.FOLDER)) == Acl(
        inheritance=Inheritance.AND_BOTH_PERMIT, principals=(owner,), alone=True
    )


def test_what_is_permitted_of_a_folder_is_its_group_as_well(tree: Tree) -> None:
    Path(tree.root, "a").chmod(0o710)
    group = grp.getgrgid(Path(tree.root, "a").stat().st_gid).gr_name
    acl = folder_acl(with_acl(tree, INHERITED))(in_tree(tree, "a/", EntryKind.FOLDER))

    assert [one.name for one in acl.principals if one.scope is Scope.GROUP] == [group]


def test_folders_that_nothing_inherits_from_have_no_acl() -> None:
    with pytest.raises(ValueError, match=r"^ACLs of folders without inheritance$"):
        folder_acl(with_acl(PLAIN, TreeAcl()))


def test_what_others_may_not_read_is_secure() -> None:
    shut = msgspec.structs.replace(LISTED, fingerprint=".meta.json=9:7 shut")
    assert described(PLAIN, shut) == msgspec.structs.replace(RECORD, crawl=Crawl(secure=True))


def test_what_others_may_not_read_is_not_secure_where_an_acl_tells_who_may() -> None:
    shut = msgspec.structs.replace(LISTED, fingerprint="shut")
    record = described(
        PLAIN,
        shut,
        metadata_xml='<record><acl><principal scope="group" access="permit">staff'
        "</principal></acl></record>",
    )
    assert record.acl is not None
    assert record.crawl is None
