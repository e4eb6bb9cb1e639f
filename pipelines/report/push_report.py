"""The account of a push, as text for a terminal and as `report.json` next to its receipts."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from pipelines.terminal.summary import Summary
from schemas.account import Chunk, RejectSample
from schemas.receipt import ChunkState
from schemas.units import counted, format_clock
from transforms.sinks.push.model import count_records
from transforms.sinks.push.outcome import ChunkOutcome, PushAccount
from transforms.sinks.push.push_plan import is_added_update
from transforms.sinks.push.settings import PushSettings
from transforms.storage.mirrors import shown

MAX_SAMPLES = 5
"""How many refused records the text shows, with the words of the appliance."""

_STATES = {
    "accepted": (ChunkState.ACCEPTED, ChunkState.PARTLY_ACCEPTED),
    "refused": (ChunkState.REFUSED,),
    "left": (ChunkState.FAILED, ChunkState.READY),
}


class PushReport(msgspec.Struct, frozen=True, kw_only=True):
    """The account of a push: the `report.json` next to its receipts.

    `sent_bytes`, `waited_seconds` and `seconds` do not count earlier pushes that it continues.
    """

    version: int = 1
    target: str
    chunks: dict[str, int] = {}
    records: dict[str, int] = {}
    earlier_chunks: int = 0
    bytes: int = 0
    sent_bytes: int = 0
    attempts: int = 0
    notices: dict[str, int] = {}
    accepted_rejects: dict[str, int] = {}
    reject_samples: dict[str, tuple[RejectSample, ...]] = {}
    stopped: str | None = None
    waited_seconds: float = 0.0
    seconds: float = 0.0

    @property
    def new_rejects(self) -> int:
        """The refused records that no list of known rejects has."""
        return self.records.get("refused", 0) - sum(self.accepted_rejects.values())


def summary_of(account: PushAccount, *, root: Path, folder: Path) -> Summary:
    """Return the account as a table, then refusals, notices and the places of files."""
    outcomes, records = account.outcomes, _count_records(account.outcomes)
    rows = [
        (name, (sum(outcome.state in states for outcome in outcomes), records[name]))
        for name, states in _STATES.items()
    ]
    return Summary(
        columns=("chunks", "records"),
        rows=(*rows, ("total", (len(outcomes), sum(records.values())))),
        lines=tuple(_lines(account, root, folder)),
        label_chars=10,
    )


def _lines(account: PushAccount, root: Path, folder: Path) -> Iterator[tuple[str, str]]:
    outcomes = account.outcomes
    earlier, total = account.earlier_chunks, len(outcomes)
    if account.is_settled_before:
        chunks = f"an earlier push has settled {counted(total, 'chunk')}"
        yield "push", f"nothing to send: {chunks}; --replay sends them again"
    elif earlier:
        yield "sent", f"an earlier push has settled {earlier:,} of the {total:,} chunks"
    yield from (("refused", line) for line in _refusals(outcomes)[:MAX_SAMPLES])
    for words, count in sorted(account.notices.items()):
        yield "notice", f"{words}: {count:,}"
    if refused := sum(outcome.refused for outcome in outcomes):
        accepted = sum(account.accepted_rejects.values())
        known = f" ({accepted:,} accepted)" if accepted else ""
        yield "rejects", f"{refused:,}{known}, in {shown(root)}/rejects/"
    time, waited = format_clock(account.seconds), account.waited_seconds
    waiting = f", {format_clock(waited)} waiting" if waited >= 1 else ""
    sent = f", {account.sent_bytes:,} bytes on the wire in {time}{waiting}"
    yield "target", account.target + ("" if account.is_settled_before else sent)
    yield "receipts", f"{shown(folder)}/"
    yield "report", f"{shown(root)}/report.html"


def as_json(account: PushAccount) -> dict[str, object]:
    """Return the report as plain values; the manifest has the outcome of each chunk."""
    outcomes = account.outcomes
    report = PushReport(
        target=account.target,
        chunks=dict(sorted(Counter(outcome.state.value for outcome in outcomes).items())),
        records=_count_records(outcomes),
        earlier_chunks=account.earlier_chunks,
        bytes=account.sent_bytes + account.earlier_bytes,
        sent_bytes=account.sent_bytes,
        attempts=sum(outcome.attempts for outcome in outcomes),
        notices=account.notices,
        accepted_rejects=account.accepted_rejects,
        reject_samples=account.reject_samples,
        stopped=account.stopped,
        waited_seconds=round(account.waited_seconds, 3),
        seconds=round(account.seconds, 3),
    )
    values: dict[str, object] = msgspec.to_builtins(report)
    return values


def plan_text(chunks: Sequence[Chunk], settings: PushSettings) -> str:
    """Return the chunks that a push would send, in order, with a line for each datasource."""
    by_source: dict[tuple[str, str], list[Chunk]] = {}
    for chunk in chunks:
        by_source.setdefault((chunk.format or "", chunk.datasource or ""), []).append(chunk)
    lines = []
    for (format, datasource), of_source in by_source.items():
        feedtypes = Counter(chunk.feedtype or format for chunk in of_source)
        types = ", ".join(f"{count} {feedtype}" for feedtype, count in feedtypes.items())
        records = sum(count_records(chunk) for chunk in of_source if not is_added_update(chunk))
        size = sum(chunk.bytes for chunk in of_source)
        lines.append(
            f"chunks    {datasource or format}: {len(of_source):,} ({types}), {records:,} records,"
            f" {size:,} bytes"
        )
    lines = lines or ["chunks    none left: earlier pushes have settled all of them"]
    return "\n".join([*lines, f"target    {settings.appliance.url}", "nothing was sent"])


def _count_records(outcomes: Sequence[ChunkOutcome]) -> dict[str, int]:
    """Count accepted, refused and left records; an update of indexes that we added is no record."""
    counted = [outcome for outcome in outcomes if not is_added_update(outcome.chunk)]
    return {
        "accepted": sum(outcome.accepted for outcome in counted),
        "refused": sum(outcome.refused for outcome in counted),
        "left": sum(outcome.left for outcome in counted),
    }


def _refusals(outcomes: Sequence[ChunkOutcome]) -> list[str]:
    """Return a line for each refused record, then for each chunk that was refused as a whole."""
    records = [
        f"{outcome.chunk.path}, record {refusal.record + 1}: {refusal.words}"
        for outcome in outcomes
        for refusal in outcome.refusals
    ]
    whole_chunks = [
        f"{outcome.chunk.path}: {outcome.reply}"
        for outcome in outcomes
        if outcome.state is ChunkState.REFUSED and not outcome.refusals
    ]
    return [*records, *whole_chunks]
