"""The record or the reject that one element of a gsafeed becomes; golden files have most cases."""

import io
from datetime import UTC, datetime
from functools import partial

import pytest

from feedferry.schemas.acl import Access, Principal, Scope
from feedferry.schemas.feed import Feed
from feedferry.schemas.record import Action, Arrival, Record
from feedferry.schemas.reject import Reject
from feedferry.schemas.span import ElementContext, Span
from feedferry.transforms.formats.base import ReadOptions
from feedferry.transforms.formats.gsa.record_reader import feed_context
from support.gsa_records import read_feed
from support.streams import read_both_ways

URL = "http://www.example.com/a"
JOE = Principal(name="joe", scope=Scope.USER, access=Access.PERMIT)
WHO = 'scope="user" access="permit"'
A_SCOPE, AN_ACCESS = "expected user or group", "expected permit or deny"


def read(
    markup: str, *, group: str = "", datasource: str = "docs", options: ReadOptions = ReadOptions()
) -> list[Record | Reject]:
    feed = (
        f"<gsafeed>\n<header><datasource>{datasource}</datasource><feedtype>full</feedtype>"
        f"</header>\n<group{group}>\n{markup}\n</group>\n</gsafeed>\n"
    )
    return read_both_ways(partial(read_feed, options=options), feed.encode())


def alone(markup: str, *, group: str = "", datasource: str = "docs", zone: str = "UTC") -> Record:
    options = ReadOptions(zone=zone)
    (record,) = read(markup, group=group, datasource=datasource, options=options)
    assert isinstance(record, Record), record
    return record


def record_of(
    attributes: str = "",
    inner: str = "",
    *,
    group: str = "",
    datasource: str = "docs",
    zone: str = "UTC",
) -> Record:
    markup = f'<record url="{URL}"{attributes}>{inner}</record>'
    return alone(markup, group=group, datasource=datasource, zone=zone)


def refusal(
    markup: str, *, group: str = "", options: ReadOptions = ReadOptions()
) -> tuple[str, str]:
    """Return the last reject: the group itself may be rejected before it."""
    reject = read(markup, group=group, options=options)[-1]
    assert isinstance(reject, Reject), reject
    return reject.code, reject.reason


# Action and arrival


@pytest.mark.parametrize(
    ("attributes", "inner", "datasource", "expected"),
    [
        ("", "", "docs", (Action.UPDATE, Arrival.PUSHED)),
        ("", "<content/>", "docs", (Action.ADD, Arrival.PUSHED)),
        ("", "", "web", (Action.ADD, Arrival.CRAWLED)),
        ("", "<content>text</content>", "web", (Action.ADD, Arrival.CRAWLED)),
        (' action="delete"', "", "docs", (Action.DELETE, None)),
        (' action="delete"', "<content>text</content>", "docs", (Action.DELETE, None)),
    ],
)
def test_content_and_feedtype_decide_action_and_arrival(
    attributes: str, inner: str, datasource: str, expected: tuple[Action, Arrival | None]
) -> None:
    record = record_of(attributes, inner, datasource=datasource)
    assert (record.action, record.arrival) == expected


@pytest.mark.parametrize(
    ("group", "own", "action"),
    [
        ("", ' action="add"', Action.ADD),
        (' action="add"', "", Action.ADD),
        (' action="add"', ' action="delete"', Action.DELETE),
        (' action="delete"', "", Action.DELETE),
        (' action="delete"', ' action="add"', Action.ADD),
        (' action="Delete"', ' action="delete"', Action.DELETE),
    ],
)
def test_a_record_has_its_own_action_or_that_of_its_group(
    group: str, own: str, action: Action
) -> None:
    assert record_of(own, "<content/>", group=group).action is action


@pytest.mark.parametrize(
    ("group", "before", "finding"),
    [
        (' action="Delete"', "", "a group with action='Delete'"),
        (' action="', "", "a group whose tag cannot be read"),
        (' action="add" action="add"', "", "a group whose tag cannot be read"),
        (' action="delete"', "<group></group>", "a group after the end of a group inside it"),
    ],
)
def test_a_record_without_action_is_refused_if_that_of_its_group_is_unknown(
    group: str, before: str, finding: str
) -> None:
    assert refusal(f'{before}<record url="{URL}"/>', group=group) == (
        "group-unreadable",
        f"a record in {finding}; expected an action of its own",
    )


def test_a_group_inside_a_group_is_its_successor() -> None:
    inside = f'<group><record url="{URL}"/></group>'
    after = f'<group></group><record url="{URL}" action="delete"/>'
    assert alone(inside, group=' action="delete"').action is Action.UPDATE
    assert alone(after).action is Action.DELETE


@pytest.mark.parametrize(
    ("text", "zone", "hour"),
    [
        ("Tue, 06 Nov 2007 12:45:26 GMT", "UTC", 12),
        ("2007-11-06T12:45:26.987Z", "UTC", 12),
        ("2007-11-06 12:45:26", "Europe/Zurich", 11),
    ],
)
def test_the_time_of_the_last_change_is_read_to_the_second(text: str, zone: str, hour: int) -> None:
    moment = datetime(2007, 11, 6, hour, 45, 26, tzinfo=UTC)
    assert record_of(f' last-modified="{text}"', zone=zone).modified == moment


@pytest.mark.parametrize(
    ("markup", "reason"),
    [
        *(
            (
                f'<acl inheritance-type="{kind}"/>',
                f"inheritance-type={kind!r}; expected one of parent-overrides, child-overrides, "
                "and-both-permit, leaf-node",
            )
            for kind in ("", "leaf_node", "Leaf-Node")
        ),
        ("<acl><user>joe</user></acl>", "<user> inside <acl>; expected <principal>"),
        *(
            (f"<acl><principal {attributes}>joe</principal></acl>", reason)
            for attributes, reason in (
                ('access="permit"', f"no scope of a principal; {A_SCOPE}"),
                ('scope="user"', f"no access of a principal; {AN_ACCESS}"),
                ('scope="User" access="permit"', f"scope='User' of a principal; {A_SCOPE}"),
                ('scope="user" access="allow"', f"access='allow' of a principal; {AN_ACCESS}"),
                (
                    f'{WHO} case-sensitivity-type="none"',
                    "case-sensitivity-type='none' of a principal; "
                    "expected everything-case-sensitive or everything-case-insensitive",
                ),
                (f'{WHO} principal-type="x"', "principal-type='x'; expected unqualified"),
            )
        ),
        (
            f"<acl><principal {WHO}>joe<x:b xmlns:x='urn:x'/></principal></acl>",
            "<b> inside <principal>; expected a name",
        ),
    ],
)
def test_an_acl_that_is_not_understood_is_refused(markup: str, reason: str) -> None:
    assert refusal(f'<record url="{URL}">{markup}</record>') == ("bad-acl", reason)


# How a feed was posted

BY_READER = {
    "parsed": f"<record url='{URL}' mimetype='text/plain'/>",
    "quick": f'<record url="{URL}"><content>a</content></record>',
    "bulk": f'<record url="{URL}"/>\n<record url="{URL}"/>\n<record url="{URL}"/>',
    "acl": f'<acl url="{URL}"/>',
}
"""Records that are read in different ways."""


@pytest.mark.parametrize("way", BY_READER)
@pytest.mark.parametrize(
    ("feed", "expected"),
    [
        (Feed(datasource="crm", feedtype="incremental"), ("crm", "incremental")),
        (Feed(datasource="crm", feedtype=""), ("crm", "full")),
        (None, ("docs", "full")),
    ],
)
def test_the_post_of_a_feed_has_precedence_over_its_header(
    way: str, feed: Feed | None, expected: tuple[str, str]
) -> None:
    markup = BY_READER[way]
    text = (
        "<gsafeed><header><datasource>docs</datasource><feedtype>full</feedtype></header>"
        f"<group>\n{markup}\n</group><group>{markup}</group></gsafeed>"
    )
    records = read_feed(io.BytesIO(text.encode()), span=Span(feed=feed))
    origins = [record.provenance for record in records if isinstance(record, Record)]
    assert {(origin.datasource, origin.feedtype) for origin in origins} == {expected}


def test_the_post_of_a_feed_decides_who_fetches_a_document() -> None:
    markup = f'<gsafeed><group><record url="{URL}"/></group></gsafeed>'
    span = Span(feed=Feed(datasource="crm", feedtype="metadata-and-url"))
    (record,) = read_feed(io.BytesIO(markup.encode()), span=span)
    assert isinstance(record, Record)
    assert (record.action, record.arrival) == (Action.ADD, Arrival.CRAWLED)


# Headers


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        (b"<header/>", (None, None)),
        (
            b"<header><datasource> a </datasource><feedtype>\nfull</feedtype></header>",
            ("a", "full"),
        ),
        (b"<header><datasource/><feedtype> </feedtype></header>", (None, None)),
        (b"<header><!-- --><datasource>a&amp;b</datasource></header>", ("a&b", None)),
        # Not well-formed
        (b"<header><datasource>web</datasource><feedtype>full", ("web", None)),
        (b"<header><datasource> web </datasource><feedtype>full</feedtype>", ("web", "full")),
        (b"<header><datasource>a&b</datasource><feedtype>full</feedtype>", (None, "full")),
    ],
)
def test_a_header_names_datasource_and_feedtype(
    markup: bytes, expected: tuple[str | None, str | None]
) -> None:
    context = feed_context(ElementContext(header=markup))
    assert (context.datasource, context.feedtype) == expected


def test_a_reject_states_the_feed_that_it_was_found_in() -> None:
    rejects = read(f'<record url="{URL}" action="ad"/>\n<stray/>', datasource="wiki")
    assert [
        (reject.code, reject.datasource, reject.feedtype)
        for reject in rejects
        if isinstance(reject, Reject)
    ] == [("bad-action", "wiki", "full"), ("stray", "wiki", "full")]
