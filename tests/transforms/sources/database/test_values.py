"""Values of every type that the drivers of SQLite, PostgreSQL and MariaDB give, as texts."""

import enum
import ipaddress
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
    check_size,
    many_of,
    row_json,
    text_of,
    values_of,
)

PLUS_TWO = timezone(timedelta(hours=2))
OFFSETS = st.builds(lambda hours: timezone(timedelta(hours=hours)), st.integers(-12, 14))


class Colour(enum.Enum):
    """As a driver gives it that was told of it."""

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


def test_null_has_no_text() -> None:
    assert text_of(None) is None


def test_bytes_that_are_no_text_are_refused_as_one() -> None:
    with pytest.raises(RecordError) as caught:
        text_of(b"\xff\xfe\x00")

    expected = "bytes that are not UTF-8; expected text, a number or a date"
    assert (caught.value.code, caught.value.reason) == ("bad-value", expected)


def test_a_value_of_no_known_type_is_refused() -> None:
    with pytest.raises(RecordError) as caught:
        text_of(object())

    expected = (
        "a value of the type object; expected text, a number, a date, bytes, JSON or an array of "
        "these"
    )
    assert (caught.value.code, caught.value.reason) == ("bad-value", expected)


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


def test_a_text_is_not_many() -> None:
    assert many_of("ab") is None


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


def test_a_number_is_no_document() -> None:
    with pytest.raises(RecordError) as caught:
        bytes_of(Decimal(7))

    expected = (
        "a value of the type Decimal; expected text, bytes or JSON, as only these are documents"
    )
    assert (caught.value.code, caught.value.reason) == ("bad-value", expected)


def test_a_document_may_have_as_many_bytes_as_are_allowed() -> None:
    check_size(10, 10)


def test_a_larger_document_is_refused() -> None:
    with pytest.raises(RecordError) as caught:
        check_size(11, 10)

    expected = "11 bytes or more; expected at most 10 bytes; raise --max-content-bytes to read it"
    assert (caught.value.code, caught.value.reason) == ("content-too-large", expected)


def test_a_row_can_be_shown_whatever_is_in_it() -> None:
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
