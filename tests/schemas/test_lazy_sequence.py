"""Sequences whose items are made when they are needed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedferry.schemas.lazy_sequence import chosen

BOUND = st.none() | st.integers(-7, 7)


@given(start=BOUND, stop=BOUND, step=BOUND.filter(bool), indexes=st.lists(st.integers(0, 4)))
def test_chosen_items_are_like_a_list(
    start: int | None, stop: int | None, step: int | None, indexes: list[int]
) -> None:
    expected = ["abcde"[index] for index in indexes]
    items = chosen("abcde", indexes)

    assert list(items) == expected
    assert len(items) == len(expected)
    assert items[start:stop:step] == expected[start:stop:step]
    assert [items[-1 - index] for index in range(len(expected))] == expected[::-1]
    with pytest.raises(IndexError):
        items[len(expected)]
