"""The throttle by backlog and the gate before each feed, with a clock that moves when a feed waits.

Then the gate with threads, in real time.
"""

import signal
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feedferry.schemas.errors import BusyError, ConfigError
from feedferry.transforms.net.retry import RetryPolicy
from feedferry.transforms.sinks.push.throttle.backlog import (
    BacklogCount,
    BacklogLimits,
    BacklogThrottle,
)
from feedferry.transforms.sinks.push.throttle.gate import SendGate, StopSignal
from feedferry.transforms.sinks.push.throttle.window import SendWindow, parse_window

START = datetime(2026, 11, 21, 12, tzinfo=UTC)  # 13:00 in Berlin
NIGHT = parse_window("20:00-06:00 Europe/Berlin")
DEFAULT = BacklogLimits()
SMALL = BacklogLimits(ceiling=10, floor=4, interval_seconds=60)
MAX_TEST_SECONDS = 300
MOST = 11 + 3  # one over the ceiling of 10, and those that the other threads are sending
LATER = "; push again later to continue"


class BacklogRig:
    """A clock, and an appliance that reports one count after another."""

    def __init__(self, counts: tuple[BacklogCount, ...], *, now: float) -> None:
        self.now = now
        self.counts = list(counts)
        self.requested: list[float] = []
        self.messages: list[str] = []

    def make(
        self,
        request: Callable[[], BacklogCount],
        limits: BacklogLimits = SMALL,
        *,
        jitter: float = 1.0,
    ) -> BacklogThrottle:
        return BacklogThrottle(
            request,
            limits,
            clock=lambda: self.now,
            notify=self.messages.append,
            retry=RetryPolicy(jitter=lambda: jitter),
        )

    def request(self) -> BacklogCount:
        self.requested.append(self.now)
        return self.counts.pop(0) if len(self.counts) > 1 else self.counts[0]


class ThrottleRig(BacklogRig):
    """A throttle with its clock."""

    def __init__(
        self, *counts: BacklogCount, limits: BacklogLimits = DEFAULT, jitter: float = 1.0
    ) -> None:
        super().__init__(counts, now=1000.0)
        self.throttle = self.make(self.request, limits, jitter=jitter)

    def pauses(self, *, after: float = 0.0) -> bool:
        self.now += after
        return self.throttle.wait_seconds() > 0

    def send(self, feeds: int) -> int:
        """Return how many of some feeds are accepted before the throttle pauses."""
        for sent in range(feeds):
            if self.pauses():
                return sent
            self.throttle.report_attempt(is_accepted=True)
        return feeds

    def waits(self, rounds: int) -> list[float]:
        """Wait as long as the throttle says, several times."""
        waits = []
        for _ in range(rounds):
            waits.append(self.throttle.wait_seconds())
            self.now += waits[-1]
        return waits


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([4000], [False]),
        ([4001], [True]),
        ([4001, 2000, 1000, 999], [True, True, True, False]),
        ([4001, 999, 2000, 4000, 4001], [True, False, False, False, True]),
        (["HTTP 500", "HTTP 401", "'abc' is no number", 0], [True, True, True, False]),
        (["HTTP 500", 2000], [True, False]),
        ([4001, "HTTP 500", 2000, 999], [True, True, True, False]),
        ([100, "timed out", 4001, 1000, 0], [False, True, True, True, False]),
        ([None], [False]),
        (["HTTP 500", None], [True, False]),
        ([4001, None], [True, False]),
        ([4001] * 50, [True] * 50),
    ],
)
def test_counts_pause_and_continue_a_push(counts: list[BacklogCount], expected: list[bool]) -> None:
    rig = ThrottleRig(*counts)

    assert [rig.pauses(after=121) for _ in counts] == expected


def test_the_count_is_requested_once_an_interval() -> None:
    rig = ThrottleRig(0, 4001)
    pauses = [rig.pauses(after=seconds) for seconds in (0, 60, 60, 0.001)]

    assert pauses == [False, False, False, True]
    assert rig.requested == [1000, 1120.001]


def test_an_interval_begins_with_the_response() -> None:
    rig = ThrottleRig(0)

    def slow() -> BacklogCount:
        rig.now += 500
        return rig.request()

    throttle = rig.make(slow, DEFAULT)
    throttle.wait_seconds()
    throttle.wait_seconds()

    assert rig.requested == [1500]


def test_an_appliance_without_a_count_is_asked_once() -> None:
    rig = ThrottleRig(None, 999_999)
    rig.throttle.report_attempt(is_accepted=False)

    assert [rig.pauses(after=10_000) for _ in range(5)] == [False] * 5
    assert len(rig.requested) == 1
    assert rig.messages == [
        "the appliance reports no backlog (404); the push continues without a limit; "
        "use ⟦window⟧ to limit when it sends"
    ]


# Feeds since the last count


def test_accepted_feeds_count_against_the_ceiling() -> None:
    rig = ThrottleRig(3990)

    assert rig.send(100) == 11
    assert rig.requested == [1000]
    assert rig.messages == [
        "3,990 feeds waiting and 11 sent since; the push pauses until fewer than 1,000 wait"
    ]


def test_feeds_accepted_during_a_request_are_not_in_its_count() -> None:
    rig = ThrottleRig(0, limits=SMALL)

    def request() -> BacklogCount:
        for _ in range(3):
            rig.throttle.report_attempt(is_accepted=True)
        return rig.request()

    rig.throttle = rig.make(request, SMALL)

    assert rig.send(100) == 8


# Unknown backlogs, and feeds that are not accepted


@pytest.mark.parametrize(
    ("counts", "jitter", "interval", "expected"),
    [
        (["HTTP 500"], 1, 120, [1, 2, 4, 8, 16, 32, 64, 120, 120]),
        (["HTTP 500"], 0, 120, [1, 1, 1, 1]),
        (["HTTP 500"], 1, 0.25, [0.25, 0.25, 0.25]),
        (["HTTP 500", "HTTP 500", "HTTP 500", 5000, "HTTP 500"], 1, 120, [1, 2, 4, 120, 1]),
    ],
)
def test_an_unknown_backlog_is_requested_less_and_less_often(
    counts: list[BacklogCount], jitter: float, interval: float, expected: list[float]
) -> None:
    limits = BacklogLimits(interval_seconds=interval)
    rig = ThrottleRig(*counts, limits=limits, jitter=jitter)

    assert rig.waits(2 * len(expected))[::2] == expected


def test_the_backlog_is_requested_after_a_feed_that_was_not_accepted() -> None:
    rig = ThrottleRig(0, 4001)
    rig.pauses()
    rig.throttle.report_attempt(is_accepted=False)

    assert rig.pauses(after=2)
    assert rig.requested == [1000, 1002]


def test_such_a_feed_does_not_hasten_the_request_for_an_unknown_backlog() -> None:
    rig = ThrottleRig("HTTP 500")
    rig.waits(5)
    rig.throttle.report_attempt(is_accepted=False)

    assert rig.waits(3) == [0.001, 8, 0.001]


# Messages


def test_a_pause_and_its_end_are_reported() -> None:
    rig = ThrottleRig(4210, 3900, "HTTP 500", 2000, 1)
    for _ in range(5):
        rig.pauses()
        rig.pauses(after=121)
    until = "the push pauses until fewer than 1,000 wait"

    assert rig.messages == [
        f"4,210 feeds waiting; {until}",
        f"3,900 feeds waiting, 310 fewer than before; {until}",
        "backlog unknown: HTTP 500; the push pauses until it is known",
        f"2,000 feeds waiting, 1,900 fewer than before; {until}",
        "1 feed waiting, 1,999 fewer than before; the push continues",
    ]


def test_an_unknown_backlog_is_reported_once_an_interval() -> None:
    rig = ThrottleRig("HTTP 500", "HTTP 500", "timed out", limits=SMALL)
    rig.waits(16)

    assert [round(at - 1000) for at in rig.requested] == [0, 1, 3, 7, 15, 31, 63, 123]
    assert rig.messages == [
        f"backlog unknown: {reason}; the push pauses until it is known"
        for reason in ("HTTP 500", "timed out", "timed out", "timed out")
    ]


def test_the_backlog_can_be_described_during_requests_and_messages() -> None:
    descriptions: list[str] = []

    def describe() -> BacklogCount:
        descriptions.append(throttle.describe())
        return 5000

    def notify(_message: str) -> None:
        describe()

    throttle = BacklogThrottle(describe, DEFAULT, clock=lambda: 0.0, notify=notify)
    throttle.wait_seconds()

    assert descriptions == ["backlog unknown", "5,000 feeds waiting"]


def test_the_ceiling_is_above_the_floor() -> None:
    with pytest.raises(ConfigError) as caught:
        BacklogLimits(ceiling=10, floor=20)

    assert str(caught.value) == (
        "--backlog-ceiling: 10; expected more than --backlog-floor, which is 20"
    )


# Properties


@given(
    counts=st.lists(st.integers(0, 30) | st.just("HTTP 500"), min_size=1),
    steps=st.lists(st.tuples(st.booleans(), st.floats(0, 200))),
    jitter=st.floats(0, 1),
)
def test_requests_are_a_second_apart_and_after_a_number_an_interval(
    counts: list[BacklogCount], steps: list[tuple[bool, float]], jitter: float
) -> None:
    rig = ThrottleRig(*counts, limits=SMALL, jitter=jitter)
    for is_sent, seconds in steps:
        rig.now += seconds
        if rig.throttle.wait_seconds() == 0 and is_sent:
            rig.throttle.report_attempt(is_accepted=True)
    gaps = [later - earlier for earlier, later in pairwise(rig.requested)]

    assert min(gaps, default=float("inf")) > (1 if "HTTP 500" in counts else 60)


@given(waiting=st.integers(0, 30), feeds_per_second=st.floats(0.02, 100) | st.just(0.0))
@settings(max_examples=50)
def test_an_appliance_gets_all_feeds_that_it_digests_and_at_most_one_over_the_ceiling(
    waiting: int, feeds_per_second: float
) -> None:
    backlog, now, sent, highest = float(waiting), 0.0, 0, waiting
    throttle = BacklogThrottle(
        lambda: int(backlog), SMALL, clock=lambda: now, notify=lambda line: None
    )
    for _ in range(600):
        seconds = throttle.wait_seconds() if sent < 60 else 1.0
        if seconds:
            now += seconds
            backlog = max(0.0, backlog - seconds * feeds_per_second)
        else:
            backlog += 1
            sent += 1
            highest = max(highest, int(backlog))
            throttle.report_attempt(is_accepted=True)

    assert sent == 60 if feeds_per_second else highest == max(waiting, 11)
    assert highest <= max(waiting, 11)


# The gate


class WaitingStop(StopSignal):
    """A stop signal that is waited for by a function."""

    def __init__(self, wait: Callable[[float], bool]) -> None:
        super().__init__()
        self.waiting = wait

    def wait(self, seconds: float) -> bool:
        return self.waiting(seconds)


class GateRig(BacklogRig):
    """A gate whose waiting moves its clocks."""

    def __init__(
        self,
        *counts: BacklogCount,
        window: SendWindow | None = None,
        deadline: float | None = None,
        max_wait_seconds: float | None = None,
    ) -> None:
        super().__init__(counts, now=0.0)
        self.waited: list[float] = []
        self.stop = WaitingStop(self.wait)
        self.gate = SendGate(
            stop=self.stop,
            clock=lambda: self.now,
            now=lambda: (START + timedelta(seconds=self.now)).astimezone(ZoneInfo("Europe/Berlin")),
            notify=self.messages.append,
            throttle=self.make(self.request) if counts else None,
            window=window,
            deadline=deadline,
            max_wait_seconds=max_wait_seconds,
        )

    def wait(self, seconds: float) -> bool:
        self.waited.append(seconds)
        self.now += seconds
        return self.stop.is_set

    def begins(self, feeds: int, *, seconds: float = 0.0) -> list[float]:
        """Return when feeds begin that take some seconds each."""
        begins = []
        for _ in range(feeds):
            assert self.gate.wait_until_open()
            begins.append(self.now)
            self.now += seconds
            self.gate.report_attempt(is_accepted=True)
        return begins

    def refusal(self, pause_seconds: float | None = None) -> str:
        """Return the message when no feed can be sent."""
        with pytest.raises(BusyError) as caught:
            _ = self.gate.pause(pause_seconds) if pause_seconds else self.gate.wait_until_open()
        return str(caught.value)


@pytest.mark.parametrize(
    ("counts", "begins", "waited"),
    [([], [0, 0], 0), ([0], [0, 0], 0), ([11, 5, 3], [120, 120], 120)],
)
def test_a_feed_waits_until_the_backlog_is_digested(
    counts: list[int], begins: list[int], waited: int
) -> None:
    rig = GateRig(*counts)

    assert rig.begins(2) == pytest.approx(begins, abs=0.01)
    assert rig.gate.waited_seconds == pytest.approx(waited, abs=0.01)


@pytest.mark.parametrize(
    ("counts", "max_wait", "message", "at"),
    [
        (
            [11, 9, 8, 7],
            150,
            "8 feeds waiting, 1 fewer than before, after 2 minutes of waiting for the appliance; "
            f"expected at most 2.5 minutes, as --max-wait states{LATER}",
            120,
        ),
        (
            ["HTTP 401"],
            0,
            "backlog unknown: HTTP 401, after 0 seconds of waiting for the appliance; expected at "
            f"most 0 seconds, as --max-wait states{LATER}",
            0,
        ),
    ],
)
def test_waiting_for_the_appliance_is_limited(
    counts: list[BacklogCount], max_wait: float, message: str, at: float
) -> None:
    rig = GateRig(*counts, max_wait_seconds=max_wait)

    assert rig.refusal() == message
    assert rig.now == pytest.approx(at, abs=0.01)


def test_the_limit_is_on_all_waiting_together() -> None:
    rig = GateRig(11, 0, 11, 9, max_wait_seconds=100)
    rig.begins(1)
    rig.now += 1000
    rig.refusal()

    assert rig.gate.waited_seconds == pytest.approx(60, abs=0.01)


def test_a_slow_request_for_the_backlog_counts_as_waiting() -> None:
    rig = GateRig()

    def slow() -> BacklogCount:
        rig.now += 30
        return 0

    rig.gate.throttle = rig.make(slow)
    rig.begins(1)

    assert rig.gate.waited_seconds == 30


def test_pauses_count_as_waiting_for_the_appliance() -> None:
    rig = GateRig(max_wait_seconds=10)

    assert rig.gate.pause(7)
    assert (rig.waited, rig.gate.waited_seconds) == ([7], 7)
    assert rig.refusal(4) == (
        "a feed was not accepted, after 7 seconds of waiting for the appliance; expected at most "
        f"10 seconds, as --max-wait states{LATER}"
    )


def test_two_threads_that_wait_at_the_same_time_count_as_one() -> None:
    rig = GateRig()

    def wait_while_another_thread_waits(seconds: float) -> bool:
        rig.stop.waiting = rig.wait
        other = threading.Thread(target=rig.gate.pause, args=(3,))
        other.start()
        other.join()
        return rig.wait(seconds - 3)

    rig.stop.waiting = wait_while_another_thread_waits
    rig.gate.pause(10)

    assert (rig.waited, rig.gate.waited_seconds) == ([3, 7], 10)


# Deadline and window


@pytest.mark.parametrize(
    ("at", "pause", "reason"),
    [
        (3600, None, "the deadline has passed"),
        (3000, 600, "the next attempt would be in 10 minutes"),
        (0, None, "the window 20:00-06:00 Europe/Berlin opens at 2026-11-21 20:00 CET"),
    ],
)
def test_no_feed_begins_after_the_deadline(at: float, pause: float | None, reason: str) -> None:
    rig = GateRig(0, deadline=3600, window=NIGHT)
    rig.now = at

    assert rig.refusal(pause) == (
        f"{reason}; expected a feed to begin before 2026-11-21 14:00 CET{LATER}"
    )
    assert (rig.requested, rig.waited) == ([], [])


def test_a_backlog_that_lasts_beyond_the_deadline_ends_the_push() -> None:
    rig = GateRig(11, 9, deadline=100)

    assert rig.refusal() == (
        "9 feeds waiting, 2 fewer than before; expected a feed to begin before 2026-11-21 13:01 CET"
        f"{LATER}"
    )


def test_a_feed_waits_for_the_window_without_a_limit() -> None:
    rig = GateRig(0, window=NIGHT, max_wait_seconds=1)

    assert rig.begins(2) == [7 * 3600] * 2
    assert rig.gate.waited_seconds == 0
    assert max(rig.waited) == 60  # the clock may be set
    assert rig.requested == [7 * 3600]
    assert rig.messages == [
        "the window 20:00-06:00 Europe/Berlin is closed; the push continues at 2026-11-21 20:00 "
        "CET, in 7 hours"
    ]


# Stop signal


@pytest.mark.parametrize("count", [0, 11])
def test_a_stopped_push_sends_nothing_and_waits_for_nothing(count: int) -> None:
    rig = GateRig(0, max_wait_seconds=0)

    def stop() -> BacklogCount:
        rig.stop.stop()
        return count

    rig.gate.throttle = rig.make(stop)
    assert not rig.gate.wait_until_open()  # it is stopped during the request for the backlog
    rig.waited.clear()
    assert not rig.gate.wait_until_open()
    assert not rig.gate.pause(7)
    assert rig.waited == []


def test_the_stop_signal_wakes_all_threads() -> None:
    stop = StopSignal()
    results: list[bool] = []
    threads = [
        threading.Thread(target=lambda: results.append(stop.wait(MAX_TEST_SECONDS)))
        for _ in range(5)
    ]
    assert stop.wait(0.01) is False
    for thread in threads:
        thread.start()
    stop.stop()
    stop.stop()
    for thread in threads:
        thread.join(MAX_TEST_SECONDS)

    assert results == [True] * 5


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timers")
def test_a_signal_handler_stops_the_thread_that_waits() -> None:
    stop = StopSignal()
    before = signal.signal(signal.SIGALRM, lambda number, frame: stop.stop())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        assert stop.wait(MAX_TEST_SECONDS)
    finally:
        signal.signal(signal.SIGALRM, before)


# Threads, in real time


class DigestingAppliance:
    """An appliance that digests some feeds at each request for its backlog."""

    def __init__(self, digests: int) -> None:
        self.requests = 0
        self.taken = 0
        self.highest = 0
        self._digests = digests
        self._waiting = 0
        self._lock = threading.Lock()

    def count(self) -> BacklogCount:
        with self._lock:
            self.requests += 1
            self._waiting = max(0, self._waiting - self._digests)
            return self._waiting

    def take(self) -> None:
        with self._lock:
            self.taken += 1
            self._waiting += 1
            self.highest = max(self.highest, self._waiting)


def test_threads_share_one_ceiling_and_send_everything() -> None:
    appliance, messages = DigestingAppliance(digests=9), list[str]()
    limits = BacklogLimits(ceiling=10, floor=4, interval_seconds=0.05)
    gate = SendGate(
        stop=StopSignal(),
        clock=time.monotonic,
        now=lambda: datetime.now(UTC),
        notify=messages.append,
        throttle=BacklogThrottle(
            appliance.count, limits, clock=time.monotonic, notify=messages.append
        ),
    )

    def push() -> None:
        for _ in range(12):
            assert gate.wait_until_open()
            appliance.take()
            gate.report_attempt(is_accepted=True)

    begin = time.monotonic()
    threads = [threading.Thread(target=push) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(MAX_TEST_SECONDS)
    intervals = (time.monotonic() - begin) / limits.interval_seconds

    assert appliance.taken == 48
    assert appliance.highest <= MOST
    assert appliance.requests <= intervals + 1
