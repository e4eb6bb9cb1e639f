"""Thunderstone dataload XML, there and back, and what is made of the broken."""

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
from transforms.formats.base import ReadOptions, WriteOptions
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


def read(data: bytes, **options: Any) -> list[Record | Reject]:
    limits = msgspec.structs.replace(ReadOptions(), **options)
    return list(map(bare, read_both_ways(partial(dataload.read, options=limits), data)))


def bare(found: Record | Reject) -> Record | Reject:
    """Without its provenance."""
    if isinstance(found, Reject):
        return found
    return msgspec.structs.replace(found, provenance=Provenance())


def read_one(data: bytes, **options: Any) -> Record:
    (found,) = read(data, **options)
    assert isinstance(found, Record)
    return found


def reject_of(data: bytes, **options: Any) -> tuple[str, str]:
    (found,) = read(data, **options)
    assert isinstance(found, Reject)
    return found.code, found.reason


def refusal(record: Record) -> tuple[str, str]:
    with pytest.raises(RecordError) as caught:
        encode(record)
    return caught.value.code, caught.value.reason


def encode(record: Record, *, zone: str = "UTC") -> bytes:
    return ThunderstoneEncoder(WriteOptions(zone=zone)).encode(record)


def written(*found: Record) -> bytes:
    stream = io.BytesIO()
    dataload.write(found, stream)
    return stream.getvalue()


def added(**stated: Any) -> Record:
    return msgspec.structs.replace(ADD, **stated)


# There and back


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
def test_what_was_written_reads_back(found: list[Record]) -> None:
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
def test_whatever_was_read_reads_the_same_when_it_is_written_again(data: bytes) -> None:
    found = [record for record in read(data) if isinstance(record, Record)]
    assert read(written(*found)) == found


@given(st.lists(held_records(), min_size=1, max_size=3), st.integers(1, 400))
def test_spans_read_as_the_whole_does(found: list[Record], span_bytes: int) -> None:
    data = written(*found)
    spans = dataload.cut(io.BytesIO(data), source="", span_bytes=span_bytes)
    assert [bare(record) for span in spans for record in read_span(data, span)] == found


def read_span(data: bytes, span: Span) -> list[Record | Reject]:
    end = None if span.length is None else span.offset + span.length
    return list(dataload.read(io.BytesIO(data[span.offset : end]), span=span))


@given(st.integers(0, 1200))
def test_a_document_that_is_cut_anywhere_raises_nothing_foreign(length: int) -> None:
    raw = f'<RawData dt:dt="bin.base64">{LONG}</RawData>'
    data = item(f"<Title>Gears</Title>{raw}")[:length]
    assert [found for found in read_or_refuse(data) if isinstance(found, Record)] == []


def read_or_refuse(data: bytes) -> list[Record | Reject]:
    try:
        return read(data)
    except FormatError:
        return []


# What is read


def test_the_five_types_are_the_five_actions() -> None:
    items = "".join(
        f"<Item><Type>{type_}</Type><Url>{URL}</Url></Item>"
        for type_ in ("I", "D", "DP", "U", "UI")
    )
    assert [found.action for found in read(document(items)) if isinstance(found, Record)] == [
        Action.ADD,
        Action.DELETE,
        Action.DELETE_PATTERN,
        Action.UPDATE,
        Action.UPDATE_INDEX,
    ]


def test_a_deletion_says_nothing_of_how_content_arrives() -> None:
    assert read_one(item("", type_="D")).arrival is None


def test_an_update_of_the_search_indexes_has_no_url() -> None:
    found = read_one(document("<Item><Type>UI</Type></Item>"))
    assert found == Record(url="", action=Action.UPDATE_INDEX)


def test_a_record_knows_where_it_stood() -> None:
    data = b"<ThunderstoneReplication>\n\n<Item><Type>D</Type><Url>u</Url></Item>"
    span = Span(source="a.xml", ordinal=3, offset=1000, line=50)
    found = next(dataload.read(io.BytesIO(data), span=span))
    assert found == Record(
        url="u",
        action=Action.DELETE,
        provenance=Provenance(source="a.xml", span=3, line=52, offset=1027),
    )


def test_dates_are_read_in_the_zone_of_the_appliance() -> None:
    found = read_one(item("<Modified>2005-10-25 11:21:07</Modified>"), zone="Europe/Zurich")
    assert found.modified == datetime(2005, 10, 25, 9, 21, 7, tzinfo=UTC)


def test_a_date_with_a_fraction_of_a_second_is_kept_as_it_stands() -> None:
    found = read_one(item("<Visited>2005-10-25T11:21:07.5Z</Visited>"))
    assert found.extras == (Extra("Item/Visited", "<Visited>2005-10-25T11:21:07.5Z</Visited>"),)


def test_a_number_that_is_not_understood_is_kept_as_it_stands() -> None:
    found = read_one(item("<Views>1_000</Views>"))
    assert found == added(extras=(Extra("Item/Views", "<Views>1_000</Views>"),))


def test_a_number_beyond_64_bits_is_kept_as_it_stands() -> None:
    found = read_one(item("<Size>9223372036854775808</Size>"))
    assert found == added(extras=(Extra("Item/Size", "<Size>9223372036854775808</Size>"),))


def test_the_largest_number_of_64_bits_is_read() -> None:
    assert read_one(item("<Size>9223372036854775807</Size>")).size == 2**63 - 1


def test_a_line_of_meta_without_separator_is_a_value_without_a_name() -> None:
    found = read_one(item("<Meta>author: Jane\nhttp://www.example.com/\n\n: a: b</Meta>"))
    assert found.metadata == (
        Meta("author", "Jane"),
        Meta("", "http://www.example.com/"),
        Meta("", "a: b"),
    )


def test_an_empty_element_says_nothing_where_all_is_replaced() -> None:
    assert read_one(item("<Meta></Meta><Category/><Size> </Size>")) == ADD


def test_an_empty_element_of_an_update_is_kept_because_it_clears() -> None:
    assert read_one(item("<Category></Category>", type_="U")).extras == (
        Extra("Item/Category", "<Category/>"),
    )


def test_empty_text_is_not_unstated_text() -> None:
    assert read_one(item("<Title></Title>")).title == ""


def test_empty_errors_are_no_errors() -> None:
    assert read_one(item('<Errors dt:dt="bin.base64"></Errors>')).history == History(errors=())


def test_an_empty_raw_data_beside_a_body_is_no_content() -> None:
    assert read_one(item("<Body>b</Body><RawData></RawData>")) == added(body="b")


def test_an_empty_raw_data_alone_is_an_empty_document() -> None:
    assert read_one(item("<RawData></RawData>")).content == Content(b"", Encoding.BASE64)


def test_base64_is_text_in_the_charset_that_its_item_declares_behind_it() -> None:
    body = b64("Größe", "iso-8859-1")
    found = read_one(item(f'<Body dt:dt="bin.base64">{body}</Body><Charset>ISO-8859-1</Charset>'))
    assert found.body == "Größe"


def test_raw_data_is_kept_as_base64_without_white_space() -> None:
    found = read_one(item('<RawData dt:dt="bin.base64">\n  QUJD\r\n  REVG\n</RawData>'))
    assert found.content == Content(b"QUJDREVG", Encoding.BASE64)


def test_long_raw_data_with_references_to_carriage_returns_is_base64() -> None:
    wrapped = f"{LONG[:512]}&#xD;\n{LONG[512:]}"
    found = read_one(item(f'<RawData dt:dt="bin.base64">{wrapped}</RawData>'))
    assert found.content == Content(LONG.encode(), Encoding.BASE64)


def test_raw_data_that_is_not_declared_as_base64_is_the_document() -> None:
    found = read_one(item("<RawData>&lt;p>é</RawData><Charset>ISO-8859-1</Charset>"))
    assert found.content == Content(pybase64.b64encode(b"<p>\xe9"), Encoding.BASE64)


def test_long_raw_data_of_an_unknown_element_stays_in_it() -> None:
    raw = f'<RawData dt:dt="bin.base64">{LONG}</RawData>'
    found = read_one(item(f'<old>{raw}</old><RawData dt:dt="bin.base64">QUJD</RawData>'))
    assert found == added(
        content=Content(b"QUJD", Encoding.BASE64),
        extras=(Extra("Item/old", f"<old {DT}>{raw}</old>"),),
    )


def test_a_second_raw_data_is_kept_as_it_stands() -> None:
    raw = '<RawData dt:dt="bin.base64">QUJD</RawData>'
    found = read_one(item(f'<RawData dt:dt="bin.base64">{LONG}</RawData>{raw}'))
    assert found == added(
        content=Content(LONG.encode(), Encoding.BASE64),
        extras=(Extra("Item/RawData", raw.replace("<RawData", f"<RawData {DT}")),),
    )


def test_refs_and_errors_are_lists_of_texts() -> None:
    results = f"<results {DT}><result><Url>{URL}</Url>{{}}</result></results>"
    refs = b64(results.format("<Ref>http://www.example.com/a</Ref>"))
    errors = b64(results.format("<Reason>Document not found: 404 (Not Found)</Reason>"))
    found = read_one(
        item(f'<Refs dt:dt="bin.base64">{refs}</Refs><Errors dt:dt="bin.base64">{errors}</Errors>')
    )
    assert found.history == History(
        references=("http://www.example.com/a",),
        errors=("Document not found: 404 (Not Found)",),
    )


def test_refs_of_another_url_are_kept_as_they_stand() -> None:
    refs = b64("<results><result><Url>http://other/</Url><Ref>a</Ref></result></results>")
    assert read_one(item(f'<Refs dt:dt="bin.base64">{refs}</Refs>')) == added(
        extras=(Extra("Item/Refs", f'<Refs {DT} dt:dt="bin.base64">{refs}</Refs>'),)
    )


def test_refs_with_an_entity_are_kept_as_they_stand() -> None:
    refs = b64(
        '<!DOCTYPE results [<!ENTITY x SYSTEM "file:///etc/hostname">]>'
        f"<results><result><Url>{URL}</Url><Ref>&x;</Ref></result></results>"
    )
    assert read_one(item(f'<Refs dt:dt="bin.base64">{refs}</Refs>')) == added(
        extras=(Extra("Item/Refs", f'<Refs {DT} dt:dt="bin.base64">{refs}</Refs>'),)
    )


def test_a_set_of_one_value_is_a_set() -> None:
    found = read_one(item("<u:Color><value>Orange</value></u:Color>"))
    assert found.fields == (Field("Color", ("Orange",), many=True),)


def test_a_field_of_another_namespace_keeps_it() -> None:
    found = read_one(item('<x:Color xmlns:x="urn:example:x">Orange</x:Color>'))
    assert found.fields == (Field("Color", ("Orange",), namespace="urn:example:x"),)


def test_an_element_in_a_namespace_with_another_shape_is_no_field() -> None:
    markup = '<x:Color xmlns:x="urn:example:x"><x:shade>Orange</x:shade></x:Color>'
    assert read_one(item(markup)) == added(extras=(Extra("Item/{urn:example:x}Color", markup),))


def test_an_unknown_element_is_kept_with_its_markup() -> None:
    assert read_one(item('<rid n="1">0<b/>1</rid>\n')).extras == (
        Extra("Item/rid", '<rid n="1">0<b/>1</rid>'),
    )


def test_attributes_of_an_item_and_text_in_it_are_kept() -> None:
    data = document(f'<Item n="1">a<Type>D</Type>b<Url>{URL}</Url></Item>')
    assert read_one(data).extras == (Extra("Item/@n", "1"), Extra("Item/text()", "a b"))


def test_a_bad_item_does_not_take_the_next_one_with_it() -> None:
    data = document(f"<Item><Type>X</Type></Item><Item><Type>I</Type><Url>{URL}</Url></Item>")
    assert read(data)[1:] == [ADD]


# What is set aside, in full


def test_an_item_without_type_is_set_aside() -> None:
    assert reject_of(document(f"<Item><Url>{URL}</Url></Item>")) == (
        "no-type",
        "an Item without Type; expected I, D, DP, U or UI",
    )


def test_an_item_of_an_unknown_type_is_set_aside() -> None:
    assert reject_of(item("", type_="i")) == (
        "unknown-type",
        "Type 'i'; expected I, D, DP, U or UI",
    )


def test_an_item_without_url_is_set_aside() -> None:
    assert reject_of(document("<Item><Type>D</Type><Url> </Url></Item>")) == (
        "no-url",
        "an Item to DELETE without Url; expected one, of text alone",
    )


def test_base64_that_is_none_is_set_aside() -> None:
    assert reject_of(item('<Body dt:dt="bin.base64">dGhl*</Body>')) == (
        "bad-base64",
        "Body: 5 bytes that are no base64; expected base64",
    )


def test_long_base64_that_is_none_is_set_aside() -> None:
    assert reject_of(item(f'<RawData dt:dt="bin.base64">{LONG}!</RawData>')) == (
        "bad-base64",
        "RawData: 1025 bytes that are no base64; expected base64",
    )


def test_a_body_that_is_not_in_its_charset_is_set_aside() -> None:
    body = b64("Größe", "iso-8859-1")
    assert reject_of(item(f'<Body dt:dt="bin.base64">{body}</Body>')) == (
        "bad-charset",
        "Body: base64 of 5 bytes that are no text in 'UTF-8'; expected text in the Charset of its"
        " Item",
    )


def test_a_body_in_a_charset_that_is_no_charset_is_set_aside() -> None:
    body = '<Body dt:dt="bin.base64">QUJD</Body><Charset>unicode escape</Charset>'
    assert reject_of(item(body)) == (
        "bad-charset",
        "Body: base64 of 3 bytes that are no text in 'unicode escape'; expected text in the Charset"
        " of its Item",
    )


def test_half_a_surrogate_pair_is_set_aside() -> None:
    body = f'<Body dt:dt="bin.base64">{b64("+2AA-")}</Body><Charset>UTF-7</Charset>'
    assert reject_of(item(body)) == (
        "bad-charset",
        "Body: base64 of 5 bytes that are no text in 'UTF-7'; expected text in the Charset of its"
        " Item",
    )


def test_raw_data_over_the_limit_is_set_aside() -> None:
    raw = f'<RawData dt:dt="bin.base64">{LONG}</RawData>'
    assert reject_of(item(raw), max_content_bytes=767) == (
        "content-too-large",
        "768 bytes; expected at most 767 bytes; raise --max-content-bytes to read it",
    )


def test_an_entity_is_set_aside() -> None:
    data = b'<!DOCTYPE x [<!ENTITY x SYSTEM "file:///etc/hostname">]>' + item("<Title>&x;</Title>")
    assert reject_of(data)[0] == "entity"


def test_a_stream_that_is_no_dataload_document_is_refused() -> None:
    with pytest.raises(FormatError) as caught:
        read(b"<html>deny administration</html>")
    assert str(caught.value) == ":1: root element 'html'; expected <ThunderstoneReplication>"


# What is written


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


def test_no_errors_are_an_empty_element() -> None:
    assert b'<Errors dt:dt="bin.base64"></Errors>' in encode(added(history=History(errors=())))


def test_an_update_of_the_search_indexes_is_a_type_alone() -> None:
    record = Record(url="", action=Action.UPDATE_INDEX)
    assert encode(record) == b"<Item><Type>UI</Type></Item>\n"


def test_text_that_xml_cannot_hold_is_base64_in_its_charset() -> None:
    assert b'<Body dt:dt="bin.base64">R3L232UM</Body>' in encode(
        added(body="Größe\f", charset="ISO-8859-1")
    )


def test_content_without_encoding_is_written_as_base64() -> None:
    assert b'<RawData dt:dt="bin.base64">QUJD</RawData>' in encode(added(content=Content(b"ABC")))


def test_dates_are_written_in_the_zone_of_the_appliance() -> None:
    record = added(modified=datetime(2005, 10, 25, 9, 21, 7, tzinfo=UTC))
    found = encode(record, zone="Europe/Zurich")
    assert b"<Modified>2005-10-25 11:21:07</Modified>" in found


def test_a_ratio_of_more_than_six_decimals_keeps_them() -> None:
    assert b"<CTR>0.3333333333333333</CTR>" in encode(added(history=History(click_ratio=1 / 3)))


def test_seconds_that_are_not_whole_keep_their_fraction() -> None:
    assert b"<Dlsecs>2.75</Dlsecs>" in encode(added(history=History(download_seconds=2.75)))


def test_several_values_are_a_set_even_if_they_are_not_said_to_be() -> None:
    assert b"<u:C><value>1</value><value>2</value></u:C>" in encode(
        added(fields=(Field("C", ("1", "2")),))
    )


def test_a_field_of_another_namespace_declares_it() -> None:
    assert b'<f:C xmlns:f="urn:example:x">1</f:C>' in encode(
        added(fields=(Field("C", ("1",), namespace="urn:example:x"),))
    )


def test_attributes_of_an_item_are_written_with_their_namespaces() -> None:
    extras = (
        Extra("Item/@n", 'a"\n'),
        Extra("Item/@{urn:example:x}y", "2"),
        Extra("Item/@{http://www.w3.org/XML/1998/namespace}lang", "de"),
    )
    assert encode(added(extras=extras)).startswith(
        b'<Item n="a&quot;&#10;" xmlns:a1="urn:example:x" a1:y="2" xml:lang="de"><Type>'
    )


def test_extras_of_other_formats_and_what_has_no_place_are_left_out() -> None:
    record = added(extras=(Extra("record/@foo", "1"),), crawl=Crawl(lock=True), overwrite_acls=True)
    assert encode(record) == encode(ADD)


# What is refused, in full


def test_an_addition_without_url_is_refused() -> None:
    assert refusal(added(url=" ")) == ("no-url", "ADD of a record without url; expected one")


def test_a_url_to_be_crawled_is_refused() -> None:
    assert refusal(added(arrival=Arrival.CRAWLED)) == (
        "crawled",
        "a url to be crawled; expected content: Thunderstone data cannot ask for a fetch",
    )


def test_a_field_name_that_no_profile_has_is_refused() -> None:
    assert refusal(added(fields=(Field("a b", ("1",)),))) == (
        "bad-field",
        "field 'a b'; expected a letter or _, then letters, digits, _ and -",
    )


def test_a_field_without_values_is_refused() -> None:
    assert refusal(added(fields=(Field("a", (), many=True),))) == (
        "bad-field",
        "field 'a' without values; expected one or more",
    )


@pytest.mark.parametrize(
    "uri", ["", "a b", "\f", "urn:schemas-microsoft-com:datatypes", "\ud800", "http://["]
)
def test_a_field_in_a_namespace_that_cannot_be_is_refused(uri: str) -> None:
    assert refusal(added(fields=(Field("a", ("1",), namespace=uri),))) == (
        "bad-field",
        f"field 'a' in the namespace {uri!r}; expected another uri",
    )


def test_a_blank_category_is_refused() -> None:
    assert refusal(added(categories=("",))) == ("bad-category", "category ''; expected a name")


def test_metadata_of_bytes_is_refused() -> None:
    assert refusal(added(metadata=(Meta("photo", "", b"\xff\xd8"),))) == (
        "bad-metadata",
        "metadata 'photo' of 2 bytes that are no text; expected text",
    )


@pytest.mark.parametrize(("name", "value"), [("a: b", ""), ("a\nb", ""), ("a: b", "c\nd")])
def test_metadata_that_does_not_fit_on_a_line_is_refused(name: str, value: str) -> None:
    assert refusal(added(metadata=(Meta(name, value),))) == (
        "bad-metadata",
        f"metadata {name!r} does not fit on a line of Meta; expected no line end in it and no ': '"
        " in its name",
    )


def test_a_number_that_is_none_is_refused() -> None:
    assert refusal(added(history=History(click_ratio=float("nan")))) == (
        "bad-number",
        "CTR nan; expected a finite number",
    )


@pytest.mark.parametrize(
    ("text", "charset"),
    [("\x00", "klingon"), ("€\x00", "ISO-8859-1"), ("\ud800", "UTF-8"), ("\x1b$B~", "iso-2022-jp")],
)
def test_text_that_neither_xml_nor_its_charset_holds_is_refused(text: str, charset: str) -> None:
    assert refusal(added(title=text, charset=charset)) == (
        "bad-charset",
        f"Title: text that {charset!r} cannot hold; expected a Charset that can",
    )


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("Item/rid", "<rid>"),
        ("Item/rid", "<Url>http://www.example.com/other</Url>"),
        ("Item/rid", "<rid/><rid/>"),
        ("Item/rid", "</Item><Item>"),
        ("Item/rid", "text<rid/>"),
        ("Item/rid", "<!DOCTYPE rid><rid/>"),
        ("Item/rid", "<rid>\ud800</rid>"),
        ("Item/text()", "\x00"),
    ],
)
def test_an_extra_that_is_not_what_its_place_says_is_refused(place: str, value: str) -> None:
    assert refusal(added(extras=(Extra(place, value),))) == (
        "bad-extra",
        f"extra {place!r}; expected the markup of its element",
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [("n", "\x00"), ('n="1" m', "2"), ("xmlns", "u"), ("1", "2"), ("{u v}n", "1")],
)
def test_an_attribute_that_xml_cannot_hold_is_refused(name: str, value: str) -> None:
    assert refusal(added(extras=(Extra(f"Item/@{name}", value),))) == (
        "bad-extra",
        f"attribute {name!r} of Item; expected what XML can hold",
    )
