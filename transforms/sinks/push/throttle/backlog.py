"""The backlog of an appliance: when a push pauses, and when it continues.

The push pauses when more than `ceiling` feeds wait at the appliance, and continues when fewer than
`floor` wait. Between the two it stays as it is. The count is requested at most once in
`interval_seconds`, and after a feed that was not accepted.

**Spec:** the deployed connector manager (3.2.2 and later), from which the rule and its numbers
come. We deviate where it continues without knowledge:

- Feeds that were accepted since the last count are added to it, so that many small feeds cannot
  exceed the ceiling within one interval.
- An empty response and a negative count are no counts.
- After a response that is no count, the next request comes soon, then less and less often.
- A pause does not end after a number of rounds.
"""

import math
import threading
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from feedferry.schemas.errors import ConfigError
from feedferry.transforms.net.retry import RetryPolicy

BacklogCount = int | None | str
"""A number from 0; None if the appliance has no such page (404); or why it is unknown."""

_MIN_WAIT_SECONDS = 0.001
"""The interval must be over, not only reached."""

_CONTINUES = "the push continues"
_RETRY = RetryPolicy()


class BacklogLimits(msgspec.Struct, frozen=True, kw_only=True):
    """When a push pauses and continues, in feeds that wait at the appliance; all are over 0."""

    ceiling: int = 4000
    floor: int = 1000
    interval_seconds: float = 120.0

    def __post_init__(self) -> None:
        if self.ceiling <= self.floor:
            raise ConfigError(
                f"⟦backlog_ceiling⟧: {self.ceiling}; expected more than ⟦backlog_floor⟧, which is "
                f"{self.floor}"
            )


class KnownBacklog:
    """The last count of a backlog, and how long a feed must wait for the next one.

    `clock` returns seconds. One thread at a time uses it.
    """

    def __init__(
        self, limits: BacklogLimits, *, clock: Callable[[], float], retry: RetryPolicy
    ) -> None:
        self._limits = limits
        self._clock = clock
        shortest = min(retry.first_seconds, limits.interval_seconds)
        longest = min(retry.max_seconds, limits.interval_seconds)
        self._retry = replace(
            retry, first_seconds=shortest, min_seconds=shortest, max_seconds=longest
        )
        self._count: BacklogCount = ""  # of the last request
        self._is_above = False  # the ceiling was exceeded; the floor is not reached yet
        self._bad_counts = 0
        self._last_number: int | None = None
        self._trend = ""  # how the number differs from the one before
        self.accepted = 0  # since the last count
        self._next_request_at = -math.inf

    @property
    def is_due(self) -> bool:
        """Whether the count is to be requested again."""
        return self._clock() > self._next_request_at

    def set_count(self, count: BacklogCount, *, accepted_before: int) -> None:
        """Use a new count, which may not include feeds accepted after the first ones."""
        self._count = count
        if count is None:
            delay = math.inf
        elif isinstance(count, int):
            self._trend = _trend(self._last_number, count)
            self._last_number = count
            self._bad_counts = 0
            self._is_above = self._is_above and count >= self._limits.floor
            delay = self._limits.interval_seconds
        else:
            self._bad_counts += 1
            delay = self._retry.pause_seconds(self._bad_counts)
        self._next_request_at = self._clock() + delay
        self.accepted -= accepted_before

    def report_attempt(self, *, is_accepted: bool) -> None:
        """Count an accepted feed; after another one, request the backlog before the next feed."""
        if is_accepted:
            self.accepted += 1
        elif isinstance(self._count, int):
            self._next_request_at = -math.inf

    def seconds_to_wait(self) -> float:
        """Return 0 if a feed may be sent now."""
        if self._count is None:
            return 0.0
        if isinstance(self._count, int):
            self._is_above |= self._count + self.accepted > self._limits.ceiling
            if not self._is_above:
                return 0.0
        return max(self._next_request_at - self._clock(), _MIN_WAIT_SECONDS)

    def describe(self) -> str:
        """Return the count, or the reason why it is unknown."""
        if self._count is None:
            return "the appliance reports no backlog (404)"
        if isinstance(self._count, str):
            return f"backlog unknown: {self._count}".removesuffix(": ")
        waiting = f"{self._count:,} feed{'' if self._count == 1 else 's'} waiting{self._trend}"
        return waiting + (f" and {self.accepted:,} sent since" if self.accepted else "")

    def effect(self, *, is_paused: bool) -> str:
        """Return what the count means for the push."""
        if self._count is None:
            return f"{_CONTINUES} without a limit; use ⟦window⟧ to limit when it sends"
        if isinstance(self._count, str):
            return "the push pauses until it is known"
        if is_paused:
            return f"the push pauses until fewer than {self._limits.floor:,} wait"
        return _CONTINUES


class BacklogThrottle:
    """Holds back the feeds of all threads that push to one appliance, by its backlog.

    Each thread calls `wait_seconds` until that returns 0, sends one feed, and then calls
    `report_attempt`. Feeds that are being sent are not counted, so each further thread can exceed
    the ceiling by one feed. `request_count` is called in one thread at a time. `notify` gets a
    message when the push pauses or continues, and at most one per interval during a pause.
    """

    def __init__(
        self,
        request_count: Callable[[], BacklogCount],
        limits: BacklogLimits,
        *,
        clock: Callable[[], float],
        notify: Callable[[str], None],
        retry: RetryPolicy = _RETRY,
    ) -> None:
        self._request_count = request_count
        self._interval_seconds = limits.interval_seconds
        self._clock = clock
        self._notify = notify
        self._request_lock = threading.Lock()
        self._lock = threading.Lock()  # guards all attributes below
        self._backlog = KnownBacklog(limits, clock=clock, retry=retry)
        self._reported = _CONTINUES
        self._reported_at = 0.0

    def wait_seconds(self) -> float:
        """Return 0 if this thread may send one feed now, else the seconds until it asks again.

        May request the count, and then takes as long as the request.
        """
        backlog = self._backlog
        with self._request_lock:
            with self._lock:
                is_due, accepted_before = backlog.is_due, backlog.accepted
            if is_due:
                count = self._request_count()
                with self._lock:
                    backlog.set_count(count, accepted_before=accepted_before)
            with self._lock:
                seconds = backlog.seconds_to_wait()
                message = self._message(is_paused=seconds > 0)
            if message:
                self._notify(message)
        return seconds

    def report_attempt(self, *, is_accepted: bool) -> None:
        """Count an accepted feed; after another one, request the backlog before the next feed."""
        with self._lock:
            self._backlog.report_attempt(is_accepted=is_accepted)

    def describe(self) -> str:
        """Return the last known backlog, or the reason why it is unknown."""
        with self._lock:
            return self._backlog.describe()

    def _message(self, *, is_paused: bool) -> str:
        """Return a message about a change, or about a pause if the last message is old."""
        effect = self._backlog.effect(is_paused=is_paused)
        now = self._clock()
        is_old = now - self._reported_at >= self._interval_seconds
        if effect == self._reported and not (is_paused and is_old):
            return ""
        self._reported, self._reported_at = effect, now
        return f"{self._backlog.describe()}; {effect}"


def _trend(before: int | None, count: int) -> str:
    if before is None or count == before:
        return ""
    return f", {abs(count - before):,} {'more' if count > before else 'fewer'} than before"
