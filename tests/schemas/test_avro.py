"""Records and memberships as Avro datums."""

import io
from datetime import UTC, datetime, timedelta, timezone
from typing import IO, Any

import fastavro
import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from feedferry.schemas import avro
from feedferry.schemas.acl import Access, Acl, Principal, Scope
from feedferry.schemas.avro import long, longs, text, texts
from feedferry.schemas.errors import RecordError
from feedferry.schemas.membership import Member, Membership, RecordOrMembership
from feedferry.schemas.record import (
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
from feedferry.testing.strategies import memberships, moments, records

URL = "http://www.example.com/"
BARE = Record(url="u", action=Action.ADD)
STAFF = Membership(group=Member(name="staff", scope=Scope.GROUP))
RECORD_DATUM = b"\x02u" + bytes(27)
STAFF_DATUM = b"\x0astaff\x02" + bytes(3) + bytes(3) + bytes(6)
LONGS = "expected -9223372036854775808 to 9223372036854775807"
INTS = "expected -2147483648 to 2147483647"


def record(**fields: Any) -> Record:
    return Record(url=URL, action=Action.ADD, **fields)


def builtins(item: Any) -> Any:
    """What fastavro takes: it reads a tuple in a union as a type and its value."""
    if isinstance(item, dict):
        return {name: builtins(value) for name, value in item.items()}
    if isinstance(item, tuple | list):
        return [builtins(part) for part in item]
    return item


def fastavro_datum(item: RecordOrMembership) -> bytes:
    stream = io.BytesIO()
    fields = builtins(msgspec.to_builtins(item, builtin_types=(bytes, datetime)))
    fastavro.schemaless_writer(stream, avro.schema(type(item).__name__.lower()), fields)
    return stream.getvalue()


def decode_next(
    stream: IO[bytes], kind: type[RecordOrMembership], written: Any = None
) -> RecordOrMembership:
    fields = avro.read_fields(stream, kind.__name__.lower(), written=written)
    return avro.convert(fields, kind)


def decode(datum: bytes, kind: type[RecordOrMembership] = Record) -> RecordOrMembership:
    return decode_next(io.BytesIO(datum), kind)


def decode_written(
    schema: Any, fields: dict[str, Any], kind: type[RecordOrMembership] = Record
) -> RecordOrMembership:
    """What is read of a datum of another schema."""
    written = fastavro.parse_schema(schema)
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, written, fields)
    stream.seek(0)
    return decode_next(stream, kind, written)


def outcome(datum: bytes, kind: type[RecordOrMembership] = Record) -> str:
    try:
        return type(decode(datum, kind)).__name__.lower()
    except RecordError as exc:
        return exc.code


def refusal(item: RecordOrMembership) -> tuple[str, str]:
    with pytest.raises(RecordError) as caught:
        avro.encode(item)
    return caught.value.code, caught.value.reason


# There and back


@given(records() | memberships() | moments().map(lambda moment: record(modified=moment)))
@example(record(modified=datetime(1, 1, 1, tzinfo=UTC)))
@example(record(modified=datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)))
@example(record(modified=datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)))
def test_a_datum_is_the_one_that_fastavro_writes_and_is_read_back(item: RecordOrMembership) -> None:
    datum = avro.encode(item)
    assert (datum, decode(datum, type(item))) == (fastavro_datum(item), item)


def test_a_datum_is_a_byte_for_each_field_that_is_not_stated() -> None:
    assert (avro.encode(BARE), avro.encode(STAFF)) == (RECORD_DATUM, STAFF_DATUM)


@pytest.mark.parametrize(
    "length", [0, 1, 63, 64, 8191, 8192, 8193, 1_048_575, 1_048_576, 3_000_000]
)
def test_a_text_of_any_length_is_what_fastavro_writes(length: int) -> None:
    original = record(title="x" * length, metadata=(Meta("x" * length, "x" * length),))
    assert avro.encode(original) == fastavro_datum(original)


@pytest.mark.parametrize("length", [0, 1, 8191, 8192, 20_000])
def test_an_array_of_any_length_is_what_fastavro_writes(length: int) -> None:
    original = record(categories=("x",) * length, metadata=(Meta("a", ""),) * length)
    group = msgspec.structs.replace(STAFF, members=(STAFF.group,) * length)
    assert avro.encode(original) == fastavro_datum(original)
    assert avro.encode(group) == fastavro_datum(group)


def test_a_time_in_another_zone_is_the_same_moment_in_utc() -> None:
    moment = datetime(2007, 11, 6, 13, 45, tzinfo=timezone(timedelta(hours=1)))
    utc = datetime(2007, 11, 6, 12, 45, tzinfo=UTC)
    assert repr(decode(avro.encode(record(modified=moment)))) == repr(record(modified=utc))


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
def test_empty_and_extreme_values_are_kept(fields: dict[str, Any]) -> None:
    original = record(**fields)
    assert (decode(avro.encode(original)), avro.encode(original)) == (
        original,
        fastavro_datum(original),
    )


# What Avro cannot hold


@pytest.mark.parametrize(
    "item",
    [
        *(record(**{name: "\ud800"}) for name in ("title", "mimetype")),
        record(categories=("\ud800",)),
        record(metadata=(Meta("\ud800", ""),)),
        record(metadata=(Meta("a", "x\ud800"),)),
        record(fields=(Field("\ud800", ()),)),
        record(acl=Acl(inherit_from="\ud800")),
        record(extras=(Extra("a", "\ud800"),)),
        record(provenance=Provenance(source="\ud800")),
        record(provenance=Provenance(datasource="\ud800")),
        Membership(group=Member(name="\ud800", scope=Scope.GROUP)),
    ],
)
def test_a_lone_surrogate_is_a_record_error(item: RecordOrMembership) -> None:
    assert refusal(item) == ("not-unicode", "a lone surrogate U+D800; expected Unicode text")


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (record(crawl=Crawl(pagerank=2**31)), f"crawl.pagerank=2147483648; {INTS}"),
        (record(crawl=Crawl(feedrank=-(2**31) - 1)), f"crawl.feedrank=-2147483649; {INTS}"),
        (record(size=2**63), f"size=9223372036854775808; {LONGS}"),
        (record(history=History(depth=2**63)), f"history.depth=9223372036854775808; {LONGS}"),
        (record(provenance=Provenance(span=2**31)), f"provenance.span=2147483648; {INTS}"),
        (
            msgspec.structs.replace(STAFF, provenance=Provenance(offset=-(2**63) - 1)),
            f"provenance.offset=-9223372036854775809; {LONGS}",
        ),
    ],
)
def test_a_number_that_avro_cannot_hold_is_named(item: RecordOrMembership, reason: str) -> None:
    assert refusal(item) == ("out-of-range", reason)


# Other bytes


@pytest.mark.parametrize(
    ("datum", "kind", "problem"),
    [
        (b"", Record, "EOFError"),
        (RECORD_DATUM[:-1], Record, "EOFError"),
        (STAFF_DATUM[:-1], Membership, "EOFError"),
        (b"\x02\xff" + RECORD_DATUM[2:], Record, "UnicodeDecodeError"),
        (b"\x02u\x7e" + RECORD_DATUM[3:], Record, "IndexError"),
        (b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", Record, "EOFError"),
    ],
    ids=["empty", "torn", "torn-membership", "not-utf-8", "no-such-action", "hostile-length"],
)
def test_bytes_that_are_no_datum_are_a_record_error(
    datum: bytes, kind: type[RecordOrMembership], problem: str
) -> None:
    with pytest.raises(RecordError) as caught:
        decode(datum, kind)
    expected = f"expected one Avro datum of a {kind.__name__.lower()}"
    assert caught.value.reason == f"unreadable bytes ({problem}); {expected}"


@given(st.binary(max_size=64))
def test_random_bytes_are_a_datum_or_a_record_error(datum: bytes) -> None:
    assert outcome(datum) in ("record", "bad-avro")
    assert outcome(datum, Membership) in ("membership", "bad-avro")


@given(records(), st.data())
def test_a_damaged_datum_is_a_record_or_a_record_error(item: Record, data: st.DataObject) -> None:
    datum = bytearray(avro.encode(item))
    datum[data.draw(st.integers(0, len(datum) - 1))] = data.draw(st.integers(0, 255))
    assert outcome(bytes(datum)) in ("record", "bad-avro")


def test_datums_of_a_stream_are_read_one_by_one() -> None:
    stream = io.BytesIO(avro.encode(BARE) + avro.encode(STAFF))
    assert (decode_next(stream, Record), decode_next(stream, Membership)) == (BARE, STAFF)


# Other schemas


def record_schema(of: str, /, **fields: Any) -> dict[str, Any]:
    """A schema of that name whose fields have these types."""
    stated = [{"name": field, "type": kind} for field, kind in fields.items()]
    return {"type": "record", "name": of, "fields": stated}


def test_datums_of_smaller_schemas_are_resolved() -> None:
    action = {"type": "enum", "name": "Action", "symbols": ["DELETE"]}
    place = record_schema("Provenance")
    document = record_schema("Record", url="string", note="string", action=action, provenance=place)
    fields: dict[str, Any] = {"url": "u", "note": "x", "action": "DELETE", "provenance": {}}
    assert decode_written(document, fields) == Record(url="u", action=Action.DELETE)

    scope = {"type": "enum", "name": "Scope", "symbols": ["GROUP", "USER"]}
    member = record_schema("Member", name="string", scope=scope)
    members = {"type": "array", "items": "Member"}
    group = record_schema("Membership", group=member, members=members)
    fields = {"group": {"name": "staff", "scope": "GROUP"}, "members": []}
    assert decode_written(group, fields, Membership) == STAFF


@pytest.mark.parametrize(
    ("document", "fields", "kind"),
    [
        (record_schema("Record", url="long"), {"url": 1}, Record),
        (
            record_schema("Membership", group=record_schema("Member", name="string")),
            {"group": {"name": "staff"}},
            Membership,
        ),
    ],
)
def test_a_schema_that_cannot_be_resolved_is_a_record_error(
    document: dict[str, Any], fields: dict[str, Any], kind: type[RecordOrMembership]
) -> None:
    with pytest.raises(RecordError) as caught:
        decode_written(document, fields, kind)
    expected = f"; expected a schema that Avro resolves into a {kind.__name__.lower()}"
    assert (caught.value.code, caught.value.reason.endswith(expected)) == ("other-schema", True)


def test_a_time_without_a_zone_in_another_schema_is_a_record_error() -> None:
    document = avro.schema_document("record")
    local = {"type": "long", "logicalType": "local-timestamp-micros"}
    document["fields"] = [
        {"name": "visited", "type": local} if field["name"] == "visited" else field
        for field in document["fields"]
    ]
    fields = builtins(msgspec.to_builtins(BARE)) | {"visited": datetime(2007, 11, 6, 12, 45)}
    with pytest.raises(RecordError) as caught:
        decode_written(document, fields)
    assert caught.value.reason == (
        "a time without a zone, '2007-11-06T12:45:00'; expected one Avro datum of a record"
    )


# Numbers


@given(st.integers(-(2**63), 2**63 - 1))
@example(-1)
@example(63)
@example(64)
@example(2**13 - 1)
@example(2**13)
@example(2**27 - 1)
@example(2**27)
@example(-(2**27) - 1)
def test_a_number_of_any_size_is_what_fastavro_writes(number: int) -> None:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, "long", number)
    assert long(number) == stream.getvalue()


_EDGES = [edge + by for bits in (13, 27, 41, 55) for edge in (0, 1 << bits) for by in (-1, 0, 1)]


@given(st.lists(st.sampled_from(_EDGES) | st.integers(-(1 << 62), 1 << 62), min_size=1))
@example(numbers=[0, 1 << 13, (1 << 27) - 1])
@example(numbers=[1 << 41, (1 << 55) - 1])
def test_many_longs_are_encoded_as_each(numbers: list[int]) -> None:
    assert longs(numbers) == [*map(long, numbers)]


@given(st.lists(st.text() | st.just("x" * 9000), max_size=3))
def test_many_texts_are_encoded_as_each(values: list[str]) -> None:
    assert texts([value.encode() for value in values]) == [*map(text, values)]
