"""Repeat an operation that fails for a while: exponential back-off with full jitter."""

import random
import time
from collections.abc import Callable
from typing import TypeVar

import msgspec

_MAX_DOUBLINGS = 60
_Result = TypeVar("_Result")


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How often an operation is tried, and how long the pauses between the attempts are.

    The pause doubles from `first_seconds` up to `max_seconds`. Jitter takes a random part of what
    exceeds `min_seconds`; `jitter` returns a number from 0 to 1. There are at most `max_attempts`,
    with pauses of at most `max_total_seconds` in total.
    """

    first_seconds: float = 1.0
    max_seconds: float = 300.0
    min_seconds: float = 0.0
    max_attempts: int = 8
    max_total_seconds: float = 3600.0
    jitter: Callable[[], float] = random.random

    def pause_seconds(self, failures: int) -> float:
        """Return the pause after a number of failures, 1 or more; any number has a pause."""
        doublings = min(failures - 1, _MAX_DOUBLINGS)
        longest = min(self.first_seconds * 2.0**doublings, self.max_seconds)
        return self.min_seconds + self.jitter() * max(0.0, longest - self.min_seconds)


class RetryPauses:
    """The pauses of one operation: ask for the next one after each failure.

    >>> pauses = RetryPauses(RetryPolicy(max_attempts=3, jitter=lambda: 1.0))
    >>> [pauses.next_seconds() for failure in range(3)]
    [1.0, 2.0, None]
    """

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._failures = 0
        self._unlimited_failures = 0
        self._total_seconds = 0.0

    def next_seconds(
        self, *, at_least: float | None = None, is_limited: bool = True
    ) -> float | None:
        """Return the pause before the next attempt, None if the policy allows no further attempt.

        `at_least` is the pause that the other side asks for. A failure that is not limited, such as
        a full disk at the other side, counts neither as an attempt nor towards the total.
        """
        if not is_limited:
            self._unlimited_failures += 1
            return max(self._policy.pause_seconds(self._unlimited_failures), at_least or 0.0)
        self._failures += 1
        if self._failures >= self._policy.max_attempts:
            return None
        seconds = max(self._policy.pause_seconds(self._failures), at_least or 0.0)
        if self._total_seconds + seconds > self._policy.max_total_seconds:
            return None
        self._total_seconds += seconds
        return seconds


def retry(
    operation: Callable[[], _Result],
    policy: RetryPolicy,
    *,
    is_temporary: Callable[[Exception], bool],
    sleep: Callable[[float], object] = time.sleep,
    notify: Callable[[Exception, float], object] = lambda error, seconds: None,
) -> _Result:
    """Return the result of an operation; repeat it while its error is temporary.

    Raises the last error. `notify` is called with each error and the pause before the next attempt.
    """
    pauses = RetryPauses(policy)
    while True:
        try:
            return operation()
        except Exception as error:
            seconds = pauses.next_seconds() if is_temporary(error) else None
            if seconds is None:
                raise
            notify(error, seconds)
        sleep(seconds)
