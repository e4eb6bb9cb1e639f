"""Pauses between attempts, with the chance injected."""

import pickle
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.sinks.push.model import ApplianceResponse
from transforms.sinks.push.throttle.backoff import (
    Backoff,
    Waits,
    longest,
    next_pause,
    pause,
    retry_after,
)

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
FAULT = ApplianceResponse(fault="connection reset")
CHANCES = st.floats(min_value=0, max_value=1)


def sure(**bounds: float) -> Backoff:
    """The longest pauses there are."""
    return Backoff(chance=lambda: 1, **bounds)  # type: ignore[arg-type]  # attempts is whole


def pauses(
    backoff: Backoff, *, answer: ApplianceResponse = FAULT, is_busy: bool = False
) -> list[float | None]:
    """What four attempts that go wrong are followed by."""
    behind = Waits(backoff, now=lambda: NOON)
    return [behind(answer, is_busy=is_busy) for _ in range(4)]


def test_pauses_double_up_to_the_cap() -> None:
    backoff = sure(base_seconds=2, cap_seconds=9)

    assert [pause(backoff, failed=failed) for failed in (1, 2, 3, 4, 5)] == [2, 4, 8, 9, 9]


@pytest.mark.parametrize(("chance", "expected"), [(0.0, 0.0), (0.25, 1.0), (1.0, 4.0)])
def test_chance_takes_any_part_of_a_pause(chance: float, expected: float) -> None:
    assert pause(Backoff(chance=lambda: chance), failed=3) == expected


@pytest.mark.parametrize(("chance", "expected"), [(0.0, 1.0), (0.5, 2.5), (1.0, 4.0)])
def test_chance_leaves_what_is_the_least(chance: float, expected: float) -> None:
    assert pause(Backoff(least_seconds=1, chance=lambda: chance), failed=3) == expected


def test_a_million_attempts_do_not_overflow() -> None:
    assert longest(Backoff(cap_seconds=300), failed=1_000_000) == 300


@given(chance=CHANCES, failed=st.integers(1, 5000), least=st.floats(0, 10))
def test_a_pause_is_never_outside_its_bounds(chance: float, failed: int, least: float) -> None:
    backoff = Backoff(base_seconds=10, least_seconds=least, chance=lambda: chance)

    assert least <= pause(backoff, failed=failed) <= 300


def test_there_is_no_pause_behind_the_last_attempt() -> None:
    assert pauses(sure(attempts=3)) == [1, 2, None, None]


def test_one_attempt_has_no_pause() -> None:
    assert pauses(sure(attempts=1)) == [None] * 4


def test_pauses_end_before_their_total_is_exceeded() -> None:
    assert pauses(sure(total_seconds=6.9)) == [1, 2, None, None]


def test_a_total_may_be_reached() -> None:
    assert pauses(sure(total_seconds=7)) == [1, 2, 4, None]


def test_a_busy_appliance_is_tried_without_an_end() -> None:
    backoff = sure(attempts=1, total_seconds=0)

    assert pauses(backoff, is_busy=True) == [1, 2, 4, 8]


def test_busy_times_do_not_count_as_attempts_that_went_wrong() -> None:
    behind = Waits(sure(attempts=2), now=lambda: NOON)
    calls = [behind(FAULT, is_busy=is_busy) for is_busy in (True, True, True, False, False)]

    assert calls == [1, 2, 4, 1, None]


def test_what_the_appliance_asks_for_is_the_least() -> None:
    asked = ApplianceResponse(status=503, retry_after="3")

    assert pauses(sure(), answer=asked) == [3, 3, 4, 8]


def test_a_busy_appliance_may_ask_as_well() -> None:
    asked = ApplianceResponse(status=503, retry_after="60")

    assert pauses(sure(), answer=asked, is_busy=True) == [60, 60, 60, 60]


def test_what_it_asks_for_may_be_longer_than_the_cap() -> None:
    asked = ApplianceResponse(status=503, retry_after="900")

    assert pauses(sure(cap_seconds=5), answer=asked)[0] == 900


def test_what_it_asks_for_may_be_too_late() -> None:
    asked = ApplianceResponse(status=503, retry_after="86400")

    assert pauses(sure(), answer=asked)[0] is None


def test_a_date_is_read_by_the_clock_that_is_given() -> None:
    asked = ApplianceResponse(status=503, retry_after="Sat, 21 Nov 2026 12:01:30 GMT")

    assert pauses(sure(), answer=asked)[0] == 90


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("120", 120.0),
        (" 0 ", 0.0),
        ("Sat, 21 Nov 2026 12:00:05 GMT", 5.0),
        ("Saturday, 21-Nov-26 12:00:05 GMT", 5.0),
        ("Sat, 21 Nov 2026 13:00:05 +0100", 5.0),
        ("Sat, 21 Nov 2026 12:00:05 -0000", 5.0),
        ("Sat, 21 Nov 2026 11:00:00 GMT", 0.0),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("١٢", None),
        ("9999999999", None),
        ("Sat, 99 Nov 2026 12:00:05 GMT", None),
    ],
)
def test_a_retry_after_is_seconds_or_a_date(text: str, expected: float | None) -> None:
    assert retry_after(text, now=NOON) == expected


@given(text=st.text())
def test_no_retry_after_is_negative_or_raises(text: str) -> None:
    assert (retry_after(text, now=NOON) or 0.0) >= 0


@given(seconds=st.integers(0, 10**6))
def test_a_date_asks_for_what_is_left_until_then(seconds: int) -> None:
    moment = NOON + timedelta(seconds=seconds)

    assert retry_after(f"{moment:%a, %d %b %Y %H:%M:%S} GMT", now=NOON) == seconds


def test_the_next_pause_counts_what_was_waited() -> None:
    backoff = sure(total_seconds=10)

    assert next_pause(backoff, failed=1, waited=9) == 1
    assert next_pause(backoff, failed=1, waited=9.5) is None


def test_the_usual_pauses_can_be_sent_to_a_worker() -> None:
    there = pickle.loads(pickle.dumps(Backoff(attempts=3)))

    assert there.attempts == 3
    assert 0 <= there.chance() < 1


def test_the_clock_of_this_machine_is_used_unless_another_is_given() -> None:
    past = ApplianceResponse(status=503, retry_after="Sat, 21 Nov 2020 12:00:00 GMT")

    assert Waits(sure())(past) == 1
