"""The record or the reject that one element of a gsafeed becomes."""

import base64
import io
from datetime import UTC, datetime
from functools import partial

import pytest
from msgspec.structs import replace

from schemas.acl import Access, Acl, Inheritance, Principal, Scope
from schemas.feed import Feed
from schemas.record import (
    Action,
    Arrival,
    Authmethod,
    Content,
    Crawl,
    Encoding,
    Extra,
    Meta,
    Provenance,
    Record,
    Scoring,
)
from schemas.reject import Reject
from schemas.span import Span
from support.streams import read_both_ways
from transforms.formats.base import ReadOptions
from transforms.formats.gsa import feed as gsa_feed

URL = "http://www.example.com/a"
JOE = Principal(name="joe", scope=Scope.USER, access=Access.PERMIT)
WHO = 'scope="user" access="permit"'


def read(
    markup: str, *, group: str = "", datasource: str = "docs", options: ReadOptions = ReadOptions()
) -> list[Record | Reject]:
    feed = (
        f"<gsafeed>\n<header><datasource>{datasource}</datasource><feedtype>full</feedtype>"
        f"</header>\n<group{group}>\n{markup}\n</group>\n</gsafeed>\n"
    )
    return read_both_ways(partial(gsa_feed.read, options=options), feed.encode())


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


@pytest.mark.parametrize("action", ["ad", "Delete", "", " add", "delete-pattern"])
def test_a_wrong_action_is_refused(action: str) -> None:
    assert refusal(f'<record url="{URL}" action="{action}"/>') == (
        "bad-action",
        f"action={action!r}; expected add or delete",
    )


@pytest.mark.parametrize(
    ("group", "before", "found"),
    [
        (' action="Delete"', "", "a group with action='Delete'"),
        (' action="', "", "a group whose tag cannot be read"),
        (' action="add" action="add"', "", "a group whose tag cannot be read"),
        (
            ' action="delete"',
            "<group></group>",
            "a group behind the end of a group inside it",
        ),
    ],
)
def test_a_record_without_action_is_refused_if_that_of_its_group_is_unknown(
    group: str, before: str, found: str
) -> None:
    assert refusal(f'{before}<record url="{URL}"/>', group=group) == (
        "group-unreadable",
        f"a record in {found}; expected an action of its own",
    )


def test_a_group_inside_a_group_is_its_successor() -> None:
    inside = f'<group><record url="{URL}"/></group>'
    after = f'<group></group><record url="{URL}" action="delete"/>'
    assert alone(inside, group=' action="delete"').action is Action.UPDATE
    assert alone(after).action is Action.DELETE


# Attributes


@pytest.mark.parametrize(
    ("group", "own", "crawl"),
    [
        (' pagerank="90"', "", Crawl(pagerank=90)),
        (' pagerank="90"', ' pagerank="80"', Crawl(pagerank=80)),
        (' feedrank="5"', ' feedrank="6"', Crawl(feedrank=6)),
        (' pagerank="90" feedrank="5"', ' pagerank="80"', Crawl(pagerank=80, feedrank=5)),
        ("", ' lock="true"', Crawl(lock=True)),
        ("", ' lock="false"', Crawl(lock=False)),
        ("", ' crawl-immediately="true"', Crawl(crawl_immediately=True)),
        ("", ' crawl-once="false"', Crawl(crawl_once=False)),
        ("", ' authmethod="none"', Crawl(authmethod=Authmethod.NONE)),
        ("", ' authmethod="negotiate"', Crawl(authmethod=Authmethod.NEGOTIATE)),
        ("", ' pagerank=" 099 "', Crawl(pagerank=99)),
        ("", ' feedrank="0"', Crawl(feedrank=0)),
        ("", ' pagerank="999999999"', Crawl(pagerank=999_999_999)),
        ("", ' scoring="content"', Crawl(scoring=Scoring.CONTENT)),
        ("", ' displayurl="http://e.com/"', Crawl(display_url="http://e.com/")),
        ("", ' displayurl=""', Crawl(display_url="")),
    ],
)
def test_a_hint_is_read(group: str, own: str, crawl: Crawl) -> None:
    assert record_of(own, group=group).crawl == crawl


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lock", "True"),
        ("crawl-immediately", "1"),
        ("crawl-once", ""),
        ("authmethod", "kerberos"),
        ("pagerank", "-1"),
        ("pagerank", "\u0663"),
        ("feedrank", "1000000000"),
        ("scoring", "Web"),
        ("last-modified", "yesterday"),
        ("foo", "bar"),
    ],
)
def test_an_attribute_that_is_not_understood_is_kept(name: str, value: str) -> None:
    record = record_of(f' {name}="{value}"')
    assert (record.crawl, record.modified) == (None, None)
    assert record.extras == (Extra(f"record/@{name}", value),)


@pytest.mark.parametrize(
    ("group", "attributes", "inner", "extras"),
    [
        (' pagerank="high"', "", "", {"record/@pagerank": "high"}),
        (' a="1" b="2"', "", "", {"group/@a": "1", "group/@b": "2"}),
        ("", ' b="2" a="1"', "", {"record/@a": "1", "record/@b": "2"}),
        ("", ' xmlns:x="urn:x" x:lock="1"', "", {"record/@{urn:x}lock": "1"}),
        ("", "", '<metadata overwrite-acls="no"/>', {"record/metadata/@overwrite-acls": "no"}),
        ("", "", '<metadata><note a="1"/></metadata>', {"record/metadata/note": '<note a="1"/>'}),
        (
            "",
            "",
            '<metadata><meta name="a" content=""/><meta name="a" content="" b="c"/></metadata>',
            {"record/metadata/meta[1]/@b": "c"},
        ),
        ("", "", '<content foo="bar">a</content>', {"record/content/@foo": "bar"}),
        ("", "", "<content/><content>b</content>", {"record/content": "<content>b</content>"}),
        (
            "",
            "",
            '<note a="1">b &amp; <i>c</i></note>',
            {"record/note": '<note a="1">b &amp; <i>c</i></note>'},
        ),
        (
            "",
            "",
            f'<acl a="1"><principal {WHO} b="2">joe</principal></acl>',
            {
                "record/acl/@a": "1",
                "record/acl/principal[0]/@b": "2",
            },
        ),
    ],
)
def test_unknown_markup_is_kept_by_its_place(
    group: str, attributes: str, inner: str, extras: dict[str, str]
) -> None:
    expected = tuple(Extra(place, value) for place, value in extras.items())
    assert record_of(attributes, inner, group=group).extras == expected


@pytest.mark.parametrize("url", ["", ' url=""', ' url=" &#9; "'])
def test_a_record_without_a_url_is_refused(url: str) -> None:
    assert refusal(f"<record{url}/>") == (
        "url-missing",
        "a record without a url; expected the url of its document",
    )


def test_a_url_is_kept_as_it_is() -> None:
    assert alone('<record url=" http://e.com/?a&amp;b "/>').url == " http://e.com/?a&b "


@pytest.mark.parametrize(("stated", "mimetype"), [(' mimetype=""', None), (' mimetype=" "', " ")])
def test_an_empty_mimetype_is_not_stated(stated: str, mimetype: str | None) -> None:
    assert record_of(stated).mimetype == mimetype


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


# Metadata


def test_metadata_keep_their_order_and_their_duplicates() -> None:
    inner = (
        '<metadata><meta name="b" content="1"/><meta name="a" content="2"/></metadata>'
        '<content>c</content><metadata><meta name="b" content="1"/><meta content="" name=""/>'
        '</metadata><metadata overwrite-acls="false"/>'
    )
    record = record_of("", inner)
    assert record.metadata == (Meta("b", "1"), Meta("a", "2"), Meta("b", "1"), Meta("", ""))
    assert (record.content, record.overwrite_acls) == (Content(b"c"), False)


@pytest.mark.parametrize(
    ("name", "content", "meta"),
    [
        ("YQ==", "Yg==", Meta("a", "b")),
        ("YQ", " Y g ", Meta("a", "b")),
        ("YQ==", "AQI=", Meta("a", "\x01\x02")),
        ("w7w=", "/w==", Meta("ü", "", b"\xff")),
        ("", "", Meta("", "")),
    ],
)
def test_metadata_in_base64_are_decoded(name: str, content: str, meta: Meta) -> None:
    inner = f'<meta encoding="base64binary" name="{name}" content="{content}"/>'
    assert record_of("", f"<metadata>{inner}</metadata>").metadata == (meta,)


# Content


@pytest.mark.parametrize(
    ("markup", "content"),
    [
        ("<content/>", Content(b"")),
        ("<content> a &lt; b\r\n </content>", Content(b" a < b\n ")),
        ("<content>a<![CDATA[<b>]]>c</content>", Content(b"a<b>c")),
        ("<content>a<!-- b -->c</content>", Content(b"ac")),
        (
            '<content encoding="base64binary">\n Y\nQ </content>',
            Content(b"YQ==", Encoding.BASE64),
        ),
        (
            '<content encoding="base64binary"><![CDATA[YQ==]]></content>',
            Content(b"YQ==", Encoding.BASE64),
        ),
        (
            '<content encoding="base64compressed">eJxLBAAAYgBi</content>',
            Content(b"eJxLBAAAYgBi", Encoding.ZLIB_BASE64),
        ),
        (
            f'<!-- <content encoding="base64binary">{"A" * 600}</content> --><content>a</content>',
            Content(b"a"),
        ),
    ],
)
def test_content_is_kept_in_its_encoding(markup: str, content: Content) -> None:
    assert record_of("", markup).content == content


@pytest.mark.parametrize("quote", ['"', "'"])
def test_a_long_payload_is_passed_on_unchanged(quote: str) -> None:
    payload = base64.b64encode(bytes(range(256)) * 4)
    start = f"<content encoding={quote}base64binary{quote}>"
    content = record_of("", f"{start}{payload.decode()}</content>").content
    assert content == Content(payload, Encoding.BASE64)


def test_content_beyond_the_limit_is_refused() -> None:
    markup = f'<record url="{URL}"><content>abcd</content></record>'
    assert refusal(markup, options=ReadOptions(max_content_bytes=3)) == (
        "content-too-large",
        "4 bytes; expected at most 3 bytes; raise --max-content-bytes to read it",
    )


# Refused children


@pytest.mark.parametrize(
    ("inner", "code", "reason"),
    [
        (
            '<metadata><meta name="a"/></metadata>',
            "bad-meta",
            "a meta with name only; expected name and content",
        ),
        (
            '<metadata><meta content="a"/></metadata>',
            "bad-meta",
            "a meta with content only; expected name and content",
        ),
        (
            "<metadata><meta/></metadata>",
            "bad-meta",
            "a meta without both; expected name and content",
        ),
        (
            '<metadata><meta name="a" content="b" encoding="gzip"/></metadata>',
            "bad-meta",
            "encoding='gzip' of a meta; expected base64binary",
        ),
        (
            '<metadata><meta name="/w==" content="" encoding="base64binary"/></metadata>',
            "bad-meta",
            "a name that is not UTF-8; expected text",
        ),
        (
            '<metadata><meta name="a*" content="" encoding="base64binary"/></metadata>',
            "bad-base64",
            "2 bytes that are no base64; expected base64",
        ),
        (
            '<content encoding="base64binary">a*</content>',
            "bad-base64",
            "2 bytes that are no base64; expected base64",
        ),
        (
            '<content encoding="gzip">a</content>',
            "bad-encoding",
            "encoding='gzip' of a content; expected base64binary, base64compressed or no encoding",
        ),
        (
            "<content>a <b>c</b></content>",
            "content-with-elements",
            "<b> inside <content>; expected text: escape it or use CDATA",
        ),
        ("<acl/><acl/>", "bad-acl", "a second acl in a record; expected one"),
        ("<content/>stray", "stray-text", "text inside <record>; expected elements only"),
        ("stray<content/>", "stray-text", "text inside <record>; expected elements only"),
        (
            '<metadata><meta name="a" content="b"/>stray</metadata>',
            "stray-text",
            "text inside <metadata>; expected elements only",
        ),
        ("<acl>stray</acl>", "stray-text", "text inside <acl>; expected elements only"),
        ("<acl/>stray<content/>", "stray-text", "text inside <record>; expected elements only"),
    ],
)
def test_a_child_that_is_not_understood_is_refused(inner: str, code: str, reason: str) -> None:
    assert refusal(f'<record url="{URL}">{inner}</record>') == (code, reason)


# ACLs


@pytest.mark.parametrize(
    ("attributes", "acl"),
    [
        ("", Acl()),
        (' inheritance-type="parent-overrides"', Acl(inheritance=Inheritance.PARENT_OVERRIDES)),
        (' inheritance-type="child-overrides"', Acl(inheritance=Inheritance.CHILD_OVERRIDES)),
        (' inheritance-type="and-both-permit"', Acl(inheritance=Inheritance.AND_BOTH_PERMIT)),
        (' inheritance-type="leaf-node"', Acl(inheritance=Inheritance.LEAF_NODE)),
        (' inherit-from="http://e.com/?a=b&amp;c"', Acl(inherit_from="http://e.com/?a=b&c")),
    ],
)
def test_the_inheritance_of_an_acl_is_read(attributes: str, acl: Acl) -> None:
    assert record_of("", f"<acl{attributes}/>").acl == acl


@pytest.mark.parametrize(
    ("attributes", "name", "principal"),
    [
        (WHO, "joe", JOE),
        ('scope="group" access="deny"', "joe", replace(JOE, scope=Scope.GROUP, access=Access.DENY)),
        (f'{WHO} namespace="Default"', "joe", replace(JOE, namespace="Default")),
        (f'{WHO} namespace=""', "joe", replace(JOE, namespace="")),
        (
            f'{WHO} case-sensitivity-type="everything-case-sensitive"',
            "joe",
            replace(JOE, case_sensitive=True),
        ),
        (
            f'{WHO} case-sensitivity-type="everything-case-insensitive"',
            "joe",
            replace(JOE, case_sensitive=False),
        ),
        (f'{WHO} principal-type="unqualified"', "joe", replace(JOE, unqualified=True)),
        (WHO, "", replace(JOE, name="")),
        (WHO, " EXAMPLE\\ü ", replace(JOE, name=" EXAMPLE\\ü ")),
    ],
)
def test_a_principal_is_read(attributes: str, name: str, principal: Principal) -> None:
    markup = f"<principal {attributes}>{name}</principal>"
    assert record_of("", f"<acl>{markup}{markup}</acl>").acl == Acl(principals=(principal,) * 2)


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
                ('access="permit"', "no scope of a principal; expected user or group"),
                ('scope="user"', "no access of a principal; expected permit or deny"),
                (
                    'scope="User" access="permit"',
                    "scope='User' of a principal; expected user or group",
                ),
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


def test_legacy_metadata_of_a_record_is_its_acl() -> None:
    inner = (
        '<metadata><meta name="google:aclusers" content="joe=writer"/>'
        '<meta name="author" content="jim"/>'
        '<meta name="google:aclinheritfrom" content="http://www.example.com/"/></metadata>'
    )
    record = record_of("", inner)
    assert record.metadata == (Meta("author", "jim"),)
    assert record.acl == Acl(inherit_from="http://www.example.com/", principals=(JOE,))


def test_legacy_metadata_with_an_acl_stays_metadata() -> None:
    inner = '<acl/><metadata><meta name="google:aclusers" content="joe"/></metadata>'
    record = record_of("", inner)
    assert (record.acl, record.metadata) == (Acl(), (Meta("google:aclusers", "joe"),))


@pytest.mark.parametrize(
    ("group", "action"),
    [("", Action.UPDATE), (' action="add"', Action.UPDATE), (' action="delete"', Action.DELETE)],
)
def test_an_acl_in_a_group_is_a_record_with_nothing_else(group: str, action: Action) -> None:
    group += ' b="2" pagerank="3"'
    record = alone(f'<acl url="{URL}" a="1"/>', group=group)
    assert replace(record, provenance=Provenance()) == Record(
        url=URL,
        action=action,
        acl=Acl(alone=True),
        extras=(Extra("group/@b", "2"), Extra("acl/@a", "1")),
        provenance=Provenance(),
    )


@pytest.mark.parametrize("url", ["", ' url=""', ' url=" "'])
def test_an_acl_in_a_group_without_a_url_is_refused(url: str) -> None:
    assert refusal(f"<acl{url}/>") == (
        "acl-without-url",
        "an acl in a group without a url; expected the url that it is for",
    )


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
    records = gsa_feed.read(io.BytesIO(text.encode()), span=Span(feed=feed))
    origins = [one.provenance for one in records if isinstance(one, Record)]
    assert {(origin.datasource, origin.feedtype) for origin in origins} == {expected}


def test_the_post_of_a_feed_decides_who_fetches_a_document() -> None:
    markup = f'<gsafeed><group><record url="{URL}"/></group></gsafeed>'
    span = Span(feed=Feed(datasource="crm", feedtype="metadata-and-url"))
    (record,) = gsa_feed.read(io.BytesIO(markup.encode()), span=span)
    assert isinstance(record, Record)
    assert (record.action, record.arrival) == (Action.ADD, Arrival.CRAWLED)
