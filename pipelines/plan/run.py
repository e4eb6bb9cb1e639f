"""`feedferry plan`: what a run would do, as text or JSON."""

import json
from collections.abc import Iterator, Mapping

import click

from pipelines.cli.convert_checks import parse
from pipelines.cli.convert_options import PlanOptions
from pipelines.cli.display import ReportFormat, format_clock, print_defects
from pipelines.cli.flags import decode
from pipelines.convert.report import as_json as report_as_json
from pipelines.convert.report import as_text as report_as_text
from pipelines.convert.settings import STDOUT
from pipelines.plan.plan import Plan, make_plan
from schemas.errors import StoppedError

VERSION = 2


def run(words: Mapping[str, object]) -> int:
    """Print the plan of a run and return its exit code; raise the error that would stop it."""
    sample = decode(PlanOptions, words).sample
    options = parse({**words, "output": STDOUT})
    plan = make_plan(options, sample)
    if options.report_format is ReportFormat.JSON:
        click.echo(json.dumps(as_json(plan), indent=2, sort_keys=True, ensure_ascii=False))
    else:
        click.echo("\n".join(_as_text(plan)))
    print_defects(plan.report.account.defects)
    if plan.stops:
        raise StoppedError(f"the run would stop: {'; '.join(plan.stops)}")
    return plan.report.exit_code


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
    }


def _as_text(plan: Plan) -> Iterator[str]:
    if plan.is_estimate:
        yield f"estimated from {plan.converted:,} of {plan.parts:,} parts of the input"
    yield report_as_text(plan.report)
    for url in plan.urls:
        yield f"url       {url}"
    yield f"duration  {format_clock(max(plan.seconds, 1))} to read and convert; without the push"
