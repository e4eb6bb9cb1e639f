"""`feedferry runs`: list the runs of jobs, show one of them, and remove those that are over."""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from feedferry.pipelines.folders.job_folders import RUNS, find_home, find_run, runs_of
from feedferry.pipelines.folders.locks import locked_job
from feedferry.pipelines.folders.remote_runs import opened_remote, runs_below
from feedferry.pipelines.job.file.job import Retention
from feedferry.pipelines.job.history.retention import remove_runs, runs_to_remove
from feedferry.pipelines.report.conversion_report import as_text
from feedferry.pipelines.report.job_index import RunRow, row_of
from feedferry.pipelines.report.run_data import RunData, read_run_data, read_runs
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.run_record import RunRecord
from feedferry.schemas.units import format_clock, parse_duration
from feedferry.transforms.storage.run_folders.mirrors import shown
from feedferry.transforms.storage.storage import is_object

VERSION = 1
_COLUMNS = ("run", "gen", "took", "phase", "exit", "read", "written", "rejects", "pushed")


def list_runs(text: str | None, *, as_json: bool) -> Iterator[str]:
    """Yield lines about the runs of one job, or of all jobs in runs/, the newest first."""
    found = _runs_by_home(text)
    if as_json:
        values = [_values(run, row_of(run)) for runs in found.values() for run in runs]
        yield json.dumps({"version": VERSION, "runs": values}, indent=2, ensure_ascii=False)
        return
    for home, runs in found.items():
        yield f"{home}/"
        rows = [_cells(run.record, row_of(run)) for run in runs if run.record is not None]
        yield from _table([_COLUMNS, *rows])


def _runs_by_home(text: str | None) -> dict[str, list[RunData]]:
    """Return the runs of one job, of all jobs in runs/, or below a URI, by where they are."""
    if text is not None and is_object(text):
        runs = [read_run_data(find_run(uri), has_chunks=False) for uri in runs_below(text)]
        runs.sort(key=lambda run: run.record.started_at.timestamp() if run.record else 0.0)
        return {text.rstrip("/"): runs[::-1]} if runs else {}
    homes = [find_home(text)] if text else sorted(Path(RUNS).glob("*/"))
    return {str(home): runs for home in homes if (runs := read_runs(home))}


def show_run(text: str, *, as_json: bool) -> str:
    """Return what is known of one run; of a job, that is the newest."""
    run = read_run_data(find_run(text))
    row = row_of(run)
    if as_json:
        return json.dumps(_values(run, row), indent=2, ensure_ascii=False)
    return "\n".join(_lines(run, row))


def clean_runs(text: str, keep: Retention, *, is_dry: bool) -> list[str]:
    """Remove the runs of a job that are over and beyond the retention; return their folders.

    A run in object storage is not removed, but what its attempts have left that nothing names, and
    the uploads that they have begun. With `is_dry`, nothing is removed.
    """
    if is_object(text):
        with opened_remote(text) as remote:
            return [f"{remote.uri}/{name}" for name in remote.clean(is_dry=is_dry)]
    home = find_home(text)
    with locked_job(home):
        records = runs_to_remove(runs_of(home), keep, datetime.now(UTC))
        removed = [home / record.id for record in records]
        return list(map(str, removed if is_dry else remove_runs(home, records)))


def parse_keep(text: str) -> Retention:
    """Return the retention that `14` or `30d` states."""
    if text.isdecimal() and int(text):
        return Retention(runs=int(text))
    try:
        return Retention(seconds=parse_duration(text))
    except ConfigError as exc:
        raise ConfigError(f"⟦keep⟧: {text!r}; expected a number of runs or an age, as 30d") from exc


def _cells(record: RunRecord, row: RunRow) -> tuple[str, ...]:
    counts = (row.read, row.written, row.rejected, row.pushed)
    return (
        record.id,
        _text(record.generation),
        "-" if row.seconds is None else format_clock(row.seconds),
        ("abandoned" if record.is_abandoned else record.phase.value)
        + ", replay" * (record.replay is not None),
        _text(record.exit_code),
        *map(_text, counts),
    )


def _text(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.ljust(width) if name in ("run", "phase") else cell.rjust(width)
            for name, cell, width in zip(_COLUMNS, row, widths, strict=True)
        ]
        yield "  ".join(cells).rstrip()


def _lines(run: RunData, row: RunRow) -> Iterator[str]:
    record = run.record
    yield f"run       {shown(run.folder)}"
    if record is not None:
        generation = f", generation {record.generation}" if record.generation else ""
        yield f"job       {record.job or 'none'}{generation}"
        yield f"begun     {record.started_at:%Y-%m-%d %H:%M:%S} UTC, attempts {record.attempts}"
        if record.replay is not None:
            yield f"replay    of {record.replay.run}"
        if record.ended_at is not None:
            yield f"ended     {record.ended_at:%Y-%m-%d %H:%M:%S} UTC"
        yield f"phase     {'abandoned in ' * record.is_abandoned}{record.phase.value}"
    code = "" if record is None or record.exit_code is None else f" (exit code {record.exit_code})"
    yield f"outcome   {row.outcome.words}{code}"
    if row.outcome.reason:
        yield f"reason    {row.outcome.reason}"
    if run.report is not None:
        yield as_text(run.report)
    for push in run.push_reports:
        counts = ", ".join(f"{count:,} {name}" for name, count in push.records.items())
        yield f"pushed    {push.target}: {counts}"
    if run.verification is not None:
        yield f"verified  {run.verification.text}; against {run.verification.against}"
    yield from (f"problem   {problem}" for problem in run.problems)


def _values(run: RunData, row: RunRow) -> dict[str, object]:
    record: dict[str, object] = msgspec.to_builtins(run.record) if run.record else {}
    return {
        **record,
        "folder": shown(run.folder),
        "outcome": row.outcome.words,
        "seconds": row.seconds,
        "read": row.read,
        "written": row.written,
        "rejected": row.rejected,
        "accepted": row.pushed,
    }
