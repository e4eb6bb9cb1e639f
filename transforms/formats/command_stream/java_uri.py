"""URLs that the deployed adaptor accepts: those that Java's `java.net.URI` parses.

**Spec:** RFC 2396, "A. Collected BNF for URI", with the documented and undocumented deviations of
java.net.URI in Java 17:

- A reference may be relative or empty.
- Letters, digits and marks beyond ASCII are accepted; spaces and control characters are not.
- An authority may be empty before a path, a query or a fragment. It need not be a host with a port
  unless it has brackets. An IPv6 address may have a scope.

Up to Java 8, U+180E is a space.
"""

import re

OTHER = (
    "\u00a1-\u167f\u1681-\u1fff\u200b-\u2027\u202a-\u202e\u2030-\u205e\u2060-\u2fff"
    "\u3001-\U0010ffff"
)
"""Characters beyond ASCII that Java does not quote, for a regex class; surrogates are included."""

PATH = r"A-Za-z0-9_.!~*'():@&=+$,;/\-"
"""ASCII characters, except `%`, that Java does not quote in a path, for a regex class."""

_USER = r"A-Za-z0-9_.!~*'():&=+$,;\-"
_MAX_PORT = 2**31 - 1
_MAX_GROUPS = 8


def _run(chars: str) -> str:
    """Return a regex for any number of these, of OTHER and of escapes, that takes linear time."""
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
    """Return whether `new java.net.URI(text)` accepts a text; else the deployed parser stops."""
    match = _URI.fullmatch(text)
    if match is None:
        return False
    address, port = match["address"], match["port"]
    return address is None or (_is_ipv6(address) and _is_port(port))


def _is_ipv6(address: str) -> bool:
    """An address has eight groups, or fewer and a gap; an IPv4 address at its end is two groups."""
    before, gap, after = _IPV4.sub("0:0", address).partition("::")
    if not (_GROUPS.fullmatch(before) and _GROUPS.fullmatch(after)):
        return False
    groups = sum(side.count(":") + 1 for side in (before, after) if side)
    return groups < _MAX_GROUPS if gap else groups == _MAX_GROUPS


def _is_port(port: str | None) -> bool:
    """Java accepts any int, also beyond the highest port, or no digits."""
    digits = (port or "").lstrip("0") or "0"
    return len(digits) <= len(str(_MAX_PORT)) and int(digits) <= _MAX_PORT
