"""A receiver: the HTTP server of an appliance, its spool, and its rehearsal index."""

import math
import threading
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from feedferry.pipelines.serve.cluster.rehearsal_cluster import RehearsalCluster
from feedferry.pipelines.serve.gateway import Gateway
from feedferry.pipelines.serve.http.endpoints import Callbacks, Endpoints
from feedferry.pipelines.serve.http.server import HttpServer
from feedferry.pipelines.serve.rehearsal import page, scenario
from feedferry.pipelines.serve.rehearsal.delivery_table import SetAsideDelivery
from feedferry.pipelines.serve.rehearsal.feeder import Digest, Feeder
from feedferry.pipelines.serve.rehearsal.index import INDEX_FILE, Index, digest_delivery
from feedferry.pipelines.serve.settings import ServeSettings
from feedferry.pipelines.serve.spool_writer import SpoolWriter
from feedferry.pipelines.serve.worker_process import WorkerProcess
from feedferry.schemas.delivery import JOURNAL
from feedferry.schemas.errors import ConfigError
from feedferry.transforms.formats import ReadOptions
from feedferry.transforms.sinks.push.throttle.gate import StopSignal


class Receiver:
    """Serves while its block runs, or until it is stopped.

    It raises ConfigError for settings that cannot be used, BusyError if another receiver has the
    spool. With a gateway, the reported backlog is that of the gateway. `digest` runs in the worker
    process.
    """

    def __init__(
        self,
        settings: ServeSettings,
        *,
        gateway: Gateway | None = None,
        digest: Digest = digest_delivery,
    ) -> None:
        self._settings = settings
        self._gateway = gateway
        self._digest = digest
        self._stop = StopSignal()
        self._stopping = threading.Event()
        self._opened = ExitStack()

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def port(self) -> int:
        return self._server.port

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            self._open(opened)
            self._opened = opened.pop_all()
        self._server.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()
        self._stopping.set()
        self._opened.close()

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait for `stop`; return False if the time is up before."""
        return self._stop.wait(math.inf if timeout_seconds is None else timeout_seconds)

    def stop(self) -> None:
        """End `wait`; running requests end with the block. Safe in signal handlers."""
        self._stop.stop()

    def _open(self, opened: ExitStack) -> None:
        settings, gateway = self._settings, self._gateway
        folder = Path(settings.spool)
        rules = scenario.load(Path(settings.scenario)) if settings.scenario else scenario.Scenario()
        self._spool = opened.enter_context(
            SpoolWriter(folder, min_free_bytes=settings.min_free_bytes)
        )
        reading = ReadOptions(max_content_bytes=settings.max_content_bytes)
        self._index = opened.enter_context(Index(folder / INDEX_FILE, reading=reading))
        _check_order(self._index, self._spool)
        worker = WorkerProcess(limit_seconds=settings.feed_seconds)
        self._feeder = opened.enter_context(
            Feeder(self._index, folder, worker=worker, digest=self._digest)
        )
        self._history = (gateway or self._feeder).history
        started = time.monotonic()
        callbacks = Callbacks(
            arrived=self._arrived,
            behave=lambda endpoint: rules.next(endpoint, time.monotonic() - started),
            wait=self._stopping.wait,
            backlog=self._history.sample,
            set_aside=self._set_aside,
            render_page=self._render_page,
        )
        self._cluster = RehearsalCluster(folder)
        opened.callback(self._cluster.close)
        endpoints = Endpoints(settings, self._spool, self._index, self._cluster, callbacks)
        self._server = HttpServer(settings, endpoints.answer)
        opened.callback(self._server.stop)

    def _arrived(self) -> None:
        self._feeder.arrived()
        if self._gateway is not None:
            self._gateway.arrived()

    def _set_aside(self) -> list[SetAsideDelivery]:
        by_gateway = self._gateway.set_aside() if self._gateway else []
        both = (*self._index.deliveries.all_set_aside(), *by_gateway)
        return sorted(both, key=lambda delivery: delivery.ordinal)

    def _render_page(self) -> bytes:
        notices = []
        if self._settings.scenario is not None:
            notices += [f"This receiver follows the scenario {Path(self._settings.scenario).name}."]
        if self._gateway is not None:
            notices += [
                "This receiver forwards: the backlog counts feeds that are not forwarded yet."
            ]
        notices += [
            f"The index {name} has {count:,} documents." for name, count in self._cluster.totals()
        ]
        backlog = self._history.sample()
        view = page.PageView(
            url=self.url,
            now=datetime.now(UTC),
            backlog=backlog,
            history=self._history.ages(),
            feeds=tuple(self._index.deliveries.feed_rows()),
            totals=tuple(self._index.totals()),
            groups=self._index.groups_count(),
            spool_bytes=self._spool.bytes,
            free_bytes=self._spool.free_bytes,
            notices=tuple(notices),
            set_aside=tuple(self._set_aside()),
            spool=str(self._spool.folder),
        )
        return page.render(view)


def _check_order(index: Index, spool: SpoolWriter) -> None:
    """Raise ConfigError for an index with more deliveries than the journal.

    The next deliveries would have ordinals that the index has digested, and would be skipped.
    """
    if index.deliveries.applied > spool.ordinal:
        raise ConfigError(
            f"{index.path}: made from {index.deliveries.applied} deliveries, but {JOURNAL} has"
            f" {spool.ordinal}: remove the file, and it is made again from the deliveries"
        )
