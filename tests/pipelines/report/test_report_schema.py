"""The published JSON Schema of `report.json`."""

import json
from inspect import cleandoc
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from feedferry.pipelines.report.conversion_report import Report
from support.forks import run
from support.run_folders import write_run
from support.runs import ROOT, convert, report
from support.served import serving

PUBLISHED = ROOT / "docs" / "report.schema.json"


def report_schema() -> dict[str, object]:
    """Return the JSON Schema of `report.json`."""
    any_value = {"description": "A value of any type."}
    schema = msgspec.json.schema(Report, schema_hook=lambda kind: any_value)
    for definition in schema["$defs"].values():
        definition["description"] = cleandoc(definition["description"])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def errors(value: Any) -> list[str]:  # JSON
    """Return what a report has that the published schema does not allow, by path."""
    validator = Draft202012Validator(json.loads(PUBLISHED.read_text("utf-8")))
    return sorted(error.json_path for error in validator.iter_errors(value))


def test_the_published_schema_is_that_of_the_struct(accept: bool) -> None:
    text = json.dumps(report_schema(), indent=2) + "\n"
    if accept:
        PUBLISHED.write_text(text)
    command = "write it with: pytest tests/pipelines/report --accept"
    assert PUBLISHED.read_text("utf-8") == text, command


def test_the_schema_allows_a_report_with_everything(tmp_path: Path) -> None:
    values = report(write_run(tmp_path / "run"))
    assert (errors(values), values["version"]) == ([], 1)


def test_the_schema_refuses_a_count_that_is_a_text(tmp_path: Path) -> None:
    values = report(write_run(tmp_path / "run"))
    values["account"]["read"]["ADD"] = "many"
    values["chunks"] = None
    assert errors(values) == ["$.account.read.ADD", "$.chunks"]


@pytest.mark.slow
def test_the_schema_allows_the_report_of_a_conversion(here: Path) -> None:
    sample = str(ROOT / "pipelines" / "sample")
    assert convert(sample, "-o", "out", "--to", "thunderstone", "--accept-loss", "acl") == 0
    assert errors(report("out")) == []


@pytest.mark.slow
def test_a_push_of_feed_files_has_a_report_and_a_page_too(tmp_path: Path) -> None:
    sample = str(ROOT / "pipelines" / "sample" / "01-intranet.xml")
    with serving(tmp_path / "spool") as appliance:
        run("push", sample, "-o", str(tmp_path / "pushed"), "--to", appliance.url, "-q")

    values = report(tmp_path / "pushed")
    page = (tmp_path / "pushed" / "report.html").read_text("utf-8")
    assert (errors(values), values["account"]["read"]) == ([], {"records": 20})
    assert "<title>pushed: Done</title>" in page
