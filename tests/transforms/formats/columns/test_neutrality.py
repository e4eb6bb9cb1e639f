"""Columns whose values are checked together are neutral if each value is."""

from hypothesis import given
from hypothesis import strategies as st

from transforms.formats.columns.cells import escaped
from transforms.formats.columns.neutrality import are_neutral, are_urls
from transforms.formats.xml_text import holds, holds_bytes


@given(st.integers(0, 0x20), st.integers(0, 1), st.sampled_from(["\r\n", "", "\ufffe"]))
def test_a_long_text_with_any_control_character_is_checked_as_a_short_one(
    code: int, count: int, end: str
) -> None:
    text = chr(code) * count + end
    assert holds_bytes(("x" * 70_000 + text).encode()) is holds(text)


HOSTS = ("http://a.example.com/", "https://10.0.0.1/", "http://1.2.example/", "http://a/", "x://h/")


@given(st.sampled_from(HOSTS), st.lists(st.text("ab/ \t\u00a0?#é.", max_size=5), min_size=1))
def test_urls_of_one_host_are_urls_if_each_of_them_is(host: str, paths: list[str]) -> None:
    urls = [host + path for path in paths]

    assert are_urls(urls) == all(are_urls([url]) for url in urls)
    assert are_urls(["http://b.example.com/", *urls]) == are_urls(urls)


@given(st.lists(st.text("ab \t<&\u00a0\ufffe", max_size=3), min_size=1, max_size=5))
def test_texts_are_neutral_if_each_of_them_is(texts: list[str]) -> None:
    values = escaped(texts)

    assert are_neutral(values) == all(are_neutral([value]) for value in values)
    assert not are_neutral([*values, ""])
    assert not are_neutral([*values, " a"])
    assert not are_neutral(["a ", *values])
