"""Sequences whose items are made when they are needed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.lazy_sequence import Subsequence

BOUND = st.none() | st.integers(-7, 7)


@given(start=BOUND, stop=BOUND, step=BOUND.filter(bool), indexes=st.lists(st.integers(0, 4)))
def test_a_subsequence_is_like_a_list(
    start: int | None, stop: int | None, step: int | None, indexes: list[int]
) -> None:
    expected = ["abcde"[index] for index in indexes]
    subsequence = Subsequence("abcde", indexes)

    assert list(subsequence) == expected
    assert len(subsequence) == len(expected)
    assert subsequence[start:stop:step] == expected[start:stop:step]
    assert [subsequence[-1 - index] for index in range(len(expected))] == expected[::-1]
    with pytest.raises(IndexError):
        subsequence[len(expected)]
