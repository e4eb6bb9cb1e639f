"""Dates in every form that feeds have them in, and out in one."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedferry.transforms.formats.text.dates import local_date, parse_date, parse_utc_dates, rfc1123

NOON = datetime(2007, 11, 6, 12, 45, 26, tzinfo=UTC)
MOMENTS = st.datetimes(timezones=st.just(UTC)).map(lambda m: m.replace(microsecond=0))
ZONES = st.sampled_from(["UTC", "Asia/Tokyo", "America/Phoenix"])  # none with two clocks
DATE_LIKE = st.text(alphabet="0123456789 :-+.,TZGMTueNovESDFb\t\u0661\u00a0", max_size=40)


@pytest.mark.parametrize(
    "text",
    [
        *("Tue, 06 Nov 2007 12:45:26 GMT", "Tue, 06 Nov 2007 12:45:26 +0000"),
        *("Tue, 06 Nov 2007 12:45:26 -0000", "Tue, 06 Nov 2007 13:45:26 +0100"),
        *("Tue, 06 Nov 2007 04:45:26 -0800", "Tue, 06 Nov 2007 18:15:26 +05:30"),
        *("Tue, 06 Nov 2007 13:45:26 GMT+01:00", "Tue, 06 Nov 2007 13:45:26 +0100 (CET)"),
        *("Tue, 06 Nov 2007 12:45:26 Z", "Tue, 06 Nov 2007 12:45:26 UT"),
        *("Tue, 06 Nov 2007 12:45:26 UTC", "Tue, 06 Nov 2007 07:45:26 EST"),
        *("Tue, 06 Nov 2007 08:45:26 EDT", "Tue, 06 Nov 2007 04:45:26 pst"),
        *("Tue, 06 Nov 2007 13:45:26 CET", "Tue, 06 Nov 2007 12:45:26"),
        *("Tue, 06 Nov 07 12:45:26 GMT", "06 Nov 2007 12:45:26 GMT"),
        *("Tue, 6 Nov 2007 12:45:26 GMT", "Fri, 06 Nov 2007 12:45:26 GMT"),
        *("Tue 06 Nov 2007 12:45:26 GMT", "Tuesday, 06-Nov-07 12:45:26 GMT"),
        *("TUE, 06 NOVEMBER 2007 12:45:26 GMT", "  Tue,  06 Nov  2007 12:45:26 GMT \n"),
        *("2007-11-06T12:45:26Z", "2007-11-06T12:45:26.000Z", "2007-11-06T13:45:26+01:00"),
        *("2007-11-06T13:45:26+0100", "2007-11-06T13:45:26+01", "2007-11-06 12:45:26Z"),
        *("2007-11-06T12:45:26", "2007-11-06 12:45:26", "2007-11-06 07:45:26 EST"),
        *("20071106 12:45:26", "Nov 6, 2007 12:45:26", "November 06, 2007, 12:45:26 GMT"),
        *("Tue Nov  6 12:45:26 2007", "Tue Nov 06 13:45:26 CET 2007", "1194353126"),
        " +1194353126 ",
    ],
)
def test_a_date_is_understood_in_any_of_its_forms(text: str) -> None:
    assert parse_date(text) == NOON


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("6 Nov 2007 12:45 GMT", datetime(2007, 11, 6, 12, 45, tzinfo=UTC)),
        ("2007-11-06T12:45Z", datetime(2007, 11, 6, 12, 45, tzinfo=UTC)),
        *(
            (text, datetime(2007, 11, 6, tzinfo=UTC))
            for text in ("Nov 6, 2007", "Tuesday, Nov. 06 2007", "6 Nov 2007", "06-Nov-07")
        ),
        ("2007-11-06", datetime(2007, 11, 6, tzinfo=UTC)),
        ("01 Jan 49 00:00:00 GMT", datetime(2049, 1, 1, tzinfo=UTC)),
        ("01 Jan 50 00:00:00 GMT", datetime(1950, 1, 1, tzinfo=UTC)),
        ("100000000", datetime(1973, 3, 3, 9, 46, 40, tzinfo=UTC)),
        ("-100000000", datetime(1966, 10, 31, 14, 13, 20, tzinfo=UTC)),
        ("2007-11-06T12:45:26.1234567Z", datetime(2007, 11, 6, 12, 45, 26, 123456, tzinfo=UTC)),
    ],
)
def test_what_a_date_does_not_state_is_zero(text: str, expected: datetime) -> None:
    assert parse_date(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", "yesterday", "Fri, 30 Feb 2007 12:45:26 GMT", "Fri, 00 Jan 2007 12:45:26 GMT"),
        *("Tue, 06 Nov 2007 25:45:26 GMT", "Tue, 06 Nov 2007 12:60:26 GMT"),
        *("Tue, 06 Foo 2007 12:45:26 GMT", "Tue, 06xNov 2007 12:45:26 GMT"),
        *("Tue, 06 Nov 2007 124526.1 GMT", "Tue, 06 Nov 2007 12:45:26 XYZ"),
        *("Tue, 06 Nov 2007 12:45:26 +9900", "Tue, 06 Nov 2007 12:45:26 +0060"),
        *("Tue, 06 Nov 0000 12:45:26 GMT", "Nov 6, 2007 12:45:26 PM", "11/06/2007"),
        *("2007-13-06T12:45:26Z", "2007-02-30", "20071106", "12345678", "1194353126000"),
        *("999999999999", "0001-01-01T00:00:00+14:00", "\u0662\u0660\u0660\u0667-11-06"),
        "2007-11-06 12:45:26" + " x" * 100,
        "1" * 5000,
    ],
)
def test_what_is_no_date_is_not_understood(text: str) -> None:
    assert parse_date(text) is None


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2007-11-06 13:45:26", NOON),
        ("2007-11-06T12:45:26Z", NOON),
        ("2007-07-06 13:45:26", datetime(2007, 7, 6, 11, 45, 26, tzinfo=UTC)),
        ("2007-10-28 02:30:00", datetime(2007, 10, 28, 0, 30, tzinfo=UTC)),
    ],
    ids=["no zone", "a zone", "no zone in summer", "the first of two such hours"],
)
def test_a_date_without_a_zone_is_in_the_zone_that_is_named(text: str, moment: datetime) -> None:
    assert parse_date(text, zone="Europe/Zurich") == moment


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


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (NOON, "Tue, 06 Nov 2007 12:45:26 GMT"),
        (NOON.replace(microsecond=999999), "Tue, 06 Nov 2007 12:45:26 GMT"),
        (NOON.astimezone(timezone(timedelta(hours=1))), "Tue, 06 Nov 2007 12:45:26 GMT"),
        (datetime(1, 2, 3, 4, 5, 6, tzinfo=UTC), "Sat, 03 Feb 0001 04:05:06 GMT"),
    ],
    ids=["as in the guide", "without the fraction", "in GMT from any zone", "a padded early year"],
)
def test_rfc_1123_is_written_as_the_guide_has_it(moment: datetime, text: str) -> None:
    assert rfc1123(moment) == text


@pytest.mark.parametrize(
    ("stated", "text"),
    [({}, "2007-11-06 12:45:26"), ({"zone": "America/Los_Angeles"}, "2007-11-06 04:45:26")],
    ids=["no zone", "a zone"],
)
def test_a_local_date_is_utc_unless_a_zone_is_named(stated: dict[str, str], text: str) -> None:
    assert local_date(NOON, **stated) == text


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31 08:30:00+00:00", datetime(2026, 1, 31, 8, 30, tzinfo=UTC)),
        ("2026-01-31 08:30:00.123456", datetime(2026, 1, 31, 7, 30, 0, 123456, UTC)),
        ("2026-01-31T08:30:00.123456Z", datetime(2026, 1, 31, 8, 30, 0, 123456, UTC)),
        ("2026-01-31 08:30:00-05:30", datetime(2026, 1, 31, 14, tzinfo=UTC)),
        ("2026-01-31 08:30:00+05:75", None),
        ("2026-01-31 08:30:00+24:00", None),
        ("2026-01-31 24:00:00Z", None),
        ("0001-01-01 00:30:00+02:00", None),
    ],
)
def test_dates_of_databases_have_a_zone_or_that_of_the_reader(
    text: str, moment: datetime | None
) -> None:
    assert parse_date(text, zone="Europe/Berlin") == moment


@given(st.lists(MOMENTS, min_size=1), st.sampled_from(["Z", "+00:00"]), st.sampled_from(" T"))
def test_a_column_of_dates_in_utc_is_parsed_as_its_dates(
    moments: list[datetime], zone: str, between: str
) -> None:
    texts = [moment.isoformat(between)[:-6] + zone for moment in moments]
    assert parse_utc_dates(texts) == moments == [*map(parse_date, texts)]


@pytest.mark.parametrize(
    "text",
    [
        *("", "2026-01-31", "2026-01-31 08:30:00", "2026-01-31 08:30:00+01:00"),
        *("2026-02-30 08:30:00Z", "2026-01-31 24:00:00Z", '2026-01-31 08:30:00Z"'),
        *("0000-00-00 00:00:00Z", '2026-01-31 08:30:00Z"2026-01-31 08:30:00Z'),
    ],
)
def test_a_column_with_another_date_is_not_parsed(text: str) -> None:
    assert parse_utc_dates(["2026-01-31 08:30:00Z", text]) is None
