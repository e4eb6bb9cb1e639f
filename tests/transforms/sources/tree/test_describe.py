"""The parts of a record that are not content, put together."""

import os
import pwd
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import pytest
from msgspec.structs import replace

from schemas.acl import Access, Acl, Principal, Scope
from schemas.errors import ConfigError, RecordError
from schemas.record import Action, Crawl, Meta, Record
from transforms.sources.listing import ListingEntry
from transforms.sources.tree.records import describer
from transforms.sources.tree.tree import Tree, TreeAcl

BASE = "https://docs.example.com/"
PLAIN = Tree(root="/srv", base_url=BASE)
LISTED = ListingEntry(key="a/x.pdf", path="/srv/a/x.pdf")
RECORD = Record(url=f"{BASE}a/x.pdf", action=Action.ADD)
STAFF = Principal(name="staff", scope=Scope.GROUP, access=Access.PERMIT)
TIM = Principal(name="tim", scope=Scope.USER, access=Access.DENY)
TIM_DENIED = '<record><acl><principal scope="user" access="deny">tim</principal></acl></record>'


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Return a tree of one file, a/x.pdf, which only its owner may read."""
    (tmp_path / "a").mkdir(mode=0o700)
    (tmp_path / "a" / "x.pdf").touch(mode=0o600)
    return Tree(root=str(tmp_path), base_url=BASE)


@pytest.fixture
def owner() -> Principal:
    name = pwd.getpwuid(os.geteuid()).pw_name
    return Principal(name=name, scope=Scope.USER, access=Access.PERMIT, case_sensitive=True)


def open_none(path: str) -> IO[bytes]:
    raise AssertionError(f"{path} was opened")


def described(
    tree: Tree = PLAIN, listed: ListingEntry = LISTED, record: Record = RECORD, **texts: str
) -> Record:
    """Return the record of a file, with sidecars of these texts, by their extensions."""
    files = {f"/srv/a/x.pdf.{name.replace('_', '.')}": text for name, text in texts.items()}
    listed = replace(listed, sidecars=tuple(files))
    return describer(tree, lambda path: BytesIO(files[path].encode()))(listed, record)


def with_table(path: Path, *rows: str) -> Tree:
    table = path / "people.csv"
    table.write_text("\n".join(("pattern,access,scope,name", *rows)))
    return replace(PLAIN, acl=TreeAcl(table=str(table)))


def in_tree(tree: Tree, key: str, acl: TreeAcl) -> Acl | None:
    """Return the ACL that rules give a file."""
    listed = ListingEntry(key=key, path=f"{tree.root}/a/x.pdf")
    return describer(replace(tree, acl=acl), open_none)(listed, RECORD).acl


def test_a_file_without_a_description_stays_as_it_is() -> None:
    assert describer(PLAIN, open_none)(LISTED, RECORD) == RECORD


def test_metadata_is_that_of_the_record_of_sidecars_and_of_the_path() -> None:
    record = replace(RECORD, metadata=(Meta("z", "0"),))
    tree = replace(PLAIN, states_paths=True)
    found = described(tree, record=record, meta_json='{"a": 1}')
    assert found == replace(
        record,
        metadata=(
            Meta("z", "0"),
            Meta("a", "1"),
            Meta("path", "a/x.pdf"),
            Meta("name", "x.pdf"),
            Meta("extension", "pdf"),
            Meta("folder", "a"),
        ),
    )


def test_a_display_url_is_added_to_other_hints() -> None:
    tree = replace(PLAIN, display_url="https://www.example.com/?f={path}")
    record = replace(RECORD, crawl=Crawl(lock=True))
    assert described(tree, record=record).crawl == Crawl(
        lock=True, display_url="https://www.example.com/?f=a/x.pdf"
    )


def test_a_bad_sidecar_costs_the_record() -> None:
    with pytest.raises(RecordError) as caught:
        described(meta_json="[]")
    assert caught.value.code == "bad-sidecar"


def test_a_record_has_the_acl_of_a_table(tmp_path: Path) -> None:
    tree = with_table(tmp_path, "a/**,permit,group,staff")
    assert described(tree).acl == Acl(principals=(STAFF,))


def test_a_file_that_no_row_matches_has_no_record(tmp_path: Path) -> None:
    with pytest.raises(RecordError) as caught:
        described(with_table(tmp_path, "b/**,permit,group,staff"))
    assert caught.value.code == "no-acl-row"


def test_a_bad_table_is_refused_before_a_file_is_read(tmp_path: Path) -> None:
    rules = TreeAcl(table=str(tmp_path / "none.csv"))
    with pytest.raises(ConfigError, match=r"none\.csv: No such file or directory; expected"):
        describer(replace(PLAIN, acl=rules), open_none)


def test_the_acl_of_a_sidecar_replaces_that_of_the_tree(tmp_path: Path) -> None:
    tree = with_table(tmp_path, "**,permit,group,staff")
    assert described(tree, metadata_xml=TIM_DENIED).acl == Acl(principals=(TIM,))


def test_a_sidecar_states_whether_metadata_may_overwrite_acls() -> None:
    record = described(metadata_xml='<metadata overwrite-acls="false"/>')
    assert record.overwrite_acls is False


def test_a_record_has_the_acl_of_its_file(tree: Tree, owner: Principal) -> None:
    assert in_tree(tree, "a/x.pdf", TreeAcl()) == Acl(principals=(owner,))


@pytest.mark.parametrize("key", ["a/x.pdf", "a/x.pdf/inner/y.txt"])
def test_files_and_members_of_archives_inherit_from_the_folder(
    tree: Tree, owner: Principal, key: str
) -> None:
    rules = TreeAcl(is_inherited=True, everyone="everyone")
    assert in_tree(tree, key, rules) == Acl(inherit_from=f"{BASE}a/", principals=(owner,))


@pytest.mark.parametrize(
    ("texts", "crawl"), [({}, Crawl(secure=True)), ({"metadata_xml": TIM_DENIED}, None)]
)
def test_a_file_that_others_may_not_read_is_secure_unless_it_has_an_acl(
    texts: dict[str, Any], crawl: Crawl | None
) -> None:
    closed = replace(LISTED, fingerprint=".meta.json=9:7 shut")
    assert described(listed=closed, **texts).crawl == crawl
