"""The throttle by backlog, with an injected clock: no test waits."""

import threading
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import ConfigError
from transforms.retry import RetryPolicy
from transforms.sinks.push.throttle.backlog import BacklogCount, BacklogLimits, BacklogThrottle

DEFAULT = BacklogLimits()
SMALL = BacklogLimits(ceiling=10, floor=4, interval_seconds=60)
MAX_TEST_SECONDS = 60


class ThrottleRig:
    """A throttle with its clock; requests return one count after another."""

    def __init__(
        self, *counts: BacklogCount, limits: BacklogLimits = DEFAULT, jitter: float = 1.0
    ) -> None:
        self.now = 1000.0
        self.counts = list(counts)
        self.requested: list[float] = []
        self.messages: list[str] = []
        self.throttle = self.make(self.request, limits, jitter=jitter)

    def make(
        self, request: Callable[[], BacklogCount], limits: BacklogLimits, *, jitter: float = 1.0
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

    def pauses(self, *, after: float = 0.0) -> bool:
        self.now += after
        return self.throttle.wait_seconds() > 0

    def send(self, feeds: int) -> int:
        """Return how many of some feeds are accepted before the throttle pauses."""
        for sent in range(feeds):
            if self.pauses():
                return sent
            self.throttle.count_accepted()
        return feeds

    def waits(self, rounds: int) -> list[float]:
        """Wait as long as the throttle says, several times."""
        waits = []
        for _ in range(rounds):
            waits.append(self.throttle.wait_seconds())
            self.now += waits[-1]
        return waits


def by_interval(*counts: BacklogCount) -> list[bool]:
    """Return whether the push pauses at each of some counts, one interval apart."""
    rig = ThrottleRig(*counts)
    return [rig.pauses(after=121) for _ in counts]


# The rule of the deployed connector manager, and deviations


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
    assert by_interval(*counts) == expected


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
    rig.throttle.report_failure()

    assert [rig.pauses(after=10_000) for _ in range(5)] == [False] * 5
    assert len(rig.requested) == 1
    assert rig.messages == [
        "the appliance does not report its backlog (404); the push continues without a limit; "
        "use --window to limit when it sends"
    ]


# Feeds since the last count


def test_accepted_feeds_count_against_the_ceiling() -> None:
    rig = ThrottleRig(3990)

    assert rig.send(100) == 11
    assert rig.requested == [1000]
    assert rig.messages == [
        "3,990 feeds waiting and 11 sent since, more than the ceiling of 4,000; the push pauses "
        "until fewer than 1,000 wait"
    ]


def test_accepted_feeds_do_not_count_twice() -> None:
    rig = ThrottleRig(0, 3000, limits=BacklogLimits(interval_seconds=60))
    rig.send(3000)
    rig.now += 61

    assert rig.send(2000) == 1001


def test_a_push_that_reached_the_ceiling_continues_below_the_floor() -> None:
    rig = ThrottleRig(0, 9, 4, 3, limits=SMALL)
    rig.send(100)

    assert [rig.pauses(after=61) for _ in range(3)] == [True, True, False]


def test_a_refused_feed_does_not_count() -> None:
    rig = ThrottleRig(10, limits=SMALL)

    assert [rig.pauses() for _ in range(5)] == [False] * 5


@pytest.mark.parametrize("is_alive", [True, False])
def test_a_feed_counts_while_its_thread_sends_it(is_alive: bool) -> None:
    rig = ThrottleRig(10, limits=SMALL)
    is_sending, is_sent = threading.Event(), threading.Event()

    def send_slowly() -> None:
        rig.pauses()
        is_sending.set()
        is_sent.wait(MAX_TEST_SECONDS)

    sender = threading.Thread(target=send_slowly)
    sender.start()
    assert is_sending.wait(MAX_TEST_SECONDS)
    if not is_alive:
        is_sent.set()
        sender.join()
    is_paused = rig.pauses()
    is_sent.set()
    sender.join()

    assert is_paused is is_alive


def test_feeds_accepted_during_a_request_are_not_in_its_count() -> None:
    rig = ThrottleRig(0, limits=SMALL)

    def request() -> BacklogCount:
        for _ in range(3):
            thread = threading.Thread(target=rig.throttle.count_accepted)
            thread.start()
            thread.join()
        return rig.request()

    rig.throttle = rig.make(request, SMALL)

    assert rig.send(100) == 8


# Unknown backlogs and doubts


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


def test_the_backlog_is_requested_after_a_doubt() -> None:
    rig = ThrottleRig(0, 4001)
    rig.pauses()
    rig.throttle.report_failure()

    assert rig.throttle.describe() == "backlog unknown: a feed was not accepted"
    assert rig.pauses(after=2)
    assert rig.requested == [1000, 1002]


def test_doubts_in_a_row_are_checked_less_and_less_often() -> None:
    rig = ThrottleRig(0)

    def doubted() -> float:
        rig.waits(3)
        rig.throttle.report_failure()
        return rig.throttle.wait_seconds()

    rig.pauses()
    assert [doubted() for _ in range(9)] == [1, 2, 4, 8, 16, 32, 64, 120, 120]
    rig.throttle.count_accepted()
    assert doubted() == 1
    assert rig.messages == []


def test_a_doubt_does_not_hasten_the_request_for_an_unknown_backlog() -> None:
    rig = ThrottleRig("HTTP 500")
    rig.waits(5)
    rig.throttle.report_failure()

    assert rig.waits(3) == [0.001, 8, 0.001]


# Messages


def test_a_pause_is_reported_with_its_trend_and_its_end() -> None:
    rig = ThrottleRig(4210, 3900, 3900, 4000, 1, 0)
    for _ in range(6):
        rig.pauses()
        rig.pauses(after=121)

    assert rig.messages == [
        "4,210 feeds waiting, more than the ceiling of 4,000; the push pauses until fewer than "
        "1,000 wait",
        "3,900 feeds waiting, 310 fewer than 2 minutes ago; the push continues when fewer than "
        "1,000 wait",
        "3,900 feeds waiting, as many as 2 minutes ago; the push continues when fewer than 1,000 "
        "wait",
        "4,000 feeds waiting, 100 more than 2 minutes ago; the push continues when fewer than "
        "1,000 wait",
        "1 feed waiting, fewer than the floor of 1,000; the push continues",
    ]


def test_an_unknown_backlog_is_reported_once_an_interval() -> None:
    rig = ThrottleRig("HTTP 500", "HTTP 500", "timed out", limits=SMALL)
    rig.waits(16)

    assert [round(at - 1000) for at in rig.requested] == [0, 1, 3, 7, 15, 31, 63, 123]
    assert rig.messages == [
        "backlog unknown: HTTP 500; the push pauses until it is known",
        "backlog still unknown: timed out; the push still pauses",
        "backlog still unknown: timed out; the push still pauses",
    ]


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        (["HTTP 500", 2000], "2,000 feeds waiting; the push continues: the backlog is known again"),
        (
            [4001, "HTTP 500", 2000],
            "2,000 feeds waiting; the push pauses until fewer than 1,000 wait",
        ),
    ],
)
def test_a_change_is_reported(counts: list[BacklogCount], expected: str) -> None:
    rig = ThrottleRig(*counts)
    for _ in counts:
        rig.pauses(after=121)

    assert rig.messages[-1] == expected


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([], "backlog unknown"),
        ([1250], "1,250 feeds waiting"),
        ([1560, 1250], "1,250 feeds waiting, 310 fewer than 2 minutes ago"),
        ([1250, "HTTP 500"], "backlog unknown: HTTP 500"),
    ],
)
def test_the_backlog_is_described(counts: list[BacklogCount], expected: str) -> None:
    rig = ThrottleRig(*counts)
    for _ in counts:
        rig.pauses(after=121)

    assert rig.throttle.describe() == expected


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


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (
            {"floor": 0},
            "--backlog-floor: 0; expected 1 or more: a push continues when fewer feeds wait",
        ),
        (
            {"ceiling": 10, "floor": 20},
            "--backlog-ceiling: 10; expected more than --backlog-floor, which is 20",
        ),
        ({"interval_seconds": 0}, "--backlog-interval: 0 s; expected over 0 s"),
        ({"interval_seconds": float("nan")}, "--backlog-interval: nan s; expected over 0 s"),
    ],
)
def test_impossible_limits_are_refused(limits: dict[str, float], expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        BacklogLimits(**limits)  # type: ignore[arg-type]

    assert str(caught.value) == expected


# Properties

STEPS = st.lists(st.tuples(st.sampled_from(["wait", "send", "doubt"]), st.floats(0, 200)))


def smallest_gap(
    counts: list[BacklogCount], steps: list[tuple[str, float]], jitter: float
) -> float:
    """Return the smallest time between two requests."""
    rig = ThrottleRig(*counts, limits=SMALL, jitter=jitter)
    for step, seconds in steps:
        rig.now += seconds
        if step == "doubt":
            rig.throttle.report_failure()
        elif rig.throttle.wait_seconds() == 0 and step == "send":
            rig.throttle.count_accepted()
    gaps = (later - earlier for earlier, later in pairwise(rig.requested))
    return min(gaps, default=float("inf"))


@given(counts=st.lists(st.integers(0, 30), min_size=1), steps=STEPS)
def test_there_is_one_request_an_interval(
    counts: list[BacklogCount], steps: list[tuple[str, float]]
) -> None:
    assert smallest_gap(counts, [step for step in steps if step[0] != "doubt"], 1.0) > 60


@given(
    counts=st.lists(st.integers(0, 30) | st.just("HTTP 500"), min_size=1),
    steps=STEPS,
    jitter=st.floats(0, 1),
)
def test_there_is_at_most_one_request_a_second_after_any_response(
    counts: list[BacklogCount], steps: list[tuple[str, float]], jitter: float
) -> None:
    assert smallest_gap(counts, steps, jitter) > 1


def push_to_appliance(
    waiting: int, feeds_per_second: float, feeds: int, rounds: int
) -> tuple[int, int]:
    """Push to an appliance that digests; return the feeds sent and its largest backlog."""
    backlog, now, sent, highest = float(waiting), 0.0, 0, waiting
    throttle = BacklogThrottle(
        lambda: int(backlog), SMALL, clock=lambda: now, notify=lambda line: None
    )
    for _ in range(rounds):
        seconds = throttle.wait_seconds() if sent < feeds else 1.0
        if seconds:
            now += seconds
            backlog = max(0.0, backlog - seconds * feeds_per_second)
        else:
            backlog += 1
            sent += 1
            highest = max(highest, int(backlog))
            throttle.count_accepted()
    return sent, highest


@given(waiting=st.integers(0, 30))
def test_an_appliance_that_digests_nothing_gets_at_most_one_feed_over_the_ceiling(
    waiting: int,
) -> None:
    _, highest = push_to_appliance(waiting, 0.0, feeds=100, rounds=100)

    assert highest == max(waiting, 11)


@given(waiting=st.integers(0, 30), feeds_per_second=st.floats(0.02, 100))
@settings(max_examples=50)
def test_an_appliance_that_digests_at_any_rate_gets_all_feeds(
    waiting: int, feeds_per_second: float
) -> None:
    sent, highest = push_to_appliance(waiting, feeds_per_second, feeds=60, rounds=600)

    assert sent == 60
    assert highest <= max(waiting, 11)


def test_one_thread_requests_the_count_while_the_others_wait() -> None:
    is_requesting, respond, done = threading.Event(), threading.Event(), threading.Semaphore(0)
    requests: list[None] = []
    waits: list[float] = []

    def request() -> BacklogCount:
        requests.append(None)
        is_requesting.set()
        assert respond.wait(MAX_TEST_SECONDS)
        return 5000

    throttle = BacklogThrottle(request, DEFAULT, clock=lambda: 0.0, notify=lambda line: None)

    def push() -> None:
        waits.append(throttle.wait_seconds())
        done.release()

    threads = [threading.Thread(target=push) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert is_requesting.wait(MAX_TEST_SECONDS)
    is_early = done.acquire(timeout=0.05)
    respond.set()
    for thread in threads:
        thread.join()

    assert not is_early
    assert (len(requests), waits) == (1, [120.0] * 4)
