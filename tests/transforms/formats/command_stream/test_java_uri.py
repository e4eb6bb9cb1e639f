"""URLs that java.net.URI accepts; each answer is that of Java 17."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.formats.command_stream.java_uri import is_uri

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
    *("::ffff:1.2.3.4", "1:2:3:4:5:6:1.2.3.4", "::001.02.3.00255", "fe80::1%eth0", "::1%a_b.c"),
)
NO_ADDRESSES = (
    *("", ":", "1", ":::", "1::2::3", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1:2:3:4::5:6:7:8"),
    *("12345::", "g::", ":1:2:3:4:5:6:7:8", "1.2.3.4", "1.2.3.4::", "::1.2.3", "::1.2.3.4.5"),
    *("::1.2.3.256", "::1.2.3.4:5", "::1%", "%eth0", "::1%a%b", "::1%ä", "v1.a"),
)
AROUND = (
    *("//{}", "//@{}", "//user:%41@{}/", "//{}:", "//{}:80", "//{}:0002147483647/", "//{}?a"),
    "//{}#a",
)
NOT_AROUND = (
    *("//a{}", "//a@b@{}", "//a[@{}", "//{}a", "//{}]", "//{}:a", "//{}:-1", "//{}:1:2"),
    *("//{}:2147483648", "//{}:99999999999999999999", "//{}:٣", "{}", "x:/{}"),
)


@pytest.mark.parametrize("text", ACCEPTED)
def test_a_reference_that_java_parses_is_accepted(text: str) -> None:
    assert is_uri(text)


@pytest.mark.parametrize("text", REFUSED)
def test_a_reference_that_java_refuses_is_refused(text: str) -> None:
    assert not is_uri(text)


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_ipv6_address_is_accepted_in_brackets(address: str) -> None:
    assert is_uri(f"http://[{address}]/")


@pytest.mark.parametrize("address", NO_ADDRESSES)
def test_any_other_text_is_refused_in_brackets(address: str) -> None:
    assert not is_uri(f"http://[{address}]/")


@pytest.mark.parametrize("around", AROUND)
def test_an_address_in_brackets_may_have_a_user_and_a_port(around: str) -> None:
    assert is_uri(around.format("[::1]"))


@pytest.mark.parametrize("around", NOT_AROUND)
def test_an_address_in_brackets_has_no_other_text_around_it(around: str) -> None:
    assert not is_uri(around.format("[::1]"))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a" * 1_000_000 + " ", id="a long segment"),
        pytest.param("%41" * 300_000 + "%", id="many escapes"),
        pytest.param("//" + "@" * 1_000_000 + "[", id="many users"),
        pytest.param("http://[::1]:1" + "0" * 1_000_000, id="a long port"),
        pytest.param("http://[" + ":0" * 300_000 + "]", id="many groups"),
    ],
)
def test_a_long_text_is_refused_in_linear_time(text: str) -> None:
    assert not is_uri(text)


@given(st.text(st.characters(codec="utf-8") | st.sampled_from("/:?#[]@%"), max_size=20))
def test_any_text_has_an_answer(text: str) -> None:
    assert is_uri(text) in (True, False)
