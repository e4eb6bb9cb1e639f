"""Urls of rows, by a template or in a column."""

from collections.abc import Callable
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import RecordError
from transforms.sources.database.columns import ColumnIndex, ColumnReference, Row
from transforms.sources.database.url_templates import parse_template, url_getter

INDEX = ColumnIndex(names=("id", "dept", "link"), key=("id",))
TEMPLATE = "https://people.example.com/{dept}/{id}"


def made(template: str, *row: object) -> str:
    return url_getter("url", template, INDEX)(row)


def refusal(make: Callable[[Row], str], *row: object) -> tuple[str, str]:
    with pytest.raises(RecordError) as caught:
        make(row)
    return caught.value.code, caught.value.reason


@pytest.mark.parametrize(
    ("row", "url"),
    [
        ((7, "hr"), "https://people.example.com/hr/7"),
        (("a/b", "r d"), "https://people.example.com/r%20d/a%2Fb"),
        (("50%", "a?b#c&d"), "https://people.example.com/a%3Fb%23c%26d/50%25"),
        (("Zürich", "٣"), "https://people.example.com/%D9%A3/Z%C3%BCrich"),
        (("{id}", "}"), "https://people.example.com/%7D/%7Bid%7D"),
        (("a-b", "x_y.z~"), "https://people.example.com/x_y.z~/a-b"),
        (("\ud800", "hr"), "https://people.example.com/hr/%ED%A0%80"),
        ((-7, True), "https://people.example.com/true/-7"),
        (
            (UUID(int=7), "hr"),
            "https://people.example.com/hr/00000000-0000-0000-0000-000000000007",
        ),
        ((b"caf\xc3\xa9", "hr"), "https://people.example.com/hr/caf%C3%A9"),
        ((".hidden", "..."), "https://people.example.com/.../.hidden"),
    ],
    ids=repr,
)
def test_values_are_percent_encoded(row: tuple[object, ...], url: str) -> None:
    assert made(TEMPLATE, *row, None) == url


def test_doubled_braces_are_literal() -> None:
    assert made("https://x.example.com/{{a}}/{id}%20", 7, None, None) == (
        "https://x.example.com/{a}/7%20"
    )


@pytest.mark.parametrize("value", [None, ""])
def test_a_value_that_is_missing_makes_no_url(value: object) -> None:
    assert refusal(url_getter("url", TEMPLATE, INDEX), 7, value, None) == (
        "null-url",
        "dept is NULL or empty; expected a value for url",
    )


@pytest.mark.parametrize("value", [".", ".."])
def test_a_step_of_dots_makes_no_url(value: str) -> None:
    assert refusal(url_getter("url", TEMPLATE, INDEX), 7, value, None) == (
        "bad-url",
        f"'https://people.example.com/{value}/7'; expected no . or .. segment, which clients "
        "remove",
    )


def test_bytes_make_no_url() -> None:
    assert refusal(url_getter("url", TEMPLATE, INDEX), b"\xff", "hr", None) == (
        "bad-value",
        "id: bytes that are not UTF-8; expected text, a number or a date",
    )


@given(st.text(min_size=1), st.text(min_size=1))
def test_no_two_keys_have_the_same_url(one: str, other: str) -> None:
    if {".", ".."}.isdisjoint((one, other)):
        assert (made(TEMPLATE, one, "hr", None) == made(TEMPLATE, other, "hr", None)) is (
            one == other
        )


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (
            "/{id}",
            "'/{id}'; expected an absolute URL, such as https://x.example.com/{id}",
        ),
        (
            "{base}/{id}",
            "'{base}/{id}'; expected an absolute URL, such as https://x.example.com/{id}",
        ),
        (
            "https://x.example.com/{id",
            "'https://x.example.com/{id'; expected column names in braces, and {{ and }} for "
            "literal braces",
        ),
        (
            "https://x.example.com/id}",
            "'https://x.example.com/id}'; expected column names in braces, and {{ and }} for "
            "literal braces",
        ),
        (
            "https://x.example.com/{}",
            "'https://x.example.com/{}'; expected the name of a column in {}",
        ),
        (
            "https://x.example.com/{id:05d}",
            "'https://x.example.com/{id:05d}'; expected {id}, as values have one text form",
        ),
        (
            "https://x.example.com/{id!r}",
            "'https://x.example.com/{id!r}'; expected {id}, as values have one text form",
        ),
    ],
)
def test_a_template_that_makes_no_url_is_refused(template: str, expected: str) -> None:
    with pytest.raises(ValueError, match="expected") as caught:
        parse_template(template)

    assert str(caught.value) == expected


def test_a_url_in_a_column_stays_as_it_is() -> None:
    make = url_getter("url", ColumnReference(column="link"), INDEX)
    assert make((7, "hr", "http://x.example.com/a b?c=é")) == "http://x.example.com/a b?c=é"


def test_a_column_of_urls_that_is_null_makes_none() -> None:
    assert refusal(url_getter("url", ColumnReference(column="link"), INDEX), 7, "hr", None) == (
        "null-url",
        "link is NULL or empty; expected a value for url",
    )


def test_a_column_that_is_no_url_makes_none() -> None:
    assert refusal(url_getter("url", ColumnReference(column="link"), INDEX), 7, "hr", "/a/b") == (
        "bad-url",
        "link='/a/b'; expected an absolute URL",
    )
