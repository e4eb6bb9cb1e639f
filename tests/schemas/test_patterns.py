"""Which patterns of urls name too much."""

import pytest

from schemas.patterns import is_wide


@pytest.mark.parametrize(
    "pattern",
    ["", "  ", "*", "?*", "http://*", "http://h/*", "http://h/**/?", "*://*/*", "*h", "h/*", "//*"],
)
def test_a_pattern_without_part_of_a_path_is_wide(pattern: str) -> None:
    assert is_wide(pattern)


@pytest.mark.parametrize(
    "pattern", ["http://h/", "http://h/a*", "http://h/*/a", "http://h/dir/*", "*/a", "h"]
)
def test_a_pattern_with_part_of_a_path_is_not_wide(pattern: str) -> None:
    assert not is_wide(pattern)


def test_a_long_pattern_is_judged_in_no_time() -> None:
    assert not is_wide(" " * 50_000 + "x/" * 50_000 + "x*")
