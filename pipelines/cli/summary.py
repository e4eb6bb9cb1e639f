"""The summary of a command: a table of counts, and lines with a label.

On a terminal it is shown by rich, with what to do next. Elsewhere it is plain text, which is never
wrapped or cut; what to do next is on stderr if that is a terminal.
"""

import sys
from collections.abc import Sequence

import click
import msgspec

from pipelines.cli.display import count_table

_LABEL_CHARS = 10
_STYLES = {"rejected": "yellow", "refused": "yellow", "loss": "yellow", "reject": "yellow"}
"""Styles of columns and rows with counts that are not 0, and of labels."""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Counts in named columns, each row with its label, and further lines with their labels."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[int, ...]], ...]
    lines: tuple[tuple[str, str], ...] = ()
    label_chars: int = 0


def summary_text(summary: Summary) -> str:
    """Return the summary as plain text."""
    table = count_table(summary.columns, summary.rows, label_chars=summary.label_chars)
    return "\n".join([*table, *(f"{label:<{_LABEL_CHARS}}{text}" for label, text in summary.lines)])


def print_summary(
    summary: Summary, *, time: str = "", next_commands: Sequence[str] = (), is_quiet: bool = False
) -> None:
    """Print the summary on stdout. `-q` leaves out what is only for people."""
    if sys.stdout.isatty():
        people = [("time", time)] if time else []
        people += [("next", command) for command in next_commands]
        _print_table(summary, summary.lines if is_quiet else (*summary.lines, *people))
        return
    click.echo(summary_text(summary))
    for command in next_commands if sys.stderr.isatty() and not is_quiet else ():
        click.echo(f"feedferry: next: {command}", err=True)


def _print_table(summary: Summary, lines: Sequence[tuple[str, str]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", min_width=_LABEL_CHARS - 1)
    for column in summary.columns:
        table.add_column(column, justify="right")
    for label, counts in summary.rows:
        cells = [
            Text(f"{count:,}", _style(column, count) or _style(label, count))
            for column, count in zip(summary.columns, counts, strict=True)
        ]
        table.add_row(Text(label), *cells, style="bold" if label == "total" else "")
    console.print(table)
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(min_width=_LABEL_CHARS - 1, no_wrap=True)
    grid.add_column(overflow="fold")
    before = ""
    for label, text in lines:
        style = _STYLES.get(label, "dim")
        words = Text(text, "bold cyan" if label == "next" else "")
        grid.add_row(Text("" if label == before else label, style), words)
        before = label
    console.print(grid)


def _style(label: str, count: int) -> str:
    return "dim" if not count else _STYLES.get(label, "")
