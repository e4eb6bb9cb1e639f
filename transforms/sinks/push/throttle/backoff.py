"""How long to wait before the next attempt: exponential back-off with full jitter.

Nothing here waits. The pauses are given as numbers, since whoever makes an attempt writes a receipt
of it first.
"""

import random
import re
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import msgspec

from transforms.sinks.push.model import ApplianceResponse

_SECONDS = re.compile(r"[0-9]{1,9}", re.ASCII)
_MOST_DOUBLINGS = 60


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """How often something is tried, and how long the pauses between are.

    The longest pause doubles from `base_seconds` up to `cap_seconds`; `chance`, from 0 to 1, takes
    a part of what is above `least_seconds`. There are at most `attempts`, with `total_seconds` of
    pauses between them.
    """

    base_seconds: float = 1.0
    cap_seconds: float = 300.0
    attempts: int = 8
    total_seconds: float = 3600.0
    least_seconds: float = 0.0
    chance: Callable[[], float] = random.random


def longest(backoff: Backoff, *, failed: int) -> float:
    """Return how long the pause behind so many attempts, 1 or more, is without its jitter."""
    doublings = min(failed - 1, _MOST_DOUBLINGS)
    return min(backoff.base_seconds * 2.0**doublings, backoff.cap_seconds)


def pause(backoff: Backoff, *, failed: int) -> float:
    """Return how long to wait after so many attempts, 1 or more; there is no end to them."""
    least = backoff.least_seconds
    return least + backoff.chance() * max(0.0, longest(backoff, failed=failed) - least)


def next_pause(
    backoff: Backoff, *, failed: int, waited: float = 0.0, retry_after: float | None = None
) -> float | None:
    """Return how long to wait after `failed` attempts and `waited` seconds between them.

    It is at least what the appliance asked for, `retry_after`. `None` says that this was the last
    attempt, or that the next one would be too late.
    """
    if failed >= backoff.attempts:
        return None
    seconds = max(pause(backoff, failed=failed), retry_after or 0.0)
    return seconds if waited + seconds <= backoff.total_seconds else None


def retry_after(text: str, *, now: datetime) -> float | None:
    """Return the seconds that a Retry-After header asks for; None where it says nothing.

    **Spec:** RFC 9110, 10.2.3: seconds, or an HTTP date. A date that is past asks for no wait.
    """
    said = text.strip()
    if _SECONDS.fullmatch(said):
        return float(said)
    try:
        moment = parsedate_to_datetime(said)
    except ValueError:
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (aware - now).total_seconds())


class Waits:
    """The pauses behind the attempts to send one part, called once for each that went wrong.

    Returns seconds, or `None` when it is to be given up. An appliance that `is_busy`, as with a
    full disk, is tried until somebody's patience ends: those attempts count for no bound. `now`
    reads HTTP dates.

    >>> pauses = Waits(Backoff(attempts=3, chance=lambda: 1))
    >>> [pauses(ApplianceResponse(status=500)) for attempt in range(3)]
    [1.0, 2.0, None]
    """

    def __init__(
        self, backoff: Backoff, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._backoff = backoff
        self._now = now
        self._failed = 0
        self._busy = 0
        self._waited = 0.0

    def __call__(self, answer: ApplianceResponse, *, is_busy: bool = False) -> float | None:
        asked = retry_after(answer.retry_after, now=self._now())
        if is_busy:
            self._busy += 1
            return max(pause(self._backoff, failed=self._busy), asked or 0.0)
        self._failed += 1
        seconds = next_pause(
            self._backoff, failed=self._failed, waited=self._waited, retry_after=asked
        )
        self._waited += seconds or 0.0
        return seconds
