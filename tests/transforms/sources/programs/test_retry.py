"""Calls that are made again, without waiting."""

from collections.abc import Callable, Iterator

import pytest

from schemas.errors import RecordError
from transforms.sources.programs.config import Programs
from transforms.sources.programs.process import CancelToken
from transforms.sources.programs.retry import Backoff, attempt


def call_of(*codes: str) -> Callable[[], str]:
    """A call that goes wrong with each of these codes, then well."""
    left: Iterator[str] = iter(codes)

    def call() -> str:
        for code in left:
            raise RecordError(code, code)
        return "done"

    return call


def outcome(call: Callable[[], str], *, retries: int, backoff: Backoff | None = None) -> str:
    programs = Programs(lister=("list",), retries=retries, backoff_seconds=1)
    usual = Backoff(sleep=lambda seconds: None)
    return attempt(call, programs=programs, backoff=backoff or usual, token=CancelToken())


def pauses_of(*codes: str, chance: float) -> list[float]:
    slept: list[float] = []
    backoff = Backoff(sleep=slept.append, random=lambda: chance)
    outcome(call_of(*codes), retries=len(codes), backoff=backoff)
    return slept


@pytest.mark.parametrize(
    "code", ["program-exit", "program-signal", "program-timeout", "repository-unavailable"]
)
def test_a_temporary_failure_is_repeated(code: str) -> None:
    assert outcome(call_of(code), retries=1) == "done"


@pytest.mark.parametrize("code", ["program-endless", "no-stream", "other-document"])
def test_a_permanent_failure_is_not_repeated(code: str) -> None:
    with pytest.raises(RecordError):
        outcome(call_of(code), retries=1)


def test_the_last_error_is_raised() -> None:
    with pytest.raises(RecordError) as caught:
        outcome(call_of("program-exit", "program-exit", "program-timeout"), retries=2)

    assert caught.value.code == "program-timeout"


def test_without_retries_there_is_one_call() -> None:
    with pytest.raises(RecordError):
        outcome(call_of("program-exit"), retries=0)


def test_pauses_double() -> None:
    assert pauses_of("program-exit", "program-exit", "program-exit", chance=1) == [1, 2, 4]


def test_pauses_are_multiplied_by_a_random_number() -> None:
    assert pauses_of("program-exit", "program-exit", chance=0.25) == [0.25, 0.5]


def test_a_pause_is_at_most_300_seconds() -> None:
    assert max(pauses_of(*["program-exit"] * 12, chance=1)) == 300


def test_a_cancelled_token_ends_the_pause() -> None:
    token = CancelToken()
    token.cancel()
    programs = Programs(lister=("list",), retries=1, backoff_seconds=3600)
    backoff = Backoff(random=lambda: 1)

    call = call_of("program-exit")
    assert attempt(call, programs=programs, backoff=backoff, token=token) == "done"
