"""Windows over changes of the clock, deadlines, durations, rates, and words that are none."""

import os
import pickle
import time as clocks
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TypeVar
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import ConfigError
from transforms.sinks.push.throttle.schedule import (
    LOCAL,
    Rate,
    SendWindow,
    Span,
    parse_deadline,
    parse_rate,
    parse_window,
)

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)  # a Saturday, 13:00 in Berlin
ZONES = (
    *("Europe/Berlin", "America/New_York", "America/Sao_Paulo", "America/Havana"),
    *("Australia/Lord_Howe", "Asia/Kathmandu", "Asia/Beirut", "Pacific/Apia", "UTC"),
)
SPANS = (
    *("20:00-06:00", "02:30-04:00", "23:30-00:30", "01:59-02:01", "00:00-24:00", "02:00-03:00"),
    *("Mon-Fri 20:00-06:00", "Sun 02:15-02:45", "Sat-Mon 00:30-00:15", "Fri 09:00-17:00"),
    "Mon-Fri 20:00-06:00, Sat,Sun 00:00-24:00",
)
WINDOWS = st.builds("{} {}".format, st.sampled_from(SPANS), st.sampled_from(ZONES))
MOMENTS = st.datetimes(
    datetime(2000, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC), allow_imaginary=False
)
Parsed = TypeVar("Parsed")


@st.composite
def around_changes(draw: st.DrawFn) -> tuple[SendWindow, datetime]:
    """A window, and a moment about a day around a change of the clock in its zone."""
    window = parse_window(draw(WINDOWS))
    change = draw(st.sampled_from(CHANGES[str(window.zone)]))
    return window, change + timedelta(seconds=draw(st.integers(-40_000, 120_000)))


def changes(name: str) -> list[datetime]:
    """The days of 2009 to 2012 that end with another offset than they began with, by UTC."""
    zone = ZoneInfo(name)
    days = [datetime(2009, 1, 1, tzinfo=UTC) + timedelta(days=day) for day in range(1461)]
    offsets = {day: day.astimezone(zone).utcoffset() for day in days}
    return [day for day, after in pairwise(days) if offsets[day] != offsets[after]] or days[:1]


CHANGES = {name: changes(name) for name in ZONES}


def berlin(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN)


def opens_in(text: str, now: datetime) -> timedelta:
    return timedelta(seconds=parse_window(text).opens_in(now))


def outcome(parse: Callable[[str], Parsed], text: str) -> Parsed | str:
    """What a text means, or what is said of it."""
    try:
        return parse(text)
    except ConfigError as exc:
        return str(exc)


def shown(window: SendWindow, now: datetime) -> bool:
    """Whether the clock on the wall shows a time of the window, by its words alone."""
    wall = now.astimezone(window.zone)
    minutes = wall.hour * 60 + wall.minute
    return any(
        span.begin <= minutes + back * 1440 < span.end and (wall.weekday() - back) % 7 in span.days
        for span in window.spans
        for back in (0, 1)
    )


@pytest.fixture
def machine_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Sets the zone of this machine, for this process."""
    was = os.environ.get("TZ")

    def move(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        clocks.tzset()

    yield move
    monkeypatch.undo()
    assert os.environ.get("TZ") == was
    clocks.tzset()


# Windows


@pytest.mark.parametrize(
    ("now", "hours"),
    [
        ("2026-11-21T13:00", 7),
        ("2026-11-21T19:59", 1 / 60),
        ("2026-11-21T20:00", 0),
        ("2026-11-21T23:59", 0),
        ("2026-11-22T05:59", 0),
        ("2026-11-22T06:00", 14),
    ],
)
def test_a_window_over_midnight_is_open_from_evening_to_morning(now: str, hours: float) -> None:
    window = parse_window("20:00-06:00 Europe/Berlin")

    assert window.opens_in(berlin(now)) == hours * 3600


def test_a_window_is_understood() -> None:
    assert parse_window(" Mon-Fri 20:00 - 6:00 Europe/Berlin ") == SendWindow(
        "Mon-Fri 20:00 - 6:00 Europe/Berlin",
        (Span(frozenset({0, 1, 2, 3, 4}), 1200, 1800),),
        BERLIN,
    )


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("Mon", {0}),
        ("Mon-Fri", {0, 1, 2, 3, 4}),
        ("Sat-Mon", {5, 6, 0}),
        ("mon, WED,Fri - Sat", {0, 2, 4, 5}),
        ("Sun-Sun", {6}),
        ("Mon-Sun", {0, 1, 2, 3, 4, 5, 6}),
    ],
)
def test_days_are_named_one_by_one_or_in_ranges(text: str, days: set[int]) -> None:
    assert parse_window(f"{text} 20:00-06:00 UTC").spans == (Span(frozenset(days), 1200, 1800),)


def test_a_window_over_midnight_belongs_to_the_day_that_it_begins_on() -> None:
    text = "Fri 20:00-06:00 Europe/Berlin"

    assert opens_in(text, berlin("2026-11-21T05:00")) == timedelta(0)
    assert opens_in(text, berlin("2026-11-20T05:00")) == timedelta(hours=15)


def test_a_window_may_have_several_times() -> None:
    text = "Mon-Fri 20:00-06:00, Sat,Sun 00:00-24:00 Europe/Berlin"
    window = parse_window(text)

    assert [len(span.days) for span in window.spans] == [2, 5]
    assert window.closes_at(berlin("2026-11-20T21:00")) == berlin("2026-11-23T00:00")


def test_a_zone_may_end_in_a_digit() -> None:
    assert str(parse_window("20:00-06:00 Etc/GMT+5").zone) == "Etc/GMT+5"


def test_a_window_closes_at_its_end() -> None:
    window = parse_window("20:00-06:00 Europe/Berlin")

    assert window.closes_at(berlin("2026-11-21T23:00")) == berlin("2026-11-22T06:00")
    assert window.closes_at(berlin("2026-11-21T12:00")) == berlin("2026-11-22T06:00")


def test_a_window_that_is_always_open_never_closes() -> None:
    assert parse_window("00:00-24:00").closes_at(NOON) is None


def test_two_times_that_touch_are_one() -> None:
    window = parse_window("08:00-12:00, 12:00-18:00 UTC")

    assert window.closes_at(datetime(2026, 11, 21, 9, tzinfo=UTC)) == datetime(
        2026, 11, 21, 18, tzinfo=UTC
    )


def test_a_window_opens_in_its_own_zone() -> None:
    opens = parse_window("20:00-06:00 Europe/Berlin").opens_at(NOON)

    assert f"{opens:%Y-%m-%d %H:%M %Z}" == "2026-11-21 20:00 CET"


def test_a_window_opens_one_hour_sooner_in_the_night_that_lacks_one() -> None:
    evening = berlin("2026-03-28T12:00")

    assert opens_in("06:00-08:00 Europe/Berlin", evening) == timedelta(hours=17)


def test_a_window_opens_one_hour_later_in_the_night_that_has_one_more() -> None:
    evening = berlin("2026-10-24T12:00")

    assert opens_in("06:00-08:00 Europe/Berlin", evening) == timedelta(hours=19)


def test_a_window_that_begins_in_the_missing_hour_opens_when_the_clock_is_set() -> None:
    window = parse_window("02:30-04:00 Europe/Berlin")
    opens = window.opens_at(berlin("2026-03-29T00:30"))

    assert opens.astimezone(UTC) == datetime(2026, 3, 29, 1, tzinfo=UTC)
    assert f"{opens:%H:%M %Z}" == "03:00 CEST"


def test_a_window_that_ends_in_the_missing_hour_closes_when_the_clock_is_set() -> None:
    closes = parse_window("20:00-02:30 Europe/Berlin").closes_at(berlin("2026-03-29T00:30"))

    assert closes is not None
    assert closes.astimezone(UTC) == datetime(2026, 3, 29, 1, tzinfo=UTC)


def test_a_window_within_the_missing_hour_is_not_open_that_day() -> None:
    opens = parse_window("02:15-02:45 Europe/Berlin").opens_at(berlin("2026-03-29T00:30"))

    assert opens == berlin("2026-03-30T02:15")


def test_a_weekly_window_that_is_skipped_opens_a_week_later() -> None:
    opens = parse_window("Sun 02:15-02:45 Europe/Berlin").opens_at(berlin("2026-03-28T12:00"))

    assert opens == berlin("2026-04-05T02:15")


def test_a_window_that_begins_in_the_hour_shown_twice_stays_open() -> None:
    window = parse_window("02:30-06:00 Europe/Berlin")
    moments = [datetime(2026, 10, 25, 0, tzinfo=UTC) + timedelta(minutes=m) for m in (29, 30, 61)]

    assert [window.opens_in(moment) for moment in moments] == [60, 0, 0]


def test_a_window_that_ends_in_the_hour_shown_twice_does_not_open_again() -> None:
    window = parse_window("20:00-02:30 Europe/Berlin")
    moments = [datetime(2026, 10, 25, 0, tzinfo=UTC) + timedelta(minutes=m) for m in (29, 30, 61)]

    assert [window.opens_in(moment) > 0 for moment in moments] == [False, True, True]


def test_a_day_that_a_country_skipped_has_no_window() -> None:
    zone = ZoneInfo("Pacific/Apia")
    window = parse_window("Fri 09:00-17:00 Pacific/Apia")
    opens = window.opens_at(datetime(2011, 12, 29, 12, tzinfo=zone))

    assert opens == datetime(2012, 1, 6, 9, tzinfo=zone)


@given(text=WINDOWS, now=MOMENTS)
def test_an_hour_of_the_wall_is_in_the_window_or_not(text: str, now: datetime) -> None:
    window = parse_window(text)
    is_second = now.astimezone(window.zone).fold == 1

    assert is_second or (window.opens_in(now) == 0) == shown(window, now)


@given(found=around_changes())
def test_so_it_is_around_changes_of_the_clock(found: tuple[SendWindow, datetime]) -> None:
    window, now = found
    is_second = now.astimezone(window.zone).fold == 1

    assert is_second or (window.opens_in(now) == 0) == shown(window, now)


@given(found=around_changes())
def test_a_window_is_open_when_it_was_said_to_open(found: tuple[SendWindow, datetime]) -> None:
    window, now = found
    opens = now + timedelta(seconds=window.opens_in(now))

    assert window.opens_in(opens) == 0
    assert window.opens_at(opens).astimezone(UTC) == opens


@given(found=around_changes(), part=st.floats(0, 0.999))
def test_a_window_is_shut_all_the_time_until_then(
    found: tuple[SendWindow, datetime], part: float
) -> None:
    window, now = found
    seconds = window.opens_in(now)
    between = now + timedelta(seconds=seconds * part)

    assert window.opens_in(between) == pytest.approx(seconds * (1 - part), abs=1e-4)


def test_a_window_that_the_clock_skips_closes_when_it_was_open_a_week_later() -> None:
    window = parse_window("Sun 02:15-02:45 America/New_York")
    closes = window.closes_at(datetime(2009, 3, 8, tzinfo=UTC))
    assert closes == datetime(2009, 3, 15, 6, 45, tzinfo=UTC)


@given(found=around_changes(), part=st.floats(0, 0.999))
def test_a_window_is_open_until_it_closes(found: tuple[SendWindow, datetime], part: float) -> None:
    window, now = found
    opens = window.opens_at(now).astimezone(UTC)
    closes = (window.closes_at(now) or opens + timedelta(days=3)).astimezone(UTC)

    assert window.opens_in(opens + (closes - opens) * part) == 0
    assert window.opens_in(closes) > 0 or window.closes_at(now) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "at night",
            "'at night'; expected times and a zone, as '20:00-06:00 Europe/Berlin' or "
            "'Mon-Fri 20:00-06:00, Sat,Sun 00:00-24:00'",
        ),
        (
            "",
            "''; expected times and a zone, as '20:00-06:00 Europe/Berlin' or "
            "'Mon-Fri 20:00-06:00, Sat,Sun 00:00-24:00'",
        ),
        (
            "20:00 Europe/Berlin",
            "'20:00 Europe/Berlin': '20:00'; expected a beginning and an end, as 20:00-06:00, days "
            "before them, and a comma before the next",
        ),
        (
            "20:00-22:00 Tue 20:00-23:00",
            "'20:00-22:00 Tue 20:00-23:00': '20:00-22:00 Tue 20:00-23:00'; expected a beginning "
            "and an end, as 20:00-06:00, days before them, and a comma before the next",
        ),
        (
            "20:00-25:00 UTC",
            "'20:00-25:00 UTC': '25:00'; expected a time from 00:00 to 24:00",
        ),
        (
            "20:60-06:00",
            "'20:60-06:00': '20:60'; expected a time from 00:00 to 24:00",
        ),
        (
            "20:00-20:00",
            "'20:00-20:00': '20:00-20:00'; expected an end that is not its beginning, or "
            "00:00-24:00 for the whole day",
        ),
        (
            "Monday 20:00-06:00",
            "'Monday 20:00-06:00': 'Monday'; expected one of Mon, Tue, Wed, Thu, Fri, Sat, Sun; "
            "did you mean 'Mon'?",
        ),
        (
            "Mo-Fr 20:00-06:00",
            "'Mo-Fr 20:00-06:00': 'Mo'; expected one of Mon, Tue, Wed, Thu, Fri, Sat, Sun; "
            "did you mean 'Mon'?",
        ),
        (
            "daily 20:00-06:00",
            "'daily 20:00-06:00': 'daily'; expected one of Mon, Tue, Wed, Thu, Fri, Sat, Sun",
        ),
        (
            "Mon-Wed-Fri 20:00-06:00",
            "'Mon-Wed-Fri 20:00-06:00': 'Mon-Wed-Fri'; expected one day or two, as Mon or Mon-Fri",
        ),
        (
            "20:00-06:00 Europe/Berln",
            "'Europe/Berln'; expected an IANA time zone such as Europe/Berlin; did you mean "
            "'Europe/Berlin'?",
        ),
        (
            "20:00-06:00 Europe",
            "'Europe'; expected an IANA time zone such as Europe/Berlin; did you mean "
            "'Europe/Rome'?",
        ),
        (
            "20:00-06:00 Nowhere/../../x",
            "'Nowhere/../../x'; expected an IANA time zone such as Europe/Berlin",
        ),
    ],
)
def test_a_window_that_is_none_says_what_was_expected(text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_window(text)

    assert str(caught.value) == expected


@given(text=st.text(alphabet="0123456789:-, MonTueSat/+EuropeUTC\n", max_size=30) | st.text())
def test_any_words_are_a_window_or_a_usage_error(text: str) -> None:
    found = outcome(parse_window, text)

    assert "; expected " in found if isinstance(found, str) else found.opens_in(NOON) >= 0


# The zone of this machine


def test_a_window_without_a_zone_is_in_that_of_the_machine(
    machine_zone: Callable[[str], None],
) -> None:
    machine_zone("Europe/Berlin")
    opens = parse_window("20:00-06:00").opens_at(NOON)

    assert f"{opens:%Y-%m-%d %H:%M %Z}" == "2026-11-21 20:00 CET"


def test_a_window_without_a_zone_says_whose_time_it_is() -> None:
    assert parse_window("20:00-06:00").text == "20:00-06:00 (time of this machine)"


def test_the_zone_of_the_machine_changes_its_clock(machine_zone: Callable[[str], None]) -> None:
    machine_zone("Europe/Berlin")
    window = parse_window("02:30-04:00")
    opens = window.opens_at(datetime(2026, 3, 28, 23, 30, tzinfo=UTC))

    assert f"{opens:%Y-%m-%d %H:%M %Z}" == "2026-03-29 03:00 CEST"


@pytest.mark.parametrize("minutes", range(-60, 121, 20))
def test_the_machine_knows_which_of_two_hours_it_is(
    machine_zone: Callable[[str], None], minutes: int
) -> None:
    machine_zone("Europe/Berlin")
    moment = datetime(2026, 10, 25, 0, 30, tzinfo=UTC) + timedelta(minutes=minutes)
    here, there = moment.astimezone(LOCAL), moment.astimezone(BERLIN)

    assert (here.replace(tzinfo=None), here.fold) == (there.replace(tzinfo=None), there.fold)
    assert here.astimezone(UTC) == moment
    assert here.dst() is None


def test_a_window_can_be_sent_to_a_worker() -> None:
    window = parse_window("20:00-06:00")
    there = pickle.loads(pickle.dumps(window))

    assert there.opens_at(NOON).astimezone(UTC) == window.opens_at(NOON).astimezone(UTC)


# Deadlines


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("06:00", "2026-11-22 06:00 CET"),
        ("6:00", "2026-11-22 06:00 CET"),
        ("13:01", "2026-11-21 13:01 CET"),
        ("13:00", "2026-11-22 13:00 CET"),
        ("24:00", "2026-11-22 00:00 CET"),
        ("06:00 America/New_York", "2026-11-22 06:00 EST"),
        ("6h", "2026-11-21 19:00 CET"),
        ("90s", "2026-11-21 13:01 CET"),
        ("2d", "2026-11-23 13:00 CET"),
        ("1h30m", "2026-11-21 14:30 CET"),
    ],
)
def test_a_deadline_is_the_next_time_or_a_duration_from_now(text: str, expected: str) -> None:
    assert f"{parse_deadline(text, now=NOON, local=BERLIN):%Y-%m-%d %H:%M %Z}" == expected


def test_six_hours_are_six_hours_in_the_night_that_lacks_one() -> None:
    now = berlin("2026-03-28T23:00")

    assert parse_deadline("6h", now=now, local=BERLIN) == berlin("2026-03-29T06:00")


def test_a_time_that_is_shown_twice_means_the_first() -> None:
    deadline = parse_deadline("02:30", now=berlin("2026-10-24T20:00"), local=BERLIN)

    assert deadline.astimezone(UTC) == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)


def test_a_deadline_is_in_the_zone_of_the_machine(machine_zone: Callable[[str], None]) -> None:
    machine_zone("Asia/Tokyo")
    deadline = parse_deadline("06:00", now=NOON)

    assert deadline.astimezone(UTC) == datetime(2026, 11, 21, 21, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("6", "'6'; expected a time of day or a duration, as 06:00 or 6h"),
        (
            "6 hours",
            "'6 hours'; expected a time of day or a duration, as 06:00 or 6h",
        ),
        ("dawn", "'dawn'; expected a time of day or a duration, as 06:00 or 6h"),
        ("0s", "'0s'; expected a deadline that is not yet over, as 6h"),
        ("26:00", "'26:00': '26:00'; expected a time from 00:00 to 24:00"),
        (
            "06:00 berlin",
            "'berlin'; expected an IANA time zone such as Europe/Berlin; did you mean "
            "'Europe/Berlin'?",
        ),
    ],
)
def test_a_deadline_that_is_none_says_what_was_expected(text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_deadline(text, now=NOON, local=BERLIN)

    assert str(caught.value) == expected


# Rates


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2/s", Rate("2/s", feeds_per_second=2.0)),
        ("30/m", Rate("30/m", feeds_per_second=0.5)),
        ("1800/h", Rate("1800/h", feeds_per_second=0.5)),
        ("86400/d", Rate("86400/d", feeds_per_second=1.0)),
        ("0.5/S", Rate("0.5/S", feeds_per_second=0.5)),
        ("20MiB/s", Rate("20MiB/s", bytes_per_second=20 * 1024.0**2)),
        ("20 mb/s", Rate("20 mb/s", bytes_per_second=20_000_000.0)),
        ("6GB/m", Rate("6GB/m", bytes_per_second=100_000_000.0)),
        ("500KiB/s", Rate("500KiB/s", bytes_per_second=512_000.0)),
        (" 100B/s ", Rate("100B/s", bytes_per_second=100.0)),
        ("1TiB/h", Rate("1TiB/h", bytes_per_second=1024**4 / 3600)),
    ],
)
def test_a_rate_counts_feeds_or_bytes(text: str, expected: Rate) -> None:
    assert parse_rate(text) == expected


def test_a_rate_of_feeds_keeps_them_apart_whatever_their_size() -> None:
    assert parse_rate("30/m").seconds(900_000_000) == 2.0


def test_a_rate_of_bytes_keeps_large_feeds_apart() -> None:
    assert parse_rate("20MB/s").seconds(900_000_000) == 45.0


def test_no_rate_keeps_nothing_apart() -> None:
    assert Rate("").seconds(900_000_000) == 0.0


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("10", ""),
        ("0/s", ""),
        ("-1/s", ""),
        ("fast", ""),
        ("10/w", ""),
        ("20Mbit/s", ""),
        ("10 per minute", "; did you mean '10/m'?"),
        ("10 feeds/min", "; did you mean '10/m'?"),
        ("600/hour", "; did you mean '600/h'?"),
        ("20M/s", "; did you mean '20MiB/s'?"),
        ("20MB/sec", "; did you mean '20MB/s'?"),
        ("20 bytes/s", "; did you mean '20B/s'?"),
        ("20 k/s", "; did you mean '20KiB/s'?"),
        ("20 MiB per second", "; did you mean '20MiB/s'?"),
        ("10/ms", ""),
    ],
)
def test_a_rate_that_is_none_says_what_was_expected(text: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_rate(text)

    assert str(caught.value) == (
        f"{text!r}; expected feeds or bytes in a time, as 10/m, 600/h or 20MiB/s{hint}"
    )


@given(text=st.text(alphabet="0123456789.kMGiB/smhd per", max_size=20) | st.text())
def test_any_words_are_a_rate_or_a_usage_error(text: str) -> None:
    found = outcome(parse_rate, text)

    assert (
        "; expected feeds or bytes in a time" in found
        if isinstance(found, str)
        else found.seconds(1000) > 0
    )
