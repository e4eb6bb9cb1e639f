"""The size of spans by the sizes of the inputs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedferry.schemas.span_size import MAX_SPAN_BYTES, MAX_SPANS, MIN_SPAN_BYTES, auto_span_bytes

MIB, GB, TB = 1 << 20, 10**9, 10**12
_COUNTS = st.integers(1, 9000)
SIZES = st.lists(
    st.tuples(st.integers(0, 45).flatmap(lambda bits: st.integers(0, 1 << bits)), _COUNTS),
    max_size=5,
).map(lambda groups: [size for size, count in groups for _ in range(count)])


def spans_of(sizes: list[int], span_bytes: int) -> int:
    return sum(-(-size // span_bytes) or 1 for size in sizes)


@pytest.mark.parametrize(
    ("sizes", "mebibytes"),
    [
        ([], 32),
        ([0], 32),
        ([100 * GB], 32),
        ([20_000 * 32 * MIB], 32),
        ([20_000 * 32 * MIB + 1], 33),
        ([1 * TB], 48),
        ([10 * TB], 477),
        ([GB] * 10_000, 477),
        ([100 * TB], 900),
        ([1000] * 50_000, 32),
        ([100 * MIB] * 50_000, 100),
        ([1 * TB, *([1000] * 19_999)], 900),
    ],
)
def test_sizes_of_spans(sizes: list[int], mebibytes: int) -> None:
    assert auto_span_bytes(sizes) == mebibytes * MIB


@given(SIZES)
def test_there_are_as_many_spans_as_allowed_and_not_fewer_than_needed(sizes: list[int]) -> None:
    span_bytes, most = auto_span_bytes(sizes), max(MAX_SPANS, len(sizes))

    assert MIN_SPAN_BYTES <= span_bytes <= MAX_SPAN_BYTES
    assert span_bytes % MIB == 0
    assert spans_of(sizes, span_bytes) <= most or span_bytes == MAX_SPAN_BYTES
    assert span_bytes == MIN_SPAN_BYTES or spans_of(sizes, span_bytes - MIB) > most


@given(sizes=SIZES, data=st.data())
def test_the_order_is_of_no_account_and_growing_files_never_make_less(
    sizes: list[int], data: st.DataObject
) -> None:
    before = auto_span_bytes(sizes)
    grown = [size + data.draw(st.integers(0, TB)) for size in sizes[:1]] + sizes[1:]

    assert auto_span_bytes(iter(sizes[::-1])) == before
    assert auto_span_bytes(grown) >= before
