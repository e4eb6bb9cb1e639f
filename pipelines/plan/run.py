"""`feedferry plan`: what a run would do, as text or JSON."""

import json
import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path

import click
from msgspec.structs import replace

from pipelines.cli.convert_checks import parse
from pipelines.cli.convert_options import PlanOptions
from pipelines.cli.display import ReportFormat, format_clock, print_defects, show_status
from pipelines.cli.flags import decode
from pipelines.cli.summary import print_summary
from pipelines.cli.value_parsers import NO_OUTPUT
from pipelines.convert.report import as_json as report_as_json
from pipelines.convert.report import reject_commands, summary_of
from pipelines.doctor.local_checks import check_placeholders
from pipelines.job.job import Job
from pipelines.job.job_file import errors_in_keys, is_job_file, load_job
from pipelines.plan.plan import Plan, make_plan
from pipelines.plan.push_rate import predict_push
from schemas.errors import StoppedError

VERSION = 2


def run(words: Mapping[str, object]) -> int:
    """Print the plan of a run and return its exit code; raise the error that would stop it."""
    sample = decode(PlanOptions, words).sample
    job = _load_job(words)
    options = parse({**words, "output": NO_OUTPUT}, verb="plan") if job is None else job.convert
    in_keys = nullcontext() if job is None else errors_in_keys(job)
    with in_keys, show_status("planning", options):
        plan = make_plan(options, sample)
    if job is not None and job.push is not None:
        plan = replace(plan, push=predict_push(plan.report.chunk_bytes, job.home))
    if options.report_format is ReportFormat.JSON:
        click.echo(json.dumps(as_json(plan), indent=2, sort_keys=True, ensure_ascii=False))
    else:
        if plan.is_estimate:
            parts = f"{plan.converted:,} of {plan.parts:,} parts of the input"
            click.echo(f"estimated from {parts}")
        summary = summary_of(plan.report)
        lines = (*summary.lines, *_lines(plan))
        is_next = job is not None and not plan.stops
        job_file = shlex.quote(_inputs(words)[0]) if is_next else ""
        commands = [f"feedferry run {job_file}"] if is_next else []
        if is_next and plan.report.account.new_rejects:
            commands += reject_commands(plan.report, job_file)
        print_summary(replace(summary, lines=lines), options, next_commands=commands)
    print_defects(plan.report.account.defects)
    for line in check_placeholders(options.mapping, job):
        click.echo(f"feedferry: {line.found}; {line.cure}", err=True)
    if plan.stops:
        raise StoppedError(options.reword(f"the run would stop: {'; '.join(plan.stops)}"))
    return plan.report.exit_code


def _load_job(words: Mapping[str, object]) -> Job | None:
    """Return the job of the only INPUT if that is a job file."""
    inputs = _inputs(words)
    if len(inputs) != 1 or not is_job_file(Path(inputs[0])):
        return None
    flags = {name: word for name, word in words.items() if name != "inputs"}
    job = load_job(Path(inputs[0]), flags, os.environ)
    if job.home.exists():
        return job
    return replace(job, convert=replace(job.convert, state=None))  # that of a first run is empty


def _inputs(words: Mapping[str, object]) -> tuple[str, ...]:
    inputs = words["inputs"]
    return inputs if isinstance(inputs, tuple) else ()


def as_json(plan: Plan) -> dict[str, object]:
    """Return the plan as plain values: the report of the run, and what only a plan has."""
    report = report_as_json(plan.report)
    del report["folder"]
    return {
        **report,
        "version": VERSION,
        "stops": plan.stops,
        "seconds": plan.seconds,
        "parts": plan.parts,
        "converted_parts": plan.converted,
        "is_estimate": plan.is_estimate,
        "urls": plan.urls,
        "push_seconds": plan.push and plan.push.seconds,
    }


def _lines(plan: Plan) -> Iterator[tuple[str, str]]:
    for url in plan.urls:
        yield "url", url
    yield (
        "duration",
        f"{format_clock(max(plan.seconds, 1))} to read and convert; {_push_text(plan)}",
    )


def _push_text(plan: Plan) -> str:
    if plan.push is None:
        return "without the push"
    pushes = "push" if plan.push.pushes == 1 else f"{plan.push.pushes:,} pushes"
    return f"{format_clock(max(plan.push.seconds, 1))} to push, at the rate of the last {pushes}"
