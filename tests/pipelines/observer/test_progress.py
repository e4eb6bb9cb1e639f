"""Progress over time: rates, the intervals of watchers, and the timeline in a file."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from feedferry.pipelines.observer.progress import Progress, ProgressMeter, Snapshot, append_point
from feedferry.schemas.run_record import Phase
from feedferry.schemas.timeline import TimelinePoint

START = Snapshot(bytes=1000, records=100, rejects=0, total=5000)
LATER = Snapshot(bytes=2000, records=400, rejects=3, total=5000)


class FakeClock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


class Watcher:
    """Asks for progress every few seconds, and keeps the times at which it gets it."""

    def __init__(self, interval: float) -> None:
        self.interval = interval
        self.taken: list[float] = []

    def __call__(self, progress: Progress) -> float:
        self.taken.append(progress.seconds)
        return self.interval


def progress(first: Snapshot, now: Snapshot, seconds: float) -> Progress:
    return Progress(phase=Phase.CONVERT, seconds=seconds, first=first, now=now)


def read_points(path: Path) -> list[TimelinePoint]:
    return [
        msgspec.json.decode(line, type=TimelinePoint) for line in path.read_bytes().splitlines()
    ]


def test_the_rate_of_a_resumed_run_counts_what_this_attempt_has_done() -> None:
    now = progress(START, LATER, 10.0)
    assert (now.records_per_second, now.seconds_left) == (30.0, 30.0)
    first, last = (
        msgspec.structs.replace(snapshot, total=1000, counts_records=True)
        for snapshot in (START, LATER)
    )
    assert progress(first, last, 10.0).seconds_left == 20.0


@pytest.mark.parametrize(
    "now",
    [START, msgspec.structs.replace(LATER, total=None)],
    ids=["nothing done", "unknown total"],
)
def test_the_time_left_may_be_unknown(now: Snapshot) -> None:
    assert progress(START, now, 10.0).seconds_left is None


def test_each_watcher_gets_progress_at_its_own_intervals() -> None:
    clock, often, seldom = FakeClock(), Watcher(1.0), Watcher(30.0)
    meter = ProgressMeter(Phase.CONVERT, lambda: START, [often, seldom], clock)
    for _ in range(60):
        clock.seconds += meter.step()
    meter.finish()
    assert often.taken == [*map(float, range(60)), 60.0]
    assert seldom.taken == [0.0, 30.0, 60.0]


def test_a_slow_snapshot_takes_a_small_part_of_the_time() -> None:
    clock = FakeClock()

    def snapshot() -> Snapshot:
        clock.seconds += 2.0
        return START

    assert ProgressMeter(Phase.CONVERT, snapshot, [Watcher(0.2)], clock).step() == 100.0


def run_for(seconds: float, path: Path, snapshot: Callable[[], Snapshot] = lambda: START) -> None:
    clock = FakeClock()
    append = partial(append_point, path=path, now=clock)
    meter = ProgressMeter(Phase.PUSH, snapshot, [append], clock)
    while clock.seconds < 100.0 + seconds:
        clock.seconds += meter.step()
    meter.finish()


def test_a_timeline_has_the_begin_and_end_of_each_phase(tmp_path: Path) -> None:
    path = tmp_path / "timeline.jsonl"
    snapshots = iter([START, msgspec.structs.replace(START, step="compare"), LATER])
    run_for(0.1, path, lambda: next(snapshots))
    assert read_points(path) == [
        TimelinePoint(at=100.0, phase=Phase.PUSH, bytes=1000, records=100, rejects=0, total=5000),
        TimelinePoint(at=100.5, phase=Phase.PUSH, bytes=2000, records=400, rejects=3, total=5000),
    ]


@pytest.mark.parametrize(("seconds", "most"), [(20.0, 50), (86_400.0, 500), (7 * 86_400.0, 600)])
def test_a_long_phase_has_a_bounded_number_of_points(
    tmp_path: Path, seconds: float, most: int
) -> None:
    run_for(seconds, tmp_path / "timeline.jsonl")
    points = read_points(tmp_path / "timeline.jsonl")
    assert 0.8 * most < len(points) <= most
    gaps = [after.at - before.at for before, after in pairwise(points)]
    assert max(gaps) <= max(seconds / 45, 0.5)


def test_a_run_does_not_fail_because_its_timeline_cannot_be_written(tmp_path: Path) -> None:
    run_for(1.0, tmp_path / "missing" / "timeline.jsonl")
