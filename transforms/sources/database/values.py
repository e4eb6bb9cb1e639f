"""Values of rows as text: one form for each type, for all databases.

Nothing is truncated or replaced. Binary data that is not UTF-8 has no text and stays bytes.
"""

import enum
import ipaddress
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from functools import cache
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from schemas.errors import RecordError
from transforms.formats.dates import parse_date

_Text = Callable[[Any], str | None]  # Any: the value types of a driver
_Binary = bytes | bytearray | memoryview
_RANGE = ("lower", "upper", "bounds", "isempty")
_ADDRESSES = (
    *(ipaddress.IPv4Address, ipaddress.IPv6Address),
    *(ipaddress.IPv4Network, ipaddress.IPv6Network),
    *(ipaddress.IPv4Interface, ipaddress.IPv6Interface),
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MAX_SECONDS = 100_000_000_000  # in the year 5138; this number of milliseconds is in 1973
_ZERO_DATE = "0000-00-00"


def text_of(value: object) -> str | None:
    """Return a value as one text, None for NULL; raise RecordError for a value without text.

    >>> text_of(datetime(2026, 1, 31, 8, 30, tzinfo=UTC))
    '2026-01-31T08:30:00Z'
    """
    type_: Any = type(value)
    return _converter(type_)(value)


def values_of(value: object) -> tuple[str | bytes, ...]:
    """Return the values of a metadata name: none for NULL, several for an array or a set."""
    convert = _CONVERTERS.get(type(value))
    if convert is not None and convert is not _binary_text:
        text = convert(value)
        return () if text is None else (text,)
    items = items_of(value)
    texts = (
        bytes(item) if isinstance(item, _Binary) else text_of(item)
        for item in ((value,) if items is None else items)
    )
    return tuple(text for text in texts if text is not None)


def items_of(value: object) -> Sequence[object] | None:
    """Return the items of an array, or those of a set, sorted; None for any other value."""
    if type(value) in _CONVERTERS:
        return None
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    if isinstance(value, Sequence) and not isinstance(value, str | _Binary):
        return value
    return None


def bytes_of(value: object) -> bytes:
    """Return a document as bytes, text as UTF-8; raise RecordError for other types."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, _Binary):
        return bytes(value)
    if isinstance(value, Mapping | list):
        return _json(value).encode("utf-8", "surrogatepass")
    raise RecordError(
        "bad-value",
        f"a value of the type {type(value).__name__}; expected a document: text, bytes or JSON",
    )


def check_size(size: int, max_bytes: int) -> None:
    """Raise RecordError for a document of more than `max_bytes`."""
    if size > max_bytes:
        raise RecordError(
            "content-too-large",
            f"{size} bytes or more; expected at most {max_bytes} bytes; raise --max-content-bytes "
            "to read it",
        )


def row_json(row: Mapping[str, object]) -> bytes:
    """Return columns of a row as JSON for a reject, with bytes in hexadecimal."""
    text = json.dumps(row, ensure_ascii=False, default=_show)
    return text.encode("utf-8", "surrogatepass")


def time_getter(at: int, *, name: str, zone: str) -> Callable[[Sequence[Any]], datetime | None]:
    """Return the function that returns a column as an aware time in UTC, None for NULL.

    Times and dates without a zone are in `zone`. Texts are parsed as in feeds. Numbers count from
    1970: seconds, or milliseconds, microseconds or nanoseconds if the number is too large for
    seconds. MySQL's zero date is not a time. The function raises RecordError for other values.
    """
    local = UTC if zone == "UTC" else ZoneInfo(zone)

    def get(row: Sequence[Any]) -> datetime | None:
        value = row[at]
        if value is None:
            return None
        try:
            return _time_of(value, local, zone)
        except (ValueError, OverflowError, RecordError):
            raise RecordError(
                "bad-date",
                f"{name}={_show(value)!r}; expected a date, a time or seconds since 1970",
            ) from None

    return get


def _time_of(value: object, local: tzinfo, zone: str) -> datetime | None:
    if isinstance(value, datetime):
        if value.tzinfo is UTC:
            return value
        return (value if value.tzinfo else value.replace(tzinfo=local)).astimezone(UTC)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=local).astimezone(UTC)
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return _since_1970(Decimal(value))
    text = (text_of(value) or "").strip()
    if not text or text.startswith(_ZERO_DATE):
        return None
    moment = parse_date(text, zone=zone)
    if moment is None:
        raise ValueError(text)
    return moment


def _since_1970(number: Decimal) -> datetime:
    if not number.is_finite():
        raise OverflowError(number)
    for micros in (1_000_000, 1_000, 1):
        if abs(number) < _MAX_SECONDS * (1_000_000 // micros):
            return _EPOCH + int(number * micros) * _MICROSECOND
    return _EPOCH + int(number / 1000) * _MICROSECOND


@cache  # a database has a few dozen types
def _converter(type_: type) -> _Text:
    if issubclass(type_, enum.Enum):
        return lambda value: text_of(value.value)
    for base in type_.__mro__:
        if base in _CONVERTERS:
            return _CONVERTERS[base]
    if all(hasattr(type_, name) for name in _RANGE):
        return _range_text
    if issubclass(type_, Mapping | Sequence | set | frozenset):
        return _json
    return _refuse


def _refuse(value: object) -> str:
    raise RecordError(
        "bad-value",
        f"a value of the type {type(value).__name__}; expected text, a number, a date, bytes, JSON "
        "or an array of these",
    )


def _datetime_text(value: datetime) -> str:
    """Return ISO 8601, in UTC if there is a zone."""
    if value.tzinfo is None:
        return value.isoformat()
    try:
        return value.astimezone(UTC).isoformat()[:-6] + "Z"
    except OverflowError:  # hours from the year 1 or 9999
        return value.isoformat()


def _duration_text(value: timedelta) -> str:
    """Return ISO 8601: `P2DT3H4M5.6S`."""
    sign, left = ("-", -value) if value < timedelta() else ("", value)
    hours, seconds = divmod(left.seconds, 3600)
    minutes, seconds = divmod(seconds, 60)
    fraction = f".{left.microseconds:06d}".rstrip("0") if left.microseconds else ""
    days = f"{left.days}D" if left.days else ""
    parts = ((f"{hours}H", hours), (f"{minutes}M", minutes))
    clock = "".join(text for text, number in parts if number)
    if seconds or fraction or not (days or clock):
        clock += f"{seconds}{fraction}S"
    return f"{sign}P{days}{'T' if clock else ''}{clock}"


def _binary_text(value: _Binary) -> str:
    """Return bytes as UTF-8: MediaWiki and others store text in binary columns."""
    try:
        return bytes(value).decode("utf-8")
    except UnicodeDecodeError:
        raise RecordError(
            "bad-value", "bytes that are not UTF-8; expected text, a number or a date"
        ) from None


def _range_text(value: Any) -> str:  # Any: the range types of psycopg and SQLAlchemy
    """Return a range as PostgreSQL writes it, without quotes: `[1,5)`, `empty`, `[2026-01-31,)`."""
    if value.isempty:
        return "empty"
    lower, upper = text_of(value.lower), text_of(value.upper)
    return f"{value.bounds[0]}{lower or ''},{upper or ''}{value.bounds[1]}"


def _json(value: object) -> str:
    if not isinstance(value, Mapping):
        value = items_of(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_json_value)


def _json_value(value: object) -> object:
    items = items_of(value)
    return text_of(value) if items is None else list(items)


def _show(value: object) -> object:
    if isinstance(value, _Binary):
        return bytes(value).hex()
    try:
        return text_of(value)
    except RecordError:
        return f"a value of the type {type(value).__name__}"


_CONVERTERS: dict[type, _Text] = {
    type(None): lambda value: None,
    str: str,
    int: str,
    bool: lambda value: "true" if value else "false",
    float: repr,
    Decimal: lambda value: format(value, "f"),
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
