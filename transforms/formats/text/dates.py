"""Parse the dates of feeds, in many forms; format them in one form per format.

**Keeps:** the moment, to the microsecond. A weekday is not compared with its date: deployed feeds
have wrong ones. **Drops:** the time zone of the date.
"""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import cache, lru_cache
from zoneinfo import ZoneInfo

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_LENGTH = 64  # in characters; all known forms are shorter
_WEEKDAYS = ("Mon, ", "Tue, ", "Wed, ", "Thu, ", "Fri, ", "Sat, ", "Sun, ")
_WEEKDAY_SET = frozenset(_WEEKDAYS)
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_ISO_MONTHS = {name[:3].title(): f"-{n:02d}-" for n, name in enumerate(_MONTHS, 1)}
_MONTH_NAMES = ("", *(f" {name[:3].title()} " for name in _MONTHS))
_TWO = tuple(f"{n:02d}" for n in range(60))  # a look-up costs a third of a format specification
_FULL_MONTHS = {name: n for n, name in enumerate(_MONTHS, 1)}
_MONTH_NUMBERS = _FULL_MONTHS | {name[:3]: n for name, n in _FULL_MONTHS.items()} | {"sept": 9}
_GMT_HOURS = {"Z": 0, "UT": 0, "UTC": 0, "GMT": 0}
_US_HOURS = {"EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7}
# Names that Java's date formats write in Europe and Japan.
_OTHER_HOURS = {"WET": 0, "WEST": 1, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3, "MSK": 3, "JST": 9}
_ZONE_HOURS = _GMT_HOURS | _US_HOURS | _OTHER_HOURS

_TIME = r"(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,](?P<fraction>\d+))?)?"
_ZONE = (
    r"(?:\s*(?P<zone>[A-Za-z]{1,5}(?![+-])"
    r"|(?:GMT|UTC?)?(?P<sign>[+-])(?P<hours>\d\d)(?::?(?P<minutes>\d\d))?))?"
    r"(?:\s*\([A-Za-z ]*\))?"  # a comment: `+0100 (CET)`
)
_WEEKDAY = r"(?:[A-Za-z]{3,9}\.?(?:,\s*|\s+))?"
_MONTH = r"(?P<month>[A-Za-z]{3,9})\.?"
_DAY = r"(?P<day>\d{1,2})"
_FORMS = (
    re.compile(
        rf"{_WEEKDAY}{_DAY}[\s-]+{_MONTH}[\s-]+(?P<year>\d{{4}}|\d\d)(?:\s+{_TIME}{_ZONE})?",
        re.ASCII,
    ),
    re.compile(
        rf"{_WEEKDAY}{_MONTH}\s+{_DAY},?\s+(?P<year>\d{{4}})(?:,?\s+{_TIME}{_ZONE})?", re.ASCII
    ),
    re.compile(rf"{_WEEKDAY}{_MONTH}\s+{_DAY}\s+{_TIME}{_ZONE}\s+(?P<year>\d{{4}})", re.ASCII),
    re.compile(
        rf"(?P<year>\d{{4}})-(?P<month>\d\d)-(?P<day>\d\d)(?:(?:[Tt]|\s+){_TIME}{_ZONE})?", re.ASCII
    ),
    re.compile(rf"(?P<year>\d{{4}})(?P<month>\d\d)(?P<day>\d\d)\s+{_TIME}{_ZONE}", re.ASCII),
)
_ISO_DATE = re.compile(
    r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{6})?(Z|[+-]\d\d:[0-5]\d)?", re.ASCII
)
_UTC_DATES = re.compile(
    r'(?:\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{6})?(?:Z|\+00:00)")*', re.ASCII
)
_EPOCH_SECONDS = re.compile(r"[+-]?\d{9,12}", re.ASCII)


def parse_date(text: str, *, zone: str = "UTC") -> datetime | None:
    """Return the moment of a date, aware and in UTC, or None if it is not understood.

    Understands RFC 822 and 1123 with the liberties that feeds take, `Nov 6, 2007`, the form of
    Java's Date and C's ctime, ISO 8601 with `T` or a space, `YYYYMMDD HH:MM:SS`, and epoch seconds
    of nine digits and more; all but ctime and the compact form also without a time of day. A date
    that states no zone is in the IANA time zone `zone`; of an hour that occurs twice it is the
    first.
    """
    if len(text) == 29 and text[:5] in _WEEKDAY_SET and text[25:] == " GMT":
        moment = _parse_rfc1123(text)
        if moment is not None:
            return moment
    return _parse_any(text.strip(), zone)


def parse_utc_dates(texts: Sequence[str]) -> list[datetime] | None:
    """Return what `parse_date` returns for dates in the form of databases in UTC, None for others.

    A column costs a third of the time of its dates one by one.
    """
    if _UTC_DATES.fullmatch('"'.join(texts) + '"') is None:
        return None
    try:
        return [*map(datetime.fromisoformat, texts)]
    except ValueError:
        return None


def rfc1123(moment: datetime) -> str:
    """Return an aware moment as `Tue, 06 Nov 2007 12:45:26 GMT`, in any locale."""
    if moment.tzinfo is not UTC:
        moment = _convert(moment, UTC)
    day = _day(moment.toordinal())
    return f"{day}{_TWO[moment.hour]}:{_TWO[moment.minute]}:{_TWO[moment.second]} GMT"


def local_date(moment: datetime, *, zone: str = "UTC") -> str:
    """Return an aware moment as `YYYY-MM-DD HH:MM:SS` on a clock in the IANA time zone `zone`."""
    return _convert(moment, _zone(zone)).isoformat(" ")[:19]


@lru_cache(maxsize=1024)
def _day(ordinal: int) -> str:
    day = date.fromordinal(ordinal)
    return f"{_WEEKDAYS[day.weekday()]}{_TWO[day.day]}{_MONTH_NAMES[day.month]}{day.year:04d} "


@cache
def _zone(name: str) -> tzinfo:
    return UTC if name == "UTC" else ZoneInfo(name)


def _convert(moment: datetime, zone: tzinfo) -> datetime:
    try:
        return moment.astimezone(zone)
    except OverflowError:  # a few hours from year 1 or 9999
        return moment


def _parse_rfc1123(text: str) -> datetime | None:
    month = _ISO_MONTHS.get(text[8:11])
    if month is None or not text[7] == text[11] == text[16] == " " or text[22] != ":":
        return None
    try:
        return datetime.fromisoformat(f"{text[12:16]}{month}{text[5:7]}T{text[17:25]}+00:00")
    except ValueError:
        return None


def _parse_any(text: str, zone: str) -> datetime | None:
    if len(text) > _MAX_LENGTH:
        return None
    try:
        if iso := _ISO_DATE.fullmatch(text):  # the form of databases: this is faster
            moment = datetime.fromisoformat(text if iso[1] or zone != "UTC" else f"{text}+00:00")
            if moment.tzinfo is UTC:
                return moment
            return (moment if iso[1] else moment.replace(tzinfo=_zone(zone))).astimezone(UTC)
        if _EPOCH_SECONDS.fullmatch(text):
            return _EPOCH + timedelta(seconds=int(text))
        match = next(filter(None, (form.fullmatch(text) for form in _FORMS)), None)
        return None if match is None else _moment(match, zone)
    except (ValueError, OverflowError, KeyError):  # no such day, year, hour, month or zone
        return None


def _moment(match: re.Match[str], zone: str) -> datetime:
    stated = match.groupdict()
    local = datetime(
        _year(stated["year"]),
        _month(stated["month"]),
        int(stated["day"]),
        int(stated["hour"] or 0),
        int(stated["minute"] or 0),
        int(stated["second"] or 0),
        int((stated["fraction"] or "0")[:6].ljust(6, "0")),
        _stated_zone(stated) or _zone(zone),
    )
    return local.astimezone(UTC)


def _year(digits: str) -> int:
    """Read two digits as 1950 to 2049, as in RFC 2822."""
    year = int(digits)
    if len(digits) == 4:
        return year
    return year + (2000 if year < 50 else 1900)


def _month(text: str) -> int:
    return int(text) if text.isdigit() else _MONTH_NUMBERS[text.lower()]


def _stated_zone(stated: dict[str, str | None]) -> tzinfo | None:
    name, sign = stated["zone"], stated["sign"]
    if name is None:
        return None
    if sign is None:
        return timezone(timedelta(hours=_ZONE_HOURS[name.upper()]))
    minutes = int(stated["minutes"] or 0)
    if minutes > 59:
        raise ValueError(name)
    offset = timedelta(hours=int(stated["hours"] or 0), minutes=minutes)
    return timezone(-offset if sign == "-" else offset)
