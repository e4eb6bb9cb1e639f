"""The gate before each feed, with a clock that moves when a feed waits; then with threads."""

import signal
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from schemas.errors import BusyError
from transforms.retry import RetryPolicy
from transforms.sinks.push.throttle.backlog import BacklogCount, BacklogLimits, BacklogThrottle
from transforms.sinks.push.throttle.gate import SendGate, StopSignal
from transforms.sinks.push.throttle.window import SendWindow, parse_window

START = datetime(2026, 11, 21, 12, tzinfo=UTC)  # 13:00 in Berlin
NIGHT = parse_window("20:00-06:00 Europe/Berlin")
SMALL = BacklogLimits(ceiling=10, floor=4, interval_seconds=60)
MAX_TEST_SECONDS = 60
MOST = 11 + 3  # one over the ceiling of 10, and those that the other threads are sending
LATER = "; push again later to continue"


class WaitingStop(StopSignal):
    """A stop signal that is waited for by a function."""

    def __init__(self, wait: Callable[[float], bool]) -> None:
        super().__init__()
        self.waiting = wait

    def wait(self, seconds: float) -> bool:
        return self.waiting(seconds)


class GateRig:
    """A gate whose waiting moves its clocks."""

    def __init__(
        self,
        *counts: BacklogCount,
        window: SendWindow | None = None,
        deadline: float | None = None,
        max_wait_seconds: float | None = None,
    ) -> None:
        self.at = 0.0
        self.counts = list(counts)
        self.requested: list[float] = []
        self.messages: list[str] = []
        self.waited: list[float] = []
        self.stop = WaitingStop(self.wait)
        self.gate = SendGate(
            stop=self.stop,
            clock=lambda: self.at,
            now=lambda: (START + timedelta(seconds=self.at)).astimezone(ZoneInfo("Europe/Berlin")),
            notify=self.messages.append,
            throttle=self.throttle(self.request) if counts else None,
            window=window,
            deadline=deadline,
            max_wait_seconds=max_wait_seconds,
        )

    def throttle(self, request: Callable[[], BacklogCount]) -> BacklogThrottle:
        return BacklogThrottle(
            request,
            SMALL,
            clock=lambda: self.at,
            notify=self.messages.append,
            retry=RetryPolicy(jitter=lambda: 1),
        )

    def request(self) -> BacklogCount:
        self.requested.append(self.at)
        return self.counts.pop(0) if len(self.counts) > 1 else self.counts[0]

    def wait(self, seconds: float) -> bool:
        self.waited.append(seconds)
        self.at += seconds
        return self.stop.is_set

    def begins(self, feeds: int, *, seconds: float = 0.0) -> list[float]:
        """Return when feeds begin that take some seconds each."""
        begins = []
        for _ in range(feeds):
            assert self.gate.wait_until_open()
            begins.append(self.at)
            self.at += seconds
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
            f"expected at most 2.5 minutes (--max-wait){LATER}",
            120,
        ),
        (
            ["HTTP 401"],
            0,
            "backlog unknown: HTTP 401, after 0 seconds of waiting for the appliance; expected at "
            f"most 0 seconds (--max-wait){LATER}",
            0,
        ),
    ],
)
def test_waiting_for_the_appliance_is_limited(
    counts: list[BacklogCount], max_wait: float, message: str, at: float
) -> None:
    rig = GateRig(*counts, max_wait_seconds=max_wait)

    assert rig.refusal() == message
    assert rig.at == pytest.approx(at, abs=0.01)


def test_the_limit_is_on_all_waiting_together() -> None:
    rig = GateRig(11, 0, 11, 9, max_wait_seconds=100)
    rig.begins(1)
    rig.at += 1000
    rig.refusal()

    assert rig.gate.waited_seconds == pytest.approx(60, abs=0.01)


def test_a_slow_request_for_the_backlog_counts_as_waiting() -> None:
    rig = GateRig()

    def slow() -> BacklogCount:
        rig.at += 30
        return 0

    rig.gate.throttle = rig.throttle(slow)
    rig.begins(1)

    assert rig.gate.waited_seconds == 30


def test_pauses_count_as_waiting_for_the_appliance() -> None:
    rig = GateRig(max_wait_seconds=10)

    assert rig.gate.pause(7)
    assert (rig.waited, rig.gate.waited_seconds) == ([7], 7)
    assert rig.refusal(4) == (
        "a feed was not accepted, after 7 seconds of waiting for the appliance; expected at most "
        f"10 seconds (--max-wait){LATER}"
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
    rig.at = at

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

    rig.gate.throttle = rig.throttle(stop)
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
        self.requested: list[float] = []
        self.taken = 0
        self.highest = 0
        self._digests = digests
        self._waiting = 0
        self._lock = threading.Lock()

    def count(self) -> BacklogCount:
        with self._lock:
            self.requested.append(time.monotonic())
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

    threads = [threading.Thread(target=push) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(MAX_TEST_SECONDS)

    assert appliance.taken == 48
    assert appliance.highest <= MOST
    assert all(later - earlier > 0.05 for earlier, later in pairwise(appliance.requested))
