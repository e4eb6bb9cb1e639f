"""A stream that can be looked ahead in."""

import io
from typing import IO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedferry.transforms.formats.canonical.lookahead import LookaheadReader

MEBIBYTE = 1 << 20


class Pipe(io.RawIOBase):
    """A stream that cannot seek, and gives at most `most` bytes at once."""

    def __init__(self, data: bytes, most: int = 3) -> None:
        self._left = data
        self._most = most

    def read(self, size: int = -1, /) -> bytes:
        size = min(size, self._most)
        given_, self._left = self._left[:size], self._left[size:]
        return given_


def pipe(data: bytes, most: int = 3) -> IO[bytes]:
    return Pipe(data, most)  # type: ignore[return-value]  # only read is called


def test_a_mark_is_found_in_the_bytes_that_are_read_ahead() -> None:
    ahead = LookaheadReader(pipe(b"abcdefgh"))
    ahead.peek(8)
    ahead.take(3)
    assert (ahead.holds(b"gh"), ahead.holds(b"bc")) == (True, False)


def test_a_false_length_takes_no_memory() -> None:
    assert LookaheadReader(io.BytesIO(b"abc")).take(1 << 60) == b"abc"


@pytest.mark.parametrize(
    ("data", "taken", "left"),
    [(b"junk--mark--rest", (b"junk--mark", 10), b"--rest"), (b"junk", (b"junk", 4), b"")],
)
def test_bytes_are_taken_past_a_mark_or_to_the_end(
    data: bytes, taken: tuple[bytes, int], left: bytes
) -> None:
    ahead = LookaheadReader(pipe(data))
    assert (ahead.take_past(b"mark", keep=100), ahead.take(10)) == (taken, left)


def test_only_the_first_bytes_are_kept() -> None:
    ahead = LookaheadReader(io.BytesIO(bytes(3 * MEBIBYTE) + b"mark"))
    assert ahead.take_past(b"mark", keep=5) == (bytes(5), 3 * MEBIBYTE + 4)


@pytest.mark.parametrize("before", range(MEBIBYTE - 5, MEBIBYTE + 2))
def test_a_mark_is_found_across_blocks(before: int) -> None:
    ahead = LookaheadReader(io.BytesIO(bytes(before) + b"mark" + bytes(MEBIBYTE)))
    assert ahead.take_past(b"mark", keep=0) == (b"", before + 4)


@given(
    st.binary(max_size=30),
    st.lists(st.tuples(st.sampled_from(["take", "peek", "look"]), st.integers(0, 9))),
    st.integers(1, 5),
)
def test_reads_of_any_kind_and_size_return_all_bytes(
    data: bytes, reads: list[tuple[str, int]], most: int
) -> None:
    ahead = LookaheadReader(pipe(data, most), offset=100)
    at = 0
    for name, size in reads:
        if name == "look":
            assert ahead.look(3, size) == data[at + 3 :][:size]
        elif name == "peek":
            assert ahead.peek(size) == data[at:][:size]
        else:
            assert ahead.take(size) == data[at:][:size]
            at = min(at + size, len(data))
        assert ahead.offset == 100 + at
    assert ahead.take(30) == data[at:]
