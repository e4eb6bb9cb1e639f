"""Calls that are made again, without waiting."""

from collections.abc import Callable, Iterator

import pytest

from schemas.errors import RecordError
from transforms.sources.programs.programs_file import Programs
from transforms.sources.programs.retry import Pauses, attempt
from transforms.sources.programs.subprocess_run import Leash


def call_of(*codes: str) -> Callable[[], str]:
    """A call that goes wrong with each of these codes, then well."""
    left: Iterator[str] = iter(codes)

    def call() -> str:
        for code in left:
            raise RecordError(code, code)
        return "done"

    return call


def outcome(call: Callable[[], str], *, retries: int, pauses: Pauses | None = None) -> str:
    programs = Programs(lister=("list",), retries=retries, backoff_seconds=1)
    usual = Pauses(sleep=lambda seconds: None)
    return attempt(call, programs=programs, pauses=pauses or usual, leash=Leash())


def pauses_of(*codes: str, chance: float) -> list[float]:
    slept: list[float] = []
    pauses = Pauses(sleep=slept.append, chance=lambda: chance)
    outcome(call_of(*codes), retries=len(codes), pauses=pauses)
    return slept


@pytest.mark.parametrize(
    "code", ["program-exit", "program-signal", "program-timeout", "repository-unavailable"]
)
def test_what_may_pass_is_tried_again(code: str) -> None:
    assert outcome(call_of(code), retries=1) == "done"


@pytest.mark.parametrize("code", ["program-endless", "no-stream", "other-document"])
def test_what_will_not_pass_is_not_tried_again(code: str) -> None:
    with pytest.raises(RecordError):
        outcome(call_of(code), retries=1)


def test_the_last_trouble_is_what_is_told() -> None:
    with pytest.raises(RecordError) as caught:
        outcome(call_of("program-exit", "program-exit", "program-timeout"), retries=2)

    assert caught.value.code == "program-timeout"


def test_without_retries_there_is_one_call() -> None:
    with pytest.raises(RecordError):
        outcome(call_of("program-exit"), retries=0)


def test_pauses_double() -> None:
    assert pauses_of("program-exit", "program-exit", "program-exit", chance=1) == [1, 2, 4]


def test_pauses_are_shortened_by_chance() -> None:
    assert pauses_of("program-exit", "program-exit", chance=0.25) == [0.25, 0.5]


def test_pauses_have_an_end() -> None:
    assert max(pauses_of(*["program-exit"] * 12, chance=1)) == 300


def test_nobody_waits_on_a_leash_that_is_cut() -> None:
    leash = Leash()
    leash.cut()
    programs = Programs(lister=("list",), retries=1, backoff_seconds=3600)
    pauses = Pauses(chance=lambda: 1)

    call = call_of("program-exit")
    assert attempt(call, programs=programs, pauses=pauses, leash=leash) == "done"
