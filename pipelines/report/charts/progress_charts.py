"""Charts of a run over time: records per second of each phase, and the backlog."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise

import msgspec

from feedferry.pipelines.report.charts.drawing import (
    COUNT,
    INTEGER,
    MAX_BINS,
    SECONDS,
    Axes,
    Bin,
    Chart,
    draw,
)
from feedferry.schemas.run_record import Phase
from feedferry.schemas.timeline import TimelinePoint

_MIN_POINTS = 4
_MIN_SECONDS = 1.0
_MIN_BREAK_SECONDS = 60.0
_BREAK_SHARE = 0.05
"""Points are at most a fiftieth of the time since the first one apart, unless the run was ended."""

_TITLES = {Phase.CONVERT: "Conversion", Phase.PUSH: "Push"}


class PhaseProgress(msgspec.Struct, frozen=True):
    """The points of a phase by the seconds that it worked, without the time between two attempts.

    `records` only grows: what a resumed run counts again is not counted twice.
    """

    points: Sequence[TimelinePoint]
    elapsed: list[float]
    records: list[float]
    breaks: list[float]

    @property
    def seconds(self) -> float:
        return self.elapsed[-1]

    def records_at(self, elapsed: float) -> float:
        """Return the records that were done by then, between two points in proportion."""
        after = min(bisect_right(self.elapsed, elapsed), len(self.elapsed) - 1)
        begin, end = self.elapsed[after - 1], self.elapsed[after]
        share = (elapsed - begin) / (end - begin) if end > begin else 1.0
        return self.records[after - 1] + (self.records[after] - self.records[after - 1]) * share

    def clock_at(self, elapsed: float) -> str:
        """Return the time of day in UTC."""
        index = bisect_right(self.elapsed, elapsed) - 1
        at = self.points[index].at + elapsed - self.elapsed[index]
        return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")


def draw_progress(points: Sequence[TimelinePoint]) -> Iterator[Chart]:
    """Yield the charts of the phases that lasted long enough for a line."""
    for phase, title in _TITLES.items():
        of_phase = [point for point in points if point.phase is phase]
        if len(of_phase) < _MIN_POINTS:
            continue
        progress = _progress_of(of_phase)
        if progress.seconds < _MIN_SECONDS:
            continue
        yield _draw_rate(title, progress)
        if any(point.backlog is not None for point in of_phase):
            yield _draw_backlog(progress)


def working_seconds(points: Sequence[TimelinePoint]) -> float:
    """Return how long a run worked, without the time between two attempts."""
    return _progress_of(points).seconds if points else 0.0


def _progress_of(points: Sequence[TimelinePoint]) -> PhaseProgress:
    progress = PhaseProgress(points, [0.0], [0.0], [])
    highest, attempt = points[0].records, 0.0
    for before, point in pairwise(points):
        gap = max(point.at - before.at, 0.0)
        is_break = gap > max(_MIN_BREAK_SECONDS, (progress.seconds - attempt) * _BREAK_SHARE)
        if is_break:
            attempt = progress.seconds
            progress.breaks.append(attempt)
        gain = 0 if is_break else max(point.records - highest, 0)
        highest = max(point.records, highest)
        progress.elapsed.append(progress.seconds + (0.0 if is_break else gap))
        progress.records.append(progress.records[-1] + gain)
    return progress


def _edges(progress: PhaseProgress) -> list[tuple[float, float]]:
    count = min(MAX_BINS, len(progress.points) - 1)
    return list(pairwise(progress.seconds * index / count for index in range(count + 1)))


def _draw_rate(title: str, progress: PhaseProgress) -> Chart:
    bins = []
    for begin, end in _edges(progress):
        rate = (progress.records_at(end) - progress.records_at(begin)) / (end - begin)
        words = f"{progress.clock_at(begin)} UTC: {COUNT.text(rate)} records/s"
        bins.append(Bin(begin, end, rate, words))
    total = progress.records[-1]
    highest = max(one.value for one in bins)
    words = f"{COUNT.text(total / progress.seconds)} on average, {COUNT.text(highest)} at most"
    axes = Axes(SECONDS, COUNT, tuple(progress.breaks))
    return draw(f"{title}, records per second", bins, axes, words=words, is_line=True)


def _draw_backlog(progress: PhaseProgress) -> Chart:
    """The highest backlog of each part; where no answer came, the one before it."""
    bins: list[Bin] = []
    last = next(point.backlog for point in progress.points if point.backlog is not None)
    index = 0
    for begin, end in _edges(progress):
        backlogs = []
        while index < len(progress.points) and progress.elapsed[index] <= end:
            backlog = progress.points[index].backlog
            backlogs += [] if backlog is None else [backlog]
            index += 1
        highest = max(backlogs, default=last)
        last = backlogs[-1] if backlogs else last
        words = f"{progress.clock_at(begin)} UTC: {highest:,} in the backlog"
        bins.append(Bin(begin, end, highest, words))
    most = max(one.value for one in bins)
    axes = Axes(SECONDS, INTEGER, tuple(progress.breaks))
    words = f"{last:,} at the end, {most:,.0f} at most"
    return draw("Backlog of the appliance, feeds", bins, axes, words=words, is_line=True)
