"""The throttle by backlog, with an injected clock: no test waits."""

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
        "the appliance does not report its backlog (404); the push continues without a limit; "
        "use --window to limit when it sends"
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
