"""How time and memory grow with the size of a feed and the number of workers, as plots.

The serial parts of a run are read from its log: the time to the first span, in which the feed is
cut and workers start; the merge after the last span; and the publication, which writes the chunks
through to the disk. What more workers would do follows from them.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from benchmarks import feeds
from benchmarks.measure import Measured, measure
from benchmarks.plots import Line, plot
from benchmarks.scenarios import MB, words_of

WORKERS = (1, 2)
_SUPPOSED_WORKERS = (2, 8, 32)
_GB = 1000 * MB


class GrowthRun(NamedTuple):
    """One conversion: its size, its workers, its figures and the seconds of its parts.

    `spans` is the time from the begin of the first span to the end of the last one.
    """

    gigabytes: float
    workers: int
    measured: Measured
    cut: float
    spans: float
    merge: float
    publish: float

    @property
    def seconds(self) -> float:
        """The time of all parts: that of the run without its start-up."""
        return self.cut + self.spans + self.merge + self.publish


def measure_growth(folder: Path, sizes: Sequence[float], to: Path) -> Iterator[str]:
    """Measure all sizes, draw the plots, and yield the lines of the tables."""
    yield (
        "  GB  workers  seconds   MB/s   CPU s  to first span s  merge s  publish s  MB a process"
        "  MB all"
    )
    runs: list[GrowthRun] = []
    for gigabytes in sizes:
        feed = folder / "growth.xml"
        feeds.documents(feed, int(gigabytes * _GB))
        for workers in WORKERS:
            runs.append(run := _run(feed, gigabytes, workers))
            yield _row(run)
        feed.unlink()
    _draw(runs, to)
    yield from _supposed(max(runs, key=lambda run: (run.gigabytes, -run.workers)))


def _run(feed: Path, gigabytes: float, workers: int) -> GrowthRun:
    log = feed.with_name("growth.log")
    log.unlink(missing_ok=True)
    words = [*words_of(f"thunderstone --jobs {workers}", feed, feed.parent / "output")]
    words += ["--log-file", str(log), "--log-format", "json"]
    measured = measure(words, cwd=feed.parent)
    cut, spans, merge, publish = _parts(log)
    return GrowthRun(gigabytes, workers, measured, cut, spans, merge, publish)


def _parts(log: Path) -> tuple[float, float, float, float]:
    """Return the seconds of the cut, the spans, the merge and the publication."""
    events = [json.loads(line) for line in log.read_bytes().splitlines()]
    times = [(datetime.fromisoformat(event["time"]), event["message"]) for event in events]
    begun = next(at for at, message in times if message == "convert: begun")
    first = next(at for at, message in times if message.startswith("span "))
    last = max(at for at, message in times if message.startswith("span "))
    converted = next(at for at, message in times if message.startswith("convert: ended"))
    ended = next(at for at, message in times if message.startswith("attempt ended"))
    moments = (begun, first, last, converted, ended)
    cut, spans, merge, publish = (
        (after - before).total_seconds() for before, after in pairwise(moments)
    )
    return cut, spans, merge, publish


def _row(run: GrowthRun) -> str:
    measured = run.measured
    return (
        f"{run.gigabytes:4g}  {run.workers:7}  {run.seconds:7.1f}"
        f"  {run.gigabytes * 1000 / run.seconds:5.0f}  {measured.cpu_seconds:6.1f}  {run.cut:15.1f}"
        f"  {run.merge:7.1f}  {run.publish:9.1f}  {measured.max_bytes / MB:12,.0f}"
        f"  {measured.sum_bytes / MB:6,.0f}"
    )


def _supposed(run: GrowthRun) -> Iterator[str]:
    """Yield what more workers would do, if the disk and the memory bus were no limit."""
    serial = run.cut + run.merge + run.publish
    yield f"\n{run.gigabytes:g} GB with one worker: {serial:.1f} of {run.seconds:.1f} s are serial"
    for workers in _SUPPOSED_WORKERS:
        seconds = serial + run.spans / workers
        rate = run.gigabytes * 1000 / seconds
        times = f"{run.seconds / seconds:4.1f} times one"
        yield f"{workers:2} cores: {times}, {rate:,.0f} MB/s (computed)"


def _draw(runs: Sequence[GrowthRun], folder: Path) -> None:
    names = {workers: f"{workers} worker{'s' * (workers > 1)}" for workers in WORKERS}
    times = [
        Line(names[workers], [(r.gigabytes, r.seconds) for r in runs if r.workers == workers])
        for workers in WORKERS
    ]
    memory = [
        Line(
            names[workers],
            [(r.gigabytes, r.measured.max_bytes / MB) for r in runs if r.workers == workers],
        )
        for workers in WORKERS
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "growth-time.svg").write_text(plot("Seconds by GB of feed", times))
    (folder / "growth-memory.svg").write_text(plot("MB of the largest process by GB", memory))
    print(f"plots: {folder}/growth-*.svg", file=sys.stderr)
