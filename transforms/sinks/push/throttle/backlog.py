"""Pause a push while too many feeds wait at the appliance.

The push pauses when more than `ceiling` feeds wait, and continues when fewer than `floor` wait.
Between the two it stays as it is. The count is requested at most once in `interval_seconds`.

**Spec:** the deployed connector manager (3.2.2 and later), from which the rule and its numbers
come. We deviate where it continues without knowledge:

- Feeds that were accepted since the last count are added to it, so that many small feeds cannot
  exceed the ceiling within one interval.
- An empty response and a negative count are no counts.
- After a response that is no count, the next request comes soon, then less and less often.
- A pause does not end after a number of rounds.
"""

import threading
from collections import deque
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from schemas.errors import ConfigError
from schemas.units import format_duration
from transforms.retry import RetryPolicy

BacklogCount = int | None | str
"""A number from 0; None if the appliance has no such page (404); or why it is unknown."""

_MIN_WAIT_SECONDS = 0.001
"""The interval must be over, not only reached."""

_RETRY = RetryPolicy()


class BacklogLimits(msgspec.Struct, frozen=True, kw_only=True):
    """When a push pauses and continues, in feeds that wait at the appliance."""

    ceiling: int = 4000
    floor: int = 1000
    interval_seconds: float = 120.0

    def __post_init__(self) -> None:
        if self.floor < 1:
            raise ConfigError(
                f"--backlog-floor: {self.floor}; expected 1 or more: a push continues when fewer "
                "feeds wait"
            )
        if self.ceiling <= self.floor:
            raise ConfigError(
                f"--backlog-ceiling: {self.ceiling}; expected more than --backlog-floor, which is "
                f"{self.floor}"
            )
        if not self.interval_seconds > 0:
            raise ConfigError(f"--backlog-interval: {self.interval_seconds:g} s; expected over 0 s")


class BacklogThrottle:
    """Holds back the feeds of all threads that push to one appliance, by its backlog.

    Each thread calls `wait_seconds` until that returns 0, sends one feed, and then calls
    `count_accepted`, `report_failure` or neither. `request_count` is called in one thread at a
    time. `notify` gets a message when the push pauses or continues, and at most one per interval
    during a pause.
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
        self._limits = limits
        self._clock = clock
        self._notify = notify
        shortest = min(retry.first_seconds, limits.interval_seconds)
        longest = min(retry.max_seconds, limits.interval_seconds)
        self._retry = replace(
            retry, first_seconds=shortest, min_seconds=shortest, max_seconds=longest
        )
        self._request_lock = threading.Lock()
        self._lock = threading.Lock()  # guards all attributes below
        self._is_supported = True
        self._is_above = False  # the ceiling was exceeded; the floor is not reached yet
        self._unknown = ""  # why the backlog is unknown
        self._requested_at: float | None = None
        self._delay = limits.interval_seconds  # until the next request
        self._bad_counts = 0
        self._doubts = 0
        self._counts: deque[tuple[float, int]] = deque(maxlen=2)  # with their times
        self._accepted = 0  # since the last count
        self._sending: set[threading.Thread] = set()
        self._reported = ""
        self._reported_at = 0.0

    def wait_seconds(self) -> float:
        """Return 0 if this thread may send one feed now, else the seconds until it asks again.

        May request the count, and then takes as long as the request.
        """
        with self._request_lock:
            if self._is_request_due():
                self._update_count()
            seconds, message = self._admit()
            if message:
                self._notify(message)
        return seconds

    def count_accepted(self) -> None:
        """Count a feed of this thread that was accepted."""
        with self._lock:
            self._sending.discard(threading.current_thread())
            self._accepted += 1
            self._doubts = 0

    def report_failure(self) -> None:
        """Request the backlog before the next feed, because a feed was not accepted.

        The delay before the request grows with each consecutive failure.
        """
        with self._lock:
            self._sending.discard(threading.current_thread())
            self._doubts += 1
            if not self._unknown:
                self._unknown = "a feed was not accepted"
                self._delay = self._retry.pause_seconds(self._doubts)

    def describe(self) -> str:
        """Return the last known backlog, or the reason why it is unknown."""
        with self._lock:
            if self._unknown:
                return f"backlog unknown: {self._unknown}"
            return self._trend() if self._counts else "backlog unknown"

    def _is_request_due(self) -> bool:
        with self._lock:
            if self._requested_at is None or not self._is_supported:
                return self._is_supported
            return self._clock() - self._requested_at > self._delay

    def _update_count(self) -> None:
        with self._lock:
            accepted_before = self._accepted
        count = self._request_count()
        with self._lock:
            self._requested_at = self._clock()
            if count is None:
                self._is_supported, self._unknown = False, ""
            elif isinstance(count, int):
                self._set_count(count)
                self._accepted -= accepted_before  # later ones may not be in the count
            else:
                self._unknown = count
                self._bad_counts += 1
                self._delay = self._retry.pause_seconds(self._bad_counts)
            message = self._message()
        if message:
            self._notify(message)

    def _set_count(self, count: int) -> None:
        self._unknown = ""
        self._bad_counts = 0
        self._delay = self._limits.interval_seconds
        self._counts.append((self._clock(), count))
        self._is_above = count >= self._limits.floor if self._is_above else self._is_over(count)

    def _is_over(self, count: int) -> bool:
        return count > self._limits.ceiling

    def _count(self) -> int:
        return self._counts[-1][1] if self._counts else 0

    def _admit(self) -> tuple[float, str]:
        """Return how long this thread has to wait, and a message about it."""
        with self._lock:
            if not self._is_supported:
                return 0.0, ""
            self._sending.discard(threading.current_thread())
            self._sending = {thread for thread in self._sending if thread.is_alive()}
            estimate = self._count() + self._accepted + len(self._sending)
            if not (self._unknown or self._is_above or self._is_over(estimate)):
                self._sending.add(threading.current_thread())
                return 0.0, ""
            message = ""
            if not self._unknown:
                self._is_above = True
                message = self._message()
            next_request = (self._requested_at or 0.0) + self._delay
            return max(next_request - self._clock(), _MIN_WAIT_SECONDS), message

    def _message(self) -> str:
        """Return a message about a change, or about a pause if the last message is old."""
        state = self._state()
        before, now = self._reported, self._clock()
        is_paused = state in ("unknown", "above")
        is_due = is_paused and now - self._reported_at >= self._limits.interval_seconds
        if state == before and not is_due:
            return ""
        self._reported, self._reported_at = state, now
        return self._change(before) if state != before else self._reminder()

    def _state(self) -> str:
        if not self._is_supported:
            return "unsupported"
        if self._unknown:
            return "unknown"
        return "above" if self._is_above else ""

    def _change(self, before: str) -> str:
        floor, count = self._limits.floor, _waiting(self._count())
        if self._reported == "unsupported":
            return (
                "the appliance does not report its backlog (404); the push continues without a"
                " limit; use --window to limit when it sends"
            )
        if self._reported == "unknown":
            return f"backlog unknown: {self._unknown}; the push pauses until it is known"
        if self._reported == "above":
            return f"{self._excess()}; the push pauses until fewer than {floor:,} wait"
        if before == "unknown":
            return f"{count}; the push continues: the backlog is known again"
        return f"{count}, fewer than the floor of {floor:,}; the push continues"

    def _reminder(self) -> str:
        if self._unknown:
            return f"backlog still unknown: {self._unknown}; the push still pauses"
        return f"{self._trend()}; the push continues when fewer than {self._limits.floor:,} wait"

    def _excess(self) -> str:
        ceiling, count = self._limits.ceiling, self._count()
        sent = self._accepted + len(self._sending)
        if not self._is_over(count + sent):
            return _waiting(count)  # there were more before the backlog became unknown
        since = "" if self._is_over(count) else f" and {sent:,} sent since"
        return f"{_waiting(count)}{since}, more than the ceiling of {ceiling:,}"

    def _trend(self) -> str:
        (then, earlier), (now, count) = self._counts[0], self._counts[-1]
        if len(self._counts) == 1:
            return _waiting(count)
        change = "as many as"
        if count != earlier:
            change = f"{abs(count - earlier):,} {'more' if count > earlier else 'fewer'} than"
        return f"{_waiting(count)}, {change} {format_duration(now - then)} ago"


def _waiting(count: int) -> str:
    return f"{count:,} feed{'' if count == 1 else 's'} waiting"
