"""Which urls patterns name."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.serve.rehearsal.url_patterns import behind, fits, literal_prefix


@pytest.mark.parametrize(
    ("pattern", "url"),
    [
        ("http://h/dir/*", "http://h/dir/"),
        ("http://h/dir/*", "http://h/dir/a/b?c=[1]"),
        ("http://h/a?c", "http://h/abc"),
        ("http://h/a?c", "http://h/a?c"),
        ("http://h/*.html", "http://h/a.html.html"),
        ("http://h/*a*b", "http://h/aab"),
        ("http://h/[a]", "http://h/[a]"),
        ("http://h/*", "http://h/a\nb"),
        ("http://h/a**b", "http://h/ab"),
    ],
)
def test_a_pattern_names_an_url(pattern: str, url: str) -> None:
    assert fits(pattern, url)


@pytest.mark.parametrize(
    ("pattern", "url"),
    [
        ("http://h/dir/*", "http://h/dir"),
        ("http://h/dir/*", "http://h/DIR/a"),
        ("http://h/a?c", "http://h/ac"),
        ("http://h/ab*ba", "http://h/aba"),
        ("http://h/*.html", "http://h/a.htm"),
        ("http://h/[a]", "http://h/a"),
        ("http://h/a", "http://h/ab"),
        ("http://h/a*b*c", "http://h/acb"),
    ],
)
def test_a_pattern_does_not_name_an_url(pattern: str, url: str) -> None:
    assert not fits(pattern, url)


@given(st.text("ab/*?", max_size=8), st.text("ab/", max_size=10))
def test_patterns_name_what_a_regular_expression_does(pattern: str, url: str) -> None:
    expression = pattern.replace("?", ".").replace("*", ".*")
    assert fits(pattern, url) == bool(re.fullmatch(expression, url))


def test_many_stars_take_no_time() -> None:
    assert not fits("*a" * 200 + "*b", "a" * 5000)


@pytest.mark.parametrize(
    ("pattern", "prefix"), [("http://h/a*b", "http://h/a"), ("a?", "a"), ("*", ""), ("a", "a")]
)
def test_all_urls_of_a_pattern_begin_alike(pattern: str, prefix: str) -> None:
    assert literal_prefix(pattern) == prefix


@pytest.mark.parametrize(
    ("prefix", "following"),
    [
        ("http://h/a", "http://h/b"),
        ("a\U0010ffff", "b"),
        ("a\ud7ff", "a\ue000"),
        ("é", "ê"),
    ],
)
def test_the_text_behind_a_prefix_is_the_next_one(prefix: str, following: str) -> None:
    assert behind(prefix) == following


@pytest.mark.parametrize("prefix", ["", "\U0010ffff\U0010ffff"])
def test_nothing_is_behind_all_text(prefix: str) -> None:
    assert behind(prefix) is None
