"""POSIX permissions as ACLs: no user is permitted more than by POSIX."""

import grp
import os
import pwd
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from feedferry.schemas.acl import Access, Acl, Inheritance, Principal, Scope
from feedferry.schemas.errors import RecordError
from feedferry.transforms.sources.tree.acl.posix_acl import (
    READ,
    SEARCH,
    Permissions,
    PosixAcls,
    both,
    decide,
    parse_permissions,
    principals_of,
)
from feedferry.transforms.sources.tree.rules.tree import Tree, TreeAcl

EVERYONE = TreeAcl(everyone="everyone")
ANNA, TIM, EVE = 61001, 61002, 61003
STAFF, BOARD, SALES = 62001, 62002, 62003
NOBODY = 0xFFFFFFFF

IDS = st.sampled_from([ANNA, TIM, EVE]), st.sampled_from([STAFF, BOARD, SALES])
BITS = st.sampled_from([0, SEARCH, READ, READ | SEARCH])
Groups = frozenset[int]
GROUPS_OF = st.fixed_dictionaries(
    {user: st.frozensets(IDS[1], max_size=3) for user in (ANNA, TIM, EVE)}
)
IN_ONE_GROUP = st.fixed_dictionaries(
    {user: st.frozensets(IDS[1], max_size=1) for user in (ANNA, TIM, EVE)}
)


@st.composite
def permissions(draw: st.DrawFn, *, most_named: int = 2) -> Permissions:
    """Return the permissions of a file as POSIX may have them: no user is named twice."""
    named = st.lists(st.tuples(IDS[0], BITS), max_size=most_named, unique_by=lambda item: item[0])
    groups = st.lists(
        st.tuples(IDS[1], BITS), max_size=most_named, unique_by=lambda result: result[0]
    )
    return Permissions(
        ((draw(IDS[0]), draw(BITS)), *draw(named)),
        ((draw(IDS[1]), draw(BITS)), *draw(groups)),
        draw(BITS),
    )


def posix_permits(granted: Permissions, user: int, groups: Groups, bit: int) -> bool:
    """Return the decision of the access check algorithm of POSIX."""
    named = [bits for name, bits in granted.users if name == user]
    if named:
        return bool(named[0] & bit)
    matching = [bits for name, bits in granted.groups if name in groups]
    if matching:
        return any(bits & bit for bits in matching)
    return bool(granted.others & bit)


def appliance_permits(principals: tuple[Principal, ...], user: int, groups: Groups) -> bool:
    """Return the decision of an appliance, which checks denials first."""
    mine = {(Scope.USER, str(user)), (Scope.GROUP, "everyone")}
    mine |= {(Scope.GROUP, str(group)) for group in groups}
    accesses = {
        principal.access for principal in principals if (principal.scope, principal.name) in mine
    }
    return accesses == {Access.PERMIT}


def shown(principals: tuple[Principal, ...]) -> str:
    words = (
        f"{principal.access.value} {principal.scope.value} {principal.name}"
        for principal in principals
    )
    return ", ".join(words).lower()


def mode(bits: int) -> Permissions:
    """Return the permissions of a file of Anna and the group staff."""
    return Permissions(((ANNA, bits >> 6 & 7),), ((STAFF, bits >> 3 & 7),), bits & 7)


def stated(granted: Permissions, rules: TreeAcl = EVERYONE, bit: int = READ) -> str:
    return shown(principals_of(decide(granted, bit), rules))


def packed(*entries: tuple[int, int, int]) -> bytes:
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


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
    """Return a tree with a file two folders below its root, which everyone may read."""
    root = tmp_path / "tree"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "x.pdf").write_text("x")
    (root / "a" / "b" / "x.pdf").chmod(0o644)
    for folder in (root, root / "a", root / "a" / "b"):
        folder.chmod(0o755)
    return root


def of_file(tree: Path, path: str = "a/b/x.pdf", rules: TreeAcl = EVERYONE, **more: bool) -> str:
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
        (0o040, "deny user 61001, permit group 62001"),
        (0o044, "deny user 61001, permit group 62001, permit group everyone"),
        (0o004, "deny user 61001, deny group 62001, permit group everyone"),
        (0o333, ""),
    ],
)
def test_a_mode_permits_those_who_may_read(bits: int, expected: str) -> None:
    assert stated(mode(bits)) == expected


@pytest.mark.parametrize(
    ("bits", "expected"),
    [
        (0o644, "permit user {}, permit group {}"),
        (0o604, "permit user {}"),
        (0o004, ""),
        (0, ""),
    ],
)
def test_without_a_group_for_everyone_others_are_permitted_nothing(
    tree: Path, owner: str, group: str, bits: int, expected: str
) -> None:
    (tree / "a/b/x.pdf").chmod(bits)
    assert of_file(tree, rules=TreeAcl()) == expected.format(owner, group)


def test_the_permission_for_a_folder_is_to_search_it() -> None:
    assert stated(mode(0o751), bit=SEARCH) == (
        "permit user 61001, permit group 62001, permit group everyone"
    )
    assert stated(mode(0o644), bit=SEARCH) == ""


def test_a_group_that_is_also_the_group_for_everyone_is_named_once() -> None:
    rules = TreeAcl(everyone="62001")
    assert stated(mode(0o604), rules) == "permit user 61001, deny group 62001"
    assert stated(mode(0o644), rules) == "permit user 61001, permit group 62001"


def test_principals_have_a_namespace_and_the_case_of_their_names() -> None:
    rules = TreeAcl(namespace="corp", everyone="all")
    expected = (
        ("61001", Scope.USER, Access.PERMIT),
        ("62001", Scope.GROUP, Access.DENY),
        ("all", Scope.GROUP, Access.PERMIT),
    )
    assert principals_of(decide(mode(0o404), READ), rules) == tuple(
        Principal(name=name, scope=scope, access=access, namespace="corp", case_sensitive=True)
        for name, scope, access in expected
    )
    root = principals_of(decide(Permissions(((0, 4),), ((0, 4),), 0), READ), EVERYONE)
    assert shown(root) == f"permit user root, permit group {grp.getgrgid(0).gr_name}"


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (
            ((1, 7, NOBODY), (2, 7, TIM), (4, 7, NOBODY), (8, 5, BOARD), (16, 5, 0), (32, 1, 0)),
            Permissions(((ANNA, 7), (TIM, 5)), ((STAFF, 5), (BOARD, 5)), 1),
        ),
        (
            ((1, 6, NOBODY), (4, 4, NOBODY), (32, 0, NOBODY)),
            Permissions(((ANNA, 6),), ((STAFF, 4),), 0),
        ),
        (  # The group bits of the mode are the mask, and not those of the group.
            ((1, 6, NOBODY), (2, 4, TIM), (4, 0, NOBODY), (16, 4, NOBODY), (32, 0, NOBODY)),
            Permissions(((ANNA, 6), (TIM, 4)), ((STAFF, 0),), 0),
        ),
    ],
)
def test_an_acl_names_users_and_groups_and_its_mask_limits_them(
    entries: tuple[tuple[int, int, int], ...], expected: Permissions
) -> None:
    assert parse_permissions(status(0o770), packed(*entries)) == expected


@pytest.mark.parametrize(
    ("granted", "expected"),
    [
        (
            Permissions(((ANNA, 6), (TIM, 0)), ((STAFF, 4),), 0),
            "permit user 61001, deny user 61002, permit group 62001",
        ),
        (
            Permissions(((ANNA, 0), (ANNA, 4)), ((STAFF, 4),), 0),
            "deny user 61001, permit group 62001",
        ),
        (
            Permissions(((ANNA, 4),), ((STAFF, 0), (STAFF, 4)), 0),
            "permit user 61001, permit group 62001",
        ),
    ],
    ids=["denied-user", "owner-is-named", "group-is-named"],
)
def test_the_first_entry_of_a_user_and_any_entry_of_a_group_count(
    granted: Permissions, expected: str
) -> None:
    assert stated(granted) == expected


@pytest.mark.parametrize(
    ("acl", "expected"),
    [
        (b"", "a POSIX ACL of 0 bytes that is not of version 2"),
        (b"\x02\0\0\0\x01", "a POSIX ACL of 5 bytes that is not of version 2"),
        (b"\x03\0\0\0", "a POSIX ACL of 4 bytes that is not of version 2"),
        (packed((1, 6, NOBODY), (4, 4, NOBODY)), "a POSIX ACL without owner, group or others"),
    ],
)
def test_a_malformed_acl_is_refused(acl: bytes, expected: str) -> None:
    with pytest.raises(ValueError, match="POSIX") as caught:
        parse_permissions(status(0o644), acl)
    assert str(caught.value) == expected


@given(granted=permissions(), groups_of=IN_ONE_GROUP, user=IDS[0])
def test_a_user_in_one_group_is_permitted_what_posix_permits(
    granted: Permissions, groups_of: dict[int, Groups], user: int
) -> None:
    groups = groups_of[user]
    principals = principals_of(decide(granted, READ), EVERYONE)
    is_denied_as_group = any(
        principal.access is Access.DENY
        and principal.scope is Scope.GROUP
        and principal.name in map(str, groups)
        for principal in principals
    )
    permitted = appliance_permits(principals, user, groups)
    assert is_denied_as_group or permitted == posix_permits(granted, user, groups, READ)


@given(
    granted=permissions(),
    folders=st.lists(permissions(), max_size=3),
    groups_of=GROUPS_OF,
    user=IDS[0],
)
def test_no_user_is_permitted_more_than_by_posix_nor_past_a_closed_folder(
    granted: Permissions, folders: list[Permissions], groups_of: dict[int, Groups], user: int
) -> None:
    decision, groups = decide(granted, READ), groups_of[user]
    for folder in folders:
        decision = both(decision, decide(folder, SEARCH))
    may_search = all(posix_permits(folder, user, groups, SEARCH) for folder in folders)
    permitted = appliance_permits(principals_of(decision, EVERYONE), user, groups)
    assert permitted <= (posix_permits(granted, user, groups, READ) and may_search)


@pytest.mark.parametrize(
    ("granted", "folder", "expected"),
    [
        (
            Permissions(((TIM, 6),), ((BOARD, 4),), 0),
            0o755,
            "permit user 61002, permit group 62002",
        ),
        (
            Permissions(((TIM, 6),), ((BOARD, 4),), 4),
            0o750,
            "permit user 61001, permit group 62001",
        ),
    ],
)
def test_a_file_is_permitted_to_those_who_may_search_its_folder(
    granted: Permissions, folder: int, expected: str
) -> None:
    decision = both(decide(granted, READ), decide(mode(folder), SEARCH))
    assert shown(principals_of(decision, EVERYONE)) == expected


@pytest.mark.parametrize(
    ("folder", "is_open"),
    [
        (("a", 0o755), True),
        (("a", 0o711), True),
        (("a", 0o700), False),
        ((".", 0o700), False),
        (("..", 0o700), True),
    ],
)
def test_a_closed_folder_in_the_tree_closes_its_files(
    tree: Path, owner: str, group: str, folder: tuple[str, int], is_open: bool
) -> None:
    (tree / folder[0]).chmod(folder[1])
    others = f", permit group {group}, permit group everyone"
    assert of_file(tree) == f"permit user {owner}" + (others if is_open else "")


def test_folders_with_acls_of_their_own_do_not_count(tree: Path) -> None:
    (tree / "a").chmod(0o700)
    rules = TreeAcl(is_inherited=True, everyone="everyone")
    assert of_file(tree, rules=rules).endswith("permit group everyone")


def test_files_and_folders_inherit_from_the_folder_above(
    tree: Path, owner: str, group: str
) -> None:
    (tree / "a").chmod(0)
    base_url = "https://docs.example.com/"
    acls = PosixAcls(
        Tree(root=str(tree), base_url=base_url, follow_links=True), TreeAcl(is_inherited=True)
    )
    both_permit = Acl(inheritance=Inheritance.AND_BOTH_PERMIT, alone=True)
    assert acls.of_folder(f"{tree}/a") == replace(both_permit, inherit_from=base_url)
    assert acls.of_folder(f"{tree}/a/b").inherit_from == f"{base_url}a/"
    assert acls.of_file(f"{tree}/a/b/x.pdf").inherit_from == f"{base_url}a/b/"
    root = acls.of_folder(str(tree))
    assert replace(root, principals=()) == both_permit
    assert shown(root.principals) == f"permit user {owner}, permit group {group}"


@pytest.mark.parametrize("is_inherited", [False, True])
@pytest.mark.parametrize("target", ["a/b/x.pdf", "../outside/x.pdf"])
def test_a_link_does_not_lead_past_a_closed_folder(
    tree: Path, owner: str, is_inherited: bool, target: str
) -> None:
    (tree.parent / "outside").mkdir(mode=0o700)
    (tree.parent / "outside/x.pdf").touch(mode=0o644)
    (tree / "a").chmod(0o700)
    (tree / "link.pdf").symlink_to(target)
    rules = TreeAcl(is_inherited=is_inherited, everyone="everyone")
    assert of_file(tree, "link.pdf", rules, follow_links=True) == f"permit user {owner}"


def test_a_root_that_is_a_link_is_no_link_in_the_tree(tree: Path) -> None:
    link = tree.parent / "link"
    link.symlink_to(tree)
    tree.parent.chmod(0o700)
    assert of_file(link, follow_links=True).endswith("permit group everyone")


def test_the_acl_of_a_file_is_read(tree: Path, owner: str) -> None:
    entries = ((1, 6, NOBODY), (2, 4, TIM), (4, 0, NOBODY), (16, 4, NOBODY), (32, 0, NOBODY))
    try:
        os.setxattr(tree / "a/b/x.pdf", "system.posix_acl_access", packed(*entries))
    except (AttributeError, OSError) as exc:
        pytest.skip(f"no POSIX ACLs here: {exc}")
    assert of_file(tree) == f"permit user {owner}, permit user 61002"


@pytest.mark.parametrize("root", ["tree", "s3://bucket"])
def test_permissions_that_cannot_be_read_cost_the_file(tree: Path, root: str) -> None:
    path = tree if root == "tree" else Path(root)
    with pytest.raises(RecordError) as caught:
        of_file(path, "a/none.pdf")
    assert (caught.value.code, caught.value.reason) == (
        "no-acl",
        f"{path}/a/none.pdf: No such file or directory; expected permissions that can be read",
    )
