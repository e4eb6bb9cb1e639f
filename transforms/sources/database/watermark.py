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
from typing import TypeVar

import msgspec
import sqlalchemy as sa

from schemas.errors import ConfigError
from schemas.span import Timestamp, TimestampType, Watermark, is_above
from transforms.sources.database.values import text_of

_Day = TypeVar("_Day", bound=date)
_EXPECTED = (
    "dates, times, integers or ISO 8601 texts in UTC such as 2026-11-21 08:30:00, or a query that "
    "casts the column"
)
_FIRST_SECOND, _LAST_SECOND = 500_000_000, 5_000_000_000  # from 1985 to 2128
_TICKS_PER_SECOND = (1, 10**3, 10**6, 10**9)
_DAY_SECONDS = 86_400
_ISO = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:([ T])([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.[0-9]+)?(?:Z|\+00(?::?00)?)?)?",
    re.ASCII,
)


class DatabaseClock(msgspec.Struct, frozen=True, kw_only=True):
    """The time at the database, and the time for columns without a zone.

    These columns hold UTC or the time of the session; `naive` is the earlier of both, which can
    only keep the watermark lower.
    """

    aware: datetime
    naive: datetime


def encode_mark(mark: Watermark) -> str:
    """Return a watermark as the text in a state."""
    return msgspec.json.encode(mark).decode()


def decode_mark(text: str) -> Watermark | None:
    """Return the watermark in a state, None for one of a type that is not supported."""
    with suppress(msgspec.DecodeError):
        return msgspec.json.decode(text, type=Watermark)
    return None


def watermark_of(value: object, *, name: str) -> Watermark:
    """Return the watermark at a value of the column `name`; raise ConfigError for other types."""
    type_ = _type_of(value)
    if type_ is None:
        shown = repr(value) if isinstance(value, str) else f"the type {type(value).__name__}"
        raise ConfigError(
            f"incremental: timestamp: {name!r} has a value of {shown}; expected {_EXPECTED}"
        )
    return Watermark(type=type_, text=timestamp_text(value))


def timestamp_text(value: object) -> str:
    """Return a timestamp as the text that a state keeps for a row, empty for NULL.

    >>> timestamp_text(datetime(2026, 11, 21, 8, 30, 0, 125))
    '2026-11-21T08:30:00.000125'
    """
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    return text_of(value) or ""


def floor_of(mark: Watermark, *, lag_seconds: float, name: str) -> Watermark:
    """Return the watermark less the lag and one unit more: rows above it are read.

    So rows with the timestamp of the watermark are read even without a lag. The unit is the
    smallest of the type: a microsecond, a second for texts, a day for dates, 1 for integers.

    Raise ConfigError for a lag of integers that do not count time.
    """
    value = mark.value()
    floor: Timestamp
    if isinstance(value, datetime):
        floor = _subtract(value, timedelta(seconds=lag_seconds, microseconds=1))
    elif isinstance(value, date):
        floor = _subtract(value, _days(lag_seconds))
    elif isinstance(value, str):
        floor = _subtract_from_iso(value, lag_seconds)
    elif lag_seconds and not _ticks_per_second(value):
        raise ConfigError(
            f"incremental: lag: {lag_seconds:g}s, and {name!r} holds {value}, which is no time; "
            "expected lag: 0s, or a column of dates, times or seconds since 1970"
        )
    else:
        floor = value - math.ceil(lag_seconds * _ticks_per_second(value)) - 1
    return watermark_of(floor, name=name)


def limit_to_clock(mark: Watermark, clock: DatabaseClock) -> Watermark:
    """Return the watermark, or the clock if that is lower; other integers have no limit."""
    value = mark.value()
    now: Timestamp
    if isinstance(value, datetime):
        now = clock.naive if value.tzinfo is None else clock.aware
    elif isinstance(value, date):
        now = clock.naive.date()
    elif isinstance(value, str):
        _, separator = _parse_iso(value)
        now = clock.naive.isoformat(separator, "seconds") if separator else str(clock.naive.date())
    else:
        now = int(clock.aware.timestamp() * _ticks_per_second(value)) or value
    return Watermark(type=mark.type, text=timestamp_text(now)) if is_above(value, now) else mark


def read_clock(connection: sa.Connection) -> DatabaseClock:
    """Return the time of the database; a time without a zone is UTC, as in SQLite."""
    name = connection.dialect.name
    if name == "postgresql":
        now, local = connection.execute(sa.select(sa.func.now(), sa.func.localtimestamp())).one()
    elif name in ("mysql", "mariadb"):
        now, local = connection.execute(sa.select(sa.func.utc_timestamp(), sa.func.now())).one()
    else:
        now = local = connection.execute(sa.select(sa.func.now())).scalar_one()
    aware = now.replace(tzinfo=UTC) if now.tzinfo is None else now.astimezone(UTC)
    naive = min(aware.replace(tzinfo=None), local.replace(tzinfo=None))
    return DatabaseClock(aware=aware, naive=naive)


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
        case str() if _is_iso(value):
            return TimestampType.TEXT
    return None


def _subtract(value: _Day, step: timedelta) -> _Day:
    try:
        return value - step
    except OverflowError:  # a lag that reaches beyond the year 1
        return value.replace(year=1, month=1, day=1)


def _days(lag_seconds: float) -> timedelta:
    return timedelta(days=math.ceil(lag_seconds / _DAY_SECONDS) + 1)


def _is_iso(text: str) -> bool:
    with suppress(ValueError):
        return bool(_parse_iso(text))
    return False


def _parse_iso(text: str) -> tuple[datetime, str | None]:
    """Return the time of a text, to the second, and the separator of its date and its time."""
    match = _ISO.fullmatch(text)
    if match is None:
        raise ValueError(text)
    day, separator, clock = match.groups()
    return datetime.fromisoformat(f"{day}T{clock or '00:00:00'}"), separator


def _subtract_from_iso(text: str, lag_seconds: float) -> str:
    """Return a text of the same form, to the second: no text of that second sorts before it."""
    moment, separator = _parse_iso(text)
    if separator is None:
        return _subtract(moment, _days(lag_seconds)).date().isoformat()
    step = timedelta(seconds=math.ceil(lag_seconds) + 1)
    return _subtract(moment, step).isoformat(separator, "seconds")


def _ticks_per_second(value: int) -> int:
    """Return the unit of a number that counts from 1970, 0 if it does not look like a time."""
    ticks = (one for one in _TICKS_PER_SECOND if _FIRST_SECOND <= value / one <= _LAST_SECOND)
    return next(ticks, 0)
