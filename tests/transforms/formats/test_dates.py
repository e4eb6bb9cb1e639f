"""Dates in every form that feeds have them in, and out in one."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.formats.dates import local_date, parse_date, rfc1123

NOON = datetime(2007, 11, 6, 12, 45, 26, tzinfo=UTC)
MOMENTS = st.datetimes(timezones=st.just(UTC)).map(lambda m: m.replace(microsecond=0))
ZONES = st.sampled_from(["UTC", "Asia/Tokyo", "America/Phoenix"])  # none with two clocks
DATE_LIKE = st.text(alphabet="0123456789 :-+.,TZGMTueNovESDFb\t\u0661\u00a0", max_size=40)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("Tue, 06 Nov 2007 12:45:26 GMT", id="rfc-1123"),
        pytest.param("Tue, 06 Nov 2007 12:45:26 +0000", id="zero-offset"),
        pytest.param("Tue, 06 Nov 2007 12:45:26 -0000", id="negative-zero-offset"),
        pytest.param("Tue, 06 Nov 2007 13:45:26 +0100", id="offset-east"),
        pytest.param("Tue, 06 Nov 2007 04:45:26 -0800", id="offset-west"),
        pytest.param("Tue, 06 Nov 2007 18:15:26 +05:30", id="offset-with-colon"),
        pytest.param("Tue, 06 Nov 2007 13:45:26 GMT+01:00", id="offset-after-gmt"),
        pytest.param("Tue, 06 Nov 2007 13:45:26 +0100 (CET)", id="comment"),
        pytest.param("Tue, 06 Nov 2007 12:45:26 Z", id="z"),
        pytest.param("Tue, 06 Nov 2007 12:45:26 UT", id="ut"),
        pytest.param("Tue, 06 Nov 2007 12:45:26 UTC", id="utc"),
        pytest.param("Tue, 06 Nov 2007 07:45:26 EST", id="est"),
        pytest.param("Tue, 06 Nov 2007 08:45:26 EDT", id="edt"),
        pytest.param("Tue, 06 Nov 2007 04:45:26 pst", id="small-letters"),
        pytest.param("Tue, 06 Nov 2007 13:45:26 CET", id="cet"),
        pytest.param("Tue, 06 Nov 2007 12:45:26", id="no-zone"),
        pytest.param("Tue, 06 Nov 07 12:45:26 GMT", id="two-digit-year"),
        pytest.param("06 Nov 2007 12:45:26 GMT", id="no-weekday"),
        pytest.param("Tue, 6 Nov 2007 12:45:26 GMT", id="single-digit-day"),
        pytest.param("Fri, 06 Nov 2007 12:45:26 GMT", id="wrong-weekday"),
        pytest.param("Tue 06 Nov 2007 12:45:26 GMT", id="no-comma"),
        pytest.param("Tuesday, 06-Nov-07 12:45:26 GMT", id="rfc-850"),
        pytest.param("TUE, 06 NOVEMBER 2007 12:45:26 GMT", id="capitals-and-full-month"),
        pytest.param("  Tue,  06 Nov  2007 12:45:26 GMT \n", id="spaces"),
        pytest.param("2007-11-06T12:45:26Z", id="iso-z"),
        pytest.param("2007-11-06T12:45:26.000Z", id="iso-fraction"),
        pytest.param("2007-11-06T13:45:26+01:00", id="iso-offset"),
        pytest.param("2007-11-06T13:45:26+0100", id="iso-offset-without-colon"),
        pytest.param("2007-11-06T13:45:26+01", id="iso-offset-of-hours"),
        pytest.param("2007-11-06 12:45:26Z", id="iso-space"),
        pytest.param("2007-11-06T12:45:26", id="iso-no-zone"),
        pytest.param("2007-11-06 12:45:26", id="thunderstone"),
        pytest.param("2007-11-06 07:45:26 EST", id="thunderstone-zone"),
        pytest.param("20071106 12:45:26", id="compact"),
        pytest.param("1194353126", id="epoch-seconds"),
        pytest.param(" +1194353126 ", id="epoch-seconds-with-sign"),
    ],
)
def test_a_date_is_understood_in_any_of_its_forms(text: str) -> None:
    assert parse_date(text) == NOON


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("6 Nov 2007 12:45 GMT", datetime(2007, 11, 6, 12, 45, tzinfo=UTC), id="rfc"),
        pytest.param("2007-11-06T12:45Z", datetime(2007, 11, 6, 12, 45, tzinfo=UTC), id="iso"),
        pytest.param("2007-11-06", datetime(2007, 11, 6, tzinfo=UTC), id="day"),
        pytest.param("01 Jan 49 00:00:00 GMT", datetime(2049, 1, 1, tzinfo=UTC), id="49"),
        pytest.param("01 Jan 50 00:00:00 GMT", datetime(1950, 1, 1, tzinfo=UTC), id="50"),
        pytest.param("100000000", datetime(1973, 3, 3, 9, 46, 40, tzinfo=UTC), id="nine-digits"),
        pytest.param("-100000000", datetime(1966, 10, 31, 14, 13, 20, tzinfo=UTC), id="before"),
        pytest.param(
            "2007-11-06T12:45:26.1234567Z",
            datetime(2007, 11, 6, 12, 45, 26, 123456, tzinfo=UTC),
            id="more-digits-than-microseconds",
        ),
    ],
)
def test_what_a_date_does_not_state_is_zero(text: str, expected: datetime) -> None:
    assert parse_date(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("yesterday", id="word"),
        pytest.param("Fri, 30 Feb 2007 12:45:26 GMT", id="no-such-day"),
        pytest.param("Fri, 00 Jan 2007 12:45:26 GMT", id="day-zero"),
        pytest.param("Tue, 06 Nov 2007 25:45:26 GMT", id="no-such-hour"),
        pytest.param("Tue, 06 Nov 2007 12:60:26 GMT", id="no-such-minute"),
        pytest.param("Tue, 06 Foo 2007 12:45:26 GMT", id="no-such-month"),
        pytest.param("Tue, 06xNov 2007 12:45:26 GMT", id="no-separator"),
        pytest.param("Tue, 06 Nov 2007 124526.1 GMT", id="time-without-colons"),
        pytest.param("Tue, 06 Nov 2007 12:45:26 XYZ", id="no-such-zone"),
        pytest.param("Tue, 06 Nov 2007 12:45:26 +9900", id="no-such-offset"),
        pytest.param("Tue, 06 Nov 2007 12:45:26 +0060", id="offset-of-60-minutes"),
        pytest.param("Tue, 06 Nov 0000 12:45:26 GMT", id="year-zero"),
        pytest.param("2007-13-06T12:45:26Z", id="iso-month-13"),
        pytest.param("2007-02-30", id="iso-no-such-day"),
        pytest.param("20071106", id="eight-digits"),
        pytest.param("12345678", id="epoch-of-eight-digits"),
        pytest.param("1194353126000", id="epoch-milliseconds"),
        pytest.param("999999999999", id="epoch-beyond-year-9999"),
        pytest.param("0001-01-01T00:00:00+14:00", id="before-year-1"),
        pytest.param("\u0662\u0660\u0660\u0667-11-06", id="arabic-digits"),
        pytest.param("2007-11-06 12:45:26" + " x" * 100, id="long"),
        pytest.param("1" * 5000, id="long-number"),
    ],
)
def test_what_is_no_date_is_not_understood(text: str) -> None:
    assert parse_date(text) is None


def test_a_date_without_a_zone_is_in_the_zone_that_is_named() -> None:
    assert parse_date("2007-11-06 13:45:26", zone="Europe/Zurich") == NOON


def test_a_date_with_a_zone_keeps_it() -> None:
    assert parse_date("2007-11-06T12:45:26Z", zone="Europe/Zurich") == NOON


def test_a_date_without_a_zone_knows_summer_time() -> None:
    assert parse_date("2007-07-06 13:45:26", zone="Europe/Zurich") == datetime(
        2007, 7, 6, 11, 45, 26, tzinfo=UTC
    )


def test_an_hour_that_occurs_twice_is_the_first() -> None:
    assert parse_date("2007-10-28 02:30:00", zone="Europe/Zurich") == datetime(
        2007, 10, 28, 0, 30, tzinfo=UTC
    )


@given(st.text() | DATE_LIKE, ZONES)
def test_no_text_is_too_wild(text: str, zone: str) -> None:
    moment = parse_date(text, zone=zone)

    assert moment is None or moment.tzinfo is UTC


@given(MOMENTS)
def test_a_moment_survives_rfc_1123(moment: datetime) -> None:
    assert parse_date(rfc1123(moment)) == moment


@given(MOMENTS.filter(lambda m: 1900 < m.year < 9999), ZONES)
def test_a_moment_survives_a_local_clock(moment: datetime, zone: str) -> None:
    assert parse_date(local_date(moment, zone=zone), zone=zone) == moment


@given(st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=14))])), ZONES)
def test_every_moment_can_be_written(moment: datetime, zone: str) -> None:
    assert (len(rfc1123(moment)), len(local_date(moment, zone=zone))) == (29, 19)


@given(DATE_LIKE.map(lambda text: f"Tue, {text:<20.20} GMT"))
def test_the_short_cut_understands_nothing_that_the_long_way_does_not(text: str) -> None:
    assert parse_date(text) == parse_date(f" {text}")


def test_rfc_1123_is_written_as_the_guide_has_it() -> None:
    assert rfc1123(NOON) == "Tue, 06 Nov 2007 12:45:26 GMT"


def test_rfc_1123_drops_a_fraction() -> None:
    assert rfc1123(NOON.replace(microsecond=999999)) == "Tue, 06 Nov 2007 12:45:26 GMT"


def test_rfc_1123_is_in_gmt_wherever_the_moment_was() -> None:
    east = NOON.astimezone(timezone(timedelta(hours=1)))

    assert rfc1123(east) == "Tue, 06 Nov 2007 12:45:26 GMT"


def test_rfc_1123_pads_an_early_year() -> None:
    assert rfc1123(datetime(1, 2, 3, 4, 5, 6, tzinfo=UTC)) == "Sat, 03 Feb 0001 04:05:06 GMT"


def test_a_local_date_is_utc_unless_told() -> None:
    assert local_date(NOON) == "2007-11-06 12:45:26"


def test_a_local_date_is_on_the_clock_of_its_zone() -> None:
    assert local_date(NOON, zone="America/Los_Angeles") == "2007-11-06 04:45:26"
