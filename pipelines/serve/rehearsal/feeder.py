"""The feeder: a thread that digests the deliveries of a spool into the index, in order.

An appliance answers `Success` when it has stored a feed, and digests it later, in a process of this
name. The number of feeds that are not digested is its backlog. Each delivery is digested in a
worker process with a time limit.
"""

import logging
import sqlite3
import threading
from collections import deque
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from typing import Self

from pipelines.serve.rehearsal.backlog_history import BacklogHistory
from pipelines.serve.rehearsal.index import Index, digest_delivery
from pipelines.serve.rehearsal.views import DeliveryStatus
from pipelines.serve.set_aside import (
    MAX_ATTEMPTS,
    TOO_MANY_ATTEMPTS,
    SetAsideError,
    deliveries_to_repeat,
    find_superseding,
    remove_retry_request,
    requested_retries,
)
from pipelines.serve.worker_process import GuardedWorker, WorkerEndedError, WorkStoppedError
from schemas.delivery import JOURNAL, Delivery
from schemas.errors import FatalError, FeedferryError
from transforms.formats import ReadOptions
from transforms.sources.spool import name_of, read_deliveries

Digest = Callable[[Path, Delivery, Path, ReadOptions], None]
"""Digests a delivery that was begun: path of the index, delivery, spool, and how it is read."""

_APPLIED = (DeliveryStatus.COMPLETED, DeliveryStatus.WITH_ERRORS)
_log = logging.getLogger(__name__)


class Feeder:
    """Digests the deliveries of a journal while its block runs, beginning with the missing ones.

    Errors of a delivery become its status, and the next delivery follows. If the index cannot be
    written, the same delivery is tried again after `pause_seconds`. A delivery that cannot be
    digested is set aside. The retry folder is read every `look_seconds`: a delivery in it is
    digested again, and then `on_retry` is called. All methods are safe from several threads. At the
    end of the block the current delivery is left to the next start.
    """

    def __init__(  # noqa: PLR0913 - the collaborators of a digestion, and its pauses
        self,
        index: Index,
        spool: Path,
        *,
        worker: GuardedWorker,
        digest: Digest = digest_delivery,
        on_retry: Callable[[int], None] = lambda ordinal: None,
        pause_seconds: float = 5.0,
        look_seconds: float = 1.0,
    ) -> None:
        self._index = index
        self._spool = spool
        self._worker = worker
        self._digest = digest
        self._on_retry = on_retry
        self._pause_seconds = pause_seconds
        self._look_seconds = look_seconds
        self._queue = _DeliveryQueue(spool, index)
        self._changed = threading.Condition()
        self.history = BacklogHistory(self.backlog)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)

    def arrived(self) -> None:
        """Announce new deliveries in the journal."""
        with self._changed:
            self._changed.notify_all()
        self.history.sample()

    def backlog(self) -> int:
        """Return how many deliveries are not digested, including the current one."""
        with self._changed:
            return len(self._queue.read())

    def wait_until_idle(self, timeout_seconds: float) -> bool:
        """Wait until all deliveries are digested; return False if the time is up before."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._queue.read(), timeout_seconds)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()
        while self._thread.is_alive():
            self._worker.stop()
            self._thread.join(self._look_seconds)
        self._worker.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                for ordinal in requested_retries(self._spool):
                    self._requeue(ordinal)
                    self._on_retry(ordinal)  # after the index: a gateway may need its deletions
                    remove_retry_request(self._spool, ordinal)
                delivery = self._next()
                if delivery is not None:
                    self._apply(delivery)
            except WorkStoppedError:
                return
            except (FeedferryError, sqlite3.Error, OSError) as exc:
                _log.warning("%s; tried again", _describe(exc))
                self._stopping.wait(self._pause_seconds)

    def _next(self) -> Delivery | None:
        """Wait a moment for a delivery and return it."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._stopping.is_set() or self._queue.read(), self._look_seconds
            )
            waiting = self._queue.read()
            return waiting[0] if waiting and not self._stopping.is_set() else None

    def _apply(self, delivery: Delivery) -> None:
        try:
            self._digest_isolated(delivery)
        except SetAsideError as exc:
            _log.error(
                "delivery %s of %r: %s; set aside, later deliveries are digested; to try again: "
                "feedferry serve --spool %s --retry %s",
                delivery.ordinal, name_of(delivery), exc, self._spool, delivery.ordinal,
            )  # fmt: skip
            self._index.set_aside(delivery, str(exc))
        except (FeedferryError, sqlite3.Error, OSError) as exc:
            exc.add_note(str(delivery.path))
            raise
        with self._changed:
            self._queue.remove_first()
            self._changed.notify_all()
        self.history.sample()

    def _digest_isolated(self, delivery: Delivery) -> None:
        """Digest a delivery in the worker process; only attempts that ended the process count."""
        index = self._index
        if index.state(delivery.ordinal)[1] >= MAX_ATTEMPTS:
            raise SetAsideError(TOO_MANY_ATTEMPTS)
        index.begin(delivery)
        arguments = (index.path, delivery, self._spool, index.reading)
        try:
            self._worker.run(self._digest, *arguments, size=delivery.bytes)
        except WorkerEndedError as exc:
            raise OSError(None, str(exc)) from exc
        except (WorkStoppedError, FeedferryError, sqlite3.Error, OSError):
            index.forget_attempts()
            raise

    def _requeue(self, ordinal: int) -> None:
        """Put a delivery that is set aside, and all later ones of its queue, in the queue again."""
        index = self._index
        if index.state(ordinal)[0] is not DeliveryStatus.SET_ASIDE:
            return
        try:
            repeated = deliveries_to_repeat(read_deliveries(self._spool, ordinal - 1), ordinal)
        except FatalError as exc:
            _log.error("%s", exc)
            return
        begun = [delivery for delivery in repeated if delivery.ordinal <= index.applied]
        applied = [one for one in begun[1:] if index.state(one.ordinal)[0] in _APPLIED]
        later = find_superseding((*begun[:1], *applied))
        if later is not None:
            index.drop(begun[0], f"superseded by delivery {later.ordinal}, and not digested")
            return
        index.requeue(delivery.ordinal for delivery in begun)
        with self._changed:
            self._queue = _DeliveryQueue(self._spool, index)


def _describe(exc: Exception) -> str:
    """Return the message after the notes, which name the file."""
    message = exc.strerror or str(exc) if isinstance(exc, OSError) else str(exc)
    return ": ".join((*getattr(exc, "__notes__", ()), message))


class _DeliveryQueue:
    """The deliveries of a journal that are not digested; it is read again only when it has grown.

    Deliveries of a retry come first: they arrived before the last digested delivery.
    """

    def __init__(self, spool: Path, index: Index) -> None:
        self._spool = spool
        self._last = last = index.applied
        self._size = 0
        ordinals = frozenset(index.open_deliveries())
        earlier = read_deliveries(spool, min(ordinals) - 1) if ordinals else iter(())
        repeated = takewhile(lambda delivery: delivery.ordinal <= last, earlier)
        self._waiting = deque(one for one in repeated if one.ordinal in ordinals)

    def read(self) -> deque[Delivery]:
        """Return the deliveries that are not digested, in order of arrival."""
        try:
            size = (self._spool / JOURNAL).stat().st_size
        except OSError:
            size = 0
        if size != self._size:
            self._size = size
            try:
                for delivery in read_deliveries(self._spool, self._last):
                    self._waiting.append(delivery)
                    self._last = delivery.ordinal
            except FatalError as exc:  # lines after a damaged line cannot be trusted
                _log.error("%s", exc)
        return self._waiting

    def remove_first(self) -> None:
        self._waiting.popleft()
