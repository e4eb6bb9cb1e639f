"""Print the summary of a command.

On a terminal it is shown by rich, with what to do next. Elsewhere it is plain text, which is never
wrapped or cut; what to do next is on stderr if that is a terminal.
"""

import sys
from collections.abc import Sequence

import click

from pipelines.terminal.summary import Summary, summary_text


def print_summary(
    summary: Summary, *, time: str = "", next_commands: Sequence[str] = (), is_quiet: bool = False
) -> None:
    """Print the summary on stdout; `is_quiet` leaves out what is only for people."""
    if sys.stdout.isatty():
        people = [("time", time)] if time else []
        people += [("next", command) for command in next_commands]
        from pipelines.terminal.summary_table import print_table  # loads rich

        print_table(summary, summary.lines if is_quiet else (*summary.lines, *people))
        return
    click.echo(summary_text(summary))
    for command in next_commands if sys.stderr.isatty() and not is_quiet else ():
        click.echo(f"feedferry: next: {command}", err=True)
