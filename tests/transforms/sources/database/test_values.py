"""Values of all types of the drivers of SQLite, PostgreSQL and MariaDB, as texts and as times."""

import enum
import ipaddress
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.types.multirange import Multirange
from psycopg.types.range import Range
from sqlalchemy.dialects.postgresql import Range as SqlRange

from schemas.errors import RecordError
from transforms.sources.database.values import (
    bytes_of,
    row_json,
    text_of,
    time_getter,
    values_of,
)

PLUS_TWO = timezone(timedelta(hours=2))
OFFSETS = st.builds(lambda hours: timezone(timedelta(hours=hours)), st.integers(-12, 14))


class Colour(enum.Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("Zürich", "Zürich"),
        ("", ""),
        ("a\0b", "a\0b"),
        ("\ud800", "\ud800"),
        (0, "0"),
        (-9223372036854775808, "-9223372036854775808"),
        (True, "true"),
        (False, "false"),
        (0.1, "0.1"),
        (1e16, "1e+16"),
        (float("nan"), "nan"),
        (Decimal("12.50"), "12.50"),
        (Decimal("1E+3"), "1000"),
        (Decimal("1E-10"), "0.0000000001"),
        (Decimal("123456789012345678901234567890.5"), "123456789012345678901234567890.5"),
        (Decimal("NaN"), "NaN"),
        (date(2026, 1, 31), "2026-01-31"),
        (time(8, 30), "08:30:00"),
        (time(8, 30, 0, 1), "08:30:00.000001"),
        (time(8, 30, tzinfo=PLUS_TWO), "08:30:00+02:00"),
        (datetime(2026, 1, 31, 8, 30), "2026-01-31T08:30:00"),
        (datetime(2026, 1, 31, 8, 30, 0, 123456), "2026-01-31T08:30:00.123456"),
        (datetime(2026, 1, 31, 8, 30, tzinfo=UTC), "2026-01-31T08:30:00Z"),
        (datetime(2026, 1, 31, 8, 30, 0, 5, tzinfo=PLUS_TWO), "2026-01-31T06:30:00.000005Z"),
        (datetime(1, 1, 1, tzinfo=PLUS_TWO), "0001-01-01T00:00:00+02:00"),
        (timedelta(), "PT0S"),
        (timedelta(days=2, hours=3, minutes=4, seconds=5), "P2DT3H4M5S"),
        (timedelta(hours=8, minutes=30), "PT8H30M"),
        (timedelta(days=30), "P30D"),
        (timedelta(microseconds=-1), "-PT0.000001S"),
        (timedelta(milliseconds=1500), "PT1.5S"),
        (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        (b"caf\xc3\xa9", "café"),
        pytest.param(memoryview(b"abc"), "abc", id="memoryview"),
        (bytearray(b"abc"), "abc"),
        ({"b": 1, "a": [None, "é"]}, '{"b":1,"a":[null,"é"]}'),
        ([1, "b"], '[1,"b"]'),
        ({"n": Decimal("1.10")}, '{"n":"1.10"}'),
        pytest.param({"b", "a"}, '["a","b"]', id="set"),
        (ipaddress.ip_address("192.0.2.1"), "192.0.2.1"),
        (ipaddress.ip_network("2001:db8::/32"), "2001:db8::/32"),
        (ipaddress.ip_interface("192.0.2.1/24"), "192.0.2.1/24"),
        (Range(1, 5), "[1,5)"),
        (Range(date(2026, 1, 31), None, "[)"), "[2026-01-31,)"),
        (Range(empty=True), "empty"),
        (SqlRange(1, 5, bounds="(]"), "(1,5]"),
        (Colour.RED, "red"),
        ("(1,2)", "(1,2)"),
    ],
    ids=repr,
)
def test_a_value_has_one_text(value: object, text: str) -> None:
    assert text_of(value) == text


@pytest.mark.parametrize(
    ("value", "values"),
    [
        (None, ()),
        ("a,b", ("a,b",)),
        (7, ("7",)),
        (b"\xff\x00", (b"\xff\x00",)),
        (b"text", (b"text",)),
        (["a", None, 7], ("a", "7")),
        (("a", b"\xff"), ("a", b"\xff")),
        ([["a", "b"], "c"], ('["a","b"]', "c")),
        ([{"a": 1}], ('{"a":1}',)),
        ([], ()),
        pytest.param({"b", "a"}, ("a", "b"), id="set"),
        ({"a": 1}, ('{"a":1}',)),
        (Multirange([Range(1, 2), Range(4, 5)]), ("[1,2)", "[4,5)")),
    ],
    ids=repr,
)
def test_an_array_has_many_values(value: object, values: tuple[str | bytes, ...]) -> None:
    assert values_of(value) == values


@pytest.mark.parametrize(
    ("value", "data"),
    [
        ("é", b"\xc3\xa9"),
        ("\ud800", b"\xed\xa0\x80"),
        ("", b""),
        (b"\x89PNG", b"\x89PNG"),
        pytest.param(memoryview(b"\x00\xff"), b"\x00\xff", id="memoryview"),
        ({"a": "é"}, b'{"a":"\xc3\xa9"}'),
        ([1, 2], b"[1,2]"),
    ],
    ids=repr,
)
def test_a_document_is_its_bytes(value: object, data: bytes) -> None:
    assert bytes_of(value) == data


def test_a_row_of_any_values_can_be_shown() -> None:
    row = {"id": 7, "name": "Zoë", "at": date(2026, 1, 31), "photo": b"\xff\x00", "x": object()}
    expected = (
        '{"id": 7, "name": "Zoë", "at": "2026-01-31", "photo": "ff00", '
        '"x": "a value of the type object"}'
    )
    assert row_json(row) == expected.encode()


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_no_digit_of_a_number_is_lost(value: Decimal) -> None:
    assert Decimal(text_of(value) or "") == value


@given(st.text())
def test_a_text_stays_as_it_is(value: str) -> None:
    assert text_of(value) == value


@given(st.datetimes(timezones=OFFSETS))
def test_a_moment_stays_the_same(value: datetime) -> None:
    assert datetime.fromisoformat(text_of(value) or "") == value


@pytest.mark.parametrize(
    ("convert", "value", "reason"),
    [
        (text_of, b"\xff\xfe", "bytes that are not UTF-8; expected text, a number or a date"),
        (
            text_of,
            object(),
            "a value of the type object; expected text, a number, a date, bytes, JSON or an array "
            "of these",
        ),
        (
            bytes_of,
            Decimal(7),
            "a value of the type Decimal; expected a document: text, bytes or JSON",
        ),
    ],
)
def test_a_value_of_another_type_is_rejected(
    convert: Callable[[object], object], value: object, reason: str
) -> None:
    with pytest.raises(RecordError) as caught:
        convert(value)
    assert (caught.value.code, caught.value.reason) == ("bad-value", reason)


def time_of(value: object, zone: str = "UTC") -> datetime | None:
    return time_getter(0, name="updated_at", zone=zone)((value,))


def utc(*parts: int) -> datetime:
    return datetime(*parts).replace(tzinfo=UTC)  # type: ignore[arg-type]  # year, month, day, …


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        (datetime(2026, 1, 31, 8, 30, tzinfo=UTC), utc(2026, 1, 31, 8, 30)),
        (datetime(2026, 1, 31, 8, 30, 0, 5, tzinfo=PLUS_TWO), utc(2026, 1, 31, 6, 30, 0, 5)),
        (date(2026, 1, 31), utc(2026, 1, 31)),
        ("2026-01-31T08:30:00.123456+02:00", utc(2026, 1, 31, 6, 30, 0, 123456)),
        (b"2026-01-31", utc(2026, 1, 31)),
        (1_700_000_000, utc(2023, 11, 14, 22, 13, 20)),
        (1_700_000_000_123, utc(2023, 11, 14, 22, 13, 20, 123000)),
        (1_700_000_000_123_456, utc(2023, 11, 14, 22, 13, 20, 123456)),
        (1_700_000_000_123_456_789, utc(2023, 11, 14, 22, 13, 20, 123456)),
        (1_700_000_000.5, utc(2023, 11, 14, 22, 13, 20, 500000)),
        (Decimal("1700000000.000001"), utc(2023, 11, 14, 22, 13, 20, 1)),
        (-1, utc(1969, 12, 31, 23, 59, 59)),
        (None, None),
        (" ", None),
        ("0000-00-00 00:00:00", None),
    ],
    ids=repr,
)
def test_a_value_is_a_time_in_utc(value: object, moment: datetime | None) -> None:
    result = time_of(value)
    assert result == moment
    assert result is None or result.tzinfo is UTC


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        (datetime(2026, 7, 1, 8, 30), utc(2026, 7, 1, 6, 30)),
        (date(2026, 1, 31), utc(2026, 1, 30, 23)),
        ("2026-07-01 08:30:00", utc(2026, 7, 1, 6, 30)),
        (datetime(2026, 7, 1, 8, 30, tzinfo=UTC), utc(2026, 7, 1, 8, 30)),
    ],
    ids=repr,
)
def test_a_time_without_a_zone_is_in_the_zone_of_the_options(
    value: object, moment: datetime
) -> None:
    assert time_of(value, "Europe/Zurich") == moment


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("yesterday", "yesterday"),
        ("2026-02-30", "2026-02-30"),
        (True, "true"),
        (10**30, "1000000000000000000000000000000"),
        (float("nan"), "nan"),
        (Decimal("Infinity"), "Infinity"),
        (datetime(1, 1, 1, tzinfo=PLUS_TWO), "0001-01-01T00:00:00+02:00"),
        (b"\xff", "ff"),
    ],
    ids=repr,
)
def test_a_value_that_is_no_time_is_rejected(value: object, shown: str) -> None:
    with pytest.raises(RecordError) as caught:
        time_of(value)
    expected = f"updated_at={shown!r}; expected a date, a time or seconds since 1970"
    assert (caught.value.code, caught.value.reason) == ("bad-date", expected)
