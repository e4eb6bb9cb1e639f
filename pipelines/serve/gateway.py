"""A gateway: forwards the deliveries of a receiver to another appliance, as they arrive.

A delivery is converted as `convert` does, in a worker process, and pushed as `push` does, in a
folder of its own; receipts decide what is sent again after a kill. Each datasource, groupsource and
profile has its own queue. For a target with decisions there is one queue: a delivery of one
datasource may change the ACLs that documents of others inherit. The backlog that the receiver
reports counts deliveries that are not forwarded, so that clients slow down.
"""

import logging
import math
import sqlite3
import time
from collections.abc import Hashable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Self

from msgspec.structs import replace

from feedferry.pipelines.folders.manifest import read_manifest, receipts_folder
from feedferry.pipelines.job.run.groups_phase import publish_groups
from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.pipelines.push.record import record_push
from feedferry.pipelines.report.conversion_report import read_report
from feedferry.pipelines.serve.delivery_runs import (
    Convert,
    DeliveryRuns,
    PartialFeedError,
    convert_spans,
    count_changed,
)
from feedferry.pipelines.serve.forward_journal import (
    DeliveryOutcome,
    ForwardJournal,
    ForwardState,
)
from feedferry.pipelines.serve.gateway_acls import GatewayAcls
from feedferry.pipelines.serve.rehearsal.delivery_table import SetAsideDelivery
from feedferry.pipelines.serve.retry import describe
from feedferry.pipelines.serve.spool_consumer import SpoolConsumer, name
from feedferry.pipelines.serve.worker_process import SetAsideError, WorkerProcess
from feedferry.schemas.account import Chunk
from feedferry.schemas.delivery import JOURNAL, Delivery
from feedferry.schemas.errors import (
    ConfigError,
    FeedferryError,
    StoppedError,
    TargetError,
)
from feedferry.schemas.feed import CLEANUP, FULL, INCREMENTAL, REPLACE
from feedferry.schemas.receipt import ChunkState
from feedferry.schemas.record import Action
from feedferry.transforms.conversion.span_account import WAITS
from feedferry.transforms.formats import by_name
from feedferry.transforms.net.retry import RetryPolicy
from feedferry.transforms.rules.adapt import GROUPS_LEFT_OUT
from feedferry.transforms.sinks.push.model import (
    ERASING_FEEDTYPES,
    ResponseMeaning,
)
from feedferry.transforms.sinks.push.outcome import ChunkOutcome, PushProgress
from feedferry.transforms.sinks.push.push_plan import pushed_formats
from feedferry.transforms.sinks.push.pusher import Pusher
from feedferry.transforms.sinks.push.session import PushInterrupted
from feedferry.transforms.sinks.push.settings import Keep, PushSettings
from feedferry.transforms.sinks.push.throttle.gate import StopSignal
from feedferry.transforms.sinks.push.wire.protocol import Appliance
from feedferry.transforms.sinks.push.wire.responses import judge_response
from feedferry.transforms.sources.spool import is_whole, queue_of

RETRY = RetryPolicy(first_seconds=5.0, max_seconds=300.0, jitter=lambda: 1.0)
"""The pauses of a queue; one gateway needs no jitter."""

DRAIN_SECONDS = 30.0
"""How long the current delivery may take when the gateway stops."""

UPDATE_SECONDS = 60.0
"""An appliance finishes what was pushed, as by an update of search indexes, at most this often."""

MAX_TOGETHER = 200
"""Deliveries that one run forwards: each run reads the ACLs of all."""

MAX_TOGETHER_BYTES = 32 << 20

_log = logging.getLogger(__name__)
_MAX_SET_ASIDE = 1000
_AS_INCREMENTAL = "forwarded as an incremental feed, which deletes nothing; post it again, whole"


def check_forwarding(appliance: Appliance, options: ConvertOptions) -> None:
    """Raise ConfigError for an appliance that a gateway cannot forward to with these options."""
    protocol = appliance.protocol
    format_ = by_name(protocol.default_format)
    taken = map(by_name, pushed_formats(protocol))
    has_groups = any(each.holds_only_memberships for each in taken)
    reason = ""
    if format_.encoder is None:
        reason = f"takes {format_.name}, which is only read"
    elif Action.DELETE not in format_.holds.actions:
        reason = f"takes {format_.name}, which has no deletions"
    elif has_groups and protocol.make_cleanup is None:
        reason = "takes groups, and has no request that removes those of a groupsource"
    if options.acls_path and not format_.needs_decisions:
        raise ConfigError(
            f"⟦state⟧: not for {appliance.url}, which takes {format_.name}: it resolves ACLs"
            " itself; expected a search server"
        )
    if reason:
        raise ConfigError(
            f"⟦forward⟧: {appliance.url}: the kind {protocol.name} {reason}; expected another kind:"
            " convert the spool and push the run, feedferry convert SPOOL --push-to URL"
        )


def _is_joined(delivery: Delivery) -> bool:
    """Whether a delivery may be forwarded in a run with others.

    Groups are not: a run joins the members of a group, and a later delivery replaces them.
    """
    is_feed = delivery.path is not None and not by_name(delivery.format).holds_only_memberships
    return is_feed and not delivery.profile and not is_whole(delivery)


def _note(text: str, level: int) -> None:
    _log.log(level, "%s", text.removeprefix("feedferry: "))


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
        check_forwarding(settings.appliance, options)
        super().__init__(spool, worker, retry=retry, drain_seconds=drain_seconds)
        self._protocol = settings.appliance.protocol
        self._has_runs = self._protocol.begin is not None
        self.settings = replace(
            settings,
            keep=Keep.REFUSED,
            max_wait_seconds=None,
            allow_empty_full=True,
            finish=self._has_runs,
        )
        self.runs = DeliveryRuns(
            spool=spool,
            options=options,
            protocol=self._protocol,
            worker=worker,
            convert_spans=convert,
            journal=lambda: self.journal,
        )
        self._opened = ExitStack()
        self._stop = StopSignal()
        self._pusher: Pusher | None = None
        self._aside: dict[int, Delivery] = {}
        self._alone = 0  # deliveries up to this ordinal have runs of their own
        self._needs_update = False
        self._update_at = -math.inf

    @cached_property
    def journal(self) -> ForwardJournal:
        return ForwardJournal(self.spool)

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            if self.runs.acls is not None:
                opened.enter_context(self.runs.acls.locked())
            self._begin()
            self._opened = opened.pop_all()
        return super().__enter__()

    def _begin(self) -> None:
        with self._lock:
            self._read_new()
            self._check_order()
            self.runs.clear_settled()
            self._needs_update = self.journal.last > 0  # it may have been killed before
            if self.journal.set_aside:
                _log.info("%d deliveries are set aside so far", len(self.journal.set_aside))

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
        self._opened.close()
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
        return queue_of(delivery) if self.runs.acls is None else None

    def process(self, delivery: Delivery) -> bool:
        """Forward a delivery, and incremental feeds that wait after it, in one run.

        If they cannot be converted together, each is forwarded by a run of its own. A run that was
        made is pushed as it is: the appliance may have later feeds of it already, which an earlier
        one must not replace.
        """
        if self.journal.is_settled(delivery.ordinal):  # together with an earlier one
            return True
        if not self.runs.is_ready(delivery):
            return False
        later = self._later(delivery)
        try:
            outcome = self._forward(delivery, later, self._open_pusher())
        except TargetError:
            raise
        except (SetAsideError, FeedferryError, OSError, sqlite3.Error):
            if not later or self.runs.later_of_run(delivery) is not None:
                raise
            self._alone = later[-1].ordinal
            outcome = self._forward(delivery, (), self._open_pusher())
        self._settle(delivery, outcome)
        return True

    def _later(self, delivery: Delivery) -> Sequence[Delivery]:
        """Return the deliveries that are forwarded in the run of another one."""
        if self.runs.acls is None or not _is_joined(delivery):
            return ()
        waiting = self.following(delivery, MAX_TOGETHER)
        made = self.runs.later_of_run(delivery)
        if made is not None and made == waiting[: len(made)]:
            return made
        if delivery.ordinal <= self._alone:
            return ()
        later: list[Delivery] = []
        size = delivery.bytes
        for each in waiting:
            size += each.bytes
            if size > MAX_TOGETHER_BYTES or not _is_joined(each):
                break
            later.append(each)
        return later

    def put_aside(self, delivery: Delivery, reason: str) -> None:
        if self.runs.acls is not None:
            self.runs.acls.doubt(delivery)
            self._publish_groups(self.runs.acls)
        self._aside[delivery.ordinal] = delivery
        self._settle(
            delivery, DeliveryOutcome(delivery.ordinal, ForwardState.SET_ASIDE, reason=reason)
        )

    def idle(self) -> None:
        """Have the appliance finish what was pushed, but not too often.

        One that prepares each run has finished each delivery.
        """
        is_due = self._needs_update and time.monotonic() >= self._update_at
        if not is_due or self._has_runs or self._protocol.finish is None:
            return
        try:
            self._open_pusher().finish()
            self._needs_update, self._update_at = False, time.monotonic() + UPDATE_SECONDS
        except PushInterrupted:
            return  # the gateway ends; its next start has the appliance finish
        except (FeedferryError, OSError) as exc:
            pause = self._retry.pause_seconds(1)
            self._update_at = time.monotonic() + pause
            _log.warning("the appliance has not finished: %s; tried again in %.0f s", exc, pause)

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
        self.runs.clear(delivery.ordinal)

    def _forward(
        self, delivery: Delivery, later: Sequence[Delivery], pusher: Pusher
    ) -> DeliveryOutcome:
        to_format = self.runs.format_for(delivery)
        if to_format is None:
            _log.info("%s: groups, which the appliance does not take; left out", name(delivery))
            return DeliveryOutcome(delivery.ordinal, ForwardState.LEFT_OUT)
        if delivery.feedtype == CLEANUP and self.runs.acls is None:
            verdict = judge_response(self._protocol, pusher.client.cleanup(delivery.datasource))
            if verdict.meaning is not ResponseMeaning.ACCEPTED:
                raise TargetError(verdict.message)
            return DeliveryOutcome(delivery.ordinal, ForwardState.FORWARDED)
        try:
            outcome = self._push(delivery, self.runs.convert(delivery, to_format, later), pusher)
        except PartialFeedError as exc:
            if self.runs.acls is None:
                raise
            # Earlier versions of its documents may be open to users whom it does not permit.
            part = replace(delivery, feedtype=INCREMENTAL)
            outcome = self._push(part, self.runs.convert(part, to_format), self._open_pusher())
            _log.warning("%s", f"{name(delivery)}: {exc}; {_AS_INCREMENTAL}")
            outcome = replace(outcome, reason=f"{exc}; {_AS_INCREMENTAL}")
        return replace(outcome, together=tuple(each.ordinal for each in later))

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
        if any(self._is_lost(outcome) for outcome in pushed.outcomes):
            raise PartialFeedError(f"{pushed.stopped}; its records are in {root}/rejects/")
        if pushed.stopped is not None:
            raise TargetError(pushed.stopped)
        self.runs.remember(delivery)
        if self.runs.acls is not None:
            self._publish_groups(self.runs.acls)
        account = read_report(root).account
        notices = {code: notice.count for code, notice in account.notices.items()}
        groups = account.filter_codes.get(GROUPS_LEFT_OUT, 0)
        outcome = DeliveryOutcome(
            delivery.ordinal,
            ForwardState.FORWARDED,
            accepted=sum(chunk.accepted for chunk in pushed.outcomes),
            refused=sum(chunk.refused for chunk in pushed.outcomes),
            rejected=sum(account.rejected.values()),
            filtered=sum(account.filtered.values()) - groups,
            groups=groups,
            losses={field: loss.count for field, loss in account.losses.items()},
            withheld=notices.get("withheld", 0),
            waiting=notices.get(WAITS, 0),
            changed=count_changed(chunks),
            decided=self.runs.acls is not None,
        )
        if outcome.refused:
            _log.warning("%s", f"{name(delivery)}: {outcome.refused} refused, in {root}/rejects/")
        return outcome

    def _publish_groups(self, acls: GatewayAcls) -> None:
        publish_groups(self.settings, acls.path, _note, job=acls.owner)

    def _is_lost(self, outcome: ChunkOutcome) -> bool:
        """Whether a full feed cannot be forwarded, as records are refused.

        An appliance that exchanges what it has for a full feed does so only for a whole one.
        """
        chunk, state = outcome.chunk, outcome.state
        if state is ChunkState.REFUSED and chunk.feedtype in ERASING_FEEDTYPES:
            return True
        is_full = chunk.requested_feedtype == FULL
        return self._has_runs and is_full and state.is_settled and bool(outcome.refused)
