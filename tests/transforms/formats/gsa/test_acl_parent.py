"""What an ACL inherits from, with its fragment as the query of a URL."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from support.strategies import texts, urls
from transforms.formats.gsa.acl_parent import join_parent, split_parent

SHARE = "http://adaptor.example.com/doc/share/"


@pytest.mark.parametrize(
    ("fragment", "text"),
    [
        (None, SHARE),
        ("allFoldersAcl", f"{SHARE}?allFoldersAcl"),
        ("", f"{SHARE}?"),
        ("a b/c", f"{SHARE}?a%20b/c"),
        ("100%", f"{SHARE}?100%25"),
        ("für", f"{SHARE}?für"),
        ("\u2028\x00", f"{SHARE}?%E2%80%A8%00"),
    ],
)
def test_a_fragment_is_written_as_a_query_and_read_back(fragment: str | None, text: str) -> None:
    assert (join_parent(SHARE, fragment), split_parent(text)) == (text, (SHARE, fragment))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("http://connector.example.com/doc?docid=folder", id="name-and-value"),
        pytest.param("http://www.example.com/?a&b", id="two-names"),
        pytest.param("http://www.example.com/?a?b", id="two-question-marks"),
        pytest.param("http://www.example.com/a#b?c", id="a-real-fragment"),
        pytest.param("http://www.example.com/?a%2fb", id="not-encoded-as-we-do"),
        pytest.param("http://www.example.com/?%ff", id="not-utf-8"),
        pytest.param("http://www.example.com/?a b", id="a-space"),
        pytest.param("?a", id="no-url"),
    ],
)
def test_another_query_is_part_of_the_url(text: str) -> None:
    assert split_parent(text) == (text, None)


@pytest.mark.parametrize("url", [None, f"{SHARE}?id=5", f"{SHARE}?", f"{SHARE}#top"])
def test_a_fragment_of_a_url_with_a_query_cannot_be_written(url: str | None) -> None:
    assert join_parent(url, "allFoldersAcl") is None


def test_a_fragment_with_an_equals_sign_is_written_as_the_library_does() -> None:
    text = join_parent(SHARE, "a=b")

    assert (text, split_parent(f"{SHARE}?a=b")) == (f"{SHARE}?a=b", (f"{SHARE}?a=b", None))


@given(texts() | st.builds("{}?{}".format, urls(), texts()))
@example("http://a.example.com/?%41")
def test_a_text_that_is_split_is_joined_again(text: str) -> None:
    assert join_parent(*split_parent(text)) == text


@given(urls(), texts())
def test_a_text_that_is_joined_is_split_the_same_way_each_time(url: str, fragment: str) -> None:
    text = join_parent(url, fragment)

    if text is not None:
        assert split_parent(join_parent(*split_parent(text)) or "") == split_parent(text)
        assert text == text.strip()
