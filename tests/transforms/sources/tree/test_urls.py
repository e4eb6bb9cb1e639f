"""URLs of paths: unique, percent-encoded as in RFC 3986; and options that make no URLs."""

from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from feedferry.schemas.errors import ConfigError
from feedferry.schemas.record import Meta
from feedferry.transforms.sources.tree.rules.tree import Tree
from feedferry.transforms.sources.tree.rules.urls import (
    check_urls,
    display_url_of,
    folder_url_of,
    path_metadata,
    url_of,
)

BASE = "https://docs.example.com/"


def tree(**rules: Any) -> Tree:  # the fields of a Tree
    return Tree(root="/srv/docs", **rules)


def url(key: str, **rules: Any) -> str:
    return url_of(tree(**rules), key)


def folder_url(key: str, **rules: Any) -> str:
    return folder_url_of(tree(**rules), key)


def complaint(**rules: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        check_urls(tree(**rules))
    return str(caught.value)


def segments() -> st.SearchStrategy[str]:
    awkward = st.sampled_from("%/#?&+;= \n~.äaA")
    letters = st.one_of(awkward, st.characters(exclude_categories=["Cs"]))
    names = st.text(letters, min_size=1, max_size=6).map(lambda name: name.replace("/", ":"))
    return names.filter(lambda name: name not in (".", "..") and "\0" not in name)


KEYS = st.lists(segments(), min_size=1, max_size=3).map("/".join)
Rules = dict[str, str]
RULES = st.sampled_from(
    (
        {"base_url": BASE},
        {"url_template": "https://docs.example.com/{path}"},
        {"url_template": "https://docs.example.com/view?id={id}&as=text"},
        {"url_template": "https://docs.example.com/a/{path}/"},
        {"url_template": "https://docs.example.com/{path}?p={path}"},
    )
)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("a/b.pdf", "a/b.pdf"),
        ("Pläne & mehr/50% #1?;+.pdf", "Pl%C3%A4ne%20%26%20mehr/50%25%20%231%3F%3B%2B.pdf"),
        ("A-z_0.9~", "A-z_0.9~"),  # unreserved in RFC 3986
    ],
)
def test_a_url_is_the_base_url_and_the_encoded_path(key: str, expected: str) -> None:
    assert url(key, base_url=BASE) == BASE + expected


@pytest.mark.parametrize(
    ("key", "template", "expected"),
    [
        ("a b/c.pdf", "get?path={path}", "get?path=a%20b/c.pdf"),
        ("a b/c.pdf", "get?id={id}", "get?id=a%20b%2Fc.pdf"),
        ("{name}.pdf", "{path}", "%7Bname%7D.pdf"),
    ],
)
def test_the_fields_of_a_template_are_filled(key: str, template: str, expected: str) -> None:
    assert url(key, url_template=BASE + template) == BASE + expected


def test_without_a_rule_the_key_is_the_url() -> None:
    assert url("a b/c.pdf") == "a b/c.pdf"


@given(KEYS)
def test_unquoting_the_part_after_a_base_url_gives_the_key(key: str) -> None:
    assert unquote(url(key, base_url=BASE).removeprefix(BASE)) == key


@given(KEYS)
def test_a_url_has_nothing_but_a_path_after_the_host(key: str) -> None:
    result = url(key, base_url=BASE)
    assert urlsplit(result).path == result.removeprefix("https://docs.example.com")


@given(RULES, KEYS, KEYS)
def test_different_keys_have_different_urls(rules: Rules, finding: str, other: str) -> None:
    assume(finding != other)
    assert url(finding, **rules) != url(other, **rules)
    assert folder_url(finding, **rules) != folder_url(other, **rules)


@given(RULES, KEYS, KEYS)
def test_no_file_has_the_url_of_a_folder(rules: Rules, folder: str, file: str) -> None:
    assert folder_url(folder, **rules) != url(file, **rules)


@pytest.mark.parametrize(
    ("key", "rules", "expected"),
    [
        ("a/b c", {"base_url": BASE}, "a/b%20c/"),
        ("a/b c/", {"base_url": BASE}, "a/b%20c/"),
        ("", {"base_url": BASE}, ""),
        ("a/b/", {"url_template": BASE + "get?id={id}"}, "get?id=a%2Fb%2F/"),
        ("", {"url_template": BASE + "get?path={path}"}, "get?path=/"),
    ],
)
def test_the_url_of_a_folder_ends_in_a_slash(
    key: str, rules: dict[str, str], expected: str
) -> None:
    assert folder_url(key, **rules) == BASE + expected


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("file:///srv/docs/{path}", "file:///srv/docs/a%20b/c.pdf"),
        ("smb://server/share/{path}", "smb://server/share/a%20b/c.pdf"),
    ],
)
def test_a_display_url_may_have_any_scheme(template: str, expected: str) -> None:
    rules = check_urls(tree(base_url=BASE, display_url=template))
    assert display_url_of(rules, "a b/c.pdf") == expected


def test_the_metadata_of_a_path_are_its_parts() -> None:
    assert path_metadata("a b/2026/plan.tar.gz") == (
        Meta("path", "a b/2026/plan.tar.gz"),
        Meta("name", "plan.tar.gz"),
        Meta("extension", "gz"),
        Meta("folder", "a b"),
        Meta("folder", "a b/2026"),
    )


def test_the_metadata_of_a_path_leave_out_missing_parts() -> None:
    assert path_metadata("Makefile") == (Meta("path", "Makefile"), Meta("name", "Makefile"))


@pytest.mark.parametrize(
    "rules",
    [
        {"base_url": "https://docs.example.com:8443/a%20b/"},
        {"base_url": "smb://files.example.com/share/"},
        {"base_url": "http://192.0.2.7/"},
        {"base_url": "http://[2001:db8::7]/"},
        {"url_template": "https://docs.example.com/{path}?as={id}"},
        {"url_template": "https://docs.example.com/{id}"},
    ],
)
def test_rules_that_make_urls_are_returned_as_they_are(rules: dict[str, str]) -> None:
    assert check_urls(tree(**rules)) == tree(**rules)


FORM = "a URL, percent-encoded, with a host, without a user and a fragment"
HIDDEN = "not shown, as it may contain a password"
EXPECTED = {
    "--base-url": f"{FORM}, without a query, and with a / at its end: {BASE}",
    "--url-template": f"{FORM}, with {{path}} or {{id}} after the host: {BASE}{{path}}",
    "--display-url": f"a URL, percent-encoded, with {{path}} or {{id}} if any: {BASE}{{path}}",
}


@pytest.mark.parametrize(
    ("flag", "url"),
    [
        ("--base-url", "docs.example.com/"),
        ("--base-url", "file:///srv/docs/"),
        ("--base-url", "https://docs.example.com/?path="),
        ("--base-url", "https://docs.example.com/#a/"),
        ("--base-url", "https://docs.example.com/a"),
        ("--base-url", "https://docs.example.com"),
        ("--base-url", "https://docs.example.com/Pläne/"),
        ("--base-url", "https://docs.example.com/50%/"),
        ("--base-url", "https://docs.example.com:999999/"),
        ("--base-url", "https://tim:s3same@docs.example.com/"),
        ("--url-template", "https://docs.example.com/"),
        ("--url-template", "https://docs.example.com/{name}"),
        ("--url-template", "https://docs.example.com/{path}}"),
        ("--url-template", "https://{path}.example.com/{path}"),
        ("--url-template", "https://docs.example.com/#{path}"),
        ("--url-template", "https://tim:s3same@docs.example.com/{path}"),
        ("--display-url", "docs/{path}"),
        ("--display-url", "https://www.example.com/{name}"),
    ],
)
def test_options_that_make_no_urls_are_refused(flag: str, url: str) -> None:
    name = flag.removeprefix("--").replace("-", "_")
    rules = {name: url} if name != "display_url" else {name: url, "base_url": BASE}
    shown = HIDDEN if "s3same" in url else repr(url)
    assert complaint(**rules) == f"{flag}: {shown}; expected {EXPECTED[flag]}"


def test_one_rule_for_urls_is_required() -> None:
    assert complaint() == (
        "--base-url: not given; expected the URL of the folder, such as"
        " https://docs.example.com/, or --url-template, such as https://docs.example.com/{path}"
    )
    assert complaint(base_url=BASE, url_template=BASE + "{path}") == (
        "--base-url, --url-template: both given; expected one of them"
    )


@pytest.mark.parametrize("flag", ["base_url", "url_template", "display_url"])
@pytest.mark.parametrize("flood", ["a/", "%20", "{path}a", "{path}?", "a."])
def test_long_urls_are_checked_in_linear_time(flag: str, flood: str) -> None:
    rules = {flag: f"https://docs.example.com/{flood * 5_000} "}
    assert complaint(**rules if flag != "display_url" else {**rules, "base_url": BASE})
