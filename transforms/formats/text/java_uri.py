"""URLs that the deployed adaptor accepts: those that Java's `java.net.URI` parses.

**Spec:** RFC 2396, "A. Collected BNF for URI", with the documented and undocumented deviations of
java.net.URI in Java 17:

- A reference may be relative or empty.
- Letters, digits and marks beyond ASCII are accepted; spaces and control characters are not.
- An authority may be empty before a path, a query or a fragment. It need not be a host with a port
  unless it has brackets. An IPv6 address may have a scope. Zeros before the numbers of an address,
  and ports of more than nine digits, which Java accepts, are refused.

Up to Java 8, U+180E is a space.
"""

import re
from functools import cache
from ipaddress import AddressValueError, IPv6Address

OTHER = (
    "\u00a1-\u167f\u1681-\u1fff\u200b-\u2027\u202a-\u202e\u2030-\u205e\u2060-\u2fff"
    "\u3001-\U0010ffff"
)
"""Characters beyond ASCII that Java does not quote, for a regex class; surrogates are included."""

PATH = r"A-Za-z0-9_.!~*'():@&=+$,;/\-"
"""ASCII characters, except `%`, that Java does not quote in a path, for a regex class."""

_USER = r"A-Za-z0-9_.!~*'():&=+$,;\-"


def _run(chars: str) -> str:
    """Return a regex for any number of these, of OTHER and of escapes, that takes linear time."""
    plain = f"[{chars}{OTHER}]*"
    return f"{plain}(?:%[0-9A-Fa-f]{{2}}{plain})*"


_ANY = _run(rf"?\[\]{PATH}")
_LITERAL = rf"""
    (?: {_run(_USER)} @ )?
    \[ (?P<address> [0-9A-Fa-f:.]{{2,45}} ) (?: % [A-Za-z0-9_.]+ )? \]
    (?: : [0-9]{{0,9}} )?
"""
_AUTHORITY = rf"// (?!\Z) (?: {_run('@' + _USER)} | {_LITERAL} ) (?= [/?\#] | \Z )"


def is_uri(text: str) -> bool:
    """Return whether `new java.net.URI(text)` accepts a text; else the deployed parser stops."""
    match = _uri_pattern().fullmatch(text)
    if match is None:
        return False
    try:
        IPv6Address(match["address"] or "::")
    except AddressValueError:
        return False
    return True


@cache
def _uri_pattern() -> re.Pattern[str]:
    """Compile the pattern at its first use: that takes longer than the import of a codec."""
    return re.compile(
        rf"""
        (?: [A-Za-z] [A-Za-z0-9+.-]* : (?! [/\#] | \Z ) {_ANY}
          | (?: [A-Za-z] [A-Za-z0-9+.-]* : (?=/) | (?! [^/?\#]* : ) )
            (?: {_AUTHORITY} | (?!//) ) {_run(PATH)} (?: \? {_ANY} )? )
        (?: \# {_ANY} )?
        """,
        re.VERBOSE,
    )
