"""Findings of a validation as JSON, and as SARIF for the tools that show it."""

import json
from collections.abc import Iterable, Iterator

import msgspec

from feedferry.schemas.codes import find_code
from feedferry.transforms.validate.rules import Finding, Severity, all_rules

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_encode = msgspec.json.Encoder(order="sorted").encode


def json_lines(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield an object in JSON for each finding."""
    for finding in findings:
        yield _encode(finding).decode()


def sarif_lines(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield the lines of one SARIF 2.1.0 log; results are not collected."""
    rules = [
        {
            "id": rule.code,
            "shortDescription": {"text": rule.meaning},
            "help": {"text": f"{rule.cause} {rule.cure} {rule.section}."},
        }
        for rule in all_rules().values()
    ]
    driver = {"name": "feedferry", "rules": rules}
    head = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}}]}
    before, after = json.dumps(head).rsplit("}]}", 1)
    yield f'{before}, "columnKind": "unicodeCodePoints", "results": ['
    separator = ""
    for finding in findings:
        yield separator + json.dumps(_result(finding), ensure_ascii=False)
        separator = ","
    yield f"]}}]}}{after}"


def meaning_of(code: str) -> tuple[str, str] | None:
    """Return the cause and the cure of a code, as Markdown."""
    name = code.partition(" ")[0]
    about = all_rules().get(name) or find_code("reject", name) or find_code("notice", name)
    return None if about is None else (about.cause, about.cure)


def _result(finding: Finding) -> dict[str, object]:
    place: dict[str, object] = {"artifactLocation": {"uri": finding.source}}
    if finding.line:
        place["region"] = {"startLine": finding.line}
    return {
        "ruleId": finding.code.partition(" ")[0],
        "level": "error" if finding.severity is Severity.ERROR else "warning",
        "message": {"text": finding.detail},
        "locations": [{"physicalLocation": place}],
    }
