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
from itertools import takewhile
from pathlib import Path
from typing import Self

from pipelines.serve.rehearsal.index import Index, digest_delivery
from pipelines.serve.worker_process import (
    ATTEMPTS,
    SetAsideError,
    WorkerProcess,
    WorkStoppedError,
)
from schemas.delivery import JOURNAL, Delivery
from schemas.errors import FatalError, FeedferryError
from transforms.formats import ReadOptions
from transforms.sources.spool import name_of, read_deliveries

Digest = Callable[[Path, Delivery, Path, ReadOptions], None]
"""Digests a delivery that was begun: path of the index, delivery, spool, and how it is read."""

_MAX_SAMPLES = 100_000
_log = logging.getLogger(__name__)


class BacklogHistory:
    """Samples of the backlog over the last hours, for the chart of the page; thread-safe."""

    def __init__(self, count: Callable[[], int], *, now: Callable[[], float] = time.time) -> None:
        self._count = count
        self._now = now
        self._lock = threading.Lock()
        self._samples: deque[tuple[float, int]] = deque(maxlen=_MAX_SAMPLES)

    def sample(self) -> int:
        """Add a sample and return the count; of equal samples, the first and the last are kept."""
        with self._lock:
            count = self._count()
            samples = self._samples
            if len(samples) > 1 and samples[-1][1] == samples[-2][1] == count:
                samples.pop()
            samples.append((self._now(), count))
            return count

    def since(self, moment: float) -> list[tuple[float, int]]:
        """Return the samples from a moment on, as seconds since 1970 and counts."""
        with self._lock:
            return [(at, count) for at, count in self._samples if at >= moment]


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
        self._journal_size = 0
        self._last_queued = last = index.applied
        ordinals = frozenset(index.open_deliveries())
        earlier = read_deliveries(spool, min(ordinals) - 1) if ordinals else iter(())
        repeated = takewhile(lambda delivery: delivery.ordinal <= last, earlier)
        self._waiting = deque(one for one in repeated if one.ordinal in ordinals)

    def arrived(self) -> None:
        """Announce new deliveries in the journal."""
        with self._changed:
            self._changed.notify_all()
        self.history.sample()

    def backlog(self) -> int:
        """Return how many deliveries are not digested, including the current one."""
        with self._changed:
            return len(self._queue())

    def wait_until_idle(self, timeout_seconds: float) -> bool:
        """Wait until all deliveries are digested; return False if the time is up before."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._queue(), timeout_seconds)

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
        while not self._stopping.is_set():
            try:
                with self._changed:
                    self._changed.wait_for(lambda: self._stopping.is_set() or self._queue())
                    waiting = self._queue()
                if waiting and not self._stopping.is_set():
                    self._apply(waiting[0])
            except WorkStoppedError:
                return
            except (FeedferryError, sqlite3.Error, OSError) as exc:
                _log.warning("%s; tried again", _describe(exc))
                self._stopping.wait(self._pause_seconds)

    def _queue(self) -> deque[Delivery]:
        """Return the deliveries that are not digested; read the journal if it has grown.

        Deliveries of a retry come first: they arrived before the last digested delivery.
        """
        try:
            size = (self._spool / JOURNAL).stat().st_size
        except OSError:
            size = 0
        if size != self._journal_size:
            self._journal_size = size
            try:
                for delivery in read_deliveries(self._spool, self._last_queued):
                    self._waiting.append(delivery)
                    self._last_queued = delivery.ordinal
            except FatalError as exc:  # lines after a damaged line cannot be trusted
                _log.error("%s", exc)
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
            _log.error(
                "delivery %s of %r: %s; set aside, later deliveries are digested; to try again, "
                "stop the receiver: feedferry serve --spool %s --retry %s",
                delivery.ordinal, name_of(delivery), exc, self._spool, delivery.ordinal,
            )  # fmt: skip
            index.set_aside(delivery, str(exc))
        except (FeedferryError, sqlite3.Error, OSError) as exc:
            exc.add_note(str(delivery.path))
            raise
        with self._changed:
            self._waiting.popleft()
            self._changed.notify_all()
        self.history.sample()


def _describe(exc: Exception) -> str:
    """Return the message after the notes, which name the file."""
    message = exc.strerror or str(exc) if isinstance(exc, OSError) else str(exc)
    return ": ".join((*getattr(exc, "__notes__", ()), message))
