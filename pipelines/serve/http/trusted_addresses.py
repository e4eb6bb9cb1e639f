"""The addresses that a receiver trusts.

A GSA has a List of Trusted IP Addresses, a Thunderstone appliance its Cluster Members.

**Spec:** a pattern is an address, a network as address/length or address/netmask, the beginning
of an IPv4 address (`10.10.`), a glob of whole numbers (`10.10.10.*`), or the word `all`.
"""

import ipaddress
from collections.abc import Iterable

from schemas.errors import ConfigError

ALL = "all"
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_EXPECTED = (
    "an address, a network such as 10.0.0.0/8 or 10.0.0.0/255.0.0.0, the beginning of an address "
    "such as 10.10. or 10.10.*, or all"
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
        if "/" in text or ":" in text:
            return (_unmapped(ipaddress.ip_network(text, strict=False)),)
        return (_beginning(text),)
    except ValueError as exc:
        raise ConfigError(f"--trust: {pattern!r}; expected {_EXPECTED}") from exc


def _beginning(text: str) -> Network:
    """Return the network of all addresses with this beginning."""
    numbers = text.removesuffix(".").split(".")
    while len(numbers) > 1 and numbers[-1] == "*":
        numbers.pop()
    missing = 4 - len(numbers)
    if missing < 0 or (missing == 0 and text.endswith(".")):
        raise ValueError(text)
    address = ".".join((*numbers, *["0"] * missing))
    return ipaddress.IPv4Network(f"{address}/{8 * len(numbers)}")


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
