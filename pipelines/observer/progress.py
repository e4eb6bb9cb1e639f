"""The progress of the phases of a run, and its timeline: a file in the folder of the run."""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from feedferry.schemas.run_record import Phase
from feedferry.schemas.timeline import TimelinePoint
from feedferry.schemas.units import counted, format_clock, format_size

MIN_SECONDS = 0.5
SHARE_OF_TIME = 50
"""The interval between two points is this part of the time since the first one."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a phase; see `TimelinePoint`. A `step` is shown in place of amounts."""

    bytes: int
    records: int
    rejects: int
    total: int | None = None
    counts_records: bool = False
    backlog: int | None = None
    step: str = ""

    @property
    def done(self) -> int:
        """The finished part of `total`."""
        return self.records if self.counts_records else self.bytes

    @property
    def amounts(self) -> tuple[str, str]:
        """The records and the bytes as texts, with the total where that is known."""
        records, size = f"{self.records:,}", format_size(self.bytes)
        if self.whole and self.counts_records:
            return f"{records} of {self.whole:,}", size
        return records, f"{size} of {format_size(self.whole)}" if self.whole else size

    @property
    def share(self) -> float | None:
        """Return the share that is done, at most 1."""
        return self.done / self.whole if self.whole else None

    @property
    def whole(self) -> int | None:
        """The total, and at least what is done: a file may grow while it is read."""
        return max(self.total, self.done) if self.total else None


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a phase some seconds after its begin.

    `first` is the snapshot at its begin: a run that is resumed does not begin at 0.
    """

    phase: Phase
    seconds: float
    first: Snapshot
    now: Snapshot
    is_last: bool = False

    @property
    def records_per_second(self) -> float:
        records = self.now.records - self.first.records
        return records / self.seconds if self.seconds > 0 else 0.0

    @property
    def rate_text(self) -> str:
        """The rate, empty without records."""
        return f"{self.records_per_second:,.0f} records/s" if self.records_per_second else ""

    @property
    def seconds_left(self) -> float | None:
        """Return the time that remains at the average rate, None if that is unknown."""
        done = self.now.done - self.first.done
        if self.now.total is None or done <= 0:
            return None
        return max(self.now.total - self.now.done, 0) * self.seconds / done


ProgressWatcher = Callable[[Progress], float]
"""Shows or stores the progress of a phase; returns the seconds until it is called next."""


class ProgressMeter:
    """Passes the progress of one phase to its watchers, each at its own intervals."""

    def __init__(
        self,
        phase: Phase,
        snapshot: Callable[[], Snapshot],
        watchers: Sequence[ProgressWatcher],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._phase = phase
        self._snapshot = snapshot
        self._clock = clock
        self._begin = clock()
        self._first = snapshot()
        self._due_at = dict.fromkeys(watchers, self._begin)
        self.last: Progress | None = None

    def step(self) -> float:
        """Pass the progress to the watchers that are due; return the seconds until the next step.

        A snapshot may take long, but never more than a small part of the time.
        """
        progress = self.progress()
        now = self._begin + progress.seconds
        for watcher, due_at in self._due_at.items():
            if due_at <= now:
                self._due_at[watcher] = now + watcher(progress)
        ended = self._clock()
        return max(min(self._due_at.values(), default=math.inf) - ended, 50 * (ended - now), 0.0)

    def finish(self) -> Progress:
        """Pass the progress to all watchers for the last time; keep and return it."""
        self.last = progress = self.progress(is_last=True)
        for watcher in self._due_at:
            watcher(progress)
        return progress

    def progress(self, *, is_last: bool = False) -> Progress:
        seconds = self._clock() - self._begin
        now = self._snapshot()
        return Progress(
            phase=self._phase, seconds=seconds, first=self._first, now=now, is_last=is_last
        )


def append_point(progress: Progress, *, path: Path, now: Callable[[], float] = time.time) -> float:
    """Append a point to the timeline; one phase has at most 500 in a day, 600 in a week."""
    values = msgspec.structs.asdict(progress.now)
    del values["step"]
    point = TimelinePoint(at=round(now(), 3), phase=progress.phase, **values)
    with suppress(OSError), path.open("ab", buffering=0) as stream:
        stream.write(msgspec.json.encode(point) + b"\n")  # in one piece, as readers expect
    return max(MIN_SECONDS, progress.seconds / SHARE_OF_TIME)


def progress_text(progress: Progress) -> str:
    """Return the amount that is done, the rate, the rejects and the time that remains."""
    now = progress.now
    if now.step:
        return f"{now.step}, {time_text(progress)}"
    share = "" if now.share is None else f" ({now.share:.0%})"
    records, size = now.amounts
    records, size = (
        (f"{records} records{share}", size)
        if now.counts_records
        else (f"{records} records", size + share)
    )
    backlog = [] if now.backlog is None else [f"backlog {now.backlog:,}"]
    rejects = counted(now.rejects, "reject")
    parts = [size, records, progress.rate_text, rejects, *backlog, time_text(progress)]
    return ", ".join(filter(None, parts))


def time_text(progress: Progress) -> str:
    """Return the time that remains if it is known, otherwise the time that has passed."""
    if progress.is_last:
        return f"in {format_clock(progress.seconds)}"
    left = progress.seconds_left
    return format_clock(progress.seconds) if left is None else f"ETA {format_clock(left)}"
