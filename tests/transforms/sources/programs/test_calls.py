"""Calls of programs: repeated without pauses, several at once, in order."""

import threading
from collections.abc import Callable, Iterator
from functools import partial
from threading import Event

import pytest

from feedferry.schemas.errors import FormatError, RecordError, SourceError
from feedferry.transforms.formats.base import ReadResult
from feedferry.transforms.sources.programs.calls import Job, ProgramCalls, map_ordered
from feedferry.transforms.sources.programs.config import Programs
from support.listings import listed

ONE, TWO, THREE = listed("1"), listed("2"), listed("3")
PATIENCE_SECONDS = 300


def failing(*codes: str) -> Callable[[], str]:
    """Return a call that fails with each code in turn, and then succeeds."""
    remaining: Iterator[str] = iter(codes)

    def call() -> str:
        for code in remaining:
            raise RecordError(code, code)
        return "done"

    return call


def result(*codes: str, retries: int) -> str:
    """Return the result of a failing call, or the code of its error."""
    programs = Programs(lister=("list",), retries=retries, backoff_seconds=0)
    try:
        return ProgramCalls(programs).attempt(failing(*codes), Event())
    except RecordError as exc:
        return exc.code


def give(item: ReadResult, cancelled: Event) -> list[ReadResult]:
    return [item]


def give_after(event: Event, item: ReadResult, cancelled: Event) -> list[ReadResult]:
    assert event.wait(PATIENCE_SECONDS)
    return [item]


def give_and_set(event: Event, item: ReadResult, cancelled: Event) -> list[ReadResult]:
    event.set()
    return [item]


def wait_for_the_end(started: Event, ended: list[str], cancelled: Event) -> list[ReadResult]:
    started.set()
    cancelled.wait(PATIENCE_SECONDS)
    ended.append("ended")
    return []


def fail(cancelled: Event) -> list[ReadResult]:
    raise SourceError("no program")


def running_threads() -> int:
    return sum(thread.name.startswith("program") for thread in threading.enumerate())


@pytest.mark.parametrize(
    ("codes", "retries", "expected"),
    [
        (("program-exit",), 1, "done"),
        (("program-signal",), 1, "done"),
        (("program-timeout",), 1, "done"),
        (("repository-unavailable",), 1, "done"),
        (("program-endless",), 1, "program-endless"),
        (("no-stream",), 1, "no-stream"),
        (("program-exit", "program-exit", "program-timeout"), 2, "program-timeout"),
        (("program-exit",), 0, "program-exit"),
    ],
)
def test_only_temporary_failures_are_repeated(
    codes: tuple[str, ...], retries: int, expected: str
) -> None:
    assert result(*codes, retries=retries) == expected


def test_a_cancellation_ends_the_pause() -> None:
    cancelled = Event()
    cancelled.set()
    programs = Programs(lister=("list",), retries=1, backoff_seconds=3600)

    assert ProgramCalls(programs).attempt(failing("program-exit"), cancelled) == "done"


def test_results_and_other_items_keep_their_order() -> None:
    event = Event()
    jobs: list[Job | ReadResult] = [
        partial(give_after, event, ONE),
        TWO,
        partial(give_and_set, event, THREE),
    ]

    assert list(map_ordered(jobs, parallel=2)) == [ONE, TWO, THREE]
    assert running_threads() == 0


def test_an_item_is_passed_on_before_the_next_one_is_read() -> None:
    def jobs() -> Iterator[Job | ReadResult]:
        yield ONE
        raise FormatError("read too early")

    assert next(map_ordered(jobs(), parallel=1)) == ONE


@pytest.mark.parametrize("later", [partial(give, ONE), ONE])
def test_at_most_twice_as_many_items_are_taken_as_run(later: Job | ReadResult) -> None:
    event = Event()
    taken: list[int] = []

    def jobs() -> Iterator[Job | ReadResult]:
        for number in range(10):
            taken.append(number)
            if number == 3:
                threading.Timer(0.1, event.set).start()
            yield later if number else partial(give_after, event, ONE)

    outcomes = map_ordered(jobs(), parallel=2)
    next(outcomes)
    outcomes.close()

    assert taken == [0, 1, 2, 3]


def test_an_error_of_a_job_is_raised() -> None:
    outcomes = map_ordered([partial(give, ONE), fail, partial(give, TWO)], parallel=1)

    assert next(outcomes) == ONE
    with pytest.raises(SourceError, match="no program"):
        next(outcomes)


def test_closing_the_generator_cancels_running_jobs() -> None:
    started, ended = Event(), list[str]()
    jobs = [partial(give_after, started, ONE), partial(wait_for_the_end, started, ended)]
    outcomes = map_ordered(jobs, parallel=2)

    next(outcomes)
    outcomes.close()

    assert (ended, running_threads()) == (["ended"], 0)


def test_an_error_of_the_input_cancels_running_jobs() -> None:
    started, ended = Event(), list[str]()

    def jobs() -> Iterator[Job | ReadResult]:
        yield partial(wait_for_the_end, started, ended)
        assert started.wait(PATIENCE_SECONDS)
        raise FormatError("a torn end")

    with pytest.raises(FormatError, match="a torn end"):
        list(map_ordered(jobs(), parallel=1))

    assert (ended, running_threads()) == (["ended"], 0)
