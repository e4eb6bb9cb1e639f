"""Retries of calls that failed in a way that may pass."""

import logging
import math
import random
from collections.abc import Callable
from typing import TypeVar

import msgspec

from schemas.errors import RecordError
from transforms.retry import RetryPolicy, retry
from transforms.sources.programs.config import Programs
from transforms.sources.programs.process import CancelToken

TEMPORARY = frozenset(
    {"program-exit", "program-signal", "program-timeout", "repository-unavailable"}
)
"""Codes of failures after which a call is repeated."""
_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """The pauses between attempts; `sleep=None` sleeps until the time is over or the run ends."""

    sleep: Callable[[float], None] | None = None
    random: Callable[[], float] = random.random


DEFAULT_BACKOFF = Backoff()


def attempt(
    call: Callable[[], _T], *, programs: Programs, backoff: Backoff, token: CancelToken
) -> _T:
    """Return the result of `call`, or raise its last RecordError.

    A temporary failure is repeated `programs.retries` times. The pauses double from
    `programs.backoff_seconds` to 300 seconds, and each is multiplied by a random number below 1.
    """
    policy = RetryPolicy(
        first_seconds=programs.backoff_seconds,
        max_attempts=programs.retries + 1,
        max_total_seconds=math.inf,
        jitter=backoff.random,
    )
    return retry(
        call,
        policy,
        is_temporary=lambda error: isinstance(error, RecordError) and error.code in TEMPORARY,
        sleep=backoff.sleep or token.sleep,
        notify=_report,
    )


def _report(error: Exception, seconds: float) -> None:
    code = error.code if isinstance(error, RecordError) else ""
    _log.info("program: %s; next attempt in %.0f s", code, seconds)
