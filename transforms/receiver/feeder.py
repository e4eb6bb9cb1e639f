"""The feeder: a thread that digests what was delivered to a spool, one delivery after the other.

An appliance answers `Success` when it has a feed, and digests it later, in a process of this name.
What it has not digested is its backlog.
"""

import logging
import sqlite3
import threading
from collections import deque
from pathlib import Path
from typing import Self

from schemas.delivery import JOURNAL, Delivery
from schemas.errors import FatalError
from transforms.receiver.digest import Interrupted
from transforms.receiver.history import History
from transforms.receiver.index import Index
from transforms.sources.spool import read_deliveries

_RETRY_SECONDS = 5.0
_log = logging.getLogger(__name__)


class Feeder:
    """Applies the deliveries of a journal to an index, in order, those that it lacks first.

    Whatever is wrong with a delivery becomes its status, and the next one follows. Where the index
    cannot be written, the same one is tried again every few seconds. All methods are safe from
    several threads; `stop` leaves the delivery that is being digested to the next start. The
    backlog is noted in `history` when it changes.
    """

    def __init__(
        self,
        index: Index,
        spool: Path,
        *,
        retry_seconds: float = _RETRY_SECONDS,
    ) -> None:
        self._index = index
        self._spool = spool
        self._retry_seconds = retry_seconds
        self._journal = _Journal(spool, after=index.applied)
        self._changed = threading.Condition()
        self.history = History(self.backlog)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)

    def start(self) -> None:
        """Begin to digest."""
        self._thread.start()

    def arrived(self) -> None:
        """Tell of deliveries that stand in the journal now."""
        with self._changed:
            self._changed.notify_all()
        self.history.note()

    def backlog(self) -> int:
        """Return how many deliveries are not digested, that which is being digested among them."""
        with self._changed:
            return len(self._journal.waiting())

    def idle(self, timeout_seconds: float) -> bool:
        """Wait until all is digested; return whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._journal.waiting(), timeout_seconds)

    def stop(self) -> None:
        """Stop soon, in the middle of a delivery too, and wait for that."""
        self._stopping.set()
        self._index.interrupt()
        with self._changed:
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def _run(self) -> None:
        while (delivery := self._next()) is not None:
            try:
                self._index.apply(delivery, self._spool, stopping=self._stopping.is_set)
            except Interrupted:
                return
            except sqlite3.Error as exc:
                _log.warning("%s: %s; tried again", delivery.path, exc)
                self._stopping.wait(self._retry_seconds)
                continue
            with self._changed:
                self._journal.applied()
                self._changed.notify_all()
            self.history.note()

    def _next(self) -> Delivery | None:
        """Wait for a delivery; return the first that waits, or None when it is time to stop."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopping.is_set() or self._journal.waiting())
            return None if self._stopping.is_set() else self._journal.waiting()[0]


class _Journal:
    """What waits in a journal, which is only read again when it has grown."""

    def __init__(self, spool: Path, *, after: int) -> None:
        self._spool = spool
        self._last = after
        self._size = 0
        self._waiting: deque[Delivery] = deque()

    def waiting(self) -> deque[Delivery]:
        """Return what is not applied, in order of arrival."""
        size = self._stat()
        if size != self._size:
            self._size = size
            try:
                for delivery in read_deliveries(self._spool, self._last):
                    self._waiting.append(delivery)
                    self._last = delivery.ordinal
            except FatalError as exc:  # what stands behind a damaged line cannot be trusted
                _log.error("%s", exc)
        return self._waiting

    def applied(self) -> None:
        """Let go of the first that waits."""
        self._waiting.popleft()

    def _stat(self) -> int:
        try:
            return (self._spool / JOURNAL).stat().st_size
        except OSError:
            return 0
