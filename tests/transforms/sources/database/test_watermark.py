"""Marks: what each type of timestamp becomes as text, and what lies below it."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import ConfigError
from transforms.sources.database.watermark import (
    Clock,
    Kind,
    Mark,
    Timestamp,
    bounded,
    decode_mark,
    encode_mark,
    floor_of,
    mark_of,
    read_clock,
    timestamp_text,
)

CLOCK = Clock(
    aware=datetime(2026, 11, 21, 12, 0, 0, 250, UTC), naive=datetime(2026, 11, 21, 7, 0, 0, 250)
)
TIMESTAMPS = (
    st.datetimes()
    | st.datetimes(timezones=st.just(UTC))
    | st.dates()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.binary()
)


def floor(value: object, lag_seconds: float = 0) -> Timestamp | None:
    return floor_of(mark_of(value, name="updated"), lag_seconds=lag_seconds, name="updated")


def bound(value: object) -> Timestamp:
    return bounded(mark_of(value, name="updated"), CLOCK).value()


@pytest.mark.parametrize(
    ("value", "mark"),
    [
        (
            datetime(2026, 11, 21, 8, 30, 0, 125),
            Mark(kind=Kind.NAIVE, text="2026-11-21T08:30:00.000125"),
        ),
        (
            datetime(2026, 11, 21, 8, 30, tzinfo=timezone(timedelta(hours=2))),
            Mark(kind=Kind.AWARE, text="2026-11-21T06:30:00Z"),
        ),
        (date(2026, 11, 21), Mark(kind=Kind.DATE, text="2026-11-21")),
        (17, Mark(kind=Kind.INTEGER, text="17")),
        (0.1, Mark(kind=Kind.FLOAT, text="0.1")),
        (Decimal("1E+2"), Mark(kind=Kind.DECIMAL, text="100")),
        ("2026-11-21", Mark(kind=Kind.TEXT, text="2026-11-21")),
        (b"\0\7", Mark(kind=Kind.BYTES, text="0007")),
    ],
)
def test_a_mark_is_exact_text_and_a_kind(value: object, mark: Mark) -> None:
    assert mark_of(value, name="updated") == mark


@given(TIMESTAMPS)
def test_a_state_gives_back_the_timestamp_that_it_was_given(value: Timestamp) -> None:
    assert decode_mark(encode_mark(mark_of(value, name="updated"))).value() == value


def test_the_text_of_a_mark_is_json() -> None:
    text = encode_mark(Mark(kind=Kind.INTEGER, text="17"))
    assert text == '{"kind":"INTEGER","text":"17"}'


@pytest.mark.parametrize("value", [True, UUID(int=1), timedelta(1), None])
def test_what_is_no_timestamp_has_no_mark(value: object) -> None:
    with pytest.raises(ConfigError) as raised:
        mark_of(value, name="updated")
    assert str(raised.value) == (
        f"timestamp: 'updated' holds a value of the type {type(value).__name__}; expected a column "
        "of dates, times, numbers, texts or bytes"
    )


def test_no_timestamp_has_the_empty_text() -> None:
    assert timestamp_text(None) == ""


@pytest.mark.parametrize(
    ("one", "other", "can"),
    [
        (Kind.AWARE, Kind.AWARE, True),
        (Kind.INTEGER, Kind.DECIMAL, True),
        (Kind.AWARE, Kind.NAIVE, False),
        (Kind.TEXT, Kind.INTEGER, False),
    ],
)
def test_marks_of_one_kind_compare_and_those_of_numbers(one: Kind, other: Kind, can: bool) -> None:
    assert Mark(kind=one, text="1").compares_with(Mark(kind=other, text="1")) is can


@pytest.mark.parametrize(
    ("value", "below"),
    [
        (datetime(2026, 11, 21, 8, 30), datetime(2026, 11, 21, 8, 19, 59, 999999)),
        (
            datetime(2026, 11, 21, 8, 30, tzinfo=UTC),
            datetime(2026, 11, 21, 8, 19, 59, 999999, UTC),
        ),
        (date(2026, 11, 21), date(2026, 11, 19)),
        ("2026-11-21 08:30:00", "2026-11-21 08:19:59"),
        ("2026-11-21T08:30:00.5Z", "2026-11-21T08:19:59"),
        ("2026-11-21", "2026-11-19"),
        (1_800_000_000, 1_799_999_399),
        (1_800_000_000_000, 1_799_999_399_999),
        (1_800_000_000_000_000, 1_799_999_399_999_999),
        (Decimal("1800000000.5"), Decimal("1799999399.5")),
    ],
)
def test_a_lag_is_taken_from_what_tells_time(value: object, below: Timestamp) -> None:
    assert floor(value, 600) == below


def test_a_lag_of_days_is_taken_from_a_date_in_whole_days() -> None:
    assert floor(date(2026, 11, 21), 86_401) == date(2026, 11, 18)


def test_a_part_of_a_second_is_taken_from_a_number_as_a_whole_one() -> None:
    assert floor(1_800_000_000, 0.2) == 1_799_999_998


@pytest.mark.parametrize(
    ("value", "below"),
    [
        (datetime(1, 1, 1), datetime(1, 1, 1)),
        (date(1, 1, 1), date(1, 1, 1)),
        ("0001-01-01 00:00:00", "0001-01-01 00:00:00"),
    ],
)
def test_no_lag_reaches_beyond_the_year_1(value: object, below: Timestamp) -> None:
    assert floor(value, 600) == below


@pytest.mark.parametrize(
    ("value", "below"),
    [
        (datetime(2026, 11, 21, 8, 30), datetime(2026, 11, 21, 8, 29, 59, 999999)),
        (date(2026, 11, 21), date(2026, 11, 20)),
        (17, 16),
        (Decimal("17.5"), Decimal("16.5")),
        ("2026-11-21 08:30:00", "2026-11-21 08:29:59"),
        ("000123", "00012"),
        ("abc ", "ab"),
        ("2026-13-45 08:30:00", "2026-13-45 08:30:0"),
        (b"\x01\x00", b"\x00\xff"),
    ],
)
def test_without_a_lag_the_floor_is_just_below(value: object, below: Timestamp) -> None:
    assert floor(value) == below


@pytest.mark.parametrize("value", ["", " ", "7", b"", b"\0\0"])
def test_below_the_least_text_there_is_no_floor(value: object) -> None:
    assert floor(value) is None


@given(st.floats(min_value=5e8, max_value=4e9), st.sampled_from([0.0, 0.5, 600.0]))
def test_the_floor_of_a_number_with_a_fraction_is_below_it(value: float, lag: float) -> None:
    below = floor(value, lag)
    assert isinstance(below, float)
    assert below < value - lag


@pytest.mark.parametrize(
    ("value", "shown"),
    [(17, "17"), ("000123", "'000123'"), (b"\x01", "b'\\x01'"), (0.5, "0.5")],
)
def test_a_lag_of_what_tells_no_time_is_refused(value: object, shown: str) -> None:
    with pytest.raises(ConfigError) as raised:
        floor(value, 600)
    assert str(raised.value) == (
        f"lag: 600s, and 'updated' holds {shown}, which tells no time; expected lag: 0s, or a "
        "column of dates, times or seconds since 1970"
    )


@pytest.mark.parametrize(
    ("value", "now"),
    [
        (datetime(2099, 1, 1, tzinfo=UTC), datetime(2026, 11, 21, 12, 0, 0, 250, UTC)),
        (datetime(2099, 1, 1), datetime(2026, 11, 21, 7, 0, 0, 250)),
        (date(2099, 1, 1), date(2026, 11, 21)),
        ("2099-01-01 00:00:00", "2026-11-21 07:00:00"),
        ("2099-01-01T00:00:00Z", "2026-11-21T07:00:00"),
        ("2099-01-01", "2026-11-21"),
        (4_000_000_000, 1_795_262_400),
        (4_000_000_000_000, 1_795_262_400_000),
        (Decimal("4000000000.5"), Decimal(1_795_262_400)),
    ],
)
def test_a_timestamp_ahead_leaves_the_mark_at_the_clock(value: object, now: Timestamp) -> None:
    assert bound(value) == now


@pytest.mark.parametrize(
    "value", [datetime(2026, 11, 21, 7), date(2026, 11, 21), "2026-11-21 07:00:00", 17, "x", b"x"]
)
def test_any_other_timestamp_is_the_mark(value: Timestamp) -> None:
    assert bound(value) == value


def test_the_clock_of_sqlite_is_that_of_the_machine() -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    with sa.create_engine("sqlite://").connect() as connection:
        clock = read_clock(connection)
    assert before <= clock.aware <= datetime.now(UTC)


def test_columns_without_a_zone_are_taken_for_utc_in_sqlite() -> None:
    with sa.create_engine("sqlite://").connect() as connection:
        clock = read_clock(connection)
    assert clock.naive == clock.aware.replace(tzinfo=None)
