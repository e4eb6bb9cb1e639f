"""A plan as text and as JSON."""

from collections.abc import Iterator

from pipelines.plan.plan import Plan
from pipelines.report.conversion_report import as_json as report_as_json
from schemas.units import format_clock

VERSION = 2


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
        "verified_against": plan.verified_against,
    }


def summary_lines(plan: Plan) -> Iterator[tuple[str, str]]:
    for url in plan.urls:
        yield "url", url
    if plan.verified_against is not None:
        yield "verify", f"against {plan.verified_against}, after the push"
    yield (
        "duration",
        f"{format_clock(max(plan.seconds, 1))} to read and convert; {_push_text(plan)}",
    )


def _push_text(plan: Plan) -> str:
    if plan.push is None:
        return "without the push"
    pushes = "push" if plan.push.pushes == 1 else f"{plan.push.pushes:,} pushes"
    return f"{format_clock(max(plan.push.seconds, 1))} to push, at the rate of the last {pushes}"
