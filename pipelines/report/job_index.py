"""`index.html` in the folder of a job: all of its runs over time."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec.structs import replace

from feedferry.pipelines.folders.job_folders import runs_of
from feedferry.pipelines.report.charts.drawing import (
    INTEGER,
    SECONDS,
    Axes,
    Bin,
    Chart,
    Tick,
    Unit,
    draw,
)
from feedferry.pipelines.report.outcome import Outcome, begin_of, outcome_of, seconds_of
from feedferry.pipelines.report.page_text import span_text
from feedferry.pipelines.report.run_data import RunData, read_runs
from feedferry.pipelines.report.run_report import REPORT_PAGE

INDEX_PAGE = "index.html"
"""Name of the file in the folder of a job."""

MAX_RUNS = 500
"""Most runs in the table."""

_MAX_BARS = 100


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """One run in the table of a job; a count is `None` before the run has written its report."""

    id: str
    link: str | None
    began: datetime | None
    outcome: Outcome
    seconds: float | None
    replay_of: str | None = None
    read: int | None = None
    written: int | None = None
    rejected: int | None = None
    pushed: int | None = None


def write_index(home: Path) -> Path:
    """Write the page of a job into its folder and return its path."""
    from feedferry.pipelines.report.pages import write_page

    rows = [row_of(run) for run in read_runs(home, MAX_RUNS)]
    path = home / INDEX_PAGE
    shown = rows[:_MAX_BARS][::-1]
    charts = [
        _draw("Documents written", shown, lambda row: row.written, INTEGER),
        _draw("Documents rejected", shown, lambda row: row.rejected, INTEGER),
        _draw("Duration", shown, lambda row: row.seconds, SECONDS),
    ]
    write_page(
        path, "index.html", job=home.name, rows=rows, total=len(runs_of(home)), charts=charts
    )
    return path


def row_of(run: RunData) -> RunRow:
    """Return the row of a run, as far as its files have it."""
    account = run.account
    pushes = run.push_reports
    has_page = (run.folder / REPORT_PAGE).exists()
    return RunRow(
        id=run.folder.name,
        link=f"{run.folder.name}/{REPORT_PAGE}" if has_page else None,
        began=begin_of(run),
        outcome=outcome_of(run),
        seconds=seconds_of(run),
        replay_of=run.record.replay.run if run.record and run.record.replay else None,
        read=sum(account.read.values()) if account is not None else None,
        written=sum(account.written.values()) if account is not None else None,
        rejected=sum(account.rejected.values()) if account is not None else None,
        pushed=sum(push.records.get("accepted", 0) for push in pushes) if pushes else None,
    )


def _draw(
    title: str, rows: Sequence[RunRow], value: Callable[[RunRow], float | None], unit: Unit
) -> Chart | None:
    """Return a chart with a bar for each run, the oldest first; None if there is only one run."""
    if len(rows) < 2:
        return None
    bins = [
        Bin(
            begin=index - 0.5,
            end=index + 0.5,
            value=value(row) or 0.0,
            words=f"{_day_of(row)}{_time_of(row)}: {_words(value(row), unit)}. {row.outcome.words}",
            tone=row.outcome.tone,
        )
        for index, row in enumerate(rows)
    ]
    words = f"the last {len(rows)} runs"
    chart = draw(title, bins, Axes(INTEGER, unit), words=words, is_line=False)
    return replace(chart, columns=tuple(_short_ticks(rows, chart.columns)))


def _short_ticks(rows: Sequence[RunRow], ticks: Iterable[Tick]) -> Iterator[Tick]:
    """Yield the day of each tick, and its time instead if the tick before has the same day."""
    before = ""
    for at, index in ticks:
        day, time = _day_of(rows[int(index)]), _time_of(rows[int(index)])
        yield Tick(at, time if day == before else day)
        before = day


def _day_of(row: RunRow) -> str:
    return f"{row.began:%d %b}".removeprefix("0") if row.began else row.id


def _time_of(row: RunRow) -> str:
    return f" {row.began:%H:%M}" if row.began else ""


def _words(value: float | None, unit: Unit) -> str:
    if value is None:
        return "no report"
    return span_text(value) if unit is SECONDS else unit.text(value)
