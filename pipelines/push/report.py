"""The account of a push as text, and as `report.json` next to its receipts."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from pipelines.cli.display import format_clock
from schemas.account import Chunk
from schemas.receipt import ChunkState
from transforms.sinks.push.model import count_records
from transforms.sinks.push.outcome import ChunkOutcome, PushAccount
from transforms.sinks.push.push_plan import is_added_update
from transforms.sinks.push.settings import PushSettings

VERSION = 1
MAX_SAMPLES = 5
"""How many refused records the text shows, with the words of the appliance."""

_ROWS = (
    ("accepted", (ChunkState.ACCEPTED, ChunkState.PARTLY_ACCEPTED)),
    ("refused", (ChunkState.REFUSED,)),
    ("left", (ChunkState.FAILED, ChunkState.READY)),
)


def as_text(account: PushAccount, *, root: Path, folder: Path) -> str:
    """Return the account as a table, then refusals, notices and the places of files."""
    refused = sum(outcome.refused for outcome in account.outcomes)
    lines = [
        *_table(account.outcomes),
        *_earlier(account),
        *(f"refused   {line}" for line in _refusals(account.outcomes)),
        *(f"notice    {words}: {count:,}" for words, count in sorted(account.notices.items())),
        *([f"rejects   {refused:,}, in {root}/rejects/"] if refused else []),
        f"target    {account.target}{_time(account)}",
        f"receipts  {folder}/",
    ]
    return "\n".join(lines)


def as_json(account: PushAccount) -> dict[str, object]:
    """Return the account as plain values; the manifest has the outcome of each chunk."""
    names = (name for name, _ in _ROWS)
    records = zip(names, _count_records(account.outcomes), strict=True)
    return {
        "version": VERSION,
        "target": account.target,
        "chunks": account.count_states(),
        "records": dict(records),
        "earlier_chunks": account.earlier_chunks,
        "bytes": account.sent_bytes + account.earlier_bytes,
        "sent_bytes": account.sent_bytes,
        "attempts": sum(outcome.attempts for outcome in account.outcomes),
        "notices": account.notices,
        "stopped": account.stopped,
        "waited_seconds": round(account.waited_seconds, 3),
        "seconds": round(account.seconds, 3),
    }


def as_json_text(account: PushAccount, *, root: Path, folder: Path) -> str:
    """Return the report as one indented document with sorted keys."""
    report = {**as_json(account), "folder": str(root), "receipts": str(folder)}
    return json.dumps(report, indent=2, sort_keys=True, ensure_ascii=False)


def plan_text(chunks: Sequence[Chunk], settings: PushSettings) -> str:
    """Return the chunks that a push would send, in order, with a line for each datasource."""
    by_source: dict[tuple[str, str], list[Chunk]] = {}
    for chunk in chunks:
        by_source.setdefault((chunk.format or "", chunk.datasource or ""), []).append(chunk)
    lines = [
        _plan_line(datasource or name, name, of) for (name, datasource), of in by_source.items()
    ]
    lines = lines or ["chunks    none left: earlier pushes have settled all of them"]
    return "\n".join([*lines, f"target    {settings.appliance.url}", "nothing was sent"])


def _plan_line(name: str, format: str, chunks: list[Chunk]) -> str:
    feedtypes = Counter(chunk.feedtype or format for chunk in chunks)
    types = ", ".join(f"{count} {feedtype}" for feedtype, count in feedtypes.items())
    size = sum(chunk.bytes for chunk in chunks)
    records = sum(count_records(chunk) for chunk in chunks if not is_added_update(chunk))
    return f"chunks    {name}: {len(chunks):,} ({types}), {records:,} records, {size:,} bytes"


def _earlier(account: PushAccount) -> list[str]:
    """Return a line about the chunks that this push did not send again."""
    earlier, total = account.earlier_chunks, len(account.outcomes)
    if not earlier:
        return []
    if earlier == total:
        return [
            f"sent      nothing: an earlier push has settled all {total:,} chunks;"
            " --replay sends them again"
        ]
    return [f"sent      an earlier push has settled {earlier:,} of the {total:,} chunks"]


def _table(outcomes: Sequence[ChunkOutcome]) -> Iterator[str]:
    records = _count_records(outcomes)
    yield f"{'':<10}{'chunks':>12}{'records':>12}"
    for (name, states), count in zip(_ROWS, records, strict=True):
        chunks = sum(outcome.state in states for outcome in outcomes)
        yield f"{name:<10}{chunks:>12,}{count:>12,}"
    yield f"{'total':<10}{len(outcomes):>12,}{sum(records):>12,}"


def _count_records(outcomes: Sequence[ChunkOutcome]) -> tuple[int, int, int]:
    """Count accepted, refused and left records; an update of indexes that we added is no record."""
    counted = [outcome for outcome in outcomes if not is_added_update(outcome.chunk)]
    return (
        sum(outcome.accepted for outcome in counted),
        sum(outcome.refused for outcome in counted),
        sum(outcome.left for outcome in counted),
    )


def _refusals(outcomes: Sequence[ChunkOutcome]) -> list[str]:
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
    return [*records, *whole_chunks][:MAX_SAMPLES]


def _time(account: PushAccount) -> str:
    waited = account.waited_seconds
    waiting = f", {format_clock(waited)} waiting" if waited >= 1 else ""
    return f", {account.sent_bytes:,} bytes on the wire in {format_clock(account.seconds)}{waiting}"
