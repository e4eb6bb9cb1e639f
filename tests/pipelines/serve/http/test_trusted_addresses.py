import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.serve.http.trusted_addresses import Trust
from schemas.errors import ConfigError

EXPECTED = (
    "expected an address, a network such as 10.0.0.0/8 or 10.0.0.0/255.0.0.0, the beginning of an "
    "address such as 10.10. or 10.10.*, or all"
)


def allows(pattern: str, address: str) -> bool:
    return Trust([pattern]).allows(address)


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("10.10.0.0/16", "10.10.255.255", "10.11.0.0"),
        ("10.10.3.4/16", "10.10.255.255", "10.11.0.0"),
        ("10.0.0.0/255.255.0.0", "10.0.255.1", "10.1.0.1"),
        ("10.10.", "10.10.1.1", "10.101.1.1"),
        ("10.10", "10.10.1.1", "10.101.1.1"),
        ("10.", "10.255.0.1", "11.0.0.1"),
        ("10.10.10.*", "10.10.10.9", "10.10.11.9"),
        ("10.*", "10.9.8.7", "100.9.8.7"),
        ("10.10.*.*", "10.10.8.7", "10.1.0.7"),
        (" 10.1.2.3 ", "10.1.2.3", "10.1.2.30"),
        ("fd00::/8", "fd12::1", "fe80::1"),
        ("::1", "::1", "::2"),
        ("2001:db8::7", "2001:0db8:0::0007", "2001:db8::8"),
    ],
)
def test_pattern_contains_only_its_addresses(pattern: str, inside: str, outside: str) -> None:
    assert (allows(pattern, inside), allows(pattern, outside)) == (True, False)


@pytest.mark.parametrize("address", ["8.8.8.8", "2001:db8::1"])
def test_all_means_all(address: str) -> None:
    assert allows("ALL", address)


def test_an_ipv4_client_of_an_ipv6_socket_is_known_by_its_ipv4_address() -> None:
    assert allows("10.1.0.0/16", "::ffff:10.1.2.3")


def test_a_pattern_in_the_clothes_of_ipv6_holds_ipv4() -> None:
    trust = Trust(["::ffff:10.1.0.0/112"])
    assert (trust.allows("10.1.2.3"), trust.allows("10.2.2.3")) == (True, False)


def test_a_network_of_ipv6_that_is_wider_than_ipv4_holds_none_of_it() -> None:
    assert not allows("::/0", "10.1.2.3")


def test_the_zone_of_a_link_local_address_does_not_matter() -> None:
    assert allows("fe80::/10", "fe80::1%eth0")


@pytest.mark.parametrize("address", ["", "unknown", "10.1.2.3:80", "10.1.2", "10.1.2.3.4", "[::1]"])
def test_text_that_is_no_address_is_never_trusted(address: str) -> None:
    assert not allows("all", address)


@pytest.mark.parametrize(
    ("chain", "is_trusted"),
    [
        ("10.1.2.3", True),
        ("10.1.2.3, 10.9.9.9", True),
        ("10.1.2.3,8.8.8.8", False),
        ("8.8.8.8, 10.1.2.3", False),
        ("10.1.2.3, unknown", False),
        ("", False),
        ("10.1.2.3,", False),
    ],
)
def test_a_chain_is_trusted_if_each_of_its_addresses_is(chain: str, is_trusted: bool) -> None:
    assert Trust(["10."]).allows_all(chain) is is_trusted


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "*",
        ".",
        "localhost",
        "10.256.",
        "10.*.3.4",
        "10.1*",
        "1.2.3.4.",
        "1.2.3.4.5",
        "10..1",
        "10.0.0.0/33",
        "10.0.0.0/255.0.255.0",
        "fe80:",
        "fe80::*",
        "everyone",
        "010.1.2.3",
    ],
)
def test_unknown_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Trust(["127.0.0.1", pattern])
    assert str(caught.value) == f"--trust: {pattern!r}; {EXPECTED}"


@given(st.text(max_size=50))
def test_no_address_can_make_it_fail(address: str) -> None:
    assert not Trust(["192.0.2.1"]).allows(address) or "192.0.2.1" in address
