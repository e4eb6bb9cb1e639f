"""Everything that may make a push wait before a feed: window, rate, backlog, and an end to both.

A feed that is under way is never held up: what is said here is said between feeds.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from schemas.errors import BusyError
from schemas.units import format_duration
from transforms.sinks.push.throttle.backlog import BacklogThrottle
from transforms.sinks.push.throttle.schedule import Rate, SendWindow

_LEAST_SECONDS = 0.001
_MOST_SECONDS = 60.0
"""A window is looked at so often: the clock on the wall may be set, or the machine fall asleep."""
_CURE = "push again later: it goes on where it was"


class StopSignal:
    """Says that a push is to end behind the feeds that are under way, and ends all waiting.

    `drain` may be called in a signal handler, at any instant. An Event may not: its `set` takes a
    lock that the thread which is interrupted may hold.
    """

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._gate.acquire()
        self._is_drained = False

    @property
    def is_drained(self) -> bool:
        return self._is_drained

    def drain(self) -> None:
        self._is_drained = True
        self._open()

    def wait(self, seconds: float) -> bool:
        """Return whether it was drained, as soon as it is, or after so many seconds."""
        timeout = min(max(seconds, 0.0), threading.TIMEOUT_MAX)
        if not self._is_drained and self._gate.acquire(timeout=timeout):
            self._open()  # for the next one who waits
        return self._is_drained

    def _open(self) -> None:
        with suppress(RuntimeError):  # it is open: two opened it at the same time
            self._gate.release()


@dataclass(kw_only=True, eq=False)
class SendGate:
    """Lets the feeds of all threads that push to one appliance go when their time has come.

    `deadline` is a time of `clock`, behind which no feed begins; `max_wait_seconds` bounds the
    waiting for the appliance, that is for its backlog and between attempts, while any thread does
    so. Waiting for the window or for the rate has no bound but the deadline. `wait` is that of
    `stop`, unless another one is given.

    BusyError comes as soon as nothing can be sent any more within these bounds, rather than at
    their end.
    """

    stop: StopSignal
    clock: Callable[[], float]
    now: Callable[[], datetime]
    tell: Callable[[str], None]
    throttle: BacklogThrottle | None = None
    window: SendWindow | None = None
    rate: Rate | None = None
    deadline: float | None = None
    max_wait_seconds: float | None = None
    wait: Callable[[float], bool] | None = None

    def __post_init__(self) -> None:
        self._patience = _Patience(self.clock)
        self._spacing = _Spacing(self.rate, self.clock) if self.rate else None
        self._lock = threading.Lock()
        self._told_opening: datetime | None = None

    @property
    def waited_seconds(self) -> float:
        """How long the appliance was waited for so far, by one thread or several."""
        return self._patience.seconds()

    def before(self) -> bool:
        """Wait until this thread may send a feed; False says that the push is to end instead."""
        while not self.stop.is_drained:
            self._check_deadline(0.0, "")
            if seconds := self._until_open():
                self._rest(min(seconds, _MOST_SECONDS))
            elif seconds := self._until_due():
                self._rest(seconds)
            elif seconds := self._until_digested():
                self._rest_counted(seconds)
            elif seconds := self._until_taken():
                self._rest(seconds)
            else:
                return not self.stop.is_drained
        return False

    def sent(self, size: int) -> None:
        """Count a feed of so many bytes that this thread sent, and that was accepted."""
        if self._spacing:
            self._spacing.sent(size)
        if self.throttle:
            self.throttle.sent()

    def doubt(self) -> None:
        """Let the backlog be asked for before the next feed, for one was not accepted."""
        if self.throttle:
            self.throttle.doubt()

    def pause(self, seconds: float) -> bool:
        """Wait between two attempts; False says that the push is to end instead."""
        if self.stop.is_drained:
            return False
        self._check_deadline(seconds, f"the next attempt would be in {format_duration(seconds)}")
        self._check_patience(seconds, "a feed was not accepted")
        self._rest_counted(seconds)
        return not self.stop.is_drained

    def _until_open(self) -> float:
        if not self.window:
            return 0.0
        now = self.now()
        seconds = self.window.opens_in(now)
        self._tell_window(self.window, now, seconds)
        if seconds:
            opening = f"{self.window.opens_at(now):%Y-%m-%d %H:%M %Z}"
            self._check_deadline(seconds, f"the window {self.window.text} opens at {opening}")
        return seconds

    def _tell_window(self, window: SendWindow, now: datetime, seconds: float) -> None:
        opening = window.opens_at(now) if seconds else None
        with self._lock:
            is_news = opening != self._told_opening
            self._told_opening = opening
        if is_news and opening:
            self.tell(
                f"the window {window.text} is shut; the push goes on at "
                f"{opening:%Y-%m-%d %H:%M %Z}, in {format_duration(seconds)}"
            )
        elif is_news:
            closes = window.closes_at(now)
            until = f" until {closes:%Y-%m-%d %H:%M %Z}" if closes else ""
            self.tell(f"the window {window.text} is open; the push goes on{until}")

    def _until_due(self) -> float:
        seconds = self._spacing.left() if self._spacing else 0.0
        due = format_duration(seconds)
        self._check_deadline(seconds, f"--max-rate: the next feed is due in {due}")
        return seconds

    def _until_taken(self) -> float:
        return self._spacing.take() if self._spacing else 0.0

    def _until_digested(self) -> float:
        if not self.throttle:
            return 0.0
        with self._patience.waiting():  # it may take its time to tell its backlog
            seconds = self.throttle.wait_seconds()
        if seconds and not self.stop.is_drained:
            words = self.throttle.words
            self._check_deadline(seconds, words)
            self._check_patience(seconds, words)
        return seconds

    def _check_deadline(self, seconds: float, why: str) -> None:
        """Raise BusyError if the deadline is over, or will be after so many seconds."""
        if self.deadline is None:
            return
        left = self.deadline - self.clock()
        if left > seconds:
            return
        moment = f"{self.now() + timedelta(seconds=left):%Y-%m-%d %H:%M %Z}"
        if left <= 0:
            why = "the deadline is over"
        raise BusyError(f"{why}; expected a feed to begin before {moment}; {_CURE}")

    def _check_patience(self, seconds: float, why: str) -> None:
        waited = self._patience.seconds()
        if self.max_wait_seconds is not None and waited + seconds > self.max_wait_seconds:
            raise BusyError(
                f"{why}, after {format_duration(waited)} of waiting for the appliance; expected"
                f" at most {format_duration(self.max_wait_seconds)} of that (--max-wait); {_CURE}"
            )

    def _rest_counted(self, seconds: float) -> None:
        with self._patience.waiting():
            self._rest(seconds)

    def _rest(self, seconds: float) -> None:
        (self.wait or self.stop.wait)(max(seconds, _LEAST_SECONDS))


class _Spacing:
    """Keeps feeds apart, so that all threads together keep to a rate.

    How large a feed is, is known when it was sent. So several threads may each begin one, and the
    next one then waits for all of them.
    """

    def __init__(self, rate: Rate, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._clock = clock
        self._lock = threading.Lock()
        self._due = clock()
        self._begun = threading.local()

    def left(self) -> float:
        with self._lock:
            return max(0.0, self._due - self._clock())

    def take(self) -> float:
        """Return 0 when this thread's feed begins now, else how long until one may."""
        with self._lock:
            now = self._clock()
            if now < self._due:
                return self._due - now
            self._begun.at = now
            if self._rate.feeds_per_second:
                self._due = now + self._rate.seconds(0)
            return 0.0

    def sent(self, size: int) -> None:
        if not self._rate.bytes_per_second:
            return
        with self._lock:
            begun = getattr(self._begun, "at", self._clock())
            self._due = max(self._due, begun) + self._rate.seconds(size)


class _Patience:
    """Adds up the time in which any thread waits for the appliance."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting = 0
        self._since = 0.0
        self._past = 0.0

    def seconds(self) -> float:
        with self._lock:
            return self._past + (self._clock() - self._since if self._waiting else 0.0)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        with self._lock:
            if not self._waiting:
                self._since = self._clock()
            self._waiting += 1
        try:
            yield
        finally:
            with self._lock:
                self._waiting -= 1
                if not self._waiting:
                    self._past += self._clock() - self._since
