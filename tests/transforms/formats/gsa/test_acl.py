"""The acl element: what is read of it, and what is refused rather than guessed."""

import pytest
from lxml import etree

from schemas.acl import Access, Acl, Inheritance, Principal, Scope
from schemas.errors import RecordError
from schemas.record import Extra
from transforms.formats.gsa.acl import Extras, read_acl, tag_of

WHO = 'scope="user" access="permit"'


def read(markup: str) -> tuple[Acl, Extras]:
    element = etree.fromstring(markup)
    extras: Extras = []
    acl = read_acl(element, dict(element.items()), extras, "record/acl", alone=False)
    return acl, extras


def principal(attributes: str, name: str = "joe") -> Principal:
    acl, _ = read(f"<acl><principal {attributes}>{name}</principal></acl>")
    return acl.principals[0]


def refusal(markup: str) -> tuple[str, str]:
    with pytest.raises(RecordError) as caught:
        read(markup)
    return caught.value.code, caught.value.reason


def refusal_of_principal(attributes: str, inner: str = "joe") -> tuple[str, str]:
    return refusal(f"<acl><principal {attributes}>{inner}</principal></acl>")


def test_an_acl_without_anything_is_one_all_the_same() -> None:
    assert read("<acl/>") == (Acl(), [])


@pytest.mark.parametrize(
    ("stated", "inheritance"),
    [
        ("parent-overrides", Inheritance.PARENT_OVERRIDES),
        ("child-overrides", Inheritance.CHILD_OVERRIDES),
        ("and-both-permit", Inheritance.AND_BOTH_PERMIT),
        ("leaf-node", Inheritance.LEAF_NODE),
    ],
)
def test_an_inheritance_type_is_read(stated: str, inheritance: Inheritance) -> None:
    assert read(f'<acl inheritance-type="{stated}"/>') == (Acl(inheritance=inheritance), [])


def test_where_an_acl_inherits_from_is_read() -> None:
    assert read('<acl inherit-from="http://e.com/?a&amp;b"/>') == (
        Acl(inherit_from="http://e.com/?a&b"),
        [],
    )


def test_an_acl_that_stands_alone_says_so() -> None:
    assert read_acl(etree.fromstring("<acl/>"), {}, [], "acl", alone=True) == Acl(alone=True)


@pytest.mark.parametrize("scope", [Scope.USER, Scope.GROUP])
@pytest.mark.parametrize("access", [Access.PERMIT, Access.DENY])
def test_a_principal_is_a_user_or_group_that_is_permitted_or_denied(
    scope: Scope, access: Access
) -> None:
    attributes = f'scope="{scope.value.lower()}" access="{access.value.lower()}"'
    assert principal(attributes) == Principal(name="joe", scope=scope, access=access)


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        (
            'namespace="Default"',
            Principal(name="joe", scope=Scope.USER, access=Access.PERMIT, namespace="Default"),
        ),
        (
            'namespace=""',
            Principal(name="joe", scope=Scope.USER, access=Access.PERMIT, namespace=""),
        ),
        (
            'case-sensitivity-type="everything-case-sensitive"',
            Principal(name="joe", scope=Scope.USER, access=Access.PERMIT, case_sensitive=True),
        ),
        (
            'case-sensitivity-type="everything-case-insensitive"',
            Principal(name="joe", scope=Scope.USER, access=Access.PERMIT, case_sensitive=False),
        ),
        (
            'principal-type="unqualified"',
            Principal(name="joe", scope=Scope.USER, access=Access.PERMIT, unqualified=True),
        ),
    ],
)
def test_a_principal_has_what_is_stated_of_it(attributes: str, expected: Principal) -> None:
    assert principal(f"{WHO} {attributes}") == expected


@pytest.mark.parametrize("name", ["", " joe ", "EXAMPLE\\joe", "cn=joe,dc=example", "ü😀"])
def test_a_name_is_kept_as_it_is(name: str) -> None:
    assert principal(WHO, name).name == name


def test_principals_keep_their_order_and_their_duplicates() -> None:
    one, other = f"<principal {WHO}>b</principal>", f"<principal {WHO}>a</principal>"
    acl, _ = read(f"<acl>{one}{other}{one}</acl>")
    assert [found.name for found in acl.principals] == ["b", "a", "b"]


def test_unknown_attributes_are_kept_by_their_place() -> None:
    markup = (
        f'<acl a="1"><principal {WHO}>joe</principal><principal {WHO} b="2">joe</principal></acl>'
    )
    assert read(markup)[1] == [
        Extra("record/acl/@a", "1"),
        Extra("record/acl/principal[1]/@b", "2"),
    ]


@pytest.mark.parametrize("kind", ["", "leaf_node", "Leaf-Node", "parent"])
def test_a_wrong_inheritance_type_is_refused(kind: str) -> None:
    assert refusal(f'<acl inheritance-type="{kind}"/>') == (
        "bad-acl",
        f"inheritance-type={kind!r}; expected one of parent-overrides, child-overrides, "
        "and-both-permit, leaf-node",
    )


def test_another_element_in_an_acl_is_refused() -> None:
    assert refusal("<acl><user>joe</user></acl>") == (
        "bad-acl",
        "<user> inside <acl>; expected <principal>",
    )


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ('access="permit"', "no scope of a principal; expected user or group"),
        ('scope="user"', "no access of a principal; expected permit or deny"),
        (
            'scope="User" access="permit"',
            "scope='User' of a principal; expected user or group",
        ),
        ('scope="" access="permit"', "scope='' of a principal; expected user or group"),
        (
            'scope="user" access="allow"',
            "access='allow' of a principal; expected permit or deny",
        ),
        (
            f'{WHO} case-sensitivity-type="none"',
            "case-sensitivity-type='none' of a principal; "
            "expected everything-case-sensitive or everything-case-insensitive",
        ),
        (f'{WHO} principal-type="x"', "principal-type='x'; expected unqualified"),
    ],
)
def test_a_principal_of_whom_it_is_not_clear_what_he_may_is_refused(
    attributes: str, reason: str
) -> None:
    assert refusal_of_principal(attributes) == ("bad-acl", reason)


def test_an_element_in_a_principal_is_refused() -> None:
    assert refusal_of_principal(WHO, "joe<b/>") == (
        "bad-acl",
        "<b> inside <principal>; expected a name",
    )


def test_a_tag_is_named_without_its_namespace() -> None:
    assert tag_of(etree.fromstring('<x:note xmlns:x="urn:example:x"/>')) == "note"
