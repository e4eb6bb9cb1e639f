"""Send chunks, those of one datasource strictly in order.

A chunk is sent when all chunks before it are settled: accepted, or refused and set aside. A chunk
that cannot be settled ends the datasource, so nothing is ever sent after it. Above all nothing is
sent after a `full` part that was not accepted, which would delete it when it is sent later.
"""

import threading
from collections import Counter, deque
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from schemas.account import Chunk
from schemas.errors import TargetError, TooManyRejectsError
from schemas.feed import INCREMENTAL
from schemas.receipt import ChunkState, Receipt
from transforms.retry import RetryPauses
from transforms.sinks.push.chunk_parts import ChunkSplitter
from transforms.sinks.push.model import (
    ERASING_FEEDTYPES,
    ApplianceResponse,
    ChunkPart,
    ResponseMeaning,
    Verdict,
)
from transforms.sinks.push.outcome import PushProgress
from transforms.sinks.push.push_plan import is_added_update
from transforms.sinks.push.receipts import Receipts
from transforms.sinks.push.settings import OnRefusal, PushSettings
from transforms.sinks.push.throttle.gate import SendGate
from transforms.sinks.push.wire.client import ApplianceClient
from transforms.sinks.push.wire.responses import judge_response, retry_after_seconds

MAX_REPLY_LETTERS = 2000
"""How much of a response a receipt keeps."""

MAX_NOTICES = 20
"""Further texts of the appliance about accepted records are counted as one."""

OTHER_NOTICES = "accepted with another remark"

MAX_CONSECUTIVE_REFUSED_RECORDS = 100
"""Stop after this many consecutive refused records: the appliance is the problem, not the data."""

_MAX_GROWTH = 4
"""A byte becomes at most three on the wire, and the form around the document is small."""

_NO_VERDICT = Verdict(meaning=ResponseMeaning.RETRY)


class PushInterrupted(Exception):  # noqa: N818 - no error: the operator asked for it
    """The push was asked to end after the current chunk."""


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

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._consecutive_refusals = 0
        self.notices: Counter[str] = Counter()

    def send(self, chunk: Chunk) -> None:
        """Send a chunk; the chunks of one datasource must be sent in order.

        Raises TargetError, BusyError or TooManyRejectsError if it is not settled, and
        PushInterrupted if the push is asked to end.
        """
        splitter = ChunkSplitter(chunk, self.root)
        parts = deque([splitter.whole])
        is_begun = False
        while parts:
            part = parts.popleft()
            state = self._settle_part(part, is_begun=is_begun)
            if state is ChunkState.SPLIT:
                parts.extendleft(reversed(splitter.split(part)))
            is_begun = is_begun or state is ChunkState.ACCEPTED
        if chunk.feedtype in ERASING_FEEDTYPES and not is_begun:
            raise TargetError(
                f"{chunk.path}: the {chunk.feedtype} part of {chunk.datasource!r} was refused;"
                " expected it to be accepted before the parts after it, which are not sent: fix its"
                " records and convert again, or remove the receipts to send it again as it is"
            )

    def _settle_part(self, part: ChunkPart, *, is_begun: bool) -> ChunkState:
        """Return the state of a part that is settled or split; send it if necessary.

        `is_begun` says that an earlier part of the chunk was accepted.
        """
        last = self.receipts.last(part.chunk, part.first, part.count)
        if last is not None and last.state not in (ChunkState.SENDING, ChunkState.FAILED):
            return last.state
        feedtype = part.chunk.feedtype
        if is_begun and feedtype in ERASING_FEEDTYPES:
            feedtype = INCREMENTAL  # another feedtype would delete the parts before it
        max_records = self.settings.appliance.protocol.max_records
        if max_records is not None and part.records > max_records:
            return ChunkState.SPLIT
        limit = self.settings.max_request_bytes
        if part.size * _MAX_GROWTH >= limit:
            size = self.client.request_bytes(part, feedtype=feedtype)
            if size >= limit and part.records > 1:
                return ChunkState.SPLIT
            if size >= limit:
                message = f"{size:,} bytes on the wire; expected fewer than {limit:,} for a request"
                verdict = Verdict(meaning=ResponseMeaning.REFUSED, message=message)
                return self._settle(part, None, ApplianceResponse(), verdict)
        return self._send_part(part, feedtype)

    def _send_part(self, part: ChunkPart, feedtype: str | None) -> ChunkState:
        """Send a part until it is settled; raise if it cannot be."""
        pauses = RetryPauses(self.settings.retry)
        while True:
            if not self.gate.wait_until_open():
                raise PushInterrupted
            self._add_receipt(part, ChunkState.SENDING, feedtype, ApplianceResponse(), _NO_VERDICT)
            response = self.client.send(part, feedtype=feedtype)
            verdict = judge_response(self.settings.appliance.protocol, response, part.records)
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
        state = self._final_state(part, verdict)
        self._add_receipt(part, state, feedtype, response, verdict)
        if state is ChunkState.FAILED:
            raise TargetError(f"{part.chunk.path}: {verdict.message}")
        if state is ChunkState.ACCEPTED:
            self.gate.report_attempt(is_accepted=True)
        if state is not ChunkState.SPLIT:
            self._count(part, verdict, state)
        return state

    def _final_state(self, part: ChunkPart, verdict: Verdict) -> ChunkState:
        if verdict.meaning is ResponseMeaning.ACCEPTED:
            return ChunkState.ACCEPTED
        on_refusal = self.settings.on_refusal
        if verdict.meaning is ResponseMeaning.FATAL or on_refusal is OnRefusal.STOP:
            return ChunkState.FAILED
        if on_refusal is OnRefusal.SKIP or part.records < 2:
            return ChunkState.REFUSED
        return ChunkState.SPLIT

    def _add_receipt(
        self,
        part: ChunkPart,
        state: ChunkState,
        feedtype: str | None,
        response: ApplianceResponse,
        verdict: Verdict,
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
            reply=verdict.message[:MAX_REPLY_LETTERS],
            seconds=round(response.seconds, 3),
            at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            refused=tuple(refused) if state is ChunkState.ACCEPTED else (),
        )
        self.receipts.add(receipt)

    def _count(self, part: ChunkPart, verdict: Verdict, state: ChunkState) -> None:
        """Count a settled part; raise if too many records are refused."""
        records = part.records
        refused = len(verdict.refused) if state is ChunkState.ACCEPTED else records
        accepted = 0 if is_added_update(part.chunk) else records - refused
        self.progress.add(size=part.size, records=accepted, rejects=refused)
        with self._lock:
            is_refused = refused == records
            self._consecutive_refusals = self._consecutive_refusals + refused if is_refused else 0
            for notice in verdict.notices:
                is_counted = notice in self.notices or len(self.notices) < MAX_NOTICES
                self.notices[notice if is_counted else OTHER_NOTICES] += 1
        if refused:
            self._check_refusals(f"{part.chunk.path}: {verdict.message}", verdict, state)

    def _check_refusals(self, message: str, verdict: Verdict, state: ChunkState) -> None:
        on_refusal, limit = self.settings.on_refusal, self.settings.max_rejects
        consecutive = self._consecutive_refusals
        if consecutive >= MAX_CONSECUTIVE_REFUSED_RECORDS and on_refusal is OnRefusal.BISECT:
            raise TargetError(
                f"{message}; {consecutive} consecutive records refused: expected the appliance to "
                "accept some; push again to continue"
            )
        if limit is not None and self.progress.rejects > limit:
            raise TooManyRejectsError(
                f"{message}; more than {limit} records are refused, the limit of --max-rejects"
            )
        if state is ChunkState.ACCEPTED and on_refusal is OnRefusal.STOP:
            raise TargetError(
                f"{message}, {verdict.refused[0].words}; expected all Items to be accepted, "
                "because --on-refusal is stop"
            )
