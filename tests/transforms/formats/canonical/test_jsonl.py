"""JSON lines of canonical records."""

import io
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from feedferry.schemas.acl import Acl, Scope
from feedferry.schemas.errors import RecordError
from feedferry.schemas.membership import Member, Membership
from feedferry.schemas.notice import Notice
from feedferry.schemas.record import (
    Action,
    Content,
    Crawl,
    Encoding,
    History,
    Meta,
    Provenance,
    Record,
)
from feedferry.schemas.reject import Filtered, Reject
from feedferry.schemas.span import Span
from feedferry.testing.strategies import memberships, provenances, records
from feedferry.transforms.conversion.conversion_settings import Settings
from feedferry.transforms.conversion.convert import convert
from feedferry.transforms.formats.base import ReadOptions, ReadResult, WriteOptions, write_all
from feedferry.transforms.formats.canonical import jsonl
from feedferry.transforms.formats.fast_path.elements.singly import singly
from feedferry.transforms.rules.adapt import Target
from support.streams import read_both_ways

MEBIBYTE = 1 << 20
URL = "http://www.example.com/"
PLACE = Provenance(source="feed.xml", span=2, line=30, offset=400)
ONE = b'{"action":"ADD","url":"http://www.example.com/1"}\n'
TWO = b'{"action":"DELETE","url":"http://www.example.com/2"}\n'
BAD = b'{"action":"ADD","url":\n'


def record(**fields: Any) -> Record:
    return Record(url=URL, action=Action.ADD, **fields)


def read(lines: bytes, **options: Any) -> list[Record | Membership | Reject]:
    own = ReadOptions(**options)
    return read_both_ways(lambda stream: results_of(stream, Span(), own), lines)


def results_of(
    stream: IO[bytes], span: Span, options: ReadOptions = ReadOptions()
) -> list[Record | Membership | Reject]:
    """What is read of a span that was cut, one by one."""
    results = singly(jsonl.read(stream, span=span, options=options))
    return [result for result in results if isinstance(result, Record | Membership | Reject)]


def read_one(line: bytes, **options: Any) -> Record | Membership | Reject:
    (result,) = read(line, **options)
    return result


def only_reject(line: bytes, **options: Any) -> Reject:
    result = read_one(line, **options)
    assert isinstance(result, Reject)
    return result


def cut(lines: bytes, span_bytes: int) -> list[Span]:
    cut = partial(jsonl.cut, source="a.jsonl", span_bytes=span_bytes)
    return read_both_ways(cut, lines)


def read_spans(lines: bytes, spans: list[Span]) -> list[Record | Membership | Reject]:
    ends = [None if span.length is None else span.offset + span.length for span in spans]
    parts = [lines[span.offset : end] for span, end in zip(spans, ends, strict=True)]
    results = (results_of(io.BytesIO(part), span) for part, span in zip(parts, spans, strict=True))
    return list(chain.from_iterable(results))


def placeless(results: list[Record | Membership | Reject]) -> list[Record | Membership | Reject]:
    """As if all had been read in one span of no name."""
    return [
        replace(item, source="", span=0)
        if isinstance(item, Reject)
        else replace(item, provenance=replace(item.provenance, source="", span=0))
        for item in results
    ]


# Round trips


PLACED = records(provenance=provenances().filter(lambda place: place != Provenance()))


@given(st.lists(PLACED, max_size=3))
def test_records_survive_a_round_trip(results: list[Record]) -> None:
    stream = io.BytesIO()
    write_all(jsonl.JsonlEncoder(), results, stream)
    assert read(stream.getvalue()) == results


@given(records())
def test_a_line_survives_a_round_trip(item: Record) -> None:
    line = jsonl.line(replace(item, provenance=PLACE))
    assert line.splitlines() == [line.removesuffix(b"\n")]
    assert jsonl.line(read_one(line)) == line


# What is written


@pytest.mark.parametrize(
    ("item", "line"),
    [
        (
            record(title='A "title" & \u00fc\n', metadata=(Meta("a", ""), Meta("b", "", b"\xff"))),
            b'{"action":"ADD","metadata":[{"name":"a","value":""},'
            b'{"data":"/w==","name":"b","value":""}],'
            b'"title":"A \\"title\\" & \xc3\xbc\\n","url":"http://www.example.com/"}\n',
        ),
        (
            record(
                content=Content(b"Zm9v", Encoding.BASE64),
                modified=datetime(2007, 11, 6, 12, 45, 26, 5, UTC),
            ),
            b'{"action":"ADD","content":{"data":"Wm05dg==","encoding":"BASE64"},'
            b'"modified":"2007-11-06T12:45:26.000005Z","url":"http://www.example.com/"}\n',
        ),
        (
            record(acl=Acl(), crawl=Crawl(lock=False), history=History(references=())),
            b'{"acl":{},"action":"ADD","crawl":{"lock":false},"history":{"references":[]},'
            b'"url":"http://www.example.com/"}\n',
        ),
        (
            record(provenance=Provenance(line=3, datasource="hr")),
            b'{"action":"ADD","provenance":{"datasource":"hr","line":3},'
            b'"url":"http://www.example.com/"}\n',
        ),
        (
            Reject(code="bad-xml", reason="x; expected y", stage="read", line=3, data=b"<r"),
            b'{"code":"bad-xml","data":"PHI=","line":3,"reason":"x; expected y","stage":"read"}\n',
        ),
        (
            Membership(group=Member(name="staff", scope=Scope.GROUP)),
            b'{"group":{"name":"staff","scope":"GROUP"}}\n',
        ),
        (
            Filtered(code="up-to-date", url="u", action="ADD"),
            b'{"action":"ADD","code":"up-to-date","url":"u"}\n',
        ),
        (
            Notice(code="delimiter", detail="x; y", offset=3),
            b'{"code":"delimiter","detail":"x; y","offset":3}\n',
        ),
    ],
    ids=["texts", "content", "empty", "provenance", "reject", "membership", "filtered", "notice"],
)
def test_a_line_has_only_fields_without_their_default(item: ReadResult, line: bytes) -> None:
    assert jsonl.line(item) == line


@pytest.mark.parametrize(
    ("stated", "code", "reason"),
    [
        *(
            (
                *({"history": History(click_ratio=float(number))}, "not-finite"),
                f"the number {number}; expected a finite one",
            )
            for number in ("inf", "-inf", "nan")
        ),
        ({"title": "\udfff"}, "not-unicode", "a lone surrogate U+DFFF; expected Unicode text"),
    ],
)
def test_a_value_that_json_cannot_hold_is_refused(
    stated: dict[str, Any], code: str, reason: str
) -> None:
    with pytest.raises(RecordError) as caught:
        jsonl.line(record(**stated))
    assert (caught.value.code, caught.value.reason) == (code, reason)


# Places


def test_a_record_without_a_provenance_gets_its_place() -> None:
    span = Span(source="a.jsonl", ordinal=4, offset=1000, line=50)
    results = jsonl.read(io.BytesIO(ONE + TWO), span=span)
    places = [item.provenance for item in results if isinstance(item, Record)]
    assert places == [
        Provenance(source="a.jsonl", span=4, line=50, offset=1000),
        Provenance(source="a.jsonl", span=4, line=51, offset=1000 + len(ONE)),
    ]


# What is read


def test_empty_lines_are_skipped_and_counted() -> None:
    assert read(b"") == []
    (result,) = jsonl.read(io.BytesIO(b"\n \t\r\n" + ONE))
    assert isinstance(result, Record)
    assert (result.provenance.line, result.provenance.offset) == (3, 5)


@pytest.mark.parametrize(
    "line",
    [
        ONE.removesuffix(b"\n"),
        ONE.replace(b"\n", b"\r\n"),
        b"\xef\xbb\xbf" + ONE,
        b" " + ONE.replace(b":", b" : "),
    ],
    ids=["no-line-end", "carriage-return", "byte-order-mark", "spaces"],
)
def test_lines_are_read_as_editors_write_them(line: bytes) -> None:
    line = line.replace(b"http : ", b"http:")
    result = read_one(line)
    assert isinstance(result, Record)
    assert result.url == "http://www.example.com/1"


@pytest.mark.parametrize(
    ("text", "zone", "moment"),
    [
        ("2007-11-06T12:45:26Z", "UTC", "2007-11-06 12:45:26+00:00"),
        ("2007-11-06T12:45:26.5+02:00", "UTC", "2007-11-06 10:45:26.500000+00:00"),
        ("2007-11-06T12:45:26", "UTC", "2007-11-06 12:45:26+00:00"),
        ("2007-11-06T12:45:26", "Europe/Zurich", "2007-11-06 11:45:26+00:00"),
    ],
)
def test_a_time_is_read_in_utc(text: str, zone: str, moment: str) -> None:
    line = f'{{"action":"ADD","modified":"{text}","url":"u"}}'.encode()
    result = read_one(line, zone=zone)
    assert isinstance(result, Record)
    assert (str(result.modified), result.modified and result.modified.tzinfo) == (moment, UTC)


# Rejects


def test_a_bad_line_costs_only_itself() -> None:
    span = Span(source="a.jsonl", ordinal=4, offset=1000, line=50)
    first, reject, last = jsonl.read(io.BytesIO(ONE + BAD + TWO), span=span)
    assert (type(first), type(last)) == (Record, Record)
    assert reject == Reject(
        code="bad-json",
        reason="Input data was truncated; expected a record in JSON",
        stage="read",
        source="a.jsonl",
        span=4,
        line=51,
        offset=1000 + len(ONE),
        length=len(BAD),
        data=BAD,
    )


BAD_ADDITIONS = {  # behind a url and an action
    b'"tittle":"x"}': "Object contains unknown field `tittle`; a record",
    b'"content":{"data":"*"}}': (
        "unreadable base64 encoded string - at `$.content.data`; a record"
    ),
    b'"title":' + b"[" * 100_000: "Expected `str | null`, got `array` - at `$.title`; a record",
    b'"history":{"click_ratio":1e999}}': (
        "Number out of range - at `$.history.click_ratio`; a record"
    ),
    b'"title":{"group":1}}': "Expected `str | null`, got `object` - at `$.title`; a record",
}
BAD_GROUPS = {  # behind the opening of a group
    b'"name":"staff"}}': "Object missing required field `scope` - at `$.group`; a membership",
    b'"name":"staff","scope":"GROUP"},"url":"u"}': (
        "Object contains unknown field `url`; a membership"
    ),
    b'"name":"staff","scope":"GROUP"}': "Input data was truncated; a record or a membership",
}
NOT_UTF8 = "'utf-8' codec can't decode byte 0xff in position 0: unreadable start byte; a record"
BAD_LINES = {
    b"<gsafeed>": "JSON is malformed: unreadable character (byte 0); a record",
    b'{"url":"u': "Input data was truncated; a record",
    b"[]": "Expected `object`, got `array`; a record",
    b'{"url":"u"}': "Object missing required field `action`; a record",
    b'{"url":"u","action":"add"}': "unreadable enum value 'add' - at `$.action`; a record",
    b'{"url":5,"action":"ADD"}': "Expected `str`, got `int` - at `$.url`; a record",
    b'{"url":"\xff","action":"ADD"}': NOT_UTF8,
    b'{"group":null}': "Expected `object`, got `null` - at `$.group`; a membership",
    **{b'{"url":"u","action":"ADD",' + end: reason for end, reason in BAD_ADDITIONS.items()},
    **{b'{"group":{' + end: reason for end, reason in BAD_GROUPS.items()},
}


@pytest.mark.parametrize(("line", "reason"), BAD_LINES.items(), ids=range(len(BAD_LINES)))
def test_a_line_without_a_record_or_a_membership_is_a_reject(line: bytes, reason: str) -> None:
    reject = only_reject(line)
    problem, _, expected = reason.partition("; ")
    assert (reject.code, reject.reason) == ("bad-json", f"{problem}; expected {expected} in JSON")


@pytest.mark.parametrize(
    ("line", "code", "reason"),
    [
        (
            b'{"action":"ADD","modified":"0001-01-01T00:00:00+12:00","url":"u"}',
            "bad-date",
            "modified='0001-01-01T00:00:00+12:00'; expected a time in UTC",
        ),
        (
            jsonl.line(record(content=Content(b"123456"))),
            "content-too-large",
            "6 bytes; expected at most 5 bytes; raise --max-content-bytes to read it",
        ),
    ],
)
def test_a_record_that_no_writer_could_use_is_a_reject(line: bytes, code: str, reason: str) -> None:
    reject = only_reject(line, max_content_bytes=5)
    assert (reject.code, reject.reason, reject.data) == (code, reason, line)


def test_a_line_over_the_limit_costs_only_itself() -> None:
    long = b"x" * 5_000_000 + b"\n"
    _, reject, last = read(ONE + long + TWO, max_content_bytes=1)
    assert isinstance(last, Record)
    assert reject == Reject(
        code="line-too-long",
        reason="a line of 5000001 bytes; expected at most 4194306; raise --max-content-bytes",
        stage="read",
        line=2,
        offset=len(ONE),
        length=5_000_001,
        data=b"x" * MEBIBYTE,
        truncated=True,
    )


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_line_may_be_as_long_as_the_limit(end: bytes) -> None:
    short = jsonl.line(record(title="x")).removesuffix(b"\n") + end
    line = short.replace(b'"x"', b'"%b"' % (b"x" * (4_194_307 - len(short))))
    assert len(line) == 4_194_306
    assert isinstance(read_one(line, max_content_bytes=1), Record)


@given(st.binary(max_size=60))
def test_random_bytes_raise_nothing(line: bytes) -> None:
    assert len(read(line)) <= 1 + line.count(b"\n")


@given(records(), st.data())
def test_a_damaged_line_costs_only_itself(item: Record, data: st.DataObject) -> None:
    line = bytearray(jsonl.line(item))
    line[data.draw(st.integers(0, len(line) - 2))] = data.draw(st.integers(0, 255))
    urls = [result.url for result in read(ONE + bytes(line) + TWO)]
    assert (urls[0], urls[-1]) == ("http://www.example.com/1", "http://www.example.com/2")


# Spans


def test_spans_are_adjacent() -> None:
    assert cut(ONE + TWO + ONE, len(ONE)) == [
        Span(source="a.jsonl", ordinal=0, offset=0, length=50, line=1),
        Span(source="a.jsonl", ordinal=1, offset=50, length=53, line=2),
        Span(source="a.jsonl", ordinal=2, offset=103, line=3),
    ]


@given(st.lists(st.sampled_from((ONE, TWO, BAD, b"\n", b"\r\n")), max_size=8), st.integers(1, 200))
def test_spans_read_as_the_whole_stream(lines: list[bytes], span_bytes: int) -> None:
    whole = b"".join(lines)
    assert placeless(read_spans(whole, cut(whole, span_bytes))) == read(whole)


# Memberships

STAFF = Membership(
    group=Member(name="staff", scope=Scope.GROUP),
    members=(Member(name="joe", scope=Scope.USER, case_sensitive=False),),
    provenance=PLACE,
)


@given(memberships().filter(lambda item: item.provenance != Provenance()))
def test_a_membership_survives_a_round_trip(membership: Membership) -> None:
    assert read(jsonl.line(membership)) == [membership]


def test_a_membership_without_a_provenance_gets_its_place() -> None:
    (result,) = read(b'\n{"members": [], "group": {"scope": "GROUP", "name": "staff"}}')
    assert result == Membership(
        group=Member(name="staff", scope=Scope.GROUP), provenance=Provenance(line=2, offset=1)
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ('"size":', 1 << 63),
        ('"crawl":{"pagerank":', 1 << 31),
        ('"crawl":{"feedrank":', -(1 << 31) - 1),
        ('"history":{"depth":', 1 << 64),
        ('"history":{"views":', 1 << 63),
        ('"history":{"clicks":', 1 << 63),
        ('"history":{"popularity":', 1 << 63),
        ('"provenance":{"span":', 1 << 31),
        ('"provenance":{"line":', 1 << 63),
        ('"provenance":{"offset":', -(1 << 63) - 1),
    ],
)
def test_a_number_that_the_schema_does_not_hold_is_a_reject(field: str, value: int) -> None:
    end = "}" * (1 + field.count("{"))
    line = f'{{"action":"ADD","url":"{URL}",{field}{value}{end}\n'.encode()
    reject = only_reject(line)
    assert (reject.code, reject.data) == ("bad-json", line)


def test_any_source_of_a_record_is_read(tmp_path: Path) -> None:
    line = (
        b'{"action":"DELETE","url":"http://www.example.com/1","provenance":{"source":"\\u0000"}}\n'
    )
    source = tmp_path / "a.jsonl"
    source.write_bytes(line)
    span = Span(source=str(source), format="jsonl")
    settings = Settings(
        folder=str(tmp_path),
        target=Target(format="avro"),
        reading=ReadOptions(),
        writing=WriteOptions(),
        max_chunk_bytes=MEBIBYTE,
    )
    account = convert(span, settings)
    assert (account.written, account.defects) == ({"DELETE": 1}, {})
