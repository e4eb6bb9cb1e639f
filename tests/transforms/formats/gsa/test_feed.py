"""gsafeed XML there and back, and valid by its DTDs."""

from datetime import UTC, datetime
from functools import cache
from importlib.resources import files

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree
from msgspec.structs import replace

from feedferry.schemas.acl import Access, Acl, Inheritance, Principal, Scope
from feedferry.schemas.errors import RecordError
from feedferry.schemas.feed import Feed
from feedferry.schemas.record import (
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
from feedferry.schemas.reject import Reject
from feedferry.testing.strategies import records
from feedferry.transforms.formats import FeedOptions
from feedferry.transforms.formats.base import WriteOptions
from feedferry.transforms.formats.gsa import feed as feed_module
from feedferry.transforms.formats.gsa.feed import GsaFeedEncoder
from support.gsa_records import (
    Held,
    held,
    held_by_5_0,
    read_feed,
    read_feed_in_spans,
    unplaced,
    write_feed,
)
from support.streams import read_both_ways

URL = "http://www.example.com/a"
ADD = Record(url=URL, action=Action.ADD, arrival=Arrival.PUSHED, content=Content(b""))
UPDATE = Record(url=URL, action=Action.UPDATE, arrival=Arrival.PUSHED)
JOE = Principal(name="joe", scope=Scope.USER, access=Access.PERMIT)
EVERY_HINT = Crawl(
    lock=True,
    crawl_immediately=False,
    crawl_once=True,
    authmethod=Authmethod.NEGOTIATE,
    pagerank=99,
    feedrank=3,
    scoring=Scoring.WEB,
    display_url="http://show.example.com/a",
)
NUL = "\x00"


def written(records: list[Record], *, feed: Feed | None = None, dialect: str = "7.x") -> bytes:
    feed = feed or Feed(datasource="d", feedtype="full")
    return write_feed(records, WriteOptions(feed=feed, own=(FeedOptions(dialect=dialect),)))


def read(markup: bytes) -> list[Record | Reject]:
    return read_both_ways(read_feed, markup)


def there_and_back(case: Held, *, dialect: str = "7.x") -> list[Record | Reject]:
    results = read(written(case.records, feed=case.feed, dialect=dialect))
    return [unplaced(item) if isinstance(item, Record) else item for item in results]


def encode(record: Record, *, dialect: str = "7.x") -> str:
    return GsaFeedEncoder(WriteOptions(own=(FeedOptions(dialect=dialect),))).encode(record).decode()


def refusal(record: Record, *, dialect: str = "7.x") -> tuple[str, str]:
    with pytest.raises(RecordError) as caught:
        encode(record, dialect=dialect)
    return caught.value.code, caught.value.reason


@cache
def dtd(dialect: str) -> etree.DTD:
    with files("feedferry.schemas").joinpath(f"gsafeed-{dialect}.dtd").open("rb") as stream:
        return etree.DTD(stream)


def faults(markup: bytes, dialect: str) -> list[str]:
    """What the DTD finds in a feed."""
    dtd(dialect).validate(etree.fromstring(markup, etree.XMLParser(huge_tree=True)))
    return [fault.message for fault in dtd(dialect).error_log.filter_from_errors()]


# There and back


@pytest.mark.slow
@settings(max_examples=150)
@given(held())
def test_a_feed_is_read_as_it_was_written(case: Held) -> None:
    assert there_and_back(case) == case.records


@pytest.mark.slow
@settings(max_examples=60)
@given(held(extras=False))
def test_what_is_written_is_valid_by_the_dtd_of_7_x(case: Held) -> None:
    assert faults(written(case.records, feed=case.feed), "7") == []


@pytest.mark.slow
@settings(max_examples=60)
@given(held_by_5_0())
def test_a_feed_in_the_5_0_dialect_is_valid_and_read_as_it_was_written(case: Held) -> None:
    assert there_and_back(case, dialect="5.0") == case.records
    assert faults(written(case.records, feed=case.feed, dialect="5.0"), "5") == []


# The frame


def test_a_feed_begins_with_its_datasource_and_feedtype() -> None:
    assert written([], feed=Feed(datasource="web", feedtype="metadata-and-url")).decode() == (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<!DOCTYPE gsafeed PUBLIC "-//Google//DTD GSA Feeds//EN" "">\n'
        "<gsafeed>\n<header>\n<datasource>web</datasource>\n"
        "<feedtype>metadata-and-url</feedtype>\n</header>\n<group>\n</group>\n</gsafeed>\n"
    )


# Records, as they are written


METADATA = "<metadata>\n<meta {}/>\n</metadata>\n"
NO_OVERWRITE = replace(UPDATE, overwrite_acls=False)
WHOLE = replace(
    ADD, content=Content(b"text"), metadata=(Meta("a", "b"),), acl=Acl(principals=(JOE,))
)
ZLIB = Content(b"eJxLBAAAYgBi", Encoding.ZLIB_BASE64)


@pytest.mark.parametrize(
    ("record", "dialect", "inner"),
    [
        (UPDATE, "7.x", ""),
        *(
            (replace(UPDATE, metadata=(meta,)), "7.x", METADATA.format(attributes))
            for meta, attributes in (
                (Meta("a", '<a> & "b"'), 'name="a" content="&lt;a&gt; &amp; &quot;b&quot;"'),
                (Meta("a", "a\tb\nc\rd"), 'name="a" content="a&#9;b&#10;c&#13;d"'),
                (Meta("it's", "ü😀"), 'name="it\'s" content="ü😀"'),
                (Meta("a", "b\x00"), 'encoding="base64binary" name="YQ==" content="YgA="'),
                (Meta("a\x00", "b"), 'encoding="base64binary" name="YQA=" content="Yg=="'),
                (Meta("a", "", b"\xff"), 'encoding="base64binary" name="YQ==" content="/w=="'),
            )
        ),
        (NO_OVERWRITE, "7.x", '<metadata overwrite-acls="false">\n</metadata>\n'),
        (NO_OVERWRITE, "5.0", ""),
        *(
            (replace(ADD, content=content), "7.x", f"<content{markup}</content>\n")
            for content, markup in (
                (Content("a < b & ü\r".encode()), ">a &lt; b &amp; ü&#13;"),
                (Content(b""), ">"),
                (Content(b"a\x00"), ' encoding="base64binary">YQA='),
                (Content(b"\xff"), ' encoding="base64binary">/w=='),
                (Content(b"YQ==", Encoding.BASE64), ' encoding="base64binary">YQ=='),
                (ZLIB, ' encoding="base64compressed">eJxLBAAAYgBi'),
            )
        ),
        (replace(ADD, content=ZLIB), *("5.0", '<content encoding="base64binary">YQ==</content>\n')),
        (
            WHOLE,
            "7.x",
            '<acl>\n<principal scope="user" access="permit">joe</principal>\n</acl>\n'
            '<metadata>\n<meta name="a" content="b"/>\n</metadata>\n<content>text</content>\n',
        ),
        (replace(UPDATE, extras=(Extra("Item/rid", "<rid>1</rid>"),)), "7.x", ""),
    ],
)
def test_a_record_is_written_in_the_order_of_the_guide(
    record: Record, dialect: str, inner: str
) -> None:
    assert encode(record, dialect=dialect) == (
        f'<record url="{URL}" mimetype="">\n{inner}</record>\n'
    )


def test_a_record_has_every_attribute_in_the_order_of_the_guide() -> None:
    record = Record(
        url="http://www.example.com/?a=1&b=2",
        action=Action.DELETE,
        mimetype="text/html",
        modified=datetime(2007, 11, 6, 12, 45, 26, tzinfo=UTC),
        crawl=EVERY_HINT,
    )
    assert encode(record) == (
        '<record url="http://www.example.com/?a=1&amp;b=2" displayurl="http://show.example.com/a"'
        ' action="delete" lock="true" mimetype="text/html"'
        ' last-modified="Tue, 06 Nov 2007 12:45:26 GMT" authmethod="negotiate" pagerank="99"'
        ' feedrank="3" crawl-immediately="false" crawl-once="true" scoring="web">\n</record>\n'
    )


def test_the_5_0_dialect_has_fewer_attributes() -> None:
    record = Record(url=URL, action=Action.ADD, crawl=EVERY_HINT)
    assert encode(record, dialect="5.0") == (
        f'<record url="{URL}" displayurl="http://show.example.com/a" lock="true" mimetype=""'
        ' pagerank="99">\n</record>\n'
    )


def test_an_acl_is_metadata_in_the_5_0_dialect() -> None:
    acl = Acl(
        inheritance=Inheritance.PARENT_OVERRIDES,
        inherit_from="http://www.example.com/",
        principals=(JOE, Principal(name="all", scope=Scope.GROUP, access=Access.DENY)),
    )
    record = Record(url=URL, action=Action.UPDATE, metadata=(Meta("a", "b"),), acl=acl)
    assert encode(record, dialect="5.0") == (
        f'<record url="{URL}" mimetype="">\n<metadata>\n<meta name="a" content="b"/>\n'
        '<meta name="google:aclusers" content="joe"/>\n'
        '<meta name="google:acldenygroups" content="all"/>\n'
        '<meta name="google:aclinheritfrom" content="http://www.example.com/"/>\n'
        '<meta name="google:aclinheritancetype" content="parent-overrides"/>\n'
        "</metadata>\n</record>\n"
    )


def test_unknown_attributes_and_elements_stand_where_they_stood() -> None:
    extras = (
        Extra("record/@lock", "maybe"),
        Extra("record/@{urn:example:x}y", "a<b"),
        Extra("record/acl/@a", "1"),
        Extra("record/acl/principal[0]/@b", "2"),
        Extra("record/content/@c", "3"),
        Extra("record/metadata/@d", "4"),
        Extra("record/metadata/meta[0]/@e", "5"),
        Extra("record/metadata/note", "<note/>"),
        Extra("record/other", "<other>text</other>"),
    )
    assert encode(replace(WHOLE, extras=extras)) == (
        f'<record url="{URL}" mimetype="" lock="maybe" xmlns:n1="urn:example:x" n1:y="a&lt;b">\n'
        '<acl a="1">\n<principal scope="user" access="permit" b="2">joe</principal>\n</acl>\n'
        '<metadata d="4">\n<meta name="a" content="b" e="5"/>\n<note/>\n</metadata>\n'
        '<content c="3">text</content>\n<other>text</other>\n</record>\n'
    )


# What no feed can hold


NO_PRINCIPAL = Principal(name=NUL, scope=Scope.USER, access=Access.DENY)
NOT_XML = "; expected characters that XML can hold"


@pytest.mark.parametrize(
    ("record", "dialect", "code", "reason"),
    [
        (
            Record(url="http://e.com/*", action=Action.DELETE_PATTERN),
            *("7.x", "bad-action"),
            "action DELETE_PATTERN; expected ADD, UPDATE or DELETE",
        ),
        (
            replace(ADD, crawl=EVERY_HINT, extras=(Extra("record/@authmethod", "kerberos"),)),
            *("7.x", "bad-extra"),
            "a second authmethod at record/@authmethod; expected one value",
        ),
        (
            replace(ADD, metadata=(Meta(NUL, "b"),)),
            *("5.0", "not-xml"),
            "metadata '\\x00' that XML cannot hold; expected text in the 5.0 dialect",
        ),
        *(
            (replace(ADD, **fields), "7.x", "not-xml", finding + NOT_XML)
            for fields, finding in (
                ({"url": "http://e.com/\x00"}, "url='http://e.com/\\x00'"),
                ({"mimetype": "\ufffe"}, "mimetype='\\ufffe'"),
                ({"url": "\ud800"}, "url='\\ud800'"),
                ({"metadata": (Meta("a", "\udcff"),)}, "a lone surrogate"),
                ({"acl": Acl(principals=(NO_PRINCIPAL,))}, "principal '\\x00'"),
                ({"acl": Acl(inherit_from=NUL)}, "inherit-from='\\x00'"),
            )
        ),
    ],
)
def test_a_record_that_no_feed_can_hold_is_refused(
    record: Record, dialect: str, code: str, reason: str
) -> None:
    assert refusal(record, dialect=dialect) == (code, reason)


# Reading a stream


def test_a_header_without_its_end_reads_the_same_in_spans() -> None:
    markup = (
        b"<gsafeed><header><datasource>d</datasource>"
        b'<record url="a" action="delete"/><record url="b" action="delete"/></gsafeed>'
    )
    results = read_feed_in_spans(markup, 1)
    assert [record.url for record in results if isinstance(record, Record)] == ["a", "b"]
    assert [item.code for item in results if isinstance(item, Reject)] == ["header-damaged"]


PLAIN_TEXTS = st.text("ab& '\u00fc\u6771", max_size=5) | st.sampled_from(
    ["\x00", "\ud800", "\ufffe", "<", '"', ">", "\t"]
)


@st.composite
def usual_records(draw: st.DrawFn) -> Record:
    """Records without rare parts, whose texts now and then need more than one reference."""
    record: Record = draw(records(text=PLAIN_TEXTS))
    acl = record.acl and replace(record.acl, alone=False, inherit_fragment=None)
    return replace(record, acl=acl, extras=(), crawl=None, overwrite_acls=None)


def encoded(record: Record) -> tuple[bytes, str]:
    try:
        return GsaFeedEncoder().encode(record), ""
    except RecordError as exc:
        return b"", f"{exc.code}: {exc.reason}"


@given(usual_records() | records())
def test_a_record_is_written_at_once_as_it_is_written_part_by_part(record: Record) -> None:
    at_once = encoded(record)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feed_module, "_usual_record", lambda _record: None)
        assert encoded(record) == at_once
