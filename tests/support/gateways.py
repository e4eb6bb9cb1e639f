"""Gateways for tests: their appliance is a function, see `fake_appliance.replace_client`."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Self

import msgspec

from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.pipelines.serve.delivery_runs import Convert, convert_spans
from feedferry.pipelines.serve.forward_journal import DeliveryOutcome
from feedferry.pipelines.serve.gateway import DRAIN_SECONDS, RETRY, Gateway
from feedferry.pipelines.serve.rehearsal.index import Index
from feedferry.pipelines.serve.worker_process import WorkerProcess
from feedferry.transforms.net.retry import RetryPolicy
from feedferry.transforms.sinks.push.model import ApplianceResponse
from feedferry.transforms.sinks.push.settings import PushSettings
from feedferry.transforms.sinks.push.wire.protocol import Appliance
from feedferry.transforms.sources.spool import read_deliveries
from support.fake_appliance import GSA, SUCCESS, Sent
from support.rehearsal import InlineWorker, digest_missing
from support.served import wait_until
from support.spools import HandSpool


def accepting(_sent: Sent) -> ApplianceResponse:
    return SUCCESS


def digest(spool: Path) -> None:
    """Digest all deliveries, as the receiver of a gateway does."""
    spool.mkdir(exist_ok=True)
    with Index(spool / "index.db") as index:
        for delivery in read_deliveries(spool):
            digest_missing(index, delivery, spool)


class GatewayRun(logging.Handler):
    """A gateway on a spool, with its warnings and its other messages."""

    def __init__(  # noqa: PLR0913 - the options of a gateway and its collaborators
        self,
        spool: HandSpool,
        *,
        appliance: Appliance = GSA,
        accepted: tuple[str, ...] = (),
        first_pause_seconds: float = RETRY.first_seconds,
        drain_seconds: float = DRAIN_SECONDS,
        worker: WorkerProcess | None = None,
        convert: Convert = convert_spans,
        transform: Path | None = None,
    ) -> None:
        super().__init__()
        for module in ("gateway", "delivery_runs", "spool_consumer"):
            log = logging.getLogger(f"feedferry.pipelines.serve.{module}")
            log.setLevel(logging.INFO)
            log.handlers[:] = [self]
        self.warnings: list[str] = []
        self.remarks: list[str] = []
        self.spool = spool.root
        digest(spool.root)
        self.gateway = Gateway(
            spool.root,
            ConvertOptions(
                inputs=(),
                output="",
                to_format="",
                accept_loss=frozenset(accepted),
                transform=None if transform is None else str(transform),
            ),
            PushSettings(appliance=appliance, retry=RetryPolicy(max_attempts=1)),
            worker=worker or InlineWorker(),
            convert=convert,
            retry=msgspec.structs.replace(RETRY, first_seconds=first_pause_seconds),
            drain_seconds=drain_seconds,
        )

    def until(self, is_so: Callable[[], bool]) -> Self:
        with self.gateway:
            wait_until(is_so)
        return self

    def emit(self, record: logging.LogRecord) -> None:
        texts = self.warnings if record.levelno >= logging.WARNING else self.remarks
        texts.append(record.getMessage())

    def to_the_end(self) -> Self:
        return self.until(lambda: self.gateway.backlog() == 0)

    def until_warned(self, words: str) -> Self:
        return self.until(lambda: any(words in line for line in self.warnings))

    def journal(self) -> list[DeliveryOutcome]:
        lines = (self.spool / "forward" / "forwarded.jsonl").read_bytes().splitlines()
        return [msgspec.json.decode(line, type=DeliveryOutcome) for line in lines]

    def kept(self) -> list[str]:
        return sorted(path.name for path in (self.spool / "forward").iterdir())
