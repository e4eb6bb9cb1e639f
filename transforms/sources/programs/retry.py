"""Retries of calls that failed in a way that may pass."""

import logging
import random
from collections.abc import Callable
from typing import TypeVar

import msgspec

from schemas.errors import RecordError
from transforms.sources.programs.config import Programs
from transforms.sources.programs.process import CancelToken

TEMPORARY = frozenset(
    {"program-exit", "program-signal", "program-timeout", "repository-unavailable"}
)
"""Codes of failures after which a call is repeated."""
_MAX_PAUSE_SECONDS = 300.0
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
    sleep = backoff.sleep or token.sleep
    for retry in range(programs.retries):
        try:
            return call()
        except RecordError as exc:
            if exc.code not in TEMPORARY:
                raise
            code = exc.code
        seconds = min(programs.backoff_seconds * 2**retry, _MAX_PAUSE_SECONDS) * backoff.random()
        _log.info("program: %s; next attempt in %.0f s", code, seconds)
        sleep(seconds)
    return call()
