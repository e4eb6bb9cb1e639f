"""What one element of a gsafeed becomes, and why some become nothing."""

import base64
import io
from datetime import UTC, datetime
from functools import partial

import pytest

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
    Record,
    Scoring,
)
from schemas.reject import Reject
from schemas.span import Span
from support.streams import read_both_ways
from transforms.formats.base import ReadOptions
from transforms.formats.gsa import feed as gsa_feed

URL = "http://www.example.com/a"


def read(
    markup: str, *, group: str = "", datasource: str = "docs", options: ReadOptions | None = None
) -> list[Record | Reject]:
    """What is read of `markup` in a group with these attributes."""
    feed = (
        f"<gsafeed>\n<header><datasource>{datasource}</datasource><feedtype>full</feedtype>"
        f"</header>\n<group{group}>\n{markup}\n</group>\n</gsafeed>\n"
    )
    read = partial(gsa_feed.read, options=options or ReadOptions())
    return read_both_ways(read, feed.encode())


def record_of(
    attributes: str = "",
    inner: str = "",
    *,
    group: str = "",
    datasource: str = "docs",
    zone: str = "UTC",
) -> Record:
    """The record of an element with a url, more attributes and `inner`."""
    markup = f'<record url="{URL}"{attributes}>{inner}</record>'
    found = read(markup, group=group, datasource=datasource, options=ReadOptions(zone=zone))
    (record,) = found
    assert isinstance(record, Record), record
    return record


def alone(markup: str, *, group: str = "") -> Record:
    (record,) = read(markup, group=group)
    assert isinstance(record, Record), record
    return record


def refusal(markup: str, *, group: str = "", options: ReadOptions | None = None) -> tuple[str, str]:
    (reject,) = read(markup, group=group, options=options)
    assert isinstance(reject, Reject), reject
    return reject.code, reject.reason


def refusal_of(inner: str) -> tuple[str, str]:
    return refusal(f'<record url="{URL}">{inner}</record>')


# Action and arrival


def test_a_record_with_content_is_added() -> None:
    assert record_of("", "<content/>").action is Action.ADD


def test_a_record_without_content_is_an_update() -> None:
    assert record_of().action is Action.UPDATE


def test_a_record_of_a_web_feed_is_added_without_content() -> None:
    assert record_of(datasource="web").action is Action.ADD


@pytest.mark.parametrize("content", ["", "<content>text</content>"])
def test_a_record_of_a_web_feed_is_crawled(content: str) -> None:
    assert record_of("", content, datasource="web").arrival is Arrival.CRAWLED


@pytest.mark.parametrize("content", ["", "<content>text</content>"])
def test_a_record_of_a_content_feed_is_pushed(content: str) -> None:
    assert record_of("", content).arrival is Arrival.PUSHED


@pytest.mark.parametrize("content", ["", "<content>text</content>"])
def test_a_deletion_is_one_with_content_too(content: str) -> None:
    record = record_of(' action="delete"', content)
    assert (record.action, record.arrival) == (Action.DELETE, None)


@pytest.mark.parametrize(
    ("group", "own", "action"),
    [
        ("", "", Action.ADD),
        ("", ' action="add"', Action.ADD),
        ("", ' action="delete"', Action.DELETE),
        (' action="add"', "", Action.ADD),
        (' action="add"', ' action="delete"', Action.DELETE),
        (' action="delete"', "", Action.DELETE),
        (' action="delete"', ' action="add"', Action.ADD),
        (' action="delete"', ' action="delete"', Action.DELETE),
        (' action="Delete"', ' action="delete"', Action.DELETE),
    ],
)
def test_a_record_has_its_own_action_or_that_of_its_group(
    group: str, own: str, action: Action
) -> None:
    assert record_of(own, "<content/>", group=group).action is action


@pytest.mark.parametrize("action", ["ad", "Delete", "", " add", "delete-pattern", "0"])
def test_a_wrong_action_is_refused(action: str) -> None:
    assert refusal(f'<record url="{URL}" action="{action}"/>') == (
        "bad-action",
        f"action={action!r}; expected add or delete",
    )


@pytest.mark.parametrize(
    ("group", "found"),
    [
        (' action="Delete"', "a group with action='Delete'"),
        (' action=""', "a group with action=''"),
        (' action="', "a group whose tag cannot be read"),
        (' action="add" action="add"', "a group whose tag cannot be read"),
    ],
)
def test_a_record_without_action_is_refused_where_that_of_its_group_is_unknown(
    group: str, found: str
) -> None:
    assert refusal_in_last(f'<record url="{URL}"/>', group=group) == (
        "group-unreadable",
        f"a record in {found}; expected an action of its own",
    )


def refusal_in_last(markup: str, *, group: str) -> tuple[str, str]:
    """The last reject: that of the group itself may come before."""
    reject = read(markup, group=group)[-1]
    assert isinstance(reject, Reject), reject
    return reject.code, reject.reason


def test_a_group_inside_a_group_is_its_successor() -> None:
    markup = f'<group><record url="{URL}"/></group>'
    assert alone(markup, group=' action="delete"').action is Action.UPDATE


def test_a_record_behind_a_group_inside_a_group_is_refused_without_an_action() -> None:
    assert refusal(f'<group></group><record url="{URL}"/>', group=' action="delete"') == (
        "group-unreadable",
        "a record in a group behind the end of a group inside it; expected an action of its own",
    )


def test_a_record_behind_a_group_inside_a_group_has_its_own_action() -> None:
    markup = f'<group></group><record url="{URL}" action="delete"/>'
    assert alone(markup).action is Action.DELETE


# Ranks of the group


@pytest.mark.parametrize(
    ("group", "own", "crawl"),
    [
        ("", "", None),
        (' pagerank="90"', "", Crawl(pagerank=90)),
        (' feedrank="5"', "", Crawl(feedrank=5)),
        (' pagerank="90"', ' pagerank="80"', Crawl(pagerank=80)),
        (' feedrank="5"', ' feedrank="6"', Crawl(feedrank=6)),
        (' pagerank="90" feedrank="5"', ' pagerank="80"', Crawl(pagerank=80, feedrank=5)),
    ],
)
def test_a_record_has_its_own_ranks_or_those_of_its_group(
    group: str, own: str, crawl: Crawl | None
) -> None:
    assert record_of(own, group=group).crawl == crawl


def test_a_rank_of_the_group_that_is_no_number_is_kept_with_its_records() -> None:
    assert record_of(group=' pagerank="high"').extras == (Extra("record/@pagerank", "high"),)


def test_an_unknown_attribute_of_the_group_is_kept_with_its_records() -> None:
    assert record_of(group=' a="1" b="2"').extras == (
        Extra("group/@a", "1"),
        Extra("group/@b", "2"),
    )


# Attributes


@pytest.mark.parametrize("url", ["", ' url=""', ' url=" &#9; "'])
def test_a_record_without_a_url_is_refused(url: str) -> None:
    assert refusal(f"<record{url}/>") == (
        "url-missing",
        "a record without a url; expected the url of its document",
    )


def test_a_url_is_kept_as_it_is() -> None:
    assert alone('<record url=" http://e.com/?a&amp;b "/>').url == " http://e.com/?a&b "


@pytest.mark.parametrize(
    ("stated", "mimetype"), [("", None), (' mimetype=""', None), (' mimetype=" "', " ")]
)
def test_an_empty_mimetype_is_not_stated(stated: str, mimetype: str | None) -> None:
    assert record_of(stated).mimetype == mimetype


@pytest.mark.parametrize(
    ("attribute", "crawl"),
    [
        ('lock="true"', Crawl(lock=True)),
        ('lock="false"', Crawl(lock=False)),
        ('crawl-immediately="true"', Crawl(crawl_immediately=True)),
        ('crawl-once="false"', Crawl(crawl_once=False)),
        ('authmethod="none"', Crawl(authmethod=Authmethod.NONE)),
        ('authmethod="httpbasic"', Crawl(authmethod=Authmethod.HTTPBASIC)),
        ('authmethod="ntlm"', Crawl(authmethod=Authmethod.NTLM)),
        ('authmethod="httpsso"', Crawl(authmethod=Authmethod.HTTPSSO)),
        ('authmethod="negotiate"', Crawl(authmethod=Authmethod.NEGOTIATE)),
        ('pagerank="99"', Crawl(pagerank=99)),
        ('pagerank=" 099 "', Crawl(pagerank=99)),
        ('feedrank="0"', Crawl(feedrank=0)),
        ('pagerank="999999999"', Crawl(pagerank=999_999_999)),
        ('scoring="content"', Crawl(scoring=Scoring.CONTENT)),
        ('scoring="web"', Crawl(scoring=Scoring.WEB)),
        ('displayurl="http://show.example.com/"', Crawl(display_url="http://show.example.com/")),
        ('displayurl=""', Crawl(display_url="")),
    ],
)
def test_a_hint_is_read(attribute: str, crawl: Crawl) -> None:
    assert record_of(f" {attribute}").crawl == crawl


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lock", "True"),
        ("lock", ""),
        ("crawl-immediately", "1"),
        ("crawl-once", "yes"),
        ("authmethod", "kerberos"),
        ("pagerank", "high"),
        ("pagerank", "-1"),
        ("pagerank", "1.5"),
        ("pagerank", "\u0663"),
        ("pagerank", ""),
        ("feedrank", "1000000000"),
        ("scoring", "Web"),
        ("foo", "bar"),
    ],
)
def test_an_attribute_that_is_not_understood_is_kept(name: str, value: str) -> None:
    record = record_of(f' {name}="{value}"')
    assert (record.crawl, record.extras) == (None, (Extra(f"record/@{name}", value),))


def test_unknown_attributes_are_kept_in_the_order_of_their_names() -> None:
    assert record_of(' b="2" a="1"').extras == (
        Extra("record/@a", "1"),
        Extra("record/@b", "2"),
    )


def test_an_attribute_in_a_namespace_is_kept_by_its_full_name() -> None:
    assert record_of(' xmlns:x="urn:example:x" x:lock="true"').extras == (
        Extra("record/@{urn:example:x}lock", "true"),
    )


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("Tue, 06 Nov 2007 12:45:26 GMT", datetime(2007, 11, 6, 12, 45, 26, tzinfo=UTC)),
        ("2007-11-06T12:45:26.987Z", datetime(2007, 11, 6, 12, 45, 26, tzinfo=UTC)),
    ],
)
def test_the_time_of_the_last_change_is_read_to_the_second(text: str, moment: datetime) -> None:
    assert record_of(f' last-modified="{text}"').modified == moment


def test_a_date_without_a_zone_is_in_the_one_that_was_asked_for() -> None:
    record = record_of(' last-modified="2007-11-06 12:45:26"', zone="Europe/Zurich")
    assert record.modified == datetime(2007, 11, 6, 11, 45, 26, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "yesterday"])
def test_a_date_that_is_none_is_kept(text: str) -> None:
    record = record_of(f' last-modified="{text}"')
    assert (record.modified, record.extras) == (None, (Extra("record/@last-modified", text),))


# Metadata


def test_metadata_keep_their_order_and_their_duplicates() -> None:
    inner = (
        '<metadata><meta name="b" content="1"/><meta name="a" content="2"/></metadata>'
        '<metadata><meta name="b" content="1"/><meta content="" name=""/></metadata>'
    )
    assert record_of("", inner).metadata == (
        Meta("b", "1"),
        Meta("a", "2"),
        Meta("b", "1"),
        Meta("", ""),
    )


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
    inner = (
        f'<metadata><meta encoding="base64binary" name="{name}" content="{content}"/></metadata>'
    )
    assert record_of("", inner).metadata == (meta,)


@pytest.mark.parametrize(("stated", "value"), [("true", True), ("false", False)])
def test_metadata_may_overwrite_acls(stated: str, value: bool) -> None:
    assert record_of("", f'<metadata overwrite-acls="{stated}"/>').overwrite_acls is value


@pytest.mark.parametrize(
    ("inner", "extra"),
    [
        ('<metadata overwrite-acls="no"/>', Extra("record/metadata/@overwrite-acls", "no")),
        ('<metadata foo="bar"/>', Extra("record/metadata/@foo", "bar")),
        ('<metadata><note a="1"/></metadata>', Extra("record/metadata/note", '<note a="1"/>')),
        (
            '<metadata><meta name="a" content=""/><meta name="a" content="" b="c"/></metadata>',
            Extra("record/metadata/meta[1]/@b", "c"),
        ),
    ],
)
def test_what_is_not_understood_of_metadata_is_kept(inner: str, extra: Extra) -> None:
    assert record_of("", inner).extras == (extra,)


@pytest.mark.parametrize(
    ("meta", "reason"),
    [
        ('<meta name="a"/>', "a meta with name only; expected name and content"),
        ('<meta content="a"/>', "a meta with content only; expected name and content"),
        ("<meta/>", "a meta without both; expected name and content"),
        (
            '<meta name="a" content="b" encoding="gzip"/>',
            "encoding='gzip' of a meta; expected base64binary",
        ),
        (
            '<meta name="/w==" content="" encoding="base64binary"/>',
            "a name that is not UTF-8; expected text",
        ),
    ],
)
def test_a_meta_that_says_no_pair_is_refused(meta: str, reason: str) -> None:
    assert refusal_of(f"<metadata>{meta}</metadata>") == ("bad-meta", reason)


def test_a_meta_that_is_no_base64_is_refused() -> None:
    inner = '<metadata><meta name="a*" content="" encoding="base64binary"/></metadata>'
    assert refusal_of(inner) == ("bad-base64", "2 bytes that are no base64; expected base64")


# Content


@pytest.mark.parametrize(
    ("markup", "content"),
    [
        ("<content/>", Content(b"")),
        ("<content></content>", Content(b"")),
        ("<content> a &lt; b\r\n </content>", Content(b" a < b\n ")),
        ("<content>a<![CDATA[<b>]]>c</content>", Content(b"a<b>c")),
        ("<content>a<!-- b -->c</content>", Content(b"ac")),
        (
            '<content encoding="base64binary">YQ==</content>',
            Content(b"YQ==", Encoding.BASE64),
        ),
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
    ],
)
def test_content_is_kept_in_its_encoding(markup: str, content: Content) -> None:
    assert record_of("", markup).content == content


@pytest.mark.parametrize(
    "start", ['<content encoding="base64binary">', "<content encoding='base64binary'>"]
)
def test_a_long_payload_is_handed_on_as_it_is(start: str) -> None:
    payload = base64.b64encode(bytes(range(256)) * 4)
    content = record_of("", f"{start}{payload.decode()}</content>").content
    assert content == Content(payload, Encoding.BASE64)


def test_a_long_payload_in_a_comment_is_none() -> None:
    comment = f'<!-- <content encoding="base64binary">{"A" * 600}</content> -->'
    content = record_of("", f"{comment}<content>text</content>").content
    assert content == Content(b"text")


def test_an_attribute_of_content_that_is_unknown_is_kept() -> None:
    assert record_of("", '<content foo="bar">a</content>').extras == (
        Extra("record/content/@foo", "bar"),
    )


def test_a_second_content_is_kept_as_markup() -> None:
    record = record_of("", "<content>a</content><content>b</content>")
    assert (record.content, record.extras) == (
        Content(b"a"),
        (Extra("record/content", "<content>b</content>"),),
    )


def test_content_with_elements_is_refused() -> None:
    assert refusal_of("<content>a <b>c</b></content>") == (
        "content-with-elements",
        "<b> inside <content>; expected text: escape it or use CDATA",
    )


def test_content_in_an_unknown_encoding_is_refused() -> None:
    assert refusal_of('<content encoding="gzip">a</content>') == (
        "bad-encoding",
        "encoding='gzip' of a content; expected base64binary, base64compressed or no encoding",
    )


def test_content_that_is_no_base64_is_refused() -> None:
    assert refusal_of('<content encoding="base64binary">a*</content>') == (
        "bad-base64",
        "2 bytes that are no base64; expected base64",
    )


def test_content_beyond_the_limit_is_refused() -> None:
    markup = f'<record url="{URL}"><content>abcd</content></record>'
    assert refusal(markup, options=ReadOptions(max_content_bytes=3)) == (
        "content-too-large",
        "4 bytes; expected at most 3 bytes; raise --max-content-bytes to read it",
    )


# Other children


def test_an_unknown_element_is_kept_as_markup() -> None:
    assert record_of("", '<note a="1">b &amp; <i>c</i></note>').extras == (
        Extra("record/note", '<note a="1">b &amp; <i>c</i></note>'),
    )


def test_children_may_come_in_any_order() -> None:
    record = record_of("", '<content>a</content><metadata><meta name="a" content="b"/></metadata>')
    assert (record.content, record.metadata) == (Content(b"a"), (Meta("a", "b"),))


@pytest.mark.parametrize(
    ("inner", "name"),
    [
        ("stray", "record"),
        ("<content/>stray", "record"),
        ("stray<content/>", "record"),
        ("<metadata>stray</metadata>", "metadata"),
        ('<metadata><meta name="a" content="b"/>stray</metadata>', "metadata"),
        ("<acl>stray</acl>", "acl"),
        ("<acl/>stray<content/>", "record"),
    ],
)
def test_text_where_only_elements_may_be_is_refused(inner: str, name: str) -> None:
    assert refusal_of(inner) == (
        "stray-text",
        f"text inside <{name}>; expected elements only",
    )


# ACLs


def test_a_record_has_the_acl_inside_it() -> None:
    inner = '<acl><principal scope="user" access="permit">joe</principal></acl>'
    assert record_of("", inner).acl == Acl(
        principals=(Principal(name="joe", scope=Scope.USER, access=Access.PERMIT),)
    )


def test_a_second_acl_in_a_record_is_refused() -> None:
    assert refusal_of("<acl/><acl/>") == ("bad-acl", "a second acl in a record; expected one")


def test_the_legacy_metadata_of_a_record_are_its_acl() -> None:
    inner = (
        '<metadata><meta name="google:aclusers" content="joe=writer"/>'
        '<meta name="author" content="jim"/>'
        '<meta name="google:aclgroups" content="all"/>'
        '<meta name="google:aclusers" content="eve=peeker"/>'
        '<meta name="google:acldenyusers" content="bob"/>'
        '<meta name="google:aclinheritfrom" content="http://www.example.com/"/>'
        '<meta name="google:aclinheritancetype" content="child-overrides"/></metadata>'
    )
    record = record_of("", inner)
    assert (record.metadata, record.acl) == (
        (Meta("author", "jim"),),
        Acl(
            inheritance=Inheritance.CHILD_OVERRIDES,
            inherit_from="http://www.example.com/",
            principals=(
                Principal(name="joe", scope=Scope.USER, access=Access.PERMIT),
                Principal(name="all", scope=Scope.GROUP, access=Access.PERMIT),
                Principal(name="bob", scope=Scope.USER, access=Access.DENY),
            ),
        ),
    )


def test_legacy_metadata_beside_an_acl_stay_metadata() -> None:
    inner = '<acl/><metadata><meta name="google:aclusers" content="joe"/></metadata>'
    record = record_of("", inner)
    assert (record.acl, record.metadata) == (Acl(), (Meta("google:aclusers", "joe"),))


@pytest.mark.parametrize(
    ("group", "action"),
    [("", Action.UPDATE), (' action="add"', Action.UPDATE), (' action="delete"', Action.DELETE)],
)
def test_an_acl_in_a_group_is_a_record_with_nothing_else(group: str, action: Action) -> None:
    record = alone(f'<acl url="{URL}" inherit-from="http://e.com/"/>', group=group)
    assert (record.url, record.action, record.arrival, record.acl) == (
        URL,
        action,
        None,
        Acl(inherit_from="http://e.com/", alone=True),
    )


def test_an_acl_in_a_group_keeps_what_is_not_understood() -> None:
    assert alone(f'<acl url="{URL}" a="1"/>', group=' b="2" pagerank="3"').extras == (
        Extra("group/@b", "2"),
        Extra("acl/@a", "1"),
    )


@pytest.mark.parametrize("url", ["", ' url=""', ' url=" "'])
def test_an_acl_in_a_group_without_a_url_is_refused(url: str) -> None:
    assert refusal(f"<acl{url}/>") == (
        "acl-without-url",
        "an acl in a group without a url; expected the url that it is for",
    )


# What a feed was posted as

EACH_WAY = {
    "parsed": f"<record url='{URL}' mimetype='text/plain'/>",
    "quick": f'<record url="{URL}"><content>a</content></record>',
    "bulk": f'<record url="{URL}"/>\n<record url="{URL}"/>\n<record url="{URL}"/>',
    "acl": f'<acl url="{URL}"/>',
}
"""Records that are read in one way each."""


def posted(markup: str, feed: Feed | None) -> set[tuple[str | None, str | None]]:
    """The feed that the records of a full one of `docs` belong to, by what it was posted as."""
    text = (
        "<gsafeed><header><datasource>docs</datasource><feedtype>full</feedtype></header>"
        f"<group>\n{markup}\n</group><group>{markup}</group></gsafeed>"
    )
    found = gsa_feed.read(io.BytesIO(text.encode()), span=Span(feed=feed))
    origins = (one.provenance for one in found if isinstance(one, Record))
    return {(origin.datasource, origin.feedtype) for origin in origins}


@pytest.mark.parametrize("way", sorted(EACH_WAY))
def test_what_was_posted_goes_before_the_header(way: str) -> None:
    feed = Feed(datasource="crm", feedtype="incremental")
    assert posted(EACH_WAY[way], feed) == {("crm", "incremental")}


@pytest.mark.parametrize("way", sorted(EACH_WAY))
def test_a_feed_that_was_not_posted_is_what_its_header_says(way: str) -> None:
    assert posted(EACH_WAY[way], None) == {("docs", "full")}


def test_what_was_not_posted_is_taken_from_the_header() -> None:
    assert posted(EACH_WAY["quick"], Feed(datasource="crm", feedtype="")) == {("crm", "full")}


def test_what_was_posted_decides_who_fetches_a_document() -> None:
    markup = f'<gsafeed><group><record url="{URL}"/></group></gsafeed>'
    span = Span(feed=Feed(datasource="crm", feedtype="metadata-and-url"))
    (record,) = gsa_feed.read(io.BytesIO(markup.encode()), span=span)
    assert isinstance(record, Record)
    assert (record.action, record.arrival) == (Action.ADD, Arrival.CRAWLED)
