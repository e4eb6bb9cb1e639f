"""A stream that can be looked ahead in."""

import io
from typing import IO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.formats.canonical.lookahead import Tape

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
    return Pipe(data, most)  # type: ignore[return-value]  # as much of one as is needed


def test_bytes_are_taken_in_their_order() -> None:
    tape = Tape(pipe(b"abcdefgh"))
    assert [tape.take(2), tape.take(5), tape.take(5), tape.take(1)] == [b"ab", b"cdefg", b"h", b""]


def test_a_look_ahead_takes_nothing() -> None:
    tape = Tape(pipe(b"abcdefgh"))
    assert [tape.peek(5), tape.peek(2), tape.take(3)] == [b"abcde", b"ab", b"abc"]


def test_a_look_behind_the_end_is_short() -> None:
    assert Tape(pipe(b"abc")).peek(10) == b"abc"


def test_a_look_further_ahead_takes_nothing() -> None:
    tape = Tape(pipe(b"abcdefgh"))
    tape.take(1)
    assert [tape.look(3, 2), tape.look(6, 9), tape.look(9, 1), tape.take(2)] == [
        b"ef",
        b"h",
        b"",
        b"bc",
    ]


def test_a_mark_is_found_in_what_was_read_and_not_taken() -> None:
    tape = Tape(pipe(b"abcdefgh"))
    tape.peek(8)
    tape.take(3)
    assert (tape.holds(b"gh"), tape.holds(b"bc")) == (True, False)


def test_the_offset_counts_from_where_the_source_begins() -> None:
    tape = Tape(pipe(b"abcdefgh"), offset=100)
    tape.take(3)
    tape.look(2, 2)
    tape.skip(4)
    assert tape.offset == 107


@pytest.mark.parametrize("stream", [pipe(b"abcdefgh"), io.BytesIO(b"abcdefgh")])
def test_bytes_are_passed_over(stream: IO[bytes]) -> None:
    tape = Tape(stream)
    tape.peek(2)
    tape.skip(6)
    assert tape.take(5) == b"gh"


def test_a_pipe_is_passed_over_no_farther_than_its_end() -> None:
    tape = Tape(pipe(b"abcdefgh"))
    tape.skip(100)
    assert tape.offset == 8


def test_a_file_is_passed_over_without_being_read() -> None:
    stream = io.BytesIO(bytes(8 * MEBIBYTE))
    tape = Tape(stream)
    tape.skip(4 * MEBIBYTE)
    assert (stream.tell(), tape.offset) == (4 * MEBIBYTE, 4 * MEBIBYTE)


def test_a_length_that_is_a_lie_costs_no_memory() -> None:
    assert Tape(io.BytesIO(b"abc")).take(1 << 60) == b"abc"


def test_bytes_are_taken_past_a_mark() -> None:
    tape = Tape(pipe(b"junk--mark--rest"))
    assert (tape.take_past(b"-mark-", keep=100), tape.take(10)) == ((b"junk--mark-", 11), b"-rest")


def test_bytes_are_taken_to_the_end_without_a_mark() -> None:
    tape = Tape(pipe(b"junk"))
    assert (tape.take_past(b"mark", keep=100), tape.take(10)) == ((b"junk", 4), b"")


def test_only_the_first_bytes_are_kept() -> None:
    tape = Tape(io.BytesIO(bytes(3 * MEBIBYTE) + b"mark"))
    assert tape.take_past(b"mark", keep=5) == (bytes(5), 3 * MEBIBYTE + 4)


@pytest.mark.parametrize("before", range(MEBIBYTE - 5, MEBIBYTE + 2))
def test_a_mark_is_found_wherever_it_lies(before: int) -> None:
    tape = Tape(io.BytesIO(bytes(before) + b"mark" + bytes(MEBIBYTE)))
    assert tape.take_past(b"mark", keep=0) == (b"", before + 4)


@given(st.binary(max_size=30), st.lists(st.integers(0, 9), max_size=8), st.integers(1, 5))
def test_nothing_is_lost_however_it_is_taken(data: bytes, sizes: list[int], most: int) -> None:
    tape = Tape(pipe(data, most))
    taken = [tape.take(size) for size in sizes]
    assert b"".join([*taken, tape.take(30)]) == data
