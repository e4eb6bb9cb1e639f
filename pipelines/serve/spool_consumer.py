"""The deliveries of a spool are processed in their order, by a thread: digested, or forwarded.

Deliveries of one queue are processed strictly in order of arrival. A delivery that cannot be
processed now is tried again, and holds back its queue; other queues go on. A delivery that can
never be processed is set aside, and the next one of its queue follows.
"""

import logging
import math
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import ClassVar, Self

from feedferry.pipelines.serve.worker_process import (
    SetAsideError,
    WorkerEndedError,
    WorkerProcess,
    WorkStoppedError,
)
from feedferry.schemas.delivery import Delivery
from feedferry.schemas.errors import FatalError, FeedferryError
from feedferry.transforms.net.retry import RetryPolicy
from feedferry.transforms.sources.spool import name_of, open_deliveries

LOOK_SECONDS = 1.0
MAX_ENDS = 3
"""A delivery that ended its worker process this often is set aside."""

_SAMPLE_SECONDS = 10.0
_HISTORY_SECONDS = 3600.0
_log = logging.getLogger(__name__)


class BacklogHistory:
    """The backlog over the last hour, for the chart of the page; safe from several threads.

    It has the highest count of each ten seconds. `count` returns the backlog, `now` the time in
    seconds.
    """

    def __init__(
        self, count: Callable[[], int], *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._count = count
        self._now = now
        self._lock = threading.Lock()
        self._samples: deque[tuple[float, int]] = deque()

    def sample(self) -> int:
        """Add a sample, and return the count."""
        with self._lock:
            count, now, samples = self._count(), self._now(), self._samples
            if samples and now - samples[-1][0] < _SAMPLE_SECONDS:
                samples[-1] = samples[-1][0], max(samples[-1][1], count)
            else:
                samples.append((now, count))
            while now - samples[0][0] > _HISTORY_SECONDS:
                samples.popleft()
            return count

    def ages(self) -> tuple[tuple[float, int], ...]:
        """Return how many seconds ago each sample was, and its count, oldest first, and now."""
        with self._lock:
            now = self._now()
            return *((now - at, count) for at, count in self._samples), (0.0, self._count())


@dataclass
class DeliveryQueue:
    """The deliveries of a queue that wait, and until when, by the monotonic clock.

    `failures` counts those of the first one, `ends` how often that has ended its process.
    """

    waiting: deque[Delivery] = field(default_factory=deque)
    failures: int = 0
    ends: int = 0
    until: float = 0.0


class SpoolConsumer(ABC):
    """Processes the deliveries of a spool while its block runs, beginning with the open ones.

    All methods are safe from several threads. At the end, the current delivery has `drain_seconds`;
    then the worker is stopped, and the next start processes it again. A queue whose delivery meets
    one of the errors `final` waits for that start.
    """

    final: ClassVar[tuple[type[Exception], ...]] = ()

    def __init__(
        self, spool: Path, worker: WorkerProcess, *, retry: RetryPolicy, drain_seconds: float = 0.0
    ) -> None:
        self.spool = spool
        self.worker = worker
        self.history = BacklogHistory(self.backlog)
        self._retry = retry
        self._drain_seconds = drain_seconds
        self._lock = threading.Lock()
        self._deliveries = open_deliveries(spool)
        self._last = 0  # ordinal that was read
        self._queues: dict[Hashable, DeliveryQueue] = {}
        self._reported = ""
        self._wake, self._ending = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)

    @abstractmethod
    def is_open(self, delivery: Delivery) -> bool:
        """Whether a delivery in the journal is to be processed."""

    @abstractmethod
    def process(self, delivery: Delivery) -> bool:
        """Process a delivery and store that; return False if it is not ready yet.

        Raises SetAsideError if it can never be processed; after any other error it is tried again.
        """

    @abstractmethod
    def put_aside(self, delivery: Delivery, reason: str) -> None:
        """Store that a delivery is set aside."""

    def queue_of(self, delivery: Delivery) -> Hashable:
        """Return the queue of a delivery; there is one for all if it is not overridden."""
        return None

    def idle(self) -> None:  # noqa: B027 - not every consumer has something else to do
        """Use the time while no delivery is ready."""

    def arrived(self) -> None:
        """Announce new deliveries in the journal."""
        self._wake.set()
        self.history.sample()

    def following(self, delivery: Delivery, count: int) -> list[Delivery]:
        """Return the first deliveries that wait after one of the same queue."""
        with self._lock:
            queue = self._queues.get(self.queue_of(delivery), DeliveryQueue())
            return list(islice(queue.waiting, 1, count))

    def backlog(self) -> int:
        """Return how many deliveries are not processed, including the current one."""
        with self._lock:
            self._read_new()
            return sum(len(queue.waiting) for queue in self._queues.values())

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ending.set()
        self._wake.set()
        self._thread.join(self._drain_seconds)
        self.worker.stop()
        self._thread.join(LOOK_SECONDS)
        self.worker.close()

    def _read_new(self) -> None:
        try:
            for delivery in self._deliveries.read():
                if self.is_open(delivery):
                    queue = self._queues.setdefault(self.queue_of(delivery), DeliveryQueue())
                    queue.waiting.append(delivery)
                self._last = delivery.ordinal
        except (FatalError, OSError) as exc:  # lines after a damaged line cannot be trusted
            if str(exc) != self._reported:
                _log.error("%s", exc)
            self._reported = str(exc)

    def _run(self) -> None:
        while not self._ending.is_set():
            self._wake.clear()
            if not any(map(self._process, self._free_queues())):
                self.idle()
                now = time.monotonic()
                with self._lock:
                    held = [queue.until - now for queue in self._queues.values()]
                pause = min((seconds for seconds in held if seconds > 0), default=LOOK_SECONDS)
                self._wake.wait(min(pause, LOOK_SECONDS))

    def _free_queues(self) -> list[DeliveryQueue]:
        """Return the queues that are not held back; that with the oldest delivery is the first."""
        with self._lock:
            self._read_new()
            now = time.monotonic()
            free = [queue for queue in self._queues.values() if queue.until <= now]
        return sorted(free, key=lambda queue: queue.waiting[0].ordinal)

    def _process(self, queue: DeliveryQueue) -> bool:
        """Process the first delivery of a queue; return whether it was ready."""
        delivery = queue.waiting[0]
        try:
            if not self._attempt(queue, delivery):
                return False
        except WorkStoppedError:
            return True
        except Exception as exc:  # a defect must not stop the other queues
            self._hold_back(queue, delivery, exc)
            return True
        with self._lock:
            queue.waiting.popleft()
            queue.failures = queue.ends = 0
            if not queue.waiting:
                del self._queues[self.queue_of(delivery)]
        self.history.sample()
        return True

    def _attempt(self, queue: DeliveryQueue, delivery: Delivery) -> bool:
        """Process the first delivery of a queue, or set it aside; return whether it was ready."""
        try:
            return self.process(delivery)
        except SetAsideError as exc:
            reason = str(exc)
        except WorkerEndedError:
            queue.ends += 1
            if queue.ends < MAX_ENDS:
                raise
            reason = f"begun {MAX_ENDS} times and never finished: the process ended each time"
        self.put_aside(delivery, reason)
        _log.error("%s", set_aside_message(self.spool, delivery, reason))
        return True

    def _hold_back(self, queue: DeliveryQueue, delivery: Delivery, exc: Exception) -> None:
        """Pause a queue, or hold it back until the next start, which may have other options."""
        if self._ending.is_set():
            return
        is_defect = not isinstance(exc, (FeedferryError, OSError, sqlite3.Error))
        queue.failures += 1
        pause = self._retry.pause_seconds(queue.failures)
        level, when = logging.WARNING, f"tried again in {pause:.0f} s"
        if isinstance(exc, self.final):
            level, when = logging.ERROR, "tried again when the gateway is started again"
            pause = math.inf
        queue.until = time.monotonic() + pause
        held = f"{name(delivery)}: {repr(exc) if is_defect else exc}; held back, with later"
        _log.log(level, "%s", f"{held} deliveries of it; {when}", exc_info=is_defect)


def name(delivery: Delivery) -> str:
    """Return the name of a delivery in a message."""
    return f"delivery {delivery.ordinal} of {name_of(delivery)!r}"


def set_aside_message(spool: Path, delivery: Delivery, reason: str) -> str:
    return (
        f"{name(delivery)}: {reason}; set aside, its feed is {delivery.path}; later deliveries go"
        f" on; to try again, stop the receiver: feedferry serve --spool {spool} --retry"
        f" {delivery.ordinal}"
    )
