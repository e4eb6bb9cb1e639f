"""What makes a push wait, with a clock that moves when somebody waits; then with threads."""

import signal
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import BusyError
from transforms.sinks.push.throttle.backlog import BacklogLimits, BacklogThrottle, Count
from transforms.sinks.push.throttle.backoff import Backoff
from transforms.sinks.push.throttle.gate import SendGate, StopSignal
from transforms.sinks.push.throttle.schedule import Rate, SendWindow, parse_rate, parse_window

START = datetime(2026, 11, 21, 12, tzinfo=UTC)  # 13:00 in Berlin
NIGHT = parse_window("20:00-06:00 Europe/Berlin")
SMALL = BacklogLimits(ceiling=10, floor=4, interval_seconds=60)
PATIENCE_SECONDS = 60


class Rig:
    """A pace whose waiting moves its clocks, and what it tells and asks."""

    def __init__(
        self,
        *counts: Count,
        window: SendWindow | None = None,
        rate: Rate | None = None,
        deadline: float | None = None,
        max_wait_seconds: float | None = None,
    ) -> None:
        self.at = 0.0
        self.counts = list(counts)
        self.asked: list[float] = []
        self.told: list[str] = []
        self.waited: list[float] = []
        self.stop = StopSignal()
        throttle = BacklogThrottle(
            self.answer,
            SMALL,
            clock=self.clock,
            tell=self.told.append,
            backoff=Backoff(chance=lambda: 1),
        )
        self.pace = SendGate(
            stop=self.stop,
            clock=self.clock,
            now=lambda: (START + timedelta(seconds=self.at)).astimezone(ZoneInfo("Europe/Berlin")),
            tell=self.told.append,
            throttle=throttle if counts else None,
            window=window,
            rate=rate,
            deadline=deadline,
            max_wait_seconds=max_wait_seconds,
            wait=self.wait,
        )

    def clock(self) -> float:
        return self.at

    def wait(self, seconds: float) -> bool:
        self.waited.append(seconds)
        self.at += seconds
        return self.stop.is_drained

    def drain(self, seconds: float) -> bool:
        self.stop.drain()
        return True

    def answer(self) -> Count:
        self.asked.append(self.at)
        return self.counts.pop(0) if len(self.counts) > 1 else self.counts[0]

    def begins(self, sizes: list[int], *, seconds: float = 0.0) -> list[float]:
        """When feeds of these sizes begin, each of which takes so long."""
        return [self.begin(size, seconds) for size in sizes]

    def begin(self, size: int, seconds: float) -> float:
        assert self.pace.before()
        begun = self.at
        self.at += seconds
        self.pace.sent(size)
        return begun


def words_of(rig: Rig, seconds: float | None = None) -> str:
    """What is said when no feed can be sent; by a pause of so many seconds, if they are given."""
    with pytest.raises(BusyError) as caught:
        rig.pace.before() if seconds is None else rig.pace.pause(seconds)
    return str(caught.value)


# Nothing to wait for


def test_a_feed_goes_at_once_when_nothing_keeps_it() -> None:
    rig = Rig()

    assert rig.begins([100, 100]) == [0, 0]
    assert (rig.waited, rig.told, rig.pace.waited_seconds) == ([], [], 0)


def test_a_small_backlog_keeps_nothing() -> None:
    rig = Rig(0)

    assert rig.begins([100, 100]) == [0, 0]
    assert rig.asked == [0]


# The backlog


def test_a_feed_waits_until_the_backlog_is_digested() -> None:
    rig = Rig(11, 5, 3)
    (begun,) = rig.begins([100])

    assert begun == pytest.approx(120, abs=0.01)
    assert rig.pace.waited_seconds == begun


def test_feeds_are_counted_against_the_ceiling() -> None:
    rig = Rig(5, 0)
    begun = rig.begins([100] * 7)

    assert [round(moment) for moment in begun] == [0, 0, 0, 0, 0, 0, 60]


def test_a_feed_that_was_not_accepted_lets_the_backlog_be_asked_for() -> None:
    rig = Rig(0)
    rig.begins([100])
    rig.pace.doubt()

    assert rig.begins([100]) == [1.001]
    assert rig.asked == [0, 1.001]


def test_waiting_for_the_appliance_has_a_bound() -> None:
    rig = Rig(11, 9, 8, 7, max_wait_seconds=150)

    assert words_of(rig) == (
        "8 feeds waiting, 1 fewer than 60 seconds ago, after 2 minutes of waiting for the "
        "appliance; expected at most 2.5 minutes of that (--max-wait); push again later: it goes "
        "on where it was"
    )
    assert rig.at == pytest.approx(120, abs=0.01)


def test_the_bound_is_on_all_waiting_together() -> None:
    rig = Rig(11, 0, 11, 9, max_wait_seconds=100)
    rig.begins([100])
    rig.at += 1000
    words_of(rig)

    assert rig.pace.waited_seconds == pytest.approx(60, abs=0.01)


def test_no_waiting_at_all_may_be_asked_for() -> None:
    rig = Rig("HTTP 401", max_wait_seconds=0)

    assert words_of(rig) == (
        "backlog not known: HTTP 401, after 0 seconds of waiting for the appliance; expected at "
        "most 0 seconds of that (--max-wait); push again later: it goes on where it was"
    )
    assert rig.waited == []


def test_an_appliance_that_is_slow_to_tell_its_backlog_is_waited_for() -> None:
    rig = Rig()

    def slow() -> Count:
        rig.at += 30
        return 0

    rig.pace.throttle = BacklogThrottle(slow, SMALL, clock=rig.clock, tell=rig.told.append)
    rig.begins([100])

    assert rig.pace.waited_seconds == 30


# Pauses between attempts


def test_a_pause_is_waited_for() -> None:
    rig = Rig()

    assert rig.pace.pause(7)
    assert (rig.waited, rig.pace.waited_seconds) == ([7], 7)


def test_pauses_count_as_waiting_for_the_appliance() -> None:
    rig = Rig(max_wait_seconds=10)
    rig.pace.pause(7)

    assert words_of(rig, 4) == (
        "a feed was not accepted, after 7 seconds of waiting for the appliance; expected at most "
        "10 seconds of that (--max-wait); push again later: it goes on where it was"
    )


def test_two_threads_that_wait_at_the_same_time_count_as_one() -> None:
    rig = Rig()

    def wait_while_another_does(seconds: float) -> bool:
        rig.pace.wait = rig.wait
        other = threading.Thread(target=rig.pace.pause, args=(3,))
        other.start()
        other.join()
        return rig.wait(seconds - 3)

    rig.pace.wait = wait_while_another_does
    rig.pace.pause(10)

    assert rig.waited == [3, 7]
    assert rig.pace.waited_seconds == 10


def test_a_pause_beyond_the_deadline_is_not_begun() -> None:
    rig = Rig(deadline=3600)
    rig.at = 3000

    assert words_of(rig, 600) == (
        "the next attempt would be in 10 minutes; expected a feed to begin before 2026-11-21 14:00 "
        "CET; push again later: it goes on where it was"
    )
    assert rig.waited == []


# The deadline


def test_a_feed_begins_before_the_deadline() -> None:
    rig = Rig(deadline=3600)
    rig.at = 3599

    assert rig.begins([100], seconds=50) == [3599]


def test_no_feed_begins_at_the_deadline() -> None:
    rig = Rig(0, deadline=3600)
    rig.at = 3600

    assert words_of(rig) == (
        "the deadline is over; expected a feed to begin before 2026-11-21 14:00 CET; push again "
        "later: it goes on where it was"
    )
    assert rig.asked == []


def test_a_backlog_that_lasts_beyond_the_deadline_ends_the_push() -> None:
    rig = Rig(11, 9, deadline=100)

    assert words_of(rig) == (
        "9 feeds waiting, 2 fewer than 60 seconds ago; expected a feed to begin before "
        "2026-11-21 13:01 CET; push again later: it goes on where it was"
    )
    assert rig.at == pytest.approx(60, abs=0.01)


def test_a_window_that_opens_after_the_deadline_ends_the_push_at_once() -> None:
    rig = Rig(window=NIGHT, deadline=3600)

    assert words_of(rig) == (
        "the window 20:00-06:00 Europe/Berlin opens at 2026-11-21 20:00 CET; expected a feed to "
        "begin before 2026-11-21 14:00 CET; push again later: it goes on where it was"
    )
    assert rig.waited == []


def test_a_rate_that_lets_no_feed_begin_before_the_deadline_ends_the_push() -> None:
    rig = Rig(rate=parse_rate("1/h"), deadline=1800)
    rig.begins([100])

    assert words_of(rig) == (
        "--max-rate: the next feed is due in 60 minutes; expected a feed to begin before "
        "2026-11-21 13:30 CET; push again later: it goes on where it was"
    )


# The window


def test_a_feed_waits_for_the_window() -> None:
    rig = Rig(window=NIGHT)

    assert rig.begins([100]) == [7 * 3600]


def test_waiting_for_the_window_is_told_when_it_begins_and_when_it_ends() -> None:
    rig = Rig(window=NIGHT)
    rig.begins([100, 100])

    assert rig.told == [
        "the window 20:00-06:00 Europe/Berlin is shut; the push goes on at 2026-11-21 20:00 CET, "
        "in 7 hours",
        "the window 20:00-06:00 Europe/Berlin is open; the push goes on until 2026-11-22 06:00 CET",
    ]


def test_nothing_is_told_of_a_window_that_is_open() -> None:
    rig = Rig(window=parse_window("00:00-24:00 UTC"))
    rig.begins([100, 100])

    assert rig.told == []


def test_waiting_for_the_window_has_no_bound() -> None:
    rig = Rig(window=NIGHT, max_wait_seconds=1)

    assert rig.begins([100]) == [7 * 3600]
    assert rig.pace.waited_seconds == 0


def test_the_clock_on_the_wall_is_looked_at_again_and_again() -> None:
    rig = Rig(window=NIGHT)
    rig.begins([100])

    assert max(rig.waited) == 60


def test_nothing_is_asked_while_the_window_is_shut() -> None:
    rig = Rig(0, window=NIGHT)
    rig.begins([100])

    assert rig.asked == [7 * 3600]


def test_a_window_that_closes_while_the_push_pauses_is_waited_for() -> None:
    rig = Rig(11, 11, 0, window=parse_window("12:00-12:02 UTC"))

    assert rig.begins([100]) == [86_400]
    assert [round(moment) for moment in rig.asked] == [0, 60, 86_400]


# The rate


def test_a_rate_of_feeds_keeps_their_beginnings_apart() -> None:
    rig = Rig(rate=parse_rate("6/m"))

    assert rig.begins([1, 900_000_000, 1], seconds=3) == [0, 10, 20]


def test_a_feed_that_took_longer_than_its_share_keeps_nothing() -> None:
    rig = Rig(rate=parse_rate("6/m"))

    assert rig.begins([1, 1, 1], seconds=25) == [0, 25, 50]


def test_a_rate_of_bytes_keeps_feeds_apart_by_their_size() -> None:
    rig = Rig(rate=parse_rate("10MB/s"))

    assert rig.begins([100_000_000, 50_000_000, 1], seconds=3) == [0, 10, 15]


def test_what_was_not_sent_is_not_made_up_for() -> None:
    rig = Rig(rate=parse_rate("6/m"))
    rig.begins([1])
    rig.at += 1000

    assert rig.begins([1, 1]) == [1000, 1010]


def test_a_rate_of_bytes_counts_what_another_thread_sent() -> None:
    rig = Rig(rate=parse_rate("10MB/s"))
    thread = threading.Thread(target=rig.pace.sent, args=(100_000_000,))
    thread.start()
    thread.join()

    assert rig.begins([1]) == [10]


def test_two_feeds_at_the_same_time_are_both_waited_for() -> None:
    rig = Rig(rate=parse_rate("10MB/s"))
    thread = threading.Thread(target=rig.begin, args=(100_000_000, 0))
    rig.pace.before()
    thread.start()
    thread.join()
    rig.pace.sent(100_000_000)

    assert rig.begins([1]) == [20]


def test_waiting_for_the_rate_has_no_bound() -> None:
    rig = Rig(rate=parse_rate("6/m"), max_wait_seconds=0)

    assert rig.begins([1, 1]) == [0, 10]


def test_the_backlog_is_asked_for_when_the_rate_lets_a_feed_go() -> None:
    rig = Rig(0, rate=parse_rate("1/h"))
    rig.begins([1, 1])

    assert rig.asked == [0, 3600]


def test_a_pause_for_the_backlog_uses_up_no_turn() -> None:
    rig = Rig(11, 0, rate=parse_rate("6/m"))
    begun = rig.begins([1, 1])

    assert [round(moment) for moment in begun] == [60, 70]


def test_the_rate_holds_where_the_backlog_is_not_known() -> None:
    rig = Rig(None, rate=parse_rate("6/m"))

    assert rig.begins([1, 1, 1]) == [0, 10, 20]


@given(sizes=st.lists(st.integers(0, 10**9), max_size=20), seconds=st.floats(0, 100))
def test_no_rate_of_bytes_is_exceeded_in_the_long_run(sizes: list[int], seconds: float) -> None:
    rig = Rig(rate=parse_rate("10MB/s"))
    begun = [*rig.begins(sizes, seconds=seconds), *rig.begins([0])]

    assert begun[-1] >= sum(sizes) / 10_000_000 - 0.01


@given(
    steps=st.lists(st.floats(0, 30), max_size=20), amount=st.integers(1, 100), lasts=st.floats(0, 5)
)
def test_no_rate_of_feeds_is_exceeded(steps: list[float], amount: int, lasts: float) -> None:
    rig = Rig(rate=parse_rate(f"{amount}/m"))
    begun = [rig.begin(1, lasts + step) for step in steps]

    assert all(later - earlier >= 60 / amount - 1e-6 for earlier, later in pairwise(begun))


# The end


def test_a_push_that_was_drained_sends_nothing() -> None:
    rig = Rig(0)
    rig.stop.drain()

    assert not rig.pace.before()
    assert not rig.pace.pause(7)
    assert (rig.asked, rig.waited) == ([], [])


def test_draining_ends_a_wait_for_the_backlog() -> None:
    rig = Rig(11, 11, 11)
    rig.pace.wait = rig.drain

    assert not rig.pace.before()
    assert rig.asked == [0]


def test_draining_ends_a_pause() -> None:
    rig = Rig()
    rig.pace.wait = rig.drain

    assert not rig.pace.pause(7)


def test_nothing_goes_when_it_was_drained_while_the_backlog_was_asked_for() -> None:
    rig = Rig()

    def ask() -> Count:
        rig.stop.drain()
        return 0

    rig.pace.throttle = BacklogThrottle(ask, SMALL, clock=rig.clock, tell=rig.told.append)

    assert not rig.pace.before()


def test_a_drained_push_does_not_complain_of_its_bounds() -> None:
    rig = Rig(max_wait_seconds=0)

    def ask() -> Count:
        rig.stop.drain()
        return 11

    rig.pace.throttle = BacklogThrottle(ask, SMALL, clock=rig.clock, tell=rig.told.append)

    assert not rig.pace.before()


def test_a_stop_waits_no_longer_than_it_is_told() -> None:
    assert StopSignal().wait(0.01) is False
    assert StopSignal().wait(-1) is False


def test_a_stop_that_was_drained_does_not_wait() -> None:
    stop = StopSignal()
    stop.drain()
    stop.drain()

    assert stop.wait(PATIENCE_SECONDS) is True


def test_a_stop_wakes_all_who_wait() -> None:
    stop = StopSignal()
    found: list[bool] = []
    threads = [
        threading.Thread(target=lambda: found.append(stop.wait(PATIENCE_SECONDS))) for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    stop.drain()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)

    assert found == [True] * 5


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timers")
def test_a_signal_drains_the_thread_that_waits_for_it() -> None:
    stop = StopSignal()
    was = signal.signal(signal.SIGALRM, lambda number, frame: stop.drain())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        is_drained = stop.wait(PATIENCE_SECONDS)
    finally:
        signal.signal(signal.SIGALRM, was)

    assert is_drained


# ChunkSender, in real time


class Digester:
    """An appliance that digests some feeds whenever it is asked."""

    def __init__(self, digests: int) -> None:
        self.asked: list[float] = []
        self.taken: list[float] = []
        self.most = 0
        self._digests = digests
        self._waiting = 0
        self._lock = threading.Lock()
        self._full = threading.Event()

    def when_full(self, call: Callable[[], None]) -> None:
        def watch() -> None:
            if self._full.wait(PATIENCE_SECONDS):
                call()

        threading.Thread(target=watch).start()

    def count(self) -> Count:
        with self._lock:
            self.asked.append(time.monotonic())
            self._waiting = max(0, self._waiting - self._digests)
            return self._waiting

    def take(self) -> None:
        with self._lock:
            self.taken.append(time.monotonic())
            self._waiting += 1
            self.most = max(self.most, self._waiting)
            if self.most == 11:
                self._full.set()


class ChunkSender:
    """Threads that push to one appliance by one pace."""

    def __init__(self, appliance: Digester, pace: SendGate) -> None:
        self._appliance = appliance
        self._pace = pace
        self.ends: list[str] = []

    def run(self, *, lanes: int, feeds: int) -> None:
        threads = [threading.Thread(target=self._push, args=(feeds,)) for _ in range(lanes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_SECONDS)

    def _push(self, feeds: int) -> None:
        try:
            self.ends.append("done" if all(map(self._send, range(feeds))) else "drained")
        except BusyError:
            self.ends.append("busy")

    def _send(self, feed: int) -> bool:
        if not self._pace.before():
            return False
        self._appliance.take()
        self._pace.sent(1000)
        return True


def real_pace(
    appliance: Digester,
    *,
    interval_seconds: float = 0.05,
    rate: Rate | None = None,
    max_wait_seconds: float | None = None,
) -> SendGate:
    backlog = BacklogLimits(ceiling=10, floor=4, interval_seconds=interval_seconds)
    told: list[str] = []
    return SendGate(
        stop=StopSignal(),
        clock=time.monotonic,
        now=lambda: datetime.now(UTC),
        tell=told.append,
        throttle=BacklogThrottle(appliance.count, backlog, clock=time.monotonic, tell=told.append),
        rate=rate,
        max_wait_seconds=max_wait_seconds,
    )


def test_lanes_share_one_ceiling_and_get_all_through() -> None:
    appliance = Digester(digests=9)
    lanes = ChunkSender(appliance, real_pace(appliance))
    lanes.run(lanes=4, feeds=12)

    assert lanes.ends == ["done"] * 4
    assert len(appliance.taken) == 48
    assert appliance.most <= 11
    assert all(later - earlier > 0.05 for earlier, later in pairwise(appliance.asked))


def test_lanes_share_one_rate() -> None:
    appliance = Digester(digests=9)
    lanes = ChunkSender(appliance, real_pace(appliance, rate=parse_rate("100/s")))
    begun = time.monotonic()
    lanes.run(lanes=4, feeds=2)

    assert lanes.ends == ["done"] * 4
    assert appliance.taken[-1] - begun > 0.07


def test_the_lanes_wait_no_longer_together_than_one_may() -> None:
    appliance = Digester(digests=0)
    pace = real_pace(appliance, max_wait_seconds=0.12)
    lanes = ChunkSender(appliance, pace)
    lanes.run(lanes=4, feeds=12)

    assert lanes.ends == ["busy"] * 4
    assert len(appliance.taken) == 11
    assert pace.waited_seconds > 0.04


def test_draining_ends_all_lanes() -> None:
    appliance = Digester(digests=0)
    pace = real_pace(appliance, interval_seconds=PATIENCE_SECONDS)
    lanes = ChunkSender(appliance, pace)
    appliance.when_full(pace.stop.drain)
    lanes.run(lanes=4, feeds=12)

    assert lanes.ends == ["drained"] * 4
    assert len(appliance.taken) == 11
