"""The folder of a run: its manifest, and the account of a push as text and as files.

A push writes `report.json` next to its receipts, and `rejects/`; it updates the manifest.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from pipelines.cli.display import format_clock
from pipelines.cli.locks import PUSHES
from pipelines.cli.summary import Summary
from schemas.account import Chunk
from schemas.errors import ConfigError, FatalError
from schemas.receipt import ChunkState
from schemas.units import counted
from transforms.rules.known_rejects import load_known_rejects
from transforms.sinks.push.model import count_records
from transforms.sinks.push.outcome import ChunkOutcome, PushAccount, write_rejects
from transforms.sinks.push.push_plan import is_added_update
from transforms.sinks.push.settings import Keep, PushSettings
from transforms.storage.atomic import whole_file, write_json

MANIFEST = "manifest.jsonl"
REPORT = "report.json"
MAX_SAMPLES = 5
"""How many refused records the text shows, with the words of the appliance."""

EXPECTED_INPUT = (
    "expected the folder of a finished run (the -o of convert), or feed files with -o DIR"
)

_RESULT = ("accepted_rejects", "chunks", "records", "stopped")
"""The part of a report that only another push changes."""

_STATES = {
    "accepted": (ChunkState.ACCEPTED, ChunkState.PARTLY_ACCEPTED),
    "refused": (ChunkState.REFUSED,),
    "left": (ChunkState.FAILED, ChunkState.READY),
}


def receipts_folder(root: Path, settings: PushSettings) -> Path:
    """Return the folder with the receipts of a run for an appliance.

    It may be that of another spelling of the address, which has been the name of a folder.
    """
    folders = [root / PUSHES / name for name in settings.appliance.names]
    used = (folder for folder in folders if any(folder.glob("receipts-*.jsonl")))
    return next(used, folders[0])


def read_manifest(root: Path) -> list[Chunk]:
    """Return the chunks of a run.

    Raises ConfigError for an unfinished run, and FatalError for a damaged manifest.
    """
    if not (root / REPORT).exists():
        raise ConfigError(unfinished_message(root))
    path = root / MANIFEST
    try:
        lines = path.read_bytes().splitlines()
        return [msgspec.json.decode(line, type=Chunk) for line in lines]
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise FatalError(
            f"{path}: {exc}; expected the manifest of a run: restore it, or convert again with"
            " --fresh"
        ) from exc


def write_manifest(root: Path, chunks: Iterable[Chunk]) -> None:
    with whole_file(root / MANIFEST) as stream:
        stream.writelines(msgspec.json.encode(chunk, order="sorted") + b"\n" for chunk in chunks)


def record_push(root: Path, account: PushAccount, settings: PushSettings) -> PushAccount:
    """Write report, manifest and rejects of a push; remove accepted chunks if that is asked for.

    Return the account with the samples of the rejects, and those that are accepted. If nothing was
    left to send, the report of the push that has sent the last chunk stays.
    """
    folder = receipts_folder(root, settings)
    path = root / "rejects" / f"push-{folder.name}.avro"
    known = load_known_rejects(settings.accepted_rejects)
    account = write_rejects(account, root=root, path=path, known=known)
    report = as_json(account)
    if not (account.is_settled_before and _has_result(folder / REPORT, report)):
        write_json(folder / REPORT, report)
    chunks = {chunk.ordinal: chunk for chunk in read_manifest(root)}
    for outcome in account.outcomes:  # an update of indexes that is not pushed stays as it is
        chunks[outcome.chunk.ordinal] = replace(
            chunks[outcome.chunk.ordinal],
            state=outcome.state,
            attempts=outcome.attempts,
            reply=outcome.reply,
        )
    write_manifest(root, chunks.values())
    if settings.keep is Keep.REFUSED:
        for outcome in account.outcomes:
            if outcome.state is ChunkState.ACCEPTED:
                (root / outcome.chunk.path).unlink(missing_ok=True)
    return account


def _has_result(path: Path, report: Mapping[str, object]) -> bool:
    """Whether the report of an earlier push states the same result."""
    try:
        earlier = json.loads(path.read_bytes())
    except (OSError, ValueError):  # it was killed before it wrote its report
        return False
    return all(earlier.get(name) == report[name] for name in _RESULT)


def unfinished_message(path: Path) -> str:
    return (
        f"INPUT: {str(path)!r}: an unfinished run; expected a finished one: start its conversion"
        " again to complete it"
    )


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
        yield "rejects", f"{refused:,}{known}, in {root}/rejects/"
    time, waited = format_clock(account.seconds), account.waited_seconds
    waiting = f", {format_clock(waited)} waiting" if waited >= 1 else ""
    sent = f", {account.sent_bytes:,} bytes on the wire in {time}{waiting}"
    yield "target", account.target + ("" if account.is_settled_before else sent)
    yield "receipts", f"{folder}/"
    yield "report", f"{root}/report.html"


def as_json(account: PushAccount) -> dict[str, object]:
    """Return the account as plain values; the manifest has the outcome of each chunk."""
    outcomes = account.outcomes
    return {
        "version": 1,
        "target": account.target,
        "chunks": dict(sorted(Counter(outcome.state.value for outcome in outcomes).items())),
        "records": _count_records(outcomes),
        "earlier_chunks": account.earlier_chunks,
        "bytes": account.sent_bytes + account.earlier_bytes,
        "sent_bytes": account.sent_bytes,
        "attempts": sum(outcome.attempts for outcome in outcomes),
        "notices": account.notices,
        "accepted_rejects": account.accepted_rejects,
        "reject_samples": msgspec.to_builtins(account.reject_samples),
        "stopped": account.stopped,
        "waited_seconds": round(account.waited_seconds, 3),
        "seconds": round(account.seconds, 3),
    }


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
