"""The addresses that a receiver trusts.

A GSA has a List of Trusted IP Addresses, a Thunderstone appliance its Cluster Members.

**Spec:** a pattern is an address, a network as address/length or address/netmask, or the word
`all`. The prefixes and globs of those lists (`10.10.`, `10.10.*`) are written as networks here.
"""

import ipaddress
from collections.abc import Iterable

from feedferry.schemas.errors import ConfigError

ALL = "all"
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_EXPECTED = (
    "an address, a network such as 10.10.0.0/16 or 10.10.0.0/255.255.0.0, or all; a prefix or a"
    " glob such as 10.10.* is the network 10.10.0.0/16"
)
_MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")


class Trust:
    """A list of patterns; raises ConfigError for an unknown form of pattern."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._networks = tuple(
            network for pattern in patterns for network in parse_pattern(pattern)
        )

    def allows(self, address: str) -> bool:
        """Whether a pattern contains the address; a text that is no address is not trusted."""
        parsed = _parse_address(address)
        return parsed is not None and any(parsed in network for network in self._networks)

    def allows_all(self, chain: str) -> bool:
        """Whether each address of an X-Forwarded-For is trusted."""
        return all(self.allows(address) for address in chain.split(","))


def parse_pattern(pattern: str) -> tuple[Network, ...]:
    """Return the networks of a pattern."""
    text = pattern.strip()
    if text.lower() == ALL:
        return ipaddress.IPv4Network("0.0.0.0/0"), ipaddress.IPv6Network("::/0")
    try:
        return (_unmapped(ipaddress.ip_network(text, strict=False)),)
    except ValueError as exc:
        raise ConfigError(f"--trust: {pattern!r}; expected {_EXPECTED}") from exc


def _unmapped(network: Network) -> Network:
    if isinstance(network, ipaddress.IPv6Network) and network.subnet_of(_MAPPED):
        inner = network.network_address.ipv4_mapped
        return ipaddress.IPv4Network(f"{inner}/{network.prefixlen - _MAPPED.prefixlen}")
    return network


def _parse_address(text: str) -> Address | None:
    """Return an address without its zone; an IPv4-mapped IPv6 address as IPv4."""
    try:
        address = ipaddress.ip_address(text.strip().partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
