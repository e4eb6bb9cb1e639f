"""`feedferry doctor`: the checks of a job, each with a time limit; all of them run.

Nothing that a check does changes the appliance or the source.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

import click
import msgspec
from msgspec.structs import replace

from pipelines.cli.display import ReportFormat
from pipelines.convert.inputs import STDIN, list_spans
from pipelines.convert.run_folder import STDIN_COPY
from pipelines.convert.settings import load_sources, settings_of, source_runs
from pipelines.doctor.local_checks import (
    check_disk,
    check_folder,
    check_job_state,
    check_schedule,
    check_secrets,
    check_unfinished,
    free_bytes,
)
from pipelines.doctor.table import aligned
from pipelines.job.job import Job
from schemas.check import Check, CheckLine, Level, fail, fail_of, ok, warn
from schemas.errors import FatalError, FeedferryError
from transforms.sinks.push.wire.checks import check_appliance
from transforms.sources import source_of

CHECK_SECONDS = 10.0
_GRACE = 1.2
"""A check is given up after its seconds times this."""

_COLOURS = {Level.OK: "green", Level.WARN: "yellow", Level.FAIL: "red"}


def run(job: Job, report_format: ReportFormat) -> int:
    """Print the lines of all checks; return 4 if one of them failed."""
    lines = [ok("job file", str(job.path)), *check_job(job)]
    if report_format is ReportFormat.JSON:
        report = {"version": 1, "job": job.name, "checks": lines}
        click.echo(msgspec.json.format(msgspec.json.encode(report)))
    else:
        is_coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        click.echo(as_text(lines, is_coloured=is_coloured))
    return FatalError.exit_code if any(line.level is Level.FAIL for line in lines) else 0


def check_job(
    job: Job, *, seconds: float = CHECK_SECONDS, free: Callable[[Path], int] = free_bytes
) -> list[CheckLine]:
    """Return the lines of all checks of a job; a check has `seconds`."""
    found: list[Check] = []

    def load(_seconds: float) -> Iterable[CheckLine]:
        found.extend(_source_checks(job))
        return ()

    lines = run_checks([Check("source", load)], seconds=seconds)
    lines += run_checks([*found, *_other_checks(job)], seconds=seconds)
    return [*lines, check_disk(job, sum(line.input_bytes for line in lines), free)]


def run_checks(checks: Sequence[Check], *, seconds: float) -> list[CheckLine]:
    """Run checks in parallel; return their lines in the order of the checks.

    A check that takes too long is left to itself, in a thread that ends with the process.
    """
    latest = time.monotonic() + seconds * _GRACE
    running = []
    for check in checks:
        found: list[CheckLine] = []
        thread = threading.Thread(target=_collect, args=(check, seconds, found), daemon=True)
        thread.start()
        running.append((check, thread, found))
    lines = []
    for check, thread, found in running:
        thread.join(max(latest - time.monotonic(), 0))
        lines += found
        if thread.is_alive():
            late = warn if found else fail
            reason = f"no {'further ' if found else ''}result within {seconds:g} s"
            lines.append(late(check.what, reason, "see whether it is slow or does not answer"))
    return lines


def as_text(lines: Sequence[CheckLine], *, is_coloured: bool = False) -> str:
    """Return a line for each check; long lines are wrapped."""
    rows = [
        (line.level.value, line.what, f"{line.found} — {line.cure}" if line.cure else line.found)
        for line in lines
    ]
    text = "\n" + aligned(rows)
    for level, colour in _COLOURS.items() if is_coloured else ():
        text = text.replace(f"\n{level.value} ", f"\n{click.style(level.value, fg=colour)} ")
    return text[1:]


def _collect(check: Check, seconds: float, found: list[CheckLine]) -> None:
    try:
        for line in check.run(seconds):
            found.append(line)
    except (FeedferryError, OSError) as exc:
        found.append(fail_of(check.what, exc))
    except Exception as exc:  # its text may hold anything
        found.append(fail(check.what, type(exc).__name__, "report this defect of feedferry"))


def _source_checks(job: Job) -> list[Check]:
    """Load the sources of a job; return their checks."""
    options = replace(job.convert, output=str(job.home))
    if STDIN in options.inputs:
        return []
    spans = list_spans(options, stdin_copy=job.home / STDIN_COPY)
    configs = load_sources(spans, options)
    runs = source_runs(spans, settings_of(options, (), job.home, configs), options)
    sources = dict.fromkeys(source_of(run.span) for run in runs)
    return [
        check
        for source in sources
        for check in source.checks([run for run in runs if source_of(run.span) is source])
    ]


def _other_checks(job: Job) -> list[Check]:
    checks = [
        Check("folder of runs", lambda _seconds: check_folder(job)),
        Check("state", lambda _seconds: check_job_state(job)),
        Check("secret", lambda _seconds: check_secrets(job)),
        Check("unfinished run", lambda _seconds: check_unfinished(job)),
    ]
    if (push := job.push) is None:
        return checks
    now = datetime.now().astimezone()
    ask = partial(check_appliance, push.appliance, push.backlog, now=now.timestamp())
    return [
        Check("appliance", lambda seconds: ask(seconds=seconds)),
        Check("schedule", lambda _seconds: check_schedule(push, now)),
        *checks,
    ]
