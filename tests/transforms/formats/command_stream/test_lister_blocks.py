"""Listings by blocks and by spans, compared with reading the whole command by command."""

import io
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import IO, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from feedferry.schemas.errors import FormatError, UnavailableError
from feedferry.schemas.notice import Notice
from feedferry.schemas.record import Action, Arrival, Crawl, Provenance, Record
from feedferry.schemas.reject import Reject
from feedferry.schemas.span import Span, TokenState
from feedferry.transforms.formats import Docids, StreamOptions
from feedferry.transforms.formats.base import ReadOptions, WriteOptions
from feedferry.transforms.formats.command_stream import lister
from feedferry.transforms.formats.command_stream.stream_documents import DocumentReader
from feedferry.transforms.formats.command_stream.tokens import BLOCK_BYTES
from feedferry.transforms.formats.command_stream.writer import ListerEncoder
from feedferry.transforms.formats.fast_path.columns.record_batch import RecordBatch
from feedferry.transforms.formats.fast_path.elements.singly import singly
from support.command_streams import HEADER, MODES
from support.stream_strategies import listings
from support.streams import slow

USUAL = (
    *("id=a", "id=b", "id=c=d", "id=", "id=\u00e9", "id=id=x", "id-list", "", "", "x", "lock"),
    *("last-modified=0", "last-modified=1312387643", "crawl-once", "crawl-immediately", "delete"),
)
UNUSUAL = (
    *("last-modified=-5", "last-modified=+5", "last-modified=99999999999", "lock=false", "id=a\r"),
    *("last-modified=253402300800", "last-modified=007", "what=ever", "id", "id=\udcff", "\udcff"),
    *("result-link=http://e.com/", "id=\udcc0\udc80", "ID=a", "xid=a", "what=id=", "id-list=x"),
    *("last-modified=20110803 16:07:23", "meta-name=a", "meta-value=b"),
)
TOKENS = st.lists(st.sampled_from(USUAL + UNUSUAL) | st.sampled_from(USUAL), max_size=30)
DELIMITERS = st.sampled_from(["\n", "\0", "~", "*", ".", "^"])
OUTSIDE = TokenState(b"\n", is_in_list=False)
IN_LIST = TokenState(b"\n", is_in_list=True)


def stream_of(tokens: Iterable[str], delimiter: str = "\n") -> bytes:
    body = delimiter.join(tokens).encode(errors="surrogateescape")
    return f"GSA Adaptor Data Version 1 [{delimiter}]{delimiter}".encode() + body


def read(stream: IO[bytes], is_strict: bool, span: Span = Span(source="ids")) -> list[Any]:
    """The results without their span, and the error that ends them."""
    results: list[Any] = []
    try:
        results += lister.read(
            stream, span=span, options=ReadOptions(own=(StreamOptions(strict=is_strict),))
        )
    except (FormatError, UnavailableError) as exc:
        results.append(str(exc))
    return [unspanned(item) for item in results]


def unspanned(value: Any) -> Any:
    if isinstance(value, Record):
        return replace(value, provenance=replace(value.provenance, span=0))
    return replace(value, span=0) if isinstance(value, Notice | Reject) else value


def read_by_commands(data: bytes, is_strict: bool) -> list[Any]:
    results: list[Any] = []
    span, options = Span(source="ids"), ReadOptions(own=(StreamOptions(strict=is_strict),))
    reader = DocumentReader(io.BytesIO(data), span, options, is_listing=True)
    try:
        results += reader.open()
        for command in reader.commands:
            results += reader.take(command)
        results += reader.finish(reader.commands.offset)
    except (FormatError, UnavailableError) as exc:
        results.append(str(exc))
    return results


def parse(block: bytes, offset: int, *, in_list: bool = False) -> list[Any] | None:
    """The records that are read at once, if they are."""
    docids, span = Docids(template="x:{id}"), Span(source="ids", ordinal=2)
    options = ReadOptions(own=(StreamOptions(docids=docids),))
    reader = DocumentReader(io.BytesIO(), span, options, is_listing=True)
    reader.commands.separate(b"\n")
    reader.commands.in_list = in_list
    records = lister.BlockReader(reader, span, options).parse(block, offset)
    assert records is None or not any(isinstance(record, RecordBatch) for record in records)
    return records


def cut(data: bytes, span_bytes: int) -> list[Span]:
    return list(lister.cut(io.BytesIO(data), source="ids", span_bytes=span_bytes))


def read_spans(data: bytes, span_bytes: int, is_strict: bool) -> list[Any]:
    results = []
    for span in cut(data, span_bytes):
        end = None if span.length is None else span.offset + span.length
        results += read(io.BytesIO(data[span.offset : end]), is_strict, span)
    return results


# Blocks


@MODES
@given(tokens=TOKENS, read_bytes=st.integers(1, 50))
def test_a_listing_is_read_as_command_by_command(
    is_strict: bool, tokens: list[str], read_bytes: int
) -> None:
    data = stream_of(tokens)
    expected = read_by_commands(data, is_strict)
    assert read(io.BytesIO(data), is_strict) == expected
    assert read(slow(data, read_bytes), is_strict) == expected


@MODES
@pytest.mark.parametrize("delimiter", ["\0", "^", "\\", "~", "&", "|", "$", ".", "*", "#", "("])
def test_any_byte_may_delimit(is_strict: bool, delimiter: str) -> None:
    tokens = ("", "id=a]", "last-modified=5", "lock", "delete", "id=b", "id=c", "id=d", "")
    records = read(io.BytesIO(stream_of(tokens, delimiter)), is_strict)
    assert [record.url for record in records] == ["a]", "b", "c", "d"]


def test_the_usual_shape_is_read_at_once() -> None:
    block = b"id=a\nlast-modified=86400\nlock\nid=b\ndelete\nid=c\ncrawl-once\ncrawl-immediately\n"
    first, second, third = (
        Record(
            url=url,
            action=Action.ADD,
            arrival=Arrival.CRAWLED,
            provenance=Provenance(source="ids", span=2, offset=offset),
        )
        for url, offset in (("x:a", 100), ("x:b", 130), ("x:c", 142))
    )
    assert parse(block, 100) == [
        replace(first, modified=datetime(1970, 1, 2, tzinfo=UTC), crawl=Crawl(lock=True)),
        replace(second, action=Action.DELETE, arrival=None),
        replace(third, crawl=Crawl(crawl_once=True, crawl_immediately=True)),
    ]


@pytest.mark.parametrize(
    "block",
    [
        *(b"id=a\nwhat\n", b"id=a\n\n", b"id=a\nlast-modified=-1\n", b"id=a\nlast-modified=\n"),
        *(b"id=a\nlast-modified=999999999999\n", b"id=a\nlock\nlast-modified=1\n", b"id=\xff\n"),
        *(b"id=a\nlock=false\n", b"id=a\nlock\nlock\nlock\nlock\nlock\n", b"id=a\nxid=b\n"),
        *(b"id=a\nid-list\nb\n", b"id=a\nid\n", b"id=\xc0\x8a\n"),
    ],
)
def test_any_other_shape_is_left_to_the_slow_path(block: bytes) -> None:
    assert parse(block, 0) is None


@pytest.mark.parametrize(
    ("unusual", "single"),
    [
        (("id=x", "what=1"), {"x"}),
        (("id=x", "lock=true", "", "", "lock"), {"x"}),
        (("id=x", "lock", "id-list", "y", "z", ""), {"x", "y", "z"}),
        (("id=x", "", "id-list", "y", "", "lock"), {"x", "y"}),
        (("id=x", "last-modified=-1", "id=y", "id-list", "z", "", ""), {"x", "y", "z"}),
    ],
)
def test_unusual_records_leave_their_neighbours_in_batches(
    unusual: tuple[str, ...], single: set[str]
) -> None:
    usual = [f"id=http://a.example.com/{number}" for number in range(100)]
    data = stream_of([*usual, *unusual, *usual, *unusual, *usual])
    options = ReadOptions(batch_records=1000)
    results = list(lister.read(io.BytesIO(data), span=Span(source="ids"), options=options))
    alone = [result.url for result in results if isinstance(result, Record)]
    assert {url for url in alone if "://" not in url} == single
    assert len(alone) <= 2 * len(single) + 3
    records = [*singly(results)]
    assert records == list(lister.read(io.BytesIO(data), span=Span(source="ids")))


def test_ids_are_read_at_once_if_they_are_plain() -> None:
    records = parse("a\n\u00e9\nid=b\n".encode(), 50, in_list=True) or []
    expected = [("x:a", 50), ("x:%C3%A9", 52), ("x:id%3Db", 55)]
    assert [(record.url, record.provenance.offset) for record in records] == expected
    assert [parse(block, 0, in_list=True) for block in (b"\xc0\x80\n", b"a\n\xff\n")] == [None] * 2


@pytest.mark.parametrize(
    ("tokens", "last"),
    [
        (("id-list", *map(str, range(50)), "", "lock", "id=z"), "49"),
        ((*(f"id={number}" for number in range(50)), "lock"), "49"),
    ],
)
def test_what_follows_a_block_concerns_its_last_id(tokens: tuple[str, ...], last: str) -> None:
    records = read(slow(stream_of(tokens), 16), True)
    assert [record.url for record in records if record.crawl] == [last]


@MODES
def test_a_long_token_is_an_error_in_the_usual_shape_too(is_strict: bool) -> None:
    options = ReadOptions(own=(StreamOptions(strict=is_strict, max_token_bytes=30),))
    data = HEADER + b"id=a\nid=b\nid=" + b"c" * 28 + b"\nid=d\n"
    with pytest.raises(FormatError) as caught:
        list(lister.read(io.BytesIO(data), options=options))
    assert str(caught.value) == (
        " (byte 41): a token of more than 30 bytes; expected the delimiter b'\\n' before;"
        " raise --max-token-bytes"
    )


# Spans


@given(tokens=TOKENS, delimiter=DELIMITERS, span_bytes=st.integers(1, 80))
def test_spans_read_as_the_whole(tokens: list[str], delimiter: str, span_bytes: int) -> None:
    data = stream_of(["id=first", *tokens], delimiter)
    assert read_spans(data, span_bytes, False) == read(io.BytesIO(data), False)


@MODES
@given(records=listings(), span_bytes=st.integers(1, 80))
def test_spans_of_our_own_listings_read_as_the_whole(
    is_strict: bool, records: list[Record], span_bytes: int
) -> None:
    encoder = ListerEncoder(WriteOptions())
    data = encoder.prolog() + encoder.frame([encoder.encode(record) for record in records])
    assert read_spans(data, span_bytes, is_strict) == read(io.BytesIO(data), is_strict)


@given(tokens=TOKENS, span_bytes=st.integers(1, 80), read_bytes=st.integers(1, 40))
def test_spans_are_adjacent_long_enough_and_the_same_for_blocks_of_any_size(
    tokens: list[str], span_bytes: int, read_bytes: int
) -> None:
    data = stream_of(tokens)
    spans = cut(data, span_bytes)
    lengths = [span.length or 0 for span in spans]
    assert [span.offset for span in spans] == [sum(lengths[:nth]) for nth in range(len(spans))]
    assert min([*lengths[:-1], span_bytes]) == span_bytes
    assert list(lister.cut(slow(data, read_bytes), source="ids", span_bytes=span_bytes)) == spans


def test_no_span_begins_after_a_content() -> None:
    data = HEADER + b"id=a\nid=b\ncontent=\xff\nid=c\nid=d\n"
    assert [span.offset for span in cut(data, 1)] == [0, 31, 36]


def test_a_span_begins_with_an_id() -> None:
    data = HEADER + b"id=a\nlock\nid=b\nid-list\nc\nd\n\nlock\nid=e\n"
    places = ((31, 10, OUTSIDE), (41, 13, OUTSIDE), (54, 2, IN_LIST), (56, 8, IN_LIST))
    assert cut(data, 1) == [
        Span(source="ids", length=31),
        *(
            Span(source="ids", ordinal=ordinal, offset=offset, length=length, position=position)
            for ordinal, (offset, length, position) in enumerate(places, start=1)
        ),
        Span(source="ids", ordinal=5, offset=64, position=OUTSIDE),
    ]
    assert [span.length for span in cut(HEADER + b"id=a\n" * 20, 40)] == [41, 40, 40, None]


@pytest.mark.parametrize(
    "data",
    [
        *(HEADER, HEADER + b"id=a\r\nid=b\r\n", HEADER + b"what\nelse\n"),
        b"GSA Adaptor Data Version 1 [\r\n]\r\nid=a\r\nid=b\r\n",
        b"GSA Adaptor Data Version 1 [**]id=a**id=b",
    ],
)
def test_another_stream_is_one_span(data: bytes) -> None:
    assert cut(data, 1) == [Span(source="ids")]


def test_a_token_of_many_blocks_is_skipped() -> None:
    data = HEADER + b"id=" + b"a" * (3 * BLOCK_BYTES) + b"\nid=b\n"
    assert [span.offset for span in cut(data, 31)] == [0, 31, 393251]


def test_a_stream_without_header_cannot_be_cut() -> None:
    with pytest.raises(FormatError, match="ids: header: 'id=a"):
        cut(b"id=a\n", 1)
