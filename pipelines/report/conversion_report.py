"""The report of a run, as text for a terminal and as `report.json`."""

import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec.structs import replace

from feedferry.pipelines.observer.progress import Progress
from feedferry.pipelines.terminal.summary import Summary, summary_text
from feedferry.schemas.account import AccountTotals
from feedferry.schemas.errors import FatalError
from feedferry.schemas.notice import REFUSED
from feedferry.schemas.sent_document import UNCHANGED
from feedferry.schemas.units import counted
from feedferry.transforms.rules.withheld_list import WITHHELD
from feedferry.transforms.storage.atomic import read_json

VERSION = 1
_COLUMNS = ("read", "expanded", "written", "rejected", "filtered")


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The account of a finished run, its folder, and its exit code: the file `report.json`.

    Its JSON Schema is `docs/report.schema.json`. `version` grows when a field is removed or changes
    its meaning; a reader must ignore fields that it does not know. A planned run has no folder.
    """

    version: int = VERSION
    account: AccountTotals
    folder: str | None
    chunks: int
    chunk_bytes: int
    exit_code: int
    settings: dict[str, object]
    sources: tuple[str, ...]


class ConversionResult(msgspec.Struct, frozen=True, kw_only=True):
    """A conversion that is published: its report, how long it took, and how fast it was.

    `defects` counts the records that were rejected because of a defect of feedferry, by the type of
    the exception. `is_pushed`: a push follows. `has_state`: it reads only what has changed.
    """

    report: Report
    progress: Progress
    defects: Mapping[str, int]
    is_pushed: bool
    has_state: bool = False

    @property
    def sums(self) -> dict[str, int]:
        """The counts of the account, and the chunks."""
        account = self.report.account
        names = ("read", "written", "rejected", "filtered")
        sums = {name: sum(getattr(account, name).values()) for name in names}
        return {**sums, "bytes_read": account.bytes_read, "chunks": self.report.chunks}

    @property
    def unchanged_text(self) -> str:
        """The result in a line if nothing has changed since the last run, empty otherwise."""
        account = self.report.account
        counts = {**account.written, **account.rejected, **account.losses, **account.notices}
        if not self.has_state or counts or {*account.filter_codes} - {UNCHANGED}:
            return ""
        count = account.filter_codes.get(UNCHANGED)
        return "nothing has changed" + (f": {counted(count, 'document')}" if count else "")


def read_report(folder: Path) -> Report:
    """Return the report of the conversion in the folder of a run, which is finished.

    Raises FatalError if it is missing or damaged.
    """
    path = folder / "report.json"
    expected = "the report of a conversion: restore it, or begin a new run with ⟦fresh⟧"
    report = read_json(path, Report, expected=expected)
    if report is None:
        raise FatalError(f"{path}: no such file; expected {expected}")
    return report


def as_json(report: Report) -> dict[str, object]:
    """Return the report as plain values, without the chunks, which are in the manifest."""
    totals = msgspec.convert(report.account, AccountTotals, from_attributes=True)
    values: dict[str, object] = msgspec.to_builtins(replace(report, account=totals))
    return values


def as_json_text(report: Report) -> str:
    """Return the report as indented JSON with sorted keys."""
    return json.dumps(as_json(report), indent=2, sort_keys=True, ensure_ascii=False)


def as_text(report: Report) -> str:
    """Return the account as a table, then losses, notices, rejects, chunks and file names."""
    return summary_text(summary_of(report))


def summary_of(report: Report) -> Summary:
    """Return the same, to be printed or extended."""
    columns = columns_of(report.account)
    actions = sorted({action for column in columns.values() for action in column})
    rows = [(name, tuple(one.get(name, 0) for one in columns.values())) for name in actions]
    rows.append(("total", tuple(sum(column.values()) for column in columns.values())))
    return Summary(columns=tuple(columns), rows=tuple(rows), lines=tuple(_lines(report)))


def columns_of(account: AccountTotals) -> dict[str, dict[str, int]]:
    """Return the counts by action, by the name of their column."""
    columns = {name: getattr(account, name) for name in _COLUMNS}
    return {name: counts for name, counts in columns.items() if counts or name != "expanded"}


def added_steps(report: Report) -> list[tuple[str, str]]:
    """Return the names of the steps that the user does not state, and what they do."""
    steps = report.settings.get("steps", {})
    added = steps.get("added", []) if isinstance(steps, dict) else []
    return msgspec.convert(added, list[tuple[str, str]])


def next_commands(report: Report, *, is_pushed: bool) -> list[str]:
    """Return the commands that a user may want next."""
    folder, account = shlex.quote(str(report.folder)), report.account
    commands = []
    if account.new_rejects:
        commands += reject_commands(report, folder)
    if report.chunks and not is_pushed:
        commands.append(f"feedferry push {folder} --to URL")
    return commands


def reject_commands(report: Report, run: str) -> list[str]:
    """Return the commands for the rejects of a run; `run` is its folder or job file, quoted."""
    has_list = report.settings.get("accepted_rejects")
    verb = f"accept {run}" if has_list else f"show {run} 1"
    return [f"feedferry rejects list {run}", f"feedferry rejects {verb}"]


def _lines(report: Report) -> Iterator[tuple[str, str]]:
    account, folder = report.account, report.folder
    for name, words in added_steps(report):
        yield "step", f"{name} is added for the target: {words}"
    refused = msgspec.convert(report.settings.get("refused", []), list[str])
    for field, loss in sorted(account.losses.items()):
        name = f"{field} ({'refused' if field in refused else 'accepted'})"
        name = name if field in REFUSED or field in refused else field
        sample = loss.samples[0]
        yield "loss", f"{name}: {loss.count:,}, as {sample.url}: {sample.detail}"
    for code, noted in sorted(account.notices.items()):
        count = f"{noted.count:,}, as " if noted.first.source else ""  # others state their counts
        yield "notice", f"{code}: {count}{noted.first.message}"
    if account.reject_codes:
        codes = _count_rejects(account.reject_codes, account.accepted_rejects)
        yield "rejects", codes + (f", in {folder}/rejects/" if folder else "")
    for code, samples in sorted(account.reject_samples.items()):
        for reject in [sample for sample in samples if not sample.is_accepted][:1]:
            yield "reject", f"{code}: {reject.message}"
    if withheld := account.notices.get("withheld"):
        documents = counted(withheld.count, "document")
        place = f", in {folder}/{WITHHELD}" if folder else ""
        yield "withheld", f"{documents} that no user finds until the next version{place}"
    if account.filter_codes:
        yield "filtered", _count_codes(account.filter_codes)
    if account.changed:
        yield "changed", _count_codes(account.changed)
    chunks = f"{report.chunks}, {report.chunk_bytes:,} bytes"
    if folder is None:
        yield "chunks", chunks
    else:
        place = f"named in {folder}/manifest.jsonl" if "://" in folder else f"in {folder}/chunks/"
        yield "chunks", f"{chunks}, {place}"
        yield "report", f"{folder}/report.html"


def _count_rejects(codes: dict[str, int], accepted: dict[str, int]) -> str:
    known = {code: f" ({count:,} accepted)" for code, count in accepted.items()}
    return ", ".join(f"{code} {count:,}{known.get(code, '')}" for code, count in codes.items())


def _count_codes(codes: dict[str, int]) -> str:
    return ", ".join(f"{code} {count:,}" for code, count in codes.items())
