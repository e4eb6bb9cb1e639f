"""Write the report, the manifest and the rejects of a push into the folder of its run."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec.structs import replace

from feedferry.pipelines.folders.manifest import (
    REPORT,
    read_manifest,
    receipts_folder,
    write_manifest,
)
from feedferry.pipelines.report.push_report import as_json
from feedferry.schemas.account import Chunk
from feedferry.schemas.receipt import ChunkState
from feedferry.schemas.setting import in_flags
from feedferry.transforms.rules.known_rejects import load_known_rejects
from feedferry.transforms.rules.withheld_list import WITHHELD
from feedferry.transforms.sinks.push.outcome import ChunkOutcome, PushAccount, write_rejects
from feedferry.transforms.sinks.push.settings import Keep, PushSettings
from feedferry.transforms.storage.atomic import write_json
from feedferry.transforms.storage.run_folders import mirrors

_RESULT = ("accepted_rejects", "chunks", "records", "stopped")
"""The part of a report that only another push changes."""


class PushResult(msgspec.Struct, frozen=True, kw_only=True):
    """A push that has ended: its account, and the folders of its run and of its receipts.

    `reason` is `account.stopped` as a message, with marks for settings.
    """

    root: Path
    receipts: Path
    account: PushAccount
    reason: str | None = None

    @property
    def sums(self) -> dict[str, int]:
        """The records by their results, and the bytes that were accepted."""
        names = ("accepted", "refused", "left", "bytes")
        outcomes = self.account.outcomes
        return {name: sum(getattr(outcome, name) for outcome in outcomes) for name in names}

    @property
    def exit_code(self) -> int:
        return self.account.exit_code


def record_push(root: Path, account: PushAccount, settings: PushSettings) -> PushResult:
    """Write report, manifest and rejects of a push; remove accepted chunks if that is asked for.

    The account of the result has the samples of the rejects, and those that are accepted. If
    nothing was left to send, the report of the push that has sent the last chunk stays.
    """
    reason = account.stopped
    account = replace(account, stopped=reason and in_flags(reason))
    folder = receipts_folder(root, settings)
    path = root / "rejects" / f"push-{folder.name}.avro"
    known = load_known_rejects(settings.accepted_rejects)
    withheld = None if settings.hide is None else folder / WITHHELD
    account = write_rejects(account, root=root, path=path, withheld=withheld, known=known)
    report = as_json(account)
    if not (account.is_settled_before and _has_result(folder / REPORT, report)):
        write_json(folder / REPORT, report)
    write_manifest(root, _with_outcomes(read_manifest(root), account.outcomes))
    if settings.keep is Keep.REFUSED:
        for outcome in account.outcomes:
            if outcome.state is ChunkState.ACCEPTED:
                mirrors.remove(root / outcome.chunk.path)
    return PushResult(root=root, receipts=folder, account=account, reason=reason)


def _with_outcomes(chunks: Iterable[Chunk], outcomes: Iterable[ChunkOutcome]) -> Iterator[Chunk]:
    """Yield chunks with their outcomes, both in order; an update that is not pushed has none."""
    left = iter(outcomes)
    outcome = next(left, None)
    for chunk in chunks:
        if outcome is None or outcome.chunk.ordinal != chunk.ordinal:
            yield chunk
            continue
        yield replace(chunk, state=outcome.state, attempts=outcome.attempts, reply=outcome.reply)
        outcome = next(left, None)


def _has_result(path: Path, report: Mapping[str, object]) -> bool:
    """Whether the report of an earlier push states the same result."""
    try:
        earlier = json.loads(path.read_bytes())
    except (OSError, ValueError):  # it was killed before it wrote its report
        return False
    return all(earlier.get(name) == report[name] for name in _RESULT)
