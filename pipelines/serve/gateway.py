"""A gateway: forwards the deliveries of a receiver to another appliance, as they arrive.

Each datasource, groupsource and profile has its own queue, strictly in the order of arrival. A
delivery that cannot be forwarded now is tried again, and holds back its queue; other queues go on.
The backlog that the receiver reports counts deliveries that are not forwarded, so that clients slow
down.
"""

import logging
import math
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Self

from msgspec.structs import replace

from pipelines.serve.forward_journal import FOLDER, DeliveryOutcome, ForwardState
from pipelines.serve.forwarder import Forwarder
from pipelines.serve.rehearsal.index import SetAsideDelivery
from pipelines.serve.retry import describe, name
from schemas.delivery import JOURNAL, Delivery, Door
from schemas.errors import ConfigError, FeedferryError, StoppedError
from transforms.net.retry import RetryPolicy
from transforms.sinks.push.outcome import PushProgress
from transforms.sinks.push.pusher import Pusher
from transforms.sinks.push.throttle.gate import StopSignal
from transforms.sources.spool import open_deliveries, queue_of

RETRY = RetryPolicy(first_seconds=5.0, max_seconds=300.0, jitter=lambda: 1.0)
"""The pauses of a queue; one gateway needs no jitter."""

DRAIN_SECONDS = 30.0
"""How long the current delivery may take when the gateway stops."""

UPDATE_SECONDS = 60.0
"""Thunderstone's search indexes are updated at most this often."""

_LOOK_SECONDS = 1.0
_MAX_SET_ASIDE = 1000
_log = logging.getLogger(__name__)


@dataclass
class DatasourceQueue:
    """The deliveries of a datasource that wait, and until when, by the monotonic clock."""

    waiting: deque[Delivery] = field(default_factory=deque)
    failures: int = 0
    until: float = 0.0


class Gateway:
    """Forwards the deliveries of a spool in its own thread while its block runs.

    The worker of the forwarder is closed at the end. Safe from several threads.
    """

    def __init__(
        self,
        forwarder: Forwarder,
        *,
        retry: RetryPolicy = RETRY,
        drain_seconds: float = DRAIN_SECONDS,
    ) -> None:
        self._forwarder = forwarder
        self._spool = forwarder.spool
        self._retry = retry
        self._drain_seconds = drain_seconds
        self._stop = StopSignal()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gateway", daemon=True)
        self._lock = threading.Lock()
        self._queues: dict[tuple[Door, str], DatasourceQueue] = {}
        self._deliveries = open_deliveries(self._spool)
        self._last_queued = 0
        self._aside: dict[int, Delivery] = {}
        self._needs_update = False
        self._updated = -math.inf

    def __enter__(self) -> Self:
        with self._lock:
            self._queue_new()
            self._check_order()
            self._forwarder.clear_settled()
            journal = self._forwarder.journal
            self._needs_update = journal.last > 0  # it may have been killed before
            if journal.set_aside:
                _log.info("%d deliveries are set aside so far", len(journal.set_aside))
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ending.set()
        self._stop.stop()
        self._thread.join(self._drain_seconds)
        self._forwarder.worker.stop()
        self._thread.join(_LOOK_SECONDS)
        if self._thread.is_alive():  # as after a kill, receipts decide about sending again
            _log.warning(
                "the current delivery has no reply yet; it is sent again at the next start"
            )
        else:
            self._forwarder.journal.close()
        self._forwarder.worker.close()

    def set_aside(self) -> list[SetAsideDelivery]:
        """Return the deliveries that are set aside, in order, as many as a page shows."""
        with self._lock:
            outcomes = self._forwarder.journal.set_aside
            ordinals = sorted(outcomes)[:_MAX_SET_ASIDE]
            return [describe(outcomes[each], self._aside.get(each)) for each in ordinals]

    def backlog(self) -> int:
        """Return the number of deliveries that are not forwarded."""
        with self._lock:
            self._queue_new()
            return sum(len(queue.waiting) for queue in self._queues.values())

    def _check_order(self) -> None:
        """Raise ConfigError if the journal of the spool is shorter than that of the gateway.

        The next deliveries would have ordinals that count as forwarded.
        """
        last = self._forwarder.journal.last
        if self._last_queued < last:
            raise ConfigError(
                f"{self._forwarder.journal.path}: has delivery {last}, but {JOURNAL} ends"
                " before it; expected its line there; restore the line, as the next delivery would"
                " have its number and count as forwarded"
            )

    def _queue_new(self) -> None:
        journal = self._forwarder.journal
        for delivery in self._deliveries.read():
            # A queue needs no more of a delivery in memory.
            short = replace(delivery, client="", user_agent="")
            if not journal.is_settled(delivery.ordinal):
                queue = self._queues.setdefault(queue_of(delivery), DatasourceQueue())
                queue.waiting.append(short)
            elif delivery.ordinal in journal.set_aside:
                self._aside[delivery.ordinal] = short
            self._last_queued = delivery.ordinal

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                progress = PushProgress(_log.info)
                with Pusher(self._forwarder.settings, stop=self._stop, progress=progress) as pusher:
                    self._forward_all(pusher)
            except (FeedferryError, OSError) as exc:
                pause = self._retry.pause_seconds(1)
                _log.warning("nothing is forwarded: %s; tried again in %.0f s", exc, pause)
                self._ending.wait(pause)
            self._stop = StopSignal()

    def _forward_all(self, pusher: Pusher) -> None:
        """Forward deliveries as they arrive, until the gateway or the push is stopped."""
        while not (self._ending.is_set() or self._stop.is_set):
            queue = self._next_queue()
            if queue is None:
                self._update_index(pusher)
                self._ending.wait(_LOOK_SECONDS)
            else:
                self._forward(queue, pusher)

    def _update_index(self, pusher: Pusher) -> None:
        """Make pushed data searchable on Thunderstone: when idle, and not too often."""
        is_due = time.monotonic() >= self._updated + UPDATE_SECONDS
        if self._needs_update and is_due and self._forwarder.protocol.has_index_updates:
            pusher.update_index(self._spool / FOLDER)
            self._needs_update, self._updated = False, time.monotonic()

    def _next_queue(self) -> DatasourceQueue | None:
        """Return the queue with the oldest delivery, of those that are not held back."""
        with self._lock:
            self._queue_new()
            now = time.monotonic()
            free = [queue for queue in self._queues.values() if queue.until <= now]
        in_order = sorted(free, key=lambda queue: queue.waiting[0].ordinal)
        is_ready = self._forwarder.is_ready
        return next((queue for queue in in_order if is_ready(queue.waiting[0])), None)

    def _forward(self, queue: DatasourceQueue, pusher: Pusher) -> None:
        delivery = queue.waiting[0]
        try:
            self._settle(queue, delivery, self._forwarder.forward(delivery, pusher))
        except Exception as exc:  # a defect must not stop the other queues
            self._hold_back(queue, delivery, exc)
        else:
            self._forwarder.clear(delivery.ordinal)

    def _settle(self, queue: DatasourceQueue, delivery: Delivery, outcome: DeliveryOutcome) -> None:
        with self._lock:
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            self._forwarder.journal.append(replace(outcome, at=now))
            queue.waiting.popleft()
            if outcome.state is ForwardState.SET_ASIDE:
                self._aside[delivery.ordinal] = delivery
            queue.failures = 0
            self._needs_update = True
            if not queue.waiting:
                del self._queues[queue_of(delivery)]

    def _hold_back(self, queue: DatasourceQueue, delivery: Delivery, exc: Exception) -> None:
        """Pause a queue, or hold it back until the gateway is started with other options."""
        if self._ending.is_set():
            return
        is_defect = not isinstance(exc, (FeedferryError, OSError))
        message = repr(exc) if is_defect else str(exc)
        queue.failures += 1
        pause = self._retry.pause_seconds(queue.failures)
        level, when = logging.WARNING, f"tried again in {pause:.0f} s"
        if isinstance(exc, (StoppedError, ConfigError)):
            pause, when = math.inf, "tried again when the gateway is started again"
            level = logging.ERROR
        queue.until = time.monotonic() + pause
        held = f"{name(delivery)}: {message}; held back, with later deliveries of it; {when}"
        _log.log(level, "%s", held, exc_info=is_defect)
