"""Sizes and durations as texts, in one grammar."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedferry.schemas.errors import ConfigError
from feedferry.schemas.units import (
    duration_text,
    format_duration,
    parse_duration,
    parse_size,
    size_text,
)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("4096", 4096),
        ("0", 0),
        ("12B", 12),
        ("1kB", 1000),
        ("64KiB", 65_536),
        ("900MiB", 943_718_400),
        ("900 MiB", 943_718_400),
        ("900mib", 943_718_400),
        ("1GB", 1_000_000_000),
        ("2TiB", 2_199_023_255_552),
    ],
)
def test_a_size_is_a_number_and_a_unit(text: str, count: int) -> None:
    assert parse_size(text) == count


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("200ms", 0.2),
        ("90s", 90.0),
        ("2h", 7200.0),
        ("2m", 120.0),
        ("1d", 86400.0),
        ("1h30m", 5400.0),
        ("1h 30m", 5400.0),
        ("1.5h", 5400.0),
        ("2 h", 7200.0),
        ("1d2h3m4s5ms", 93784.005),
        ("0s", 0.0),
    ],
)
def test_a_duration_is_numbers_and_units_the_longest_first(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("parse", "words", "texts"),
    [
        (
            parse_size,
            "a size such as 4096, 64KiB, 900MiB or 1GB",
            ("", "MiB", "-1", "1.5GiB", "1e9", "10 %", "1MiBs", "1_000", "9" * 19, "٣"),
        ),
        (
            parse_duration,
            "a duration such as 200ms, 90s, 2h, 1h30m or 1d",
            ("", "soon", "-5s", "90", "2H", "1h30", "5m2h", "2w", "1h1h", "1_000s", "٣s", "1e3s"),
        ),
    ],
)
def test_another_text_is_refused(
    parse: Callable[[str], float], words: str, texts: tuple[str, ...]
) -> None:
    for text in texts:
        with pytest.raises(ConfigError) as caught:
            parse(text)
        assert str(caught.value) == f"{text!r}; expected {words}"


@given(text=st.text(alphabet="0123456789.dhmsKMiB ", max_size=20) | st.text())
def test_any_text_is_a_size_a_duration_or_a_config_error(text: str) -> None:
    for parse in (parse_size, parse_duration):
        with suppress(ConfigError):
            assert parse(text) >= 0


@given(st.integers(0, 10**18 - 1))
def test_a_size_is_read_as_it_is_written(count: int) -> None:
    assert parse_size(size_text(count)) == count


@given(st.integers(0, 10**8).map(float))
def test_a_duration_is_read_as_it_is_written(seconds: float) -> None:
    assert parse_duration(duration_text(seconds)) == seconds


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "0 seconds"),
        (0.0512, "0.051 seconds"),
        (1, "1 second"),
        (1.23, "1.2 seconds"),
        (99.9, "100 seconds"),
        (120.4, "2 minutes"),
        (150, "2.5 minutes"),
        (3600, "60 minutes"),
        (9000, "2.5 hours"),
        (86400, "24 hours"),
        (259200, "3 days"),
    ],
)
def test_a_duration_in_words_is_rounded(seconds: float, expected: str) -> None:
    assert format_duration(seconds) == expected
