"""A deletion by pattern is the same in the program and in SQLite."""

import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedferry.schemas.patterns import compile_deletion, prefix_of, sqlite_glob

TEXTS = st.text("ab*?[]^-.\\\n/é", max_size=8).map(str.strip)


@given(TEXTS, TEXTS)
def test_sqlite_and_the_expression_match_the_same_urls(pattern: str, url: str) -> None:
    is_match = compile_deletion(pattern).fullmatch(url) is not None
    with closing(sqlite3.connect(":memory:")) as database:
        row = database.execute("SELECT ? GLOB ?", (url, sqlite_glob(pattern))).fetchone()
    assert row == (is_match,)
    assert not is_match or url.startswith(prefix_of(pattern))


@pytest.mark.parametrize(
    ("pattern", "url", "expected"),
    [
        ("http://h/dir/*", "http://h/dir/a/b", True),
        ("http://h/page?id=*", "http://h/page?id=7", True),
        ("http://h/page?id=*", "http://h/page-id=7", True),
        ("http://h/page?", "http://h/page", False),
        ("http://h/[ab]", "http://h/a", False),
        (" http://h/[ab]\n", "http://h/[ab]", True),
        ("re:.*", "http://h/", False),
    ],
)
def test_the_wildcards_are_an_asterisk_and_a_question_mark(
    pattern: str, url: str, expected: bool
) -> None:
    assert bool(compile_deletion(pattern).fullmatch(url)) is expected


def test_many_wildcards_are_not_slow() -> None:
    pattern = "a*" * 50 + "b"
    assert compile_deletion(pattern).fullmatch("a" * 2_000) is None
