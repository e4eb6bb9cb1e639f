"""URLs that java.net.URI accepts; each answer is that of Java 17."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedferry.transforms.formats.text.java_uri import is_uri

ACCEPTED = (
    # references, absolute and relative
    *("", "a", "../a/./b", "/a:b", "a/b:c", "?a:b", "#a:b", "//host/a", "a+b-c.1:d"),
    *("http://example.com/a/b;c=d?e=f&g#h", "https://user:password@example.com:8443/"),
    *("smb://server/share/a.doc", "googleconnector://c.localhost/doc?docid=1"),
    *("mailto:a@example.com", "urn:isbn:0451450523"),
    # a scheme without a host
    *("http:a", "http:?a", "http:/", "http:/?a", "x:[a]", "x:a?b/c"),
    # an empty authority before a path, query or fragment
    *("http:///a", "http://?a", "http://#a", "///", "//?", "////a"),
    # an authority that is not a host and a port
    *("http://a_b/", "http://-a-/", "http://a@b@c/", "http://host:port/", "http://:/"),
    *("http://host:99999999999/", "http://%41;b,c/", "http://ä/", "http://1.2.3.256/"),
    # escapes, and brackets in a query and a fragment
    *("a%20b", "%C3%a4", "?%00", "#%2F", "x:%41", "//%40/"),
    *("?[a]", "#[a]", "http://host/?a[]=1#]"),
    # marks, reserved characters and characters beyond ASCII
    *(f"http://host/{char}" for char in "-_.!~*'():@&=+$,;/?#"),
    *(f"http://host/{char}" for char in "ä\u00a1\u00ad\u180e\u200b\ufeff\uffff\ud800😀"),
)
REFUSED = (
    # schemes
    *(":", ":a", "1a:b", "a_b:c", "1:b", "a%20b:c", "ä:b", "http:", "http:#a"),
    # an empty authority at the end, and characters that no authority has
    *("http://", "//", "a://", "http://a b/", "http://a%b/", "http://a[b/", "http://a|b/"),
    # spaces, control characters, and characters that RFC 2396 excludes
    *("a b", "a\tb", "a\nb", "a\0b", "a\x7fb", " a", "a ", "a#b c"),
    *(f"http://host/{char}" for char in '"<>\\^`{|}'),
    *(f"http://host/{char}" for char in "\x80\x85\x9f\u00a0\u1680\u2000\u200a\u2028\u2029\u202f"),
    *("http://host/\u205f", "http://host/\u3000"),
    # incomplete escapes, brackets in a path, a second number sign
    *("%", "a%2", "%zz", "?%4", "#100%", "x:%", "%4%41", "%２０"),
    *("[", "a]", "/[a]", "http://host/[a]", "//host[::1]/"),
    *("a#b#c", "##", "http://host/#a#"),
)
ADDRESSES = (
    *("::", "::1", "1::", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "fe80::abCD"),
    *("::ffff:1.2.3.4", "1:2:3:4:5:6:1.2.3.4", "fe80::1%eth0", "::1%a_b.c"),
)
NO_ADDRESSES = (
    *("", ":", "1", ":::", "1::2::3", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1:2:3:4::5:6:7:8"),
    *("12345::", "g::", ":1:2:3:4:5:6:7:8", "1.2.3.4", "1.2.3.4::", "::1.2.3", "::1.2.3.4.5"),
    *("::1.2.3.256", "::1.2.3.4:5", "::1%", "%eth0", "::1%a%b", "::1%ä", "v1.a"),
)
AROUND = (
    *("//{}", "//@{}", "//user:%41@{}/", "//{}:", "//{}:80", "//{}:999999999/", "//{}?a"),
    "//{}#a",
)
NOT_AROUND = (
    *("//a{}", "//a@b@{}", "//a[@{}", "//{}a", "//{}]", "//{}:a", "//{}:-1", "//{}:1:2"),
    *("//{}:2147483648", "//{}:٣", "{}", "x:/{}"),
)


@pytest.mark.parametrize(
    "text",
    [
        *ACCEPTED,
        *(f"http://[{address}]/" for address in ADDRESSES),
        *(around.format("[::1]") for around in AROUND),
    ],
)
def test_a_reference_that_java_parses_is_accepted(text: str) -> None:
    assert is_uri(text)


@pytest.mark.parametrize(
    "text",
    [
        *REFUSED,
        *(f"http://[{address}]/" for address in NO_ADDRESSES),
        *(around.format("[::1]") for around in NOT_AROUND),
    ],
)
def test_any_other_reference_is_refused(text: str) -> None:
    assert not is_uri(text)


@pytest.mark.parametrize(
    ("begin", "unit", "end"),
    [
        pytest.param("", "a", " ", id="a long segment"),
        pytest.param("", "%41", "%", id="many escapes"),
        pytest.param("//", "@", "[", id="many users"),
        pytest.param("http://[::1]:1", "0", "", id="a long port"),
        pytest.param("http://[", ":0", "]", id="many groups"),
    ],
)
def test_a_long_text_is_refused_in_linear_time(begin: str, unit: str, end: str) -> None:
    assert not is_uri(begin + unit * 500_000 + end)


@given(st.text(st.characters(codec="utf-8") | st.sampled_from("/:?#[]@%"), max_size=20))
def test_any_text_has_an_answer(text: str) -> None:
    assert is_uri(text) in (True, False)
