"""Avro container files of canonical records."""

import io
import zlib
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from typing import IO, Any

import fastavro
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedferry.schemas import avro as datums
from feedferry.schemas.acl import Scope
from feedferry.schemas.avro import long
from feedferry.schemas.errors import FormatError, RecordError
from feedferry.schemas.membership import Member, Membership
from feedferry.schemas.record import Action, Content, Provenance, Record
from feedferry.schemas.reject import Reject
from feedferry.schemas.span import ContainerHeader, Span, SpanEnd
from feedferry.testing.strategies import memberships, records
from feedferry.transforms.formats.base import ReadOptions, WriteOptions
from feedferry.transforms.formats.canonical import avro
from feedferry.transforms.formats.canonical.avro import RECORD, our_sync
from support.streams import read_both_ways

ENCODER = avro.AvroEncoder()
HEADER = ENCODER.prolog()
SYNC = our_sync(RECORD)
MEBIBYTE = 1 << 20
PLACE = Provenance(source="feed.xml", span=2, line=30, offset=400, datasource="hr", feedtype="full")
SIX = tuple(
    Record(url=f"http://www.example.com/{n}", action=Action.ADD, title="x" * n, provenance=PLACE)
    for n in range(6)
)


def block(*results: Record) -> bytes:
    return ENCODER.frame([ENCODER.encode(record) for record in results])


BLOCKS = (block(*SIX[0:2]), block(*SIX[2:4]), block(*SIX[4:6]))
STARTS = (len(HEADER), len(HEADER) + len(BLOCKS[0]), len(HEADER) + len(BLOCKS[0]) + len(BLOCKS[1]))
CONTAINER = HEADER + b"".join(BLOCKS)


def read(container: bytes, **options: Any) -> list[Any]:
    return read_both_ways(partial(avro.read, options=ReadOptions(**options)), container)


def written(*results: Record) -> bytes:
    return HEADER + block(*results)


def by_fastavro(*results: Record, codec: str) -> bytes:
    stream = io.BytesIO()
    fields = [msgspec.to_builtins(record, builtin_types=(bytes, datetime)) for record in results]
    fastavro.writer(
        stream, datums.schema("record"), fields, codec=codec, sync_interval=1, sync_marker=SYNC
    )
    return stream.getvalue()


def read_spans(container: bytes, spans: list[Span]) -> Iterator[Any]:
    """The results of spans, each of which ends where it was cut."""
    ends = []
    for span in spans:
        stated = span
        if isinstance(span.position, ContainerHeader):
            header = ContainerHeader(span.position.length, container[: span.position.length])
            stated = msgspec.structs.replace(span, position=header)
        for result in avro.read(io.BytesIO(container[span.offset :]), span=stated):
            if isinstance(result, SpanEnd):
                ends.append(msgspec.structs.replace(span.next(result), length=None))
            else:
                yield result
    assert ends == [msgspec.structs.replace(span, length=None) for span in spans[1:]]


def cut(container: bytes, span_bytes: int = 1) -> list[Span]:
    return list(avro.cut(io.BytesIO(container), source="a.avro", span_bytes=span_bytes))


def only_reject(container: bytes, **options: Any) -> Reject:
    (reject,) = (item for item in read(container, **options) if isinstance(item, Reject))
    return reject


def urls(results: list[Record | Membership | Reject]) -> str:
    """The last letters of the urls that were read, and ! for a reject."""
    return "".join("!" if isinstance(item, Reject) else item.url[-1] for item in results)


# Round trips


@given(st.lists(records(), max_size=3))
def test_records_survive_a_round_trip(results: list[Record]) -> None:
    assert read(written(*results)) == results


def test_fastavro_reads_our_containers() -> None:
    container = fastavro.reader(io.BytesIO(CONTAINER))
    assert [fields["url"] for fields in container] == [record.url for record in SIX]  # type: ignore[call-overload,index]  # fastavro's stubs do not know the schema


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_every_codec_is_read(codec: str) -> None:
    assert read(by_fastavro(*SIX, codec=codec)) == list(SIX)


# Spans


@pytest.mark.parametrize("codec", ["null", "deflate"])
@pytest.mark.parametrize("span_bytes", [1, 100, 300, 1_000_000])
def test_spans_read_as_the_whole_container(codec: str, span_bytes: int) -> None:
    container = by_fastavro(*SIX, codec=codec)
    assert list(read_spans(container, cut(container, span_bytes))) == list(SIX)


def test_spans_are_adjacent_and_need_the_header() -> None:
    first = Span(source="a.avro", grid=1, length=STARTS[1])
    second = Span(
        source="a.avro",
        ordinal=STARTS[1],
        offset=STARTS[1],
        length=len(BLOCKS[1]),
        grid=1,
        position=ContainerHeader(len(HEADER)),
    )
    third = msgspec.structs.replace(second, ordinal=STARTS[2], offset=STARTS[2], length=None)
    assert cut(CONTAINER) == [first, second, third]


def test_a_border_is_the_first_block_from_a_multiple_of_the_grid_on() -> None:
    for span_bytes in (STARTS[1] - 1, STARTS[1], STARTS[1] + 1):
        ends = [start for start in STARTS[1:] if start >= span_bytes][:1]
        assert [span.offset for span in cut(CONTAINER, span_bytes)] == [0, *ends]


@pytest.mark.parametrize(("container", "span_bytes"), [(CONTAINER, 1_000_000), (HEADER, 1)])
def test_a_small_container_is_one_span(container: bytes, span_bytes: int) -> None:
    assert cut(container, span_bytes) == [Span(source="a.avro", grid=span_bytes)]


def test_the_block_after_a_damaged_one_may_begin_a_span() -> None:
    damaged = HEADER + BLOCKS[0] + b"\x80" * 10 + BLOCKS[1] + BLOCKS[2]
    spans = cut(damaged)
    assert [span.offset for span in spans] == [0, STARTS[1], STARTS[2] + 10]
    assert urls(list(read_spans(damaged, spans))) == "01!45"


def test_a_damaged_length_beyond_the_next_border_is_rejected_as_in_one_span() -> None:
    longer = long(2) + long(len(BLOCKS[1]) + 200) + BLOCKS[1][3:]
    damaged = HEADER + BLOCKS[0] + longer + BLOCKS[2] + BLOCKS[0]
    rejects = [item for item in read_spans(damaged, cut(damaged)) if isinstance(item, Reject)]
    assert [item.reason for item in rejects] == [only_reject(damaged).reason]


def test_a_sync_marker_in_a_content_does_not_end_a_block() -> None:
    nested = msgspec.structs.replace(SIX[0], content=Content(CONTAINER))
    container = HEADER + block(nested) + block(SIX[1])
    assert list(read_spans(container, cut(container))) == [nested, SIX[1]]


# Damage


@pytest.mark.parametrize(
    "read_or_cut",
    [
        lambda stream: avro.read(stream, span=Span(source="a.avro")),
        lambda stream: avro.cut(stream, source="a.avro", span_bytes=1),
    ],
)
def test_another_file_is_a_format_error(
    read_or_cut: Callable[[IO[bytes]], Iterator[object]],
) -> None:
    with pytest.raises(FormatError) as caught:
        list(read_or_cut(io.BytesIO(b"<gsafeed>")))
    assert str(caught.value) == (
        r"a.avro: b'<gsa'; expected an Avro container, which begins with b'Obj\x01'"
    )


def test_a_damaged_record_costs_the_rest_of_its_block() -> None:
    datum = ENCODER.encode(SIX[3])
    offset = CONTAINER.index(datum)
    damaged = CONTAINER.replace(datum, b"\xff" + datum[1:])
    stream = io.BytesIO(damaged[STARTS[1] :])
    header = ContainerHeader(len(HEADER), HEADER)
    span = Span(source="a.avro", ordinal=1, offset=STARTS[1], position=header)
    record, reject, *others = avro.read(stream, span=span)
    assert [record, *others] == [SIX[2], *SIX[4:]]
    assert reject == Reject(
        code="bad-avro",
        reason="unreadable bytes (EOFError); expected one Avro datum of a record",
        stage="read",
        source="a.avro",
        span=1,
        offset=offset,
        length=len(datum),
        data=b"\xff" + datum[1:],
    )


JUNK = b"\x80" * 10
HOSTILE = long(2) + long(1 << 62) + BLOCKS[1][3:]
TOO_LONG = long(2) + long(1 << 20) + BLOCKS[1][3:]
DATUM = ENCODER.encode(SIX[0])
SHORT = long(1 << 40) + long(len(DATUM)) + DATUM + SYNC


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        pytest.param(
            CONTAINER[: STARTS[1] - 1] + b"?" + CONTAINER[STARTS[1] :], "012345", id="marker"
        ),
        pytest.param(HEADER + BLOCKS[0] + JUNK + BLOCKS[1] + BLOCKS[2], "01!45", id="junk"),
        pytest.param(HEADER + BLOCKS[0] + HOSTILE + BLOCKS[2], "01!45", id="hostile-size"),
        pytest.param(HEADER + BLOCKS[0] + TOO_LONG + BLOCKS[2], "01!45", id="size-over-the-end"),
        pytest.param(CONTAINER[: -len(SYNC) - 1], "01234!", id="torn-record"),
        pytest.param(CONTAINER[:-1], "012345", id="torn-marker"),
        pytest.param(HEADER + SHORT, "0!", id="fewer-records"),
    ],
)
def test_damage_costs_at_most_its_block(container: bytes, expected: str) -> None:
    assert urls(read(container)) == expected


def test_the_reject_of_a_damaged_block_holds_the_whole_block() -> None:
    reject = only_reject(HEADER + BLOCKS[0] + JUNK + BLOCKS[1] + BLOCKS[2])
    assert (reject.offset, reject.data, reject.length) == (
        STARTS[1],
        JUNK + BLOCKS[1],
        10 + len(BLOCKS[1]),
    )


def test_a_block_over_the_limit_is_a_reject() -> None:
    reject = only_reject(HEADER + HOSTILE)
    assert (reject.code, reject.reason) == (
        "block-too-large",
        "a block of 2 records in 4611686018427387904 bytes; expected at most 35651584 bytes; "
        "raise --max-content-bytes",
    )


def test_bytes_after_the_records_of_a_block_are_a_reject() -> None:
    longer = long(1) + long(len(DATUM) + 3) + DATUM + b"abc" + SYNC
    reject = only_reject(HEADER + longer)
    assert (reject.code, reject.reason, reject.data) == (
        "bad-block",
        "3 bytes after 1 records; expected none",
        b"abc",
    )


def test_a_packed_block_that_is_damaged_costs_itself() -> None:
    container = by_fastavro(*SIX, codec="deflate")
    start = container.index(SYNC, len(HEADER) - 1000) + len(SYNC)
    damaged = container[: start + 6] + b"\xff\xff\xff\xff" + container[start + 10 :]
    assert urls(read(damaged)) == "!12345"


def test_the_reject_of_a_packed_record_has_the_place_of_its_block() -> None:
    datum = ENCODER.encode(SIX[0])
    packer = zlib.compressobj(wbits=-15)
    packed = packer.compress(datum + b"\xff") + packer.flush()
    header = by_fastavro(codec="deflate")
    container = header + long(2) + long(len(packed)) + packed + SYNC
    reject = only_reject(container)
    assert (reject.offset, reject.length, reject.data) == (len(header) + 2, len(packed), b"\xff")


def test_a_reject_keeps_a_mebibyte_of_a_large_block() -> None:
    large = block(msgspec.structs.replace(SIX[0], body="x" * 3 * MEBIBYTE))
    reject = only_reject(HEADER + b"\x80" * 10 + large)
    assert (reject.length, len(reject.data), reject.truncated) == (len(large) + 10, MEBIBYTE, True)


@given(st.integers(STARTS[0], len(CONTAINER) - 1), st.integers(1, 255))
def test_a_damaged_byte_costs_at_most_its_block(at: int, change: int) -> None:
    damaged = bytearray(CONTAINER)
    damaged[at] ^= change
    results = read(bytes(damaged))
    hit = sum(at >= start for start in STARTS) - 1
    others = SIX[: 2 * hit] + SIX[2 * hit + 2 :]
    assert [record for record in others if record not in results] == []


@given(st.integers(STARTS[0], len(CONTAINER)))
def test_the_records_before_a_torn_end_are_read(end: int) -> None:
    whole = [record for record in SIX if CONTAINER.index(ENCODER.encode(record)) < end]
    results = [record for record in read(CONTAINER[:end]) if isinstance(record, Record)]
    assert results == whole[: len(results)]
    assert len(whole) - len(results) <= 1


@given(st.integers(0, STARTS[0] - 1), st.integers(0, 255))
def test_a_damaged_header_raises_only_a_format_error(at: int, byte: int) -> None:
    damaged = bytearray(CONTAINER)
    damaged[at] = byte
    try:
        results = len(read(bytes(damaged)))
    except FormatError:
        results = 0
    assert results <= 6


@given(st.binary(max_size=60))
def test_random_bytes_after_a_header_raise_nothing(junk: bytes) -> None:
    assert read(HEADER + junk + BLOCKS[0])[-1:] != []


# Contents


def test_a_content_over_the_limit_costs_its_record() -> None:
    large = msgspec.structs.replace(SIX[1], content=Content(b"123456"))
    datum = ENCODER.encode(large)
    container = HEADER + block(SIX[0], large, SIX[2])
    assert urls(read(container, max_content_bytes=5)) == "0!2"
    assert only_reject(container, max_content_bytes=5) == Reject(
        code="content-too-large",
        reason="6 bytes; expected at most 5 bytes; raise --max-content-bytes to read it",
        stage="read",
        offset=container.index(datum),
        length=len(datum),
        url="http://www.example.com/1",
        action="ADD",
        data=datum,
    )


# Other schemas


def other_container(field: str, kind: Any, *values: Any) -> bytes:
    """A container whose schema has another type for one field, and a record for each value."""
    document = datums.schema_document("record")
    document["fields"] = [
        {"name": field, "type": kind} if item["name"] == field else item
        for item in document["fields"]
    ]
    fields = msgspec.to_builtins(SIX[1], builtin_types=(bytes, datetime))
    stream = io.BytesIO()
    fastavro.writer(
        stream, fastavro.parse_schema(document), [fields | {field: value} for value in values]
    )
    return stream.getvalue()


def test_a_container_with_a_schema_that_avro_resolves_is_read() -> None:
    (result,) = read(other_container("title", "string", "other"))
    assert result == msgspec.structs.replace(SIX[1], title="other")


def test_a_container_with_a_schema_that_avro_cannot_resolve_is_a_format_error() -> None:
    stream = io.BytesIO(other_container("url", "long", 5))
    with pytest.raises(FormatError) as caught:
        list(avro.read(stream, span=Span(source="a.avro")))
    assert str(caught.value) == (
        "a.avro: Schema mismatch: long is not string; expected a schema that Avro resolves into a "
        "record"
    )


def test_a_value_that_avro_cannot_resolve_is_a_reject() -> None:
    results = read(other_container("title", ["null", "string", "long"], "other", 5))
    assert urls(results) == "1!"


# Memberships

STAFF = Membership(
    group=Member(name="staff", scope=Scope.GROUP),
    members=(Member(name="joe", scope=Scope.USER),),
    provenance=PLACE,
)
OF_MEMBERSHIPS = avro.AvroEncoder(WriteOptions(memberships=True))


def container_of_memberships(*results: Membership) -> bytes:
    encoded = [OF_MEMBERSHIPS.encode(membership) for membership in results]
    return OF_MEMBERSHIPS.prolog() + OF_MEMBERSHIPS.frame(encoded)


def refusal(encoder: avro.AvroEncoder, item: Record | Membership) -> tuple[str, str]:
    with pytest.raises(RecordError) as caught:
        encoder.encode(item)
    return caught.value.code, caught.value.reason


@given(st.lists(memberships(), max_size=3))
def test_memberships_survive_a_round_trip(results: list[Membership]) -> None:
    assert read(container_of_memberships(*results)) == results


def test_a_membership_that_is_damaged_costs_the_rest_of_its_block() -> None:
    container = bytearray(container_of_memberships(STAFF, STAFF))
    place = container.rindex(b"\x0astaff")
    container[place] = 0x7F
    first, reject = read(bytes(container))
    assert first == STAFF
    assert isinstance(reject, Reject)
    assert reject.reason.endswith("; expected one Avro datum of a membership")


def test_a_container_takes_records_or_memberships() -> None:
    assert refusal(OF_MEMBERSHIPS, SIX[0]) == (
        "not-a-membership",
        "a record, 'http://www.example.com/0'; "
        "expected a group and its members, as all of a container",
    )
    assert refusal(ENCODER, STAFF) == (
        "not-a-record",
        "a group and its members, 'staff'; expected a record, as all of a container",
    )
