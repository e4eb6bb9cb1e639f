"""The gate before each feed: stop signal, deadline, window and backlog.

A feed that is being sent is never held up.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from queue import Empty, SimpleQueue

from feedferry.schemas.errors import BusyError
from feedferry.schemas.units import format_duration
from feedferry.transforms.sinks.push.throttle.backlog import BacklogThrottle
from feedferry.transforms.sinks.push.throttle.window import SendWindow

_MAX_WINDOW_WAIT_SECONDS = 60.0
"""The window is checked again after this time: the clock may be set, or the machine may sleep."""

_FIX = "push again later to continue"


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
