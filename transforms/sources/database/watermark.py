"""The high-water mark of a database: the timestamp up to which its rows were sent.

A run reads the rows above the mark less the lag, up to the highest timestamp that there was when
it started; when it has succeeded, the mark stands there. Rows with the very timestamp of the mark
are read again, as others may get the same one later: digests tell those that were sent, so no key
stands beside the mark. A row that is committed later than the lag after it was stamped is not
found.

A timestamp ahead of the clock of the database never moves the mark: the mark stands at the clock
then, and such rows are read in every run until their time has come.

Only the order of timestamps is relied on: they are dates, times, numbers, texts or bytes. A lag
can be taken from dates and times, from numbers that count seconds since 1970, or thousandths,
millionths or milliardths of them, and from texts like `2026-11-21 08:30:00`.
"""

import enum
import math
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa

from schemas.errors import ConfigError
from transforms.sources.database.values import text_of

Timestamp = datetime | date | int | float | Decimal | str | bytes
"""What a timestamp column may hold."""

_Day = TypeVar("_Day", bound=date)
_Number = int | float | Decimal

_FIRST_SECOND, _LAST_SECOND = 500_000_000, 5_000_000_000  # from 1985 to 2128
_TICKS = (1, 10**3, 10**6, 10**9)
_DAY_SECONDS = 86_400
_ISO = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:([ T])([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.[0-9]+)?(?:Z|\+00(?::?00)?)?)?",
    re.ASCII,
)


class Kind(enum.Enum):
    """What a timestamp is, as its text alone does not tell."""

    AWARE = "AWARE"
    NAIVE = "NAIVE"
    DATE = "DATE"
    INTEGER = "INTEGER"
    FLOAT = "FLOAT"
    DECIMAL = "DECIMAL"
    TEXT = "TEXT"
    BYTES = "BYTES"


_NUMBERS = frozenset({Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL})


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """A timestamp as text, exact to the microsecond, and what it was."""

    kind: Kind
    text: str

    def value(self) -> Timestamp:
        """Return the timestamp; raise ValueError if the text is none of its kind."""
        return _PARSERS[self.kind](self.text)

    def compares_with(self, other: "Mark") -> bool:
        """Whether both are of one column; its type may have been changed between two runs."""
        return self.kind is other.kind or {self.kind, other.kind} <= _NUMBERS


class Clock(msgspec.Struct, frozen=True, kw_only=True):
    """The time at the database, and what columns without a zone may hold by now.

    Nobody can tell whether those hold UTC or the time of the session, so `naive` is the lesser of
    both: what is above it only keeps the mark back.
    """

    aware: datetime
    naive: datetime


def encode_mark(mark: Mark) -> str:
    """Return a mark as the text that a state keeps."""
    return msgspec.json.encode(mark).decode()


def decode_mark(text: str) -> Mark:
    """Return the mark that a state has kept."""
    return msgspec.json.decode(text, type=Mark)


def mark_of(value: object, *, name: str) -> Mark:
    """Return the mark at a value of the column `name`; raise ConfigError if it is no timestamp."""
    kind = _kind_of(value)
    if kind is None:
        raise ConfigError(
            f"timestamp: {name!r} holds a value of the type {type(value).__name__}; expected a "
            "column of dates, times, numbers, texts or bytes"
        )
    return Mark(kind=kind, text=timestamp_text(value))


def timestamp_text(value: object) -> str:
    """Return a timestamp as text, the empty one for NULL: the fingerprint of a row in a state.

    >>> timestamp_text(datetime(2026, 11, 21, 8, 30, 0, 125))
    '2026-11-21T08:30:00.000125'
    """
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    return text_of(value) or ""


def floor_of(mark: Mark, *, lag_seconds: float, name: str) -> Timestamp | None:
    """Return what the timestamps that are to be read are above, `None` if that is nothing.

    Raise ConfigError if there is a lag, and the column `name` does not tell times.
    """
    value = mark.value()
    if isinstance(value, datetime):
        return _less(value, timedelta(seconds=lag_seconds, microseconds=1))
    if isinstance(value, date):
        return _less(value, _days(lag_seconds))
    if isinstance(value, str) and (iso := _parse_iso(value)):
        return _less_iso(*iso, lag_seconds)
    if isinstance(value, int | float | Decimal) and (ticks := _ticks(value) or not lag_seconds):
        return _less_number(value, math.ceil(lag_seconds * ticks))
    if not isinstance(value, str | bytes) or lag_seconds:
        raise ConfigError(
            f"lag: {lag_seconds:g}s, and {name!r} holds {value!r}, which tells no time; expected "
            "lag: 0s, or a column of dates, times or seconds since 1970"
        )
    return _just_below(value)


def bounded(mark: Mark, clock: Clock) -> Mark:
    """Return the mark, or the clock if that is less; what does not tell times has no bound."""
    value = mark.value()
    now = _now_like(value, clock)
    if now is None or not is_above(value, now):
        return mark
    return Mark(kind=mark.kind, text=timestamp_text(now))


def is_above(value: Timestamp, floor: Timestamp) -> bool:
    """Whether one timestamp is behind another of the same column."""
    above: Any = value  # values of one column can be compared, which no annotation says
    return bool(above > floor)


def read_clock(connection: sa.Connection) -> Clock:
    """Ask the database what time it is; where it states no zone, that is UTC, as in SQLite."""
    name = connection.dialect.name
    if name == "postgresql":
        now, local = connection.execute(sa.select(sa.func.now(), sa.func.localtimestamp())).one()
    elif name in ("mysql", "mariadb"):
        now, local = connection.execute(sa.select(sa.func.utc_timestamp(), sa.func.now())).one()
    else:
        now = local = connection.execute(sa.select(sa.func.now())).scalar_one()
    aware = now.replace(tzinfo=UTC) if now.tzinfo is None else now.astimezone(UTC)
    return Clock(aware=aware, naive=min(aware.replace(tzinfo=None), local.replace(tzinfo=None)))


def _kind_of(value: object) -> Kind | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, datetime):
        return Kind.NAIVE if value.tzinfo is None else Kind.AWARE
    return next((kind for base, kind in _KINDS.items() if isinstance(value, base)), None)


def _less(value: _Day, step: timedelta) -> _Day:
    try:
        return value - step
    except OverflowError:  # a lag that reaches beyond the year 1
        return value.replace(year=1, month=1, day=1)


def _days(lag_seconds: float) -> timedelta:
    return timedelta(days=math.ceil(lag_seconds / _DAY_SECONDS) + 1)


def _parse_iso(text: str) -> tuple[datetime, str | None] | None:
    """The time that a text tells, to the second, and what parts it from its day if it has both."""
    match = _ISO.fullmatch(text)
    if match:
        day, between, clock = match.groups()
        with suppress(ValueError):
            return datetime.fromisoformat(f"{day}T{clock or '00:00:00'}"), between
    return None


def _less_iso(time: datetime, between: str | None, lag_seconds: float) -> str:
    """A text of the same form, but to the second, so that no text of its second is below it."""
    if between is None:
        return _less(time, _days(lag_seconds)).date().isoformat()
    step = timedelta(seconds=math.ceil(lag_seconds) + 1)
    return _less(time, step).isoformat(between, "seconds")


def _ticks(value: _Number) -> int:
    """How many of it make a second, 0 if it does not tell time."""
    return next((one for one in _TICKS if _FIRST_SECOND <= value / one <= _LAST_SECOND), 0)


def _less_number(value: _Number, lag: int) -> _Number:
    return math.nextafter(value - lag, -math.inf) if isinstance(value, float) else value - lag - 1


def _just_below(value: str | bytes) -> Timestamp | None:
    """What is below a text in all collations is what it begins with."""
    if isinstance(value, str):
        return value.rstrip()[:-1] or None
    number = int.from_bytes(value)
    return (number - 1).to_bytes(len(value)) if number else None


def _now_like(value: Timestamp, clock: Clock) -> Timestamp | None:
    """The clock as a timestamp of the same form; `None` if the value does not tell times."""
    if isinstance(value, datetime):
        return clock.naive if value.tzinfo is None else clock.aware
    if isinstance(value, date):
        return clock.naive.date()
    if isinstance(value, str) and (iso := _parse_iso(value)):
        _, between = iso
        return clock.naive.isoformat(between, "seconds") if between else str(clock.naive.date())
    if isinstance(value, int | float | Decimal) and (ticks := _ticks(value)):
        return type(value)(int(clock.aware.timestamp() * ticks))
    return None


_KINDS: dict[type, Kind] = {
    date: Kind.DATE,
    int: Kind.INTEGER,
    float: Kind.FLOAT,
    Decimal: Kind.DECIMAL,
    str: Kind.TEXT,
    **dict.fromkeys((bytes, bytearray, memoryview), Kind.BYTES),
}
_PARSERS: dict[Kind, Callable[[str], Timestamp]] = {
    Kind.AWARE: datetime.fromisoformat,
    Kind.NAIVE: datetime.fromisoformat,
    Kind.DATE: date.fromisoformat,
    Kind.INTEGER: int,
    Kind.FLOAT: float,
    Kind.DECIMAL: Decimal,
    Kind.TEXT: str,
    Kind.BYTES: bytes.fromhex,
}
