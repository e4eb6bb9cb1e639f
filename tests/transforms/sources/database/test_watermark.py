"""Watermarks: their text for each type of timestamp, their floor, and the clock."""

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedferry.schemas.errors import ConfigError
from feedferry.schemas.span import Timestamp, TimestampType, Watermark
from feedferry.transforms.sources.database.changes.watermark import (
    decode_mark,
    encode_mark,
    floor_of,
    limit_to_clock,
    read_clock,
    timestamp_text,
    watermark_of,
)
from feedferry.transforms.sources.database.connection.session import Session
from feedferry.transforms.sources.database.mapping.row_mapping import RowMapping

CLOCK = datetime(2026, 11, 21, 12, 0, 0, 250)
TIMESTAMPS = (
    st.datetimes()
    | st.datetimes(timezones=st.just(UTC))
    | st.dates()
    | st.integers()
    | st.dates().map(str)
)


PLUS_TWO, HALF_PAST = timezone(timedelta(hours=2)), datetime(2026, 11, 21, 8, 30)


def floor(value: object, lag_seconds: float = 0) -> Timestamp:
    mark = watermark_of(value, name="updated")
    return floor_of(mark, lag_seconds=lag_seconds, name="updated").value()


@pytest.mark.parametrize(
    ("value", "type_", "text"),
    [
        (datetime(2026, 11, 21, 8, 30, 0, 125), TimestampType.NAIVE, "2026-11-21T08:30:00.000125"),
        (
            datetime(2026, 11, 21, 8, 30, tzinfo=PLUS_TWO),
            TimestampType.AWARE,
            "2026-11-21T06:30:00Z",
        ),
        (date(2026, 11, 21), TimestampType.DATE, "2026-11-21"),
        (17, TimestampType.INTEGER, "17"),
        ("2026-11-21", TimestampType.TEXT, "2026-11-21"),
    ],
)
def test_a_watermark_is_a_text_and_a_type(value: object, type_: TimestampType, text: str) -> None:
    assert watermark_of(value, name="updated") == Watermark(type=type_, text=text)


@given(TIMESTAMPS)
def test_a_state_returns_the_timestamp_that_was_stored(value: Timestamp) -> None:
    mark = watermark_of(value, name="updated")
    assert mark.value() == value
    assert decode_mark(encode_mark(mark)) == mark


def test_no_watermark_and_one_of_an_unknown_type_are_none() -> None:
    assert (encode_mark(None), decode_mark(None), timestamp_text(None)) == (None, None, "")
    assert decode_mark('{"type":"FLOAT","text":"0.5"}') is None


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (True, "the type bool"),
        (0.5, "the type float"),
        (b"x", "the type bytes"),
        ("000123", "'000123'"),
        ("2026-13-45 08:30:00", "'2026-13-45 08:30:00'"),
        ("2026-11-21T08:30:00+02:00", "'2026-11-21T08:30:00+02:00'"),
    ],
)
def test_a_timestamp_of_another_type_is_refused(value: object, shown: str) -> None:
    with pytest.raises(ConfigError) as raised:
        watermark_of(value, name="updated")
    assert str(raised.value) == (
        f"incremental: timestamp: 'updated' has a value of {shown}; expected dates, times, "
        "integers or ISO 8601 texts in UTC such as 2026-11-21 08:30:00, or a query that casts the "
        "column"
    )


@pytest.mark.parametrize(
    ("value", "lag_seconds", "below"),
    [
        (HALF_PAST, 600, datetime(2026, 11, 21, 8, 19, 59)),
        (HALF_PAST, 0, datetime(2026, 11, 21, 8, 29, 59)),
        (HALF_PAST.replace(tzinfo=UTC), 600, datetime(2026, 11, 21, 8, 19, 59, tzinfo=UTC)),
        (date(2026, 11, 21), 600, date(2026, 11, 19)),
        (date(2026, 11, 21), 0, date(2026, 11, 19)),
        ("2026-11-21 08:30:00", 600, "2026-11-21 08:19:59"),
        ("2026-11-21 08:30:00", 0, "2026-11-21 08:29:59"),
        ("2026-11-21T08:30:00.5Z", 600, "2026-11-21T08:19:59"),
        ("2026-11-21", 600, "2026-11-19"),
        (1_800_000_000, 600, 1_799_999_399),
        (1_800_000_000, 0.2, 1_799_999_998),
        (1_800_000_000_000, 600, 1_799_999_399_000),
        (1_800_000_000_000_000, 600, 1_799_999_399_000_000),
        (17, 0, 16),
        (datetime(1, 1, 1), 600, datetime(1, 1, 1)),
        (date(1, 1, 1), 600, date(1, 1, 1)),
        ("0001-01-01 00:00:00", 600, "0001-01-01 00:00:00"),
    ],
)
def test_the_floor_is_below_the_watermark_and_the_lag(
    value: object, lag_seconds: float, below: Timestamp
) -> None:
    assert floor(value, lag_seconds) == below


@pytest.mark.parametrize(
    ("value", "limited"),
    [
        (datetime(2099, 1, 1, tzinfo=UTC), CLOCK.replace(tzinfo=UTC)),
        (datetime(2099, 1, 1), CLOCK),
        (date(2099, 1, 1), date(2026, 11, 21)),
        ("2099-01-01 00:00:00", "2026-11-21 12:00:00"),
        ("2099-01-01T00:00:00Z", "2026-11-21T12:00:00"),
        ("2099-01-01", "2026-11-21"),
        (4_000_000_000, 1_795_262_400),
        (4_000_000_000_000, 1_795_262_400_000),
        *((value, value) for value in (datetime(2026, 11, 21, 7), date(2026, 11, 21), 17)),
        ("2026-11-21 07:00:00", "2026-11-21 07:00:00"),
    ],
)
def test_a_watermark_is_not_ahead_of_the_clock(value: object, limited: Timestamp) -> None:
    assert limit_to_clock(watermark_of(value, name="updated"), CLOCK).value() == limited


def test_the_clock_of_sqlite_is_in_utc() -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    session = Session(RowMapping(connection="sqlite://"))
    clock = read_clock(session).replace(tzinfo=UTC)
    session.close()
    assert before <= clock <= datetime.now(UTC)
