"""Which texts the deployed adaptor takes for urls: those that Java's `java.net.URI` parses.

**Spec:** RFC 2396, "A. Collected BNF for URI", with the deviations that java.net.URI documents and
those that it has: a reference may be relative or empty; letters, signs and marks beyond ASCII stand
for themselves, but no space and no control character; an authority may be empty before a path, a
query or a fragment; it need not be a host with a port, unless it has brackets; an IPv6 address may
have a scope. This is Java 17; up to Java 8, U+180E is a space.
"""

import re

OTHER = (
    "\u00a1-\u167f\u1681-\u1fff\u200b-\u2027\u202a-\u202e\u2030-\u205e\u2060-\u2fff"
    "\u3001-\U0010ffff"
)
"""What Java leaves as it is beyond ASCII, surrogates too, for the brackets of a regex."""

PATH = r"A-Za-z0-9_.!~*'():@&=+$,;/\-"
"""What Java leaves as it is in a path, for the brackets of a regex; `%` is another matter."""

_USER = r"A-Za-z0-9_.!~*'():&=+$,;\-"
_MAX_PORT = 2**31 - 1
_MAX_GROUPS = 8


def _run(chars: str) -> str:
    """A regex for any number of these, of others and of escapes, that takes linear time."""
    plain = f"[{chars}{OTHER}]*"
    return f"{plain}(?:%[0-9A-Fa-f]{{2}}{plain})*"


_ANY = _run(rf"?\[\]{PATH}")
_LITERAL = rf"""
    (?: {_run(_USER)} @ )?
    \[ (?P<address> [0-9A-Fa-f:.]+ ) (?: % [A-Za-z0-9_.]+ )? \]
    (?: : (?P<port> [0-9]* ) )?
"""
_AUTHORITY = rf"// (?!\Z) (?: {_run('@' + _USER)} | {_LITERAL} ) (?= [/?\#] | \Z )"
_URI = re.compile(
    rf"""
    (?: [A-Za-z] [A-Za-z0-9+.-]* : (?! [/\#] | \Z ) {_ANY}
      | (?: [A-Za-z] [A-Za-z0-9+.-]* : (?=/) | (?! [^/?\#]* : ) )
        (?: {_AUTHORITY} | (?!//) ) {_run(PATH)} (?: \? {_ANY} )? )
    (?: \# {_ANY} )?
    """,
    re.VERBOSE,
)
_BYTE = "0*(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])"
_IPV4 = re.compile(rf"(?<=:){_BYTE}(?:\.{_BYTE}){{3}}\Z")
_GROUPS = re.compile("(?:[0-9A-Fa-f]{1,4}(?::[0-9A-Fa-f]{1,4})*)?")


def is_uri(text: str) -> bool:
    """Whether `new java.net.URI(text)` returns; where it throws, a deployed stream breaks off."""
    match = _URI.fullmatch(text)
    if match is None:
        return False
    address, port = match["address"], match["port"]
    return address is None or (_is_ipv6(address) and _is_port(port))


def _is_ipv6(address: str) -> bool:
    """Whether it is eight groups, or fewer with one gap; an IPv4 address at its end is two."""
    before, gap, after = _IPV4.sub("0:0", address).partition("::")
    if not (_GROUPS.fullmatch(before) and _GROUPS.fullmatch(after)):
        return False
    groups = sum(side.count(":") + 1 for side in (before, after) if side)
    return groups < _MAX_GROUPS if gap else groups == _MAX_GROUPS


def _is_port(port: str | None) -> bool:
    """Java asks for an int, or nothing: it takes more ports than there are."""
    digits = (port or "").lstrip("0") or "0"
    return len(digits) <= len(str(_MAX_PORT)) and int(digits) <= _MAX_PORT
