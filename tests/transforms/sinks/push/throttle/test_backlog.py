"""The throttle, with an injected clock: no test waits."""

import threading
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import ConfigError
from transforms.sinks.push.throttle.backlog import BacklogLimits, BacklogThrottle, Count
from transforms.sinks.push.throttle.backoff import Backoff

USUAL = BacklogLimits()
SMALL = BacklogLimits(ceiling=10, floor=4, interval_seconds=60)
PATIENCE_SECONDS = 60


class Rig:
    """A throttle, its clock, what the appliance is asked, and what is told."""

    def __init__(self, *counts: Count, backlog: BacklogLimits = USUAL, chance: float = 1.0) -> None:
        self.now = 1000.0
        self.counts = list(counts)
        self.asked: list[float] = []
        self.told: list[str] = []
        self.throttle = BacklogThrottle(
            self.answer,
            backlog,
            clock=lambda: self.now,
            tell=self.told.append,
            backoff=Backoff(chance=lambda: chance),
        )

    def answer(self) -> Count:
        self.asked.append(self.now)
        return self.counts.pop(0) if len(self.counts) > 1 else self.counts[0]

    def pauses(self) -> bool:
        return self.throttle.wait_seconds() > 0

    def pauses_after(self, seconds: float) -> bool:
        self.now += seconds
        return self.pauses()

    def send(self, feeds: int) -> int:
        """How many of these feeds were accepted before the throttle paused."""
        for sent in range(feeds):
            if self.pauses():
                return sent
            self.throttle.sent()
        return feeds

    def waits(self, rounds: int) -> list[float]:
        """Wait as long as the throttle says, so many times."""
        return [self.wait() for _ in range(rounds)]

    def wait(self) -> float:
        seconds = self.throttle.wait_seconds()
        self.now += seconds
        return seconds


def by_interval(*counts: Count) -> list[bool]:
    """Whether the push pauses at each of these counts, which come one interval apart."""
    rig = Rig(*counts)
    return [rig.pauses_after(121) for _ in counts]


# The rule of the deployed connector manager


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([4000], [False]),
        ([4001], [True]),
        ([0], [False]),
        ([4001, 2000, 1000, 999], [True, True, True, False]),
        ([4001, 999, 2000, 4000, 4001], [True, False, False, False, True]),
        (["HTTP 500"], [True]),
        (["HTTP 401"], [True]),
        (["'abc' is no number"], [True]),
        (["HTTP 500", "HTTP 401", "'abc' is no number", 0], [True, True, True, False]),
        (["HTTP 500", 2000], [True, False]),
        ([4001, "HTTP 500", 2000, 999], [True, True, True, False]),
        ([100, "timed out", 4001, 1000, 0], [False, True, True, True, False]),
        ([None], [False]),
        (["HTTP 500", None], [True, False]),
        ([4001, None], [True, False]),
    ],
)
def test_counts_make_a_push_pause_and_go_on(counts: list[Count], expected: list[bool]) -> None:
    assert by_interval(*counts) == expected


def test_the_first_call_asks_at_once() -> None:
    rig = Rig(4001)

    assert rig.pauses()
    assert rig.asked == [1000]


def test_nothing_is_asked_before_the_first_call() -> None:
    assert Rig(0).asked == []


def test_an_interval_must_be_over_before_it_asks_again() -> None:
    rig = Rig(0, 4001)
    found = [rig.pauses_after(seconds) for seconds in (0, 60, 60, 0.001)]

    assert found == [False, False, False, True]
    assert rig.asked == [1000, 1120.001]


def test_an_interval_begins_when_the_answer_has_come() -> None:
    rig = Rig(0)

    def slow() -> Count:
        rig.now += 500
        return rig.answer()

    throttle = BacklogThrottle(slow, USUAL, clock=lambda: rig.now, tell=rig.told.append)
    throttle.wait_seconds()
    throttle.wait_seconds()

    assert rig.asked == [1500]


def test_an_appliance_that_has_no_count_is_never_asked_again() -> None:
    rig = Rig(None, 999_999)
    found = [rig.pauses_after(10_000) for _ in range(5)]

    assert found == [False] * 5
    assert rig.asked == [11_000]


# We differ


@pytest.mark.parametrize("count", ["", -5, -1])
def test_what_is_no_count_pauses_where_the_connector_manager_goes_on(count: Count) -> None:
    assert by_interval(0, count, 0) == [False, True, False]


def test_a_pause_lasts_as_long_as_the_backlog() -> None:
    assert by_interval(*[4001] * 50) == [True] * 50


def test_feeds_count_against_the_ceiling_before_the_next_count() -> None:
    rig = Rig(3990)

    assert rig.send(100) == 11
    assert rig.asked == [1000]


def test_feeds_that_were_sent_do_not_count_twice() -> None:
    rig = Rig(0, 3000, backlog=BacklogLimits(interval_seconds=60))
    rig.send(3000)
    rig.now += 61

    assert rig.send(2000) == 1001


def test_a_push_that_reached_the_ceiling_goes_on_below_the_floor() -> None:
    rig = Rig(0, 9, 4, 3, backlog=SMALL)
    rig.send(100)

    assert [rig.pauses_after(61) for _ in range(3)] == [True, True, False]


def test_a_push_that_paused_asks_once_each_interval() -> None:
    rig = Rig(11, backlog=SMALL)
    rig.waits(2000)

    assert rig.asked[1] - rig.asked[0] == pytest.approx(60.001, abs=0.0011)
    assert len(rig.asked) == pytest.approx((rig.now - 1000) / 60, rel=0.01)


def test_what_is_being_sent_counts_as_well() -> None:
    rig = Rig(10, backlog=SMALL)
    sending, sent = threading.Event(), threading.Event()

    def send_slowly() -> None:
        rig.pauses()
        sending.set()
        sent.wait(PATIENCE_SECONDS)

    sender = threading.Thread(target=send_slowly)
    sender.start()
    assert sending.wait(PATIENCE_SECONDS)
    found = rig.pauses()
    sent.set()
    sender.join()

    assert found


def test_a_thread_that_ended_sends_nothing() -> None:
    rig = Rig(10, backlog=SMALL)
    thread = threading.Thread(target=rig.throttle.wait_seconds)
    thread.start()
    thread.join()

    assert not rig.pauses()


def test_a_feed_that_was_refused_does_not_count() -> None:
    rig = Rig(10, backlog=SMALL)

    assert [rig.pauses() for _ in range(5)] == [False] * 5


def test_feeds_accepted_while_it_asks_are_not_taken_for_counted() -> None:
    rig = Rig(0, backlog=SMALL)

    def ask() -> Count:
        threads = [threading.Thread(target=rig.throttle.sent) for _ in range(3)]
        for thread in threads:
            thread.start()
            thread.join()
        return rig.answer()

    rig.throttle = BacklogThrottle(ask, SMALL, clock=lambda: rig.now, tell=rig.told.append)

    assert rig.send(100) == 8


# Counts that do not come


def test_an_appliance_that_does_not_tell_is_asked_less_and_less_often() -> None:
    rig = Rig("HTTP 500")

    assert rig.waits(20)[::2] == [1, 2, 4, 8, 16, 32, 64, 120, 120, 120]


def test_chance_makes_these_pauses_no_shorter_than_a_second() -> None:
    rig = Rig("HTTP 500", chance=0)

    assert rig.waits(8)[::2] == [1, 1, 1, 1]


def test_a_short_interval_makes_these_pauses_no_longer() -> None:
    rig = Rig("HTTP 500", backlog=BacklogLimits(interval_seconds=0.25))

    assert rig.waits(8)[::2] == [0.25, 0.25, 0.25, 0.25]


def test_a_good_count_makes_the_next_pauses_short_again() -> None:
    rig = Rig("HTTP 500", "HTTP 500", "HTTP 500", 5000, "HTTP 500")

    assert rig.waits(10)[::2] == [1, 2, 4, 120, 1]


def test_a_push_that_was_not_accepted_has_it_asked_before_the_next() -> None:
    rig = Rig(0, 4001)
    rig.pauses()
    rig.throttle.doubt()

    assert rig.pauses_after(2)
    assert rig.asked == [1000, 1002]


def test_a_push_that_was_not_accepted_does_not_pause_long_if_the_backlog_is_small() -> None:
    rig = Rig(0)
    rig.pauses()
    rig.throttle.doubt()

    assert rig.waits(3) == [1, 0.001, 0]


def test_doubt_behind_doubt_is_asked_less_and_less_often() -> None:
    rig = Rig(0)

    def doubted() -> float:
        rig.waits(3)
        rig.throttle.doubt()
        return rig.throttle.wait_seconds()

    rig.pauses()
    assert [doubted() for _ in range(9)] == [1, 2, 4, 8, 16, 32, 64, 120, 120]


def test_an_accepted_feed_ends_all_doubt() -> None:
    rig = Rig(0)
    rig.pauses()
    rig.throttle.doubt()
    rig.waits(3)
    rig.throttle.sent()
    rig.throttle.doubt()

    assert rig.waits(3) == [1, 0.001, 0]


def test_doubt_does_not_hasten_what_is_known_to_be_bad() -> None:
    rig = Rig("HTTP 500")
    rig.waits(5)
    rig.throttle.doubt()

    assert rig.waits(3) == [0.001, 8, 0.001]


def test_doubt_of_an_appliance_that_has_no_count_changes_nothing() -> None:
    rig = Rig(None)
    rig.pauses()
    rig.throttle.doubt()

    assert not rig.pauses()


# What is told


def test_nothing_is_told_of_a_small_backlog() -> None:
    rig = Rig(0, 4000, 17)
    rig.waits(1)
    rig.now += 121
    rig.waits(1)

    assert rig.told == []


def test_a_pause_is_told_with_its_trend_and_its_end() -> None:
    rig = Rig(4210, 3900, 3900, 4000, 1, 0)
    for _ in range(6):
        rig.pauses()
        rig.pauses_after(121)

    assert rig.told == [
        "4,210 feeds waiting, more than the ceiling of 4,000; the push pauses until fewer than "
        "1,000 wait",
        "3,900 feeds waiting, 310 fewer than 2 minutes ago; the push goes on when fewer than 1,000 "
        "wait",
        "3,900 feeds waiting, as many as 2 minutes ago; the push goes on when fewer than 1,000 "
        "wait",
        "4,000 feeds waiting, 100 more than 2 minutes ago; the push goes on when fewer than 1,000 "
        "wait",
        "1 feed waiting, fewer than the floor of 1,000; the push goes on",
    ]


def test_a_pause_for_what_was_sent_is_told() -> None:
    rig = Rig(3990)
    rig.send(100)

    assert rig.told == [
        "3,990 feeds waiting and 11 sent since, more than the ceiling of 4,000; the push pauses "
        "until fewer than 1,000 wait"
    ]


def test_an_appliance_without_a_count_is_told_once_with_the_cure() -> None:
    rig = Rig(None)
    rig.waits(5)

    assert rig.told == [
        "the appliance does not tell its backlog (404); the push goes on without knowing it, and "
        "--max-rate bounds how fast"
    ]


def test_a_count_that_does_not_come_is_told_once_in_an_interval() -> None:
    rig = Rig("HTTP 500", "HTTP 500", "timed out", backlog=SMALL)
    rig.waits(16)

    assert [round(at - 1000) for at in rig.asked] == [0, 1, 3, 7, 15, 31, 63, 123]
    assert rig.told == [
        "the backlog is not known: HTTP 500; the push pauses, and asks again until it is",
        "the backlog is still not known: timed out; the push still pauses",
        "the backlog is still not known: timed out; the push still pauses",
    ]


def test_a_count_that_comes_again_is_told() -> None:
    rig = Rig("HTTP 500", 2000)
    rig.waits(5)

    assert rig.told[1:] == ["2,000 feeds waiting; the push goes on, for the backlog is known again"]


def test_a_count_that_comes_again_may_keep_the_pause() -> None:
    rig = Rig(4001, "HTTP 500", 2000)
    rig.pauses_after(0)
    rig.pauses_after(121)
    rig.pauses_after(121)

    assert rig.told[2:] == ["2,000 feeds waiting; the push pauses until fewer than 1,000 wait"]


@pytest.mark.parametrize(("count", "words"), [(-5, "-5 feeds"), ("", "no words"), ("torn", "torn")])
def test_what_came_instead_of_a_count_is_told(count: Count, words: str) -> None:
    rig = Rig(count)
    rig.pauses()

    assert rig.told == [
        f"the backlog is not known: {words}; the push pauses, and asks again until it is"
    ]


def test_doubt_that_is_soon_over_is_not_told() -> None:
    rig = Rig(0)
    rig.pauses()
    rig.throttle.doubt()
    rig.waits(3)

    assert rig.told == []


# What is shown


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([1250], "1,250 feeds waiting"),
        ([1560, 1250], "1,250 feeds waiting, 310 fewer than 2 minutes ago"),
        ([5000, 1250], "1,250 feeds waiting, 3,750 fewer than 2 minutes ago"),
        ([1250, "HTTP 500"], "backlog not known: HTTP 500"),
        (["HTTP 500"], "backlog not known: HTTP 500"),
        ([None], "backlog not known: the appliance does not count it"),
    ],
)
def test_its_words_tell_what_was_last_learned(counts: list[Count], expected: str) -> None:
    rig = Rig(*counts)
    for _ in counts:
        rig.pauses_after(121)

    assert rig.throttle.words == expected


def test_there_are_words_before_the_first_question() -> None:
    assert Rig(0).throttle.words == "backlog not asked for yet"


def test_its_words_tell_of_doubt() -> None:
    rig = Rig(7)
    rig.pauses()
    rig.throttle.doubt()

    assert rig.throttle.words == "backlog not known: a feed was not accepted"


def test_whoever_is_told_may_ask_for_its_words() -> None:
    seen: list[str] = []
    throttle = BacklogThrottle(
        lambda: 5000,
        USUAL,
        clock=lambda: 0.0,
        tell=lambda line: seen.append(throttle.words),
    )
    throttle.wait_seconds()

    assert seen == ["5,000 feeds waiting"]


# What cannot be used


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (
            lambda: BacklogLimits(floor=0),
            "--backlog-floor: 0; expected 1 or more, for a push goes on when fewer feeds wait",
        ),
        (
            lambda: BacklogLimits(floor=-5),
            "--backlog-floor: -5; expected 1 or more, for a push goes on when fewer feeds wait",
        ),
        (
            lambda: BacklogLimits(ceiling=1000),
            "--backlog-ceiling: 1000; expected more than --backlog-floor, which is 1000",
        ),
        (
            lambda: BacklogLimits(ceiling=10, floor=20),
            "--backlog-ceiling: 10; expected more than --backlog-floor, which is 20",
        ),
        (
            lambda: BacklogLimits(interval_seconds=0),
            "--backlog-interval: 0 s; expected more than no time",
        ),
        (
            lambda: BacklogLimits(interval_seconds=float("nan")),
            "--backlog-interval: nan s; expected more than no time",
        ),
    ],
)
def test_numbers_that_make_no_sense_are_refused(
    make: Callable[[], BacklogLimits], expected: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        make()

    assert str(caught.value) == expected


# Whatever happens

STEPS = st.lists(st.tuples(st.sampled_from(["wait", "send", "doubt"]), st.floats(0, 200)))
COUNTS = st.lists(st.integers(-3, 30) | st.sampled_from(["HTTP 500", ""]), min_size=1)


class Digesting:
    """An appliance that digests so many feeds in a second, and a clock that shows its time."""

    def __init__(self, *, waiting: int, feeds_per_second: float) -> None:
        self.now = 0.0
        self.asked: list[float] = []
        self.most = waiting
        self._waiting = float(waiting)
        self._feeds_per_second = feeds_per_second

    def count(self) -> Count:
        self.asked.append(self.now)
        return int(self._waiting)

    def take(self) -> None:
        self._waiting += 1
        self.most = max(self.most, int(self._waiting))

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self._waiting = max(0.0, self._waiting - seconds * self._feeds_per_second)


def push(appliance: Digesting, feeds: int, *, rounds: int) -> int:
    """How many feeds are sent when the throttle is asked so many times."""
    throttle = BacklogThrottle(
        appliance.count, SMALL, clock=lambda: appliance.now, tell=lambda line: None
    )
    sent = 0
    for _ in range(rounds):
        seconds = throttle.wait_seconds() if sent < feeds else 1.0
        if seconds:
            appliance.pass_time(seconds)
        else:
            appliance.take()
            throttle.sent()
            sent += 1
    return sent


def play(rig: Rig, steps: list[tuple[str, float]]) -> None:
    for step, seconds in steps:
        rig.now += seconds
        if step == "doubt":
            rig.throttle.doubt()
        elif rig.throttle.wait_seconds() == 0 and step == "send":
            rig.throttle.sent()


def gaps(times: list[float]) -> list[float]:
    return [later - earlier for earlier, later in pairwise(times)]


@given(counts=st.lists(st.integers(0, 30), min_size=1), steps=STEPS)
def test_it_never_asks_twice_within_an_interval(
    counts: list[Count], steps: list[tuple[str, float]]
) -> None:
    rig = Rig(*counts, backlog=SMALL)
    play(rig, [step for step in steps if step[0] != "doubt"])

    assert min(gaps(rig.asked), default=61.0) > 60


@given(counts=COUNTS, steps=STEPS, chance=st.floats(0, 1))
def test_it_never_asks_twice_within_a_second_whatever_comes(
    counts: list[Count], steps: list[tuple[str, float]], chance: float
) -> None:
    rig = Rig(*counts, backlog=SMALL, chance=chance)
    play(rig, steps)

    assert min(gaps(rig.asked), default=2.0) > 1


@given(waiting=st.integers(0, 30))
def test_an_appliance_that_digests_nothing_is_never_sent_more_than_the_ceiling_and_one(
    waiting: int,
) -> None:
    appliance = Digesting(waiting=waiting, feeds_per_second=0)
    push(appliance, 100, rounds=100)

    assert appliance.most == max(waiting, 11)


@given(waiting=st.integers(0, 30), feeds_per_second=st.floats(0.02, 100))
@settings(max_examples=50)
def test_an_appliance_that_digests_at_any_rate_gets_all(
    waiting: int, feeds_per_second: float
) -> None:
    appliance = Digesting(waiting=waiting, feeds_per_second=feeds_per_second)

    assert push(appliance, 60, rounds=600) == 60
    assert appliance.most <= max(waiting, 11)


# Several threads


def test_one_thread_asks_and_the_others_wait_for_its_answer() -> None:
    asking, answer, done = threading.Event(), threading.Event(), threading.Semaphore(0)
    asked: list[float] = []
    found: list[float] = []

    def ask() -> Count:
        asked.append(0.0)
        asking.set()
        assert answer.wait(PATIENCE_SECONDS)
        return 5000

    throttle = BacklogThrottle(ask, USUAL, clock=lambda: 0.0, tell=lambda line: None)

    def lane() -> None:
        found.append(throttle.wait_seconds())
        done.release()

    threads = [threading.Thread(target=lane) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert asking.wait(PATIENCE_SECONDS)
    is_early = done.acquire(timeout=0.05)
    answer.set()
    for thread in threads:
        thread.join()

    assert not is_early
    assert (asked, found) == ([0.0], [120.0] * 4)


def test_its_words_are_there_while_it_asks() -> None:
    words: list[str] = []

    def ask() -> Count:
        words.append(throttle.words)
        return 0

    throttle = BacklogThrottle(ask, USUAL, clock=lambda: 0.0, tell=lambda line: None)
    throttle.wait_seconds()

    assert words == ["backlog not asked for yet"]
