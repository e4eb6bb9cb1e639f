"""When a push may send: daily or weekly hours, and a deadline.

Hours are those of the clock on the wall. In the night when the clock changes, a window that begins
or ends within the changed hour may do so up to an hour early or late.
"""

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, available_timezones

import msgspec

from schemas.errors import ConfigError
from schemas.spelling import did_you_mean
from schemas.units import parse_duration

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_EVERY_DAY = frozenset(range(7))
_DAY_MINUTES = 24 * 60
_TIME = r"[0-9]{1,2}:[0-9]{2}"
_ZONE = r"(?:\s+(?P<zone>[A-Za-z]\S*))?"
_WINDOW = re.compile(rf"(?P<hours>.*?{_TIME}){_ZONE}", re.ASCII)
_BETWEEN_HOURS = re.compile(r"(?<=[0-9])\s*,\s*")
_HOURS = re.compile(
    rf"(?:(?P<days>[A-Za-z]+(?:\s*[-,]\s*[A-Za-z]+)*)\s+)?(?P<begin>{_TIME})\s*-\s*(?P<end>{_TIME})",
    re.ASCII,
)
_TIME_OF_DAY = re.compile(rf"(?P<time>{_TIME}){_ZONE}", re.ASCII)


class WindowHours(msgspec.Struct, frozen=True):
    """Hours on some days of the week; 0 is Monday.

    `begin` and `end` count minutes from midnight of that day; `end` may be on the next day.
    """

    days: frozenset[int]
    begin: int
    end: int


class SendWindow(msgspec.Struct, frozen=True):
    """The hours in which feeds may be sent; `zone` is None for the time zone of the machine."""

    text: str
    hours: tuple[WindowHours, ...]
    zone: ZoneInfo | None = None

    def opens_at(self, now: datetime) -> datetime:
        """Return when the window opens next; that is `now` while it is open."""
        begin = next(begin for begin, end in self._openings(now) if end > now)
        return max(begin, now.astimezone(UTC)).astimezone(self.zone)

    def closes_at(self, now: datetime) -> datetime | None:
        """Return when the window closes after it is open next, None if it never closes."""
        opens = self.opens_at(now)
        closes = opens.astimezone(UTC)
        for begin, end in self._openings(opens):
            if begin > closes:
                return closes.astimezone(self.zone)
            closes = max(closes, end)
        return None

    def _openings(self, now: datetime) -> Iterator[tuple[datetime, datetime]]:
        """Yield begin and end of all openings from yesterday until next week, in UTC, in order."""
        today = now.astimezone(self.zone).date()
        for days_ahead in range(-1, 9):
            day = today + timedelta(days=days_ahead)
            for hours in sorted(self.hours, key=lambda hours: hours.begin):
                if day.weekday() in hours.days:
                    yield _moment(day, hours.begin, self.zone), _moment(day, hours.end, self.zone)


def parse_window(text: str) -> SendWindow:
    """Return the window of a text such as `20:00-06:00 Europe/Berlin`.

    Days may precede hours, and commas separate hours: `Mon-Fri 20:00-06:00, Sat,Sun 00:00-24:00`.
    Hours over midnight belong to the day on which they begin.
    """
    match = _WINDOW.fullmatch(text.strip())
    if not match:
        raise ConfigError(
            f"{text!r}; expected hours and a time zone, such as '20:00-06:00 Europe/Berlin' or "
            "'Mon-Fri 20:00-06:00, Sat,Sun 00:00-24:00'"
        )
    hours = tuple(_parse_hours(text, part) for part in _BETWEEN_HOURS.split(match["hours"]))
    if not match["zone"]:
        return SendWindow(f"{text.strip()} (time of this machine)", hours)
    return SendWindow(text.strip(), hours, find_zone(match["zone"]))


def parse_deadline(text: str, *, now: datetime) -> datetime:
    """Return the moment of `06:00`, `06:00 Europe/Berlin` or `6h`.

    A time of day means the next one. A duration counts from `now`.
    """
    match = _TIME_OF_DAY.fullmatch(text.strip())
    if match:
        zone = find_zone(match["zone"]) if match["zone"] else None
        minutes = _parse_time(text, match["time"])
        today = now.astimezone(zone).date()
        moments = (_moment(today + timedelta(days=ahead), minutes, zone) for ahead in range(3))
        return next(moment for moment in moments if moment > now).astimezone(zone)
    try:
        seconds = parse_duration(text)
    except ConfigError as exc:
        raise ConfigError(
            f"{text!r}; expected a time of day or a duration, such as 06:00 or 6h"
        ) from exc
    if not seconds:
        raise ConfigError(f"{text!r}; expected a deadline in the future, such as 6h")
    return now + timedelta(seconds=seconds)


def find_zone(name: str) -> ZoneInfo:
    """Return a time zone of the IANA database."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as exc:  # unknown, a path out of it, a folder in it
        like = did_you_mean(name, available_timezones())
        raise ConfigError(
            f"{name!r}; expected an IANA time zone such as Europe/Berlin{like}"
        ) from exc


def _parse_hours(text: str, part: str) -> WindowHours:
    match = _HOURS.fullmatch(part)
    if not match:
        raise ConfigError(
            f"{text!r}: {part!r}; expected a begin and an end such as 20:00-06:00, with days "
            "before them, and a comma before the next hours"
        )
    begin, end = _parse_time(text, match["begin"]), _parse_time(text, match["end"])
    if begin == end:
        raise ConfigError(
            f"{text!r}: {part!r}; expected an end that differs from the begin; the whole day is "
            "00:00-24:00"
        )
    days = _EVERY_DAY
    if match["days"]:
        days = frozenset(
            day for part in match["days"].split(",") for day in _parse_days(text, part)
        )
    return WindowHours(days, begin % _DAY_MINUTES, end if end > begin else end + _DAY_MINUTES)


def _parse_time(text: str, time_of_day: str) -> int:
    hour, minute = map(int, time_of_day.split(":"))
    if minute > 59 or hour * 60 + minute > _DAY_MINUTES:
        raise ConfigError(f"{text!r}: {time_of_day!r}; expected a time from 00:00 to 24:00")
    return hour * 60 + minute


def _parse_days(text: str, part: str) -> Iterator[int]:
    """Yield the days of `Mon` or `Fri-Mon`."""
    names = [name.strip().title() for name in part.split("-")]
    for name in names:
        if name not in _DAYS:
            like = did_you_mean(name[:3] if name[:3] in _DAYS else name, _DAYS)
            raise ConfigError(f"{text!r}: {name!r}; expected one of {', '.join(_DAYS)}{like}")
    if len(names) > 2:
        raise ConfigError(f"{text!r}: {part!r}; expected one day or two, such as Mon or Mon-Fri")
    first, last = _DAYS.index(names[0]), _DAYS.index(names[-1])
    return ((first + ahead) % 7 for ahead in range((last - first) % 7 + 1))


def _moment(day: date, minutes: int, zone: ZoneInfo | None) -> datetime:
    wall = datetime.combine(day, time()) + timedelta(minutes=minutes)
    return (wall.replace(tzinfo=zone) if zone else wall.astimezone()).astimezone(UTC)
