"""One lane of a push: the chunks of one datasource, strictly in order.

A chunk is sent when all before it are settled: accepted, or refused and set aside. What is not
settled ends the lane, so that nothing is ever sent behind it; above all nothing behind a `full`
part, which would be wiped when that is sent at last.
"""

import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from schemas.account import Chunk
from schemas.errors import TargetError, TooManyRejectsError
from schemas.feed import INCREMENTAL
from schemas.receipt import AttemptState, Receipt
from transforms.sinks.push.model import (
    ERASING,
    ApplianceProtocol,
    ApplianceResponse,
    ChunkPart,
    ResponseMeaning,
    Verdict,
)
from transforms.sinks.push.outcome import count_of
from transforms.sinks.push.progress import PushProgress
from transforms.sinks.push.receipts import Receipts
from transforms.sinks.push.settings import OnRefusal, PushSettings
from transforms.sinks.push.splitter import ChunkSplitter
from transforms.sinks.push.throttle.backoff import Waits
from transforms.sinks.push.throttle.gate import SendGate
from transforms.sinks.push.update_index import is_added_update
from transforms.sinks.push.wire import gsa_responses, thunderstone_responses
from transforms.sinks.push.wire.client import ApplianceClient

REPLY_CHARS = 2000
"""How much of an answer a receipt keeps."""

MAX_ITEMS = 100_000
"""So many Items go into one request: each has a result in the answer, which is held in memory."""

FORGONE = "not sent: the update behind all chunks does the same"

MOST_IN_A_ROW = 100
"""So many records refused, none taken between: it is not the records that are at fault."""

_SURE_BYTES = 4
"""A byte becomes at most three on the wire, and the form around it is small."""


class Drained(Exception):  # noqa: N818 - nothing went wrong: somebody asked for it
    """The push was asked to end behind the chunk that was under way."""


@dataclass(kw_only=True, eq=False)
class ChunkSender:
    """What the lanes of one push share, and the way of a chunk in each of them.

    Chunks stand below `root`. All methods are safe from several threads.
    """

    settings: PushSettings
    wire: ApplianceClient
    pace: SendGate
    receipts: Receipts
    root: Path
    watch: PushProgress

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._in_a_row = 0
        self.notices: Counter[str] = Counter()

    def run(self, chunks: Iterable[Chunk]) -> None:
        """Push chunks one behind the other.

        Raises TargetError, BusyError or TooManyRejectsError where one of them is not settled, and
        Drained behind the one that was under way when the push was asked to end.
        """
        for chunk in chunks:
            self._push(chunk)

    def forgo(self, chunk: Chunk) -> None:
        """Settle an update of search indexes that another one makes needless."""
        self.receipts.add(
            Receipt(
                chunk=chunk.ordinal,
                sha256=chunk.sha256,
                state=AttemptState.ACCEPTED,
                attempt=0,
                reply=FORGONE,
                at=_now(),
            )
        )

    def _push(self, chunk: Chunk) -> None:
        cutter = ChunkSplitter(chunk, self.root)
        waiting = deque(self._parts(cutter))
        is_begun = False
        while waiting:
            part = waiting.popleft()
            feedtype = _feedtype(chunk, is_begun=is_begun)
            state = self._known(part) or self._set_aside(part) or self._send(part, feedtype)
            if state is AttemptState.SPLIT:
                waiting.extendleft(reversed(cutter.split(part)))
            is_begun = is_begun or state is AttemptState.ACCEPTED
        if chunk.feedtype in ERASING and not is_begun:
            raise TargetError(
                f"{chunk.path}: the {chunk.feedtype} part of {chunk.datasource!r} was refused;"
                " expected it to be taken before the parts behind it, which are not sent: mend its"
                " records and convert again, or remove the receipts to try it again as it is"
            )

    def _parts(self, cutter: ChunkSplitter) -> Iterator[ChunkPart]:
        """Yield the whole chunk, or runs of its records if it is too large for one request."""
        if self._fits(cutter.whole):
            yield cutter.whole
        else:
            yield from cutter.fitting(self._fits)

    def _fits(self, part: ChunkPart) -> bool:
        is_data = self.settings.appliance.protocol is ApplianceProtocol.RECVDATA
        if is_data and _records(part) > MAX_ITEMS:
            return False
        most = self.settings.max_request_bytes
        return part.size * _SURE_BYTES < most or self.wire.request_bytes(part) < most

    def _known(self, part: ChunkPart) -> AttemptState | None:
        known = self.receipts.known(part.chunk, part.first, part.count)
        return None if known in (AttemptState.SENDING, AttemptState.FAILED) else known

    def _set_aside(self, part: ChunkPart) -> AttemptState | None:
        """Refuse a record that no request can hold; return None for all that can be sent."""
        if part.count != 1 or self._fits(part):
            return None
        size, most = self.wire.request_bytes(part), self.settings.max_request_bytes
        words = f"{size:,} bytes on the wire; expected fewer than {most:,}: no request holds it"
        return self._settle(
            part, None, ApplianceResponse(), Verdict(meaning=ResponseMeaning.REFUSED, message=words)
        )

    def _send(self, part: ChunkPart, feedtype: str | None) -> AttemptState:
        """Send a part until it is settled, or raise what keeps it from being so."""
        pauses = Waits(self.settings.backoff)
        while True:
            answer, verdict = self._attempt(part, feedtype)
            if verdict.meaning not in (ResponseMeaning.RETRY, ResponseMeaning.FULL_DISK):
                return self._settle(part, feedtype, answer, verdict)
            self._add(part, feedtype, answer, verdict, state=AttemptState.FAILED)
            pause = pauses(answer, is_busy=verdict.meaning is ResponseMeaning.FULL_DISK)
            if pause is None:
                raise TargetError(f"{part.chunk.path}: {verdict.message}")
            self.watch.tell(f"{part.chunk.path}: {verdict.message}; tried again in {pause:.0f} s")
            self.pace.doubt()
            self._go(self.pace.pause(pause))

    def _attempt(self, part: ChunkPart, feedtype: str | None) -> tuple[ApplianceResponse, Verdict]:
        self._go(self.pace.before())
        self.receipts.add(self._receipt(part, AttemptState.SENDING, feedtype))
        answer = self.wire.send(part, feedtype=feedtype)
        if self.settings.appliance.protocol is ApplianceProtocol.RECVDATA:
            return answer, thunderstone_responses.judge(answer, sent=_records(part))
        return answer, gsa_responses.judge(answer)

    def _go(self, may_go: bool) -> None:
        if not may_go:
            raise Drained

    def _settle(
        self, part: ChunkPart, feedtype: str | None, answer: ApplianceResponse, verdict: Verdict
    ) -> AttemptState:
        """Note what an answer means that will not change; raise where it means the end."""
        state = self._state(part, verdict)
        self._add(part, feedtype, answer, verdict, state=state)
        if state is AttemptState.FAILED:
            raise TargetError(f"{part.chunk.path}: {verdict.message}")
        if state is AttemptState.ACCEPTED:
            self.pace.sent(answer.sent_bytes)
            with self._lock:
                self.notices.update(verdict.notices)
        if state is not AttemptState.SPLIT:
            self._count(part, verdict, state)
        return state

    def _state(self, part: ChunkPart, verdict: Verdict) -> AttemptState:
        if verdict.meaning is ResponseMeaning.ACCEPTED:
            return AttemptState.ACCEPTED
        on_refusal = self.settings.on_refusal
        if verdict.meaning is ResponseMeaning.FATAL or on_refusal is OnRefusal.STOP:
            return AttemptState.FAILED
        if on_refusal is OnRefusal.SKIP or _records(part) < 2:
            return AttemptState.REFUSED
        return AttemptState.SPLIT if verdict.can_split else AttemptState.FAILED

    def _add(
        self,
        part: ChunkPart,
        feedtype: str | None,
        answer: ApplianceResponse,
        verdict: Verdict,
        *,
        state: AttemptState,
    ) -> None:
        """Write the receipt of an attempt; it stands on the disk when this returns."""
        receipt = self._receipt(part, state, feedtype)
        refused = (replace(one, record=part.first + one.record) for one in verdict.refused)
        self.receipts.add(
            replace(
                receipt,
                bytes=answer.sent_bytes,
                status=answer.status,
                reply=verdict.message[:REPLY_CHARS],
                seconds=round(answer.seconds, 3),
                refused=tuple(refused) if state is AttemptState.ACCEPTED else (),
            )
        )

    def _receipt(self, part: ChunkPart, state: AttemptState, feedtype: str | None) -> Receipt:
        known = self.receipts.attempts(part.chunk, part.first, part.count)
        return Receipt(
            chunk=part.chunk.ordinal,
            sha256=part.chunk.sha256,
            state=state,
            first=part.first,
            count=part.count,
            attempt=known + (state is AttemptState.SENDING),
            feedtype=feedtype,
            at=_now(),
        )

    def _count(self, part: ChunkPart, verdict: Verdict, state: AttemptState) -> None:
        records = _records(part)
        refused = len(verdict.refused) if state is AttemptState.ACCEPTED else records
        accepted = 0 if is_added_update(part.chunk) else records - refused
        self.watch.settled(size=part.size, records=accepted, rejects=refused)
        with self._lock:
            self._in_a_row = self._in_a_row + refused if refused == records else 0
        if self._in_a_row >= MOST_IN_A_ROW and self.settings.on_refusal is OnRefusal.BISECT:
            raise TargetError(
                f"{part.chunk.path}: {verdict.message}; {self._in_a_row} records refused in a row:"
                " expected the appliance to take some; push again to go on"
            )
        limit = self.settings.max_rejects
        if refused and limit is not None and self.watch.rejects > limit:
            raise TooManyRejectsError(
                f"{part.chunk.path}: {verdict.message}; this is more than the {limit} records that"
                " --max-rejects allows the appliance to refuse"
            )
        if (
            refused
            and state is AttemptState.ACCEPTED
            and self.settings.on_refusal is OnRefusal.STOP
        ):
            raise TargetError(
                f"{part.chunk.path}: {verdict.message}, {verdict.refused[0].words}; expected all"
                " of them to be taken, as --on-refusal is stop"
            )


def _feedtype(chunk: Chunk, *, is_begun: bool) -> str | None:
    """Only the first part of a full chunk is full: any later one would wipe those before it."""
    return INCREMENTAL if chunk.feedtype in ERASING and is_begun else chunk.feedtype


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _records(part: ChunkPart) -> int:
    return part.count or count_of(part.chunk)
