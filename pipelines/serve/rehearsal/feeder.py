"""The feeder: a thread that digests what was delivered to a spool, one delivery after the other.

An appliance answers `Success` when it has a feed, and digests it later, in a process of this name.
What it has not digested is its backlog.
"""

import logging
import sqlite3
import threading
from collections import deque
from collections.abc import Iterable
from itertools import takewhile
from pathlib import Path
from typing import Self

from pipelines.serve.rehearsal.backlog_history import History
from pipelines.serve.rehearsal.digest import Interrupted
from pipelines.serve.rehearsal.digest_worker import Digester, InProcess, UndigestibleError
from pipelines.serve.rehearsal.index import Index
from pipelines.serve.rehearsal.set_aside import again, superseding
from pipelines.serve.rehearsal.views import Status
from schemas.delivery import JOURNAL, Delivery
from schemas.errors import FatalError
from transforms.sources.spool import name_of, read_deliveries

_RETRY_SECONDS = 5.0
_LOOK_SECONDS = 1.0
_HELD = (Status.COMPLETED, Status.WITH_ERRORS)
_log = logging.getLogger(__name__)


class Feeder:
    """Applies the deliveries of a journal to an index, in order, those that it lacks first.

    Whatever is wrong with a delivery becomes its status, and the next one follows. Where the index
    cannot be written, the same one is tried again every few seconds. One that cannot be digested is
    set aside, and tried again after `retry`. All methods are safe from several threads; `stop`
    leaves the delivery that is being digested to the next start. The backlog is noted in `history`
    when it changes. `digester` is closed by `stop`.
    """

    def __init__(
        self,
        index: Index,
        spool: Path,
        *,
        retry_seconds: float = _RETRY_SECONDS,
        digester: Digester | None = None,
    ) -> None:
        self._index = index
        self._spool = spool
        self._retry_seconds = retry_seconds
        self._digester = digester or InProcess(index, spool)
        self._journal = _Journal(spool, after=index.applied, again=index.left_behind())
        self._retries: deque[int] = deque()
        self._retried: set[int] = set()
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

    def retry(self, ordinal: int) -> bool:
        """Have a delivery that is set aside digested again, and what came after it of its name.

        Returns False until that was noted, between two deliveries: ask again then.
        """
        with self._changed:
            if ordinal in self._retried:
                self._retried.remove(ordinal)
                return True
            if ordinal not in self._retries:
                self._retries.append(ordinal)
                self._changed.notify_all()
            return False

    def stop(self) -> None:
        """Stop soon, in the middle of a delivery too, and wait for that."""
        self._stopping.set()
        self._digester.stop()
        with self._changed:
            self._changed.notify_all()
        while self._thread.is_alive():
            self._digester.stop()  # it may have begun another one when it was first told
            self._thread.join(_LOOK_SECONDS)
        self._digester.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                while self._retries:
                    self._requeue(self._retries[0])
                    with self._changed:
                        self._retried.add(self._retries.popleft())
                delivery = self._next()
                if delivery is not None:
                    self._apply(delivery)
            except Interrupted:
                return
            except (sqlite3.Error, OSError) as exc:
                _log.warning("%s; tried again", _told(exc))
                self._stopping.wait(self._retry_seconds)

    def _apply(self, delivery: Delivery) -> None:
        try:
            self._digester.apply(delivery, stopping=self._stopping.is_set)
        except UndigestibleError as exc:
            _log.error(
                "delivery %s of %r: %s; set aside, what comes after it goes on; to try again: "
                "feedferry serve --spool %s --retry %s",
                delivery.ordinal, name_of(delivery), exc, self._spool, delivery.ordinal,
            )  # fmt: skip
            self._index.set_aside(delivery, str(exc))
        except (sqlite3.Error, OSError) as exc:
            exc.add_note(str(delivery.path))
            raise
        with self._changed:
            self._journal.applied()
            self._changed.notify_all()
        self.history.note()

    def _next(self) -> Delivery | None:
        """Wait for a delivery and return it; None if there is something else to do."""
        with self._changed:
            self._changed.wait_for(self._is_wanted)
            waiting = self._journal.waiting()
            return None if self._stopping.is_set() or self._retries else waiting[0]

    def _is_wanted(self) -> bool:
        return self._stopping.is_set() or bool(self._retries) or bool(self._journal.waiting())

    def _requeue(self, ordinal: int) -> None:
        """Put a delivery that is set aside, and all after it of its name, into the queue again."""
        index = self._index
        if index.status(ordinal) is not Status.SET_ASIDE:
            return
        try:
            repeated = again(read_deliveries(self._spool, after=ordinal - 1), ordinal)
        except FatalError as exc:
            _log.error("%s", exc)
            return
        begun = [one for one in repeated if one.ordinal <= index.applied]
        done = [one for one in begun if index.status(one.ordinal) in _HELD]
        later = superseding((*begun[:1], *done))
        if later is not None:
            index.drop(ordinal, f"superseded by delivery {later.ordinal}, and not digested")
            return
        index.requeue(one.ordinal for one in begun)
        with self._changed:
            self._journal = _Journal(self._spool, after=index.applied, again=index.left_behind())


def _told(exc: sqlite3.Error | OSError) -> str:
    """Return what went wrong, after the notes that say where."""
    found = exc.strerror or str(exc) if isinstance(exc, OSError) else str(exc)
    return ": ".join((*getattr(exc, "__notes__", ()), found))


class _Journal:
    """What waits in a journal, which is only read again when it has grown.

    That is what came `after` an ordinal, and before it what is to be digested `again`.
    """

    def __init__(self, spool: Path, *, after: int, again: Iterable[int] = ()) -> None:
        self._spool = spool
        self._last = after
        self._size = 0
        ordinals = frozenset(again)
        earlier = read_deliveries(spool, min(ordinals) - 1) if ordinals else iter(())
        earlier = takewhile(lambda one: one.ordinal <= after, earlier)
        self._waiting = deque(one for one in earlier if one.ordinal in ordinals)

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
