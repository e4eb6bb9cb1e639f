"""Values of rows as text: one form for each type, for all databases.

Nothing is truncated or replaced. Binary data that is not UTF-8 has no text and stays bytes.
"""

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from feedferry.schemas.errors import RecordError
from feedferry.transforms.formats.text.dates import parse_date

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MAX_SECONDS = 100_000_000_000  # in the year 5138; this number of milliseconds is in 1973
_ZERO_DATE = "0000-00-00"
_ADJACENT = re.compile("%[A-Za-z]%[A-Za-z]")


def text_of(value: object) -> str | None:
    """Return a value as one text, None for NULL; raise RecordError for a value without text.

    >>> text_of(datetime(2026, 1, 31, 8, 30, tzinfo=UTC))
    '2026-01-31T08:30:00Z'
    """
    convert = _CONVERTERS.get(type(value))
    if convert is not None:
        return convert(value)
    if isinstance(value, list | tuple):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=text_of)
    raise RecordError(
        "bad-value",
        f"a value of the type {type(value).__name__}; expected text, a number, a date, bytes or an "
        "array of these",
    )


def values_of(value: object) -> tuple[str | bytes, ...]:
    """Return the values of a metadata name: none for NULL, several for an array."""
    if isinstance(value, bytes):
        return (value,)
    if not isinstance(value, list | tuple):
        text = text_of(value)
        return () if text is None else (text,)
    texts = (item if isinstance(item, bytes) else text_of(item) for item in value)
    return tuple(text for text in texts if text is not None)


def row_json(row: Mapping[str, object]) -> bytes:
    """Return columns of a row as JSON for a reject, with bytes in hexadecimal."""
    text = json.dumps(row, ensure_ascii=False, default=_describe)
    return text.encode("utf-8", "surrogatepass")


def time_converter(
    name: str, zone: str, form: str | None = None
) -> Callable[[object], datetime | None]:
    """Return the function that converts a value to an aware time in UTC; None is NULL.

    Times and dates without a zone are in `zone`. Texts are parsed as in feeds. Numbers count from
    1970: seconds, or milliseconds, microseconds or nanoseconds if the number is too large for
    seconds. MySQL's zero date is not a time. Texts and integers that have a `form` of `strptime`
    are parsed by it; zeros are no time. The function raises RecordError for other values.
    """
    local = UTC if zone == "UTC" else ZoneInfo(zone)

    def convert(value: object) -> datetime | None:
        if value is None:
            return None
        try:
            if form is not None and isinstance(value, str | int):
                return _time_of(_formatted(str(value).strip(), form), local, zone)
            return _time_of(value, local, zone)
        except (ValueError, OverflowError, RecordError):
            forms = f"the format {form}" if form else "a date, a time or seconds since 1970"
            raise RecordError(
                "bad-date", f"{name}={_describe(value)!r}; expected {forms}"
            ) from None

    return convert


def _time_of(value: object, local: tzinfo, zone: str) -> datetime | None:
    if type(value) is str:
        return _parse_time(value, zone)
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=local)).astimezone(UTC)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=local).astimezone(UTC)
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return _since_1970(Decimal(value))
    return _parse_time(text_of(value) or "", zone)


def _formatted(text: str, form: str) -> datetime | str:
    """Return the time of a text, the empty text for zeros.

    `strptime` guesses where adjacent numbers end, if one has fewer digits.
    """
    if not text.strip("0"):
        return ""
    moment = datetime.strptime(text, form)
    if _ADJACENT.search(form) and not f"{moment:{form}}".startswith(text):
        raise ValueError(text)
    return moment


def _parse_time(text: str, zone: str) -> datetime | None:
    text = text.strip()
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


def _datetime_text(value: datetime) -> str:
    """Return ISO 8601, in UTC if there is a zone."""
    if value.tzinfo is None:
        return value.isoformat()
    try:
        return value.astimezone(UTC).isoformat()[:-6] + "Z"
    except OverflowError:  # hours from the year 1 or 9999
        return value.isoformat()


def _utf8_text(value: bytes) -> str:
    """Return bytes as UTF-8: MediaWiki and others store text in binary columns."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        raise RecordError(
            "bad-value", "bytes that are not UTF-8; expected text, a number or a date"
        ) from None


def _describe(value: object) -> str | None:
    if isinstance(value, bytes):
        return value.hex()
    try:
        return text_of(value)
    except RecordError:
        return f"a value of the type {type(value).__name__}"


_CONVERTERS: dict[type, Callable[[Any], str | None]] = {  # Any: the value types of a driver
    type(None): lambda value: None,
    str: str,
    int: str,
    bool: lambda value: "true" if value else "false",
    float: repr,
    Decimal: lambda value: format(value, "f"),
    datetime: _datetime_text,
    date: date.isoformat,
    time: time.isoformat,
    UUID: str,
    bytes: _utf8_text,
}
