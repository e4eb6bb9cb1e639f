"""A gateway: forwards the deliveries of a receiver to another appliance, as they arrive.

A delivery is converted as `convert` does, in a worker process, and pushed as `push` does, in a
folder of its own; receipts decide what is sent again after a kill. Each datasource, groupsource and
profile has its own queue. The backlog that the receiver reports counts deliveries that are not
forwarded, so that clients slow down.
"""

import filecmp
import logging
import math
import shutil
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Self

import msgspec
from msgspec.structs import replace

from feedferry.pipelines.convert.inputs.source_runs import settings_of
from feedferry.pipelines.convert.publication.account_checks import check_account
from feedferry.pipelines.convert.publication.publish import publish
from feedferry.pipelines.folders.locks import WORK
from feedferry.pipelines.folders.manifest import REPORT, read_manifest, receipts_folder
from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.pipelines.push.record import record_push
from feedferry.pipelines.report.conversion_report import read_report
from feedferry.pipelines.serve.forward_journal import (
    FOLDER,
    DeliveryOutcome,
    ForwardJournal,
    ForwardState,
    run_folder,
)
from feedferry.pipelines.serve.rehearsal.index import (
    INDEX_FILE,
    SetAsideDelivery,
    open_index,
    write_deletions,
)
from feedferry.pipelines.serve.retry import describe
from feedferry.pipelines.serve.spool_consumer import SpoolConsumer, name
from feedferry.pipelines.serve.worker_process import SetAsideError, WorkerProcess
from feedferry.schemas.account import Account, Chunk, merge
from feedferry.schemas.delivery import JOURNAL, Delivery
from feedferry.schemas.errors import (
    ConfigError,
    FeedferryError,
    SourceError,
    StoppedError,
    TargetError,
)
from feedferry.schemas.feed import CLEANUP, FULL, INCREMENTAL, REPLACE, check_datasource
from feedferry.schemas.receipt import ChunkState
from feedferry.schemas.reject import UNKNOWN_ENCODING, UNKNOWN_FORMAT, UNREADABLE
from feedferry.schemas.span import Span
from feedferry.schemas.units import counted
from feedferry.transforms.conversion.full_feeds import DELETIONS
from feedferry.transforms.conversion_settings import Settings
from feedferry.transforms.convert import convert_on
from feedferry.transforms.file_spans import begin
from feedferry.transforms.formats import GSA_FEED, Format, by_name
from feedferry.transforms.net.retry import RetryPolicy
from feedferry.transforms.sinks.push.model import (
    ERASING_FEEDTYPES,
    ResponseMeaning,
    count_records,
)
from feedferry.transforms.sinks.push.outcome import PushProgress
from feedferry.transforms.sinks.push.pusher import Pusher
from feedferry.transforms.sinks.push.settings import Keep, PushSettings
from feedferry.transforms.sinks.push.throttle.gate import StopSignal
from feedferry.transforms.sinks.push.wire.responses import judge_response
from feedferry.transforms.sources.spool import is_whole, queue_of, spans_of

RETRY = RetryPolicy(first_seconds=5.0, max_seconds=300.0, jitter=lambda: 1.0)
"""The pauses of a queue; one gateway needs no jitter."""

DRAIN_SECONDS = 30.0
"""How long the current delivery may take when the gateway stops."""

UPDATE_SECONDS = 60.0
"""Thunderstone's search indexes are updated at most this often."""

_log = logging.getLogger(__name__)
_MAX_SET_ASIDE = 1000
_DELIVERY = "delivery.json"
_LEFT_OUT = "left-out.xml"
_LEFT_OUT_NOW = "left-out-now.xml"
_REJECTS = "rejects"

Convert = Callable[[list[Span], Settings, int], Account]
"""Converts the spans of a delivery, none larger than a number of bytes."""


def convert_spans(spans: list[Span], settings: Settings, span_bytes: int) -> Account:
    """Convert the spans of a delivery, in parts."""
    begin_file = partial(begin, span_bytes=span_bytes, options=settings.reading)
    begun = (part for span in spans for part in begin_file(span))
    return merge(account for part in begun for account in convert_on(part, settings))


class Gateway(SpoolConsumer):
    """Forwards the deliveries of a spool, each by a run in its own folder.

    `options` apply to each conversion. `journal` has the outcomes so far; it is opened at its first
    use, when the receiver has the lock of the spool, so that no other gateway writes it. After some
    errors a delivery waits for the next start, because only other options can help it.
    """

    final = (StoppedError, ConfigError)

    def __init__(  # noqa: PLR0913 - the collaborators of a conversion and a push
        self,
        spool: Path,
        options: ConvertOptions,
        settings: PushSettings,
        *,
        worker: WorkerProcess,
        convert: Convert = convert_spans,
        retry: RetryPolicy = RETRY,
        drain_seconds: float = DRAIN_SECONDS,
    ) -> None:
        super().__init__(spool, worker, retry=retry, drain_seconds=drain_seconds)
        self.settings = replace(
            settings,
            keep=Keep.REFUSED,
            max_wait_seconds=None,
            allow_empty_full=True,
            finish=False,
        )
        self._options = options
        self._folder = spool / FOLDER
        self._index = spool / INDEX_FILE
        self._convert_spans = convert
        self._protocol = settings.appliance.protocol
        self._stop = StopSignal()
        self._pusher: Pusher | None = None
        self._aside: dict[int, Delivery] = {}
        self._needs_update = False
        self._update_at = -math.inf

    @cached_property
    def journal(self) -> ForwardJournal:
        return ForwardJournal(self.spool)

    def __enter__(self) -> Self:
        with self._lock:
            self._read_new()
            self._check_order()
            self._clear_settled()
            self._needs_update = self.journal.last > 0  # it may have been killed before
            if self.journal.set_aside:
                _log.info("%d deliveries are set aside so far", len(self.journal.set_aside))
        return super().__enter__()

    def __exit__(self, *exc: object) -> None:
        self._ending.set()
        self._stop.stop()
        super().__exit__(*exc)
        if self._thread.is_alive():  # as after a kill, receipts decide about sending again
            _log.warning(
                "the current delivery has no reply yet; it is sent again at the next start"
            )
            return
        self.journal.close()
        if self._pusher is not None:
            self._pusher.__exit__(*exc)

    def set_aside(self) -> list[SetAsideDelivery]:
        """Return the deliveries that are set aside, in order, as many as a page shows."""
        with self._lock:
            outcomes = self.journal.set_aside
            ordinals = sorted(outcomes)[:_MAX_SET_ASIDE]
            return [describe(outcomes[each], self._aside.get(each)) for each in ordinals]

    def is_open(self, delivery: Delivery) -> bool:
        """Whether a delivery is not forwarded."""
        if delivery.ordinal in self.journal.set_aside:
            self._aside[delivery.ordinal] = delivery
        return not self.journal.is_settled(delivery.ordinal)

    def queue_of(self, delivery: Delivery) -> Hashable:
        return queue_of(delivery)

    def process(self, delivery: Delivery) -> bool:
        if not self.is_ready(delivery):
            return False
        self._settle(delivery, self._forward(delivery, self._open_pusher()))
        return True

    def put_aside(self, delivery: Delivery, reason: str) -> None:
        self._aside[delivery.ordinal] = delivery
        self._settle(
            delivery, DeliveryOutcome(delivery.ordinal, ForwardState.SET_ASIDE, reason=reason)
        )

    def idle(self) -> None:
        """Make pushed data searchable on Thunderstone, but not too often."""
        is_due = self._needs_update and time.monotonic() >= self._update_at
        if not is_due or self._protocol.finish is None:
            return
        try:
            self._open_pusher().finish(self.spool / FOLDER)
            self._needs_update, self._update_at = False, time.monotonic() + UPDATE_SECONDS
        except (FeedferryError, OSError) as exc:
            pause = self._retry.pause_seconds(1)
            self._update_at = time.monotonic() + pause
            _log.warning("search indexes are not updated: %s; tried again in %.0f s", exc, pause)

    def _open_pusher(self) -> Pusher:
        """Return the pusher, a new one after a push that did not settle everything."""
        if self._pusher is None or self._stop.is_set:
            if self._pusher is not None:
                self._pusher.__exit__(None, None, None)
            self._stop = StopSignal()
            if self._ending.is_set():
                self._stop.stop()
            self._pusher = Pusher(self.settings, stop=self._stop, progress=PushProgress(_log.info))
        return self._pusher

    def _check_order(self) -> None:
        """Raise ConfigError if the journal of the spool is shorter than that of the gateway.

        The next deliveries would have ordinals that count as forwarded.
        """
        last = self.journal.last
        if self._last < last:
            raise ConfigError(
                f"{self.journal.path}: has delivery {last}, but {JOURNAL} ends"
                " before it: restore its line, as the next delivery would have its number and count"
                " as forwarded"
            )

    def _settle(self, delivery: Delivery, outcome: DeliveryOutcome) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        with self._lock:
            self.journal.append(replace(outcome, at=now))
        self._needs_update = True
        self._clear(delivery.ordinal)

    def _forward(self, delivery: Delivery, pusher: Pusher) -> DeliveryOutcome:
        to_format = self._format_for(delivery)
        if to_format is None:
            _log.info("%s: groups, which the appliance does not take; left out", name(delivery))
            return DeliveryOutcome(delivery.ordinal, ForwardState.LEFT_OUT)
        if delivery.feedtype == CLEANUP:
            verdict = judge_response(self._protocol, pusher.client.cleanup(delivery.datasource))
            if verdict.meaning is not ResponseMeaning.ACCEPTED:
                raise TargetError(verdict.message)
            return DeliveryOutcome(delivery.ordinal, ForwardState.FORWARDED)
        return self._push(delivery, self._convert(delivery, to_format), pusher)

    def _format_for(self, delivery: Delivery) -> Format | None:
        """Return the format in which the appliance takes a delivery, None for groups if in none."""
        is_taken = self._protocol.endpoint_of(delivery.format) is not None
        format_ = by_name(delivery.format)
        if is_taken or format_.holds_only_memberships:
            return format_ if is_taken else None
        return by_name(self._protocol.default_format)

    def is_ready(self, delivery: Delivery) -> bool:
        """Whether the deletions of a delivery are known.

        All forwarded deliveries have to be digested too, as they may have taken URLs.
        """
        if not self._needs_deletions(delivery):
            return True
        if not self._index.exists():
            return False
        with open_index(self._index) as index:
            return index.is_digested(max(delivery.ordinal, self.journal.last))

    def _clear(self, ordinal: int) -> None:
        """Remove the folder of a run, except rejects and their report. Can be repeated."""
        output = run_folder(self.spool, ordinal)
        has_rejects = (output / _REJECTS).exists()
        shutil.rmtree(output / WORK if has_rejects else output, ignore_errors=True)

    def _clear_settled(self) -> None:
        """Clear runs that were settled, but not cleared before the gateway was killed."""
        for path in self._folder.iterdir():
            if path.name.isdecimal() and self.journal.is_settled(int(path.name)):
                self._clear(int(path.name))

    def _convert(self, delivery: Delivery, to_format: Format) -> Path:
        """Convert a delivery unless a finished run can be used; return the folder of the run."""
        output = run_folder(self.spool, delivery.ordinal)
        work = output / WORK
        if _is_finished(output, to_format, delivery) and not self._is_outdated(delivery, work):
            return output
        shutil.rmtree(output, ignore_errors=True)
        work.mkdir(parents=True)
        (output / _DELIVERY).write_bytes(msgspec.json.encode(delivery))
        options = self._options_of(delivery, to_format, output)
        settings = settings_of(options, (), work, {})
        writing = replace(settings.writing, run=output.name, generation=delivery.ordinal)
        settings = replace(settings, writing=writing)
        spans = self._spans_of(delivery, work)
        arguments = (spans, settings, self._options.span_bytes_for([delivery.bytes]))
        account = self.worker.run(self._convert_spans, *arguments, size=delivery.bytes)
        self._check(account, delivery)
        publish(account, settings, output=output, spans=spans, options=options)
        self._report(account, delivery, output)
        return output

    def _needs_deletions(self, delivery: Delivery) -> bool:
        """Whether a full feed is for an appliance without full feeds."""
        is_feed = not by_name(delivery.format).holds_only_memberships
        is_full = is_feed and is_whole(delivery)
        return is_full and not self._protocol.has_full_feeds

    def _spans_of(self, delivery: Delivery, work: Path) -> list[Span]:
        """Return the deletions of a full feed where the target needs them, and the delivery."""
        deletions: list[Span] = []
        if self._needs_deletions(delivery):
            path = work / _LEFT_OUT
            if self._write_deletions(delivery, path):
                source = self._deletions_source(delivery)
                deletions.append(Span(source=source, path=str(path), format=GSA_FEED.name))
            delivery = replace(delivery, feedtype=INCREMENTAL)
        spool = Span(source=str(self.spool), path=str(self.spool))
        return [*deletions, *spans_of([delivery], spool, first=len(deletions))]

    def _write_deletions(self, delivery: Delivery, path: Path) -> int:
        is_settled = self.journal.is_settled
        return write_deletions(self._index, delivery, path, is_settled=is_settled)

    def _deletions_source(self, delivery: Delivery) -> str:
        return f"{self.spool}#{delivery.ordinal}: documents left out"

    def _is_outdated(self, delivery: Delivery, work: Path) -> bool:
        """Whether a run would delete URLs that another datasource has taken since it was made."""
        if not self._needs_deletions(delivery):
            return False
        with suppress(OSError):
            self._write_deletions(delivery, work / _LEFT_OUT_NOW)
            return not filecmp.cmp(work / _LEFT_OUT, work / _LEFT_OUT_NOW, shallow=False)
        return True

    def _options_of(self, delivery: Delivery, to_format: Format, output: Path) -> ConvertOptions:
        options = replace(
            self._options,
            output=str(output),
            to_format=to_format.name,
            allow_empty_full=True,  # the client requested it
            accept_holes=True,  # a full feed with rejects is set aside, see `_check`
        )
        if delivery.profile and to_format.has_feedtypes:
            try:
                as_datasource = "the profile as a datasource:"
                datasource = check_datasource(delivery.profile, label=as_datasource)
            except ConfigError as exc:
                raise SetAsideError(str(exc)) from exc
            options = replace(options, datasource=datasource)
        return options

    def _check(self, account: Account, delivery: Delivery) -> None:
        check_account(account)
        if account.reject_codes.get(UNREADABLE):
            raise SourceError(
                f"{name(delivery)}: {delivery.path} cannot be read; it is tried again"
            )
        for code in (UNKNOWN_ENCODING, UNKNOWN_FORMAT):
            for sample in account.reject_samples.get(code, ()):
                raise SetAsideError(sample.message)
        kinds = account.rejected.items()
        missing = sum(count for action, count in kinds if action not in DELETIONS)
        if is_whole(delivery) and missing:
            (first, *_), *_ = account.reject_samples.values()
            raise SetAsideError(
                f"a full feed with {counted(missing, 'reject')}, as {first.message}; expected all"
                " of it, as it deletes what it leaves out"
            )

    def _report(self, account: Account, delivery: Delivery, output: Path) -> None:
        """Report deletions, losses, and records that are not forwarded."""
        source = self._deletions_source(delivery)
        count = sum(count_records(chunk) for chunk in account.chunks if chunk.source == source)
        if count:
            _log.info("%s", f"{name(delivery)}: {count} documents that it leaves out are deleted")
        for notice in account.notices.values():
            _log.info("%s", f"{notice.first.message}; {notice.count} in all")
        for field, loss in account.losses.items():
            first = loss.samples[0]
            _log.info(
                "%s",
                f"{name(delivery)}: without {field}: {loss.count}, as {first.url}: {first.detail}",
            )
        if account.filtered:
            _log.info("%s", f"{name(delivery)}: {_format_counts(account.filter_codes)} left out")
        if account.rejected:
            nothing = "" if account.chunks else "; no record is sent"
            _log.warning(
                "%s",
                f"{name(delivery)}: {_format_counts(account.reject_codes)} rejected, in"
                f" {output}/rejects/{nothing}",
            )

    def _push(self, delivery: Delivery, root: Path, pusher: Pusher) -> DeliveryOutcome:
        chunks: Sequence[Chunk] = read_manifest(root)
        if delivery.feedtype == REPLACE:  # groups that were posted as `replace` are pushed so
            chunks = [
                replace(chunk, feedtype=REPLACE) if chunk.feedtype == FULL else chunk
                for chunk in chunks
            ]
        pushed = pusher.push(chunks, root=root, folder=receipts_folder(root, self.settings))
        if any(chunk.state is not ChunkState.ACCEPTED for chunk in pushed.outcomes):
            record_push(root, pushed, self.settings)
        if any(
            outcome.state is ChunkState.REFUSED and outcome.chunk.feedtype in ERASING_FEEDTYPES
            for outcome in pushed.outcomes
        ):
            raise SetAsideError(f"{pushed.stopped}; its records are in {root}/rejects/")
        if pushed.stopped is not None:
            raise TargetError(pushed.stopped)
        account = read_report(root).account
        outcome = DeliveryOutcome(
            delivery.ordinal,
            ForwardState.FORWARDED,
            accepted=sum(chunk.accepted for chunk in pushed.outcomes),
            refused=sum(chunk.refused for chunk in pushed.outcomes),
            rejected=sum(account.rejected.values()),
            filtered=sum(account.filtered.values()),
            losses={field: loss.count for field, loss in account.losses.items()},
        )
        if outcome.refused:
            _log.warning("%s", f"{name(delivery)}: {outcome.refused} refused, in {root}/rejects/")
        return outcome


def _is_finished(output: Path, to_format: Format, delivery: Delivery) -> bool:
    """Whether there is a finished run of this delivery for this target.

    The ordinal may have belonged to a delivery that was removed from the journal.
    """
    source = output / _DELIVERY
    if not (output / REPORT).exists() or not source.exists():
        return False
    if source.read_bytes() != msgspec.json.encode(delivery):
        return False
    return all(chunk.format == to_format.name for chunk in read_manifest(output))


def _format_counts(codes: dict[str, int]) -> str:
    return ", ".join(f"{count} {code}" for code, count in codes.items())
