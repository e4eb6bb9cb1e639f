"""Compare a pushed run with its receipts: every record is accepted or refused, once."""

from pathlib import Path

import msgspec

from feedferry.pipelines.folders.manifest import read_manifest, receipts_folder
from feedferry.pipelines.report.conversion_report import read_report
from feedferry.schemas.account import SpanFile
from feedferry.schemas.errors import FINDINGS_EXIT, BalanceError
from feedferry.transforms.sinks.push.outcome import totals_of
from feedferry.transforms.sinks.push.push_plan import plan_chunks
from feedferry.transforms.sinks.push.receipts import Receipts
from feedferry.transforms.sinks.push.settings import Keep, PushSettings
from feedferry.transforms.storage.run_folders.mirrors import changed_files


class Settlement(msgspec.Struct, frozen=True, kw_only=True):
    """What the receipts of a pushed run say: records, chunks, and the changed chunk files."""

    root: Path
    accepted: int
    refused: int
    chunks: int
    changed: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        return FINDINGS_EXIT if self.changed else 0


def changed_chunks(root: Path, push: PushSettings | None, *, verify: bool) -> tuple[str, ...]:
    """Return the chunk files that are not as written; after a push, they may be removed."""
    files = (
        SpanFile(path=chunk.path, bytes=chunk.bytes, sha256=chunk.sha256, modified_ns=0)
        for chunk in read_manifest(root)
    )
    is_removed = push is not None and push.keep is Keep.REFUSED
    return tuple(changed_files(root, files, verify=verify, may_be_gone=is_removed))


def settle(root: Path, settings: PushSettings, *, verify: bool) -> Settlement:
    """Compare a pushed run with its receipts; with `verify`, hash its chunk files again.

    Raises BalanceError if a chunk has no final receipt, or if the counts of records differ. The
    appliance has what was written in any case: a push refuses to send a changed file.
    """
    planned = plan_chunks(read_manifest(root), settings)
    receipts = Receipts(receipts_folder(root, settings), planned, settings).read()
    outcomes = receipts.outcomes(planned)
    for outcome in outcomes:
        if not outcome.state.is_settled:
            raise BalanceError(
                f"{outcome.chunk.path}: no final receipt: report this defect of feedferry"
            )
    totals = totals_of(outcomes)
    accepted, refused = totals.accepted, totals.refused
    written = sum(read_report(root).account.written.values())
    if written != accepted + refused:
        raise BalanceError(
            f"{root}: {written} records written, but {accepted} accepted and {refused} refused: a"
            " defect of feedferry; the state is not updated"
        )
    changed = changed_chunks(root, settings, verify=verify)
    return Settlement(
        root=root, accepted=accepted, refused=refused, chunks=len(outcomes), changed=changed
    )
