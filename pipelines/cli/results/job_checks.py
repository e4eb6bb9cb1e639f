"""Print the checks of a job."""

import os
import sys
from collections.abc import Iterator
from itertools import chain

import click
import msgspec
from msgspec.structs import replace

from feedferry.pipelines.check.job_checks import check_job
from feedferry.pipelines.job.file.job import Job
from feedferry.pipelines.job.file.job_file import file_checks
from feedferry.pipelines.observer.logs import OutputFormat
from feedferry.pipelines.terminal.loss_table import aligned
from feedferry.schemas.check import CheckLine, Level
from feedferry.schemas.errors import FatalError

_COLUMNS = (len(Level.FAIL.value), len("folder of runs"))
_COLOURS = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "red"}


def print_checks(
    job: Job, report_format: OutputFormat, *, is_offline: bool = False, shared: str | None = None
) -> int:
    """Print the lines of all checks of a job as they end; return 4 if one of them failed.

    The workers of a cluster are checked in the folder `shared`, or in that of the runs; without a
    cluster, `shared` is checked from this process.
    """
    about: dict[str, object] = {"job": job.name}
    checks = [file_checks(job)] if is_offline else [file_checks(job), check_job(job)]
    if (job.convert.runner or shared) and not is_offline:
        checks.append(_cluster_lines(job, shared, about))
    printed = []
    is_coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for check in chain.from_iterable(checks):
        line = replace(check, found=job.reword(check.found), cure=job.reword(check.cure))
        printed.append(line)
        if report_format is OutputFormat.TEXT:
            click.echo(check_as_text(line, is_coloured=is_coloured))
    if report_format is OutputFormat.JSON:
        report = {"version": 1, **about, "checks": printed}
        click.echo(msgspec.json.format(msgspec.json.encode(report)))
    return FatalError.exit_code if any(line.level is Level.FAIL for line in printed) else 0


def _cluster_lines(job: Job, shared: str | None, about: dict[str, object]) -> Iterator[CheckLine]:
    """Yield the lines of the command and the workers, and add these to `about`."""
    from feedferry.pipelines.check.cluster_checks import check_cluster  # loads Beam

    folder = shared or str(job.home.parent)
    cluster = check_cluster(replace(job.convert, output=folder))
    about |= {"command": cluster.command, "workers": cluster.workers}
    yield from cluster.lines()


def check_as_text(line: CheckLine, *, is_coloured: bool = False) -> str:
    """Return a check as a line of a table, which is wrapped if it is long."""
    found = f"{line.found} — {line.cure}" if line.cure else line.found
    text = aligned([(line.level.value, line.what, found)], least=_COLUMNS)
    if is_coloured:
        word = line.level.value
        return click.style(word, fg=_COLOURS[line.level]) + text.removeprefix(word)
    return text
