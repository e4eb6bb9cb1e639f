"""Words that no other test speaks of: each understood, or refused with a cure."""

import pytest

from pipelines.words import (
    choice,
    did_you_mean,
    one_of,
    parse_batch,
    parse_charset,
    parse_count,
    parse_delimiter,
    parse_percent,
    parse_texts,
)
from schemas.errors import ConfigError


def test_a_flag_that_is_repeated_keeps_its_order() -> None:
    assert parse_texts(["b", "a", "b"]) == ("b", "a", "b")


def test_no_records_may_be_enough() -> None:
    assert parse_count("0") == 0


def test_a_percentage_may_be_all() -> None:
    assert parse_percent("100%") == 100


def test_more_than_all_is_no_percentage() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_percent("100.1")
    assert str(caught.value) == "'100.1'; expected a percentage, as 5 or 0.5%"


def test_a_charset_keeps_the_name_that_it_was_given() -> None:
    assert parse_charset("Windows-1252") == "Windows-1252"


def test_a_batch_is_a_number_of_ids() -> None:
    assert parse_batch("50") == 50


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "many", ""])
def test_what_is_no_batch_is_refused(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_batch(text)
    assert str(caught.value) == f"{text!r}; expected a number of ids, 1 or more"


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


def test_nothing_is_guessed_where_nothing_is_near() -> None:
    assert did_you_mean("yaml", ("text", "json")) == ""
