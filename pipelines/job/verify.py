"""Compare a pushed run with its receipts: every record is accepted or refused, once."""

import json
from pathlib import Path

import click
import msgspec

from pipelines.cli.convert_options import ConvertOptions
from pipelines.cli.display import ReportFormat
from pipelines.push.run_folder import read_manifest, receipts_folder
from schemas.account import Chunk, SpanFile
from schemas.errors import BalanceError
from transforms.sinks.push.outcome import outcomes_of
from transforms.sinks.push.push_plan import is_added_update, plan_chunks
from transforms.sinks.push.receipts import Receipts
from transforms.sinks.push.settings import Keep, PushSettings
from transforms.storage.attempts import is_whole

DIFFERENCES_EXIT = 1


class _Account(msgspec.Struct):
    written: dict[str, int]


class _WrittenCounts(msgspec.Struct):
    account: _Account


def verify(root: Path, settings: PushSettings, options: ConvertOptions) -> int:
    """Print one line about a run that is pushed; return 1 if a chunk file has changed since.

    Raises BalanceError if a chunk has no final receipt, or if the counts of records differ. The
    appliance has what was written in any case: a push refuses to send a changed file.
    """
    planned = plan_chunks(read_manifest(root), settings)
    receipts = Receipts(receipts_folder(root, settings), planned, settings).read()
    outcomes = outcomes_of(planned, receipts)
    for outcome in outcomes:
        if not outcome.state.is_settled:
            raise BalanceError(f"{outcome.chunk.path}: no final receipt; expected one: a defect")
    records = [outcome for outcome in outcomes if not is_added_update(outcome.chunk)]
    accepted = sum(outcome.accepted for outcome in records)
    refused = sum(outcome.refused for outcome in records)
    report = msgspec.json.decode((root / "report.json").read_bytes(), type=_WrittenCounts)
    written = sum(report.account.written.values())
    if written != accepted + refused:
        raise BalanceError(
            f"{root}: {written} records written, but {accepted} accepted and {refused} refused: a"
            " defect of feedferry; the state is not updated"
        )
    changed = [
        outcome.chunk.path
        for outcome in outcomes
        if not _is_unchanged(outcome.chunk, root, settings, reads=options.verify)
    ]
    if options.report_format is ReportFormat.JSON:
        values = {"accepted": accepted, "refused": refused, "changed": changed}
        click.echo(json.dumps({"version": 1, "verified": {"chunks": len(outcomes), **values}}))
    else:
        click.echo(
            f"verified  {accepted:,} records accepted, {refused:,} refused; chunk files:"
            f" {len(outcomes) - len(changed):,} as written, {len(changed):,} changed"
        )
    for path in changed:
        click.echo(f"feedferry: {root / path}: changed since it was pushed", err=True)
    return DIFFERENCES_EXIT if changed else 0


def _is_unchanged(chunk: Chunk, root: Path, settings: PushSettings, *, reads: bool) -> bool:
    path = root / chunk.path
    if not path.exists():
        return settings.keep is Keep.REFUSED
    file = SpanFile(path=chunk.path, bytes=chunk.bytes, sha256=chunk.sha256, modified_ns=0)
    return is_whole(path, file, verify=reads)
