"""Times of modification, from whatever a column keeps them in."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from schemas.errors import RecordError
from transforms.sources.database.timestamps import moment_maker

PLUS_TWO = timezone(timedelta(hours=2))


def made(value: object, zone: str = "UTC") -> datetime | None:
    return moment_maker(0, name="updated_at", zone=zone)((value,))


def utc(*parts: int) -> datetime:
    return datetime(*parts).replace(tzinfo=UTC)  # type: ignore[arg-type]  # year, month, day, …


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        (datetime(2026, 1, 31, 8, 30, tzinfo=UTC), utc(2026, 1, 31, 8, 30)),
        (datetime(2026, 1, 31, 8, 30, 0, 5, tzinfo=PLUS_TWO), utc(2026, 1, 31, 6, 30, 0, 5)),
        (datetime(2026, 1, 31, 8, 30), utc(2026, 1, 31, 8, 30)),
        (date(2026, 1, 31), utc(2026, 1, 31)),
        ("2026-01-31 08:30:00", utc(2026, 1, 31, 8, 30)),
        ("2026-01-31T08:30:00.123456+02:00", utc(2026, 1, 31, 6, 30, 0, 123456)),
        (b"2026-01-31", utc(2026, 1, 31)),
        (1_700_000_000, utc(2023, 11, 14, 22, 13, 20)),
        (1_700_000_000_123, utc(2023, 11, 14, 22, 13, 20, 123000)),
        (1_700_000_000_123_456, utc(2023, 11, 14, 22, 13, 20, 123456)),
        (1_700_000_000_123_456_789, utc(2023, 11, 14, 22, 13, 20, 123456)),
        (1_700_000_000.5, utc(2023, 11, 14, 22, 13, 20, 500000)),
        (Decimal("1700000000.000001"), utc(2023, 11, 14, 22, 13, 20, 1)),
        (-1, utc(1969, 12, 31, 23, 59, 59)),
        (0, utc(1970, 1, 1)),
    ],
    ids=repr,
)
def test_a_time_is_a_moment_in_utc(value: object, moment: datetime) -> None:
    assert made(value) == moment


def test_a_moment_says_that_it_is_utc() -> None:
    found = made(datetime(2026, 1, 31, 8, 30, tzinfo=PLUS_TWO))
    assert found is not None
    assert found.tzinfo is UTC


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        (datetime(2026, 7, 1, 8, 30), utc(2026, 7, 1, 6, 30)),
        (date(2026, 1, 31), utc(2026, 1, 30, 23)),
        ("2026-07-01 08:30:00", utc(2026, 7, 1, 6, 30)),
        (datetime(2026, 10, 25, 2, 30), utc(2026, 10, 25, 0, 30)),
        (datetime(2026, 7, 1, 8, 30, tzinfo=UTC), utc(2026, 7, 1, 8, 30)),
    ],
    ids=repr,
)
def test_a_time_without_a_zone_is_in_that_of_the_user(value: object, moment: datetime) -> None:
    assert made(value, "Europe/Zurich") == moment


@pytest.mark.parametrize("value", [None, "", " ", "0000-00-00", "0000-00-00 00:00:00"])
def test_some_values_state_no_time(value: object) -> None:
    assert made(value) is None


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("yesterday", "'yesterday'"),
        ("infinity", "'infinity'"),
        ("2026-02-30", "'2026-02-30'"),
        (True, "'true'"),
        (10**30, "'1000000000000000000000000000000'"),
        (float("nan"), "'nan'"),
        (Decimal("Infinity"), "'Infinity'"),
        (datetime(1, 1, 1, tzinfo=PLUS_TWO), "'0001-01-01T00:00:00+02:00'"),
        (b"\xff", "\"b'\\\\xff'\""),
    ],
    ids=repr,
)
def test_what_is_no_time_is_refused(value: object, shown: str) -> None:
    with pytest.raises(RecordError) as caught:
        made(value)

    expected = f"updated_at={shown}; expected a date, a time or seconds since 1970"
    assert (caught.value.code, caught.value.reason) == ("bad-date", expected)
