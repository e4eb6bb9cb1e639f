"""Columns of rows by their names, and rows as a person is told of them."""

import pytest

from schemas.errors import ConfigError, RecordError
from transforms.sources.database.column_index import Rows, text_maker

ROWS = Rows(names=("id", "Name", "name", "dept"), key=("id", "dept"))


def test_a_column_is_found() -> None:
    assert ROWS.at("title", "dept") == 3


def test_the_case_of_a_name_matters_only_if_there_is_another() -> None:
    assert ROWS.at("title", "DEPT") == 3


def test_of_names_that_differ_in_case_the_exact_one_is_taken() -> None:
    assert ROWS.at("title", "Name") == 1


def test_a_name_that_fits_several_columns_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        ROWS.at("title", "NAME")

    expected = "title: 'NAME', the name of 2 columns; expected a name of its own, as AS gives one"
    assert str(caught.value) == expected


def test_a_column_that_is_missing_is_told_with_those_that_are_there() -> None:
    with pytest.raises(ConfigError) as caught:
        ROWS.at("title", "dpet")

    expected = "title: 'dpet'; expected a column: id, Name, name, dept; did you mean 'dept'?"
    assert str(caught.value) == expected


def test_a_name_like_no_other_is_not_guessed_at() -> None:
    with pytest.raises(ConfigError) as caught:
        ROWS.at("title", "phone")

    assert str(caught.value) == "title: 'phone'; expected a column: id, Name, name, dept"


def test_a_key_is_made_of_its_columns() -> None:
    assert ROWS.key_maker()((7, "Anna", "anna", "hr")) == (7, "hr")


def test_a_key_is_shown_with_names() -> None:
    assert ROWS.key_text((7, "Anna", "anna", "h'r")) == 'id=7, dept="h\'r"'


def test_a_key_is_shown_even_if_it_is_null_or_bytes() -> None:
    assert ROWS.key_text((None, "Anna", "anna", b"\xff")) == r"id=NULL, dept=b'\xff'"


def test_a_row_is_shown_without_its_document() -> None:
    shown = ROWS.json((7, "Anna", "anna", "hr"), without={1, 2})
    assert shown == b'{"id": 7, "dept": "hr"}'


def test_a_column_that_is_text_is_that_text() -> None:
    assert text_maker("title", "dept", ROWS)((7, "Anna", "anna", "hr")) == "hr"


def test_a_column_that_is_a_number_is_its_text() -> None:
    assert text_maker("title", "id", ROWS)((7, "Anna", "anna", "hr")) == "7"


def test_a_column_that_is_null_is_no_text() -> None:
    assert text_maker("title", "id", ROWS)((None, "Anna", "anna", "hr")) is None


def test_a_column_without_text_is_named() -> None:
    with pytest.raises(RecordError) as caught:
        text_maker("title", "dept", ROWS)((7, "Anna", "anna", b"\xff"))

    expected = "dept: bytes that are not UTF-8; expected text, a number or a date"
    assert (caught.value.code, caught.value.reason) == ("bad-value", expected)
