"""Push chunks to an appliance: each datasource in order, each chunk accepted once, throttled.

A chunk is sent when all chunks of its datasource before it are settled: accepted, or refused and
set aside. A chunk that cannot be settled ends the datasource, so nothing is ever sent after it.
Above all nothing is sent after a `full` part that was not accepted, which would delete it when it
is sent later.

Every attempt to send a chunk or a part of one has a receipt, which is on the disk before the next
request for that datasource begins. So a push that ended anywhere can be continued. What is accepted
or refused is not sent again. What failed is sent again, and so are chunks whose response was not
seen, at most one for each of the `jobs` threads. That does no harm: records are identified by their
URLs, and the full part of a feed is only sent while nothing after it was accepted.
"""

import logging
import threading
import time
from array import array
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from operator import not_
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Self

from msgspec.structs import replace

from feedferry.schemas.account import Chunk
from feedferry.schemas.errors import (
    FINDINGS_EXIT,
    FatalError,
    FeedferryError,
    RecordError,
    TargetError,
    TooManyRejectsError,
)
from feedferry.schemas.feed import INCREMENTAL
from feedferry.schemas.lazy_sequence import chosen, flagged
from feedferry.schemas.receipt import ChunkState, Receipt
from feedferry.schemas.setting import in_flags
from feedferry.transforms.formats import find_format
from feedferry.transforms.net.retry import RetryPauses
from feedferry.transforms.rules.known_rejects import entry_of, load_known_rejects
from feedferry.transforms.sinks.push.chunk_parts import ChunkSplitter, whole_chunk
from feedferry.transforms.sinks.push.generations import claimed_datasources
from feedferry.transforms.sinks.push.model import (
    ERASING_FEEDTYPES,
    MAX_REPLY_LETTERS,
    ApplianceResponse,
    ChunkPart,
    ResponseMeaning,
    Verdict,
)
from feedferry.transforms.sinks.push.outcome import (
    OutcomeTotals,
    PushAccount,
    PushProgress,
    rejects_of,
    totals_of,
)
from feedferry.transforms.sinks.push.push_plan import plan_chunks
from feedferry.transforms.sinks.push.receipts import Receipts
from feedferry.transforms.sinks.push.session import (
    PushInterrupted,
    PushSession,
    RunSteps,
    send_until_accepted,
)
from feedferry.transforms.sinks.push.settings import OnRefusal, PushSettings
from feedferry.transforms.sinks.push.throttle.backlog import BacklogThrottle
from feedferry.transforms.sinks.push.throttle.gate import SendGate, StopSignal
from feedferry.transforms.sinks.push.wire.client import ApplianceClient
from feedferry.transforms.sinks.push.wire.protocol import SendContext
from feedferry.transforms.sinks.push.wire.reader import TargetReader
from feedferry.transforms.sinks.push.wire.responses import judge_response, retry_after_seconds
from feedferry.transforms.storage.files.journal import DISK, Disk

MAX_LOGGED_LETTERS = 200

MAX_NOTICES = 20
"""Further texts of the appliance about accepted records are counted as one."""

OTHER_NOTICES = "accepted with another remark"

MAX_CONSECUTIVE_REFUSED_RECORDS = 100
"""Stop after this many consecutive refused records: the appliance is the problem, not the data."""

_MAX_GROWTH = 4
"""A byte becomes at most three on the wire, and the form around the document is small."""

_log = logging.getLogger(__name__)
_NO_RESPONSE = ApplianceResponse()
_NO_VERDICT = Verdict(meaning=ResponseMeaning.RETRY)

_WITH_REFUSALS = (ChunkState.PARTLY_ACCEPTED, ChunkState.REFUSED)
_BY_SEVERITY = (5, 4, 3, 2, 75, 0)
"""Exit codes of errors; the most serious error of several datasources decides."""


@dataclass(kw_only=True, eq=False)
class ChunkSender:
    """Sends the chunks of one push; each datasource is sent by one thread, several at a time.

    The paths of chunks are relative to `root`.
    """

    settings: PushSettings
    client: ApplianceClient
    gate: SendGate
    receipts: Receipts
    root: Path
    progress: PushProgress
    known_rejects: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self._splitters: dict[int, ChunkSplitter] = {}
        self._lock = threading.Lock()
        self._consecutive_refusals = 0
        self.notices: Counter[str] = Counter()
        self.newer = 0

    def send(self, chunk: Chunk) -> None:
        """Send a chunk; the chunks of one datasource must be sent in order.

        Raises TargetError, BusyError or TooManyRejectsError if it is not settled, and
        PushInterrupted if the push is asked to end.
        """
        splitter = self._splitters[chunk.ordinal] = ChunkSplitter(chunk, self.root)
        parts = deque([splitter.whole])
        is_begun = False
        while parts:
            part = parts.popleft()
            state = self._settle_part(part, is_begun=is_begun)
            if state is ChunkState.SPLIT:
                parts.extendleft(reversed(splitter.split(part)))
            is_begun = is_begun or state is ChunkState.ACCEPTED
        del self._splitters[chunk.ordinal]
        if chunk.feedtype in ERASING_FEEDTYPES and not is_begun:
            raise TargetError(
                f"{chunk.path}: the {chunk.feedtype} part of {chunk.datasource!r} was refused,"
                " so the parts after it are not sent: fix its records and convert again, or remove"
                " the receipts to send it again as it is"
            )

    def check_rejects(self) -> None:
        """Raise TooManyRejectsError if more records are refused than allowed, also earlier ones."""
        refused = self.progress.rejects - self.progress.accepted_rejects
        limit = self.settings.max_rejects
        if limit is not None and refused > limit:
            raise TooManyRejectsError(
                f"{refused} records are refused; expected at most {limit}, the limit of "
                "⟦max_rejects⟧: raise it to continue"
            )

    def _settle_part(self, part: ChunkPart, *, is_begun: bool) -> ChunkState:
        """Return the state of a part that is settled or split; send it if necessary.

        `is_begun` says that an earlier part of the chunk was accepted.
        """
        last = self.receipts.last(part.chunk, part.first, part.count)
        if last is not None and last.state not in (ChunkState.SENDING, ChunkState.FAILED):
            return last.state
        feedtype = part.chunk.feedtype
        if self.settings.appliance.protocol.fetches_chunks:
            return self._leave_to_end(part, feedtype)
        if is_begun and feedtype in ERASING_FEEDTYPES:
            feedtype = INCREMENTAL  # another feedtype would delete the parts before it
        max_records = self.settings.appliance.protocol.max_records
        if max_records is not None and part.records > max_records:
            return ChunkState.SPLIT
        limit = self.settings.appliance.protocol.max_request_bytes
        if part.size * _MAX_GROWTH >= limit:
            size = self.client.request_bytes(part, feedtype=feedtype)
            if size >= limit and part.records > 1:
                return ChunkState.SPLIT
            if size >= limit:
                message = f"{size:,} bytes on the wire; expected fewer than {limit:,} for a request"
                verdict = Verdict(meaning=ResponseMeaning.REFUSED, message=message)
                return self._settle(part, None, _NO_RESPONSE, verdict)
        return self._send_part(part, feedtype)

    def _leave_to_end(self, part: ChunkPart, feedtype: str | None) -> ChunkState:
        """Settle a part that is not sent: what ends the run names it to the appliance."""
        if not self.settings.finish:
            raise TargetError(
                f"{self.settings.appliance.url}: fetches the files of whole runs; expected a push"
                " of a run, and no gateway"
            )
        verdict = Verdict(meaning=ResponseMeaning.ACCEPTED, message="fetched by the appliance")
        return self._settle(part, feedtype, _NO_RESPONSE, verdict)

    def _send_part(self, part: ChunkPart, feedtype: str | None) -> ChunkState:
        """Send a part until it is settled; raise if it cannot be."""
        pauses, guard = RetryPauses(self.settings.retry), self.settings.appliance.protocol.guard
        while True:
            if not self.gate.wait_until_open():
                raise PushInterrupted
            if guard is not None:
                guard(TargetReader(self.settings.appliance, self.client), part, self.client.begun)
            self._add_receipt(part, ChunkState.SENDING, feedtype)
            response = self.client.send(part, feedtype=feedtype)
            verdict = judge_response(self.settings.appliance.protocol, response, part)
            if verdict.meaning not in (ResponseMeaning.RETRY, ResponseMeaning.FULL_DISK):
                return self._settle(part, feedtype, response, verdict)
            self._add_receipt(part, ChunkState.FAILED, feedtype, response, verdict)
            seconds = pauses.next_seconds(
                at_least=retry_after_seconds(response),
                is_limited=verdict.meaning is not ResponseMeaning.FULL_DISK,
            )
            message = f"{part.chunk.path}: {verdict.message}"
            if seconds is None:
                raise TargetError(message)
            self.progress.notify(f"{message}; next attempt in {seconds:.0f} s")
            self.gate.report_attempt(is_accepted=False)
            if not self.gate.pause(seconds):
                raise PushInterrupted

    def _settle(
        self,
        part: ChunkPart,
        feedtype: str | None,
        response: ApplianceResponse,
        verdict: Verdict,
    ) -> ChunkState:
        """Record a final response; raise if it ends the push."""
        on_refusal = self.settings.on_refusal
        if verdict.meaning is ResponseMeaning.ACCEPTED:
            state = ChunkState.ACCEPTED
        elif verdict.meaning is ResponseMeaning.FATAL or on_refusal is OnRefusal.STOP:
            state = ChunkState.FAILED
        elif on_refusal is OnRefusal.SKIP or part.records < 2:
            state = ChunkState.REFUSED
        else:
            state = ChunkState.SPLIT
        if state is ChunkState.REFUSED or (state is ChunkState.ACCEPTED and verdict.refused):
            self._hide(part, feedtype, verdict, state)
        self._add_receipt(part, state, feedtype, response, verdict)
        _log.log(
            logging.INFO if state is ChunkState.ACCEPTED else logging.WARNING,
            "%s, from record %d: %s; %d records, %d bytes on the wire in %.3f s: %s",
            *(part.chunk.path, part.first + 1, state.value, part.records),
            *(
                response.sent_bytes,
                response.seconds,
                in_flags(verdict.message)[:MAX_LOGGED_LETTERS],
            ),
        )
        if state is ChunkState.FAILED:
            raise TargetError(f"{part.chunk.path}: {verdict.message}")
        if state is ChunkState.ACCEPTED:
            self.gate.report_attempt(is_accepted=True)
        if state is not ChunkState.SPLIT:
            self._count(part, verdict, state)
        return state

    def _hide(
        self, part: ChunkPart, feedtype: str | None, verdict: Verdict, state: ChunkState
    ) -> None:
        """Have the appliance show the documents of refused records to no user, if it can.

        An earlier version of a document might be shown to users whom the refused one denies. Raise
        TargetError if that fails: the part is then sent again.
        """
        hide = self.settings.hide
        if hide is None:
            return
        splitter = self._splitters[part.chunk.ordinal]
        numbers = [refusal.record for refusal in verdict.refused]
        if state is ChunkState.REFUSED:
            numbers = [*range(part.records)]
        places = [part.first + number for number in numbers]
        error = RecordError("refused", "")
        urls = [(place, url) for place in places if (url := splitter.reject(error, place).url)]
        if not urls:
            return
        context = SendContext(self.settings.appliance.profile, feedtype, self.client.begun)
        path, body = hide(urls, part, context)
        request = "POST", path, body
        send_until_accepted(self.client, self.gate, self.settings, request)

    def _add_receipt(
        self,
        part: ChunkPart,
        state: ChunkState,
        feedtype: str | None,
        response: ApplianceResponse = _NO_RESPONSE,
        verdict: Verdict = _NO_VERDICT,
    ) -> None:
        """Store the end of an attempt, or its begin, which has neither response nor verdict."""
        last = self.receipts.last(part.chunk, part.first, part.count)
        attempts = last.attempt if last is not None else 0
        refused = (
            replace(refusal, record=part.first + refusal.record) for refusal in verdict.refused
        )
        receipt = Receipt(
            chunk=part.chunk.ordinal,
            sha256=part.chunk.sha256,
            state=state,
            first=part.first,
            count=part.count,
            attempt=attempts + (state is ChunkState.SENDING),
            feedtype=feedtype,
            bytes=response.sent_bytes,
            status=response.status,
            reply=in_flags(verdict.message)[:MAX_REPLY_LETTERS],
            seconds=round(response.seconds, 3),
            at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            refused=tuple(refused),
        )
        self.receipts.add(receipt)

    def _count(self, part: ChunkPart, verdict: Verdict, state: ChunkState) -> None:
        """Count a settled part; raise if too many records are refused."""
        refused = len(verdict.refused) if state is ChunkState.ACCEPTED else part.records
        accepted = part.records - refused
        known = self._count_known(part, verdict, state) if refused else 0
        self.progress.add(size=part.size, records=accepted, rejects=refused, accepted=known)
        with self._lock:
            is_refused = refused == part.records
            self._consecutive_refusals = self._consecutive_refusals + refused if is_refused else 0
            consecutive = self._consecutive_refusals
            self.newer += verdict.newer
            for notice in verdict.notices:
                is_counted = notice in self.notices or len(self.notices) < MAX_NOTICES
                self.notices[notice if is_counted else OTHER_NOTICES] += 1
        if not refused:
            return
        message, on_refusal = f"{part.chunk.path}: {verdict.message}", self.settings.on_refusal
        if consecutive >= MAX_CONSECUTIVE_REFUSED_RECORDS and on_refusal is OnRefusal.BISECT:
            raise TargetError(
                f"{message}; {consecutive} consecutive records refused: push again to continue"
            )
        self.check_rejects()
        if state is ChunkState.ACCEPTED and on_refusal is OnRefusal.STOP:
            raise TargetError(
                f"{message}, {verdict.refused[0].words}; expected all records to be accepted, "
                "because ⟦on_refusal⟧ is stop"
            )

    def _count_known(self, part: ChunkPart, verdict: Verdict, state: ChunkState) -> int:
        """Return how many refused records of a part are known rejects."""
        if not self.known_rejects:
            return 0
        numbers = [part.first + refusal.record for refusal in verdict.refused]
        if state is not ChunkState.ACCEPTED:
            numbers = [*range(part.first, part.first + part.records)]
        splitter, error = self._splitters[part.chunk.ordinal], RecordError("refused", "")
        rejects = (splitter.reject(error, number) for number in numbers)
        return sum(entry_of(reject) in self.known_rejects for reject in rejects)


class Pusher:
    """Pushes runs to one appliance, one after another; they share its throttle and window.

    The first run that ends before everything is settled sets `stop` and is the last one. `client`
    is the HTTP client; `disk` makes receipts durable.
    """

    def __init__(
        self,
        settings: PushSettings,
        *,
        stop: StopSignal,
        progress: PushProgress,
        client: ApplianceClient | None = None,
        disk: Disk = DISK,
    ) -> None:
        self._settings = settings
        self._disk = disk
        self._stop = stop
        self._progress = progress
        self.client = client or ApplianceClient(settings.appliance)
        self._end_run = settings.appliance.protocol.finish if settings.finish else None
        read_backlog = settings.appliance.protocol.read_backlog
        self._is_reached = read_backlog is None
        throttle = None
        if read_backlog is not None:
            throttle = BacklogThrottle(
                lambda: progress.keep_backlog(read_backlog(self.client.backlog())),
                settings.backlog,
                clock=time.monotonic,
                notify=progress.notify,
            )
        left = settings.deadline and settings.deadline - time.time()
        self._gate = SendGate(
            stop=stop,
            clock=time.monotonic,
            now=lambda: datetime.now().astimezone(),
            notify=progress.notify,
            throttle=throttle,
            window=settings.window,
            deadline=left and time.monotonic() + left,
            max_wait_seconds=settings.max_wait_seconds,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.client.__exit__(*exc)

    def push(self, manifest: Sequence[Chunk], *, root: Path, folder: Path) -> PushAccount:
        """Push all chunks that are not settled yet; return the account of the whole run.

        Chunks are below `root`; the push writes its own files to `folder`. Raises ConfigError
        before anything is sent, also if a newer run was pushed, SourceError if a file is missing,
        and BusyError if another push has the folder or the datasource. Any later end of the push is
        stated in the account; a push that is started again continues.
        """
        settings, progress, started = self._settings, self._progress, time.monotonic()
        planned = plan_chunks(manifest, settings)
        with ExitStack() as claims:
            receipts = claims.enter_context(Receipts(folder, planned, settings, disk=self._disk))
            earlier = receipts.outcomes(planned)
            earlier_bytes = sum(outcome.bytes for outcome in earlier)
            remaining = flagged(planned, (not outcome.allows_next for outcome in earlier))
            for chunk in remaining:  # a full part deletes what missing files could not bring back
                whole_chunk(chunk, root)
            # What ends a run is about all its datasources, also those that are settled.
            claimed = remaining if self._end_run is None else planned

            @cache
            def claim() -> None:
                claims.enter_context(claimed_datasources(root, claimed, settings, disk=self._disk))

            if remaining:
                claim()
            known = load_known_rejects(settings.accepted_rejects)
            progress.add_earlier(earlier)
            if known:
                refused = (reject for outcome in earlier for reject in rejects_of(outcome, root))
                accepted = sum(entry_of(reject) in known for reject in refused)
                progress.add(size=0, records=0, rejects=0, accepted=accepted)
            sender = ChunkSender(
                settings=settings,
                client=self.client,
                gate=self._gate,
                receipts=receipts,
                root=root,
                progress=progress,
                known_rejects=known,
            )
            steps = RunSteps(receipts.steps, receipts.add, claim=claim)
            session = PushSession(settings, self.client, self._gate, steps=steps, progress=progress)
            session.chunks, session.root, session.folder = planned, root, folder
            error: Exception | None = None
            try:
                if remaining:
                    self._send_all(remaining, sender, session)
                self._finish(totals_of(receipts.outcomes(planned)), session)
            except (FeedferryError, PushInterrupted, OSError) as exc:
                error = exc
            outcomes = receipts.outcomes(planned)
        totals = totals_of(outcomes)
        is_settled = error is None and totals.is_settled
        has_refusals = any(totals.chunks[state] for state in _WITH_REFUSALS)
        return PushAccount(
            target=settings.appliance.target,
            outcomes=outcomes,
            earlier_chunks=len(earlier) - len(remaining),
            earlier_bytes=earlier_bytes,
            notices=dict(sender.notices),
            newer=sender.newer,
            steps=steps.done,
            stopped=None if is_settled else _text_of(error or PushInterrupted()),
            exit_code=(_error_code(error) if error else 0) or FINDINGS_EXIT * has_refusals,
            waited_seconds=self._gate.waited_seconds,
            seconds=time.monotonic() - started,
        )

    def finish(self) -> None:
        """Do what ends a run, for a gateway, which has no end; raise TargetError if it fails.

        The caller repeats what failed, so nothing is kept of it.
        """
        finish = self._settings.appliance.protocol.finish
        if finish is not None:
            steps = RunSteps({}, lambda receipt: None)
            finish(PushSession(self._settings, self.client, self._gate, steps=steps))

    def _send_all(
        self, remaining: Sequence[Chunk], sender: ChunkSender, session: PushSession
    ) -> None:
        """Send the chunks that are left: first the documents, then the groups."""
        sender.check_rejects()
        self._connect()
        begin = self._settings.appliance.protocol.begin
        if begin is not None:
            session.earlier = None if self.client.has_failures else self.client.begun
            self.client.has_failures = False
            self.client.begun = begin(session)
        are_groups = [_has_groups(chunk) for chunk in remaining]
        self._send(flagged(remaining, map(not_, are_groups)), sender)
        self._send(flagged(remaining, are_groups), sender)

    def _finish(self, totals: OutcomeTotals, session: PushSession) -> None:
        """Have the appliance end a run whose chunks are all settled."""
        if self._end_run is not None and session.chunks and totals.is_settled:
            session.refused = totals.refused
            session.accepted_refusals = self._progress.accepted_rejects
            self._end_run(session)

    def _connect(self) -> None:
        """Request the backlog until there is a connection; raise TargetError if there is none.

        A wrong address is so reported within minutes, while a backlog is waited for by the hour.
        """
        if self._is_reached:
            return
        pauses = RetryPauses(self._settings.retry)
        while (response := self.client.backlog()).status is None and response.is_unsent:
            seconds = None if response.is_permanent else pauses.next_seconds()
            if seconds is None:
                raise TargetError(response.error)
            self._progress.notify(f"{response.error}; next attempt in {seconds:.0f} s")
            if not self._gate.pause(seconds):
                raise PushInterrupted
        self._is_reached = True

    def _send(self, chunks: Sequence[Chunk], sender: ChunkSender) -> None:
        """Send the datasources in parallel, at most `jobs` at a time; raise the worst error.

        The first error ends the other datasources after their current chunk. Chunks without a
        datasource are sent one after another, so the last of them is sent after all others.
        """
        by_source: dict[tuple[str | None, str | None] | None, array[int]] = {}
        for index, chunk in enumerate(chunks):
            key = (chunk.format, chunk.datasource) if chunk.datasource else None
            by_source.setdefault(key, array("q")).append(index)
        waiting = SimpleQueue[Sequence[Chunk]]()
        for of_source in by_source.values():
            waiting.put(chosen(chunks, of_source))
        errors: list[Exception] = []

        def work() -> None:
            try:
                while not self._stop.is_set:
                    for chunk in waiting.get_nowait():
                        sender.send(chunk)
            except Empty:
                return
            except Exception as exc:  # raised when all threads have ended
                errors.append(exc)
                self._stop.stop()

        count = min(self._settings.jobs, len(by_source))
        threads = [threading.Thread(target=work, daemon=True) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():  # a signal just before the wait is handled after it
                thread.join(1.0)
        if errors:
            raise min(errors, key=lambda error: _BY_SEVERITY.index(_error_code(error)))


def _has_groups(chunk: Chunk) -> bool:
    format_ = find_format(chunk.format)
    return format_ is not None and format_.holds_only_memberships


def _text_of(error: Exception) -> str:
    return error.text if isinstance(error, FeedferryError) else str(error)


def _error_code(error: Exception) -> int:
    if isinstance(error, FeedferryError):
        return error.exit_code
    if isinstance(error, OSError):
        return FatalError.exit_code
    return 0 if isinstance(error, PushInterrupted) else FeedferryError.exit_code
