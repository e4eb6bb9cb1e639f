"""Print the checks of a job, the formats, and the losses of a conversion."""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

import click
import msgspec
from msgspec.structs import replace

from pipelines.doctor.checkup import check_job
from pipelines.doctor.loss import aligned
from pipelines.doctor.loss import as_text as losses_as_text
from pipelines.job.job import Job
from pipelines.job.job_file import file_checks
from pipelines.observer.logs import OutputFormat
from pipelines.options.convert_options import ConvertOptions
from pipelines.options.display_options import DisplayOptions
from pipelines.options.flags import decode
from pipelines.options.value_parsers import NO_OUTPUT
from schemas.check import CheckLine, Level
from schemas.errors import FatalError
from transforms.formats import FORMATS, FeedOptions
from transforms.rules.adapt import Target
from transforms.rules.losses import loss_table
from transforms.sources import SOURCES

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
    lines = (
        replace(line, found=job.reword(line.found), cure=job.reword(line.cure))
        for line in chain.from_iterable(checks)
    )
    return print_lines(lines, report_format, about)


def _cluster_lines(job: Job, shared: str | None, about: dict[str, object]) -> Iterator[CheckLine]:
    """Yield the lines of the command and the workers, and add these to `about`."""
    from pipelines.doctor.cluster_check import check_cluster  # loads Beam

    folder = shared or str(job.home.parent)
    cluster = check_cluster(replace(job.convert, output=folder))
    about |= {"command": cluster.command, "workers": cluster.workers}
    yield from cluster.lines()


def print_formats(words: Mapping[str, object]) -> int:
    """List the sources and the formats, and whether they are read and written."""
    kinds = [(source.name, "read", source.title) for source in SOURCES]
    for format_ in FORMATS:
        uses = "/".join(["read"] * format_.is_read + ["write"] * bool(format_.encoder))
        kinds.append((format_.name, uses, format_.title))
    for registry in (SOURCES, FORMATS):
        faults = registry.faults.items()
        kinds += [(name, "-", f"cannot be used: {fault}") for name, fault in faults]
    if decode(DisplayOptions, words).report_format is OutputFormat.JSON:
        rows = [dict(zip(("name", "uses", "title"), kind, strict=True)) for kind in kinds]
        click.echo(json.dumps({"version": 1, "formats": rows}, indent=2, ensure_ascii=False))
    else:
        for name, uses, title in kinds:
            click.echo(f"{name:<19}{uses:<12}{title}")
    return 0


def print_lines(
    lines: Iterable[CheckLine], report_format: OutputFormat, about: Mapping[str, object]
) -> int:
    """Print checks as they end, or `about` and them as JSON; return 4 if one of them failed."""
    printed = []
    is_coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    for line in lines:
        printed.append(line)
        if report_format is OutputFormat.TEXT:
            click.echo(check_as_text(line, is_coloured=is_coloured))
    if report_format is OutputFormat.JSON:
        report = {"version": 1, **about, "checks": printed}
        click.echo(msgspec.json.format(msgspec.json.encode(report)))
    return FatalError.exit_code if any(line.level is Level.FAIL for line in printed) else 0


def check_as_text(line: CheckLine, *, is_coloured: bool = False) -> str:
    """Return a check as a line of a table, which is wrapped if it is long."""
    found = f"{line.found} — {line.cure}" if line.cure else line.found
    text = aligned([(line.level.value, line.what, found)], least=_COLUMNS)
    if is_coloured:
        word = line.level.value
        return click.style(word, fg=_COLOURS[line.level]) + text.removeprefix(word)
    return text


def print_losses(words: Mapping[str, object]) -> int:
    """Print the losses of a conversion as a table or as JSON."""
    options = decode(ConvertOptions, {"inputs": ("-",), "output": NO_OUTPUT, **words})
    target = Target(
        format=options.to_format,
        feedtype=options.feedtype,
        datasource=options.datasource,
        default_mimetype=options.default_mimetype,
        allow_wide_deletes=options.allow_wide_deletes,
        own=(FeedOptions(dialect=options.dialect, empty_metadata=options.empty_metadata),),
    )
    rows = loss_table(options.from_format, target)
    if decode(DisplayOptions, words).report_format is OutputFormat.JSON:
        report = {"version": 1, "from": options.from_format, "to": target.format, "losses": rows}
        click.echo(json.dumps(msgspec.to_builtins(report), indent=2, ensure_ascii=False))
    else:
        click.echo(losses_as_text(rows, target, source=options.from_format))
    return 0
