"""The account of a push as its user reads it, and as `report.json` beside its receipts."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipelines.cli.progress import format_clock
from schemas.account import Chunk
from transforms.sinks.push.outcome import (
    ACCEPTED,
    FAILED,
    PARTLY,
    READY,
    REFUSED,
    ChunkOutcome,
    PushAccount,
    count_of,
)
from transforms.sinks.push.settings import PushSettings
from transforms.sinks.push.update_index import is_added_update

VERSION = 1
SAMPLES = 5
"""How many refused records are shown with the appliance's words."""

_ROWS = ((ACCEPTED, (ACCEPTED, PARTLY)), (REFUSED, (REFUSED,)), ("left", (FAILED, READY)))


def as_text(pushed: PushAccount, *, root: Path, folder: Path) -> str:
    """The account as a table, then what was refused, and where everything is."""
    refused = sum(fate.refused for fate in pushed.outcomes)
    lines = [
        *_table(pushed.outcomes),
        *_earlier(pushed),
        *(f"refused   {line}" for line in _refusals(pushed.outcomes)),
        *(f"notice    {words}: {count:,}" for words, count in sorted(pushed.notices.items())),
        *([f"rejects   {refused:,}, in {root}/rejects/"] if refused else []),
        f"target    {pushed.target}{_time(pushed)}",
        f"receipts  {folder}/",
    ]
    return "\n".join(lines)


def as_json(pushed: PushAccount) -> dict[str, Any]:
    """The account as plain values; what became of each chunk stands in the manifest."""
    return {
        "version": VERSION,
        "target": pushed.target,
        "chunks": pushed.chunks(),
        "records": dict(
            zip(("accepted", "refused", "left"), _records(pushed.outcomes), strict=True)
        ),
        "earlier_chunks": pushed.earlier_chunks,
        "bytes": pushed.sent_bytes + pushed.earlier_bytes,
        "sent_bytes": pushed.sent_bytes,
        "attempts": sum(fate.attempts for fate in pushed.outcomes),
        "notices": pushed.notices,
        "stopped": pushed.stopped,
        "waited_seconds": round(pushed.waited_seconds, 3),
        "seconds": round(pushed.seconds, 3),
    }


def as_json_text(pushed: PushAccount, *, root: Path, folder: Path) -> str:
    """The report as one indented document, keys sorted."""
    told = {**as_json(pushed), "folder": str(root), "receipts": str(folder)}
    return json.dumps(told, indent=2, sort_keys=True, ensure_ascii=False)


def plan_text(chunks: Sequence[Chunk], settings: PushSettings) -> str:
    """What a push would send, in order, a line for each datasource."""
    lanes: dict[tuple[str, str], list[Chunk]] = {}
    for chunk in chunks:
        lanes.setdefault((chunk.format or "", chunk.datasource or ""), []).append(chunk)
    lines = [_lane(*lane, found) for lane, found in lanes.items()]
    lines = lines or ["chunks    none left: earlier pushes have settled all of them"]
    return "\n".join([*lines, f"target    {settings.appliance.url}", "nothing was sent"])


def _lane(format_name: str, datasource: str, chunks: list[Chunk]) -> str:
    types = ", ".join(
        f"{count} {feedtype}"
        for feedtype, count in Counter(chunk.feedtype or format_name for chunk in chunks).items()
    )
    size = sum(chunk.bytes for chunk in chunks)
    records = sum(count_of(chunk) for chunk in chunks if not is_added_update(chunk))
    name = f"{datasource or format_name}: "
    return f"chunks    {name}{len(chunks):,} ({types}), {records:,} records, {size:,} bytes"


def _earlier(pushed: PushAccount) -> list[str]:
    """Say which chunks this push did not send, because an earlier push settled them."""
    earlier, total = pushed.earlier_chunks, len(pushed.outcomes)
    if not earlier:
        return []
    if earlier == total:
        return [
            f"sent      nothing: an earlier push has settled all {total:,} chunks;"
            " --replay sends them again"
        ]
    return [f"sent      an earlier push has settled {earlier:,} of the {total:,} chunks"]


def _table(outcomes: Sequence[ChunkOutcome]) -> list[str]:
    """Chunks are where they stand; records where each of them is."""
    records = _records(outcomes)
    rows = [
        (name, sum(fate.state in states for fate in outcomes), count)
        for (name, states), count in zip(_ROWS, records, strict=True)
    ]
    rows.append(("total", len(outcomes), sum(records)))
    head = f"{'':<10}{'chunks':>12}{'records':>12}"
    return [head, *(f"{name:<10}{chunks:>12,}{count:>12,}" for name, chunks, count in rows)]


def _records(outcomes: Sequence[ChunkOutcome]) -> tuple[int, int, int]:
    """Count records that were accepted, refused and left.

    An update of search indexes that feedferry added is not a record.
    """
    carried = [fate for fate in outcomes if not is_added_update(fate.chunk)]
    return (
        sum(fate.accepted for fate in carried),
        sum(fate.refused for fate in carried),
        sum(fate.left for fate in carried),
    )


def _refusals(outcomes: Sequence[ChunkOutcome]) -> list[str]:
    found = [
        f"{fate.chunk.path}, record {refusal.record + 1}: {refusal.words}"
        for fate in outcomes
        for refusal in fate.refusals
    ]
    found += [
        f"{fate.chunk.path}: {fate.reply}"
        for fate in outcomes
        if fate.state == REFUSED and not fate.refusals
    ]
    return found[:SAMPLES]


def _time(pushed: PushAccount) -> str:
    seconds = pushed.waited_seconds
    waited = f", {format_clock(seconds)} waiting" if seconds >= 1 else ""
    return f", {pushed.sent_bytes:,} bytes on the wire in {format_clock(pushed.seconds)}{waited}"
