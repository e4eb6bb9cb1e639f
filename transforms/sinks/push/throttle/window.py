"""When a push may send: daily or weekly hours, and a deadline.

Hours are those of the clock on the wall. In the night when the clock changes, a window that begins
or ends within the changed hour may do so up to an hour early or late.
"""

import re
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, available_timezones

import msgspec

from feedferry.schemas.errors import ConfigError
from feedferry.schemas.spelling import did_you_mean
from feedferry.schemas.units import parse_duration

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY_MINUTES = 24 * 60
_TIME = r"[0-9]{1,2}:[0-9]{2}"
_DAY = rf"(?:{'|'.join(_DAYS)})"
_DAY_RANGE = re.compile(rf"({_DAY})(?:\s*-\s*({_DAY}))?", re.I)
_HOURS = re.compile(
    rf"(?P<days>{_DAY}(?:\s*[-,]\s*{_DAY})*\s+)?(?P<begin>{_TIME})\s*-\s*(?P<end>{_TIME})", re.I
)
_ALL_HOURS = re.sub(r"\?P<\w+>", "?:", _HOURS.pattern)
_ZONE = r"(?:\s+(?P<zone>[A-Za-z]\S*))?"
_WINDOW = re.compile(rf"(?P<hours>{_ALL_HOURS}(?:\s*,\s*{_ALL_HOURS})*){_ZONE}", re.I)
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
        today = now.astimezone(self.zone).date()
        days = [today + timedelta(days=days_ahead) for days_ahead in range(-1, 9)]
        begin = min(
            _moment(day, hours.begin, self.zone)
            for day in days
            for hours in self.hours
            if day.weekday() in hours.days and _moment(day, hours.end, self.zone) > now
        )
        return max(begin, now.astimezone(UTC)).astimezone(self.zone)


def parse_window(text: str) -> SendWindow:
    """Return the window of a text such as `20:00-06:00 Europe/Berlin`.

    Days may precede hours, and commas separate hours: `Mon-Fri 20:00-06:00, Sat,Sun 00:00-24:00`.
    Hours over midnight belong to the day on which they begin.
    """
    text = text.strip()
    match = _WINDOW.fullmatch(text)
    if not match:
        raise ConfigError(
            f"{text!r}; expected hours and a time zone, such as '20:00-06:00 Europe/Berlin' or "
            "'Mon-Fri 20:00-06:00, Sat,Sun 00:00-24:00'"
        )
    hours = tuple(map(_parse_hours, _HOURS.finditer(match["hours"])))
    if not match["zone"]:
        return SendWindow(f"{text} (time of this machine)", hours)
    return SendWindow(text, hours, find_zone(match["zone"]))


def parse_deadline(text: str, *, now: datetime) -> datetime:
    """Return the moment of `06:00`, `06:00 Europe/Berlin` or `6h`.

    A time of day means the next one. A duration counts from `now`.
    """
    match = _TIME_OF_DAY.fullmatch(text.strip())
    if match:
        zone = find_zone(match["zone"]) if match["zone"] else None
        minutes = _parse_time(match["time"])
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


def zone_text(now: datetime) -> str:
    """Return the time zone of a time: `CET (UTC+01:00)`."""
    return f"{now:%Z} (UTC{now.isoformat()[-6:]})"


def find_zone(name: str) -> ZoneInfo:
    """Return a time zone of the IANA database."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as exc:  # unknown, a path out of it, a folder in it
        like = did_you_mean(name, available_timezones())
        raise ConfigError(
            f"{name!r}; expected an IANA time zone such as Europe/Berlin{like}"
        ) from exc


def _parse_hours(match: re.Match[str]) -> WindowHours:
    begin, end = _parse_time(match["begin"]), _parse_time(match["end"])
    if begin == end:
        raise ConfigError(
            f"{match[0]!r}; expected an end that differs from the begin; the whole day is"
            " 00:00-24:00"
        )
    days: set[int] = set()
    for day_range in _DAY_RANGE.finditer(match["days"] or ""):
        first, last = (_DAYS.index((day or day_range[1]).lower()) for day in day_range.groups())
        days.update((first + ahead) % 7 for ahead in range((last - first) % 7 + 1))
    end = end if end > begin else end + _DAY_MINUTES
    return WindowHours(frozenset(days or range(7)), begin % _DAY_MINUTES, end)


def _parse_time(time_of_day: str) -> int:
    hour, minute = map(int, time_of_day.split(":"))
    if minute > 59 or hour * 60 + minute > _DAY_MINUTES:
        raise ConfigError(f"{time_of_day!r}; expected a time from 00:00 to 24:00")
    return hour * 60 + minute


def _moment(day: date, minutes: int, zone: ZoneInfo | None) -> datetime:
    wall = datetime.combine(day, time()) + timedelta(minutes=minutes)
    return (wall.replace(tzinfo=zone) if zone else wall.astimezone()).astimezone(UTC)
