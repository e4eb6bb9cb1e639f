"""`report.html` in the folder of a run."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from pipelines.report.charts import BYTES, CHUNKS, SECONDS, Axes, Chart, chunk_bins, draw
from pipelines.report.outcome import Outcome, begin_of, outcome_of, seconds_of
from pipelines.report.page_text import MAX_ROWS, span_text
from pipelines.report.progress_charts import draw_progress
from pipelines.report.run_data import PushData, RunData, read_run_data
from schemas.account import AccountTotals
from schemas.notice import REFUSED

REPORT_PAGE = "report.html"
"""Name of the file in the folder of a run."""

_COLUMNS = ("read", "expanded", "written", "rejected", "filtered")
_CONFIG = "config.rendered.yaml"
_MAX_CONFIG_BYTES = 64 << 10
_FILES = {
    "report.json": "the account, for programs",
    "run.json": "the state of the run",
    "manifest.jsonl": "a line for each chunk",
    "chunks": "the chunks",
    "rejects": "the rejects with their original bytes, as Avro",
    "filtered.jsonl": "the records that the target does not need",
    "urls.txt": "URLs for the crawler of the appliance",
    _CONFIG: "the settings of the job",
    "timeline.jsonl": "the progress over time",
    "run.log": "the log",
}


class AccountRow(NamedTuple):
    """The counts of an action, in the order of the columns of the table."""

    action: str
    counts: tuple[int, ...]


class AccountTable(NamedTuple):
    """Records per action; `total` adds the rows up."""

    columns: tuple[str, ...]
    rows: list[AccountRow]
    total: tuple[int, ...]


class RunFile(NamedTuple):
    """A file or folder of the run; `bytes` is `None` for a folder."""

    name: str
    meaning: str
    bytes: int | None


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """What the page of a run shows beside the files that it was read from."""

    title: str
    outcome: Outcome
    seconds: float | None
    account: AccountTable | None
    progress: tuple[Chart, ...]
    chunk_sizes: Chart | None
    acceptances: dict[str, Chart]
    config: str | None
    settings: tuple[tuple[str, object], ...]
    files: tuple[RunFile, ...]


def write_report(folder: Path) -> Path:
    """Write the page of a run into its folder and return its path.

    The run may be unfinished; what its folder does not hold is left out of the page.
    """
    from pipelines.report.pages import write_page

    run = read_run_data(folder)
    path = folder / REPORT_PAGE
    begin = begin_of(run)
    write_page(path, "report.html", run=run, begin=begin, view=_view(run), refused=REFUSED)
    return path


def _view(run: RunData) -> RunView:
    account = run.report.account if run.report is not None else None
    return RunView(
        title=_title_of(run),
        outcome=outcome_of(run),
        seconds=seconds_of(run),
        account=account_table(account) if account is not None else None,
        progress=tuple(draw_progress(run.points)),
        chunk_sizes=_draw_sizes(run.sizes) if len(run.sizes) > 1 else None,
        acceptances={
            push.name: _draw_seconds(push, run.sizes)
            for push in run.pushes
            if len(push.seconds) > 1
        },
        config=_read_config(run.folder),
        settings=tuple(_flatten(run.report.settings)) if run.report is not None else (),
        files=tuple(_list_files(run)),
    )


def _title_of(run: RunData) -> str:
    job = run.record.job if run.record is not None else None
    return run.folder.absolute().name if job is None else job


def account_table(account: AccountTotals) -> AccountTable:
    """Return the table of an account, without the column of expanded records if there are none."""
    names = tuple(name for name in _COLUMNS if name != "expanded" or account.expanded)
    columns = [getattr(account, name) for name in names]
    actions = sorted({action for column in columns for action in column})
    return AccountTable(
        columns=names,
        rows=[
            AccountRow(action, tuple(column.get(action, 0) for column in columns))
            for action in actions
        ],
        total=tuple(sum(column.values()) for column in columns),
    )


def _draw_sizes(sizes: Mapping[int, int]) -> Chart:
    bins = chunk_bins(sorted(sizes), sizes, BYTES.text)
    largest = BYTES.text(max(sizes.values()))
    words = f"{len(sizes):,} chunks, {BYTES.text(sum(sizes.values()))} in all, {largest} at most"
    return draw("Size of each chunk", bins, Axes(CHUNKS, BYTES), words=words, is_line=False)


def _draw_seconds(push: PushData, sizes: Mapping[int, int]) -> Chart:
    bins = chunk_bins(sorted(sizes or push.seconds), push.seconds, span_text)
    seconds = push.seconds.values()
    mean = span_text(sum(seconds) / len(seconds))
    words = f"{mean} on average, {span_text(max(seconds))} at most"
    title = "Time until each chunk was accepted"
    return draw(title, bins, Axes(CHUNKS, SECONDS), words=words, is_line=False)


def _read_config(folder: Path) -> str | None:
    try:
        with (folder / _CONFIG).open("rb") as stream:
            return stream.read(_MAX_CONFIG_BYTES).decode("utf-8", "replace")
    except OSError:
        return None


def _flatten(settings: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield the settings that are stated, by their path."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}.")
        elif value not in (None, [], "", False):
            yield f"{prefix}{name}", value


def _list_files(run: RunData) -> Iterator[RunFile]:
    meanings = dict(_FILES)
    for push in run.pushes[:MAX_ROWS]:
        meanings[f"push/{push.name}"] = "the receipts and the account of the push"
    for name, meaning in meanings.items():
        path = run.folder / name
        if path.is_dir():
            yield RunFile(f"{name}/", meaning, None)
        elif path.exists():
            yield RunFile(name, meaning, path.stat().st_size)
