"""Moments are the same as lists of them."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from feedferry.schemas.avro import long, longs, timestamps
from feedferry.schemas.moments import SECOND, Moments

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BORDERS = [
    number
    for bits in range(0, 63, 1)
    for number in ((1 << bits) - 1, 1 << bits, (1 << bits) + 1)
    if number < 1 << 63
]


@given(st.lists(st.integers(0, 253_402_300_799), max_size=100))
def test_moments_of_seconds_are_those_of_their_numbers(seconds: list[int]) -> None:
    moments = Moments(seconds, microseconds=SECOND)
    expected = [EPOCH + timedelta(seconds=second) for second in seconds]

    assert [*moments] == [moments[at] for at in range(len(moments))] == expected
    assert [*moments[1:]] == expected[1:]
    assert timestamps(moments) == timestamps(expected) if seconds else True


@given(st.lists(st.integers(-(10**15), 10**15), min_size=1, max_size=100))
def test_moments_of_microseconds_are_those_of_their_numbers(numbers: list[int]) -> None:
    expected = [EPOCH + timedelta(microseconds=number) for number in numbers]

    assert [*Moments(numbers)] == expected
    assert timestamps(Moments(numbers)) == timestamps(expected)


@given(st.lists(st.sampled_from(BORDERS) | st.integers(-(1 << 63), (1 << 63) - 1), max_size=200))
def test_many_longs_are_encoded_as_single_ones(numbers: list[int]) -> None:
    for column in (numbers, [abs(number) // 2 for number in numbers] * 9, [7] * 100):
        if column:
            assert longs(column) == [*map(long, column)]


def test_longs_of_every_width_are_encoded_at_once() -> None:
    numbers = [number for number in BORDERS if number < 1 << 61]
    assert len(numbers) > 100
    assert longs(numbers) == [*map(long, numbers)]
    thousands = [number for number in BORDERS if number < 1 << 51]
    assert longs(thousands, scale=1000) == [long(1000 * number) for number in thousands]
