"""Passes over bytes have the results of the methods of `bytes`."""

from hypothesis import given
from hypothesis import strategies as st

from feedferry.transforms.formats.text.byte_scans import (
    count,
    count_lines,
    find,
    find_all,
    has_controls,
    rfind,
)

texts = st.text("ab]>\n\0\t\r<é").map(str.encode) | st.binary(max_size=300)
places = st.integers(0, 320)


@given(texts, st.text("ab]>\n\0", min_size=1, max_size=4).map(str.encode), places, places)
def test_marks_are_found_where_bytes_finds_them(
    text: bytes, mark: bytes, begin: int, end: int
) -> None:
    assert find(text, mark, begin, end) == text.find(mark, begin, end)
    assert rfind(text, mark, begin, end) == text.rfind(mark, begin, end)
    assert find(text, mark, begin) == text.find(mark, begin)


@given(texts, places, places)
def test_line_ends_are_counted_as_bytes_counts_them(text: bytes, begin: int, end: int) -> None:
    begin, end = min(begin, end, len(text)), min(max(begin, end), len(text))
    assert count(text, b"\n", begin, end) == text.count(b"\n", begin, end)
    assert count_lines(text, begin, end) == text.count(b"\n", begin, end)


@given(texts, st.sampled_from([b"\n\t", b"\n\r\t"]))
def test_control_characters_are_those_below_a_blank(text: bytes, allowed: bytes) -> None:
    assert has_controls(text, allowed=allowed) == any(
        byte < ord(" ") and byte not in allowed for byte in text
    )


@given(texts, st.sampled_from([b"\n", b"a\0", b"ab]"]))
def test_all_places_of_a_mark_are_found(text: bytes, mark: bytes) -> None:
    expected = [at for at in range(len(text)) if text.startswith(mark, at)]
    assert find_all(text, mark) == expected
