"""Numbers of chunks by their ordinals."""

from hypothesis import given
from hypothesis import strategies as st

from feedferry.pipelines.report.run_data import ChunkValues


@given(st.lists(st.tuples(st.integers(-5, 10**12), st.integers(0, 10**9))))
def test_values_are_those_of_a_dictionary_in_the_order_of_ordinals(
    numbers: list[tuple[int, int]],
) -> None:
    values = ChunkValues("q", numbers)

    assert [*values.items()] == sorted(dict(numbers).items())
    assert 10**12 + 1 not in values
