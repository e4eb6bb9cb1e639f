"""Jobs side by side: their order, how many there are at a time, and how they end."""

import threading
from collections.abc import Iterator
from functools import partial

import pytest

from schemas.errors import FormatError, SourceError
from support.listings import listed
from transforms.formats.base import ReadResult
from transforms.sources.programs.ordered_pool import Job, map_ordered
from transforms.sources.programs.process import CancelToken

ONE, TWO, THREE = listed("1"), listed("2"), listed("3")
PATIENCE_SECONDS = 60


def give(found: ReadResult, token: CancelToken) -> list[ReadResult]:
    return [found]


def give_after(event: threading.Event, found: ReadResult, token: CancelToken) -> list[ReadResult]:
    assert event.wait(PATIENCE_SECONDS)
    return [found]


def give_and_set(event: threading.Event, found: ReadResult, token: CancelToken) -> list[ReadResult]:
    event.set()
    return [found]


def wait_for_the_end(
    started: threading.Event, ended: list[str], token: CancelToken
) -> list[ReadResult]:
    started.set()
    token.sleep(PATIENCE_SECONDS)
    ended.append("ended")
    return []


def fail(token: CancelToken) -> list[ReadResult]:
    raise SourceError("no program")


def programs_running() -> int:
    return sum(thread.name.startswith("program") for thread in threading.enumerate())


def test_results_keep_the_order_of_the_jobs() -> None:
    event = threading.Event()
    jobs = [partial(give_after, event, ONE), partial(give_and_set, event, TWO)]

    assert list(map_ordered(jobs, parallel=2)) == [ONE, TWO]


def test_other_items_keep_their_place() -> None:
    jobs: list[Job | ReadResult] = [partial(give, ONE), TWO, partial(give, THREE)]

    assert list(map_ordered(jobs, parallel=2)) == [ONE, TWO, THREE]


def test_an_item_is_passed_on_before_the_next_one_is_read() -> None:
    def jobs() -> Iterator[Job | ReadResult]:
        yield ONE
        raise FormatError("not to be asked for yet")

    assert next(map_ordered(jobs(), parallel=1)) == ONE


def test_at_most_twice_as_many_jobs_are_taken_as_run() -> None:
    event = threading.Event()
    taken: list[int] = []

    def jobs() -> Iterator[Job | ReadResult]:
        for number in range(10):
            taken.append(number)
            if number == 3:
                threading.Timer(0.1, event.set).start()
            yield partial(give_after, event, ONE)

    outcomes = map_ordered(jobs(), parallel=2)
    next(outcomes)
    outcomes.close()

    assert taken == [0, 1, 2, 3]


def test_a_limited_number_of_items_wait_for_a_job() -> None:
    event = threading.Event()
    taken: list[int] = []

    def jobs() -> Iterator[Job | ReadResult]:
        yield partial(give_after, event, ONE)
        for number in range(5000):
            taken.append(number)
            if number == 998:
                threading.Timer(0.1, event.set).start()
            yield TWO

    outcomes = map_ordered(jobs(), parallel=2)
    next(outcomes)
    outcomes.close()

    assert len(taken) == 999


def test_an_error_of_a_job_is_raised() -> None:
    jobs: list[Job | ReadResult] = [partial(give, ONE), fail, partial(give, TWO)]
    outcomes = map_ordered(jobs, parallel=1)

    assert next(outcomes) == ONE
    with pytest.raises(SourceError, match="no program"):
        next(outcomes)


def test_closing_the_generator_cancels_running_jobs() -> None:
    started, ended = threading.Event(), list[str]()
    jobs = [partial(give_after, started, ONE), partial(wait_for_the_end, started, ended)]
    outcomes = map_ordered(jobs, parallel=2)

    next(outcomes)
    outcomes.close()

    assert (ended, programs_running()) == (["ended"], 0)


def test_an_error_of_the_input_cancels_running_jobs() -> None:
    started, ended = threading.Event(), list[str]()

    def jobs() -> Iterator[Job | ReadResult]:
        yield partial(wait_for_the_end, started, ended)
        assert started.wait(PATIENCE_SECONDS)
        raise FormatError("a torn end")

    with pytest.raises(FormatError, match="a torn end"):
        list(map_ordered(jobs(), parallel=1))

    assert (ended, programs_running()) == (["ended"], 0)


def test_no_thread_is_left_at_the_end() -> None:
    list(map_ordered([partial(give, ONE)], parallel=3))

    assert programs_running() == 0
