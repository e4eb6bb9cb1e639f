"""Calls that are made again when they go wrong in a way that passes."""

import logging
import random
from collections.abc import Callable
from typing import TypeVar

import msgspec

from schemas.errors import RecordError
from transforms.sources.programs.programs_file import Programs
from transforms.sources.programs.subprocess_run import Leash

PASSING = frozenset({"program-exit", "program-signal", "program-timeout", "repository-unavailable"})
"""The codes of what may be otherwise the next time."""
_LONGEST_SECONDS = 300.0
_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class Pauses(msgspec.Struct, frozen=True, kw_only=True):
    """How a pause between two attempts is made, and by what chance it is shortened.

    `sleep` of `None` is a sleep that ends when nobody waits for its outcome any more.
    """

    sleep: Callable[[float], None] | None = None
    chance: Callable[[], float] = random.random


USUAL = Pauses()


def attempt(call: Callable[[], _T], *, programs: Programs, pauses: Pauses, leash: Leash) -> _T:
    """Return what `call` returns, or raise its last RecordError.

    It is called again, if that may help, as often as `programs` has retries, after pauses that
    double each time and of which chance takes a part: exponential back-off with full jitter.
    """
    sleep = pauses.sleep or leash.sleep
    for retry in range(programs.retries):
        try:
            return call()
        except RecordError as exc:
            if exc.code not in PASSING:
                raise
            failure = exc.code
        longest = min(programs.backoff_seconds * 2**retry, _LONGEST_SECONDS)
        seconds = longest * pauses.chance()
        _log.info("program: %s; next try in %.0f s", failure, seconds)
        sleep(seconds)
    return call()
