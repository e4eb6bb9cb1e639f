"""Spans of a listing: adjacent, and read as the whole."""

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from schemas.errors import FormatError
from schemas.notice import Notice
from schemas.record import Record
from schemas.reject import Reject
from schemas.span import Span, TokenState
from support.command_streams import HEADER, MODES
from support.slow_streams import slow
from support.stream_strategies import listings
from transforms.formats.base import Mode, ReadOptions, WriteOptions
from transforms.formats.command_stream import lister, tokenizer
from transforms.formats.command_stream.lister_split import cut_listing
from transforms.formats.command_stream.writer import ListerEncoder

TOKENS = st.sampled_from(
    [
        *("id=a", "id=b", "id=", "id=\u00e9=", "id-list", "id-list", "", "", "", "lock", "xid=a"),
        *("last-modified=0", "what", "what=id=", "id-list=", "delete", "id=\udcff"),
        "id=\udcc0\udc8a",
    ]
)
DELIMITERS = st.sampled_from(["\n", "\0", "~", "*", ".", "^"])

OUTSIDE = TokenState(b"\n", is_in_list=False)
IN_LIST = TokenState(b"\n", is_in_list=True)


def cut(data: bytes, span_bytes: int) -> list[Span]:
    return list(cut_listing(io.BytesIO(data), source="ids", span_bytes=span_bytes))


def read(data: bytes, span: Span, mode: Mode) -> list[Any]:
    end = len(data) if span.length is None else span.offset + span.length
    stream = io.BytesIO(data[span.offset : end])
    return [
        unspanned(one) for one in lister.read(stream, span=span, options=ReadOptions(mode=mode))
    ]


def unspanned(one: Any) -> Any:
    if isinstance(one, Record):
        return replace(one, provenance=replace(one.provenance, span=0))
    return replace(one, span=0) if isinstance(one, Notice | Reject) else one


def read_spans(data: bytes, span_bytes: int, mode: Mode) -> list[Any]:
    return [one for span in cut(data, span_bytes) for one in read(data, span, mode)]


def stream_of(tokens: list[str], delimiter: str) -> bytes:
    body = delimiter.join(tokens).encode(errors="surrogateescape")
    return f"GSA Adaptor Data Version 1 [{delimiter}]{delimiter}".encode() + body


@given(tokens=st.lists(TOKENS, max_size=30), delimiter=DELIMITERS, span_bytes=st.integers(1, 80))
def test_spans_read_as_the_whole(tokens: list[str], delimiter: str, span_bytes: int) -> None:
    data = stream_of(["id=first", *tokens], delimiter)
    whole = read(data, Span(source="ids"), Mode.LENIENT)
    assert read_spans(data, span_bytes, Mode.LENIENT) == whole


@given(
    tokens=st.lists(TOKENS, max_size=30),
    span_bytes=st.integers(1, 80),
    read_bytes=st.integers(1, 40),
)
def test_spans_are_the_same_for_blocks_of_any_size(
    tokens: list[str], span_bytes: int, read_bytes: int
) -> None:
    data = stream_of(tokens, "\n")
    spans = list(cut_listing(slow(data, read_bytes), source="ids", span_bytes=span_bytes))
    assert spans == cut(data, span_bytes)


@MODES
@given(records=listings(), span_bytes=st.integers(1, 80))
def test_spans_of_our_own_listings_read_as_the_whole(
    mode: Mode, records: list[Record], span_bytes: int
) -> None:
    encoder = ListerEncoder(WriteOptions())
    data = encoder.prolog() + encoder.frame([encoder.encode(record) for record in records])
    assert read_spans(data, span_bytes, mode) == read(data, Span(source="ids"), mode)


@given(tokens=st.lists(TOKENS, max_size=30), span_bytes=st.integers(1, 80))
def test_spans_are_adjacent_and_long_enough(tokens: list[str], span_bytes: int) -> None:
    spans = cut(stream_of(tokens, "\n"), span_bytes)
    lengths = [span.length or 0 for span in spans]
    offsets = [sum(lengths[:nth]) for nth in range(len(spans))]
    assert [span.offset for span in spans] == offsets
    assert min([*lengths[:-1], span_bytes]) == span_bytes


def test_a_span_begins_with_an_id() -> None:
    data = HEADER + b"id=a\nlock\nid=b\nid-list\nc\nd\n\nlock\nid=e\n"
    assert cut(data, 1) == [
        Span(source="ids", length=31),
        Span(source="ids", ordinal=1, offset=31, length=10, position=OUTSIDE),
        Span(source="ids", ordinal=2, offset=41, length=13, position=OUTSIDE),
        Span(source="ids", ordinal=3, offset=54, length=2, position=IN_LIST),
        Span(source="ids", ordinal=4, offset=56, length=8, position=IN_LIST),
        Span(source="ids", ordinal=5, offset=64, position=OUTSIDE),
    ]


def test_a_span_ends_at_the_first_id_after_its_size() -> None:
    data = HEADER + b"id=a\n" * 20
    assert [span.length for span in cut(data, 40)] == [41, 40, 40, None]


@pytest.mark.parametrize(
    "data",
    [
        HEADER,
        b"GSA Adaptor Data Version 1 [\r\n]\r\nid=a\r\nid=b\r\n",
        b"GSA Adaptor Data Version 1 [**]id=a**id=b",
        HEADER + b"id=a\r\nid=b\r\n",
        HEADER + b"what\nelse\n",
    ],
)
def test_another_stream_is_one_span(data: bytes) -> None:
    assert cut(data, 1) == [Span(source="ids")]


def test_a_token_of_many_blocks_is_skipped() -> None:
    data = HEADER + b"id=" + b"a" * (3 * tokenizer.BLOCK_BYTES) + b"\nid=b\n"
    assert [span.offset for span in cut(data, 31)] == [0, 31, 393251]


def test_a_stream_without_header_cannot_be_cut() -> None:
    with pytest.raises(FormatError) as caught:
        cut(b"id=a\n", 1)
    assert str(caught.value) == (
        "ids: header: 'id=a\\n'; expected 'GSA Adaptor Data Version' to begin with"
    )
