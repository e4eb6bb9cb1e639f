"""The outcome of each chunk by its receipts; account, progress and rejects of a push."""

import threading
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from operator import attrgetter
from pathlib import Path

import msgspec

from feedferry.schemas.account import Chunk, RejectSample, add_reject_sample
from feedferry.schemas.errors import FINDINGS_EXIT, RecordError
from feedferry.schemas.receipt import ChunkState, Receipt, Refusal, RefusalOf
from feedferry.schemas.reject import Reject
from feedferry.transforms.rules.known_rejects import entry_of
from feedferry.transforms.rules.withheld_list import WithheldList
from feedferry.transforms.sinks.push.model import ERASING_FEEDTYPES, count_records
from feedferry.transforms.sinks.push.throttle.backlog import BacklogCount
from feedferry.transforms.storage.atomic import RejectFile
from feedferry.transforms.storage.storage import LocalStorage


class ChunkOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one chunk, and how many of its records were accepted and refused.

    `refusals` are single records; a chunk that was refused as a whole has none. `bytes` counts the
    bytes of accepted requests.
    """

    chunk: Chunk
    state: ChunkState
    accepted: int = 0
    refused: int = 0
    refusals: tuple[Refusal, ...] = ()
    attempts: int = 0
    bytes: int = 0
    reply: str | None = None

    @property
    def allows_next(self) -> bool:
        """Whether the chunk after it may be sent: not after a refused full feed."""
        is_refused_full = (
            self.state is ChunkState.REFUSED and self.chunk.feedtype in ERASING_FEEDTYPES
        )
        return self.state.is_settled and not is_refused_full

    @property
    def left(self) -> int:
        return count_records(self.chunk) - self.accepted - self.refused


class PushAccount(msgspec.Struct, frozen=True, kw_only=True):
    """The account of a push, and of earlier pushes that it continues.

    `stopped` says why the push ended before everything was settled, and `exit_code` what kind of
    reason that is. `accepted_rejects` and `reject_samples` are those of the refused records, as in
    the account of a conversion; they are known when the rejects are written.
    `earlier_chunks` were settled by earlier pushes, which sent `earlier_bytes`. `steps` are those
    before and after the chunks that are done, with the replies. `newer` counts the records of which
    the target had newer versions, and `withheld` the refused documents that it shows to no user.
    """

    target: str
    outcomes: Sequence[ChunkOutcome]
    earlier_chunks: int = 0
    earlier_bytes: int = 0
    notices: dict[str, int] = {}
    newer: int = 0
    withheld: int = 0
    steps: dict[str, str] = {}
    accepted_rejects: dict[str, int] = {}
    reject_samples: dict[str, tuple[RejectSample, ...]] = {}
    stopped: str | None = None
    exit_code: int = 0
    waited_seconds: float = 0.0
    seconds: float = 0.0

    @property
    def is_settled_before(self) -> bool:
        """Whether earlier pushes have settled all chunks."""
        return self.stopped is None and 0 < len(self.outcomes) == self.earlier_chunks


class PushProgress:
    """Counts settled bytes and records, and passes messages for the operator to `notify`.

    `has_earlier` says that what earlier pushes settled is counted before the push begins. `backlog`
    is the last answer of the appliance, `step` what it does before the first chunk. A display in
    another thread may read them.
    """

    def __init__(self, notify: Callable[[str], None]) -> None:
        self.notify = notify
        self._lock = threading.Lock()
        self.bytes = self.records = self.rejects = self.accepted_rejects = 0
        self.backlog: int | None = None
        self.has_earlier = False
        self.step = ""

    def add_earlier(self, outcomes: Iterable[ChunkOutcome]) -> None:
        """Count what earlier pushes settled, unless it is counted."""
        for outcome in () if self.has_earlier else outcomes:
            chunk, settled = outcome.chunk, outcome.accepted + outcome.refused
            self.add(
                size=int(chunk.bytes * settled / (count_records(chunk) or 1)),
                records=outcome.accepted,
                rejects=outcome.refused,
            )

    def keep_backlog(self, count: BacklogCount) -> BacklogCount:
        """Store the answer of the appliance, if it is a number, and return it."""
        if isinstance(count, int):
            self.backlog = count
        return count

    def add(self, *, size: int, records: int, rejects: int, accepted: int = 0) -> None:
        """Count a settled part; `accepted` of its rejects are known ones."""
        with self._lock:
            self.accepted_rejects += accepted
            self.bytes += size
            self.records += records
            self.rejects += rejects


class OutcomeTotals(msgspec.Struct, kw_only=True):
    """The sums of outcomes."""

    chunks: Counter[ChunkState] = msgspec.field(default_factory=Counter)
    accepted: int = 0
    refused: int = 0
    left: int = 0
    attempts: int = 0
    bytes: int = 0
    is_settled: bool = True


def totals_of(outcomes: Iterable[ChunkOutcome]) -> OutcomeTotals:
    """Add up outcomes; `is_settled` says that nothing is left to send."""
    totals = OutcomeTotals()
    for outcome in outcomes:
        totals.chunks[outcome.state] += 1
        totals.attempts += outcome.attempts
        totals.bytes += outcome.bytes
        totals.is_settled &= outcome.allows_next
        totals.accepted += outcome.accepted
        totals.refused += outcome.refused
        totals.left += outcome.left
    return totals


def outcome_of(chunk: Chunk, receipts: list[Receipt]) -> ChunkOutcome:
    """Return the outcome of one chunk from all its receipts, in their order."""
    last = {(receipt.first, receipt.count): receipt for receipt in receipts}
    settled = [receipt for receipt in last.values() if receipt.state.is_settled]
    refusals: list[Refusal] = []
    covered = refused = 0
    for receipt in settled:
        records = receipt.count or count_records(chunk)
        covered += records
        if receipt.state is ChunkState.REFUSED:
            refused += records
            if records == 1:
                refusals.append(Refusal(receipt.first, receipt.reply, RefusalOf.REQUEST))
        else:
            refused += len(receipt.refused)
            refusals += receipt.refused
    accepted = [receipt for receipt in settled if receipt.state is ChunkState.ACCEPTED]
    state = ChunkState.FAILED if receipts else ChunkState.READY
    if settled and covered == count_records(chunk):
        state = ChunkState.PARTLY_ACCEPTED if covered > refused else ChunkState.REFUSED
        if len(accepted) == len(settled) and not refused:
            state = ChunkState.ACCEPTED
    return ChunkOutcome(
        chunk=chunk,
        state=state,
        accepted=covered - refused,
        refused=refused,
        refusals=tuple(sorted(refusals, key=attrgetter("record"))),
        attempts=sum(receipt.state is ChunkState.SENDING for receipt in receipts),
        bytes=sum(receipt.bytes for receipt in accepted),
        reply=next((receipt.reply for receipt in reversed(receipts) if receipt.reply), None),
    )


def write_rejects(
    account: PushAccount,
    *,
    root: Path,
    path: Path,
    withheld: Path | None = None,
    known: Container[str] = (),
) -> PushAccount:
    """Write all refused records, in the order of the chunks; if there are none, remove the file.

    The list `withheld` has those with a URL. Return the account with samples, and with the rejects
    that are in the list `known`. It ends well if all are.

    A chunk of several records that was refused as a whole is one reject, with its first bytes. Its
    file is kept.
    """
    rejects = RejectFile(LocalStorage(path.parent), path.name)
    samples = dict[str, tuple[RejectSample, ...]]()
    accepted = Counter[str]()
    hidden = None if withheld is None else WithheldList(withheld)
    for outcome in account.outcomes:
        if not outcome.refused and outcome.state is not ChunkState.REFUSED:
            continue
        path.parent.mkdir(exist_ok=True)
        for reject in rejects_of(outcome, root):
            is_accepted = entry_of(reject) in known
            accepted[reject.code] += is_accepted
            rejects.add(reject)
            add_reject_sample(samples, reject, is_accepted=is_accepted)
            if hidden is not None and reject.url:
                hidden.add(reject.url, outcome.chunk.datasource, reject)
    if hidden is not None:
        account = msgspec.structs.replace(account, withheld=hidden.close())
    if not rejects.count:
        path.unlink(missing_ok=True)  # an earlier push wrote it; its records are accepted now
        return account
    rejects.close(whole=True)
    is_well = accepted.total() == rejects.count and account.exit_code == FINDINGS_EXIT
    return msgspec.structs.replace(
        account,
        accepted_rejects=dict(+accepted),
        reject_samples=samples,
        exit_code=0 if is_well else account.exit_code,
    )


def rejects_of(outcome: ChunkOutcome, root: Path) -> Iterator[Reject]:
    """Yield the refused records of a chunk; raise SourceError if its file has changed."""
    from feedferry.transforms.sinks.push.chunk_parts import ChunkSplitter

    splitter = ChunkSplitter(outcome.chunk, root)
    if outcome.state is ChunkState.REFUSED and not outcome.refusals:
        yield splitter.reject(RecordError("refused", outcome.reply or ""))
    for refusal in outcome.refusals:
        reason = refusal.words
        if refusal.of is RefusalOf.RECORD:
            reason = f"the appliance responded {reason!r}; expected it to take the record"
        yield splitter.reject(RecordError("refused", reason), refusal.record)
