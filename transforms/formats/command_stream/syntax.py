"""The vocabulary and the lexical rules of command streams, shared by readers and writers.

**Spec:** GSA adaptor library, CommandStreamParser, "Header Format" and "Body Format".

In this package *the deployed parser* is the CommandStreamParser of the adaptor library, as it runs
on Java 17. A reader in `Mode.STRICT` accepts and refuses the same streams.
"""

import re
from datetime import UTC, datetime, timedelta

from schemas.acl import Access, Inheritance, Scope
from schemas.errors import ConfigError, RecordError

PREFIX = b"GSA Adaptor Data Version"
"""The first bytes of every command stream."""

COMMAND_NAMES = (
    *("id", "id-list", "repository-unavailable", "result-link", "last-modified"),
    *("crawl-immediately", "crawl-once", "lock", "delete", "up-to-date", "not-found"),
    *("mime-type", "meta-name", "meta-value", "param-name", "param-value", "content"),
    *("authz-status", "secure", "anchor-uri", "anchor-text", "no-index", "no-follow"),
    *("no-archive", "display-url", "acl", "namespace", "acl-permit-user", "acl-deny-user"),
    *("acl-permit-group", "acl-deny-group", "acl-inherit-from", "acl-inherit-fragment"),
    *("acl-inheritance-type", "acl-case-sensitive", "acl-case-insensitive"),
)
"""The commands that the deployed parser knows."""

PRINCIPALS = {
    "acl-permit-user": (Scope.USER, Access.PERMIT),
    "acl-deny-user": (Scope.USER, Access.DENY),
    "acl-permit-group": (Scope.GROUP, Access.PERMIT),
    "acl-deny-group": (Scope.GROUP, Access.DENY),
}
INHERITANCES = {kind.value.lower().replace("_", "-"): kind for kind in Inheritance}
"""The values of `acl-inheritance-type`."""

STATUSES = ("PERMIT", "DENY", "INDETERMINATE")
"""The values of `authz-status`."""

# Commands without a field of the record are extras at these places.
PLACE = "stream/"
STATUS = PLACE + "authz-status"
USERNAME = PLACE + "username"
GROUP = PLACE + "group"
PARAM = PLACE + "param/"
"""Place of a `param-name` and its `param-value`, followed by the name."""

TRIMMED = "".join(map(chr, range(0x21)))
"""The characters that Java's String.trim removes."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_DELIMITER_CHARS = 100
_FORBIDDEN = re.compile(r"[a-zA-Z0-9:/\-_ =+\[\]\ud800-\udfff]")
_MODIFIED = re.compile(rb"\xc0([\x80\x8a])")
_MODIFIED_CHARS = {b"\x80": b"\x00", b"\x8a": b"\n"}
_NUMBER = re.compile(r"[+-]?[0-9]{1,40}")


def decode(token: bytes) -> str:
    """Decode a token: UTF-8, in which C0 80 is NUL and C0 8A is LF; raise RecordError otherwise."""
    if b"\xc0" in token:
        token = _MODIFIED.sub(lambda match: _MODIFIED_CHARS[match[1]], token)
    try:
        return token.decode()
    except UnicodeDecodeError as exc:
        found = token[exc.start : exc.start + 4]
        reason = f"the bytes {found!r} in a token; expected UTF-8, with C0 80 and C0 8A besides"
        raise RecordError("not-utf8", reason) from exc


def encode(text: str) -> bytes:
    """Encode a token, with NUL and LF in their two-byte forms."""
    token = text.encode()
    if b"\n" in token or b"\0" in token:
        return token.replace(b"\n", b"\xc0\x8a").replace(b"\0", b"\xc0\x80")
    return token


def integer(text: str, *, bits: int) -> int | None:
    """Return the integer that Java parses: no blanks, and at most `bits` wide."""
    number = int(text) if _NUMBER.fullmatch(text) else None
    is_in_range = number is not None and -(2 ** (bits - 1)) <= number < 2 ** (bits - 1)
    return number if is_in_range else None


def moment_of(seconds: int) -> datetime | None:
    """Return the time of epoch seconds, None for a time outside the years 1 to 9999.

    Java multiplies by 1000 in 64 bits, and an overflow wraps around.
    """
    millis = (seconds * 1000 + 2**63) % 2**64 - 2**63
    try:
        return EPOCH + timedelta(milliseconds=millis)
    except OverflowError:
        return None


def require_argument(name: str, argument: str | None) -> str:
    """Return the argument of a command; raise RecordError if there is none."""
    if argument is None:
        raise RecordError("no-argument", f"{name} without an argument; expected {name}=…")
    return argument


def check_delimiter(text: str) -> str:
    """Return a delimiter that a header can state; raise ConfigError if it cannot be one."""
    if not text:
        raise ConfigError("an empty delimiter; expected one or more characters")
    if forbidden := _FORBIDDEN.search(text):
        expected = "neither a letter, a digit nor one of : / - _ space = + [ ]"
        raise ConfigError(f"{forbidden[0]!r} in the delimiter {text!r}; expected {expected}")
    if len(text) > _DELIMITER_CHARS:
        found = f"a delimiter of {len(text)} characters"
        raise ConfigError(f"{found}; expected at most {_DELIMITER_CHARS}")
    return text
