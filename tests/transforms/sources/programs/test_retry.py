"""Calls of programs that are repeated, without pauses."""

from collections.abc import Callable, Iterator

import pytest

from schemas.errors import RecordError
from transforms.sources.programs.config import Programs
from transforms.sources.programs.process import CancelToken
from transforms.sources.programs.retry import attempt


def failing(*codes: str) -> Callable[[], str]:
    """Return a call that fails with each code in turn, and then succeeds."""
    remaining: Iterator[str] = iter(codes)

    def call() -> str:
        for code in remaining:
            raise RecordError(code, code)
        return "done"

    return call


def result(*codes: str, retries: int) -> str:
    programs = Programs(lister=("list",), retries=retries, backoff_seconds=0)
    return attempt(failing(*codes), programs=programs, token=CancelToken())


@pytest.mark.parametrize(
    "code", ["program-exit", "program-signal", "program-timeout", "repository-unavailable"]
)
def test_a_temporary_failure_is_repeated(code: str) -> None:
    assert result(code, retries=1) == "done"


@pytest.mark.parametrize("code", ["program-endless", "no-stream", "other-document"])
def test_a_permanent_failure_is_not_repeated(code: str) -> None:
    with pytest.raises(RecordError):
        result(code, retries=1)


def test_the_last_error_is_raised() -> None:
    with pytest.raises(RecordError) as caught:
        result("program-exit", "program-exit", "program-timeout", retries=2)

    assert caught.value.code == "program-timeout"


def test_without_retries_there_is_one_call() -> None:
    with pytest.raises(RecordError):
        result("program-exit", retries=0)


def test_a_cancelled_token_ends_the_pause() -> None:
    token = CancelToken()
    token.cancel()
    programs = Programs(lister=("list",), retries=1, backoff_seconds=3600)

    assert attempt(failing("program-exit"), programs=programs, token=token) == "done"
