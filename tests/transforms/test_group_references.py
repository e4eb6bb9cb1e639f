"""Which groups are one, which are defined, and which are only named."""

import pytest

from schemas.acl import Access, Principal, Scope
from schemas.membership import Member, Membership
from transforms.group_references import GroupCount, GroupReferences, Groups


def group(name: str, *, namespace: str | None = None, case_sensitive: bool | None = None) -> Member:
    return Member(name=name, scope=Scope.GROUP, namespace=namespace, case_sensitive=case_sensitive)


def user(name: str) -> Member:
    return Member(name=name, scope=Scope.USER)


def found(defined: list[Member], named: list[Member]) -> Groups:
    """How groups stand that have no members, and others that are named in an ACL."""
    mentions = GroupReferences()
    for one in defined:
        mentions.define(Membership(group=one))
    for one in named:
        mentions.name(one)
    return mentions.close()


def undefined(defined: list[Member], named: list[Member]) -> list[str]:
    return [one.name for one in found(defined, named).undefined]


def test_nothing_is_mentioned() -> None:
    assert found([], []) == Groups()


def test_a_group_that_is_defined_and_named_is_in_order() -> None:
    assert found([group("staff")], [group("staff")]) == Groups(memberships=1, defined=1, named=1)


def test_a_group_that_nothing_defines_is_told_with_its_namespace_and_how_often_it_is_named() -> (
    None
):
    named = [group("staff", namespace="ldap"), group("staff", namespace="ldap")]

    assert found([group("yard")], named) == Groups(
        memberships=1,
        defined=1,
        named=1,
        unnamed=1,
        undefined=(GroupCount(namespace="ldap", name="staff", named=2),),
    )


def test_a_user_is_no_group() -> None:
    assert found([], [user("ada")]) == Groups()


def test_a_principal_of_an_acl_names_a_group() -> None:
    mentions = GroupReferences()
    mentions.name(Principal(name="staff", scope=Scope.GROUP, access=Access.DENY))
    assert mentions.close().undefined == (GroupCount(namespace="Default", name="staff", named=1),)


def test_a_member_names_a_group() -> None:
    mentions = GroupReferences()
    mentions.define(Membership(group=group("staff"), members=(group("yard"), user("ada"))))
    assert mentions.close() == Groups(
        memberships=1,
        defined=1,
        named=1,
        unnamed=1,
        undefined=(GroupCount(namespace="Default", name="yard", named=1),),
    )


def test_a_group_that_is_defined_twice_is_one() -> None:
    assert found([group("staff"), group("staff")], []) == Groups(
        memberships=2, defined=1, unnamed=1
    )


@pytest.mark.parametrize("namespace", [None, "", "Default"])
def test_a_namespace_that_is_not_stated_is_the_default_one(namespace: str | None) -> None:
    assert undefined([group("staff", namespace=namespace)], [group("staff")]) == []


def test_groups_of_two_namespaces_are_two() -> None:
    assert undefined([group("staff", namespace="ldap")], [group("staff")]) == ["staff"]


def test_white_space_around_a_name_does_not_count() -> None:
    assert undefined([group("staff")], [group(" \tstaff\r\n")]) == []


@pytest.mark.parametrize("case_sensitive", [None, True])
def test_case_counts_unless_somebody_says_that_it_does_not(case_sensitive: bool | None) -> None:
    assert undefined(
        [group("staff", case_sensitive=case_sensitive)],
        [group("Staff", case_sensitive=case_sensitive)],
    ) == ["Staff"]


def test_case_does_not_count_where_the_definition_says_so() -> None:
    assert undefined([group("staff", case_sensitive=False)], [group("Staff")]) == []


def test_case_does_not_count_where_the_name_says_so() -> None:
    assert undefined([group("staff")], [group("Staff", case_sensitive=False)]) == []


def test_the_namespace_keeps_its_case() -> None:
    defined = [group("staff", namespace="LDAP")]
    assert undefined(defined, [group("staff", namespace="ldap", case_sensitive=False)]) == ["staff"]


def test_a_third_mention_without_case_does_not_define_what_is_named_with_it() -> None:
    named = [group("STAFF"), group("staff", case_sensitive=False)]
    assert undefined([group("Staff")], named) == ["STAFF"]


def test_a_definition_that_is_named_without_case_is_named() -> None:
    assert found([group("staff")], [group("STAFF", case_sensitive=False)]).unnamed == 0


def test_a_definition_without_case_is_named_by_any() -> None:
    assert found([group("staff", case_sensitive=False)], [group("STAFF")]).unnamed == 0


def test_a_definition_that_is_named_in_another_case_is_named_nowhere() -> None:
    assert found([group("staff")], [group("STAFF")]).unnamed == 1


def test_mentions_of_one_group_are_added_up_under_the_first_that_is_without_case() -> None:
    named = [
        group("staff"),
        group("Staff", case_sensitive=False),
        group("STAFF", case_sensitive=False),
    ]
    assert found([], named) == Groups(
        named=1, undefined=(GroupCount(namespace="Default", name="Staff", named=3),)
    )


def test_the_most_often_named_stand_first_then_by_namespace_and_name() -> None:
    named = [
        group("b"),
        group("a"),
        group("a", namespace="Ada"),
        group("c"),
        group("c"),
    ]
    assert found([], named).undefined == (
        GroupCount(namespace="Default", name="c", named=2),
        GroupCount(namespace="Ada", name="a", named=1),
        GroupCount(namespace="Default", name="a", named=1),
        GroupCount(namespace="Default", name="b", named=1),
    )
