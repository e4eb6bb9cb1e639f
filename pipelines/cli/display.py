"""What a run shows: its options, its progress on stderr, tables, and what defects cost.

Progress is one line that is rewritten in place on a terminal, else a line every few seconds.
"""

import enum
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Annotated

import click
import msgspec

from pipelines.cli.flags import Flag
from pipelines.cli.verb import Section

BAR_SECONDS = 0.2
PLAIN_SECONDS = 10.0

_BAR_WIDTH = 20
_COLUMN_CHARS = 12
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


class ProgressStyle(enum.Enum):
    """How a run shows its progress; AUTO is BAR on a terminal and PLAIN elsewhere."""

    AUTO = "auto"
    BAR = "bar"
    PLAIN = "plain"
    NONE = "none"


class ReportFormat(enum.Enum):
    """How the account of a run is printed."""

    TEXT = "text"
    JSON = "json"


class DisplayOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a verb shows its work; `verbosity` is -1 for `-q`, else the number of `-v`."""

    progress: Annotated[
        ProgressStyle, Flag("Progress on stderr.", Section.DISPLAY, affects_output=False)
    ] = ProgressStyle.AUTO
    report_format: Annotated[
        ReportFormat,
        Flag(
            "Format of the account on stdout.",
            Section.DISPLAY,
            names=("--format",),
            affects_output=False,
        ),
    ] = ReportFormat.TEXT
    verbosity: int = 0

    @property
    def is_quiet(self) -> bool:
        return self.verbosity < 0


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a run; `bytes_total` is `None` if the length of an input is unknown."""

    bytes_done: int
    bytes_total: int | None
    records: int
    rejects: int

    @property
    def share(self) -> float | None:
        """Return the share that is done, at most 1 because a file may grow while it is read."""
        return min(self.bytes_done / self.bytes_total, 1.0) if self.bytes_total else None


@contextmanager
def show_progress(snapshot: Callable[[], Snapshot], display: DisplayOptions) -> Iterator[None]:
    """Show progress on stderr during the block, as the options say, with a last line at its end.

    `snapshot` is called in a thread of its own, and once more in this one at the end.
    """
    style = ProgressStyle.NONE if display.is_quiet else display.progress
    if style is ProgressStyle.AUTO:
        style = ProgressStyle.BAR if sys.stderr.isatty() else ProgressStyle.PLAIN
    if style is ProgressStyle.NONE:
        yield
        return
    is_bar = style is ProgressStyle.BAR
    line = ProgressLine(snapshot, sys.stderr, is_bar=is_bar)
    seconds = BAR_SECONDS if is_bar else PLAIN_SECONDS
    end = threading.Event()

    def draw_until_end() -> None:
        while not end.wait(seconds):
            line.draw()

    thread = threading.Thread(target=draw_until_end, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()
        line.draw(is_last=True)


@dataclass
class ProgressLine:
    """Writes snapshots to a stream, on a terminal each over the one before."""

    snapshot: Callable[[], Snapshot]
    stream: IO[str]
    is_bar: bool
    clock: Callable[[], float] = time.monotonic
    width: int = 0

    def __post_init__(self) -> None:
        self.start = self.clock()

    def draw(self, *, is_last: bool = False) -> None:
        """Write the current line; the last one stays on the terminal."""
        snapshot = self.snapshot()
        line = progress_text(snapshot, elapsed_seconds=self.clock() - self.start)
        if not self.is_bar:
            self.stream.write(line + "\n")
        else:
            columns = shutil.get_terminal_size().columns
            line = (_bar(snapshot) + line)[: columns - 1]
            self.stream.write("\r" + line.ljust(self.width) + "\n" * is_last)
            self.width = len(line)
        self.stream.flush()


def progress_text(snapshot: Snapshot, *, elapsed_seconds: float) -> str:
    """Return the amount that is done, the rate, the rejects and the time that remains."""
    share = snapshot.share
    rate = snapshot.records / elapsed_seconds if elapsed_seconds > 0 else 0.0
    amount = format_size(snapshot.bytes_done)
    if snapshot.bytes_total and share is not None:
        amount += f" of {format_size(snapshot.bytes_total)} ({share:.0%})"
    eta = format_clock(elapsed_seconds * (1 - share) / share) if share else "-"
    return (
        f"{amount}, {snapshot.records:,} records, {rate:,.0f} records/s,"
        f" {snapshot.rejects:,} rejects, ETA {eta}"
    )


def format_size(count: int) -> str:
    """Return a rounded number of bytes.

    >>> format_size(943718400)
    '900.0 MiB'
    """
    power = min(max(count.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    return f"{count} B" if power == 0 else f"{count / 1024**power:.1f} {_UNITS[power]}"


def format_clock(seconds: float) -> str:
    """Return a duration as hours, minutes and seconds.

    >>> format_clock(3725)
    '1:02:05'
    """
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def count_table(
    head: Sequence[str], rows: Sequence[tuple[str, Sequence[int]]], *, label_chars: int = 0
) -> list[str]:
    """Return the lines of a table: the names of the columns, then each row after its label."""
    label_chars = max(label_chars, *(len(label) + 2 for label, _ in rows))
    widths = [max(_COLUMN_CHARS, len(name) + 2) for name in head]
    columns = [f"{name:>{width}}" for name, width in zip(head, widths, strict=True)]
    lines = [" " * label_chars + "".join(columns)]
    for label, counts in rows:
        cells = [f"{count:>{width},}" for count, width in zip(counts, widths, strict=True)]
        lines.append(f"{label:<{label_chars}}" + "".join(cells))
    return lines


def print_defects(defects: Mapping[str, int], *, folder: str | None = None) -> None:
    """Print how many records were rejected because of defects, in red on a terminal.

    `defects` counts them by the type of the exception; `folder` holds the rejects, if they are
    stored. `-q` does not suppress this message, because it is an error.
    """
    if not defects:
        return
    count = sum(defects.values())
    types = ", ".join(f"{name} {number:,}" for name, number in sorted(defects.items()))
    records = "1 record was" if count == 1 else f"{count:,} records were"
    where = f" See the rejects with the code defect in {folder}/rejects/." if folder else ""
    click.secho(
        f"feedferry: {records} rejected because of a defect of feedferry ({types}).{where}"
        " Other records are not affected. Please report this.",
        err=True,
        fg="red",
        color=False if os.environ.get("NO_COLOR") else None,  # None: only on a terminal
    )


def _bar(snapshot: Snapshot) -> str:
    if snapshot.share is None:
        return ""
    full = int(snapshot.share * _BAR_WIDTH)
    return f"[{'#' * full}{'.' * (_BAR_WIDTH - full)}] "
