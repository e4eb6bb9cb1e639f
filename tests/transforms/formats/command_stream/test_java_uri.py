"""Each answer was asked of java.net.URI in Java 17."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.formats.command_stream.java_uri import is_uri


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "../a/./b",
        "/a:b",
        "a/b:c",
        "?a:b",
        "#a:b",
        "//host/a",
        "http://example.com/a/b;c=d?e=f&g#h",
        "https://user:password@example.com:8443/",
        "smb://server/share/a.doc",
        "googleconnector://c.localhost/doc?docid=1",
        "mailto:a@example.com",
        "urn:isbn:0451450523",
        "a+b-c.1:d",
    ],
)
def test_a_reference_is_taken_absolute_or_relative(text: str) -> None:
    assert is_uri(text)


@pytest.mark.parametrize(
    "text", [":", ":a", "1a:b", "a_b:c", "1:b", "a%20b:c", "ä:b", "http:", "http:#a"]
)
def test_a_scheme_needs_a_letter_and_something_behind_it(text: str) -> None:
    assert not is_uri(text)


@pytest.mark.parametrize("text", ["http:a", "http:?a", "http:/", "http:/?a", "x:[a]", "x:a?b/c"])
def test_what_stands_behind_a_scheme_need_not_be_a_host(text: str) -> None:
    assert is_uri(text)


@pytest.mark.parametrize("text", ["http:///a", "http://?a", "http://#a", "///", "//?", "////a"])
def test_an_authority_may_be_empty_where_something_follows(text: str) -> None:
    assert is_uri(text)


@pytest.mark.parametrize("text", ["http://", "//", "a://"])
def test_an_authority_is_not_empty_where_nothing_follows(text: str) -> None:
    assert not is_uri(text)


@pytest.mark.parametrize(
    "text",
    [
        "http://a_b/",
        "http://-a-/",
        "http://a@b@c/",
        "http://host:port/",
        "http://host:99999999999/",
        "http://:/",
        "http://%41;b,c/",
        "http://ä/",
        "http://1.2.3.256/",
    ],
)
def test_an_authority_need_not_be_a_host_and_a_port(text: str) -> None:
    assert is_uri(text)


@pytest.mark.parametrize("text", ["http://a b/", "http://a%b/", "http://a[b/", "http://a|b/"])
def test_an_authority_has_no_characters_but_its_own(text: str) -> None:
    assert not is_uri(text)


@pytest.mark.parametrize("text", ["a b", "a\tb", "a\nb", "a\0b", "a\x7fb", " a", "a ", "a#b c"])
def test_spaces_and_control_characters_are_refused(text: str) -> None:
    assert not is_uri(text)


@pytest.mark.parametrize("char", list('"<>\\^`{|}'))
def test_what_rfc_2396_excludes_is_refused_in_a_path(char: str) -> None:
    assert not is_uri(f"http://host/{char}")


@pytest.mark.parametrize("char", list("-_.!~*'():@&=+$,;/?#"))
def test_marks_and_what_is_reserved_stand_for_themselves(char: str) -> None:
    assert is_uri(f"http://host/{char}")


@pytest.mark.parametrize("text", ["a%20b", "%C3%a4", "?%00", "#%2F", "x:%41", "//%40/"])
def test_two_digits_behind_a_percent_sign_are_taken(text: str) -> None:
    assert is_uri(text)


@pytest.mark.parametrize("text", ["%", "a%2", "%zz", "?%4", "#100%", "x:%", "%4%41", "%２０"])
def test_a_percent_sign_with_less_is_refused(text: str) -> None:
    assert not is_uri(text)


@pytest.mark.parametrize("text", ["[", "a]", "/[a]", "http://host/[a]", "//host[::1]/"])
def test_brackets_are_refused_in_a_path(text: str) -> None:
    assert not is_uri(text)


@pytest.mark.parametrize("text", ["?[a]", "#[a]", "http://host/?a[]=1#]"])
def test_brackets_are_taken_in_a_query_and_a_fragment(text: str) -> None:
    assert is_uri(text)


@pytest.mark.parametrize("text", ["a#b#c", "##", "http://host/#a#"])
def test_a_second_number_sign_is_refused(text: str) -> None:
    assert not is_uri(text)


@pytest.mark.parametrize(
    "char", ["ä", "\u00a1", "\u00ad", "\u180e", "\u200b", "\ufeff", "\uffff", "\ud800", "😀"]
)
def test_what_is_no_space_beyond_ascii_stands_for_itself(char: str) -> None:
    assert is_uri(f"http://host/{char}")


@pytest.mark.parametrize(
    "char",
    list("\x80\x85\x9f\u00a0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000"),
)
def test_a_space_or_control_character_beyond_ascii_is_refused(char: str) -> None:
    assert not is_uri(f"http://host/{char}")


@pytest.mark.parametrize(
    "address",
    [
        "::",
        "::1",
        "1::",
        "1:2:3:4:5:6:7:8",
        "1:2:3:4:5:6:7::",
        "::2:3:4:5:6:7:8",
        "fe80::abCD",
        "::ffff:1.2.3.4",
        "1:2:3:4:5:6:1.2.3.4",
        "::001.02.3.00255",
        "fe80::1%eth0",
        "::1%a_b.c",
    ],
)
def test_an_ipv6_address_stands_in_brackets(address: str) -> None:
    assert is_uri(f"http://[{address}]/")


@pytest.mark.parametrize(
    "address",
    [
        "",
        ":",
        "1",
        ":::",
        "1::2::3",
        "1:2:3:4:5:6:7",
        "1:2:3:4:5:6:7:8:9",
        "1:2:3:4::5:6:7:8",
        "12345::",
        "g::",
        ":1:2:3:4:5:6:7:8",
        "1.2.3.4",
        "1.2.3.4::",
        "::1.2.3",
        "::1.2.3.4.5",
        "::1.2.3.256",
        "::1.2.3.4:5",
        "::1%",
        "%eth0",
        "::1%a%b",
        "::1%ä",
        "v1.a",
    ],
)
def test_nothing_but_an_ipv6_address_stands_in_brackets(address: str) -> None:
    assert not is_uri(f"http://[{address}]/")


@pytest.mark.parametrize(
    "around",
    [
        "//{}",
        "//@{}",
        "//user:%41@{}/",
        "//{}:",
        "//{}:80",
        "//{}:0002147483647/",
        "//{}?a",
        "//{}#a",
    ],
)
def test_an_address_in_brackets_may_have_a_user_and_a_port(around: str) -> None:
    assert is_uri(around.format("[::1]"))


@pytest.mark.parametrize(
    "around",
    [
        "//a{}",
        "//a@b@{}",
        "//a[@{}",
        "//{}a",
        "//{}]",
        "//{}:a",
        "//{}:-1",
        "//{}:1:2",
        "//{}:2147483648",
        "//{}:99999999999999999999",
        "//{}:٣",
        "{}",
        "x:/{}",
    ],
)
def test_an_address_in_brackets_has_nothing_else_around_it(around: str) -> None:
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
def test_a_long_text_is_refused_at_once(text: str) -> None:
    assert not is_uri(text)


@given(st.text(st.characters(codec="utf-8") | st.sampled_from("/:?#[]@%"), max_size=20))
def test_any_text_has_an_answer(text: str) -> None:
    assert is_uri(text) in (True, False)
