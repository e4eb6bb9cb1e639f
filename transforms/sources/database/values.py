"""The values of rows as texts: one form for each type, whichever database it comes from.

Nothing is cut short or replaced. What has no text, as an image has none, stays bytes.
"""

import enum
import ipaddress
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import cache
from typing import Any, Protocol
from uuid import UUID

from schemas.errors import RecordError

_Text = Callable[[Any], str | None]  # Any: what a driver gives
_RANGE = ("lower", "upper", "bounds", "isempty")
_Binary = bytes | bytearray | memoryview
_ADDRESSES = (
    *(ipaddress.IPv4Address, ipaddress.IPv6Address),
    *(ipaddress.IPv4Network, ipaddress.IPv6Network),
    *(ipaddress.IPv4Interface, ipaddress.IPv6Interface),
)


class Range(Protocol):
    """A range of PostgreSQL, as its driver and SQLAlchemy both have it."""

    @property
    def lower(self) -> Any: ...
    @property
    def upper(self) -> Any: ...
    @property
    def bounds(self) -> str: ...
    @property
    def isempty(self) -> bool: ...


def text_of(value: object) -> str | None:
    """Return a value as one text, None for NULL; raise RecordError where it has none.

    >>> text_of(datetime(2026, 1, 31, 8, 30, tzinfo=UTC))
    '2026-01-31T08:30:00Z'
    """
    kind: Any = type(value)
    return _text_for(kind)(value)


def values_of(value: object) -> tuple[str | bytes, ...]:
    """Return the values of a metadata name: none for NULL, many for an array or a set."""
    plain = _TEXTS.get(type(value))
    if plain is not None and plain is not _binary_text:
        text = plain(value)
        return () if text is None else (text,)
    many = many_of(value)
    found = (_one_of(one) for one in ((value,) if many is None else many))
    return tuple(one for one in found if one is not None)


def many_of(value: object) -> Sequence[object] | None:
    """Return what is in an array or a set, always in one order; None for any other value."""
    if type(value) in _TEXTS:
        return None
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    if isinstance(value, Sequence) and not isinstance(value, str | _Binary):
        return value
    return None


def bytes_of(value: object) -> bytes:
    """Return a value that is a document as its bytes, texts in UTF-8; raise RecordError if not."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, _Binary):
        return bytes(value)
    if isinstance(value, Mapping | list):
        return _json(value).encode("utf-8", "surrogatepass")
    raise RecordError(
        "bad-value",
        f"a value of the type {type(value).__name__}; expected text, bytes or JSON, as only these "
        "are documents",
    )


def check_size(size: int, max_bytes: int) -> None:
    """Raise RecordError for a document of more bytes than one may have."""
    if size > max_bytes:
        raise RecordError(
            "content-too-large",
            f"{size} bytes or more; expected at most {max_bytes} bytes; raise --max-content-bytes "
            "to read it",
        )


def row_json(row: Mapping[str, object]) -> bytes:
    """Return some columns of a row so that a person can find it: JSON, bytes in hexadecimal."""
    text = json.dumps(row, ensure_ascii=False, default=_findable)
    return text.encode("utf-8", "surrogatepass")


def _one_of(value: object) -> str | bytes | None:
    return bytes(value) if isinstance(value, _Binary) else text_of(value)


@cache  # a database has a few dozen types
def _text_for(kind: type) -> _Text:
    if issubclass(kind, enum.Enum):
        return _enum_text
    for base in kind.__mro__:
        if base in _TEXTS:
            return _TEXTS[base]
    if all(hasattr(kind, name) for name in _RANGE):
        return _range_text
    if issubclass(kind, Mapping | Sequence | set | frozenset):
        return _json
    return _no_text


def _null(_value: None) -> None:
    return None


def _bool_text(value: bool) -> str:
    return "true" if value else "false"


def _decimal_text(value: Decimal) -> str:
    return format(value, "f")


def _datetime_text(value: datetime) -> str:
    """ISO 8601, in UTC where it has a zone; without one it stays as it is."""
    if value.tzinfo is None:
        return value.isoformat()
    if value.tzinfo is UTC:
        return value.isoformat()[:-6] + "Z"
    try:
        return value.astimezone(UTC).isoformat()[:-6] + "Z"
    except OverflowError:  # a few hours from year 1 or 9999
        return value.isoformat()


def _duration_text(value: timedelta) -> str:
    """ISO 8601: `P2DT3H4M5.6S`; hours and days are not made of one another."""
    sign, left = ("-", -value) if value < timedelta() else ("", value)
    hours, rest = divmod(left.seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    fraction = f".{left.microseconds:06d}".rstrip("0") if left.microseconds else ""
    days = f"{left.days}D" if left.days else ""
    parts = ((f"{hours}H", hours), (f"{minutes}M", minutes))
    clock = "".join(text for text, number in parts if number)
    if seconds or fraction or not (days or clock):
        clock += f"{seconds}{fraction}S"
    return f"{sign}P{days}{'T' if clock else ''}{clock}"


def _binary_text(value: _Binary) -> str:
    """Columns of bytes often hold text, as MediaWiki's do."""
    data = bytes(value)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise RecordError(
            "bad-value", "bytes that are not UTF-8; expected text, a number or a date"
        ) from None


def _enum_text(value: enum.Enum) -> str | None:
    return text_of(value.value)


def _range_text(value: Range) -> str:
    """As PostgreSQL writes it, but for quotes: `[1,5)`, `empty`, `[2026-01-31,)`."""
    if value.isempty:
        return "empty"
    lower, upper = text_of(value.lower), text_of(value.upper)
    return f"{value.bounds[0]}{lower or ''},{upper or ''}{value.bounds[1]}"


def _json(value: object) -> str:
    """JSON as it was, but for white space; what JSON has no form for is its text in it."""
    if not isinstance(value, Mapping):
        value = many_of(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_json_value)


def _json_value(value: object) -> object:
    many = many_of(value)
    return text_of(value) if many is None else list(many)


def _no_text(value: object) -> str:
    raise RecordError(
        "bad-value",
        f"a value of the type {type(value).__name__}; expected text, a number, a date, bytes, JSON "
        "or an array of these",
    )


def _findable(value: object) -> object:
    if isinstance(value, _Binary):
        return value.hex()
    try:
        return text_of(value)
    except RecordError:
        return f"a value of the type {type(value).__name__}"


# Last, for it names what stands above.
_TEXTS: dict[type, _Text] = {
    type(None): _null,
    str: str,
    int: str,
    bool: _bool_text,
    float: repr,
    Decimal: _decimal_text,
    datetime: _datetime_text,
    date: date.isoformat,
    time: time.isoformat,
    timedelta: _duration_text,
    UUID: str,
    bytes: _binary_text,
    bytearray: _binary_text,
    memoryview: _binary_text,
    **dict.fromkeys(_ADDRESSES, str),
}
