"""The output of a command on the terminal: progress and notices on stderr, and its summary.

Progress is one line that is rewritten in place on a terminal, else a line every 30 seconds, and at
the end of a phase that took longer.
"""

import gc
import logging
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import IO

import click

from feedferry.pipelines.observer.observer import Observer, Step
from feedferry.pipelines.observer.progress import Progress, progress_text
from feedferry.pipelines.observer.signals import write_in_handler
from feedferry.pipelines.options.display_options import DisplayOptions, ProgressStyle
from feedferry.pipelines.terminal.summary import Summary, summary_text
from feedferry.schemas.printable import printable

BAR_SECONDS = 0.2
PLAIN_SECONDS = 30.0
DRAINING = "feedferry: Finishing the current chunk. Press Ctrl-C again to stop now."
_SPINNING = (Step.LIST_INPUTS, Step.LIST_DOCUMENTS, Step.PUBLISH, Step.PLAN)


class TerminalObserver(Observer):
    """Shows progress and notices on stderr as the options say.

    `-q` shows errors only.
    """

    def __init__(self, options: DisplayOptions) -> None:
        self._options = options
        self._opened = ExitStack()
        self._bar: Callable[[Progress], None] | None = None
        self._style = style_of(options, sys.stderr)
        seconds = {ProgressStyle.BAR: BAR_SECONDS, ProgressStyle.PLAIN: PLAIN_SECONDS}
        self.progress_seconds = seconds.get(self._style, math.inf)

    def begun(self, step: Step) -> None:
        if step in _SPINNING:
            self._opened.enter_context(spinning(step.value, self._style))

    def progress(self, progress: Progress) -> None:
        if self._style is ProgressStyle.BAR:
            self._draw(progress)
        elif progress.seconds >= PLAIN_SECONDS:  # the summary has a shorter phase
            click.echo(f"{progress.phase.value:<10}{progress_text(progress)}", err=True)

    def notice(self, message: str, level: int = logging.INFO) -> None:
        if not self._options.is_quiet or level >= logging.ERROR:
            # click would write below a display of progress
            sys.stderr.write(printable(f"{message}\n", kept="\n"))
            sys.stderr.flush()

    def finished(self, step: Step, result: object = None) -> None:
        if step in _SPINNING:
            self._opened.close()

    def interrupted(self) -> None:
        if not self._options.is_quiet:
            write_in_handler(DRAINING)

    def _draw(self, progress: Progress) -> None:
        if self._bar is None:
            from feedferry.pipelines.terminal.bar import progress_bar  # loads rich

            self._bar = self._opened.enter_context(progress_bar())
        self._bar(progress)
        if progress.is_last:
            self._opened.close()
            self._bar = None


@contextmanager
def spinning(text: str, style: ProgressStyle) -> Iterator[None]:
    """Show the progress of the command during the block, on a terminal only."""
    if style is not ProgressStyle.BAR:
        yield
        return
    from feedferry.pipelines.terminal.bar import spinner  # loads rich

    with spinner(text):
        yield


@contextmanager
def show_start(words: Mapping[str, object]) -> Iterator[None]:
    """Show that the command has started, before its flags are parsed and Beam is loaded.

    Modules that are loaded in the block stay: searching them for garbage would take 0.1 seconds.
    """
    named = (style for style in ProgressStyle if style.value == words.get("progress"))
    style, is_quiet = next(named, ProgressStyle.AUTO), words.get("verbosity") == -1
    options = DisplayOptions(progress=style, verbosity=-is_quiet)
    gc.disable()
    try:
        with spinning("starting", style_of(options, sys.stderr)):
            yield
    finally:
        if not gc.get_freeze_count():  # else the garbage of an earlier command would stay, too
            gc.freeze()
        gc.enable()


def style_of(options: DisplayOptions, stream: IO[str]) -> ProgressStyle:
    """Return how progress is shown on a stream."""
    if options.is_quiet:
        return ProgressStyle.NONE
    if options.progress is not ProgressStyle.AUTO:
        return options.progress
    is_terminal = stream.isatty() and os.environ.get("TERM") != "dumb"
    return ProgressStyle.BAR if is_terminal else ProgressStyle.PLAIN


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


def print_summary(
    summary: Summary, *, time: str = "", next_commands: Sequence[str] = (), is_quiet: bool = False
) -> None:
    """Print the summary on stdout; `is_quiet` leaves out the lines that are only for people.

    A terminal has it as tables, with what to do next. Elsewhere it is plain text, which is never
    wrapped or cut; what to do next is on stderr if that is a terminal.
    """
    if sys.stdout.isatty():
        people = [("time", time)] if time else []
        people += [("next", command) for command in next_commands]
        from feedferry.pipelines.terminal.summary_table import print_table  # loads rich

        print_table(summary, summary.lines if is_quiet else (*summary.lines, *people))
        return
    click.echo(summary_text(summary))
    for command in next_commands if sys.stderr.isatty() and not is_quiet else ():
        click.echo(f"feedferry: next: {command}", err=True)
