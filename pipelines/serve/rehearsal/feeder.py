"""The feeder: a thread that digests the deliveries of a spool into the index, in order.

An appliance answers `Success` when it has stored a feed, and digests it later, in a process of this
name. The number of feeds that are not digested is its backlog. Each delivery is digested in a
worker process with a time limit.
"""

import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Self

from pipelines.serve.rehearsal.index import DeliveryStatus, Index, digest_delivery
from pipelines.serve.retry import name, set_aside_message
from pipelines.serve.worker_process import (
    ATTEMPTS,
    SetAsideError,
    WorkerProcess,
    WorkStoppedError,
)
from schemas.delivery import Delivery
from schemas.errors import FatalError, FeedferryError
from transforms.formats import ReadOptions
from transforms.sources.spool import open_deliveries

Digest = Callable[[Path, Delivery, Path, ReadOptions], None]
"""Digests a delivery that was begun: path of the index, delivery, spool, and how it is read."""

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


class Feeder:
    """Digests the deliveries of a journal while its block runs, beginning with the missing ones.

    Errors of a delivery become its status, and the next delivery follows. If the index cannot be
    written, the same delivery is tried again after `pause_seconds`. A delivery that cannot be
    digested is set aside. All methods are safe from several threads. At the end of the block the
    current delivery is left to the next start.
    """

    def __init__(
        self,
        index: Index,
        spool: Path,
        *,
        worker: WorkerProcess,
        digest: Digest = digest_delivery,
        pause_seconds: float = 5.0,
    ) -> None:
        self._index = index
        self._spool = spool
        self._worker = worker
        self._digest = digest
        self._pause_seconds = pause_seconds
        self._changed = threading.Condition()
        self.history = BacklogHistory(self.backlog)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)
        self._journal = open_deliveries(spool)
        self._reported = ""
        self._applied = index.applied
        self._repeated = frozenset(index.open_deliveries())
        self._waiting: deque[Delivery] = deque()

    def arrived(self) -> None:
        """Announce new deliveries in the journal."""
        with self._changed:
            self._changed.notify_all()
        self.history.sample()

    def backlog(self) -> int:
        """Return how many deliveries are not digested, including the current one."""
        with self._changed:
            return len(self._queue())

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()
        self._worker.stop()
        self._thread.join()
        self._worker.close()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stopping.is_set() or self._queue())
                if self._stopping.is_set():
                    return
                delivery = self._queue()[0]
            try:
                self._apply(delivery)
            except WorkStoppedError:
                return
            except (FeedferryError, sqlite3.Error, OSError) as exc:
                message = (exc.strerror if isinstance(exc, OSError) else None) or exc
                _log.warning("%s: %s; tried again", delivery.path, message)
                self._stopping.wait(self._pause_seconds)
            else:
                with self._changed:
                    self._waiting.popleft()
                self.history.sample()

    def _queue(self) -> deque[Delivery]:
        """Return the deliveries that are not digested; read what is new in the journal.

        Deliveries of a retry come first: they arrived before the last digested delivery.
        """
        try:
            for delivery in self._journal.read():
                if delivery.ordinal > self._applied or delivery.ordinal in self._repeated:
                    self._waiting.append(delivery)
        except FatalError as exc:  # lines after a damaged line cannot be trusted
            if str(exc) != self._reported:
                _log.error("%s", exc)
            self._reported = str(exc)
        return self._waiting

    def _apply(self, delivery: Delivery) -> None:
        index = self._index
        try:
            index.begin(delivery)
            self._worker.run(
                self._digest,
                *(index.path, delivery, self._spool, index.reading),
                size=delivery.bytes,
                attempts=self._spool / ATTEMPTS / f"index-{delivery.ordinal}",
            )
        except SetAsideError as exc:
            _log.error("%s", set_aside_message(self._spool, delivery, exc))
            index.end([delivery.ordinal], DeliveryStatus.SET_ASIDE, str(exc))
        else:
            if errors := index.errors(delivery.ordinal):
                _log.warning("%s: %s", name(delivery), errors)
