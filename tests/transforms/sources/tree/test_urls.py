"""Urls of paths: each of its own, as RFC 3986 has them, and rules that cannot make such urls."""

from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from schemas.errors import ConfigError
from schemas.record import Meta
from transforms.sources.tree.tree import Tree
from transforms.sources.tree.urls import (
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
    return url_of(tree(**rules))(key)


def folder_url(key: str, **rules: Any) -> str:
    return folder_url_of(tree(**rules))(key)


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
TEMPLATES = st.sampled_from(
    (
        "https://docs.example.com/{path}",
        "https://docs.example.com/view?id={id}&as={extension}",
        "https://docs.example.com/{stem}/{path}/",
        "https://docs.example.com/{path}{name}",
    )
)


def test_a_url_is_the_base_url_and_the_path() -> None:
    assert url("a/b.pdf", base_url=BASE) == "https://docs.example.com/a/b.pdf"


def test_segments_are_percent_encoded() -> None:
    made = url("Pläne & mehr/50% #1?;+.pdf", base_url=BASE)
    assert made == "https://docs.example.com/Pl%C3%A4ne%20%26%20mehr/50%25%20%231%3F%3B%2B.pdf"


def test_what_rfc_3986_leaves_unreserved_is_not_encoded() -> None:
    assert url("A-z_0.9~", base_url=BASE) == "https://docs.example.com/A-z_0.9~"


def test_a_template_takes_the_path_segment_by_segment() -> None:
    made = url("a b/c.pdf", url_template="https://docs.example.com/get?path={path}")
    assert made == "https://docs.example.com/get?path=a%20b/c.pdf"


def test_a_template_takes_the_path_as_an_id_slashes_too() -> None:
    made = url("a b/c.pdf", url_template="https://docs.example.com/get?id={id}")
    assert made == "https://docs.example.com/get?id=a%20b%2Fc.pdf"


def test_a_template_takes_the_parts_of_a_name() -> None:
    template = "https://docs.example.com/{path}?{name}|{stem}|{extension}"
    made = url("a/b c.tar.gz", url_template=template)
    assert made == "https://docs.example.com/a/b%20c.tar.gz?b%20c.tar.gz|b%20c.tar|gz"


@pytest.mark.parametrize("name", ["Makefile", ".profile", "..."])
def test_a_name_without_an_extension_has_none(name: str) -> None:
    made = url(name, url_template="https://docs.example.com/{path}?{stem}|{extension}")
    assert made == f"https://docs.example.com/{name}?{name}|"


def test_braces_in_a_path_are_not_taken_for_those_of_the_template() -> None:
    made = url("{name}.pdf", url_template="https://docs.example.com/{path}")
    assert made == "https://docs.example.com/%7Bname%7D.pdf"


def test_without_a_rule_the_key_stands_for_the_url() -> None:
    assert url("a b/c.pdf") == "a b/c.pdf"


@given(KEYS)
def test_unquoting_what_stands_behind_a_base_url_gives_the_key(key: str) -> None:
    assert unquote(url(key, base_url=BASE).removeprefix(BASE)) == key


@given(KEYS)
def test_the_path_of_a_url_is_all_there_is_behind_the_host(key: str) -> None:
    made = url(key, base_url=BASE)
    assert urlsplit(made).path == made.removeprefix("https://docs.example.com")


@given(KEYS, KEYS)
def test_different_keys_have_different_urls(one: str, other: str) -> None:
    assume(one != other)
    assert url(one, base_url=BASE) != url(other, base_url=BASE)


@given(TEMPLATES, KEYS, KEYS)
def test_different_keys_have_different_urls_by_a_template(
    template: str, one: str, other: str
) -> None:
    assume(one != other)
    assert url(one, url_template=template) != url(other, url_template=template)


@pytest.mark.parametrize("key", ["a/b c", "a/b c/"])
def test_the_url_of_a_folder_ends_in_a_slash(key: str) -> None:
    assert folder_url(key, base_url=BASE) == "https://docs.example.com/a/b%20c/"


def test_the_url_of_the_root_is_the_base_url() -> None:
    assert folder_url("", base_url=BASE) == BASE


def test_the_url_of_a_folder_by_a_template_ends_in_a_slash() -> None:
    made = folder_url("a/b/", url_template="https://docs.example.com/get?id={id}")
    assert made == "https://docs.example.com/get?id=a%2Fb%2F/"


def test_the_url_of_the_root_by_a_template_ends_in_a_slash() -> None:
    made = folder_url("", url_template="https://docs.example.com/get?path={path}")
    assert made == "https://docs.example.com/get?path=/"


@given(TEMPLATES, KEYS, KEYS)
def test_no_file_has_the_url_of_a_folder(template: str, folder: str, file: str) -> None:
    assert folder_url(folder, url_template=template) != url(file, url_template=template)


@given(TEMPLATES, KEYS, KEYS)
def test_different_folders_have_different_urls(template: str, one: str, other: str) -> None:
    assume(one != other)
    assert folder_url(one, url_template=template) != folder_url(other, url_template=template)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("file:///srv/docs/{path}", "file:///srv/docs/a%20b/c.pdf"),
        ("smb://server/share/{path}", "smb://server/share/a%20b/c.pdf"),
    ],
)
def test_a_display_url_may_lead_anywhere(template: str, expected: str) -> None:
    rules = check_urls(tree(base_url=BASE, display_url=template))
    assert display_url_of(rules)("a b/c.pdf") == expected


def test_no_display_url_is_made_unless_one_is_asked_for() -> None:
    assert display_url_of(tree(base_url=BASE))("a") is None


def test_the_metadata_of_a_path_are_its_parts() -> None:
    assert path_metadata("a b/2026/plan.tar.gz") == (
        Meta("path", "a b/2026/plan.tar.gz"),
        Meta("name", "plan.tar.gz"),
        Meta("extension", "gz"),
        Meta("folder", "a b"),
        Meta("folder", "a b/2026"),
    )


def test_the_metadata_of_a_path_leave_out_what_it_has_not() -> None:
    assert path_metadata("Makefile") == (Meta("path", "Makefile"), Meta("name", "Makefile"))


@pytest.mark.parametrize(
    "rules",
    [
        {"base_url": "https://docs.example.com:8443/a%20b/"},
        {"base_url": "smb://files.example.com/share/"},
        {"base_url": "http://192.0.2.7/"},
        {"base_url": "http://[2001:db8::7]/"},
        {"url_template": "https://docs.example.com/{path}?as={extension}"},
        {"url_template": "https://docs.example.com/{id}"},
    ],
)
def test_rules_that_make_urls_are_returned_as_they_are(rules: dict[str, str]) -> None:
    assert check_urls(tree(**rules)) == tree(**rules)


def test_without_a_rule_there_are_no_urls() -> None:
    assert complaint() == (
        "--base-url: not given; expected the URL of the folder, such as https://docs.example.com/,"
        " or --url-template, such as https://docs.example.com/{path}"
    )


def test_two_rules_are_one_too_many() -> None:
    found = complaint(base_url=BASE, url_template="https://docs.example.com/{path}")
    assert found == "--base-url, --url-template: both given; expected one of them"


@pytest.mark.parametrize("base_url", ["docs.example.com/", "/srv/docs/", "file:///srv/docs/", ""])
def test_a_base_url_that_is_not_absolute_is_refused(base_url: str) -> None:
    assert complaint(base_url=base_url) == (
        f"--base-url: {base_url!r} is not absolute; expected a URL such as https://docs.example.com/"
    )


def test_a_host_that_is_not_fully_qualified_is_refused() -> None:
    assert complaint(base_url="http://intranet/docs/") == (
        "--base-url: 'http://intranet/docs/' has the host 'intranet'; expected a fully qualified"
        " one, such as 'intranet.example.com'"
    )


def test_a_dot_at_the_end_does_not_qualify_a_host() -> None:
    assert complaint(base_url="http://intranet./docs/") == (
        "--base-url: 'http://intranet./docs/' has the host 'intranet.'; expected a fully qualified"
        " one, such as 'intranet.example.com'"
    )


@pytest.mark.parametrize(
    "base_url", ["https://docs.example.com/?path=", "https://docs.example.com/#/"]
)
def test_a_base_url_with_something_behind_its_path_is_refused(base_url: str) -> None:
    assert complaint(base_url=base_url) == (
        f"--base-url: {base_url!r} has a query or a fragment; expected a URL that paths can follow,"
        " or --url-template"
    )


def test_a_base_url_without_a_slash_at_its_end_is_refused() -> None:
    assert complaint(base_url="https://docs.example.com/a") == (
        "--base-url: 'https://docs.example.com/a'; expected a / at its end:"
        " 'https://docs.example.com/a/'"
    )


@pytest.mark.parametrize(
    ("base_url", "found", "cure"),
    [
        ("https://docs.example.com/a b/", "' '", "'%20'"),
        ("https://docs.example.com/Pläne/", "'ä'", "'%C3%A4'"),
        ("https://docs.example.com/50%/", "'%'", "'%25'"),
        ("https://docs.example.com/{path}/", "'{'", "'%7B'"),
    ],
)
def test_a_character_that_no_url_has_is_refused(base_url: str, found: str, cure: str) -> None:
    assert complaint(base_url=base_url) == (
        f"--base-url: {found} in {base_url!r}; expected it percent-encoded: {cure}"
    )


def test_a_port_that_is_none_is_refused() -> None:
    assert complaint(base_url="https://docs.example.com:99999/") == (
        "--base-url: 'https://docs.example.com:99999/' (Port out of range 0-65535); expected a URL"
    )


def test_a_user_in_a_url_is_refused_and_no_password_shown() -> None:
    assert complaint(base_url="https://tim:s3same@docs.example.com/") == (
        "--base-url: a URL with a user in it; expected none, as reports show URLs"
    )


def test_a_template_by_which_files_have_one_url_is_refused() -> None:
    assert complaint(url_template="https://docs.example.com/{name}") == (
        "--url-template: 'https://docs.example.com/{name}'; expected {path} or {id} in it, as two"
        " files would have one URL"
    )


def test_a_field_that_nobody_knows_is_refused() -> None:
    assert complaint(url_template="https://docs.example.com/{file}") == (
        "--url-template: '{file}' in 'https://docs.example.com/{file}'; expected {path}, {id},"
        " {name}, {stem} or {extension}"
    )


def test_a_brace_without_its_other_is_refused() -> None:
    assert complaint(url_template="https://docs.example.com/{path}}") == (
        "--url-template: a single '}' in 'https://docs.example.com/{path}}'; expected {path}, {id},"
        " {name}, {stem} or {extension}"
    )


def test_a_template_without_a_host_is_refused() -> None:
    assert complaint(url_template="/docs/{path}") == (
        "--url-template: '/docs/{path}' is not absolute; expected a URL such as"
        " https://docs.example.com/{path}"
    )


def test_a_host_that_is_another_for_each_file_is_refused() -> None:
    assert complaint(url_template="https://{name}.example.com/{path}") == (
        "--url-template: 'https://{name}.example.com/{path}' has a host with a {…}; expected the"
        " same for all"
    )


def test_a_fragment_in_a_template_is_refused() -> None:
    assert complaint(url_template="https://docs.example.com/#{path}") == (
        "--url-template: 'https://docs.example.com/#{path}' has a fragment; expected none, as a"
        " fragment does not identify a document"
    )


def test_a_display_url_that_is_not_absolute_is_refused() -> None:
    assert complaint(base_url=BASE, display_url="docs/{path}") == (
        "--display-url: 'docs/{path}' is not absolute; expected a URL such as"
        " https://docs.example.com/{path}"
    )


def test_a_field_that_nobody_knows_is_refused_in_a_display_url() -> None:
    assert complaint(base_url=BASE, display_url="file:///docs/{Path}") == (
        "--display-url: '{Path}' in 'file:///docs/{Path}'; expected {path}, {id}, {name}, {stem} or"
        " {extension}"
    )
