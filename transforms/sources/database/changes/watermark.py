"""The watermark of a table: the highest timestamp up to which its rows were sent.

A run reads the rows above the watermark, less the lag. After a successful run, the watermark is the
highest timestamp that there was at its start. Rows with the timestamp of the watermark are read
again, since more rows can get it later; digests filter those that were sent. A row that commits
later than the lag after its timestamp is not found.

A timestamp ahead of the database's clock does not move the watermark past the clock: rows with such
a timestamp are read in every run.

Timestamps are dates, times, integers, or texts such as `2026-11-21 08:30:00`. An integer with a lag
counts seconds since 1970, or milliseconds, microseconds or nanoseconds.
"""

import math
import re
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace

from feedferry.schemas.errors import ConfigError
from feedferry.schemas.span import Timestamp, TimestampType, Watermark
from feedferry.transforms.sources.database.connection.session import Session
from feedferry.transforms.sources.database.mapping.row_mapping import TIMESTAMP
from feedferry.transforms.sources.database.mapping.values import text_of

_EXPECTED = (
    "dates, times, integers or ISO 8601 texts in UTC such as 2026-11-21 08:30:00, or a query that "
    "casts the column"
)
_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_FIRST_SECOND, _LAST_SECOND = 500_000_000, 5_000_000_000  # from 1985 to 2128
_TICKS_PER_SECOND = (1, 10**3, 10**6, 10**9)
_ISO = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:([ T])([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.[0-9]+)?(?:Z|\+00(?::?00)?)?)?",
    re.ASCII,
)


def encode_mark(mark: Watermark | None) -> str | None:
    """Return a watermark as the text in a state."""
    return None if mark is None else msgspec.json.encode(mark).decode()


def decode_mark(text: str | None) -> Watermark | None:
    """Return the watermark in a state, None for one of a type that is not supported."""
    with suppress(msgspec.DecodeError):
        return msgspec.json.decode(text or "null", type=Watermark | None)
    return None


def watermark_of(value: object, *, name: str) -> Watermark:
    """Return the watermark at a value of the column `name`; raise ConfigError for other types."""
    type_ = _type_of(value)
    if type_ is None:
        description = repr(value) if isinstance(value, str) else f"the type {type(value).__name__}"
        raise ConfigError(
            f"{TIMESTAMP}: {name!r} has a value of {description}; expected {_EXPECTED}"
        )
    return Watermark(type=type_, text=timestamp_text(value))


def timestamp_text(value: object) -> str:
    """Return a timestamp as the text that a state keeps for a row, empty for NULL.

    >>> timestamp_text(datetime(2026, 11, 21, 8, 30, 0, 125))
    '2026-11-21T08:30:00.000125'
    """
    return value.hex() if isinstance(value, bytes) else text_of(value) or ""


def floor_of(mark: Watermark, *, lag_seconds: float, name: str) -> Watermark:
    """Return the watermark less the lag and one second more: rows above it are read.

    So rows with the timestamp of the watermark are read even without a lag. Dates are reduced by
    one more day, and integers that count no time by 1. Raise ConfigError for a lag of the latter.
    """
    value = mark.value()
    moment = _moment_of(value)
    if moment is None:
        if lag_seconds:
            raise ConfigError(
                f"incremental: lag: {lag_seconds:g}s, and {name!r} holds {value}, which is no "
                "time; expected lag: 0s, or a column of dates, times or seconds since 1970"
            )
        return watermark_of(int(mark.text) - 1, name=name)
    days = 0 if _has_time(value) else 1
    try:
        moment -= timedelta(days=days, seconds=math.ceil(lag_seconds) + 1)
    except OverflowError:  # a lag that reaches beyond the year 1
        moment = datetime.min
    return watermark_of(_timestamp_at(moment, like=value), name=name)


def is_above_floor(text: str, floor: Watermark) -> bool | None:
    """Return whether a timestamp in a state is above a floor, None if it has another type."""
    with suppress(ValueError, TypeError):
        return replace(floor, text=text).is_above(floor)
    return None


def limit_to_clock(mark: Watermark, now: datetime) -> Watermark:
    """Return the watermark, or the clock if that is lower; other integers have no limit."""
    value = mark.value()
    moment = _moment_of(value)
    if moment is None or moment <= now:
        return mark
    return Watermark(type=mark.type, text=timestamp_text(_timestamp_at(now, like=value)))


def read_clock(session: Session) -> datetime:
    """Return the time of the database in UTC, without a zone."""
    statement = sa.select(session.dialect.clock)
    now: datetime = session.run(
        lambda connection: connection.execute(statement).scalar_one(), where="its clock"
    )
    return now.astimezone(UTC).replace(tzinfo=None) if now.tzinfo else now


def _type_of(value: object) -> TimestampType | None:
    match value:
        case bool():
            return None
        case datetime():
            return TimestampType.NAIVE if value.tzinfo is None else TimestampType.AWARE
        case date():
            return TimestampType.DATE
        case int():
            return TimestampType.INTEGER
        case str():
            with suppress(ValueError):
                _parse_iso(value)
                return TimestampType.TEXT
    return None


def _moment_of(value: Timestamp) -> datetime | None:
    """Return a timestamp as a time without a zone, None for an integer that counts no time."""
    match value:
        case datetime():
            return value.replace(tzinfo=None)
        case date():
            return datetime(value.year, value.month, value.day)
        case str():
            return _parse_iso(value)[0]
        case _:
            ticks = _ticks_per_second(value)
            return _EPOCH + value * 10**6 // ticks * _MICROSECOND if ticks else None


def _timestamp_at(moment: datetime, *, like: Timestamp) -> Timestamp:
    """Return a time in the form of another timestamp; of texts, no text of that second is lower."""
    match like:
        case datetime():
            return moment.replace(tzinfo=like.tzinfo)
        case date():
            return moment.date()
        case str():
            separator = _parse_iso(like)[1]
            return moment.isoformat(separator, "seconds") if separator else str(moment.date())
        case _:
            return (moment - _EPOCH) // _MICROSECOND * _ticks_per_second(like) // 10**6


def _has_time(value: Timestamp) -> bool:
    if isinstance(value, str):
        return _parse_iso(value)[1] is not None
    return isinstance(value, datetime | int)


def _parse_iso(text: str) -> tuple[datetime, str | None]:
    """Return the time of a text, to the second, and the separator of its date and its time."""
    match = _ISO.fullmatch(text)
    if match is None:
        raise ValueError(text)
    day, separator, clock = match.groups()
    return datetime.fromisoformat(f"{day}T{clock or '00:00:00'}"), separator


def _ticks_per_second(value: int) -> int:
    """Return the unit of a number that counts from 1970, 0 if it does not look like a time."""
    for ticks in _TICKS_PER_SECOND:
        if _FIRST_SECOND <= value / ticks <= _LAST_SECOND:
            return ticks
    return 0
