"""Send windows, time zones and deadlines."""

import os
import pickle
import time as clocks
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedferry.schemas.errors import ConfigError
from feedferry.transforms.sinks.push.throttle.window import parse_deadline, parse_window

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)  # a Saturday, 13:00 in Berlin
A_TIME = "expected a time from 00:00 to 24:00"
A_ZONE = "expected an IANA time zone such as Europe/Berlin"
BAD_WINDOW = (
    "expected hours and a time zone, such as '20:00-06:00 Europe/Berlin' or 'Mon-Fri 20:00-06:00, "
    "Sat,Sun 00:00-24:00'"
)
HOURS = (
    *("20:00-06:00", "00:00-24:00", "Mon-Fri 20:00-06:00", "Sun 02:15-02:45", "Fri 09:00-17:00"),
    *("Sat-Mon 00:30-00:15", "Mon-Fri 20:00-06:00, Sat,Sun 00:00-24:00"),
)
WINDOWS = st.builds(
    "{} {}".format, st.sampled_from(HOURS), st.sampled_from(["Europe/Berlin", "Asia/Kathmandu"])
)
MOMENTS = st.datetimes(datetime(2000, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC))


def opening(text: str, now: datetime) -> str:
    return f"{parse_window(text).opens_at(now):%Y-%m-%d %H:%M %Z}"


def deadline(text: str) -> datetime:
    return parse_deadline(text, now=NOON)


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set the time zone of this machine, for this process."""
    before = os.environ.get("TZ")
    monkeypatch.setenv("TZ", "Europe/Berlin")
    clocks.tzset()
    yield
    monkeypatch.undo()
    assert os.environ.get("TZ") == before
    clocks.tzset()


@pytest.mark.parametrize(
    ("text", "now", "opens"),
    [
        ("20:00-06:00", "2026-11-21T13:00", "2026-11-21 20:00 CET"),
        ("20:00-06:00", "2026-11-21T23:59", "2026-11-21 23:59 CET"),
        ("20:00-06:00", "2026-11-22T05:59", "2026-11-22 05:59 CET"),
        ("20:00-06:00", "2026-11-22T06:00", "2026-11-22 20:00 CET"),
        ("20:00-06:00", "2026-03-29T07:00", "2026-03-29 20:00 CEST"),
        ("12:00-16:00", "2026-11-21T13:00", "2026-11-21 13:00 CET"),
        ("Mon 20:00-06:00", "2026-11-21T13:00", "2026-11-23 20:00 CET"),
        ("Mon 20:00-06:00", "2026-11-24T05:00", "2026-11-24 05:00 CET"),
        ("Sat 08:00-10:00", "2026-11-21T13:00", "2026-11-28 08:00 CET"),
        ("Fri 20:00-06:00, Sun 01:00-02:00", "2026-11-21T13:00", "2026-11-22 01:00 CET"),
        ("Sun 01:00-02:00, Sat 20:00-22:00", "2026-11-21T13:00", "2026-11-21 20:00 CET"),
        (" sat,SUN 20:00 - 6:00", "2026-11-21T13:00", "2026-11-21 20:00 CET"),
        ("Fri-Mon 1:00-2:00", "2026-11-24T13:00", "2026-11-27 01:00 CET"),
        ("Mon-Tue, Thu 1:00-2:00", "2026-11-24T13:00", "2026-11-26 01:00 CET"),
        ("00:00-24:00", "2026-11-21T13:00", "2026-11-21 13:00 CET"),
        ("02:30-04:00", "2026-03-29T00:00", "2026-03-29 03:30 CEST"),
        ("02:30-04:00", "2026-10-25T00:00", "2026-10-25 02:30 CEST"),
    ],
)
def test_a_window_opens_at_local_hours(text: str, now: str, opens: str) -> None:
    moment = datetime.fromisoformat(now).replace(tzinfo=BERLIN)

    assert opening(f"{text} Europe/Berlin", moment) == opens


@given(text=WINDOWS, now=MOMENTS)
def test_a_window_is_open_when_it_opens(text: str, now: datetime) -> None:
    window = parse_window(text)
    opens = window.opens_at(now)

    assert opens >= now
    assert window.opens_at(opens) == opens


@pytest.mark.parametrize(
    ("parse", "text", "expected"),
    [
        *(
            (parse_window, text, f"'{text}'; {BAD_WINDOW}")
            for text in ("at night", "20:00 UTC", "Monday 20:00-06:00", "20:00-06:00;UTC")
        ),
        (parse_window, "20:60-06:00", f"'20:60'; {A_TIME}"),
        (
            *(parse_window, "20:00-20:00"),
            "'20:00-20:00'; expected an end that differs from the begin; the whole "
            "day is 00:00-24:00",
        ),
        (
            *(parse_window, "20:00-06:00 Europe/Berln"),
            f"'Europe/Berln'; {A_ZONE}; did you mean 'Europe/Berlin'?",
        ),
        (parse_window, "20:00-06:00 Nowhere/../../x", f"'Nowhere/../../x'; {A_ZONE}"),
        (*(deadline, "dawn"), "'dawn'; expected a time of day or a duration, such as 06:00 or 6h"),
        (deadline, "0s", "'0s'; expected a deadline in the future, such as 6h"),
        (deadline, "26:00", f"'26:00'; {A_TIME}"),
    ],
)
def test_a_bad_window_or_deadline_is_refused(
    parse: Callable[[str], object], text: str, expected: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text)
    assert str(caught.value) == expected


@given(text=st.text(alphabet="0123456789:-, MonTueSat/+EuropeUTC\n", max_size=30) | st.text())
def test_any_text_is_a_window_or_a_usage_error(text: str) -> None:
    with suppress(ConfigError):
        assert parse_window(text).opens_at(NOON) >= NOON


@pytest.mark.usefixtures("in_berlin")
def test_a_window_without_a_zone_is_in_the_zone_of_the_machine() -> None:
    assert opening("20:00-06:00", NOON) == "2026-11-21 20:00 CET"
    assert parse_window("20:00-06:00").text == "20:00-06:00 (time of this machine)"


def test_a_window_can_be_sent_to_a_worker() -> None:
    window = parse_window("20:00-06:00 Europe/Berlin")

    assert pickle.loads(pickle.dumps(window)) == window


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("6:00", "2026-11-22 06:00 CET"),
        ("13:01", "2026-11-21 13:01 CET"),
        ("13:00", "2026-11-22 13:00 CET"),
        ("24:00", "2026-11-22 00:00 CET"),
        ("06:00 America/New_York", "2026-11-22 12:00 CET"),
        ("1h30m", "2026-11-21 14:30 CET"),
    ],
)
@pytest.mark.usefixtures("in_berlin")
def test_a_deadline_is_the_next_time_of_day_or_a_duration(text: str, expected: str) -> None:
    assert f"{deadline(text).astimezone(BERLIN):%Y-%m-%d %H:%M %Z}" == expected
