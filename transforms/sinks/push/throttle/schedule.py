"""When a push may send, and how fast, as its user says it: windows, deadlines, durations, rates.

A time of day without a zone is that of the machine's own zone.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo, available_timezones

import msgspec

from schemas.errors import ConfigError
from schemas.spelling import did_you_mean
from schemas.units import BYTES, SECONDS, parse_duration

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_EVERY_DAY = frozenset(range(7))
_DAY_MINUTES = 24 * 60
_HORIZON_DAYS = 15  # a weekly window may miss one day, when its time is skipped there

_TIME = r"[0-9]{1,2}:[0-9]{2}"
_WINDOW = re.compile(rf"(?P<spans>.*?{_TIME})(?:\s+(?P<zone>[A-Za-z]\S*))?", re.ASCII)
_BETWEEN_SPANS = re.compile(r"(?<=[0-9])\s*,\s*")
_SPAN = re.compile(
    rf"(?:(?P<days>[A-Za-z]+(?:\s*[-,]\s*[A-Za-z]+)*)\s+)?(?P<begin>{_TIME})\s*-\s*(?P<end>{_TIME})",
    re.ASCII,
)
_TIME_OF_DAY = re.compile(rf"(?P<time>{_TIME})(?:\s+(?P<zone>[A-Za-z]\S*))?", re.ASCII)

_NUMBER = r"[0-9]{1,9}(?:\.[0-9]{1,6})?"
_UNIT_NAMES = {
    **dict.fromkeys(("d", "day", "days"), "d"),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("ms", "msec", "millis", "milliseconds"), "ms"),
}

_RATE = re.compile(
    rf"(?P<amount>{_NUMBER}) ?(?P<unit>(?:[kmgt]i?)?b)?/(?P<per>[smhd])", re.ASCII | re.IGNORECASE
)
_LOOSE_RATE = re.compile(
    rf"({_NUMBER})\s*([a-z]*)\s*(?:/|\bper\b)\s*([a-z]+)", re.ASCII | re.IGNORECASE
)
_SIZE_NAMES = {name: name.upper().replace("I", "i") for name in BYTES}
_SIZE_NAMES |= {"": "", "feed": "", "feeds": "", "byte": "B", "bytes": "B"}
_SIZE_NAMES |= {unit: f"{unit.upper()}iB" for unit in "kmgt"}


class LocalZone(tzinfo):
    """The zone that this machine is set to, with its changes of the clock."""

    def utcoffset(self, dt: datetime | None) -> timedelta | None:
        return dt.replace(tzinfo=None).astimezone().utcoffset() if dt else None

    def tzname(self, dt: datetime | None) -> str | None:
        return dt.replace(tzinfo=None).astimezone().tzname() if dt else None

    def dst(self, dt: datetime | None) -> timedelta | None:
        return None

    def fromutc(self, dt: datetime) -> datetime:
        local = datetime.fromtimestamp(dt.replace(tzinfo=UTC).timestamp())  # it knows the fold
        return local.replace(tzinfo=self)


LOCAL = LocalZone()


class Span(msgspec.Struct, frozen=True):
    """A time that is open on each of `days`, from 0 for Monday.

    `begin` and `end` count minutes from the beginning of that day; `end` may be on the next one.
    """

    days: frozenset[int]
    begin: int
    end: int


class SendWindow(msgspec.Struct, frozen=True):
    """Times in which feeds may be sent, by the clock on the wall in `zone`; the earliest first.

    A time begins when the clock first shows its beginning or is set past it, and ends alike. So a
    time that a change of the clock skips as a whole is not open on that day; and while the clock
    shows an hour for the second time, the window stays as it was when the clock was set back.
    """

    text: str
    spans: tuple[Span, ...]
    zone: tzinfo

    def opens_at(self, now: datetime) -> datetime:
        """Return when it opens next, in its zone; that is `now` while it is open."""
        begin = next(begin for begin, end in self._times(now) if end > now)
        return max(begin, now.astimezone(UTC)).astimezone(self.zone)

    def opens_in(self, now: datetime) -> float:
        """Return in how many seconds it opens, 0 while it is open."""
        return (self.opens_at(now).astimezone(UTC) - now).total_seconds()

    def closes_at(self, now: datetime) -> datetime | None:
        """Return when it closes, in its zone, after it is open; None if it never does."""
        opens = self.opens_at(now)  # which may be as far away as times are looked for
        closes = opens.astimezone(UTC)
        for begin, end in self._times(opens):
            if begin > closes:
                return closes.astimezone(self.zone)
            closes = max(closes, end)
        return None

    def _times(self, now: datetime) -> Iterator[tuple[datetime, datetime]]:
        """All times from yesterday's on, in order.

        They are in UTC, for times of one zone would compare by the clock on the wall.
        """
        today = now.astimezone(self.zone).date()
        for ahead in range(-1, _HORIZON_DAYS):
            day = today + timedelta(days=ahead)
            for span in self.spans:
                if day.weekday() in span.days:
                    begin, end = (_moment(day, at, self.zone) for at in (span.begin, span.end))
                    if begin < end:
                        yield begin, end


class Rate(msgspec.Struct, frozen=True):
    """How much may be sent in a second: so many feeds, or so many bytes.

    It spaces feeds, each of which goes as fast as the wire is.
    """

    text: str
    feeds_per_second: float | None = None
    bytes_per_second: float | None = None

    def seconds(self, size: int) -> float:
        """Return how long after a feed of so many bytes has begun the next one may begin."""
        if self.feeds_per_second:
            return 1 / self.feeds_per_second
        return size / self.bytes_per_second if self.bytes_per_second else 0.0


def parse_window(text: str, *, local: tzinfo = LOCAL) -> SendWindow:
    """Return the window that `20:00-06:00 Europe/Berlin` names.

    Days may stand before a time, and several times behind each other: `Mon-Fri 20:00-06:00,
    Sat,Sun 00:00-24:00`. A time over midnight belongs to the day that it begins on.
    """
    said = text.strip()
    match = _WINDOW.fullmatch(said)
    if not match:
        raise ConfigError(
            f"{text!r}; expected times and a zone, as '20:00-06:00 Europe/Berlin' or "
            "'Mon-Fri 20:00-06:00, Sat,Sun 00:00-24:00'"
        )
    parts = _BETWEEN_SPANS.split(match["spans"])
    spans = tuple(sorted((_parse_span(text, part) for part in parts), key=_by_begin))
    if not match["zone"]:
        return SendWindow(f"{said} (time of this machine)", spans, local)
    return SendWindow(said, spans, zone_of(match["zone"]))


def parse_deadline(text: str, *, now: datetime, local: tzinfo = LOCAL) -> datetime:
    """Return the moment that `06:00`, `06:00 Europe/Berlin` or `6h` means, aware.

    A time of day is the next one; a duration counts from now.
    """
    match = _TIME_OF_DAY.fullmatch(text.strip())
    if match:
        zone = zone_of(match["zone"]) if match["zone"] else local
        return _next(_parse_time(text, match["time"]), zone=zone, now=now)
    try:
        seconds = parse_duration(text)
    except ConfigError as exc:
        raise ConfigError(
            f"{text!r}; expected a time of day or a duration, as 06:00 or 6h"
        ) from exc
    if not seconds:
        raise ConfigError(f"{text!r}; expected a deadline that is not yet over, as 6h")
    return (now.astimezone(UTC) + timedelta(seconds=seconds)).astimezone(local)


def parse_rate(text: str) -> Rate:
    """Return the rate that `10/m`, feeds, or `20MiB/s`, bytes, names."""
    said = text.strip()
    match = _RATE.fullmatch(said)
    if not match or not float(match["amount"]):
        raise ConfigError(
            f"{text!r}; expected feeds or bytes in a time, as 10/m, 600/h or 20MiB/s"
            f"{_mend_rate(said)}"
        )
    per_second = float(match["amount"]) / SECONDS[match["per"].lower()]
    if not match["unit"]:
        return Rate(said, feeds_per_second=per_second)
    return Rate(said, bytes_per_second=per_second * BYTES[match["unit"].lower()])


def zone_of(name: str) -> ZoneInfo:
    """Return the time zone that has this name in the time zone database."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as exc:  # not there, a path out of it, a folder in it
        like = did_you_mean(name, available_timezones())
        raise ConfigError(
            f"{name!r}; expected an IANA time zone such as Europe/Berlin{like}"
        ) from exc


def _parse_span(text: str, part: str) -> Span:
    match = _SPAN.fullmatch(part)
    if not match:
        raise ConfigError(
            f"{text!r}: {part!r}; expected a beginning and an end, as 20:00-06:00, days before "
            "them, and a comma before the next"
        )
    begin, end = _parse_time(text, match["begin"]), _parse_time(text, match["end"])
    if begin == end:
        raise ConfigError(
            f"{text!r}: {part!r}; expected an end that is not its beginning, or 00:00-24:00 for "
            "the whole day"
        )
    days = _parse_days(text, match["days"]) if match["days"] else _EVERY_DAY
    return Span(days, begin % _DAY_MINUTES, end if end > begin else end + _DAY_MINUTES)


def _by_begin(span: Span) -> int:
    return span.begin


def _parse_time(text: str, time_of_day: str) -> int:
    hour, minute = map(int, time_of_day.split(":"))
    if minute > 59 or hour * 60 + minute > _DAY_MINUTES:
        raise ConfigError(f"{text!r}: {time_of_day!r}; expected a time from 00:00 to 24:00")
    return hour * 60 + minute


def _parse_days(text: str, days: str) -> frozenset[int]:
    return frozenset(day for part in days.split(",") for day in _parse_day_range(text, part))


def _parse_day_range(text: str, part: str) -> Iterator[int]:
    named = [_parse_day(text, name.strip()) for name in part.split("-")]
    if len(named) > 2:
        raise ConfigError(f"{text!r}: {part!r}; expected one day or two, as Mon or Mon-Fri")
    behind = (named[-1] - named[0]) % 7
    return ((named[0] + ahead) % 7 for ahead in range(behind + 1))


def _parse_day(text: str, name: str) -> int:
    if name.title() in _DAYS:
        return _DAYS.index(name.title())
    first = name[:3].title()
    like = did_you_mean(first if first in _DAYS else name, _DAYS)
    raise ConfigError(f"{text!r}: {name!r}; expected one of {', '.join(_DAYS)}{like}")


def _mend_rate(text: str) -> str:
    """Ask for a rate that may have been meant, `10/m` for `10 per minute`, or nothing."""
    match = _LOOSE_RATE.fullmatch(text)
    if not match or not float(match[1]):
        return ""
    unit, per = _SIZE_NAMES.get(match[2].lower(), "?"), _UNIT_NAMES.get(match[3].lower(), "?")
    mended = f"{match[1]}{unit}/{per}"
    return _ask(mended, _RATE)


def _ask(mended: str, kind: re.Pattern[str]) -> str:
    return f"; did you mean {mended!r}?" if mended and kind.fullmatch(mended) else ""


def _next(minutes: int, *, zone: tzinfo, now: datetime) -> datetime:
    today = now.astimezone(zone).date()
    moments = (_moment(today + timedelta(days=ahead), minutes, zone) for ahead in range(-1, 4))
    return next(moment for moment in moments if moment > now).astimezone(zone)


def _moment(day: date, minutes: int, zone: tzinfo) -> datetime:
    """When the clock on the wall first shows so many minutes of a day or is set past them."""
    wall = datetime.combine(day, time()) + timedelta(minutes=minutes)
    moment = wall.replace(tzinfo=zone).astimezone(UTC)
    if _wall(moment, zone) == wall:
        return moment
    # The clock is set past it; `fold` takes the offset behind that change for the one before.
    earliest = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    skipped = range(int((moment - earliest).total_seconds()) + 1)
    return earliest + timedelta(
        seconds=bisect_left(
            skipped,
            True,
            key=lambda seconds: _wall(earliest + timedelta(seconds=seconds), zone) >= wall,
        )
    )


def _wall(moment: datetime, zone: tzinfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None)
