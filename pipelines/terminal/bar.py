"""Progress on a terminal: a line that fits its width, drawn by rich.

Only a run that shows a bar imports this module.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.progress_bar import ProgressBar as Bar
from rich.text import Text

from feedferry.pipelines.observer.progress import Progress, time_text
from feedferry.schemas.units import counted

_MIN_BAR, _MAX_BAR = 6, 40
_ECHO_CHARS = 2
"""Columns that stay free at the end: a terminal echoes Ctrl-C there, as two letters."""

_NARROW = 60
"""Parts are one column apart on a terminal with fewer columns, otherwise two."""


class StderrConsole(Console):
    """The terminal on stderr. Its lines are never wrapped, and its cursor is never hidden.

    A command that is killed could not show the cursor again. Without a terminal there is no color.
    """

    def __init__(self) -> None:
        no_color = None if sys.stderr.isatty() else True
        super().__init__(stderr=True, soft_wrap=True, force_terminal=True, no_color=no_color)

    def show_cursor(self, show: bool = True) -> bool:
        return False


@contextmanager
def progress_bar() -> Iterator[Callable[[Progress], None]]:
    """Yield a function that draws the progress of one phase; its last line stays."""
    live = Live(console=StderrConsole(), auto_refresh=False, redirect_stdout=False)
    with live:
        yield lambda progress: live.update(ProgressLine(progress), refresh=True)


def spinner(text: str) -> AbstractContextManager[object]:
    """Show a text with a spinner until the block ends."""
    return StderrConsole().status(text, spinner_style="cyan")


class _Part(NamedTuple):
    """A part of a line. Parts with a higher `rank` are left out first if the line is too long."""

    rank: int
    text: str
    style: str = ""


class ProgressLine:
    """Renders progress as one line."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = min(options.max_width, console.width) - _ECHO_CHARS - 1
        gap = "  " if width >= _NARROW else " "
        label, *others = self._parts()
        now = self._progress.now
        has_bar = not now.step and (now.share is not None or not self._progress.is_last)
        used = len(label.text) + has_bar * (_MIN_BAR + 1)
        kept = {label}
        for part in sorted(others):
            used += len(gap) + len(part.text)
            if used > width:
                break
            kept.add(part)
        yield Text(label.text[:width], style=label.style, end="")
        shown = [part for part in others if part in kept]
        used = sum(len(gap) + len(part.text) for part in shown)
        if has_bar and (left := width - used - len(label.text) - 1) >= _MIN_BAR:
            yield Text(" ", end="")
            yield from self._bar(min(left, _MAX_BAR), console, options)
        line = Text("", end="")
        for part in shown:
            line.append(gap).append(part.text, style=part.style)
        yield line

    def _bar(self, width: int, console: Console, options: ConsoleOptions) -> RenderResult:
        share = self._progress.now.share
        bar = Bar(
            total=None if share is None else 1.0,
            completed=share or 0.0,
            width=width,
            pulse=share is None,
            complete_style="cyan",
            finished_style="green",
            pulse_style="cyan",
        )
        lines = console.render_lines(bar, options.update(width=width))
        if lines:
            yield from lines[0]
        else:  # without colors, nothing is drawn of a bar at 0%
            yield Text(" " * width, end="")

    def _parts(self) -> list[_Part]:
        """Return the parts of the line from left to right."""
        progress = self._progress
        now = progress.now
        parts = [_Part(0, progress.phase.value, "bold")]
        if now.step:
            return [*parts, _Part(0, now.step), _Part(1, time_text(progress))]
        if now.share is not None:
            parts.append(_Part(0, f"{now.share:4.0%}"))
        records, size = now.amounts
        parts.append(_Part(3, f"{records} records"))
        if now.bytes:
            parts.append(_Part(6, size))
        if progress.rate_text:
            parts.append(_Part(5, f"{progress.records_per_second:,.0f}/s"))
        rejects = counted(now.rejects, "reject")
        parts.append(_Part(2, rejects, "yellow") if now.rejects else _Part(7, rejects))
        if now.backlog is not None:
            parts.append(_Part(4, f"backlog {now.backlog:,}"))
        parts.append(_Part(1, time_text(progress)))
        return parts
