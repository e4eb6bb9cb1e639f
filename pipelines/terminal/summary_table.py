"""The summary of a command on a terminal, as tables of rich; loaded where one is shown."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from feedferry.pipelines.terminal.summary import LABEL_CHARS, Summary

_ANY_WIDTH = 1000
_STYLES = {"rejected": "yellow", "refused": "yellow", "loss": "yellow", "reject": "yellow"}
"""Styles of columns and rows with counts that are not 0, and of labels."""


def print_table(summary: Summary, lines: Sequence[tuple[str, str]]) -> None:
    """Print the counts, turned round where the terminal is narrow, and the lines below them."""
    console = Console(highlight=False)
    table = _table(summary)
    needed = console.measure(table, options=console.options.update(width=_ANY_WIDTH)).minimum
    if needed > console.width:
        labels = tuple(label for label, _ in summary.rows)
        counts = zip(*(counts for _, counts in summary.rows), strict=True)
        turned = tuple(zip(summary.columns, counts, strict=True))
        table = _table(Summary(columns=labels, rows=turned))
    console.print()
    if summary.columns:
        console.print(table)
        console.print()
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(min_width=LABEL_CHARS - 1, no_wrap=True)
    grid.add_column(overflow="fold")
    before = ""
    for label, text in lines:
        style = _STYLES.get(label, "dim")
        words = Text(text, "bold cyan" if label == "next" else "")
        grid.add_row(Text("" if label == before else label, style), words)
        before = label
    console.print(grid)


def _table(summary: Summary) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", min_width=LABEL_CHARS - 2)
    for column in summary.columns:
        table.add_column(column, justify="right", overflow="fold", min_width=len(column))
    for label, counts in summary.rows:
        cells = [
            Text(f"{count:,}", _style(column, count) or _style(label, count))
            for column, count in zip(summary.columns, counts, strict=True)
        ]
        table.add_row(Text(label), *cells, style="bold" if label == "total" else "")
    return table


def _style(label: str, count: int) -> str:
    return "dim" if not count else _STYLES.get(label, "")
