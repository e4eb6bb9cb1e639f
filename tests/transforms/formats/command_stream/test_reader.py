"""Hostile input to the readers of command streams, and the memory that they take."""

import io
import tracemalloc
from collections import deque
from typing import IO, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedferry.schemas.errors import FormatError, UnavailableError
from feedferry.schemas.notice import Notice
from feedferry.schemas.record import Content, Record
from feedferry.schemas.reject import KEPT_BYTES, Reject
from feedferry.transforms.formats import ReadResult, StreamOptions, by_name
from feedferry.transforms.formats.base import ReadOptions
from support.command_streams import HEADER, MODES
from support.streams import opened, slow

KINDS = pytest.mark.parametrize("kind", ["lister-stream", "retriever-stream", "authorizer-stream"])
STREAM = (
    b"GSA Adaptor Data Version 1 [**]**id=a***lock**meta-name=n**meta-value=v**acl**"
    b"acl-permit-user=joe**last-modified=5**anchor-uri=x**anchor-text=y**id-list**b**c****"
    b"authz-status=DENY**result-link=/**\xc0\x8a**content**x**y"
)
MILLION = 1_000_000
TEN_MB = 10 * MILLION


class Endless(io.RawIOBase):
    """A stream of a header and then `size` times the same byte."""

    def __init__(self, head: bytes, size: int) -> None:
        self._head = head
        self._left = size

    def read(self, size: int = -1) -> bytes:
        if self._head:
            piece, self._head = self._head, b""
            return piece
        piece = b"x" * min(size, self._left)
        self._left -= len(piece)
        return piece


def endless(head: bytes, size: int) -> IO[bytes]:
    return cast("IO[bytes]", Endless(head, size))


def read(kind: str, data: bytes, is_strict: bool = False) -> list[Any]:
    """The results, with the error that ends them; any other exception fails the test."""
    return read_stream(kind, opened(data), ReadOptions(own=(StreamOptions(strict=is_strict),)))


def read_stream(kind: str, stream: IO[bytes], options: ReadOptions = ReadOptions()) -> list[Any]:
    results: list[Any] = []
    try:
        results += by_name(kind).read(stream, options=options)
    except (FormatError, UnavailableError) as exc:
        results.append(str(exc))
    return results


def is_known(value: Any) -> bool:
    return isinstance(value, ReadResult | str)


@KINDS
@MODES
@pytest.mark.parametrize("end", range(len(STREAM)))
def test_a_torn_stream_raises_only_our_errors(kind: str, is_strict: bool, end: int) -> None:
    assert all(map(is_known, read(kind, STREAM[:end], is_strict)))


@KINDS
@MODES
@given(at=st.integers(0, len(STREAM)), size=st.integers(0, 5), put=st.binary(max_size=5))
def test_a_damaged_stream_raises_only_our_errors(
    kind: str, is_strict: bool, at: int, size: int, put: bytes
) -> None:
    assert all(map(is_known, read(kind, STREAM[:at] + put + STREAM[at + size :], is_strict)))


@KINDS
@MODES
@given(data=st.binary(max_size=60))
def test_random_bytes_raise_only_our_errors(kind: str, is_strict: bool, data: bytes) -> None:
    assert all(map(is_known, read(kind, HEADER + data, is_strict)))


@KINDS
@given(data=st.lists(st.sampled_from(STREAM.split(b"**")), max_size=12).map(b"\n".join))
def test_rejects_hold_the_bytes_at_their_place(kind: str, data: bytes) -> None:
    text = HEADER + data
    rejects = [reject for reject in read(kind, text) if isinstance(reject, Reject)]
    held = [text[reject.offset :][: reject.length] for reject in rejects]
    assert held == [reject.data for reject in rejects]


@KINDS
@MODES
@given(data=st.binary(max_size=60), block_bytes=st.integers(1, 9))
def test_small_blocks_are_read_as_one(
    kind: str, is_strict: bool, data: bytes, block_bytes: int
) -> None:
    options = ReadOptions(own=(StreamOptions(strict=is_strict),))
    text = HEADER + b"id=a\n" + data
    slowly = read_stream(kind, slow(text, block_bytes), options)
    assert slowly == read_stream(kind, io.BytesIO(text), options)


@pytest.mark.slow
@MODES
@pytest.mark.parametrize(
    ("kind", "delimiter", "token", "count"),
    [
        ("authorizer-stream", b"\n", b"\n", TEN_MB),
        ("retriever-stream", b"\n", b"meta-name=\nmeta-value=\n", MILLION // 10),
        *(
            ("lister-stream", b"\n", token, MILLION // 8)
            for token in (b"x\n", b"id=\n", b"id=a\nlock=true\n", b"id-list\na\n\n")
        ),
        *(
            ("lister-stream", delimiter, token, MILLION)
            for delimiter, token in (
                *((b"\r\n", b"\r"), (b"\r\n", b"\r\r\n"), (b"**", b"*"), (b"**", b"#~")),
                *((b"#~#", b"#~"), (b"#~#", b"#~#"), (b"#~#", b"*")),
            )
        ),
    ],
)
def test_many_small_tokens_are_read(
    is_strict: bool, kind: str, delimiter: bytes, token: bytes, count: int
) -> None:
    header = b"GSA Adaptor Data Version 1 [" + delimiter + b"]id=a" + delimiter
    assert all(map(is_known, read(kind, header + token * count, is_strict)))


@pytest.mark.slow
@KINDS
@MODES
def test_a_long_token_is_read(kind: str, is_strict: bool) -> None:
    results = read(kind, HEADER + b"id=" + b"x" * TEN_MB, is_strict)
    assert [len(item.url) for item in results] == [TEN_MB]


@MODES
def test_content_of_the_limit_is_accepted(is_strict: bool) -> None:
    options = ReadOptions(max_content_bytes=MILLION, own=(StreamOptions(strict=is_strict),))
    stream = endless(HEADER + b"id=a\ncontent\n", MILLION)
    (record,) = by_name("retriever-stream").read(stream, options=options)
    assert isinstance(record, Record)
    assert record.content == Content(b"x" * MILLION)


@MODES
def test_content_over_the_limit_is_rejected(is_strict: bool) -> None:
    options = ReadOptions(max_content_bytes=10, own=(StreamOptions(strict=is_strict),))
    (reject,) = by_name("retriever-stream").read(
        endless(HEADER + b"id=a\ncontent\n", 11), options=options
    )
    assert reject == Reject(
        code="content-too-large",
        reason="content of 11 bytes; expected at most 10; raise --max-content-bytes",
        stage="read",
        offset=31,
        length=24,
        url="a",
        action="ADD",
        data=b"id=a\ncontent\nxxxxxxxxxxx",
    )


@KINDS
def test_a_token_without_end_is_an_error(kind: str) -> None:
    options = ReadOptions(own=(StreamOptions(max_token_bytes=MILLION),))
    with pytest.raises(FormatError) as caught:
        list(by_name(kind).read(endless(HEADER + b"id=", 200 * MILLION), options=options))
    assert str(caught.value) == (
        " (byte 31): a token of more than 1000000 bytes; expected the delimiter b'\\n' before;"
        " raise --max-token-bytes"
    )


def last_and_peak(kind: str, stream: IO[bytes]) -> tuple[Any, int]:
    """The last result of a stream, and the most megabytes that reading it took."""
    tracemalloc.start()
    results = by_name(kind).read(stream, options=ReadOptions(max_content_bytes=MILLION))
    (last,) = deque(results, maxlen=1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return last, peak // MILLION


@pytest.mark.slow
def test_streams_without_end_are_read_in_constant_memory() -> None:
    content = endless(HEADER + b"id=a\ncontent\n", 200 * MILLION)
    reject, peak = last_and_peak("retriever-stream", content)
    assert (len(reject.data), reject.truncated, peak < 8) == (KEPT_BYTES, True, True)

    data = HEADER + b"id=a\n" + b"lock=true\n" * (MILLION // 5) + b"lock=x\nsecure\nmeta-value=\n"
    reject, peak = last_and_peak("retriever-stream", io.BytesIO(data))
    assert (reject.data, reject.length) == (data[31:][:KEPT_BYTES], len(data) - 31)
    assert peak < 8

    listing = HEADER + b"id=a\nlast-modified=5\nlock\n" * (MILLION // 10)
    assert last_and_peak("lister-stream", io.BytesIO(listing))[1] < 12


def test_the_notices_of_a_document_come_before_it() -> None:
    results = read("retriever-stream", HEADER + b"id=a\nlock=x\nacl\n")
    assert [type(item) for item in results] == [Notice, Notice, Record]
