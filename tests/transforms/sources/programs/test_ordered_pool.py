"""Jobs side by side: their order, how many there are at a time, and how they end."""

import threading
from collections.abc import Iterator
from functools import partial

import pytest

from schemas.errors import FormatError, SourceError
from support.listings import listed
from transforms.formats.base import Found
from transforms.sources.programs.ordered_pool import Job, abreast
from transforms.sources.programs.subprocess_run import Leash

ONE, TWO, THREE = listed("1"), listed("2"), listed("3")
PATIENCE_SECONDS = 60


def give(found: Found, leash: Leash) -> list[Found]:
    return [found]


def give_after(event: threading.Event, found: Found, leash: Leash) -> list[Found]:
    assert event.wait(PATIENCE_SECONDS)
    return [found]


def give_and_set(event: threading.Event, found: Found, leash: Leash) -> list[Found]:
    event.set()
    return [found]


def wait_for_the_end(started: threading.Event, ended: list[str], leash: Leash) -> list[Found]:
    started.set()
    leash.sleep(PATIENCE_SECONDS)
    ended.append("ended")
    return []


def fail(leash: Leash) -> list[Found]:
    raise SourceError("no program")


def programs_running() -> int:
    return sum(thread.name.startswith("program") for thread in threading.enumerate())


def test_outcomes_come_in_the_order_of_their_jobs() -> None:
    event = threading.Event()
    jobs = [partial(give_after, event, ONE), partial(give_and_set, event, TWO)]

    assert list(abreast(jobs, parallel=2)) == [ONE, TWO]


def test_what_needs_no_job_keeps_its_place() -> None:
    jobs: list[Job | Found] = [partial(give, ONE), TWO, partial(give, THREE)]

    assert list(abreast(jobs, parallel=2)) == [ONE, TWO, THREE]


def test_what_needs_no_job_waits_for_nothing_behind_it() -> None:
    def jobs() -> Iterator[Job | Found]:
        yield ONE
        raise FormatError("not to be asked for yet")

    assert next(abreast(jobs(), parallel=1)) == ONE


def test_no_more_jobs_are_taken_than_twice_what_runs() -> None:
    event = threading.Event()
    taken: list[int] = []

    def jobs() -> Iterator[Job | Found]:
        for number in range(10):
            taken.append(number)
            if number == 3:
                threading.Timer(0.1, event.set).start()
            yield partial(give_after, event, ONE)

    outcomes = abreast(jobs(), parallel=2)
    next(outcomes)
    outcomes.close()

    assert taken == [0, 1, 2, 3]


def test_not_everything_waits_for_one_job() -> None:
    event = threading.Event()
    taken: list[int] = []

    def jobs() -> Iterator[Job | Found]:
        yield partial(give_after, event, ONE)
        for number in range(5000):
            taken.append(number)
            if number == 998:
                threading.Timer(0.1, event.set).start()
            yield TWO

    outcomes = abreast(jobs(), parallel=2)
    next(outcomes)
    outcomes.close()

    assert len(taken) == 999


def test_the_trouble_of_a_job_ends_all() -> None:
    jobs: list[Job | Found] = [partial(give, ONE), fail, partial(give, TWO)]
    outcomes = abreast(jobs, parallel=1)

    assert next(outcomes) == ONE
    with pytest.raises(SourceError, match="no program"):
        next(outcomes)


def test_what_runs_is_ended_when_nobody_wants_more() -> None:
    started, ended = threading.Event(), list[str]()
    jobs = [partial(give_after, started, ONE), partial(wait_for_the_end, started, ended)]
    outcomes = abreast(jobs, parallel=2)

    next(outcomes)
    outcomes.close()

    assert (ended, programs_running()) == (["ended"], 0)


def test_what_runs_is_ended_when_its_listing_tears() -> None:
    started, ended = threading.Event(), list[str]()

    def jobs() -> Iterator[Job | Found]:
        yield partial(wait_for_the_end, started, ended)
        assert started.wait(PATIENCE_SECONDS)
        raise FormatError("a torn end")

    with pytest.raises(FormatError, match="a torn end"):
        list(abreast(jobs(), parallel=1))

    assert (ended, programs_running()) == (["ended"], 0)


def test_no_thread_is_left_at_the_end() -> None:
    list(abreast([partial(give, ONE)], parallel=3))

    assert programs_running() == 0
