"""Which addresses a receiver trusts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedferry.pipelines.serve.http.trusted_addresses import Trust
from feedferry.schemas.errors import ConfigError

EXPECTED = (
    "expected an address, a network such as 10.10.0.0/16 or 10.10.0.0/255.255.0.0, or all; a prefix"
    " or a glob such as 10.10.* is the network 10.10.0.0/16"
)


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("10.10.0.0/16", "10.10.255.255", "10.11.0.0"),
        ("10.10.3.4/16", "10.10.255.255", "10.11.0.0"),
        ("10.0.0.0/255.255.0.0", "10.0.255.1", "10.1.0.1"),
        (" 10.1.2.3 ", "10.1.2.3", "10.1.2.30"),
        ("fd00::/8", "fd12::1", "fe80::1"),
        ("::1", "::1", "::2"),
        ("2001:db8::7", "2001:0db8:0::0007", "2001:db8::8"),
        ("10.1.0.0/16", "::ffff:10.1.2.3", "::ffff:10.2.2.3"),
        ("::ffff:10.1.0.0/112", "10.1.2.3", "10.2.2.3"),
        ("fe80::/10", "fe80::1%eth0", "10.1.2.3"),
        ("::/0", "::1", "10.1.2.3"),
        ("ALL", "8.8.8.8", ""),
        ("all", "2001:db8::1", "unknown"),
        ("all", "8.8.8.8", "10.1.2.3:80"),
        ("all", "8.8.8.8", "10.1.2"),
        ("all", "8.8.8.8", "[::1]"),
    ],
)
def test_a_pattern_contains_only_its_addresses(pattern: str, inside: str, outside: str) -> None:
    trust = Trust([pattern])
    assert (trust.allows(inside), trust.allows(outside)) == (True, False)


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
    assert Trust(["10.0.0.0/8"]).allows_all(chain) is is_trusted


@pytest.mark.parametrize(
    "pattern",
    ["", "*", "localhost", "10.10.", "10.10.*", "1.2.3.4.5", "10.0.0.0/33", "fe80:", "010.1.2.3"],
)
def test_an_unknown_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Trust(["127.0.0.1", pattern])
    assert str(caught.value) == f"--trust: {pattern!r}; {EXPECTED}"


@given(st.text(max_size=50))
def test_no_address_can_make_it_fail(address: str) -> None:
    assert not Trust(["192.0.2.1"]).allows(address) or "192.0.2.1" in address
