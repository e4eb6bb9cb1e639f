"""How many feeds an appliance has not digested yet, and whether it may be sent more of them.

The push pauses when more than `ceiling` feeds wait there, and goes on when fewer than `floor` do;
between them it stays as it is. The count is asked for at most once in `interval_seconds`.

**Spec:** the deployed connector manager (3.2.2 and later), whose rule and numbers these are. We
differ from it where it goes on without knowing better: feeds that were accepted since the last
count are added to it, so that many small ones cannot overshoot the ceiling within one interval; an
empty answer and a negative count are no counts; after an answer that is none the appliance is asked
again soon, and less and less often; and a pause does not end by itself after some rounds.
"""

import threading
from collections import deque
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from schemas.errors import ConfigError
from schemas.units import format_duration
from transforms.sinks.push.throttle.backoff import Backoff, pause

Count = int | None | str
"""The number; None: the appliance has no such page (404), for good; str: why it is not known."""

_LEAST_SECONDS = 0.001
"""Nobody is told to wait less: the interval must be over, not just reached."""
_ASKING = Backoff()


class BacklogLimits(msgspec.Struct, frozen=True, kw_only=True):
    """When a push pauses for the feeds that wait at the appliance, in feeds."""

    ceiling: int = 4000
    floor: int = 1000
    interval_seconds: float = 120.0

    def __post_init__(self) -> None:
        if self.floor < 1:
            raise ConfigError(
                f"--backlog-floor: {self.floor}; expected 1 or more, for a push goes on when "
                "fewer feeds wait"
            )
        if self.ceiling <= self.floor:
            raise ConfigError(
                f"--backlog-ceiling: {self.ceiling}; expected more than --backlog-floor, which is "
                f"{self.floor}"
            )
        if not self.interval_seconds > 0:
            raise ConfigError(
                f"--backlog-interval: {self.interval_seconds:g} s; expected more than no time"
            )


class BacklogThrottle:
    """Holds back the feeds of all threads that push to one appliance, by its backlog.

    Each thread calls `wait_seconds` until it may send one feed, then `sent` or `doubt`, or
    neither. `ask` is called from one of them at a time, while the others wait for its answer;
    `tell` is given a line when the push pauses and when it goes on, and at most one for each
    interval between.
    """

    def __init__(
        self,
        ask: Callable[[], Count],
        backlog: BacklogLimits,
        *,
        clock: Callable[[], float],
        tell: Callable[[str], None],
        backoff: Backoff = _ASKING,
    ) -> None:
        self._ask = ask
        self._backlog = backlog
        self._clock = clock
        self._tell = tell
        least = min(backoff.base_seconds, backlog.interval_seconds)
        self._backoff = replace(
            backoff,
            base_seconds=least,
            least_seconds=least,
            cap_seconds=min(backoff.cap_seconds, backlog.interval_seconds),
        )
        self._turn = threading.Lock()
        self._lock = threading.Lock()  # of all below
        self._is_supported = True
        self._is_above = False  # the ceiling, and not yet below the floor
        self._unknown: str | None = None
        self._asked_at: float | None = None
        self._delay = backlog.interval_seconds
        self._bad_counts = 0
        self._doubts = 0
        self._counts: deque[tuple[float, int]] = deque(maxlen=2)  # each with its time
        self._count = 0
        self._sent = 0
        self._sending: set[threading.Thread] = set()
        self._told = ""
        self._told_at = 0.0

    def wait_seconds(self) -> float:
        """Return 0 when this thread may send one feed now, else how long to wait until it asks.

        May ask the appliance, and then takes as long as that does.
        """
        with self._turn:
            if self._must_ask():
                self._learn()
            seconds, said = self._left()
            if said:
                self._tell(said)
        return seconds

    def sent(self) -> None:
        """Count a feed of this thread that was accepted."""
        with self._lock:
            self._sending.discard(threading.current_thread())
            self._sent += 1
            self._doubts = 0

    def doubt(self) -> None:
        """Let the appliance be asked before the next feed, for one was not accepted.

        That is soon for the first, and later the more of them there are in a row.
        """
        with self._lock:
            self._sending.discard(threading.current_thread())
            self._doubts += 1
            if self._unknown is None:
                self._unknown = "a feed was not accepted"
                self._delay = pause(self._backoff, failed=self._doubts)

    @property
    def words(self) -> str:
        """What is known of the backlog now."""
        with self._lock:
            if not self._is_supported:
                return "backlog not known: the appliance does not count it"
            if self._asked_at is None:
                return "backlog not asked for yet"
            if self._unknown is not None:
                return f"backlog not known: {self._unknown}"
            return self._trend()

    def _must_ask(self) -> bool:
        with self._lock:
            if self._asked_at is None or not self._is_supported:
                return self._is_supported
            return self._clock() - self._asked_at > self._delay

    def _learn(self) -> None:
        with self._lock:
            sent_before = self._sent
        count = self._ask()
        with self._lock:
            self._asked_at = self._clock()
            self._take(count, sent_before=sent_before)
            said = self._news()
        if said:
            self._tell(said)

    def _take(self, count: Count, *, sent_before: int) -> None:
        if count is None:
            self._is_supported = False
        elif isinstance(count, int) and count >= 0:
            self._take_number(count)
            self._sent -= sent_before  # the rest was accepted while we asked, and may not be in it
        else:
            words = count if isinstance(count, str) else f"{count} feeds"
            self._unknown = words or "no words"
            self._bad_counts += 1
            self._delay = pause(self._backoff, failed=self._bad_counts)

    def _take_number(self, count: int) -> None:
        self._unknown = None
        self._bad_counts = 0
        self._delay = self._backlog.interval_seconds
        self._count = count
        self._counts.append((self._clock(), count))
        limit = self._backlog.floor - 1 if self._is_above else self._backlog.ceiling
        self._is_above = count > limit

    def _left(self) -> tuple[float, str]:
        """How long this thread has to wait, and what is to be told of that."""
        with self._lock:
            if not self._is_supported:
                return 0.0, ""
            self._sending.discard(threading.current_thread())
            self._sending = {thread for thread in self._sending if thread.is_alive()}
            estimate = self._count + self._sent + len(self._sending)
            if self._unknown is None and not self._is_above and estimate <= self._backlog.ceiling:
                self._sending.add(threading.current_thread())
                return 0.0, ""
            self._is_above = self._is_above or self._unknown is None
            said = "" if self._unknown is not None else self._news()
            asked_at = self._asked_at or 0.0
            return max(asked_at + self._delay - self._clock(), _LEAST_SECONDS), said

    def _news(self) -> str:
        """What is to be told: a change, or how a pause goes on when the last word is old."""
        cause = self._cause()
        is_change = cause != self._told
        if not is_change and not self._is_due():
            return ""
        before, self._told, self._told_at = self._told, cause, self._clock()
        return self._changed(before) if is_change else self._unchanged()

    def _cause(self) -> str:
        """Why it pauses, in a word, or why it can never know; "" where it goes on."""
        if not self._is_supported:
            return "unsupported"
        if self._unknown is not None:
            return "unknown"
        return "above" if self._is_above else ""

    def _is_due(self) -> bool:
        is_pause = self._told in ("unknown", "above")
        return is_pause and self._clock() - self._told_at >= self._backlog.interval_seconds

    def _changed(self, before: str) -> str:
        floor = self._backlog.floor
        if self._told == "unsupported":
            return (
                "the appliance does not tell its backlog (404); the push goes on without knowing "
                "it, and --max-rate bounds how fast"
            )
        if self._told == "unknown":
            return (
                f"the backlog is not known: {self._unknown}; the push pauses, and asks again until "
                "it is"
            )
        if self._told == "above":
            return f"{self._excess()}; the push pauses until fewer than {floor:,} wait"
        if before == "unknown":
            return f"{_waiting(self._count)}; the push goes on, for the backlog is known again"
        return f"{_waiting(self._count)}, fewer than the floor of {floor:,}; the push goes on"

    def _excess(self) -> str:
        ceiling, since = self._backlog.ceiling, self._sent + len(self._sending)
        if self._count + since <= ceiling:
            return _waiting(self._count)  # they were more, before the count was not known
        sent = f" and {since:,} sent since" if self._count <= ceiling else ""
        return f"{_waiting(self._count)}{sent}, more than the ceiling of {ceiling:,}"

    def _unchanged(self) -> str:
        if self._unknown is not None:
            return f"the backlog is still not known: {self._unknown}; the push still pauses"
        return f"{self._trend()}; the push goes on when fewer than {self._backlog.floor:,} wait"

    def _trend(self) -> str:
        (then, earlier), (now, count) = self._counts[0], self._counts[-1]
        if len(self._counts) == 1:
            return _waiting(count)
        change = "as many as" if count == earlier else f"{abs(count - earlier):,} "
        if count != earlier:
            change += "more than" if count > earlier else "fewer than"
        return f"{_waiting(count)}, {change} {format_duration(now - then)} ago"


def _waiting(count: int) -> str:
    return f"{count:,} feed{'' if count == 1 else 's'} waiting"
