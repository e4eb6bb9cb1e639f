"""Words that no other test speaks of: each understood, or refused with a cure."""

import pytest

from pipelines.cli.value_parsers import (
    choice,
    number_of,
    one_of,
    parse_charset,
    parse_delimiter,
    parse_percent,
)
from schemas.errors import ConfigError


def test_a_number_may_be_none_at_all() -> None:
    assert number_of("records")("0") == 0


def test_a_percentage_may_be_all() -> None:
    assert parse_percent("100%") == 100


def test_more_than_all_is_no_percentage() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_percent("100.1")
    assert str(caught.value) == "'100.1'; expected a percentage, as 5 or 0.5%"


def test_a_charset_keeps_the_name_that_it_was_given() -> None:
    assert parse_charset("Windows-1252") == "Windows-1252"


def test_a_number_is_at_least_what_it_has_to_be() -> None:
    assert number_of("ids", least=1)("1") == 1


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "many", "", "²", "1000000000000000000"])
def test_what_is_no_such_number_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        number_of("ids", least=1)(text)
    assert str(caught.value) == f"{text!r}; expected a number of ids, 1 or more"


def test_where_none_will_do_nothing_is_said_of_a_least() -> None:
    with pytest.raises(ConfigError) as caught:
        number_of("records")("x")
    assert str(caught.value) == "'x'; expected a number of records"


@pytest.mark.parametrize(
    ("text", "expected"), [(r"\0", "\0"), (r"\r\n", "\r\n"), (r"\t", "\t"), (r"\\;", "\\;")]
)
def test_a_delimiter_may_be_written_with_a_backslash(text: str, expected: str) -> None:
    assert parse_delimiter(text) == expected


def test_one_of_some_words_is_itself() -> None:
    assert choice("text", "json")("json") == "json"


def test_another_word_is_refused_with_a_guess() -> None:
    with pytest.raises(ConfigError) as caught:
        one_of("jsno", ("text", "json"))
    assert str(caught.value) == "'jsno'; expected one of text, json; did you mean 'json'?"
