"""Which references are to one group, and which groups are only defined or only named."""

import pytest

from feedferry.schemas.acl import Access, Principal, Scope
from feedferry.schemas.membership import Member, Membership
from feedferry.transforms.rules.group_references import GroupCount, GroupReferences, Groups


def group(name: str, *, namespace: str | None = None, case_sensitive: bool | None = None) -> Member:
    return Member(name=name, scope=Scope.GROUP, namespace=namespace, case_sensitive=case_sensitive)


def any_case(name: str, *, namespace: str | None = None) -> Member:
    return group(name, namespace=namespace, case_sensitive=False)


def count(name: str, named: int, namespace: str = "Default") -> GroupCount:
    return GroupCount(namespace=namespace, name=name, named=named)


USER = Member(name="ada", scope=Scope.USER)
IN_ACL = Principal(name="staff", scope=Scope.GROUP, access=Access.DENY)
IN_LDAP = group("staff", namespace="ldap")


@pytest.mark.parametrize(
    ("defined", "named", "expected"),
    [
        ([], [], Groups()),
        ([], [USER], Groups()),
        ([], [IN_ACL], Groups(named=1, undefined=(count("staff", 1),))),
        ([group("staff")], [group("staff")], Groups(memberships=1, defined=1, named=1)),
        (
            [group("yard")],
            [IN_LDAP, IN_LDAP],
            Groups(
                memberships=1, defined=1, named=1, unnamed=1, undefined=(count("staff", 2, "ldap"),)
            ),
        ),
        ([group("staff")] * 2, [], Groups(memberships=2, defined=1, unnamed=1)),
        (
            [],
            [group("staff"), any_case("Staff"), any_case("STAFF")],
            Groups(named=1, undefined=(count("Staff", 3),)),
        ),
        (
            [],
            [group("b"), group("a"), group("a", namespace="Ada"), group("c"), group("c")],
            Groups(
                named=4,
                undefined=(count("c", 2), count("a", 1, "Ada"), count("a", 1), count("b", 1)),
            ),
        ),
    ],
)
def test_groups_are_counted(
    defined: list[Member], named: list[Member | Principal], expected: Groups
) -> None:
    references = GroupReferences()
    for member in defined:
        references.define(Membership(group=member))
    for principal in named:
        references.name(principal)
    assert references.close() == expected


def test_a_member_names_a_group() -> None:
    references = GroupReferences()
    references.define(Membership(group=group("staff"), members=(group("yard"), USER)))
    assert references.close().undefined == (count("yard", 1),)


@pytest.mark.parametrize(
    ("defined", "named", "are_one"),
    [
        (group("staff", namespace=""), group("staff"), True),
        (group("staff", namespace="Default"), group("staff"), True),
        (IN_LDAP, group("staff"), False),
        (group("staff"), group(" \tstaff\r\n"), True),
        (group("staff"), group("Staff"), False),
        (group("staff", case_sensitive=True), group("Staff", case_sensitive=True), False),
        (any_case("staff"), group("Staff"), True),
        (group("staff"), any_case("Staff"), True),
        (group("staff", namespace="LDAP"), any_case("staff", namespace="ldap"), False),
    ],
)
def test_two_references_are_to_one_group(defined: Member, named: Member, are_one: bool) -> None:
    references = GroupReferences()
    references.define(Membership(group=defined))
    references.name(named)
    groups = references.close()
    assert (groups.unnamed, len(groups.undefined)) == ((0, 0) if are_one else (1, 1))


def test_a_reference_that_ignores_case_unites_all_spellings() -> None:
    references = GroupReferences()
    references.define(Membership(group=group("Staff")))
    references.name(group("STAFF"))
    references.name(any_case("staff"))
    assert references.close() == Groups(memberships=1, defined=1, named=1)
