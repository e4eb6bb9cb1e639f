"""Print the findings of a validation."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import click

from feedferry.pipelines.inspect.validation import validate
from feedferry.pipelines.report.findings import json_lines, meaning_of, sarif_lines
from feedferry.schemas.errors import FINDINGS_EXIT
from feedferry.schemas.printable import printable
from feedferry.schemas.units import counted
from feedferry.transforms.validate.rules import Finding, Severity

_LINE_BYTES, _LINE_CHARS = 400, 90
_MARKED = 200
"""Only the first findings are shown with their lines."""


def print_findings(words: Mapping[str, object], report_format: str) -> int:
    """Print the findings of the inputs; return the exit code."""
    counts = Counter[Severity]()
    findings = _counted(validate(words), counts)
    lines = {"json": json_lines, "sarif": sarif_lines}.get(report_format, _text_lines)
    for line in lines(findings):
        click.echo(line)
    if report_format == "text":
        errors, warnings = counts[Severity.ERROR], counts[Severity.WARNING]
        found = f"{counted(errors, 'error')}, {counted(warnings, 'warning')}"
        click.echo(found if counts else "no findings")
    return FINDINGS_EXIT if counts else 0


def _counted(findings: Iterable[Finding], counts: Counter[Severity]) -> Iterator[Finding]:
    for finding in findings:
        counts[finding.severity] += 1
        yield finding


def _text_lines(findings: Iterable[Finding]) -> Iterator[str]:
    explained = set[str]()
    for number, finding in enumerate(findings):
        yield finding.message
        if number < _MARKED and (line := _line_of(finding)):
            yield f"    {finding.line:>5} | {line}"
        about = meaning_of(finding.code)
        if about is not None and finding.code not in explained:
            explained.add(finding.code)
            cause, cure = about
            yield f"    cause  {cause}"
            yield f"    cure   {cure}"


def _line_of(finding: Finding) -> str:
    """Return the line of a local file where the element of a finding begins."""
    path = Path(finding.source)
    if not finding.line or not path.is_file():
        return ""
    with path.open("rb") as stream:
        stream.seek(finding.offset)
        line = stream.readline(_LINE_BYTES).decode("utf-8", "replace").rstrip()
    return printable(line if len(line) < _LINE_CHARS else f"{line[:_LINE_CHARS]}…")
