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

from schemas.errors import FormatError, RecordError
from schemas.record import (
    Action,
    Arrival,
    Content,
    Crawl,
    Encoding,
    Extra,
    Field,
    History,
    Meta,
    Provenance,
    Record,
)
from schemas.reject import Reject
from schemas.span import Span
from support.strategies import fields, histories, moments, records, texts
from support.streams import read_both_ways
from transforms.formats.base import ReadOptions, ReadResult, WriteOptions, write_all
from transforms.formats.thunderstone import dataload
from transforms.formats.thunderstone.dataload import ThunderstoneEncoder

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


def bare(result: ReadResult) -> ReadResult:
    """Without its provenance."""
    if isinstance(result, Record):
        return msgspec.structs.replace(result, provenance=Provenance())
    return result


def read_one(data: bytes, **options: Any) -> Record:
    (record,) = read(data, **options)
    assert isinstance(record, Record)
    return record


def reject_of(data: bytes, **options: Any) -> tuple[str, str]:
    (found,) = read(data, **options)
    assert isinstance(found, Reject)
    return found.code, found.reason


def encode(record: Record, *, zone: str = "UTC") -> bytes:
    return ThunderstoneEncoder(WriteOptions(zone=zone)).encode(record)


def written(*records: Record) -> bytes:
    stream = io.BytesIO()
    write_all(dataload.ThunderstoneEncoder(), records, stream)
    return stream.getvalue()


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
def test_records_survive_a_round_trip(found: list[Record]) -> None:
    assert read(written(*found)) == found


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
    found = [record for record in read(data) if isinstance(record, Record)]
    assert read(written(*found)) == found


@given(st.lists(held_records(), min_size=1, max_size=3), st.integers(1, 400))
def test_spans_read_as_the_whole_document(found: list[Record], span_bytes: int) -> None:
    data = written(*found)
    spans = dataload.cut(io.BytesIO(data), source="", span_bytes=span_bytes)
    assert [bare(record) for span in spans for record in read_span(data, span)] == found


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


# Reading


def test_the_five_types_are_the_five_actions() -> None:
    items = "".join(
        f"<Item><Type>{type_}</Type><Url>{URL}</Url></Item>"
        for type_ in ("I", "D", "DP", "U", "UI")
    )
    records = [one for one in read(document(items)) if isinstance(one, Record)]
    assert [(record.action.name, record.arrival, record.url) for record in records] == [
        ("ADD", Arrival.PUSHED, URL),
        ("DELETE", None, URL),
        ("DELETE_PATTERN", None, URL),
        ("UPDATE", Arrival.PUSHED, URL),
        ("UPDATE_INDEX", None, ""),
    ]


def test_a_record_has_its_place_as_provenance() -> None:
    data = b"<ThunderstoneReplication>\n\n<Item><Type>D</Type><Url>u</Url></Item>"
    span = Span(source="a.xml", ordinal=3, offset=1000, line=50)
    found = next(dataload.read(io.BytesIO(data), span=span))
    assert found == Record(
        url="u",
        action=Action.DELETE,
        provenance=Provenance(source="a.xml", span=3, line=52, offset=1027),
    )


def test_dates_are_read_in_the_zone_of_the_options() -> None:
    found = read_one(item("<Modified>2005-10-25 11:21:07</Modified>"), zone="Europe/Zurich")
    assert found.modified == datetime(2005, 10, 25, 9, 21, 7, tzinfo=UTC)


RESULTS = f"<results {DT}><result><Url>{URL}</Url>{{}}</result></results>"
BASE64 = 'dt:dt="bin.base64"'
QUJD = Content(b"QUJD", Encoding.BASE64)


@pytest.mark.parametrize(
    ("markup", "stated"),
    [
        ("<Size>9223372036854775807</Size>", {"size": 2**63 - 1}),
        (
            "<Meta>author: Jane\nhttp://www.example.com/\n\n: a: b</Meta>",
            {
                "metadata": (
                    Meta("author", "Jane"),
                    Meta("", "http://www.example.com/"),
                    Meta("", "a: b"),
                )
            },
        ),
        ("<Meta></Meta><Category/><Size> </Size>", {}),
        ("<Title></Title>", {"title": ""}),
        (f"<Errors {BASE64}></Errors>", {"history": History(errors=())}),
        ("<Body>b</Body><RawData></RawData>", {"body": "b"}),
        ("<RawData></RawData>", {"content": Content(b"", Encoding.BASE64)}),
        (
            f"<Body {BASE64}>{b64('Größe', 'iso-8859-1')}</Body><Charset>ISO-8859-1</Charset>",
            {"body": "Größe", "charset": "ISO-8859-1"},
        ),
        (
            f"<RawData {BASE64}>\n  QUJD\r\n  REVG\n</RawData>",
            {"content": Content(b"QUJDREVG", Encoding.BASE64)},
        ),
        (
            f"<RawData {BASE64}>{LONG[:512]}&#xD;\n{LONG[512:]}</RawData>",
            {"content": Content(LONG.encode(), Encoding.BASE64)},
        ),
        (
            "<RawData>&lt;p>é</RawData><Charset>ISO-8859-1</Charset>",
            {
                "content": Content(pybase64.b64encode(b"<p>\xe9"), Encoding.BASE64),
                "charset": "ISO-8859-1",
            },
        ),
        (
            f"<Refs {BASE64}>{b64(RESULTS.format('<Ref>http://e.com/a</Ref>'))}</Refs>"
            f"<Errors {BASE64}>{b64(RESULTS.format('<Reason>404</Reason>'))}</Errors>",
            {"history": History(references=("http://e.com/a",), errors=("404",))},
        ),
        (
            "<u:Color><value>Orange</value></u:Color>",
            {"fields": (Field("Color", ("Orange",), many=True),)},
        ),
        (
            '<x:Color xmlns:x="urn:example:x">Orange</x:Color>',
            {"fields": (Field("Color", ("Orange",), namespace="urn:example:x"),)},
        ),
    ],
)
def test_an_element_becomes_its_field(markup: str, stated: dict[str, Any]) -> None:
    assert read_one(item(markup)) == added(**stated)


OTHER_REFS = b64("<results><result><Url>http://other/</Url><Ref>a</Ref></result></results>")
ENTITY_REFS = b64(
    '<!DOCTYPE results [<!ENTITY x SYSTEM "file:///etc/hostname">]>'
    f"<results><result><Url>{URL}</Url><Ref>&x;</Ref></result></results>"
)


def refs_element(refs: str, declaration: str = "") -> str:
    return f"<Refs {declaration}{BASE64}>{refs}</Refs>"


SHADE = '<x:Color xmlns:x="urn:example:x"><x:shade>Orange</x:shade></x:Color>'


@pytest.mark.parametrize(
    ("markup", "extra"),
    [
        ("<Visited>2005-10-25T11:21:07.5Z</Visited>", None),
        ("<Views>1_000</Views>", None),
        ("<Size>9223372036854775808</Size>", None),
        ('<rid n="1">0<b/>1</rid>\n', Extra("Item/rid", '<rid n="1">0<b/>1</rid>')),
        (SHADE, Extra("Item/{urn:example:x}Color", SHADE)),
        *(
            (
                f"<Refs {BASE64}>{refs}</Refs>",
                Extra("Item/Refs", f"<Refs {DT} {BASE64}>{refs}</Refs>"),
            )
            for refs in (OTHER_REFS, ENTITY_REFS)
        ),
    ],
)
def test_an_element_that_no_field_understands_is_an_extra(markup: str, extra: Extra | None) -> None:
    name = markup[1 : markup.index(">")]
    assert read_one(item(markup)) == added(extras=(extra or Extra(f"Item/{name}", markup),))


def test_an_empty_element_of_an_update_is_kept_because_it_clears_a_field() -> None:
    found = read_one(item("<Category></Category>", type_="U"))
    assert found.extras == (Extra("Item/Category", "<Category/>"),)


def test_long_raw_data_of_an_unknown_element_stays_in_it() -> None:
    raw = f"<RawData {BASE64}>{LONG}</RawData>"
    found = read_one(item(f"<old>{raw}</old><RawData {BASE64}>QUJD</RawData>"))
    assert found == added(content=QUJD, extras=(Extra("Item/old", f"<old {DT}>{raw}</old>"),))


def test_a_second_raw_data_is_an_extra() -> None:
    raw = f"<RawData {BASE64}>QUJD</RawData>"
    assert read_one(item(f"<RawData {BASE64}>{LONG}</RawData>{raw}")) == added(
        content=Content(LONG.encode(), Encoding.BASE64),
        extras=(Extra("Item/RawData", raw.replace("<RawData", f"<RawData {DT}")),),
    )


def test_attributes_of_an_item_and_text_in_it_are_extras() -> None:
    data = document(f'<Item n="1">a<Type>D</Type>b<Url>{URL}</Url></Item>')
    assert read_one(data).extras == (Extra("Item/@n", "1"), Extra("Item/text()", "a b"))


def test_a_bad_item_costs_only_itself() -> None:
    data = document(f"<Item><Type>X</Type></Item><Item><Type>I</Type><Url>{URL}</Url></Item>")
    assert read(data)[1:] == [ADD]


# Rejects


@pytest.mark.parametrize(
    ("data", "code", "reason"),
    [
        (
            document(f"<Item><Url>{URL}</Url></Item>"),
            "no-type",
            "an Item without Type; expected I, D, DP, U or UI",
        ),
        (item("", type_="i"), "unknown-type", "Type 'i'; expected I, D, DP, U or UI"),
        (
            document("<Item><Type>D</Type><Url> </Url></Item>"),
            "no-url",
            "an Item to DELETE without Url; expected one, of text alone",
        ),
        (
            item(f"<Body {BASE64}>dGhl*</Body>"),
            "bad-base64",
            "Body: 5 bytes that are no base64; expected base64",
        ),
        (
            item(f"<RawData {BASE64}>{LONG}!</RawData>"),
            "bad-base64",
            "RawData: 1025 bytes that are no base64; expected base64",
        ),
        *(
            (
                item(f"<Body {BASE64}>{body}</Body><Charset>{charset}</Charset>"),
                "bad-charset",
                f"Body: base64 of {size} bytes that are no text in {charset!r};"
                " expected text in the Charset of its Item",
            )
            for body, charset, size in (
                (b64("Größe", "iso-8859-1"), "UTF-8", 5),
                ("QUJD", "unicode escape", 3),
                (b64("+2AA-"), "UTF-7", 5),
            )
        ),
    ],
)
def test_an_item_that_cannot_be_read_is_a_reject(data: bytes, code: str, reason: str) -> None:
    assert reject_of(data) == (code, reason)


def test_raw_data_over_the_limit_is_a_reject() -> None:
    assert reject_of(item(f"<RawData {BASE64}>{LONG}</RawData>"), max_content_bytes=767) == (
        "content-too-large",
        "768 bytes; expected at most 767 bytes; raise --max-content-bytes to read it",
    )


def test_an_entity_is_a_reject() -> None:
    data = b'<!DOCTYPE x [<!ENTITY x SYSTEM "file:///etc/hostname">]>' + item("<Title>&x;</Title>")
    assert reject_of(data)[0] == "entity"


def test_a_stream_without_a_dataload_document_is_refused() -> None:
    with pytest.raises(FormatError) as caught:
        read(b"<html>deny administration</html>")
    assert str(caught.value) == ":1: root element 'html'; expected <ThunderstoneReplication>"


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


def test_a_document_declares_both_namespaces() -> None:
    assert written().decode() == (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<ThunderstoneReplication xmlns:dt="urn:schemas-microsoft-com:datatypes"'
        ' xmlns:u="http://www.thunderstone.com/ParametricSearch/1.0/">\n'
        "</ThunderstoneReplication>\n"
    )


def test_refs_are_a_document_in_base64() -> None:
    record = added(history=History(references=("http://www.example.com/a",), errors=()))
    refs = encode(record).partition(b'<Refs dt:dt="bin.base64">')[2].partition(b"<")[0]
    assert pybase64.b64decode(refs).decode() == (
        '<results xmlns:dt="urn:schemas-microsoft-com:datatypes"><result>'
        "<Url>http://www.example.com/dir/page.html</Url><Ref>http://www.example.com/a</Ref>"
        "</result></results>"
    )


@pytest.mark.parametrize(
    ("stated", "markup"),
    [
        ({"history": History(errors=())}, f"<Errors {BASE64}></Errors>"),
        (
            {"body": "Größe\f", "charset": "ISO-8859-1"},
            f"<Body {BASE64}>R3L232UM</Body>",
        ),
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


def test_an_update_of_the_search_indexes_is_a_type_alone() -> None:
    record = Record(url="", action=Action.UPDATE_INDEX)
    assert encode(record) == b"<Item><Type>UI</Type></Item>\n"


def test_dates_are_written_in_the_zone_of_the_options() -> None:
    record = added(modified=datetime(2005, 10, 25, 9, 21, 7, tzinfo=UTC))
    assert b"<Modified>2005-10-25 11:21:07</Modified>" in encode(record, zone="Europe/Zurich")


def test_attributes_of_an_item_are_written_with_their_namespaces() -> None:
    extras = (
        Extra("Item/@n", 'a"\n'),
        Extra("Item/@{urn:example:x}y", "2"),
        Extra("Item/@{http://www.w3.org/XML/1998/namespace}lang", "de"),
    )
    assert encode(added(extras=extras)).startswith(
        b'<Item n="a&quot;&#10;" xmlns:a1="urn:example:x" a1:y="2" xml:lang="de"><Type>'
    )


def test_fields_without_an_element_are_left_out() -> None:
    record = added(extras=(Extra("record/@foo", "1"),), crawl=Crawl(lock=True), overwrite_acls=True)
    assert encode(record) == encode(ADD)


# Refusals


def unfit(name: str) -> str:
    return (
        f"metadata {name!r} does not fit on a line of Meta; expected no line end in it and no ': '"
        " in its name"
    )


@pytest.mark.parametrize(
    ("stated", "code", "reason"),
    [
        ({"url": " "}, "no-url", "ADD of a record without url; expected one"),
        (
            {"arrival": Arrival.CRAWLED},
            "crawled",
            "a url to be crawled; expected content: Thunderstone data cannot ask for a fetch",
        ),
        (
            {"fields": (Field("a b", ("1",)),)},
            "bad-field",
            "field 'a b'; expected a letter or _, then letters, digits, _ and -",
        ),
        (
            {"fields": (Field("a", (), many=True),)},
            "bad-field",
            "field 'a' without values; expected one or more",
        ),
        *(
            (
                {"fields": (Field("a", ("1",), namespace=uri),)},
                "bad-field",
                f"field 'a' in the namespace {uri!r}; expected another uri",
            )
            for uri in (
                "",
                "a b",
                "\f",
                "urn:schemas-microsoft-com:datatypes",
                "\ud800",
                "http://[",
            )
        ),
        ({"categories": ("",)}, "bad-category", "category ''; expected a name"),
        (
            {"metadata": (Meta("photo", "", b"\xff\xd8"),)},
            "bad-metadata",
            "metadata 'photo' of 2 bytes that are no text; expected text",
        ),
        *(
            ({"metadata": (Meta(name, value),)}, "bad-metadata", unfit(name))
            for name, value in (("a: b", ""), ("a\nb", ""), ("a: b", "c\nd"))
        ),
        (
            {"history": History(click_ratio=float("nan"))},
            "bad-number",
            "CTR nan; expected a finite number",
        ),
        *(
            (
                {"title": text, "charset": charset},
                "bad-charset",
                f"Title: text that {charset!r} cannot hold; expected a Charset that can",
            )
            for text, charset in (
                ("\x00", "klingon"),
                ("€\x00", "ISO-8859-1"),
                ("\ud800", "UTF-8"),
                ("\x1b$B~", "iso-2022-jp"),
            )
        ),
        *(
            (
                {"extras": (Extra(place, value),)},
                "bad-extra",
                f"extra {place!r}; expected the markup of its element",
            )
            for place, value in (
                ("Item/rid", "<rid>"),
                ("Item/rid", "<Url>http://www.example.com/other</Url>"),
                ("Item/rid", "<rid/><rid/>"),
                ("Item/rid", "</Item><Item>"),
                ("Item/rid", "text<rid/>"),
                ("Item/rid", "<!DOCTYPE rid><rid/>"),
                ("Item/rid", "<rid>\ud800</rid>"),
                ("Item/text()", "\x00"),
            )
        ),
        *(
            (
                {"extras": (Extra(f"Item/@{name}", value),)},
                "bad-extra",
                f"attribute {name!r} of Item; expected what XML can hold",
            )
            for name, value in (
                ("n", "\x00"),
                ('n="1" m', "2"),
                ("xmlns", "u"),
                ("1", "2"),
                ("{u v}n", "1"),
            )
        ),
    ],
)
def test_a_record_that_an_item_cannot_hold_is_refused(
    stated: dict[str, Any], code: str, reason: str
) -> None:
    with pytest.raises(RecordError) as caught:
        encode(added(**stated))
    assert (caught.value.code, caught.value.reason) == (code, reason)
