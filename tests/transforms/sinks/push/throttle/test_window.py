"""Send windows, time zones and deadlines."""

import os
import pickle
import time as clocks
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import ConfigError
from transforms.sinks.push.throttle.window import (
    SendWindow,
    WindowHours,
    parse_deadline,
    parse_window,
)

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)  # a Saturday, 13:00 in Berlin
NIGHT = parse_window("20:00-06:00 Europe/Berlin")
HOURS = (
    *("20:00-06:00", "00:00-24:00", "Mon-Fri 20:00-06:00", "Sun 02:15-02:45", "Fri 09:00-17:00"),
    *("Sat-Mon 00:30-00:15", "Mon-Fri 20:00-06:00, Sat,Sun 00:00-24:00"),
)
WINDOWS = st.builds(
    "{} {}".format, st.sampled_from(HOURS), st.sampled_from(["Europe/Berlin", "Asia/Kathmandu"])
)
MOMENTS = st.datetimes(datetime(2000, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC))


def berlin(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN)


def shown(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M %Z}" if moment else "never"


def refusal(parse: Callable[[str], object], text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(text)
    return str(caught.value)


def deadline(text: str, now: datetime = NOON) -> datetime:
    return parse_deadline(text, now=now)


@pytest.fixture
def set_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Set the time zone of this machine, for this process."""
    before = os.environ.get("TZ")

    def set_to(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        clocks.tzset()

    yield set_to
    monkeypatch.undo()
    assert os.environ.get("TZ") == before
    clocks.tzset()


@pytest.mark.parametrize(
    ("now", "opens"),
    [
        ("2026-11-21T13:00", "2026-11-21 20:00 CET"),
        ("2026-11-21T20:00", "2026-11-21 20:00 CET"),
        ("2026-11-21T23:59", "2026-11-21 23:59 CET"),
        ("2026-11-22T05:59", "2026-11-22 05:59 CET"),
        ("2026-11-22T06:00", "2026-11-22 20:00 CET"),
        ("2026-03-28T20:30", "2026-03-28 20:30 CET"),
        ("2026-03-29T07:00", "2026-03-29 20:00 CEST"),
    ],
)
def test_a_window_over_midnight_is_open_from_evening_to_morning(now: str, opens: str) -> None:
    assert shown(NIGHT.opens_at(berlin(now))) == opens


@pytest.mark.parametrize(
    ("text", "opens", "closes"),
    [
        ("20:00-06:00 Europe/Berlin", "2026-11-21 20:00 CET", "2026-11-22 06:00 CET"),
        ("12:00-16:00 Europe/Berlin", "2026-11-21 13:00 CET", "2026-11-21 16:00 CET"),
        ("Mon 20:00-06:00 Europe/Berlin", "2026-11-23 20:00 CET", "2026-11-24 06:00 CET"),
        ("Sat 08:00-10:00 Europe/Berlin", "2026-11-28 08:00 CET", "2026-11-28 10:00 CET"),
        ("20:00-22:00, 22:00-23:00 Europe/Berlin", "2026-11-21 20:00 CET", "2026-11-21 23:00 CET"),
        ("Fri 20:00-06:00, Sun 01:00-02:00 UTC", "2026-11-22 01:00 UTC", "2026-11-22 02:00 UTC"),
        ("12:00-14:00 America/New_York", "2026-11-21 12:00 EST", "2026-11-21 14:00 EST"),
        ("00:00-24:00 UTC", "2026-11-21 12:00 UTC", "never"),
        ("04:00-05:00 Etc/GMT-1", "2026-11-22 04:00 +01", "2026-11-22 05:00 +01"),
    ],
)
def test_a_window_opens_and_closes_in_its_zone(text: str, opens: str, closes: str) -> None:
    window = parse_window(text)

    assert (shown(window.opens_at(NOON)), shown(window.closes_at(NOON))) == (opens, closes)


@pytest.mark.parametrize(
    ("text", "now", "opens", "closes"),
    [
        ("02:30-04:00", "2026-03-29T00:00", "2026-03-29 03:30 CEST", "2026-03-29 04:00 CEST"),
        ("02:30-04:00", "2026-10-25T00:00", "2026-10-25 02:30 CEST", "2026-10-25 04:00 CET"),
        ("01:00-02:30", "2026-10-25T00:00", "2026-10-25 01:00 CEST", "2026-10-25 02:30 CEST"),
    ],
)
def test_a_window_opens_in_the_night_when_the_clock_changes(
    text: str, now: str, opens: str, closes: str
) -> None:
    window, moment = parse_window(f"{text} Europe/Berlin"), berlin(now)

    assert (shown(window.opens_at(moment)), shown(window.closes_at(moment))) == (opens, closes)


@given(text=WINDOWS, now=MOMENTS)
def test_a_window_is_open_from_its_opening_to_its_closing(text: str, now: datetime) -> None:
    window = parse_window(text)
    opens = window.opens_at(now)
    closes = window.closes_at(now)

    assert opens >= now
    assert window.opens_at(opens) == opens
    if closes is not None:
        assert window.opens_at(closes - timedelta(seconds=1)) < closes
        assert window.opens_at(closes) > closes


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        ("Mon", {0}),
        ("sat,SUN", {5, 6}),
        ("Mon-Fri", {0, 1, 2, 3, 4}),
        ("Fri-Mon", {4, 5, 6, 0}),
        ("Mon-Tue, Thu", {0, 1, 3}),
    ],
)
def test_days_are_named_singly_or_as_ranges(days: str, expected: set[int]) -> None:
    assert parse_window(f" {days} 20:00 - 6:00 Europe/Berlin ") == SendWindow(
        f"{days} 20:00 - 6:00 Europe/Berlin",
        (WindowHours(frozenset(expected), 20 * 60, 30 * 60),),
        BERLIN,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "at night",
            "'at night'; expected hours and a time zone, such as '20:00-06:00 Europe/Berlin' or "
            "'Mon-Fri 20:00-06:00, Sat,Sun 00:00-24:00'",
        ),
        (
            "20:00 Europe/Berlin",
            "'20:00 Europe/Berlin': '20:00'; expected a begin and an end such as 20:00-06:00, "
            "with days before them, and a comma before the next hours",
        ),
        ("20:60-06:00", "'20:60-06:00': '20:60'; expected a time from 00:00 to 24:00"),
        (
            "20:00-20:00",
            "'20:00-20:00': '20:00-20:00'; expected an end that differs from the begin; the whole "
            "day is 00:00-24:00",
        ),
        (
            "Monday 20:00-06:00",
            "'Monday 20:00-06:00': 'Monday'; expected one of Mon, Tue, Wed, Thu, Fri, Sat, Sun; "
            "did you mean 'Mon'?",
        ),
        (
            "Mon-Wed-Fri 20:00-06:00",
            "'Mon-Wed-Fri 20:00-06:00': 'Mon-Wed-Fri'; expected one day or two, such as Mon or "
            "Mon-Fri",
        ),
        (
            "20:00-06:00 Europe/Berln",
            "'Europe/Berln'; expected an IANA time zone such as Europe/Berlin; did you mean "
            "'Europe/Berlin'?",
        ),
        (
            "20:00-06:00 Nowhere/../../x",
            "'Nowhere/../../x'; expected an IANA time zone such as Europe/Berlin",
        ),
    ],
)
def test_a_bad_window_is_refused(text: str, expected: str) -> None:
    assert refusal(parse_window, text) == expected


@given(text=st.text(alphabet="0123456789:-, MonTueSat/+EuropeUTC\n", max_size=30) | st.text())
def test_any_text_is_a_window_or_a_usage_error(text: str) -> None:
    with suppress(ConfigError):
        assert parse_window(text).opens_at(NOON) >= NOON


def test_a_window_without_a_zone_is_in_the_zone_of_the_machine(
    set_zone: Callable[[str], None],
) -> None:
    set_zone("Europe/Berlin")
    window = parse_window("20:00-06:00")

    assert shown(window.opens_at(NOON)) == "2026-11-21 20:00 CET"
    assert window.text == "20:00-06:00 (time of this machine)"


def test_a_window_can_be_sent_to_a_worker() -> None:
    assert pickle.loads(pickle.dumps(NIGHT)) == NIGHT


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("06:00", "2026-11-22 06:00 CET"),
        ("6:00", "2026-11-22 06:00 CET"),
        ("13:01", "2026-11-21 13:01 CET"),
        ("13:00", "2026-11-22 13:00 CET"),
        ("24:00", "2026-11-22 00:00 CET"),
        ("06:00 America/New_York", "2026-11-22 12:00 CET"),
        ("6h", "2026-11-21 19:00 CET"),
        ("1h30m", "2026-11-21 14:30 CET"),
    ],
)
def test_a_deadline_is_the_next_time_of_day_or_a_duration(
    text: str, expected: str, set_zone: Callable[[str], None]
) -> None:
    set_zone("Europe/Berlin")

    assert shown(deadline(text).astimezone(BERLIN)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dawn", "'dawn'; expected a time of day or a duration, such as 06:00 or 6h"),
        ("0s", "'0s'; expected a deadline in the future, such as 6h"),
        ("26:00", "'26:00': '26:00'; expected a time from 00:00 to 24:00"),
    ],
)
def test_a_bad_deadline_is_refused(text: str, expected: str) -> None:
    assert refusal(deadline, text) == expected
