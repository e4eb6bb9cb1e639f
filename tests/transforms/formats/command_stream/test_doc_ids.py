"""The urls under a base url are those that the deployed rule made of these ids on Java 17."""

from collections.abc import Callable
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import ConfigError, RecordError
from transforms.formats.base import Docids
from transforms.formats.command_stream.doc_ids import check_docids, id_maker, url_maker

PLAIN = Docids()
DEPLOYED = Docids(base_url="http://host:5678/doc/")
TEMPLATE = Docids(template="https://docs.example.com/view?id={id}&lang=de")
RULES = pytest.mark.parametrize("docids", [PLAIN, DEPLOYED, TEMPLATE])
PIECES = ("/", "//", ".", "..", "...", ":", "_", "index", "index.html", "index.htm", "/index/html")
BREAKS = ("\n", "\r\n", "\r", "\x85", "\u2028", "\u2029")
IDS = st.lists(
    st.sampled_from((*PIECES, *BREAKS, "%", "%20", "%2F", " ", "?", "#", "ä", "\u00a0", "😀", "\0"))
    | st.text(max_size=3),
    max_size=8,
).map("".join)


def path_of(docid: str) -> str:
    return url_maker(DEPLOYED)(docid).removeprefix("http://host:5678/doc/")


def id_of(path: str) -> str:
    return id_maker(DEPLOYED)("http://host:5678/doc/" + path)


def refusal(docids: Docids, url: str) -> tuple[str, str]:
    with pytest.raises(RecordError) as caught:
        id_maker(docids)(url)
    return caught.value.code, caught.value.reason


def test_without_a_rule_an_id_is_its_url() -> None:
    assert url_maker(PLAIN)("smb://host/a b/ä") == "smb://host/a b/ä"


def test_without_a_rule_a_url_is_its_id() -> None:
    assert id_maker(PLAIN)("smb://host/a b/ä") == "smb://host/a b/ä"


def test_an_id_of_plain_letters_stands_behind_the_base_url() -> None:
    assert url_maker(DEPLOYED)("docs/2024/a-1.pdf") == "http://host:5678/doc/docs/2024/a-1.pdf"


@pytest.mark.parametrize(
    ("docid", "path"),
    [
        (".", "...."),
        ("..", "....."),
        ("...", "......"),
        ("....", "......."),
        ("../x/./y", "...../x/..../y"),
        ("../", "...../"),
        ("a/..", "a/....."),
        (".././hi/.h/", "...../..../hi/.h/"),
        ("..safe../.h/h./..h/h..", "..safe../.h/h./..h/h.."),
    ],
)
def test_a_segment_of_dots_has_three_more(docid: str, path: str) -> None:
    assert (path_of(docid), id_of(path)) == (path, docid)


@pytest.mark.parametrize(
    ("docid", "path"),
    [
        ("/", ".../"),
        ("//", ".../.../"),
        ("/abs", ".../abs"),
        ("//abs", ".../.../abs"),
        ("a//b", "a/.../b"),
        ("a///b", "a/.../.../b"),
        ("a//", "a/.../"),
        ("/../", ".../...../"),
        ("/./", ".../..../"),
        ("//drop///table/now//", ".../.../drop/.../.../table/now/.../"),
    ],
)
def test_an_empty_segment_is_three_dots(docid: str, path: str) -> None:
    assert (path_of(docid), id_of(path)) == (path, docid)


@pytest.mark.parametrize(("docid", "path"), [("", ""), ("a/", "a/"), ("a/b/", "a/b/")])
def test_an_empty_segment_at_the_end_stays_empty(docid: str, path: str) -> None:
    assert (path_of(docid), id_of(path)) == (path, docid)


@pytest.mark.parametrize(
    ("docid", "path"),
    [
        ("http://host/a", "http://host/a"),
        ("a:///b", "a://.../b"),
        ("://", "://"),
        (":/", ":/"),
        ("//d:////t//://N://.//", ".../.../d://.../.../t/.../://N://..../.../"),
    ],
)
def test_an_empty_segment_behind_a_colon_and_a_slash_stays_empty(docid: str, path: str) -> None:
    assert (path_of(docid), id_of(path)) == (path, docid)


@pytest.mark.parametrize(
    ("docid", "path"),
    [
        ("index.html", "_index.html"),
        ("index.htm", "_index.htm"),
        ("_index.html", "__index.html"),
        ("a/__index.htm", "a/___index.htm"),
        ("a//index.html", "a/.../_index.html"),
        ("/index.html", ".../_index.html"),
    ],
)
def test_an_index_page_has_one_more_underscore(docid: str, path: str) -> None:
    assert (path_of(docid), id_of(path)) == (path, docid)


@pytest.mark.parametrize(
    "docid", ["index.html/", "index.html/a", "Index.html", "index.shtml", "an_index.html", "index"]
)
def test_what_only_looks_like_an_index_page_stays(docid: str) -> None:
    assert (path_of(docid), id_of(docid)) == (docid, docid)


@pytest.mark.parametrize(
    ("docid", "path"),
    [
        ("index-html", "_index-html"),
        ("index/html", "_index/html"),
        ("index html", "_index%20html"),
        ("index😀htm", "_index😀htm"),
        ("index\nhtm", "index%0Ahtm"),
        ("index.html\n", "_index.html%0A"),
        ("..\n", ".....%0A"),
        ("..\r\n", ".....%0D%0A"),
        ("..\u2028", ".....%E2%80%A8"),
        ("..\n\n", "..%0A%0A"),
        ("..\n/a", "..%0A/a"),
    ],
)
def test_quirks_of_the_deployed_rule_are_its_own(docid: str, path: str) -> None:
    assert (path_of(docid), id_of(path)) == (path, docid)


@pytest.mark.parametrize(
    ("char", "quoted"),
    [
        ("\0", "%00"),
        ("\n", "%0A"),
        (" ", "%20"),
        ('"', "%22"),
        ("#", "%23"),
        ("%", "%25"),
        ("%20", "%2520"),
        ("<", "%3C"),
        (">", "%3E"),
        ("?", "%3F"),
        ("[", "%5B"),
        ("\\", "%5C"),
        ("]", "%5D"),
        ("^", "%5E"),
        ("`", "%60"),
        ("{", "%7B"),
        ("|", "%7C"),
        ("}", "%7D"),
        ("\x7f", "%7F"),
        ("\x85", "%C2%85"),
        ("\u00a0", "%C2%A0"),
        ("\u1680", "%E1%9A%80"),
        ("\u2028", "%E2%80%A8"),
        ("\u3000", "%E3%80%80"),
    ],
)
def test_what_java_quotes_is_percent_encoded(char: str, quoted: str) -> None:
    assert (path_of(f"a{char}b"), id_of(f"a{quoted}b")) == (f"a{quoted}b", f"a{char}b")


@pytest.mark.parametrize("char", [*"-_.!~*'():@&=+$,;", "ä", "\u00ad", "\u180e", "\uffff", "😀"])
def test_what_java_does_not_quote_stays(char: str) -> None:
    assert (path_of(f"a{char}b"), id_of(f"a{char}b")) == (f"a{char}b", f"a{char}b")


@pytest.mark.parametrize("path", ["%C3%A4", "%c3%a4", "ä"])
def test_letters_beyond_ascii_are_taken_in_either_form(path: str) -> None:
    assert id_of(path) == "ä"


def test_lower_case_digits_are_taken() -> None:
    assert id_of("a%5b%2520b") == "a[%20b"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://host:5678/doc",
        "http://host:5678/other/a",
        "HTTP://host:5678/doc/a",
        "https://host:5678/doc/a",
        "http://host:5678/doc/a?b",
        "http://host:5678/doc/a#b",
        "http://host:5678/doc/a b",
        "http://host:5678/doc/a//b",
        "http://host:5678/doc//a",
        "http://host:5678/doc/..",
        "http://host:5678/doc/a/./b",
        "http://host:5678/doc/a/...",
        "http://host:5678/doc/index.html",
        "http://host:5678/doc/%7Ea",
        "http://host:5678/doc/a%2Fb",
        "http://host:5678/doc/a%",
        "http://host:5678/doc/a%zz",
        "http://host:5678/doc/%E4",
        "http://host:5678/doc/%C3ä",
    ],
)
def test_a_url_that_the_base_url_does_not_make_is_foreign(url: str) -> None:
    assert refusal(DEPLOYED, url) == (
        "foreign-url",
        f"{url!r}; expected a url that the base url 'http://host:5678/doc/' makes of an id",
    )


@pytest.mark.parametrize(
    ("docid", "quoted"),
    [
        ("", ""),
        ("a-1_2.3~", "a-1_2.3~"),
        ("a b/c?d=e&f#g%", "a%20b%2Fc%3Fd%3De%26f%23g%25"),
        ("ä😀", "%C3%A4%F0%9F%98%80"),
        ("{id}", "%7Bid%7D"),
    ],
)
def test_an_id_in_a_template_is_quoted(docid: str, quoted: str) -> None:
    url = f"https://docs.example.com/view?id={quoted}&lang=de"
    assert (url_maker(TEMPLATE)(docid), id_maker(TEMPLATE)(url)) == (url, docid)


@pytest.mark.parametrize("quoted", ["ä", "%c3%a4"])
def test_letters_beyond_ascii_are_taken_in_a_template_too(quoted: str) -> None:
    assert id_maker(TEMPLATE)(f"https://docs.example.com/view?id={quoted}&lang=de") == "ä"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "https://docs.example.com/view?id=1",
        "https://docs.example.com/view?id&lang=de",
        "http://docs.example.com/view?id=1&lang=de",
        "https://docs.example.com/view?id=1&x=2&lang=de",
        "https://docs.example.com/view?id=a+b&lang=de",
        "https://docs.example.com/view?id=%41&lang=de",
        "https://docs.example.com/view?id=%4&lang=de",
        "https://docs.example.com/view?id=%E4&lang=de",
    ],
)
def test_a_url_that_the_template_does_not_make_is_foreign(url: str) -> None:
    assert refusal(TEMPLATE, url) == (
        "foreign-url",
        f"{url!r}; expected a url that the template "
        "'https://docs.example.com/view?id={id}&lang=de' makes of an id",
    )


def test_a_url_that_is_shorter_than_the_template_around_its_id_is_foreign() -> None:
    assert refusal(Docids(template="x:aa{id}aa"), "x:aaa") == (
        "foreign-url",
        "'x:aaa'; expected a url that the template 'x:aa{id}aa' makes of an id",
    )


@RULES
@given(docid=IDS)
def test_every_id_comes_back(docids: Docids, docid: str) -> None:
    assert id_maker(docids)(url_maker(docids)(docid)) == docid


@RULES
def test_a_lone_surrogate_comes_back(docids: Docids) -> None:
    assert id_maker(docids)(url_maker(docids)("a \ud800")) == "a \ud800"


@given(path=IDS | st.text(alphabet="./_:%C34aindexhtml", max_size=12))
def test_a_url_is_foreign_or_that_of_its_id(path: str) -> None:
    url = "http://host:5678/doc/" + path
    try:
        docid = id_maker(DEPLOYED)(url)
    except RecordError:
        return
    assert unquote(url_maker(DEPLOYED)(docid)) == unquote(url)


@pytest.mark.parametrize(
    "base_url",
    [
        "http://host/",
        "https://host/doc/",
        "HTTP://host:5678/a/b%20c/",
        "http://user:pw@[::1]:80/doc/",
        "http://[::1]/",
    ],
)
def test_a_base_url_is_absolute_and_ends_in_a_slash(base_url: str) -> None:
    assert check_docids(Docids(base_url=base_url)) == Docids(base_url=base_url)


@pytest.mark.parametrize(
    "base_url",
    [
        "",
        "doc/",
        "//host/doc/",
        "ftp://host/doc/",
        "http:/doc/",
        "http:///doc/",
        "http://:80/doc/",
        "http://user@/doc/",
        "http://[doc]/",
        "http://host:port/doc/",
        "http://host",
        "http://host/doc",
        "http://host/doc?/",
        "http://host/doc/#/",
        "http://host/my doc/",
        " http://host/doc/",
        "http://host/doc/\n",
    ],
)
def test_another_base_url_is_refused(base_url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_docids(Docids(base_url=base_url))
    assert str(caught.value) == (
        f"base url {base_url!r}; expected an absolute http or https url with a host that ends in "
        "/, such as http://adaptor.example.com/doc/"
    )


@pytest.mark.parametrize(
    "template", ["https://host/{id}", "googleconnector://c.localhost/doc?docid={id}", "urn:x:{id}"]
)
def test_a_template_is_absolute_with_one_place_for_the_id(template: str) -> None:
    assert check_docids(Docids(template=template)) == Docids(template=template)


@pytest.mark.parametrize(
    "template",
    ["", "https://host/", "https://host/{id}/{id}", "https://host/{ID}", "{id}", "/{id}"],
)
def test_another_template_is_refused(template: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_docids(Docids(template=template))
    assert str(caught.value) == (
        f"template {template!r}; expected an absolute url with one {{id}}, "
        "such as https://docs.example.com/view?id={id}"
    )


def test_two_rules_are_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        check_docids(Docids(base_url="http://host/doc/", template="http://host/{id}"))
    assert str(caught.value) == (
        "a base url 'http://host/doc/' and a template 'http://host/{id}'; "
        "expected one rule for doc ids"
    )


def test_no_rule_is_a_rule() -> None:
    assert check_docids(PLAIN) == PLAIN


@pytest.mark.parametrize("maker", [url_maker, id_maker])
def test_a_maker_refuses_what_is_no_rule(maker: Callable[[Docids], object]) -> None:
    with pytest.raises(ConfigError, match=r"^template 'x'; expected an absolute url with one "):
        maker(Docids(template="x"))
