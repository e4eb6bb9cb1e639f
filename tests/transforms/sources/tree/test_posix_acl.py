"""POSIX permissions as ACLs: nobody may find what nobody lets them read."""

import grp
import os
import pwd
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.acl import Access, Acl, Inheritance, Principal, Scope
from schemas.errors import RecordError
from transforms.sources.tree.posix_acl import (
    READ,
    SEARCH,
    Permissions,
    PosixAcls,
    both,
    decide,
    parse_permissions,
    principals_of,
)
from transforms.sources.tree.tree import Tree, TreeAcl

OPEN = TreeAcl(everyone="everyone")
SHUT = TreeAcl()
ANNA, TIM, EVE = 61001, 61002, 61003
STAFF, BOARD, SALES = 62001, 62002, 62003
NOBODY = 0xFFFFFFFF

IDS = st.sampled_from([ANNA, TIM, EVE]), st.sampled_from([STAFF, BOARD, SALES])
BITS = st.sampled_from([0, SEARCH, READ, READ | SEARCH])
Groups = frozenset[int]
Setter = Callable[[Path], None]
GROUPS_OF = st.fixed_dictionaries(
    {user: st.frozensets(IDS[1], max_size=3) for user in (ANNA, TIM, EVE)}
)
IN_ONE_GROUP = st.fixed_dictionaries(
    {user: st.frozensets(IDS[1], max_size=1) for user in (ANNA, TIM, EVE)}
)


@st.composite
def permissions(draw: st.DrawFn, *, most_named: int = 2) -> Permissions:
    """Those of a file, as POSIX may have them: nobody is named twice."""
    named = st.lists(st.tuples(IDS[0], BITS), max_size=most_named, unique_by=lambda one: one[0])
    groups = st.lists(st.tuples(IDS[1], BITS), max_size=most_named, unique_by=lambda one: one[0])
    return Permissions(
        ((draw(IDS[0]), draw(BITS)), *draw(named)),
        ((draw(IDS[1]), draw(BITS)), *draw(groups)),
        draw(BITS),
    )


def posix_lets(found: Permissions, user: int, groups: Groups, bit: int) -> bool:
    """What POSIX decides, as its access check algorithm is written."""
    named = [bits for name, bits in found.users if name == user]
    if named:
        return bool(named[0] & bit)
    matching = [bits for name, bits in found.groups if name in groups]
    if matching:
        return any(bits & bit for bits in matching)
    return bool(found.others & bit)


def appliance_lets(principals: tuple[Principal, ...], user: int, groups: Groups) -> bool:
    """What an appliance decides: a denial stands before a permission."""
    mine = {(Scope.USER, str(user)), (Scope.GROUP, "everyone")}
    mine |= {(Scope.GROUP, str(group)) for group in groups}
    said = {one.access for one in principals if (one.scope, one.name) in mine}
    return said == {Access.PERMIT}


def shown(principals: tuple[Principal, ...]) -> str:
    words = (f"{one.access.value} {one.scope.value} {one.name}" for one in principals)
    return ", ".join(words).lower()


def mode(bits: int) -> Permissions:
    """Those of Anna's file, which is of the group staff."""
    return Permissions(((ANNA, bits >> 6 & 7),), ((STAFF, bits >> 3 & 7),), bits & 7)


def stated(found: Permissions, rules: TreeAcl = OPEN, bit: int = READ) -> str:
    if rules.everyone is None:
        found = found._replace(others=0)
    return shown(principals_of(decide(found, bit), rules))


def packed(*entries: tuple[int, int, int]) -> bytes:
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def parsed(*entries: tuple[int, int, int]) -> Permissions:
    return parse_permissions(status(0o770), packed(*entries))


def status(bits: int) -> os.stat_result:
    return os.stat_result((0o100000 | bits, 0, 0, 1, ANNA, STAFF, 0, 0, 0, 0))


@pytest.fixture
def owner() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name


@pytest.fixture
def group(tmp_path: Path) -> str:
    return grp.getgrgid(tmp_path.stat().st_gid).gr_name


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with a file two folders below its root, all open."""
    (tmp_path / "tree" / "a" / "b").mkdir(parents=True)
    (tmp_path / "tree" / "a" / "b" / "x.pdf").write_text("x")
    (tmp_path / "tree" / "a" / "b" / "x.pdf").chmod(0o644)
    for folder in (tmp_path / "tree", tmp_path / "tree" / "a", tmp_path / "tree" / "a" / "b"):
        folder.chmod(0o755)
    return tmp_path / "tree"


@pytest.fixture
def acl_setter(tmp_path: Path) -> Setter:
    """Sets an ACL by which the owner and Tim may read, but not the group."""
    entries = ((1, 6, NOBODY), (2, 4, TIM), (4, 0, NOBODY), (16, 4, NOBODY), (32, 0, NOBODY))

    def set_acl(path: Path) -> None:
        try:
            os.setxattr(path, "system.posix_acl_access", packed(*entries))
        except (AttributeError, OSError) as exc:
            pytest.skip(f"no POSIX ACLs here: {exc}")

    return set_acl


def of_file(tree: Path, path: str, rules: TreeAcl = OPEN, **more: bool) -> str:
    acls = PosixAcls(Tree(root=str(tree), **more), rules)  # type: ignore[arg-type]  # flags
    return shown(acls.of_file(f"{tree}/{path}").principals)


@pytest.mark.parametrize(
    ("bits", "expected"),
    [
        (0o000, ""),
        (0o400, "permit user 61001"),
        (0o640, "permit user 61001, permit group 62001"),
        (0o644, "permit user 61001, permit group 62001, permit group everyone"),
        (0o604, "permit user 61001, deny group 62001, permit group everyone"),
        (0o404, "permit user 61001, deny group 62001, permit group everyone"),
        (0o040, "deny user 61001, permit group 62001"),
        (0o044, "deny user 61001, permit group 62001, permit group everyone"),
        (0o004, "deny user 61001, deny group 62001, permit group everyone"),
        (0o333, ""),
    ],
)
def test_a_mode_permits_whom_it_lets_read(bits: int, expected: str) -> None:
    assert stated(mode(bits)) == expected


@pytest.mark.parametrize(
    ("bits", "expected"),
    [
        (0o644, "permit user 61001, permit group 62001"),
        (0o604, "permit user 61001"),
        (0o004, ""),
    ],
)
def test_without_a_group_for_everyone_others_are_permitted_nothing(
    bits: int, expected: str
) -> None:
    assert stated(mode(bits), SHUT) == expected


def test_of_a_folder_searching_counts() -> None:
    assert stated(mode(0o751), bit=SEARCH) == (
        "permit user 61001, permit group 62001, permit group everyone"
    )
    assert stated(mode(0o644), bit=SEARCH) == ""


def test_a_group_that_may_not_is_never_everyone() -> None:
    rules = TreeAcl(everyone="62001")

    assert stated(mode(0o604), rules) == "permit user 61001, deny group 62001"


def test_a_group_that_stands_for_everyone_is_named_once() -> None:
    assert stated(mode(0o644), TreeAcl(everyone="62001")) == "permit user 61001, permit group 62001"


def test_principals_have_a_namespace_and_the_case_of_their_names() -> None:
    rules = TreeAcl(namespace="corp", everyone="all")
    permit = {"access": Access.PERMIT, "namespace": "corp", "case_sensitive": True}

    assert principals_of(decide(mode(0o404), READ), rules) == (
        Principal(name="61001", scope=Scope.USER, **permit),  # type: ignore[arg-type]  # as above
        Principal(
            name="62001",
            scope=Scope.GROUP,
            access=Access.DENY,
            namespace="corp",
            case_sensitive=True,
        ),
        Principal(name="all", scope=Scope.GROUP, **permit),  # type: ignore[arg-type]  # as above
    )


def test_an_acl_names_users_and_groups_and_the_mask_limits_them() -> None:
    found = parsed(
        (1, 7, NOBODY), (2, 7, TIM), (4, 7, NOBODY), (8, 5, BOARD), (16, 5, NOBODY), (32, 1, NOBODY)
    )

    assert found == Permissions(((ANNA, 7), (TIM, 5)), ((STAFF, 5), (BOARD, 5)), 1)


def test_an_acl_without_a_mask_is_not_limited() -> None:
    found = parsed((1, 6, NOBODY), (4, 4, NOBODY), (32, 0, NOBODY))

    assert found == Permissions(((ANNA, 6),), ((STAFF, 4),), 0)


def test_the_group_bits_of_a_mode_are_the_mask_of_an_acl_and_not_its_group() -> None:
    found = parsed((1, 6, NOBODY), (2, 4, TIM), (4, 0, NOBODY), (16, 4, NOBODY), (32, 0, NOBODY))

    assert stated(found) == "permit user 61001, permit user 61002"


def test_a_mode_counts_where_there_is_no_acl() -> None:
    assert parse_permissions(status(0o754), None) == mode(0o754)


def test_a_named_user_who_may_not_is_denied_what_groups_may() -> None:
    found = Permissions(((ANNA, 6), (TIM, 0)), ((STAFF, 4),), 0)

    assert stated(found) == "permit user 61001, deny user 61002, permit group 62001"


def test_an_owner_who_is_named_as_well_is_the_owner_first() -> None:
    assert stated(Permissions(((ANNA, 0), (ANNA, 4)), ((STAFF, 4),), 0)) == (
        "deny user 61001, permit group 62001"
    )


def test_a_group_that_is_named_as_well_may_by_either() -> None:
    assert stated(Permissions(((ANNA, 4),), ((STAFF, 0), (STAFF, 4)), 0)) == (
        "permit user 61001, permit group 62001"
    )


@pytest.mark.parametrize(
    ("acl", "expected"),
    [
        (b"", "a POSIX ACL of 0 bytes that is not of version 2"),
        (b"\x02\0\0\0\x01", "a POSIX ACL of 5 bytes that is not of version 2"),
        (b"\x03\0\0\0", "a POSIX ACL of 4 bytes that is not of version 2"),
        (b"\x02\0\0\0", "a POSIX ACL without owner, group or others"),
        (packed((1, 6, NOBODY), (4, 4, NOBODY)), "a POSIX ACL without owner, group or others"),
    ],
)
def test_what_is_no_acl_is_refused(acl: bytes, expected: str) -> None:
    with pytest.raises(ValueError, match="POSIX") as caught:
        parse_permissions(status(0o644), acl)
    assert str(caught.value) == expected


@given(found=permissions(), groups_of=GROUPS_OF, user=IDS[0], bit=st.sampled_from([READ, SEARCH]))
def test_nobody_is_permitted_more_than_by_posix(
    found: Permissions, groups_of: dict[int, Groups], user: int, bit: int
) -> None:
    principals = principals_of(decide(found, bit), OPEN)

    permitted = appliance_lets(principals, user, groups_of[user])
    assert permitted <= posix_lets(found, user, groups_of[user], bit)


@given(found=permissions(), groups_of=IN_ONE_GROUP, user=IDS[0])
def test_who_is_in_one_group_is_permitted_what_posix_does(
    found: Permissions, groups_of: dict[int, Groups], user: int
) -> None:
    groups = groups_of[user]
    principals = principals_of(decide(found, READ), OPEN)
    is_denied_as_group = any(
        one.access is Access.DENY and one.scope is Scope.GROUP and one.name in map(str, groups)
        for one in principals
    )

    permitted = appliance_lets(principals, user, groups)
    assert is_denied_as_group or permitted == posix_lets(found, user, groups, READ)


@given(
    found=permissions(),
    folders=st.lists(permissions(), max_size=3),
    groups_of=GROUPS_OF,
    user=IDS[0],
)
def test_nobody_is_permitted_a_file_whose_folders_they_may_not_search(
    found: Permissions, folders: list[Permissions], groups_of: dict[int, Groups], user: int
) -> None:
    decision = decide(found, READ)
    for folder in folders:
        decision = both(decision, decide(folder, SEARCH))
    may = [posix_lets(folder, user, groups_of[user], SEARCH) for folder in folders]

    permitted = appliance_lets(principals_of(decision, OPEN), user, groups_of[user])
    assert permitted <= (posix_lets(found, user, groups_of[user], READ) and all(may))


def test_a_folder_that_all_may_search_changes_nothing() -> None:
    found = Permissions(((TIM, 6),), ((BOARD, 4),), 0)

    assert shown(principals_of(both(decide(found, READ), decide(mode(0o755), SEARCH)), OPEN)) == (
        "permit user 61002, permit group 62002"
    )


def test_a_folder_of_one_group_leaves_a_file_that_all_may_read_to_it() -> None:
    found = Permissions(((TIM, 6),), ((BOARD, 4),), 4)

    assert shown(principals_of(both(decide(found, READ), decide(mode(0o750), SEARCH)), OPEN)) == (
        "permit user 61001, permit group 62001"
    )


def test_a_file_has_the_acl_of_its_owner_group_and_mode(tree: Path, owner: str, group: str) -> None:
    assert of_file(tree, "a/b/x.pdf") == (
        f"permit user {owner}, permit group {group}, permit group everyone"
    )


def test_a_folder_that_is_shut_shuts_its_files(tree: Path, owner: str) -> None:
    (tree / "a").chmod(0o700)

    assert of_file(tree, "a/b/x.pdf") == f"permit user {owner}"


def test_a_root_that_is_shut_shuts_its_files(tree: Path, owner: str) -> None:
    tree.chmod(0o700)

    assert of_file(tree, "a/b/x.pdf") == f"permit user {owner}"


def test_what_stands_above_the_root_does_not_count(tree: Path, owner: str, group: str) -> None:
    tree.parent.chmod(0o700)

    assert of_file(tree, "a/b/x.pdf").endswith("permit group everyone")


def test_a_folder_is_searched_not_read(tree: Path) -> None:
    (tree / "a").chmod(0o711)

    assert of_file(tree, "a/b/x.pdf").endswith("permit group everyone")


def test_folders_with_acls_of_their_own_are_left_to_the_appliance(tree: Path) -> None:
    (tree / "a").chmod(0o700)
    rules = TreeAcl(is_inherited=True, everyone="everyone")

    assert of_file(tree, "a/b/x.pdf", rules).endswith("permit group everyone")


def test_a_mode_that_permits_nobody_is_an_acl(tree: Path) -> None:
    (tree / "a" / "b" / "x.pdf").chmod(0)
    path = f"{tree}/a/b/x.pdf"

    assert PosixAcls(Tree(root=str(tree)), OPEN).of_file(path) == Acl()


def test_a_folder_asks_that_both_permit(tree: Path) -> None:
    (tree / "a").chmod(0)
    rules = Tree(root=str(tree), base_url="https://docs.example.com/")
    acl = PosixAcls(rules, TreeAcl(is_inherited=True)).of_folder(f"{tree}/a")

    assert acl == Acl(
        inheritance=Inheritance.AND_BOTH_PERMIT,
        inherit_from="https://docs.example.com/",
        alone=True,
    )


def test_a_root_has_an_acl(tree: Path, owner: str, group: str) -> None:
    rules = TreeAcl(is_inherited=True)
    acls = PosixAcls(Tree(root=str(tree), follows_links=True), rules)

    shown_acl = shown(acls.of_folder(str(tree)).principals)
    assert shown_acl == f"permit user {owner}, permit group {group}"


@pytest.mark.parametrize("is_inherited", [False, True])
def test_a_link_leads_past_no_folder_that_is_shut(
    tree: Path, owner: str, is_inherited: bool
) -> None:
    (tree / "link.pdf").symlink_to("a/b/x.pdf")
    (tree / "a").chmod(0o700)
    rules = TreeAcl(is_inherited=is_inherited, everyone="everyone")

    assert of_file(tree, "link.pdf", rules, follows_links=True) == f"permit user {owner}"


def test_a_link_out_of_the_tree_leads_past_no_folder_that_is_shut(tree: Path, owner: str) -> None:
    outside = tree.parent / "outside"
    outside.mkdir(mode=0o700)
    (outside / "x.pdf").touch(mode=0o644)
    (tree / "link.pdf").symlink_to(outside / "x.pdf")

    assert of_file(tree, "link.pdf", follows_links=True) == f"permit user {owner}"


def test_a_root_that_is_a_link_is_no_link_in_the_tree(tree: Path) -> None:
    link = tree.parent / "link"
    link.symlink_to(tree)
    tree.parent.chmod(0o700)

    assert of_file(link, "a/b/x.pdf", follows_links=True).endswith("permit group everyone")


def test_an_acl_of_a_file_is_found(tree: Path, owner: str, acl_setter: Setter) -> None:
    acl_setter(tree / "a/b/x.pdf")

    assert of_file(tree, "a/b/x.pdf") == f"permit user {owner}, permit user 61002"


def test_permissions_that_cannot_be_read_cost_the_file(tree: Path) -> None:
    with pytest.raises(RecordError) as caught:
        of_file(tree, "a/none.pdf")

    assert (caught.value.code, caught.value.reason) == (
        "no-acl",
        f"{tree}/a/none.pdf: No such file or directory; expected permissions that can be read",
    )


def test_a_remote_file_has_no_permissions() -> None:
    with pytest.raises(RecordError, match="expected permissions that can be read"):
        of_file(Path("s3://bucket"), "docs/x.pdf")


def test_who_has_a_name_is_named() -> None:
    assert shown(principals_of(decide(Permissions(((0, 4),), ((0, 4),), 0), READ), OPEN)) == (
        f"permit user root, permit group {grp.getgrgid(0).gr_name}"
    )
