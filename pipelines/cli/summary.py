"""The summary of a command: a table of counts, and lines with a label.

On a terminal it is shown by rich, with what to do next. Elsewhere it is plain text, which is never
wrapped or cut; what to do next is on stderr if that is a terminal.
"""

import sys
from collections.abc import Sequence

import click
import msgspec

from pipelines.cli.display import DisplayOptions, count_table

LABEL_CHARS = 10


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Counts in named columns, each row with its label, and further lines with their labels."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[int, ...]], ...]
    lines: tuple[tuple[str, str], ...] = ()
    label_chars: int = 0


def summary_text(summary: Summary) -> str:
    """Return the summary as plain text."""
    table = count_table(summary.columns, summary.rows, label_chars=summary.label_chars)
    return "\n".join([*table, *(f"{label:<{LABEL_CHARS}}{text}" for label, text in summary.lines)])


def print_summary(
    summary: Summary,
    display: DisplayOptions,
    *,
    time: str = "",
    next_commands: Sequence[str] = (),
) -> None:
    """Print the summary on stdout. `-q` leaves out what is only for people."""
    lines = tuple((label, display.reword(text)) for label, text in summary.lines)
    summary, is_quiet = msgspec.structs.replace(summary, lines=lines), display.is_quiet
    if sys.stdout.isatty():
        people = [("time", time)] if time else []
        people += [("next", command) for command in next_commands]
        from pipelines.cli.summary_table import print_table  # loads rich

        print_table(summary, summary.lines if is_quiet else (*summary.lines, *people))
        return
    click.echo(summary_text(summary))
    for command in next_commands if sys.stderr.isatty() and not is_quiet else ():
        click.echo(f"feedferry: next: {command}", err=True)
