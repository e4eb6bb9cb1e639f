"""Print the plan of a run, or of a push."""

import json
import shlex
from collections.abc import Mapping

import click
from msgspec.structs import replace

from feedferry.pipelines.check.local_checks import check_placeholders
from feedferry.pipelines.cli.results.result_observer import observer_of
from feedferry.pipelines.inspect.explanation import explain
from feedferry.pipelines.job.file.job import Job
from feedferry.pipelines.job.file.job_file import job_file_of, refuse_flags_of_keys
from feedferry.pipelines.observer.logs import OutputFormat
from feedferry.pipelines.options.convert_options import PlanOptions
from feedferry.pipelines.options.display_options import DisplayOptions
from feedferry.pipelines.options.flags import decode
from feedferry.pipelines.options.job_options import OverrideOptions
from feedferry.pipelines.plan.plan import as_json, summary_lines
from feedferry.pipelines.plan.planned_job import find_planned, plan_job
from feedferry.pipelines.report.conversion_report import reject_commands, summary_of
from feedferry.pipelines.terminal.display import print_defects, print_summary
from feedferry.schemas.errors import FINDINGS_EXIT, StoppedError
from feedferry.schemas.printable import printable


def print_plan(words: Mapping[str, object]) -> int:
    """Print the plan of a run and return its exit code; raise the error that would stop it."""
    display, explained = decode(DisplayOptions, words), words.get("explain")
    if job_file_of(words) is not None:
        refuse_flags_of_keys({**words, "inputs": None, "sample": None})
    job = find_planned(words)
    if explained is not None:
        return _print_explanation(job, str(explained))
    plan = plan_job(job, observer_of(words), decode(PlanOptions, words).sample)
    if display.report_format is OutputFormat.JSON:
        click.echo(json.dumps(as_json(plan), indent=2, sort_keys=True, ensure_ascii=False))
    else:
        if plan.is_estimate:
            parts = f"{plan.converted:,} of {plan.parts:,} parts of the input"
            click.echo(f"estimated from {parts}")
        summary = summary_of(plan.report)
        lines = (*summary.lines, *summary_lines(plan))
        commands = []
        if job.path is not None and not plan.stops:
            job_file = shlex.quote(str(job.path))
            commands.append(shlex.join(["feedferry", "run", str(job.path), *_layers(words)]))
            if plan.report.account.new_rejects:
                commands += reject_commands(plan.report, job_file)
        summary = replace(summary, lines=lines)
        print_summary(summary, next_commands=commands, is_quiet=display.is_quiet)
    print_defects(plan.defects)
    for line in check_placeholders(job.convert.mapping, job if job.path else None):
        click.echo(f"feedferry: {line.found}; {line.cure}", err=True)
    if plan.stops:
        raise StoppedError(f"the run would stop: {'; '.join(plan.stops)}")
    return plan.report.exit_code


def _print_explanation(job: Job, url: str) -> int:
    """Print what the steps of a job make of some records; return 1 if there are none."""
    is_found = False
    with job.errors_in_keys():
        for heading, text in explain(job.convert, url):
            is_found = True
            click.echo(f"{heading:<12}" + printable(text, kept="\n"))
    return 0 if is_found else FINDINGS_EXIT


def _layers(words: Mapping[str, object]) -> list[str]:
    """Return the flags that change the job file of a plan."""
    given = decode(OverrideOptions, words)
    profile = [] if given.job_profile is None else ["--profile", given.job_profile]
    return [*profile, *(word for text in given.overrides for word in ("--set", text))]
