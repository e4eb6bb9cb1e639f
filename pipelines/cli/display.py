"""What a run shows: its options, its progress on stderr, tables, and what defects cost.

Progress is one line that is rewritten in place on a terminal, else a line every 30 seconds.
"""

import enum
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import IO, Annotated

import click
import msgspec

from pipelines.cli.flags import Flag
from pipelines.cli.logs import LogFormat
from pipelines.cli.progress import (
    Progress,
    ProgressMeter,
    ProgressWatcher,
    Snapshot,
    TimelineWriter,
)
from pipelines.cli.value_parsers import OUTPUT_FILE, choice_of
from pipelines.cli.verb import Section
from schemas.run_record import Phase
from schemas.timeline import TIMELINE
from schemas.units import counted

PLAIN_SECONDS = 30.0

_log = logging.getLogger(__name__)

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


class LogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a verb logs; `verbosity` is -1 for `-q`, else the number of `-v`.

    The log is opened when the verb is chosen, see `start_logging`.
    """

    log_format: Annotated[
        LogFormat | None,
        Flag(
            "Form of log lines, with the time, the job and the run.",
            Section.DISPLAY,
            choice_of(*LogFormat),
            key="log.format",
            default="text",
            affects_output=False,
        ),
    ] = None
    log_file: Annotated[
        str | None,
        Flag(
            "Append the log to this file.",
            Section.DISPLAY,
            OUTPUT_FILE,
            key="log.file",
            affects_output=False,
        ),
    ] = None
    verbosity: int = 0


class DisplayOptions(LogOptions, frozen=True, kw_only=True):
    """How a verb shows its work; `reword` changes texts about flags, as a job does."""

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
    reword: Callable[[str], str] = str

    @property
    def is_quiet(self) -> bool:
        return self.verbosity < 0

    def style(self, stream: IO[str]) -> ProgressStyle:
        """Return how progress is shown on a stream."""
        if self.is_quiet:
            return ProgressStyle.NONE
        if self.progress is not ProgressStyle.AUTO:
            return self.progress
        is_terminal = stream.isatty() and os.environ.get("TERM") != "dumb"
        return ProgressStyle.BAR if is_terminal else ProgressStyle.PLAIN


@contextmanager
def show_progress(
    phase: Phase,
    snapshot: Callable[[], Snapshot],
    display: DisplayOptions,
    *,
    folder: Path | None = None,
) -> Iterator[ProgressMeter]:
    """Show progress on stderr during the block, as the options say, with a last line at its end.

    `snapshot` is called in a thread of its own, and in this one at the begin and end. The timeline
    in `folder` is written in any case.
    """
    watchers: list[ProgressWatcher] = [] if folder is None else [TimelineWriter(folder / TIMELINE)]
    with ExitStack() as opened:
        style = display.style(sys.stderr)
        if style is ProgressStyle.BAR:
            from pipelines.cli.bar import ProgressBar  # loads rich

            watchers.append(opened.enter_context(ProgressBar()))
        elif style is ProgressStyle.PLAIN:
            watchers.append(PlainLines())
        meter = ProgressMeter(phase, snapshot, watchers)
        end = threading.Event()

        def step_until_end() -> None:
            while not end.wait(meter.step()):
                pass

        _log.info("%s: begun", phase.value)
        thread = threading.Thread(target=step_until_end, name="progress", daemon=True)
        if watchers:
            thread.start()
        try:
            yield meter
        finally:
            end.set()
            if watchers:
                thread.join()
            progress = meter.finish()
            _log.info("%s: ended; %s", phase.value, progress_text(progress))


@contextmanager
def show_status(text: str, display: DisplayOptions) -> Iterator[None]:
    """Show what the command does during the block, on a terminal only."""
    with ExitStack() as opened:
        if display.style(sys.stderr) is ProgressStyle.BAR:
            from pipelines.cli.bar import spinner  # loads rich

            opened.enter_context(spinner(text))
        yield


def show_start(words: Mapping[str, object]) -> AbstractContextManager[None]:
    """Show that the command has started, before its flags are parsed and Beam is loaded."""
    style = next((one for one in ProgressStyle if one.value == words.get("progress")), None)
    quiet = words.get("verbosity") == -1
    options = DisplayOptions(progress=style or ProgressStyle.AUTO, verbosity=-quiet)
    return show_status("starting", options)


class PlainLines:
    """Writes a line to stderr every 30 seconds, and one at the end."""

    def take(self, progress: Progress) -> float:
        if progress.seconds >= PLAIN_SECONDS or progress.is_last:
            click.echo(f"{progress.phase.value:<10}{progress_text(progress)}", err=True)
        return PLAIN_SECONDS


def progress_text(progress: Progress) -> str:
    """Return the amount that is done, the rate, the rejects and the time that remains."""
    now = progress.now
    share = "" if now.share is None else f" ({now.share:.0%})"
    records = f"{now.records:,} records"
    size = format_size(now.bytes)
    if now.whole and now.counts_records:
        records = f"{now.records:,} of {now.whole:,} records{share}"
    elif now.whole:
        size += f" of {format_size(now.whole)}{share}"
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
