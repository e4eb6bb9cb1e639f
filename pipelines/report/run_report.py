"""`report.html` in the folder of a run."""

from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from feedferry.pipelines.report.charts.drawing import (
    BYTES,
    CHUNKS,
    SECONDS,
    Axes,
    Chart,
    chunk_bins,
    draw,
)
from feedferry.pipelines.report.charts.progress_charts import draw_progress
from feedferry.pipelines.report.conversion_report import added_steps, columns_of
from feedferry.pipelines.report.differences import DIFFERENCES, VERIFICATION
from feedferry.pipelines.report.outcome import begin_of, outcome_of, seconds_of
from feedferry.pipelines.report.page_text import MAX_ROWS, span_text
from feedferry.pipelines.report.run_data import PushData, RunData, read_run_data
from feedferry.schemas.notice import REFUSED
from feedferry.transforms.rules.withheld_list import WITHHELD

REPORT_PAGE = "report.html"
"""Name of the file in the folder of a run."""

CONFIG = "config.rendered.yaml"
_MAX_CONFIG_BYTES = 64 << 10
_FILES = {
    "report.json": "the account, for programs",
    "run.json": "the state of the run",
    VERIFICATION: "the comparison with the target, for programs",
    DIFFERENCES: "a line for each document that differs at the target",
    "manifest.jsonl": "a line for each chunk",
    "chunks": "the chunks",
    "rejects": "the rejects with their original bytes, as Avro",
    "filtered.jsonl": "the records that the target does not need",
    "urls.txt": "URLs for the crawler of the appliance",
    WITHHELD: "documents that no user finds, as their new versions are rejected",
    "merged-urls.csv": "URLs that several documents became by steps, with those",
    "shared-urls.csv": "URLs that several documents of the source have, with those",
    "unmapped-principals.csv": "principals that a step did not map",
    CONFIG: "the settings of the job",
    "timeline.jsonl": "the progress over time",
    "run.log": "the log",
}


class RunFile(NamedTuple):
    """A file or folder of the run; `bytes` is `None` for a folder."""

    name: str
    meaning: str
    bytes: int | None


def write_report(folder: Path) -> Path:
    """Write the page of a run into its folder and return its path.

    The run may be unfinished; what its folder does not hold is left out of the page.
    """
    from feedferry.pipelines.report.pages import write_page

    run = read_run_data(folder)
    path = folder / REPORT_PAGE
    write_page(
        path,
        "report.html",
        run=run,
        title=(run.record and run.record.job) or folder.absolute().name,
        outcome=outcome_of(run),
        begin=begin_of(run),
        seconds=seconds_of(run),
        added_steps=[] if run.report is None else added_steps(run.report),
        columns={} if run.account is None else columns_of(run.account),
        progress=list(draw_progress(run.points)),
        chunk_charts=list(_draw_chunks(run)),
        config=_read_config(folder),
        settings=list(_flatten(run.report.settings)) if run.report is not None else [],
        files=list(_list_files(run)),
        refused=REFUSED,
    )
    return path


def _draw_chunks(run: RunData) -> Iterator[Chart]:
    if len(run.sizes) > 1:
        yield _draw_sizes(run.sizes)
    for push in run.pushes[:MAX_ROWS]:
        if len(push.seconds) > 1:
            by = f" by {push.name}" if len(run.pushes) > 1 else ""
            yield _draw_seconds(push, run.sizes, title=f"Time until each chunk was accepted{by}")


def _draw_sizes(sizes: Mapping[int, float]) -> Chart:
    bins = chunk_bins(array("q", sizes), sizes, BYTES.text)
    largest = BYTES.text(max(sizes.values()))
    words = f"{len(sizes):,} chunks, {BYTES.text(sum(sizes.values()))} in all, {largest} at most"
    return draw("Size of each chunk", bins, Axes(CHUNKS, BYTES), words=words, is_line=False)


def _draw_seconds(push: PushData, sizes: Mapping[int, float], *, title: str) -> Chart:
    bins = chunk_bins(array("q", sizes or push.seconds), push.seconds, span_text)
    seconds = push.seconds.values()
    mean = span_text(sum(seconds) / len(seconds))
    words = f"{mean} on average, {span_text(max(seconds))} at most"
    return draw(title, bins, Axes(CHUNKS, SECONDS), words=words, is_line=False)


def _read_config(folder: Path) -> str | None:
    try:
        with (folder / CONFIG).open("rb") as stream:
            return stream.read(_MAX_CONFIG_BYTES).decode("utf-8", "replace")
    except OSError:
        return None


def _flatten(settings: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield the settings that are stated, by their path."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}.")
        elif isinstance(value, list):
            yield from ((f"{prefix}{name}", ", ".join(map(str, value))) for _ in value[:1])
        elif value not in (None, "", False):
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
