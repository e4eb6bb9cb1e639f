"""Groups feeds, there and back, and what is made of the broken."""

import io
from importlib.resources import files

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree
from msgspec.structs import replace

from feedferry.schemas.acl import Scope
from feedferry.schemas.errors import FormatError, RecordError
from feedferry.schemas.feed import Feed, FeedHeader
from feedferry.schemas.membership import Member, Membership
from feedferry.schemas.record import Action, Extra, Provenance, Record
from feedferry.schemas.reject import Reject
from feedferry.schemas.span import Span
from feedferry.testing.strategies import held_memberships, memberships
from feedferry.transforms.formats import GSA_GROUPS, ReadResult, WriteOptions, write_all
from support.streams import read_both_ways

ENCODER = GSA_GROUPS.make_encoder(WriteOptions())
PROLOG = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n'
    b'<!DOCTYPE xmlgroups PUBLIC "-//Google//DTD GSA Feeds//EN" "">\n'
    b"<xmlgroups>\n"
)
STAFF = Member(name="staff", scope=Scope.GROUP, namespace="Default")
JOE = Member(name="joe", scope=Scope.USER, namespace="ad", case_sensitive=False)
SUB = Member(name="sub", scope=Scope.GROUP, case_sensitive=True, unqualified=True)
FIRST = b'<membership><principal scope="GROUP">1</principal></membership>\n'
LAST = (
    b'<membership><!-- <membership> --><principal scope="GROUP">9</principal><members>'
    b'<principal scope="USER"><![CDATA[<membership>]]></principal></members></membership>\n'
)
FEED = PROLOG + FIRST + LAST + b"</xmlgroups>\n"
BOTH = ["1", "9"]


def membership(*members: Member, group: Member = STAFF, **more: object) -> Membership:
    return replace(Membership(group=group, members=members), **more)


def written(*results: Membership) -> bytes:
    stream = io.BytesIO()
    write_all(ENCODER, results, stream)
    return stream.getvalue()


def read(markup: bytes) -> list[ReadResult]:
    return [
        request
        for request in read_both_ways(GSA_GROUPS.read, markup)
        if not isinstance(request, FeedHeader)
    ]


def placeless(results: list[ReadResult]) -> list[ReadResult]:
    return [
        replace(item, provenance=Provenance()) if isinstance(item, Membership) else item
        for item in results
    ]


def groups(results: list[ReadResult]) -> list[str]:
    return [item.group.name for item in results if isinstance(item, Membership)]


def groups_if_any(markup: bytes) -> list[str]:
    try:
        return groups(read(markup))
    except FormatError:
        return []


def between(stretch: bytes) -> list[ReadResult]:
    return read(PROLOG + FIRST + stretch + LAST + b"</xmlgroups>\n")


def refusal(item: Membership | Record) -> tuple[str, str]:
    with pytest.raises(RecordError) as caught:
        ENCODER.encode(item)
    return caught.value.code, caught.value.reason


def is_valid(markup: bytes) -> bool:
    with files("feedferry.schemas").joinpath("xmlgroups.dtd").open("rb") as stream:
        return etree.DTD(stream).validate(etree.fromstring(markup))


# There and back


@given(st.lists(held_memberships(), max_size=3))
def test_memberships_are_read_back_as_they_were(results: list[Membership]) -> None:
    assert placeless(read(written(*results))) == results


@given(memberships())
def test_any_membership_is_written_well_formed_or_refused(item: Membership) -> None:
    try:
        markup = ENCODER.encode(item)
    except RecordError:
        return
    assert etree.fromstring(markup).tag == "membership"


# What is written


def test_a_membership_is_written_as_deployed_programs_do() -> None:
    assert written(membership(JOE, SUB)) == PROLOG + (
        b"<membership>\n"
        b'<principal namespace="Default" scope="GROUP">staff</principal>\n'
        b"<members>\n"
        b'<principal case-sensitivity-type="EVERYTHING_CASE_INSENSITIVE" namespace="ad"'
        b' scope="USER">joe</principal>\n'
        b'<principal case-sensitivity-type="EVERYTHING_CASE_SENSITIVE"'
        b' principal-type="unqualified" scope="GROUP">sub</principal>\n'
        b"</members>\n"
        b"</membership>\n"
        b"</xmlgroups>\n"
    )


@pytest.mark.parametrize(
    ("item", "inner"),
    [
        (
            membership(origin="ldap"),
            b' source="ldap">\n<principal namespace="Default" scope="GROUP">staff</principal>\n'
            b"<members/>\n",
        ),
        (
            membership(group=replace(STAFF, case_sensitive=True)),
            b'>\n<principal case-sensitivity-type="EVERYTHING_CASE_SENSITIVE" namespace="Default"'
            b' scope="GROUP">staff</principal>\n<members/>\n',
        ),
        (
            membership(
                Member(name=" \tjoe  smith\r\n", scope=Scope.USER),
                group=replace(STAFF, case_sensitive=False),
            ),
            b'>\n<principal namespace="Default" scope="GROUP">staff</principal>\n'
            b'<members>\n<principal scope="USER">joe  smith</principal>\n</members>\n',
        ),
    ],
)
def test_only_stated_values_are_written(item: Membership, inner: bytes) -> None:
    assert ENCODER.encode(item) == b"<membership" + inner + b"</membership>\n"


def test_extras_go_where_they_came_from() -> None:
    extras = (
        Extra("membership/@a", "1"),
        Extra("membership/foo", "<foo/>"),
        Extra("membership/members/@b", "2"),
        Extra("membership/members/principal[0]/@c", "3"),
        Extra("membership/principal/@d", "4"),
    )
    joe = Member(name="joe", scope=Scope.USER)
    assert ENCODER.encode(membership(joe, extras=extras)) == (
        b'<membership a="1">\n'
        b'<principal namespace="Default" scope="GROUP" d="4">staff</principal>\n'
        b'<members b="2">\n'
        b'<principal scope="USER" c="3">joe</principal>\n'
        b"</members>\n"
        b"<foo/>\n"
        b"</membership>\n"
    )


@given(st.lists(held_memberships().filter(lambda item: bool(item.members)), min_size=1, max_size=3))
def test_what_is_written_is_valid(results: list[Membership]) -> None:
    assert is_valid(written(*[replace(item, extras=()) for item in results]))


# What is refused


USER_WITH_MEMBERS = (
    "the group 'joe' with scope='USER'; expected GROUP, for users cannot have members: "
    "correct its scope, or leave the membership out"
)
XML_TEXT = "expected characters that XML can hold"
NO_NAME = "a principal with scope='USER' and no name; expected the name of a user or group"


@pytest.mark.parametrize(
    ("item", "code", "reason"),
    [
        (membership(group=JOE), "user-with-members", USER_WITH_MEMBERS),
        (membership(Member(name=" \n", scope=Scope.USER)), "bad-membership", NO_NAME),
        *(
            (membership(replace(JOE, **stated)), "not-xml", f"{finding}; {XML_TEXT}")
            for stated, finding in (
                ({"name": "a\x00b"}, "principal 'a\\x00b'"),
                ({"namespace": "\ufffe"}, "namespace='\\ufffe'"),
                ({"name": "a\udc80"}, "principal 'a\\udc80'"),
            )
        ),
        (
            Record(url="http://x/", action=Action.ADD),
            "not-a-membership",
            "a record of 'http://x/'; expected a group and its members",
        ),
    ],
)
def test_a_membership_that_no_feed_can_hold_is_refused(
    item: Membership | Record, code: str, reason: str
) -> None:
    assert refusal(item) == (code, reason)


def test_an_extra_that_is_no_markup_is_refused() -> None:
    item = membership(extras=(Extra("membership/foo", "</membership><membership>"),))
    assert refusal(item)[0] == "malformed"


# Reading one membership

KEY = '<principal scope="GROUP">staff</principal>'
USER = '<principal scope="USER">joe</principal>'


def build(inner: str, attributes: str = "") -> Membership | Reject:
    (result,) = read(
        f"<xmlgroups><membership{attributes}>{inner}</membership></xmlgroups>".encode()
    )
    assert isinstance(result, Membership | Reject)
    return result


@pytest.mark.parametrize(
    ("value", "sensitive"),
    [("EVERYTHING_CASE_SENSITIVE", True), ("EVERYTHING_CASE_INSENSITIVE", None)],
)
def test_the_case_insensitivity_of_a_group_itself_is_dropped(
    value: str, sensitive: bool | None
) -> None:
    item = build(f'<principal scope="GROUP" case-sensitivity-type="{value}">staff</principal>')
    assert isinstance(item, Membership)
    assert item.group.case_sensitive is sensitive
    assert value.encode() in ENCODER.encode(item) or sensitive is None


# Damage and hostile input


def test_a_feed_torn_at_any_byte_gives_its_first_memberships() -> None:
    for length in range(len(FEED)):
        results = groups_if_any(FEED[:length])
        assert results == BOTH[: len(results)], length


def test_a_feed_without_one_of_its_bytes_raises_nothing_foreign() -> None:
    for at in range(len(FEED)):
        assert len(groups_if_any(FEED[:at] + FEED[at + 1 :])) <= 2, at


@settings(deadline=None)
@given(st.binary(max_size=80))
def test_bytes_by_chance_in_a_name_take_no_other_membership_with_them(stretch: bytes) -> None:
    name = stretch.replace(b"<", b"")
    results = between(
        b'<membership><principal scope="GROUP">5' + name + b"</principal></membership>\n"
    )
    assert [group for group in groups(results) if not group.startswith("5")] == BOTH


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(held_memberships(), st.data())
def test_a_membership_that_lost_a_byte_takes_no_other_with_it(
    item: Membership, data: st.DataObject
) -> None:
    encoded = ENCODER.encode(item)
    at = data.draw(st.integers(1, len(encoded) - len("</membership>\n") - 1))
    names = groups(between(encoded[:at] + encoded[at + 1 :]))
    assert (names[0], names[-1]) == ("1", "9")


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(held_memberships(), st.data())
def test_a_membership_that_lost_a_tag_is_read_as_it_was_or_not_at_all(
    item: Membership, data: st.DataObject
) -> None:
    whole = replace(item, extras=())
    encoded = ENCODER.encode(whole)
    at = data.draw(st.sampled_from([n for n, byte in enumerate(encoded) if byte == ord("<")]))
    damaged = encoded[:at] + encoded[encoded.index(b">", at) + 1 :]
    _, *others, _ = [
        result for result in placeless(between(damaged)) if isinstance(result, Membership)
    ]
    assert others in ([], [whole])


@pytest.mark.slow
def test_a_group_of_a_hundred_thousand_members_is_read() -> None:
    many = membership(*[Member(name=str(n), scope=Scope.USER) for n in range(100_000)])
    (result,) = placeless(read(written(many)))
    assert result == many


# Spans


@settings(deadline=None)
@given(st.lists(held_memberships(), max_size=5), st.integers(1, 500))
def test_spans_read_as_the_whole_does(results: list[Membership], span_bytes: int) -> None:
    feed = written(*results)
    spans = list(GSA_GROUPS.split(io.BytesIO(feed), source="", span_bytes=span_bytes))
    ends = [None if span.length is None else span.offset + span.length for span in spans]
    in_spans = [
        item
        for span, end in zip(spans, ends, strict=True)
        for item in GSA_GROUPS.read(io.BytesIO(feed[span.offset : end]), span=span)
    ]
    assert [item for item in placeless(in_spans) if isinstance(item, Membership)] == results


def test_a_feed_is_cut_between_memberships() -> None:
    spans = GSA_GROUPS.split(io.BytesIO(FEED), source="g.xml", span_bytes=100)
    assert [(span.ordinal, span.offset, span.length, span.line) for span in spans] == [
        (0, 0, 113, 1),
        (1, 113, None, 4),
    ]


def test_groups_know_what_they_were_posted_as() -> None:
    span = Span(source="spool#1", feed=Feed(datasource="ldap", feedtype="full"))
    origins = [
        (item.provenance.datasource, item.provenance.feedtype)
        for item in GSA_GROUPS.read(io.BytesIO(FEED), span=span)
        if isinstance(item, Membership)
    ]
    assert origins == [("ldap", "full"), ("ldap", "full")]
