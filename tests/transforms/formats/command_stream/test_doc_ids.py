"""URLs of doc ids; those under a base URL are the ones that the deployed rule makes on Java 17."""

from collections.abc import Callable
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedferry.schemas.errors import ConfigError, RecordError
from feedferry.transforms.formats import Docids
from feedferry.transforms.formats.command_stream.doc_ids import (
    _are_plain,
    _path,
    check_docids,
    id_maker,
    url_maker,
    urls_maker,
)

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


@RULES
@given(ids=st.lists(IDS | st.sampled_from(("a", "/a/b", "b/", '"', 'a"b', "")), max_size=5))
def test_many_ids_have_the_urls_of_each(docids: Docids, ids: list[str]) -> None:
    url_of = url_maker(docids)
    assert urls_maker(docids)(ids) == [url_of(docid) for docid in ids]


@given(st.lists(st.text('/.ab_index% é"\n', max_size=9), min_size=1), st.sampled_from(["", "/"]))
def test_plain_ids_are_their_own_paths(ids: list[str], root: str) -> None:
    rooted = [root + docid for docid in ids]

    if _are_plain(rooted, root):
        assert [_path(docid) for docid in ids] == ids
    assert _are_plain(rooted, root) == all(_are_plain([docid], root) for docid in rooted)
    assert _are_plain([f"{root}a/{number}.txt" for number in range(9)], root)


def test_without_a_rule_an_id_is_its_url() -> None:
    url = "smb://host/a b/ä"
    assert url_maker(PLAIN)(url) == id_maker(PLAIN)(url) == url


UNCHANGED = (
    *("", "docs/2024/a-1.pdf", "a/", "a/b/", "http://host/a", "://", ":/"),
    *("index.html/", "index.html/a", "Index.html", "index.shtml", "an_index.html", "index"),
    *(f"a{char}b" for char in "-_.!~*'():@&=+$,;"),
    *(f"a{char}b" for char in "ä\u00ad\u180e\uffff😀"),
)
DOTS = (  # a segment of dots has three more
    *((".", "...."), ("..", "....."), ("...", "......"), ("....", "......."), ("../", "...../")),
    *(("../x/./y", "...../x/..../y"), ("a/..", "a/....."), (".././hi/.h/", "...../..../hi/.h/")),
    ("..safe../.h/h./..h/h..", "..safe../.h/h./..h/h.."),
)
EMPTY_SEGMENTS = (  # an empty segment is three dots, except at the end and after a colon and slash
    *(("/", ".../"), ("//", ".../.../"), ("/abs", ".../abs"), ("//abs", ".../.../abs")),
    *(("a//b", "a/.../b"), ("a///b", "a/.../.../b"), ("a//", "a/.../"), ("/../", ".../...../")),
    *(("/./", ".../..../"), ("a:///b", "a://.../b")),
    ("//drop///table/now//", ".../.../drop/.../.../table/now/.../"),
    ("//d:////t//://N://.//", ".../.../d://.../.../t/.../://N://..../.../"),
)
INDEX_PAGES = (  # an index page has one more underscore
    *(("index.html", "_index.html"), ("index.htm", "_index.htm"), ("_index.html", "__index.html")),
    *(("a/__index.htm", "a/___index.htm"), ("a//index.html", "a/.../_index.html")),
    ("/index.html", ".../_index.html"),
)
QUIRKS = (  # of the deployed rule
    *(("index-html", "_index-html"), ("index/html", "_index/html")),
    *(("index html", "_index%20html"), ("index😀htm", "_index😀htm"), ("..\n/a", "..%0A/a")),
)
QUOTED = (
    *(("\0", "%00"), ("\n", "%0A"), (" ", "%20"), ('"', "%22"), ("#", "%23"), ("%", "%25")),
    *(("%20", "%2520"), ("<", "%3C"), (">", "%3E"), ("?", "%3F"), ("[", "%5B"), ("\\", "%5C")),
    *(("]", "%5D"), ("^", "%5E"), ("`", "%60"), ("{", "%7B"), ("|", "%7C"), ("}", "%7D")),
    *(("\x7f", "%7F"), ("\x85", "%C2%85"), ("\u00a0", "%C2%A0"), ("\u1680", "%E1%9A%80")),
    *(("\u2028", "%E2%80%A8"), ("\u3000", "%E3%80%80")),
)


@pytest.mark.parametrize(
    ("docid", "path"),
    [
        *((docid, docid) for docid in UNCHANGED),
        *(*DOTS, *EMPTY_SEGMENTS, *INDEX_PAGES, *QUIRKS),
        *((f"a{char}b", f"a{quoted}b") for char, quoted in QUOTED),
    ],
)
def test_an_id_has_the_path_of_the_deployed_rule_and_returns(docid: str, path: str) -> None:
    assert (path_of(docid), id_of(path)) == (path, docid)


@pytest.mark.parametrize(
    ("docids", "url", "docid"),
    [
        *(
            (DEPLOYED, f"http://host:5678/doc/{path}", docid)
            for path, docid in (("%C3%A4", "ä"), ("%c3%a4", "ä"), ("a%5b%2520b", "a[%20b"))
        ),
        *(
            (TEMPLATE, f"https://docs.example.com/view?id={quoted}&lang=de", "ä")
            for quoted in ("ä", "%c3%a4")
        ),
    ],
)
def test_escapes_are_accepted_in_either_case_and_letters_without_them(
    docids: Docids, url: str, docid: str
) -> None:
    assert id_maker(docids)(url) == docid


@pytest.mark.parametrize(
    "url",
    [
        *("", "http://host:5678/doc", "http://host:5678/other/a", "HTTP://host:5678/doc/a"),
        *("https://host:5678/doc/a", "http://host:5678/doc//a"),
        *(
            f"http://host:5678/doc/{path}"
            for path in (
                *("a?b", "a#b", "a b", "a//b", "..", "a/./b", "a/...", "index.html", "%7Ea"),
                *("a%2Fb", "a%", "a%zz", "%E4", "%C3ä"),
            )
        ),
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
        *(("", ""), ("a-1_2.3~", "a-1_2.3~"), ("a b/c?d=e&f#g%", "a%20b%2Fc%3Fd%3De%26f%23g%25")),
        *(("ä😀", "%C3%A4%F0%9F%98%80"), ("{id}", "%7Bid%7D")),
    ],
)
def test_an_id_in_a_template_is_quoted(docid: str, quoted: str) -> None:
    url = f"https://docs.example.com/view?id={quoted}&lang=de"
    assert (url_maker(TEMPLATE)(docid), id_maker(TEMPLATE)(url)) == (url, docid)


@pytest.mark.parametrize(
    "url",
    [
        *("", "https://docs.example.com/view?id=1", "https://docs.example.com/view?id&lang=de"),
        "http://docs.example.com/view?id=1&lang=de",
        "https://docs.example.com/view?id=1&x=2&lang=de",
        *(
            f"https://docs.example.com/view?id={quoted}&lang=de"
            for quoted in ("a+b", "%41", "%4", "%E4")
        ),
    ],
)
def test_a_url_that_the_template_does_not_make_is_foreign(url: str) -> None:
    assert refusal(TEMPLATE, url) == (
        "foreign-url",
        f"{url!r}; expected a url that the template "
        "'https://docs.example.com/view?id={id}&lang=de' makes of an id",
    )


def test_a_url_that_is_shorter_than_the_template_without_its_id_is_foreign() -> None:
    assert refusal(Docids(template="x:aa{id}aa"), "x:aaa") == (
        "foreign-url",
        "'x:aaa'; expected a url that the template 'x:aa{id}aa' makes of an id",
    )


@RULES
@given(docid=IDS | st.just("a \ud800"))
def test_every_id_survives_a_round_trip(docids: Docids, docid: str) -> None:
    assert id_maker(docids)(url_maker(docids)(docid)) == docid


@given(path=IDS | st.text(alphabet="./_:%C34aindexhtml", max_size=12))
def test_a_url_is_foreign_or_that_of_its_id(path: str) -> None:
    url = "http://host:5678/doc/" + path
    try:
        docid = id_maker(DEPLOYED)(url)
    except RecordError:
        return
    assert unquote(url_maker(DEPLOYED)(docid)) == unquote(url)


@pytest.mark.parametrize(
    "docids",
    [
        PLAIN,
        *(
            Docids(base_url=base_url)
            for base_url in (
                *("http://host/", "https://host/doc/", "HTTP://host:5678/a/b%20c/"),
                *("http://user:pw@[::1]:80/doc/", "http://[::1]/"),
            )
        ),
        *(
            Docids(template=template)
            for template in (
                *("https://host/{id}", "googleconnector://c.localhost/doc?docid={id}"),
                "urn:x:{id}",
            )
        ),
    ],
)
def test_a_rule_that_can_be_undone_is_accepted(docids: Docids) -> None:
    assert check_docids(docids) == docids


BASES = (
    *("", "doc/", "//host/doc/", "ftp://host/doc/", "http:/doc/", "http:///doc/"),
    *("http://:80/doc/", "http://user@/doc/", "http://[doc]/", "http://host:port/doc/"),
    *("http://host", "http://host/doc", "http://host/doc?/", "http://host/doc/#/"),
    *("http://host/my doc/", " http://host/doc/", "http://host/doc/\n"),
)
BASE = (
    "expected an absolute http or https url with a host that ends in /, such as"
    " http://adaptor.example.com/doc/"
)
TEMPLATES = ("", "https://host/", "https://host/{id}/{id}", "https://host/{ID}", "{id}", "/{id}")
ONE_ID = "expected an absolute url with one {id}, such as https://docs.example.com/view?id={id}"
BOTH = Docids(base_url="http://host/doc/", template="http://host/{id}")
ONE_RULE = (
    "a base url 'http://host/doc/' and a template 'http://host/{id}'; expected one rule for doc ids"
)


@pytest.mark.parametrize(
    ("check", "docids", "message"),
    [
        *((check_docids, Docids(base_url=url), f"base url {url!r}; {BASE}") for url in BASES),
        *(
            (check_docids, Docids(template=text), f"template {text!r}; {ONE_ID}")
            for text in TEMPLATES
        ),
        *((maker, BOTH, ONE_RULE) for maker in (url_maker, id_maker)),
    ],
)
def test_another_rule_or_two_rules_are_refused(
    check: Callable[[Docids], object], docids: Docids, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        check(docids)
    assert str(caught.value) == message
