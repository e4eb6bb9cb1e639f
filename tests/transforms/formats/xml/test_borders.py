"""Borders: the spans of a feed are end to end, and read as the feed does."""

import io

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feedferry.schemas.record import Record
from feedferry.schemas.reject import Reject
from feedferry.schemas.span import Span
from feedferry.transforms.formats.element_names import ElementNames
from feedferry.transforms.formats.xml.borders import cut
from support.damage import damaged, feeds, torn
from support.gsa_records import read_feed, read_feed_in_spans

VOCABULARY = ElementNames(root="list", records=("card", "note"), group="group", header="header")


def spans_of(markup: bytes, span_bytes: int) -> list[Span]:
    return list(cut(VOCABULARY, io.BytesIO(markup), source="c.xml", span_bytes=span_bytes))


def whole(markup: bytes) -> list[Record | Reject]:
    return [without_span(item) for item in read_feed(io.BytesIO(markup))]


def in_spans(markup: bytes, span_bytes: int) -> list[Record | Reject]:
    return [without_span(item) for item in read_feed_in_spans(markup, span_bytes)]


def without_span(item: Record | Reject) -> Record | Reject:
    if isinstance(item, Reject):
        return msgspec.structs.replace(item, span=0)
    provenance = msgspec.structs.replace(item.provenance, span=0)
    return msgspec.structs.replace(item, provenance=provenance)


@pytest.mark.slow
@settings(max_examples=280)
@given((feeds() | damaged() | torn()).map(lambda case: case.markup), st.integers(1, 1500))
def test_the_spans_of_a_feed_read_as_the_feed(markup: bytes, span_bytes: int) -> None:
    assert in_spans(markup, span_bytes) == whole(markup)


@pytest.mark.parametrize("span_bytes", [1, 30, 100, 300])
@pytest.mark.parametrize(
    "groups",
    [
        '<group action="delete">@@</group><group>@@</group>',
        '<group action="delete" pagerank="90">@<group feedrank="3">@@</group>@@</group>@@',
        '<group action="delete">@</group>@</group>@@',
        '@@<group action="Delete">@@<group>@</group>@</group>@',
        '<group action="delete" action="delete">@@</group>@@',
        '<group>@<acl url="a"/><acl url="b"></acl>@@<acl url="c"/></group>',
        "<group>@stray@<record>@</record>@<!-- @ -->@</group>",
    ],
)
def test_groups_reach_every_span(groups: str, span_bytes: int) -> None:
    header = "<header><datasource>web</datasource><feedtype>full</feedtype></header>\n"
    markup = f"<gsafeed>\n{header}{groups}\n</gsafeed>".replace("@", '\n<record url="u"/>\n')
    assert in_spans(markup.encode(), span_bytes) == whole(markup.encode())


@pytest.mark.parametrize("span_bytes", [1, 50, 200])
@pytest.mark.parametrize(
    "between",
    [
        b"</group></gsafeed>",
        b"</group></gsafeed><record url='a'/><gsafeed><group>",
        b"</group></gsafeed><?xml version='1.0'?><!DOCTYPE gsafeed><gsafeed><header><datasource>"
        b"web</datasource></header><group action='delete'>",
        b"</group><header><datasource>other</datasource></header><group>",
        b"<gsafeed><group>",
        b"</group><group",
    ],
)
def test_feeds_end_to_end_read_the_same_in_spans(between: bytes, span_bytes: int) -> None:
    records = b'<record url="u"/>\n' * 3
    feed = b"<gsafeed xmlns:p='urn:example:p'><group>" + records + between + records
    markup = feed + b"</group></gsafeed>"
    assert in_spans(markup, span_bytes) == whole(markup)


@pytest.mark.parametrize("span_bytes", [1000, 50_000, 200_000])
@pytest.mark.parametrize(
    "between",
    [
        b"",
        b"stray",
        b"<record>",
        b'<acl url="a"/>',
        b"</group><group action='delete'>",
        b"<!-- -->",
    ],
)
def test_runs_of_alike_records_read_the_same_in_spans(between: bytes, span_bytes: int) -> None:
    run = b'<record url="u" mimetype="text/html">\n</record>\n' * 4000
    markup = b"<gsafeed><group>" + run + between + run + b"</group></gsafeed>"
    assert in_spans(markup, span_bytes) == whole(markup)


def test_spans_are_end_to_end() -> None:
    markup = b"<list>" + b'<card url="a"/>' * 10 + b"</list>"
    assert [(span.ordinal, span.offset, span.length) for span in spans_of(markup, 40)] == [
        (0, 0, 51),
        (1, 51, 30),
        (2, 81, 45),
        (3, 126, None),
    ]


def test_a_document_in_another_encoding_is_one_span() -> None:
    markup = ("<list>" + '<card url="ü"/>' * 10 + "</list>").encode("utf-16")
    assert spans_of(markup, 1) == [Span(source="c.xml")]
