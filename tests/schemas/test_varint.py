"""Avro's numbers."""

import io

import fastavro
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schemas.varint import LENGTHS, SHORT, length, long


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


@pytest.mark.parametrize(
    ("number", "varint"),
    [
        (0, b"\x00"),
        (-1, b"\x01"),
        (1, b"\x02"),
        (-64, b"\x7f"),
        (64, b"\x80\x01"),
        (2**63 - 1, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        (-(2**63), b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
    ],
)
def test_small_numbers_take_few_bytes(number: int, varint: bytes) -> None:
    assert long(number) == varint


@pytest.mark.parametrize("size", [0, 1, SHORT - 1, SHORT, SHORT + 1])
def test_a_length_is_a_long(size: int) -> None:
    assert length(bytes(size)) == long(size)


def test_the_table_holds_the_short_lengths() -> None:
    assert (LENGTHS[0], LENGTHS[64], LENGTHS[8191]) == (b"\x00", b"\x80\x01", b"\xfe\x7f")
