"""One membership element, and every reason for which it is refused."""

import pytest
from lxml import etree

from schemas.acl import Scope
from schemas.errors import RecordError
from schemas.membership import Member, Membership
from schemas.record import Extra, Provenance
from schemas.reject import Reject
from schemas.span import ElementContext, Span
from transforms.formats.gsa.groups import MembershipBuilder, name_reject
from transforms.formats.xml.elements import ParsedElement
from transforms.formats.xml.raw_element import RawElement

KEY = '<principal scope="GROUP">staff</principal>'
JOE = '<principal scope="USER">joe</principal>'


def build(inner: str, attributes: str = "") -> Membership:
    markup = f"<membership{attributes}>{inner}</membership>".encode()
    unit = RawElement("membership", markup, 40, 3, True, ElementContext())
    builder = MembershipBuilder(Span(source="g.xml", ordinal=2))
    return builder.build(ParsedElement(etree.fromstring(markup), unit, None))


def member(attributes: str, name: str = "joe") -> Member:
    inner = f"<members><principal {attributes}>{name}</principal></members>"
    (found,) = build(KEY + inner).members
    return found


def refusal(inner: str) -> tuple[str, str]:
    with pytest.raises(RecordError) as caught:
        build(inner)
    return caught.value.code, caught.value.reason


def test_a_membership_is_a_group_and_its_members() -> None:
    assert build(f"{KEY}<members>{JOE}</members>", ' source="ldap"') == Membership(
        group=Member(name="staff", scope=Scope.GROUP),
        members=(Member(name="joe", scope=Scope.USER),),
        origin="ldap",
        provenance=Provenance(source="g.xml", span=2, line=3, offset=40),
    )


@pytest.mark.parametrize("members", ["", "<members/>", "<members> </members>"])
def test_a_group_may_have_no_members(members: str) -> None:
    assert build(KEY + members).members == ()


@pytest.mark.parametrize(
    ("value", "sensitive"),
    [
        ("EVERYTHING_CASE_SENSITIVE", True),
        ("EVERYTHING-CASE-SENSITIVE", True),
        ("everything-case-sensitive", True),
        ("EVERYTHING_CASE_INSENSITIVE", False),
        (" everything-case-insensitive ", False),
    ],
)
def test_case_sensitivity_is_read_in_any_spelling(value: str, sensitive: bool) -> None:
    found = member(f'scope="USER" case-sensitivity-type="{value}"')
    assert found.case_sensitive is sensitive


@pytest.mark.parametrize(
    ("value", "sensitive"),
    [("EVERYTHING_CASE_SENSITIVE", True), ("EVERYTHING_CASE_INSENSITIVE", None)],
)
def test_that_a_group_itself_is_case_insensitive_says_nothing(
    value: str, sensitive: bool | None
) -> None:
    key = f'<principal scope="GROUP" case-sensitivity-type="{value}">staff</principal>'
    assert build(key).group.case_sensitive is sensitive


def test_a_name_loses_the_white_space_around_it_and_no_other() -> None:
    assert member('scope="USER"', "\n\n a \u00a0b\u00a0\t").name == "a \u00a0b\u00a0"


def test_a_namespace_is_kept_as_it_stands() -> None:
    assert member('scope="USER" namespace=" a "').namespace == " a "


def test_unknown_attributes_are_kept_in_an_order_of_their_own() -> None:
    inner = f'<members z="1"><principal scope="USER" y="2">joe</principal></members>{KEY}'
    assert build(inner, ' x="3"').extras == (
        Extra("membership/@x", "3"),
        Extra("membership/members/@z", "1"),
        Extra("membership/members/principal[0]/@y", "2"),
    )


def test_an_unknown_element_is_kept() -> None:
    assert build(f"{KEY}<note>x</note>").extras == (Extra("membership/note", "<note>x</note>"),)


@pytest.mark.parametrize(
    ("inner", "reason"),
    [
        ("", "a membership without a principal; expected that of its group"),
        (
            KEY + JOE,
            "a second principal beside the members; expected one group: move it into them",
        ),
        (
            KEY + "<members/><members/>",
            "a second members element in a membership; expected one",
        ),
        (
            KEY + "<members><user/></members>",
            "<user> inside <members>; expected <principal>",
        ),
        (
            KEY + f"<x:Members xmlns:x='urn:x'>{JOE}</x:Members>",
            "<Members> around a principal; expected <members>",
        ),
        (
            KEY + "<members><principal scope='USER'>a<b/></principal></members>",
            "<b> inside <principal>; expected a name",
        ),
        (
            KEY + "<members><principal>joe</principal></members>",
            "no scope of 'joe'; expected USER or GROUP",
        ),
        (
            KEY + "<members><principal scope=''>joe</principal></members>",
            "scope='' of 'joe'; expected USER or GROUP",
        ),
        (
            KEY + "<members><principal scope='ROLE'>joe</principal></members>",
            "scope='ROLE' of 'joe'; expected USER or GROUP",
        ),
        (
            KEY + "<members><principal> </principal></members>",
            "a principal without a name; expected the name of a user or group",
        ),
        (
            KEY + "<members><principal scope='USER'/></members>",
            "a principal with scope='USER' and no name; expected the name of a user or group",
        ),
        (
            "<principal scope='GROUP' case-sensitivity-type='no'>staff</principal>",
            "case-sensitivity-type='no' of 'staff'; "
            "expected EVERYTHING_CASE_SENSITIVE or EVERYTHING_CASE_INSENSITIVE",
        ),
        (
            "<principal scope='GROUP' principal-type=''>staff</principal>",
            "principal-type='' of 'staff'; expected unqualified",
        ),
    ],
)
def test_a_membership_is_refused_whole(inner: str, reason: str) -> None:
    assert refusal(inner) == ("bad-membership", reason)


def test_a_user_with_members_is_refused() -> None:
    assert refusal(f"{JOE}<members>{KEY}</members>") == (
        "user-with-members",
        "the group 'joe' with scope='USER'; expected GROUP, for users cannot have members: "
        "correct its scope, or leave the membership out",
    )


@pytest.mark.parametrize(
    ("inner", "reason"),
    [
        (KEY + "text", "text inside <membership>; expected elements only"),
        (KEY + "<members>text</members>", "text inside <members>; expected elements only"),
    ],
)
def test_text_between_elements_is_refused(inner: str, reason: str) -> None:
    assert refusal(inner) == ("stray-text", reason)


# The name of a reject


def named(data: bytes) -> str | None:
    found = name_reject(Reject(code="x", reason="x", stage="read", data=data))
    return found.url


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b'<membership>\n<principal scope="GROUP">\nstaff\n</principal><x', "staff"),
        (b"<membership a='1'><principal>B\xc3\xa4r</principal>", "B\u00e4r"),
        (b"<membership><principal>B\xe4r</principal>", None),
        (b"<membership><principal> </principal>", None),
        (b"<membership><members><principal>joe</principal>", None),
        (b"text", None),
    ],
)
def test_a_reject_is_named_where_its_group_can_be_read(data: bytes, name: str | None) -> None:
    assert named(data) == name


def test_what_is_no_reject_is_left_alone() -> None:
    found = build(KEY)
    assert name_reject(found) is found
