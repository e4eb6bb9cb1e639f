"""When the document of a row was modified, from whatever a column keeps times in.

Dates and times are taken as they are, without a zone in the one that the user names; a date is its
midnight. Texts are read as in feeds. Numbers count from 1970: seconds, or thousandths, millionths
or milliardths of them where there are too many for seconds. MySQL's date of zeros states nothing.
"""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from zoneinfo import ZoneInfo

from schemas.errors import RecordError
from transforms.formats.dates import parse_date
from transforms.sources.database.column_index import Row
from transforms.sources.database.values import text_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MOST_SECONDS = 100_000_000_000  # in the year 5138; so many thousandths are in 1973
_ZEROS = "0000-00-00"


def moment_maker(at: int, *, name: str, zone: str) -> Callable[[Row], datetime | None]:
    """Return the function that gives the time in a column, aware and in UTC; None for NULL.

    The function raises RecordError for what is no time.
    """
    local = UTC if zone == "UTC" else ZoneInfo(zone)

    def make(row: Row) -> datetime | None:
        value = row[at]
        if value is None:
            return None
        try:
            if type(value) is datetime:
                return _utc(value, local)
            return _moment(value, local, zone)
        except (ValueError, OverflowError):
            raise RecordError(
                "bad-date",
                f"{name}={_text(value)!r}; expected a date, a time or seconds since 1970",
            ) from None

    return make


def _utc(value: datetime, local: tzinfo) -> datetime:
    if value.tzinfo is UTC:
        return value
    if value.tzinfo is None:
        value = value.replace(tzinfo=local)
    return value.astimezone(UTC)


def _moment(value: object, local: tzinfo, zone: str) -> datetime | None:
    if isinstance(value, datetime):
        return _utc(value, local)
    if isinstance(value, date):
        return _utc(datetime(value.year, value.month, value.day), local)
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return _since_1970(value)
    text = _text(value).strip()
    if not text or text.startswith(_ZEROS):
        return None
    moment = parse_date(text, zone=zone)
    if moment is None:
        raise ValueError(text)
    return moment


def _since_1970(value: int | float | Decimal) -> datetime:
    """Return a time to the microsecond; OverflowError for what is no number, too."""
    ticks = Decimal(value)
    if not ticks.is_finite():
        raise OverflowError(value)
    for micros in (1_000_000, 1_000, 1):
        if abs(ticks) < _MOST_SECONDS * (1_000_000 // micros):
            return _EPOCH + int(ticks * micros) * _MICROSECOND
    return _EPOCH + int(ticks / 1000) * _MICROSECOND


def _text(value: object) -> str:
    try:
        return text_of(value) or ""
    except RecordError:
        return repr(value)
