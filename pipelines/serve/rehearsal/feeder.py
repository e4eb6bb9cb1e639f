"""The feeder digests the deliveries of a spool into the index, in order.

An appliance answers `Success` when it has stored a feed, and digests it later, in a process of this
name. The number of feeds that are not digested is its backlog. Each delivery is digested in a
worker process with a time limit.
"""

import logging
from collections.abc import Callable
from pathlib import Path

from feedferry.pipelines.serve.rehearsal.delivery_table import DeliveryStatus
from feedferry.pipelines.serve.rehearsal.index import Index, digest_delivery
from feedferry.pipelines.serve.spool_consumer import SpoolConsumer, name
from feedferry.pipelines.serve.worker_process import WorkerProcess
from feedferry.schemas.delivery import Delivery
from feedferry.transforms.formats import ReadOptions
from feedferry.transforms.net.retry import RetryPolicy

Digest = Callable[[Path, Delivery, Path, ReadOptions], None]
"""Digests a delivery that was begun: path of the index, delivery, spool, and how it is read."""

_log = logging.getLogger(__name__)


class Feeder(SpoolConsumer):
    """Digests the deliveries of a journal, beginning with the missing ones.

    Errors of a delivery become its status, and the next delivery follows. If the index cannot be
    written, the same delivery is tried again after `pause_seconds`.
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
        retry = RetryPolicy(first_seconds=pause_seconds, max_seconds=pause_seconds)
        super().__init__(spool, worker, retry=retry)
        self._index = index
        self._digest = digest
        self._applied = index.deliveries.applied
        self._repeated = frozenset(index.deliveries.open_deliveries())

    def is_open(self, delivery: Delivery) -> bool:
        """Whether a delivery is not digested, or is to be digested again."""
        return delivery.ordinal > self._applied or delivery.ordinal in self._repeated

    def process(self, delivery: Delivery) -> bool:
        index = self._index
        index.deliveries.begin(delivery)
        arguments = (index.path, delivery, self.spool, index.reading)
        self.worker.run(self._digest, *arguments, size=delivery.bytes)
        if errors := index.deliveries.errors(delivery.ordinal):
            _log.warning("%s: %s", name(delivery), errors)
        return True

    def put_aside(self, delivery: Delivery, reason: str) -> None:
        self._index.deliveries.end([delivery.ordinal], DeliveryStatus.SET_ASIDE, reason)
