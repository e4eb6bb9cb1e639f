"""The outcome of each chunk, computed from its receipts, and the account of a push."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from operator import attrgetter

import msgspec

from schemas.account import Chunk
from schemas.receipt import AttemptState, Receipt, Refusal
from transforms.sinks.push.model import ERASING_FEEDTYPES, count_records

READY, ACCEPTED, PARTLY_ACCEPTED = "ready", "accepted", "partly-accepted"
REFUSED, FAILED = "refused", "failed"
"""The states of a chunk in a manifest."""

_SETTLED = (AttemptState.ACCEPTED, AttemptState.REFUSED)


class ChunkOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one chunk, and how many of its records were accepted and refused.

    `refusals` are single records; a chunk that was refused as a whole has none. `bytes` counts the
    bytes of accepted requests.
    """

    chunk: Chunk
    state: str
    accepted: int = 0
    refused: int = 0
    refusals: tuple[Refusal, ...] = ()
    attempts: int = 0
    bytes: int = 0
    reply: str | None = None

    @property
    def allows_next(self) -> bool:
        """Whether the chunk after it may be sent: not after a refused full feed."""
        if self.state == REFUSED:
            return self.chunk.feedtype not in ERASING_FEEDTYPES
        return self.state in (ACCEPTED, PARTLY_ACCEPTED)

    @property
    def left(self) -> int:
        return count_records(self.chunk) - self.accepted - self.refused


class PushAccount(msgspec.Struct, frozen=True, kw_only=True):
    """The account of a push, and of earlier pushes that it continues.

    `stopped` says why the push ended before everything was settled, and `exit_code` what kind of
    reason that is. `earlier_chunks` were settled by earlier pushes, which sent `earlier_bytes`.
    """

    target: str
    outcomes: tuple[ChunkOutcome, ...]
    earlier_chunks: int = 0
    earlier_bytes: int = 0
    notices: dict[str, int] = {}
    stopped: str | None = None
    exit_code: int = 0
    waited_seconds: float = 0.0
    seconds: float = 0.0

    @property
    def sent_bytes(self) -> int:
        """The bytes of the accepted requests of this push."""
        return sum(outcome.bytes for outcome in self.outcomes) - self.earlier_bytes

    def count_states(self) -> dict[str, int]:
        return dict(sorted(Counter(outcome.state for outcome in self.outcomes).items()))


def outcomes_of(chunks: Iterable[Chunk], receipts: Iterable[Receipt]) -> Iterator[ChunkOutcome]:
    """Yield the outcome of each chunk, in the order of the chunks."""
    by_chunk: dict[int, list[Receipt]] = defaultdict(list)
    for receipt in receipts:
        by_chunk[receipt.chunk].append(receipt)
    for chunk in chunks:
        yield outcome_of(chunk, by_chunk[chunk.ordinal])


def outcome_of(chunk: Chunk, receipts: list[Receipt]) -> ChunkOutcome:
    """Return the outcome of one chunk from all its receipts, in their order."""
    last = {(receipt.first, receipt.count): receipt for receipt in receipts}
    settled = [receipt for receipt in last.values() if receipt.state in _SETTLED]
    refusals = sorted(_single_refusals(chunk, settled), key=attrgetter("record"))
    refused = len(refusals) + sum(
        _size(chunk, receipt)
        for receipt in settled
        if receipt.state is AttemptState.REFUSED and _size(chunk, receipt) > 1
    )
    covered = sum(_size(chunk, receipt) for receipt in settled)
    state = FAILED if receipts else READY
    if settled and covered == count_records(chunk):
        is_accepted = all(
            receipt.state is AttemptState.ACCEPTED and not receipt.refused for receipt in settled
        )
        state = ACCEPTED if is_accepted else PARTLY_ACCEPTED if covered > refused else REFUSED
    return ChunkOutcome(
        chunk=chunk,
        state=state,
        accepted=covered - refused,
        refused=refused,
        refusals=tuple(refusals),
        attempts=sum(receipt.state is AttemptState.SENDING for receipt in receipts),
        bytes=sum(receipt.bytes for receipt in settled if receipt.state is AttemptState.ACCEPTED),
        reply=next((receipt.reply for receipt in reversed(receipts) if receipt.reply), None),
    )


def _single_refusals(chunk: Chunk, settled: list[Receipt]) -> Iterator[Refusal]:
    for receipt in settled:
        yield from receipt.refused
        if receipt.state is AttemptState.REFUSED and _size(chunk, receipt) == 1:
            yield Refusal(receipt.first, receipt.reply)


def _size(chunk: Chunk, receipt: Receipt) -> int:
    return receipt.count or count_records(chunk)
