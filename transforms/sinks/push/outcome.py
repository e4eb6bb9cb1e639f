"""What became of each chunk, by its receipts: the account of a push."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

import msgspec

from schemas.account import Chunk
from schemas.receipt import AttemptState, Receipt, Refusal
from transforms.sinks.push.model import ERASING

READY, ACCEPTED, PARTLY = "ready", "accepted", "partly-accepted"
REFUSED, FAILED = "refused", "failed"
"""The states of a chunk in a manifest; PARTLY is one of which some records were refused."""

_SETTLED = (AttemptState.ACCEPTED, AttemptState.REFUSED)


class ChunkOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one chunk: records accepted and refused, and those that are left.

    `refusals` name single records; a chunk that was refused as a whole has none. `bytes` are
    those of requests that were accepted.
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
        """Whether what is behind it may be sent: nothing is, if it erases and was refused."""
        if self.state == REFUSED:
            return self.chunk.feedtype not in ERASING
        return self.state in (ACCEPTED, PARTLY)

    @property
    def left(self) -> int:
        return count_of(self.chunk) - self.accepted - self.refused


class PushAccount(msgspec.Struct, frozen=True, kw_only=True):
    """The account of a push: what was pushed by it, or by those that it goes on with.

    `stopped` says why it ended before all was settled, and `exit_code` what that means.
    `earlier_chunks` were settled by earlier pushes, which sent `earlier_bytes`; this push did not
    send them.
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
        """Bytes of the accepted requests of this push."""
        return sum(fate.bytes for fate in self.outcomes) - self.earlier_bytes

    def chunks(self) -> dict[str, int]:
        """How many chunks are in each state."""
        return dict(sorted(Counter(fate.state for fate in self.outcomes).items()))


def count_of(chunk: Chunk) -> int:
    """How many records a chunk has."""
    return sum(chunk.records.values())


def outcomes_of(chunks: Iterable[Chunk], receipts: Iterable[Receipt]) -> Iterator[ChunkOutcome]:
    """Yield what became of each chunk, in the order of the chunks."""
    of_chunk: dict[int, list[Receipt]] = defaultdict(list)
    for receipt in receipts:
        of_chunk[receipt.chunk].append(receipt)
    for chunk in chunks:
        yield fate(chunk, of_chunk[chunk.ordinal])


def fate(chunk: Chunk, receipts: list[Receipt]) -> ChunkOutcome:
    """Return what became of one chunk, by all receipts that it has, in their order."""
    last = {(receipt.first, receipt.count): receipt for receipt in receipts}
    settled = [receipt for receipt in last.values() if receipt.state in _SETTLED]
    refusals = tuple(sorted(_refusals(chunk, settled), key=_by_record))
    refused = len(refusals) + sum(_unnamed(chunk, receipt) for receipt in settled)
    covered = sum(_size(chunk, receipt) for receipt in settled)
    is_settled = bool(settled) and covered == count_of(chunk)
    return ChunkOutcome(
        chunk=chunk,
        state=_state(receipts, settled, is_settled=is_settled, accepted=covered - refused),
        accepted=covered - refused,
        refused=refused,
        refusals=refusals,
        attempts=sum(receipt.state is AttemptState.SENDING for receipt in receipts),
        bytes=sum(one.bytes for one in settled if one.state is AttemptState.ACCEPTED),
        reply=next((one.reply for one in reversed(receipts) if one.reply), None),
    )


def _state(
    receipts: list[Receipt], settled: list[Receipt], *, is_settled: bool, accepted: int
) -> str:
    """A chunk without records is accepted or refused too, by its receipt alone."""
    if not is_settled:
        return FAILED if receipts else READY
    if all(one.state is AttemptState.ACCEPTED and not one.refused for one in settled):
        return ACCEPTED
    return PARTLY if accepted else REFUSED


def _size(chunk: Chunk, receipt: Receipt) -> int:
    return receipt.count or count_of(chunk)


def _refusals(chunk: Chunk, settled: list[Receipt]) -> Iterator[Refusal]:
    for receipt in settled:
        yield from receipt.refused
        if receipt.state is AttemptState.REFUSED and _size(chunk, receipt) == 1:
            yield Refusal(receipt.first, receipt.reply)


def _unnamed(chunk: Chunk, receipt: Receipt) -> int:
    """How many records were refused together, so that nobody knows which of them is why."""
    size = _size(chunk, receipt)
    return size if receipt.state is AttemptState.REFUSED and size > 1 else 0


def _by_record(refusal: Refusal) -> int:
    return refusal.record
