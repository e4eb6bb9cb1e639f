"""Thunderstone dataload XML: round trips, what is read and written, rejects and refusals."""

import io
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec
import pybase64
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from feedferry.schemas.errors import FormatError, RecordError
from feedferry.schemas.record import (
    Action,
    Arrival,
    Content,
    Encoding,
    Extra,
    Field,
    History,
    Meta,
    Provenance,
    Record,
)
from feedferry.schemas.reject import Reject
from feedferry.schemas.span import Span
from feedferry.testing.strategies import fields, histories, moments, records, texts
from feedferry.transforms.formats import THUNDERSTONE
from feedferry.transforms.formats.base import ReadOptions, ReadResult, WriteOptions, write_all
from feedferry.transforms.formats.thunderstone import dataload
from feedferry.transforms.formats.thunderstone.dataload import ThunderstoneEncoder
from feedferry.transforms.formats.xml.serializer import XML_NAMESPACE
from support.streams import read_both_ways

URL = "http://www.example.com/dir/page.html"
DT = 'xmlns:dt="urn:schemas-microsoft-com:datatypes"'
U = 'xmlns:u="http://www.thunderstone.com/ParametricSearch/1.0/"'
ADD = Record(url=URL, action=Action.ADD, arrival=Arrival.PUSHED)


def document(items: str) -> bytes:
    return f"<ThunderstoneReplication {DT} {U}>{items}</ThunderstoneReplication>".encode()


def item(markup: str, *, type_: str = "I") -> bytes:
    return document(f"<Item><Type>{type_}</Type><Url>{URL}</Url>{markup}</Item>")


def b64(text: str, charset: str = "utf-8") -> str:
    return pybase64.b64encode(text.encode(charset)).decode()


def read(data: bytes, **options: Any) -> list[ReadResult]:
    limits = msgspec.structs.replace(ReadOptions(), **options)
    return list(map(bare, read_both_ways(partial(dataload.read, options=limits), data)))


def written(*records: Record) -> bytes:
    stream = io.BytesIO()
    write_all(ThunderstoneEncoder(), records, stream)
    return stream.getvalue()


def bare(result: ReadResult) -> ReadResult:
    """Without its provenance."""
    if isinstance(result, Record):
        return msgspec.structs.replace(result, provenance=Provenance())
    return result


def encode(record: Record, *, zone: str = "UTC") -> bytes:
    return ThunderstoneEncoder(WriteOptions(zone=zone)).encode(record)


def added(**stated: Any) -> Record:
    return msgspec.structs.replace(ADD, **stated)


# Round trips


def lists(parts: SearchStrategy[Any]) -> SearchStrategy[tuple[Any, ...]]:
    return st.lists(parts, max_size=3).map(tuple)


def base64_contents() -> SearchStrategy[Content]:
    encoded = st.binary(min_size=1, max_size=900).map(pybase64.b64encode)
    return st.builds(Content, encoded, st.just(Encoding.BASE64))


def on_a_line(text: str) -> bool:
    return "\n" not in text


def held_metas() -> SearchStrategy[Meta]:
    name = st.sampled_from(("", "author", "a:", " ")) | texts().filter(
        lambda text: on_a_line(text) and ": " not in text
    )
    value = st.sampled_from(("", " ", "a: b", ": ", "http://x")) | texts().filter(on_a_line)
    return st.builds(Meta, name, value)


def held_records() -> SearchStrategy[Record]:
    """Records that Thunderstone holds to the last byte."""
    moment = st.none() | moments(resolution="seconds")
    return records(
        action=st.sampled_from((Action.ADD, Action.UPDATE, Action.DELETE, Action.DELETE_PATTERN)),
        content=st.none() | base64_contents(),
        charset=st.none() | st.sampled_from(("UTF-8", "utf-16", "", "UTF-8 ")),
        categories=lists(texts().filter(lambda text: bool(text.strip()))),
        metadata=lists(held_metas()),
        fields=lists(fields(text=texts()).filter(lambda field: bool(field.values))),
        modified=moment,
        visited=moment,
        next_check=moment,
        acl=st.none(),
        overwrite_acls=st.none(),
        crawl=st.none(),
        history=st.none() | histories(text=texts()),
        extras=st.just(()),
        provenance=st.just(Provenance()),
    ).map(arrived)


def arrived(record: Record) -> Record:
    pushed = record.action in (Action.ADD, Action.UPDATE)
    history = None if record.history == History() else record.history
    return msgspec.structs.replace(
        record, arrival=Arrival.PUSHED if pushed else None, history=history
    )


@given(st.lists(held_records(), max_size=3))
def test_records_survive_a_round_trip(results: list[Record]) -> None:
    assert read(written(*results)) == results


TAGS = (
    *("Size", "Visited", "Dlsecs", "Depth", "Title", "Body", "Keywords", "Description", "Meta"),
    *("Category", "Modified", "NextCheck", "Views", "Clicks", "CTR", "Pop", "MimeType", "Charset"),
    *("Refs", "Errors", "RawData", "rid", "u:Color", "x:Color", "value", "u:a.b", "dt:x", "Url"),
)
VALUES = (
    *("", " ", "0", "57", "5.50", "1e999", "2005-10-25 11:21:07", "2005-10-25T11:21:07.5Z", "soon"),
    *("a: b\n\nc", "UTF-8", "iso-8859-1", "&lt;&#13;", "QUJD", "QUJ\nDQ==", "&#233;", "<value/>"),
    *("<value>a</value><value>b</value>", "a<value>b</value>", "<b>x</b>y", "<x:y z='1'/>"),
    *(b64("<results/>"), b64(f"<results><result><Url>{URL}</Url><Ref>r</Ref></result></results>")),
)
LONG = pybase64.b64encode(bytes(range(256)) * 3).decode()
RAW = (
    f'<RawData dt:dt="bin.base64">{LONG}</RawData>',
    f'<RawData dt:dt="bin.base64">{LONG}<x/>{LONG}</RawData>',
    f'<RawData dt:dt="bin.base64"/>{LONG}',
    f'<RawData x:dt="bin.base64">{LONG}</RawData>',
    f'<rid><RawData dt:dt="bin.base64">{LONG}</RawData></rid>',
    f'<RawData xmlns:d="urn:schemas-microsoft-com:datatypes" d:dt="bin.base64">{LONG}</RawData>',
    f"<RawData>{LONG}</RawData>",
)
ATTRIBUTES = ("", "", "", ' dt:dt="bin.base64"', ' dt:dt="int"', ' a="1"', ' x:b="&#10;"')


def wild_elements() -> SearchStrategy[str]:
    parts = (st.sampled_from(TAGS), st.sampled_from(ATTRIBUTES), st.sampled_from(VALUES))
    return st.builds("<{0}{1}>{2}</{0}>".format, *parts) | st.sampled_from(RAW)


def wild_items() -> SearchStrategy[bytes]:
    start = st.sampled_from(("<Item>", "<Item a='1' x:b='&#9;'>", "<Item>stray "))
    type_ = st.sampled_from(("I", "U", "D", "DP", "UI", " I\n"))
    children = st.lists(wild_elements(), max_size=6).map("\n ".join)
    markup = st.builds(
        f"{{}}<Type>{{}}</Type><Url>{URL}</Url>{{}}</Item>".format, start, type_, children
    )
    return markup.map(
        lambda text: document(text).replace(b" xmlns:u", b' xmlns:x="urn:x:y" xmlns:u')
    )


@given(wild_items())
def test_any_record_that_is_read_survives_a_round_trip(data: bytes) -> None:
    results = [record for record in read(data) if isinstance(record, Record)]
    assert read(written(*results)) == results


@given(st.lists(held_records(), min_size=1, max_size=3), st.integers(1, 400))
def test_spans_read_as_the_whole_document(results: list[Record], span_bytes: int) -> None:
    data = written(*results)
    spans = THUNDERSTONE.split(io.BytesIO(data), source="", span_bytes=span_bytes)
    assert [bare(record) for span in spans for record in read_span(data, span)] == results


def read_span(data: bytes, span: Span) -> list[ReadResult]:
    end = None if span.length is None else span.offset + span.length
    return list(dataload.read(io.BytesIO(data[span.offset : end]), span=span))


@given(st.integers(0, 1200))
def test_a_torn_item_is_not_a_record(length: int) -> None:
    raw = f'<RawData dt:dt="bin.base64">{LONG}</RawData>'
    data = item(f"<Title>Gears</Title>{raw}")[:length]
    try:
        results = read(data)
    except FormatError:
        results = []
    assert [result for result in results if isinstance(result, Record)] == []


# Reading: golden files have the elements and the rejects


BASE64 = 'dt:dt="bin.base64"'


@pytest.mark.parametrize(
    ("body", "charset", "size"),
    [
        (b64("Größe", "iso-8859-1"), "UTF-8", 5),
        ("QUJD", "unicode escape", 3),
        (b64("+2AA-"), "UTF-7", 5),
    ],
)
def test_base64_that_is_no_text_in_its_charset_is_a_reject(
    body: str, charset: str, size: int
) -> None:
    (reject,) = read(item(f"<Body {BASE64}>{body}</Body><Charset>{charset}</Charset>"))
    assert isinstance(reject, Reject)
    assert (reject.code, reject.reason) == (
        "bad-charset",
        f"Body: base64 of {size} bytes that are no text in {charset!r};"
        " expected text in the Charset of its Item",
    )


def test_raw_data_over_the_limit_is_a_reject() -> None:
    (reject,) = read(item(f"<RawData {BASE64}>{LONG}</RawData>"), max_content_bytes=767)
    assert isinstance(reject, Reject)
    assert (reject.code, reject.reason) == (
        "content-too-large",
        "768 bytes; expected at most 767 bytes; raise --max-content-bytes to read it",
    )


@pytest.mark.parametrize(
    ("type_", "extras"), [("U", (Extra("Item/Category", "<Category/>"),)), ("I", ())]
)
def test_an_empty_element_is_kept_in_an_update_where_it_clears_a_field(
    type_: str, extras: tuple[Extra, ...]
) -> None:
    (record,) = read(item("<Category></Category>", type_=type_))
    assert isinstance(record, Record)
    assert record.extras == extras


# Writing


def test_an_item_has_its_elements_in_the_order_of_the_specification() -> None:
    moment = datetime(2005, 10, 25, 15, 25, 18, tzinfo=UTC)
    record = added(
        content=Content(b"QUJD", Encoding.BASE64),
        mimetype="text/html",
        charset="UTF-8",
        size=150369,
        title="Sprocket & Co",
        description="Sprocket details",
        keywords="sprockets, gears",
        body="a < b",
        categories=("Mechanical", "Gears"),
        metadata=(Meta("author", "Jane"), Meta("", "loose")),
        fields=(Field("Quantity", ("57",)), Field("Color", ("Orange", "Black"), many=True)),
        modified=moment,
        visited=moment,
        next_check=moment,
        history=History(
            download_seconds=0.0, depth=0, views=3, clicks=1, click_ratio=0.25, popularity=2
        ),
        extras=(Extra("Item/rid", "<rid>1</rid>"),),
    )
    assert encode(record).decode() == (
        "<Item><Type>I</Type><Size>150369</Size><Visited>2005-10-25 15:25:18</Visited>"
        "<Dlsecs>0</Dlsecs><Depth>0</Depth><Url>http://www.example.com/dir/page.html</Url>"
        "<Title>Sprocket &amp; Co</Title><Body>a &lt; b</Body>"
        "<Keywords>sprockets, gears</Keywords><Description>Sprocket details</Description>"
        "<Meta>author: Jane\nloose</Meta><Category>Mechanical</Category>"
        "<Category>Gears</Category><Modified>2005-10-25 15:25:18</Modified>"
        "<NextCheck>2005-10-25 15:25:18</NextCheck><Views>3</Views><Clicks>1</Clicks>"
        "<CTR>0.250000</CTR><Pop>2</Pop><MimeType>text/html</MimeType><Charset>UTF-8</Charset>"
        '<RawData dt:dt="bin.base64">QUJD</RawData><u:Quantity>57</u:Quantity>'
        "<u:Color><value>Orange</value><value>Black</value></u:Color><rid>1</rid></Item>\n"
    )


@pytest.mark.parametrize(
    ("stated", "markup"),
    [
        (
            {
                "extras": (
                    *(Extra("Item/@n", 'a"\n'), Extra("Item/@{urn:example:x}y", "2")),
                    Extra(f"Item/@{{{XML_NAMESPACE}}}lang", "de"),
                    *(Extra("Item/text()", "a & b"), Extra("record/@foo", "1")),
                )
            },
            '<Item n="a&quot;&#10;" xmlns:n1="urn:example:x" n1:y="2" xml:lang="de"><Type>',
        ),
        ({"extras": (Extra("Item/text()", "a & b"),)}, "</Url>a &amp; b</Item>"),
        ({"history": History(errors=())}, f"<Errors {BASE64}></Errors>"),
        ({"body": "Größe\f", "charset": "ISO-8859-1"}, f"<Body {BASE64}>R3L232UM</Body>"),
        ({"content": Content(b"ABC")}, f"<RawData {BASE64}>QUJD</RawData>"),
        ({"history": History(click_ratio=1 / 3)}, "<CTR>0.3333333333333333</CTR>"),
        ({"history": History(download_seconds=2.75)}, "<Dlsecs>2.75</Dlsecs>"),
        ({"fields": (Field("C", ("1", "2")),)}, "<u:C><value>1</value><value>2</value></u:C>"),
        (
            {"fields": (Field("C", ("1",), namespace="urn:example:x"),)},
            '<f:C xmlns:f="urn:example:x">1</f:C>',
        ),
    ],
)
def test_a_value_is_written_in_the_form_of_its_element(stated: dict[str, Any], markup: str) -> None:
    assert markup in encode(added(**stated)).decode()


# Refusals


def unfit(name: str) -> str:
    return (
        f"metadata {name!r} does not fit on a line of Meta; expected no line end in it and no ': '"
        " in its name"
    )


NOT_A_NUMBER = History(click_ratio=float("nan"))
BAD_NAMESPACES = ("", "a b", "\f", "urn:schemas-microsoft-com:datatypes", "\ud800", "http://[")
BAD_TEXTS = (
    *(("\x00", "klingon"), ("€\x00", "ISO-8859-1"), ("\ud800", "UTF-8")),
    ("\x1b$B~", "iso-2022-jp"),
)
BAD_RIDS = (
    *("<rid>", "<Url>http://www.example.com/other</Url>", "<rid/><rid/>", "</Item><Item>"),
    *("text<rid/>", "<!DOCTYPE rid><rid/>", "<rid>\ud800</rid>"),
)
BAD_PLACES = (
    *(("Item/text()", "\x00"), ("Item/@n", "\x00"), ('Item/@n="1" m', "2"), ("Item/@xmlns", "u")),
    *(("Item/@1", "2"), ("Item/@{u v}n", "1")),
)


@pytest.mark.parametrize(
    ("stated", "code", "reason"),
    [
        ({"url": " "}, "no-url", "ADD of a record without url; expected one"),
        (
            *({"arrival": Arrival.CRAWLED}, "crawled"),
            "a url to be crawled; expected content: Thunderstone data cannot ask for a fetch",
        ),
        (
            *({"fields": (Field("a b", ("1",)),)}, "bad-field"),
            "field 'a b'; expected a letter or _, then letters, digits, _ and -",
        ),
        (
            *({"fields": (Field("a", (), many=True),)}, "bad-field"),
            "field 'a' without values; expected one or more",
        ),
        *(
            (
                *({"fields": (Field("a", ("1",), namespace=uri),)}, "bad-field"),
                f"field 'a' in the namespace {uri!r}; expected another uri",
            )
            for uri in BAD_NAMESPACES
        ),
        ({"categories": ("",)}, "bad-category", "category ''; expected a name"),
        (
            *({"metadata": (Meta("photo", "", b"\xff\xd8"),)}, "bad-metadata"),
            "metadata 'photo' of 2 bytes that are no text; expected text",
        ),
        *(
            ({"metadata": (Meta(name, value),)}, "bad-metadata", unfit(name))
            for name, value in (("a: b", ""), ("a\nb", ""), ("a: b", "c\nd"))
        ),
        ({"history": NOT_A_NUMBER}, "bad-number", "CTR nan; expected a finite number"),
        *(
            (
                *({"title": text, "charset": charset}, "bad-charset"),
                f"Title: text that {charset!r} cannot hold; expected a Charset that can",
            )
            for text, charset in BAD_TEXTS
        ),
        *(
            (
                *({"extras": (Extra(place, value),)}, "bad-extra"),
                f"{place} of an Item; expected extras with the markup of their places",
            )
            for place, value in (*(("Item/rid", markup) for markup in BAD_RIDS), *BAD_PLACES)
        ),
    ],
)
def test_a_record_that_an_item_cannot_hold_is_refused(
    stated: dict[str, Any], code: str, reason: str
) -> None:
    with pytest.raises(RecordError) as caught:
        encode(added(**stated))
    assert (caught.value.code, caught.value.reason) == (code, reason)
