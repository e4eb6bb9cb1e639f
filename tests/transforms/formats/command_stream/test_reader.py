"""Hostile input to the readers of command streams, and the memory that they take."""

import io
import signal
import tracemalloc
from collections.abc import Iterator
from typing import IO, Any, NoReturn, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import FormatError, UnavailableError
from schemas.notice import Notice
from schemas.record import Content, Record
from schemas.reject import Reject
from support.command_streams import HEADER, MODES
from support.slow_streams import slow
from support.streams import opened
from transforms.formats import ReadResult, by_name
from transforms.formats.base import Mode, ReadOptions
from transforms.formats.command_stream.commands import KEPT_BYTES

KINDS = pytest.mark.parametrize("kind", ["lister-stream", "retriever-stream", "authorizer-stream"])
STREAM = (
    b"GSA Adaptor Data Version 1 [**]**id=a***lock**meta-name=n**meta-value=v**acl**"
    b"acl-permit-user=joe**last-modified=5**anchor-uri=x**anchor-text=y**id-list**b**c****"
    b"authz-status=DENY**result-link=/**\xc0\x8a**content**x**y"
)
MILLION = 1_000_000
TEN_MB = 10 * MILLION


@pytest.fixture(autouse=True)
def in_time() -> Iterator[None]:
    """End a test that hangs, by the time of the processor."""

    def stop(signum: int, frame: object) -> NoReturn:
        raise TimeoutError("the reader hangs")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, 60)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, before)


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


def read(kind: str, data: bytes, mode: Mode = Mode.LENIENT) -> list[Any]:
    """The results, with the error that ends them; any other exception fails the test."""
    return read_stream(kind, opened(data), ReadOptions(mode=mode))


def read_stream(kind: str, stream: IO[bytes], options: ReadOptions = ReadOptions()) -> list[Any]:
    results: list[Any] = []
    try:
        results += by_name(kind).read(stream, options=options)
    except (FormatError, UnavailableError) as exc:
        results.append(str(exc))
    return results


def is_known(one: Any) -> bool:
    return isinstance(one, ReadResult | str)


@KINDS
@MODES
@pytest.mark.parametrize("end", range(len(STREAM)))
def test_a_torn_stream_raises_only_our_errors(kind: str, mode: Mode, end: int) -> None:
    assert all(map(is_known, read(kind, STREAM[:end], mode)))


@KINDS
@MODES
@given(at=st.integers(0, len(STREAM)), size=st.integers(0, 5), put=st.binary(max_size=5))
def test_a_damaged_stream_raises_only_our_errors(
    kind: str, mode: Mode, at: int, size: int, put: bytes
) -> None:
    assert all(map(is_known, read(kind, STREAM[:at] + put + STREAM[at + size :], mode)))


@KINDS
@MODES
@given(data=st.binary(max_size=60))
def test_random_bytes_raise_only_our_errors(kind: str, mode: Mode, data: bytes) -> None:
    assert all(map(is_known, read(kind, HEADER + data, mode)))


@KINDS
@given(data=st.lists(st.sampled_from(STREAM.split(b"**")), max_size=12).map(b"\n".join))
def test_rejects_hold_the_bytes_at_their_place(kind: str, data: bytes) -> None:
    text = HEADER + data
    rejects = [one for one in read(kind, text) if isinstance(one, Reject)]
    held = [text[one.offset :][: one.length] for one in rejects]
    assert held == [one.data for one in rejects]


@KINDS
@MODES
@given(data=st.binary(max_size=60), block_bytes=st.integers(1, 9))
def test_small_blocks_are_read_as_one(kind: str, mode: Mode, data: bytes, block_bytes: int) -> None:
    options = ReadOptions(mode=mode)
    text = HEADER + b"id=a\n" + data
    slowly = read_stream(kind, slow(text, block_bytes), options)
    assert slowly == read_stream(kind, io.BytesIO(text), options)


@pytest.mark.slow
@KINDS
@MODES
def test_delimiters_without_end_are_skipped(kind: str, mode: Mode) -> None:
    assert [
        one for one in read(kind, HEADER + b"\n" * TEN_MB, mode) if not isinstance(one, str)
    ] == []


@pytest.mark.slow
@MODES
@pytest.mark.parametrize("delimiter", [b"\r\n", b"**", b"#~#"])
@pytest.mark.parametrize("repeated", [b"\r", b"\r\r\n", b"*", b"#~", b"#~#"])
def test_overlapping_delimiters_without_end_are_skipped(
    mode: Mode, delimiter: bytes, repeated: bytes
) -> None:
    data = (
        b"GSA Adaptor Data Version 1 [" + delimiter + b"]" + repeated * (MILLION // len(repeated))
    )
    assert all(map(is_known, read("lister-stream", data, mode)))


@pytest.mark.slow
@KINDS
@MODES
def test_a_long_token_is_read(kind: str, mode: Mode) -> None:
    found = read(kind, HEADER + b"id=" + b"x" * TEN_MB, mode)
    assert [len(one.url) for one in found] == [TEN_MB]


@pytest.mark.slow
@MODES
@pytest.mark.parametrize("token", [b"id=\n", b"id=a\nlock=true\n", b"id-list\na\n\n", b"x\n"])
def test_many_small_tokens_are_read(mode: Mode, token: bytes) -> None:
    data = HEADER + token * (MILLION // token.count(b"\n") // 4)
    assert all(map(is_known, read("lister-stream", data, mode)))


@pytest.mark.slow
def test_many_commands_of_one_document_are_read() -> None:
    data = HEADER + b"id=a\n" + b"meta-name=\nmeta-value=\n" * (MILLION // 10)
    (record,) = read("retriever-stream", data)
    assert len(record.metadata) == MILLION // 10


@MODES
def test_content_of_the_limit_is_accepted(mode: Mode) -> None:
    options = ReadOptions(mode=mode, max_content_bytes=MILLION)
    stream = endless(HEADER + b"id=a\ncontent\n", MILLION)
    (record,) = by_name("retriever-stream").read(stream, options=options)
    assert isinstance(record, Record)
    assert record.content == Content(b"x" * MILLION)


@MODES
def test_content_over_the_limit_is_rejected(mode: Mode) -> None:
    options = ReadOptions(mode=mode, max_content_bytes=10)
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


@pytest.mark.slow
def test_content_without_end_takes_no_memory() -> None:
    options = ReadOptions(max_content_bytes=MILLION)
    stream = endless(HEADER + b"id=a\ncontent\n", 200 * MILLION)
    tracemalloc.start()
    (reject,) = by_name("retriever-stream").read(stream, options=options)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(reject, Reject)
    assert (len(reject.data), reject.truncated, peak < 8 * MILLION) == (KEPT_BYTES, True, True)


@KINDS
def test_a_token_without_end_is_an_error(kind: str) -> None:
    options = ReadOptions(max_token_bytes=MILLION)
    with pytest.raises(FormatError) as caught:
        list(by_name(kind).read(endless(HEADER + b"id=", 200 * MILLION), options=options))
    assert str(caught.value) == (
        " (byte 31): a token of more than 1000000 bytes; expected the delimiter b'\\n' before;"
        " raise --max-token-bytes"
    )


@pytest.mark.slow
def test_a_document_without_end_is_read_in_constant_memory() -> None:
    data = HEADER + b"id=a\n" + b"lock=true\n" * (MILLION // 5) + b"lock=x\nsecure\nmeta-value=\n"
    tracemalloc.start()
    *_, reject = by_name("retriever-stream").read(io.BytesIO(data))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(reject, Reject)
    assert (reject.data, reject.length, peak < 8 * MILLION) == (
        data[31:][:KEPT_BYTES],
        len(data) - 31,
        True,
    )


@pytest.mark.slow
def test_a_listing_of_many_ids_is_read_in_constant_memory() -> None:
    data = HEADER + b"id=a\nlast-modified=5\nlock\n" * (MILLION // 10)
    tracemalloc.start()
    count = sum(1 for _ in by_name("lister-stream").read(io.BytesIO(data)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (count, peak < 12 * MILLION) == (MILLION // 10, True)


def test_the_notices_of_a_document_come_before_it() -> None:
    found = read("retriever-stream", HEADER + b"id=a\nlock=x\nacl\n")
    assert [type(one) for one in found] == [Notice, Notice, Record]
