"""The gate before each feed: stop signal, deadline, window and backlog.

A feed that is being sent is never held up.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from schemas.errors import BusyError
from schemas.units import format_duration
from transforms.sinks.push.throttle.backlog import BacklogThrottle
from transforms.sinks.push.throttle.window import SendWindow

_MIN_WAIT_SECONDS = 0.001
_MAX_WINDOW_WAIT_SECONDS = 60.0
"""The window is checked again after this time: the clock may be set, or the machine may sleep."""

_FIX = "push again later to continue"


class StopSignal:
    """Asks a push to end after the feeds that are being sent, and ends all waiting.

    `stop` may be called in a signal handler, at any instant. An Event may not: its `set` takes a
    lock that the interrupted thread may hold.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self._is_set = False

    @property
    def is_set(self) -> bool:
        return self._is_set

    def stop(self) -> None:
        self._is_set = True
        self._release()

    def wait(self, seconds: float) -> bool:
        """Wait for the signal, at most this time; return whether it is set."""
        timeout = min(max(seconds, 0.0), threading.TIMEOUT_MAX)
        if not self._is_set and self._lock.acquire(timeout=timeout):
            self._release()  # for the next thread that waits
        return self._is_set

    def _release(self) -> None:
        with suppress(RuntimeError):  # another thread has released it
            self._lock.release()


@dataclass(kw_only=True, eq=False)
class SendGate:
    """Lets the feeds of all threads that push to one appliance pass when their time has come.

    No feed begins after `deadline`, a time of `clock`. `max_wait_seconds` limits the time in which
    at least one thread waits for the appliance: for its backlog or for the next attempt. The
    waiting for the window is limited only by the deadline. `wait` is that of `stop` by default.

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
    wait: Callable[[float], bool] | None = None

    def __post_init__(self) -> None:
        self._appliance_wait = _WaitTime(self.clock)
        self._lock = threading.Lock()
        self._reported_opening: datetime | None = None

    @property
    def waited_seconds(self) -> float:
        """How long any thread has waited for the appliance."""
        return self._appliance_wait.seconds()

    def wait_until_open(self) -> bool:
        """Wait until this thread may send a feed; return False if the push is to end instead."""
        while not self.stop.is_set:
            self._check_deadline(0.0, "")
            if seconds := self._seconds_until_window():
                self._wait(min(seconds, _MAX_WINDOW_WAIT_SECONDS))
            elif seconds := self._seconds_until_digested():
                with self._appliance_wait.running():
                    self._wait(seconds)
            else:
                return not self.stop.is_set
        return False

    def count_accepted(self) -> None:
        """Count a feed of this thread that was accepted."""
        if self.throttle:
            self.throttle.count_accepted()

    def report_failure(self) -> None:
        """Request the backlog before the next feed, because a feed was not accepted."""
        if self.throttle:
            self.throttle.report_failure()

    def pause(self, seconds: float) -> bool:
        """Wait between two attempts; return False if the push is to end instead."""
        if self.stop.is_set:
            return False
        self._check_deadline(seconds, f"the next attempt would be in {format_duration(seconds)}")
        self._check_max_wait(seconds, "a feed was not accepted")
        with self._appliance_wait.running():
            self._wait(seconds)
        return not self.stop.is_set

    def _seconds_until_window(self) -> float:
        if not self.window:
            return 0.0
        now = self.now()
        opens_at = self.window.opens_at(now)
        seconds = (opens_at - now).total_seconds()
        self._report_window(self.window, opens_at if seconds else None, now)
        if seconds:
            opening = f"{opens_at:%Y-%m-%d %H:%M %Z}"
            self._check_deadline(seconds, f"the window {self.window.text} opens at {opening}")
        return seconds

    def _report_window(self, window: SendWindow, opens_at: datetime | None, now: datetime) -> None:
        with self._lock:
            is_change = opens_at != self._reported_opening
            self._reported_opening = opens_at
        if is_change and opens_at:
            duration = format_duration((opens_at - now).total_seconds())
            self.notify(
                f"the window {window.text} is closed; the push continues at "
                f"{opens_at:%Y-%m-%d %H:%M %Z}, in {duration}"
            )
        elif is_change:
            closes = window.closes_at(now)
            until = f" until {closes:%Y-%m-%d %H:%M %Z}" if closes else ""
            self.notify(f"the window {window.text} is open; the push continues{until}")

    def _seconds_until_digested(self) -> float:
        if not self.throttle:
            return 0.0
        with self._appliance_wait.running():  # the request for the backlog may take long
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
                f" at most {format_duration(self.max_wait_seconds)} (--max-wait); {_FIX}"
            )

    def _wait(self, seconds: float) -> None:
        (self.wait or self.stop.wait)(max(seconds, _MIN_WAIT_SECONDS))


class _WaitTime:
    """The time in which at least one thread waits."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._threads = 0
        self._since = 0.0
        self._total = 0.0

    def seconds(self) -> float:
        with self._lock:
            return self._total + (self._clock() - self._since if self._threads else 0.0)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the time of this block."""
        with self._lock:
            if not self._threads:
                self._since = self._clock()
            self._threads += 1
        try:
            yield
        finally:
            with self._lock:
                self._threads -= 1
                if not self._threads:
                    self._total += self._clock() - self._since
