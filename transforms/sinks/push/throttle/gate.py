"""The gate before each feed: stop signal, deadline, window and backlog.

A feed that is being sent is never held up. The push pauses when more than `ceiling` feeds wait at
the appliance, and continues when fewer than `floor` wait. Between the two it stays as it is. The
count is requested at most once in `interval_seconds`, and after a feed that was not accepted.

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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from queue import Empty, SimpleQueue

import msgspec
from msgspec.structs import replace

from feedferry.schemas.errors import BusyError, ConfigError
from feedferry.schemas.units import format_duration
from feedferry.transforms.net.retry import RetryPolicy
from feedferry.transforms.sinks.push.throttle.window import SendWindow

BacklogCount = int | None | str
"""A number from 0; None if the appliance has no such page (404); or why it is unknown."""

_MIN_WAIT_SECONDS = 0.001
"""The interval must be over, not only reached."""

_CONTINUES = "the push continues"
_RETRY = RetryPolicy()
_MAX_WINDOW_WAIT_SECONDS = 60.0
"""The window is checked again after this time: the clock may be set, or the machine may sleep."""

_FIX = "push again later to continue"


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
        self._limits = limits
        self._clock = clock
        self._notify = notify
        shortest = min(retry.first_seconds, limits.interval_seconds)
        longest = min(retry.max_seconds, limits.interval_seconds)
        self._retry = replace(
            retry, first_seconds=shortest, min_seconds=shortest, max_seconds=longest
        )
        self._request_lock = threading.Lock()
        self._lock = threading.RLock()  # guards all attributes below
        self._count: BacklogCount = ""  # of the last request
        self._is_above = False  # the ceiling was exceeded; the floor is not reached yet
        self._bad_counts = 0
        self._last_number: int | None = None
        self._trend = ""  # how the number differs from the one before
        self._accepted = 0  # since the last count
        self._next_request_at = -math.inf
        self._reported = _CONTINUES
        self._reported_at = 0.0

    def wait_seconds(self) -> float:
        """Return 0 if this thread may send one feed now, else the seconds until it asks again.

        May request the count, and then takes as long as the request.
        """
        with self._request_lock:
            with self._lock:
                is_due, accepted_before = self._clock() > self._next_request_at, self._accepted
            if is_due:
                count = self._request_count()
                with self._lock:
                    self._set_count(count)
                    self._accepted -= accepted_before  # later ones may not be in the count
            with self._lock:
                seconds = self._seconds_to_wait()
                message = self._message(is_paused=seconds > 0)
            if message:
                self._notify(message)
        return seconds

    def report_attempt(self, *, is_accepted: bool) -> None:
        """Count an accepted feed; after another one, request the backlog before the next feed."""
        with self._lock:
            if is_accepted:
                self._accepted += 1
            elif isinstance(self._count, int):
                self._next_request_at = -math.inf

    def describe(self) -> str:
        """Return the last known backlog, or the reason why it is unknown."""
        with self._lock:
            if self._count is None:
                return "the appliance reports no backlog (404)"
            if isinstance(self._count, str):
                return f"backlog unknown: {self._count}".removesuffix(": ")
            waiting = f"{self._count:,} feed{'' if self._count == 1 else 's'} waiting{self._trend}"
            return waiting + (f" and {self._accepted:,} sent since" if self._accepted else "")

    def _set_count(self, count: BacklogCount) -> None:
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

    def _seconds_to_wait(self) -> float:
        if self._count is None:
            return 0.0
        if isinstance(self._count, int):
            self._is_above |= self._count + self._accepted > self._limits.ceiling
            if not self._is_above:
                return 0.0
        return max(self._next_request_at - self._clock(), _MIN_WAIT_SECONDS)

    def _message(self, *, is_paused: bool) -> str:
        """Return a message about a change, or about a pause if the last message is old."""
        state = _CONTINUES
        if self._count is None:
            state += " without a limit; use ⟦window⟧ to limit when it sends"
        elif isinstance(self._count, str):
            state = "the push pauses until it is known"
        elif is_paused:
            state = f"the push pauses until fewer than {self._limits.floor:,} wait"
        now = self._clock()
        is_old = now - self._reported_at >= self._limits.interval_seconds
        if state == self._reported and not (is_paused and is_old):
            return ""
        self._reported, self._reported_at = state, now
        return f"{self.describe()}; {state}"


def _trend(before: int | None, count: int) -> str:
    if before is None or count == before:
        return ""
    return f", {abs(count - before):,} {'more' if count > before else 'fewer'} than before"


class StopSignal:
    """Asks a push to end after the feeds that are being sent, and ends all waiting.

    `stop` may be called in a signal handler, at any instant, as the `put` of a SimpleQueue may. The
    `set` of an Event may not: it takes a lock that the interrupted thread may hold.
    """

    def __init__(self) -> None:
        self._wakes = SimpleQueue[None]()
        self.is_set = False

    def stop(self) -> None:
        self.is_set = True
        self._wakes.put(None)

    def wait(self, seconds: float) -> bool:
        """Wait for the signal, at most this time; return whether it is set."""
        with suppress(Empty):
            self._wakes.get(timeout=min(max(seconds, 0.0), threading.TIMEOUT_MAX))
            self._wakes.put(None)  # for the next thread that waits
        return self.is_set


@dataclass(kw_only=True, eq=False)
class SendGate:
    """Lets the feeds of all threads that push to one appliance pass when their time has come.

    No feed begins after `deadline`, a time of `clock`. `max_wait_seconds` limits the time in which
    at least one thread waits for the appliance: for its backlog or for the next attempt. The
    waiting for the window is limited only by the deadline.

    All methods raise BusyError as soon as no feed can be sent within these limits.
    """

    stop: StopSignal
    clock: Callable[[], float]
    now: Callable[[], datetime]
    notify: Callable[[str], None]
    throttle: BacklogThrottle | None = None
    window: SendWindow | None = None
    deadline: float | None = None
    max_wait_seconds: float | None = None

    def __post_init__(self) -> None:
        self._lock = threading.Lock()  # guards all attributes below
        self._waiting_threads = 0
        self._waiting_since = 0.0
        self._waited_before = 0.0
        self._reported_opening: datetime | None = None

    @property
    def waited_seconds(self) -> float:
        """How long at least one thread has waited for the appliance."""
        with self._lock:
            waiting = self.clock() - self._waiting_since if self._waiting_threads else 0.0
            return self._waited_before + waiting

    def wait_until_open(self) -> bool:
        """Wait until this thread may send a feed; return False if the push is to end instead."""
        while not self.stop.is_set:
            self._check_deadline(0.0, "")
            if seconds := self._seconds_until_window():
                self.stop.wait(min(seconds, _MAX_WINDOW_WAIT_SECONDS))
            elif seconds := self._seconds_until_digested():
                with self._waiting_for_appliance():
                    self.stop.wait(seconds)
            else:
                return not self.stop.is_set
        return False

    def report_attempt(self, *, is_accepted: bool) -> None:
        """Report the end of an attempt of this thread to send a feed."""
        if self.throttle:
            self.throttle.report_attempt(is_accepted=is_accepted)

    def pause(self, seconds: float) -> bool:
        """Wait between two attempts; return False if the push is to end instead."""
        if self.stop.is_set:
            return False
        self._check_deadline(seconds, f"the next attempt would be in {format_duration(seconds)}")
        self._check_max_wait(seconds, "a feed was not accepted")
        with self._waiting_for_appliance():
            self.stop.wait(seconds)
        return not self.stop.is_set

    def _seconds_until_window(self) -> float:
        if not self.window:
            return 0.0
        now = self.now()
        opens_at = self.window.opens_at(now)
        seconds = (opens_at - now).total_seconds()
        opening = f"{opens_at:%Y-%m-%d %H:%M %Z}"
        if not seconds:
            return 0.0
        with self._lock:
            reported, self._reported_opening = self._reported_opening, opens_at
        if reported != opens_at:
            self.notify(
                f"the window {self.window.text} is closed; the push continues at {opening}, in "
                f"{format_duration(seconds)}"
            )
        self._check_deadline(seconds, f"the window {self.window.text} opens at {opening}")
        return seconds

    def _seconds_until_digested(self) -> float:
        if not self.throttle:
            return 0.0
        with self._waiting_for_appliance():  # the request for the backlog may take long
            seconds = self.throttle.wait_seconds()
        if seconds and not self.stop.is_set:
            backlog = self.throttle.describe()
            self._check_deadline(seconds, backlog)
            self._check_max_wait(seconds, backlog)
        return seconds

    def _check_deadline(self, seconds: float, reason: str) -> None:
        """Raise BusyError if the deadline has passed, or will have after some seconds."""
        if self.deadline is None:
            return
        left = self.deadline - self.clock()
        if left > seconds:
            return
        deadline = f"{self.now() + timedelta(seconds=left):%Y-%m-%d %H:%M %Z}"
        if left <= 0:
            reason = "the deadline has passed"
        raise BusyError(f"{reason}; expected a feed to begin before {deadline}; {_FIX}")

    def _check_max_wait(self, seconds: float, reason: str) -> None:
        waited = self.waited_seconds
        if self.max_wait_seconds is not None and waited + seconds > self.max_wait_seconds:
            raise BusyError(
                f"{reason}, after {format_duration(waited)} of waiting for the appliance; expected"
                f" at most {format_duration(self.max_wait_seconds)}, as ⟦max_wait⟧ states; {_FIX}"
            )

    @contextmanager
    def _waiting_for_appliance(self) -> Iterator[None]:
        """Count the time of this block; that of several threads at a time counts once."""
        with self._lock:
            if not self._waiting_threads:
                self._waiting_since = self.clock()
            self._waiting_threads += 1
        try:
            yield
        finally:
            with self._lock:
                self._waiting_threads -= 1
                if not self._waiting_threads:
                    self._waited_before += self.clock() - self._waiting_since
