"""External sorting: few and many items, and a full disk."""

import tempfile
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import FatalError
from transforms.sources.tree.external_sort import ExternalSort, SortCodec

TEXTS = SortCodec[str](key=str.encode, encode=str.encode, decode=bytes.decode)


def ordered(texts: list[str], *, run_length: int) -> list[str]:
    with closing(ExternalSort(texts, TEXTS, run_length=run_length)) as items:
        return list(items)


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))),
    st.integers(1, 4),
)
def test_items_come_in_the_order_of_their_keys(texts: list[str], run_length: int) -> None:
    assert ordered(texts, run_length=run_length) == sorted(texts, key=str.encode)


def test_items_longer_than_a_block_are_joined() -> None:
    texts = [f"{number:05d}" * 50 for number in range(1000)]
    assert ordered(texts[::-1], run_length=400) == texts


def test_an_error_of_the_items_is_raised_before_the_first_item() -> None:
    def torn() -> Iterator[str]:
        yield from ("a", "b")
        raise OSError(5, "Input/output error")

    with pytest.raises(OSError, match="Input/output error"):
        ExternalSort(torn(), TEXTS, run_length=1)


def test_a_full_disk_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    monkeypatch.setattr(tempfile, "tempdir", "/full")

    with pytest.raises(FatalError) as caught:
        ExternalSort(["a"], TEXTS, run_length=1)

    assert str(caught.value) == "/full: No space left on device; expected to write there"
