"""Records and rejects as Avro datums."""

import io
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import fastavro
import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schemas import avro
from schemas.acl import Access, Acl, Principal, Scope
from schemas.errors import RecordError
from schemas.record import (
    Action,
    Anchor,
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
from support.strategies import moments, records, texts

URL = "http://www.example.com/"
BARE = Record(url="u", action=Action.ADD)
DATUM = b"\x02u" + bytes(27)
"""`BARE`: a url of one letter, and nothing else."""


def record(**fields: Any) -> Record:
    return Record(url=URL, action=Action.ADD, **fields)


def builtins(found: Any) -> Any:
    """What fastavro takes: it reads a tuple in a union as a type and its value."""
    if isinstance(found, dict):
        return {name: builtins(value) for name, value in found.items()}
    if isinstance(found, tuple | list):
        return [builtins(part) for part in found]
    return found


def fastavro_datum(found: Record) -> bytes:
    stream = io.BytesIO()
    fields = builtins(msgspec.to_builtins(found, builtin_types=(bytes, datetime)))
    fastavro.schemaless_writer(stream, avro.schema("record"), fields)
    return stream.getvalue()


def reason_of(datum: bytes) -> str:
    with pytest.raises(RecordError) as caught:
        avro.decode(datum)
    return caught.value.reason


def outcome(datum: bytes) -> str:
    try:
        avro.decode(datum)
    except RecordError as exc:
        return exc.code
    return "record"


# There and back


@given(records())
def test_a_record_is_read_back_as_it_was(found: Record) -> None:
    assert avro.decode(avro.encode(found)) == found


@given(records())
def test_a_datum_is_the_one_that_fastavro_writes(found: Record) -> None:
    assert avro.encode(found) == fastavro_datum(found)


def test_a_datum_is_a_byte_for_each_thing_that_is_not_stated() -> None:
    assert avro.encode(BARE) == DATUM


@pytest.mark.parametrize(
    "length", [0, 1, 63, 64, 8191, 8192, 8193, 1_048_575, 1_048_576, 3_000_000]
)
def test_a_text_of_any_length_is_what_fastavro_writes(length: int) -> None:
    found = record(title="x" * length, metadata=(Meta("x" * length, "x" * length),))
    assert avro.encode(found) == fastavro_datum(found)


@pytest.mark.parametrize("length", [0, 1, 8191, 8192, 20_000])
def test_an_array_of_any_length_is_what_fastavro_writes(length: int) -> None:
    found = record(categories=("x",) * length, metadata=(Meta("a", ""),) * length)
    assert avro.encode(found) == fastavro_datum(found)


@given(moments())
@example(datetime(1, 1, 1, tzinfo=UTC))
@example(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC))
@example(datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC))
def test_a_time_keeps_its_microseconds(moment: datetime) -> None:
    assert avro.decode(avro.encode(record(modified=moment))).modified == moment


def test_a_time_in_another_zone_is_the_same_moment_in_utc() -> None:
    moment = datetime(2007, 11, 6, 13, 45, tzinfo=timezone(timedelta(hours=1)))
    read = avro.decode(avro.encode(record(modified=moment))).modified
    assert str(read) == "2007-11-06 12:45:00+00:00"


@pytest.mark.parametrize(
    "fields",
    [
        {"categories": ("", "")},
        {"metadata": (Meta("author", "", b"\xff\x00"), Meta("author", "", b""))},
        {"fields": (Field("a", ()), Field("b", ("",), many=True, namespace=""))},
        {"content": Content(b"", Encoding.ZLIB_BASE64)},
        {"acl": Acl(principals=(Principal(name="", scope=Scope.USER, access=Access.DENY),))},
        {"crawl": Crawl(lock=False, anchors=(Anchor("", ""),), pagerank=-(2**31))},
        {"history": History(references=(), errors=("",), click_ratio=-0.0, views=-(2**63))},
        {"extras": (Extra("record/@x", ""),)},
        {"provenance": Provenance(source="\u00fc", span=2**31 - 1, offset=2**63 - 1, feedtype="")},
    ],
)
def test_what_is_empty_or_extreme_is_kept(fields: dict[str, Any]) -> None:
    found = record(**fields)
    assert (avro.decode(avro.encode(found)), avro.encode(found)) == (found, fastavro_datum(found))


# What Avro cannot hold


@pytest.mark.parametrize(
    "fields",
    [
        {"title": "\ud800"},
        {"mimetype": "\ud800"},
        {"categories": ("\ud800",)},
        {"metadata": (Meta("\ud800", ""),)},
        {"metadata": (Meta("a", "x\ud800"),)},
        {"fields": (Field("\ud800", ()),)},
        {"acl": Acl(inherit_from="\ud800")},
        {"extras": (Extra("a", "\ud800"),)},
        {"provenance": Provenance(source="\ud800")},
        {"provenance": Provenance(datasource="\ud800")},
    ],
)
def test_a_lone_surrogate_is_a_record_error(fields: dict[str, Any]) -> None:
    with pytest.raises(RecordError) as caught:
        avro.encode(record(**fields))
    found = (caught.value.code, caught.value.reason)
    assert found == ("not-unicode", "a lone surrogate U+D800; expected Unicode text")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (
            {"crawl": Crawl(pagerank=2**31)},
            "crawl.pagerank=2147483648; expected -2147483648 to 2147483647",
        ),
        (
            {"crawl": Crawl(feedrank=-(2**31) - 1)},
            "crawl.feedrank=-2147483649; expected -2147483648 to 2147483647",
        ),
        (
            {"size": 2**63},
            "size=9223372036854775808; expected -9223372036854775808 to 9223372036854775807",
        ),
        (
            {"history": History(depth=2**63)},
            "history.depth=9223372036854775808; "
            "expected -9223372036854775808 to 9223372036854775807",
        ),
        (
            {"provenance": Provenance(span=2**31)},
            "provenance.span=2147483648; expected -2147483648 to 2147483647",
        ),
        (
            {"provenance": Provenance(line=2**63)},
            "provenance.line=9223372036854775808; "
            "expected -9223372036854775808 to 9223372036854775807",
        ),
        (
            {"provenance": Provenance(offset=-(2**63) - 1)},
            "provenance.offset=-9223372036854775809; "
            "expected -9223372036854775808 to 9223372036854775807",
        ),
    ],
)
def test_a_number_that_avro_cannot_hold_is_named(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(RecordError) as caught:
        avro.encode(record(**fields))
    assert (caught.value.code, caught.value.reason) == ("out-of-range", reason)


# What is no datum


@pytest.mark.parametrize(
    ("datum", "reason"),
    [
        (b"", "unreadable bytes (EOFError); expected one Avro datum of a record"),
        (DATUM[:-1], "unreadable bytes (EOFError); expected one Avro datum of a record"),
        (DATUM + b"ab", "2 bytes after the datum; expected one Avro datum of a record"),
        (
            b"\x02\xff" + DATUM[2:],
            "unreadable bytes (UnicodeDecodeError); expected one Avro datum of a record",
        ),
        (
            b"\x02u\x7e" + DATUM[3:],
            "unreadable bytes (IndexError); expected one Avro datum of a record",
        ),
        (
            b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            "unreadable bytes (EOFError); expected one Avro datum of a record",
        ),
    ],
    ids=["empty", "torn", "longer", "not-utf-8", "no-such-action", "hostile-length"],
)
def test_bytes_that_are_no_datum_are_a_record_error(datum: bytes, reason: str) -> None:
    assert reason_of(datum) == reason


@given(st.binary(max_size=64))
def test_chance_bytes_are_a_record_or_a_record_error(datum: bytes) -> None:
    assert outcome(datum) in ("record", "bad-avro")


@given(records(), st.data())
def test_a_damaged_datum_is_a_record_or_a_record_error(found: Record, data: st.DataObject) -> None:
    datum = bytearray(avro.encode(found))
    datum[data.draw(st.integers(0, len(datum) - 1))] = data.draw(st.integers(0, 255))
    assert outcome(bytes(datum)) in ("record", "bad-avro")


def test_a_stream_of_datums_is_read_one_by_one() -> None:
    stream = io.BytesIO(avro.encode(BARE) + avro.encode(record(title="second")))
    assert [avro.decode_next(stream).title, avro.decode_next(stream).title] == [None, "second"]


def test_a_datum_of_another_schema_is_resolved() -> None:
    place = {"type": "record", "name": "Provenance", "fields": []}
    named = {"type": "enum", "name": "Action", "symbols": ["DELETE"]}
    fields = [("url", "string"), ("note", "string"), ("action", named), ("provenance", place)]
    written = fastavro.parse_schema(
        {
            "type": "record",
            "name": "Record",
            "fields": [{"name": name, "type": kind} for name, kind in fields],
        }
    )
    found = avro.decode_next(io.BytesIO(b"\x02u\x02x\x00"), written=written)
    assert found == Record(url="u", action=Action.DELETE)


def test_a_datum_of_a_schema_that_cannot_be_resolved_is_a_record_error() -> None:
    written = fastavro.parse_schema(
        {"type": "record", "name": "Record", "fields": [{"name": "url", "type": "long"}]}
    )
    with pytest.raises(RecordError) as caught:
        avro.decode_next(io.BytesIO(b"\x02"), written=written)
    assert (caught.value.code, caught.value.reason) == (
        "other-schema",
        "Schema mismatch: long is not string; expected a schema that Avro resolves into a record",
    )


def test_a_time_without_a_zone_in_another_schema_is_a_record_error() -> None:
    document = avro.schema_document("record")
    local = {"type": "long", "logicalType": "local-timestamp-micros"}
    document["fields"] = [
        {"name": "visited", "type": local} if field["name"] == "visited" else field
        for field in document["fields"]
    ]
    written = fastavro.parse_schema(document)
    stream = io.BytesIO()
    fields = builtins(msgspec.to_builtins(BARE)) | {"visited": datetime(2007, 11, 6, 12, 45)}
    fastavro.schemaless_writer(stream, written, fields)
    stream.seek(0)
    with pytest.raises(RecordError) as caught:
        avro.decode_next(stream, written=written)
    assert caught.value.reason == (
        "a time without a zone, '2007-11-06T12:45:00'; expected one Avro datum of a record"
    )


# Rejects


@given(
    st.builds(
        Reject,
        code=texts(),
        reason=texts(),
        stage=st.sampled_from(("read", "normalize", "adapt", "write")),
        source=texts(),
        span=st.integers(0, 2**31 - 1),
        line=st.integers(0, 2**40),
        offset=st.integers(0, 2**40),
        length=st.integers(0, 2**40),
        url=st.none() | texts(),
        action=st.none() | texts(),
        data=st.binary(max_size=16),
        truncated=st.booleans(),
    )
)
def test_a_reject_is_read_back_as_it_was(found: Reject) -> None:
    assert avro.decode_reject(avro.encode_reject(found)) == found


def test_bytes_that_are_no_reject_are_a_record_error() -> None:
    with pytest.raises(RecordError) as caught:
        avro.decode_reject(b"\x02")
    assert caught.value.reason == "unreadable bytes (EOFError); expected one Avro datum of a reject"


def test_bytes_behind_a_reject_are_a_record_error() -> None:
    datum = avro.encode_reject(Reject(code="a", reason="b", stage="read"))
    with pytest.raises(RecordError) as caught:
        avro.decode_reject(datum + b"x")
    assert caught.value.reason == "1 bytes after the datum; expected one Avro datum of a reject"


# Schemas


@pytest.mark.parametrize("name", ["record", "reject"])
def test_a_schema_is_one_that_fastavro_takes(name: str) -> None:
    assert fastavro.parse_schema(avro.schema_document(name)) == avro.schema(name)
