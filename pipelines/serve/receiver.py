"""A receiver: the door of an appliance, the spool behind it, and what the appliance would hold."""

import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Self

from pipelines.serve.http.endpoints import Doors
from pipelines.serve.http.get_endpoints import Lookups
from pipelines.serve.http.post_endpoints import Posts
from pipelines.serve.http.server import Server
from pipelines.serve.rehearsal import scenario
from pipelines.serve.rehearsal.backlog_history import History
from pipelines.serve.rehearsal.digest_worker import Digest, Isolated, digest_delivery
from pipelines.serve.rehearsal.feeder import Feeder
from pipelines.serve.rehearsal.index import Index
from pipelines.serve.rehearsal.overview import Overview
from pipelines.serve.rehearsal.set_aside import SetAside, TimeLimit
from pipelines.serve.settings import ServeSettings
from pipelines.serve.spool_writer import Spool
from schemas.delivery import JOURNAL
from schemas.errors import ConfigError
from transforms.formats.base import ReadOptions

INDEX = "index.db"


class Receiver:
    """Serves while its block runs, or until it is stopped.

    It raises ConfigError for settings that cannot be used, BusyError if another receiver has the
    spool. What clients delivered stays in the spool, and in the index beside it. `backlog` counts
    what is not digested yet; what the index has not, unless told otherwise. `set_aside` returns
    what others than the index have set aside. `digest` is what runs in the worker process.
    """

    def __init__(
        self,
        settings: ServeSettings,
        *,
        backlog: Callable[[], int] | None = None,
        set_aside: Callable[[], list[SetAside]] = list,
        digest: Digest = digest_delivery,
    ) -> None:
        self._settings = settings
        self._backlog = backlog
        self._set_aside = set_aside
        self._digest = digest
        self._told: queue.SimpleQueue[None] = queue.SimpleQueue()  # an Event is not reentrant
        self._stopping = threading.Event()
        self._open = ExitStack()

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def port(self) -> int:
        return self._server.port

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            self._begin(opened)
            self._open = opened.pop_all()
        self._server.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()
        self._stopping.set()
        self._open.close()

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Return when the receiver is told to stop, or when the time is up: then False."""
        try:
            self._told.get(timeout=timeout_seconds)
        except queue.Empty:
            return False
        self._told.put(None)  # for whoever waits next
        return True

    def stop(self) -> None:
        """Tell it to stop; running requests end when its block does. Safe in signal handlers."""
        self._told.put(None)

    def idle(self, timeout_seconds: float) -> bool:
        """Wait until all that was delivered is digested; return whether it is, in that time."""
        return self._feeder.idle(timeout_seconds)

    def retry(self, ordinal: int) -> bool:
        """Have a delivery that the index has set aside digested again; return whether it is noted.

        Until then, ask again.
        """
        return self._feeder.retry(ordinal)

    def _begin(self, opened: ExitStack) -> None:
        settings = self._settings
        folder = Path(settings.spool)
        behaviours = scenario.load(Path(settings.scenario)) if settings.scenario else scenario.NONE
        spool = opened.enter_context(Spool(folder, min_free_bytes=settings.min_free_bytes))
        reading = ReadOptions(max_content_bytes=settings.max_content_bytes)
        index = opened.enter_context(Index(folder / INDEX, reading=reading))
        _check_order(index, spool)
        limit = TimeLimit(seconds=settings.feed_seconds)
        digester = Isolated(index, folder, limit=limit, digest=self._digest)
        self._feeder = opened.enter_context(Feeder(index, folder, digester=digester))
        history = History(self._backlog) if self._backlog else self._feeder.history
        posts = Posts(
            spool,
            index,
            arrived=self._feeder.arrived,
            profiles=settings.profiles,
            reading=reading,
            limit=limit,
        )
        notices = tuple(self._notices())
        all_set_aside = partial(_all_set_aside, index, self._set_aside)
        overview = Overview(index, spool, history=history, notices=notices)
        lookups = Lookups(
            index,
            backlog=history.note,
            set_aside=all_set_aside,
            show=lambda: overview.show(self.url, all_set_aside()),
        )
        started = time.monotonic()
        doors = Doors(
            settings,
            posts,
            lookups,
            behave=lambda door: behaviours.next(door, time.monotonic() - started),
            wait=self._stopping.wait,
        )
        self._server = Server(settings, doors.answer)
        opened.callback(self._server.stop)

    def _notices(self) -> Iterator[str]:
        """Yield what must be known to who looks at the page."""
        if self._settings.scenario is not None:
            yield f"It misbehaves, as {Path(self._settings.scenario).name} tells it to."
        if self._backlog is not None:
            yield "It forwards what comes in: the backlog is what is not forwarded yet."


def _all_set_aside(index: Index, others: Callable[[], list[SetAside]]) -> list[SetAside]:
    return sorted((*index.all_set_aside(), *others()), key=lambda one: one.ordinal)


def _check_order(index: Index, spool: Spool) -> None:
    """Raise ConfigError for an index that knows of more than was delivered.

    What comes next would have the ordinals of what the index has digested, and be passed over.
    """
    if index.applied > spool.ordinal:
        raise ConfigError(
            f"{index.path}: made of {index.applied} deliveries, {JOURNAL} has {spool.ordinal}; "
            "remove it, and it is made again of what was delivered"
        )
