"""The command `feedferry`: its verbs, its messages on errors, and its exit codes.

Everything but click is imported where it is used, so that `feedferry --help` answers at once.
"""

import logging
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

import click

from feedferry.pipelines.cli import (
    access_verbs,
    check_verbs,
    compare_verbs,
    config_verbs,
    convert_verbs,
    reject_verbs,
    run_verbs,
)
from feedferry.pipelines.cli.verb import TaskGroup
from feedferry.pipelines.convert.workers.unused_libraries import without_unused_libraries
from feedferry.pipelines.observer.signals import DeadlinePassed, Terminated, raised

_log = logging.getLogger(__name__)

USAGE_EXIT = 2
FAILED_EXIT = 4
BUSY_EXIT = 75
_NO_LIMIT = "A part of the records could replace all: use plan --sample N, or inspect --head N. "


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line `args`, or that of this process; return its exit code.

    If it can be resumed, the last line on stderr is the command that does it.
    """
    error: BaseException | None = None
    try:
        with raised(), without_unused_libraries(), _warnings_in_a_line():
            status = feedferry.main(args, prog_name="feedferry", standalone_mode=False) or 0
    except (Exception, KeyboardInterrupt, Terminated, DeadlinePassed) as exc:
        error, status = exc, _explain(exc)
    if status in (FAILED_EXIT, BUSY_EXIT):
        from feedferry.pipelines.observer.endings import next_start

        command = next_start(sys.argv[1:] if args is None else args, error)
        click.echo(f"feedferry: start again: {command}", err=True)
    return int(status)


@contextmanager
def _warnings_in_a_line() -> Iterator[None]:
    """Show the warning of an object of another package as a message of the command."""

    def show(  # noqa: PLR0913, PLR0917  # as Python calls it
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if category.__name__ == "UnusableWarning":  # its module is not loaded for --help
            click.echo(f"feedferry: {message}", err=True)
        else:
            usual(message, category, filename, lineno, file, line)

    usual = warnings.showwarning
    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = usual


def _show_version(ctx: click.Context, _param: click.Parameter, is_asked: bool) -> None:
    if is_asked and not ctx.resilient_parsing:
        from feedferry.pipelines.cli.version import version_text

        click.echo(f"feedferry {version_text()}")
        ctx.exit()


@click.group(
    cls=TaskGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def feedferry() -> None:
    """Carry documents between search appliances. No document is lost without a report.

    A job is a file: init writes one, check and plan look at it, run runs it.
    """


_MODULES = (
    access_verbs,
    check_verbs,
    compare_verbs,
    config_verbs,
    convert_verbs,
    reject_verbs,
    run_verbs,
)
for _module in _MODULES:
    for _command in _module.COMMANDS:
        feedferry.add_command(_command)


def _explain(exc: BaseException) -> int:
    """Print the error on stderr; return the exit code of its kind."""
    from feedferry.pipelines.observer.endings import ending_of

    match exc:
        case click.exceptions.NoArgsIsHelpError():
            exc.show()
            return USAGE_EXIT
        case click.UsageError():
            verb = exc.ctx.command_path if exc.ctx else "feedferry"
            instead = _NO_LIMIT if getattr(exc, "option_name", "") == "--limit" else ""
            return _end(f"{exc.format_message()} {instead}See {verb} --help.", USAGE_EXIT)
    ending = ending_of(exc)
    if ending.exit_code < BUSY_EXIT:  # neither a lock, a deadline nor a signal
        _log.info("traceback", exc_info=exc)
    return _end(*ending)


def _end(message: str, exit_code: int) -> int:
    from feedferry.schemas.printable import printable

    click.echo("feedferry: " + printable(message, kept="\n"), err=True)
    if _log.hasHandlers():  # otherwise it would be printed again
        _log.error("exit code %s: %s", exit_code, message, extra={"is_shown": True})
    return exit_code
