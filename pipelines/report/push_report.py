"""The account of a push, as text for a terminal and as `report.json` next to its receipts."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from feedferry.pipelines.terminal.summary import Summary
from feedferry.schemas.account import Chunk, RejectSample
from feedferry.schemas.receipt import ChunkState
from feedferry.schemas.units import counted, format_clock
from feedferry.transforms.access.meet import AclChange
from feedferry.transforms.rules.acl_changes import (
    ACL_CHANGES,
    COMPARE,
    LISTED,
    read_counts,
)
from feedferry.transforms.rules.withheld_list import WITHHELD
from feedferry.transforms.sinks.push.model import count_records
from feedferry.transforms.sinks.push.outcome import (
    ChunkOutcome,
    OutcomeTotals,
    PushAccount,
    totals_of,
)
from feedferry.transforms.sinks.push.settings import PushSettings
from feedferry.transforms.storage.run_folders.mirrors import shown

MAX_SAMPLES = 5
"""How many refused records the text shows, with the words of the appliance."""

_CHANGES = frozenset(change.value for change in AclChange)
_STATES = {
    "accepted": (ChunkState.ACCEPTED, ChunkState.PARTLY_ACCEPTED),
    "refused": (ChunkState.REFUSED,),
    "left": (ChunkState.FAILED, ChunkState.READY),
}


class PushReport(msgspec.Struct, frozen=True, kw_only=True):
    """The account of a push: the `report.json` next to its receipts.

    `sent_bytes`, `waited_seconds` and `seconds` do not count earlier pushes that it continues.
    `steps` are what was done at the target before and after the chunks, with its replies. `newer`
    counts the records of which the target had newer versions, and `withheld` the refused documents
    that it shows to no user. `acl_changes` are documents by the change of who sees them.
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
    newer: int = 0
    withheld: int = 0
    acl_changes: dict[str, int] = {}
    steps: dict[str, str] = {}
    accepted_rejects: dict[str, int] = {}
    reject_samples: dict[str, tuple[RejectSample, ...]] = {}
    stopped: str | None = None
    waited_seconds: float = 0.0
    seconds: float = 0.0

    @property
    def shown_steps(self) -> dict[str, str]:
        """The steps with replies for people; some keep a number for a later push."""
        return {name: reply for name, reply in self.steps.items() if not reply.isdecimal()}

    @property
    def new_rejects(self) -> int:
        """The refused records that no list of known rejects has."""
        return self.records.get("refused", 0) - sum(self.accepted_rejects.values())


def summary_of(account: PushAccount, *, root: Path, folder: Path) -> Summary:
    """Return the account as a table, then refusals, notices and the places of files."""
    totals = totals_of(account.outcomes)
    records = _records_of(totals)
    rows = [
        (name, (sum(totals.chunks[state] for state in states), records[name]))
        for name, states in _STATES.items()
    ]
    return Summary(
        columns=("chunks", "records"),
        rows=(*rows, ("total", (len(account.outcomes), sum(records.values())))),
        lines=tuple(_lines(account, totals, root, folder)),
        label_chars=10,
    )


def _lines(
    account: PushAccount, totals: OutcomeTotals, root: Path, folder: Path
) -> Iterator[tuple[str, str]]:
    earlier, total = account.earlier_chunks, len(account.outcomes)
    if account.is_settled_before:
        chunks = f"an earlier push has settled {counted(total, 'chunk')}"
        yield "push", f"nothing to send: {chunks}; --replay sends them again"
    elif earlier:
        yield "sent", f"an earlier push has settled {earlier:,} of the {total:,} chunks"
    if totals.refused or totals.chunks[ChunkState.REFUSED]:
        yield from (("refused", line) for line in _refusals(account.outcomes))
    for words, count in sorted(account.notices.items()):
        yield "notice", f"{words}: {count:,}"
    if account.newer:
        yield "newer", f"{account.newer:,} records; the target keeps the newer versions that it has"
    if account.withheld:
        documents = counted(account.withheld, "document")
        yield "withheld", f"{documents} that no user finds, in {shown(folder)}/{WITHHELD}"
    changes = account.steps.get(COMPARE, "")
    if any(read_counts(changes).get(change.value) for change in LISTED):
        yield "acls", f"{changes}, in {shown(folder)}/{ACL_CHANGES}"
    if totals.refused:
        accepted = sum(account.accepted_rejects.values())
        known = f" ({accepted:,} accepted)" if accepted else ""
        yield "rejects", f"{totals.refused:,}{known}, in {shown(root)}/rejects/"
    time, waited = format_clock(account.seconds), account.waited_seconds
    waiting = f", {format_clock(waited)} waiting" if waited >= 1 else ""
    sent = f", {totals.bytes - account.earlier_bytes:,} bytes on the wire in {time}{waiting}"
    yield "target", account.target + ("" if account.is_settled_before else sent)
    yield "receipts", f"{shown(folder)}/"
    yield "report", f"{shown(root)}/report.html"


def as_json(account: PushAccount) -> dict[str, object]:
    """Return the report as plain values; the manifest has the outcome of each chunk."""
    totals = totals_of(account.outcomes)
    report = PushReport(
        target=account.target,
        chunks=dict(sorted((state.value, count) for state, count in totals.chunks.items())),
        records=_records_of(totals),
        earlier_chunks=account.earlier_chunks,
        bytes=totals.bytes,
        sent_bytes=totals.bytes - account.earlier_bytes,
        attempts=totals.attempts,
        notices=account.notices,
        newer=account.newer,
        withheld=account.withheld,
        acl_changes={
            name: count
            for name, count in read_counts(account.steps.get(COMPARE, "")).items()
            if name in _CHANGES
        },
        steps=account.steps,
        accepted_rejects=account.accepted_rejects,
        reject_samples=account.reject_samples,
        stopped=account.stopped,
        waited_seconds=round(account.waited_seconds, 3),
        seconds=round(account.seconds, 3),
    )
    values: dict[str, object] = msgspec.to_builtins(report)
    return values


def plan_text(chunks: Iterable[Chunk], settings: PushSettings) -> str:
    """Return the chunks that a push would send, in order, with a line for each datasource."""
    by_source: dict[tuple[str, str], _SourceTotals] = defaultdict(_SourceTotals)
    for chunk in chunks:
        totals = by_source[chunk.format or "", chunk.datasource or ""]
        totals.feedtypes[chunk.feedtype or chunk.format or ""] += 1
        totals.records += count_records(chunk)
        totals.bytes += chunk.bytes
    lines = []
    for (format, datasource), totals in by_source.items():
        types = ", ".join(f"{count} {feedtype}" for feedtype, count in totals.feedtypes.items())
        lines.append(
            f"chunks    {datasource or format}: {totals.feedtypes.total():,} ({types}),"
            f" {totals.records:,} records, {totals.bytes:,} bytes"
        )
    lines = lines or ["chunks    none left: earlier pushes have settled all of them"]
    return "\n".join([*lines, f"target    {settings.appliance.url}", "nothing was sent"])


class _SourceTotals(msgspec.Struct):
    """The sums of the chunks of one datasource."""

    feedtypes: Counter[str] = msgspec.field(default_factory=Counter)
    records: int = 0
    bytes: int = 0


def _records_of(totals: OutcomeTotals) -> dict[str, int]:
    return {"accepted": totals.accepted, "refused": totals.refused, "left": totals.left}


def _refusals(outcomes: Iterable[ChunkOutcome]) -> list[str]:
    """Return a line for each of the first refused records, then for chunks refused as a whole."""
    records: list[str] = []
    whole_chunks: list[str] = []
    for outcome in outcomes:
        path = outcome.chunk.path
        records += (f"{path}, record {each.record + 1}: {each.words}" for each in outcome.refusals)
        if outcome.state is ChunkState.REFUSED and not outcome.refusals:
            whole_chunks.append(f"{path}: {outcome.reply}")
        if len(records) >= MAX_SAMPLES:
            break
        del whole_chunks[MAX_SAMPLES:]
    return [*records, *whole_chunks][:MAX_SAMPLES]
