"""Rendered jobs, the JSON Schema of job files, and their page in the docs."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml  # type: ignore[import-untyped]  # it has no types
from msgspec.structs import replace

from feedferry.pipelines.job.file.job import Job
from feedferry.pipelines.job.file.job_file import load_job
from feedferry.pipelines.job.file.job_keys import OPTIONS, job_keys
from feedferry.pipelines.job.file.job_text import json_schema, render
from feedferry.pipelines.options.flags import flags_of
from feedferry.pipelines.options.own_options import own_flags
from feedferry.schemas.errors import ConfigError
from support.archives import put
from support.job_files import MARK, PAGE, examples, reference
from support.runs import ROOT

SCHEMA = ROOT / "docs" / "job-file.schema.json"
EXAMPLES = examples()
ENVIRONMENT = {"EXPORT_TOKEN": "hunter2"}


def load(folder: Path, text: str) -> Job:
    text = text.replace("  ca_file: gsa.pem\n", "")
    return load_job(Path(put(folder / "job.yaml", text.encode())), {}, ENVIRONMENT)


def test_the_page_lists_all_keys(accept: bool) -> None:
    written = PAGE.read_text("utf-8").partition(MARK)[0].rstrip("\n") + "\n\n"
    if accept:
        PAGE.write_text(written + MARK + reference(), "utf-8")
    assert PAGE.read_text("utf-8") == written + MARK + reference()


def test_the_published_schema_is_that_of_the_parser(accept: bool) -> None:
    if accept:
        SCHEMA.write_text(json.dumps(json_schema(), indent=2) + "\n", "utf-8")
    assert json.loads(SCHEMA.read_text("utf-8")) == json_schema()


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_example_fits_the_schema_and_can_be_loaded(tmp_path: Path, name: str) -> None:
    jsonschema.validate(yaml.safe_load(EXAMPLES[name]), json_schema())
    assert load(tmp_path, EXAMPLES[name]).path == tmp_path / "job.yaml"


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_rendered_job_is_the_same_job(tmp_path: Path, name: str) -> None:
    job = load(tmp_path, EXAMPLES[name])
    rendered = render(job)
    jsonschema.validate(yaml.safe_load(rendered), json_schema())
    again = load(tmp_path, rendered)
    other = {"origins": job.origins, "settings": job.settings, "deadline": job.deadline}
    if job.push is not None and again.push is not None:  # a deadline is relative to now
        push = replace(again.push, deadline=job.push.deadline)
        again = replace(again, push=push)
    assert replace(again, **other) == job


def test_a_rendered_job_has_origins_and_no_secret(tmp_path: Path) -> None:
    lines = render(load(tmp_path, EXAMPLES["streams"])).replace(str(tmp_path), "").splitlines()
    words = [re.split(r"  +# (?=default|/)", line) for line in lines]
    assert words[:7] == [
        ["version: 1"],
        ["job: streams", "/job.yaml:2:6"],
        ["source:"],
        ["  type: retriever-stream", "/job.yaml:4:9"],
        ['  path: ["https://wiki.example.com/export?token=${env:EXPORT_TOKEN}"]', "/job.yaml:5:9"],
        ["  # base_url: none", "default"],
        ['  url_template: "https://wiki.example.com/{id}"', "/job.yaml:6:17"],
    ]
    assert "hunter2" not in "\n".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_what_the_schema_refuses_is_refused_by_the_parser(tmp_path: Path, name: str) -> None:
    document = yaml.safe_load(EXAMPLES[name])
    validator = jsonschema.Draft202012Validator(json_schema())
    for section, value in document.items():
        keys = value if isinstance(value, dict) else {"": value}
        for key in keys:
            for wrong in (None, True, 1.5, -1, "", "x y", [], [7], {"a": 1}):
                changed = {**document, section: {**value, key: wrong} if key else wrong}
                if not validator.is_valid(changed):
                    with pytest.raises(ConfigError, match=r"^\S+job\.yaml:\d+:\d+: "):
                        load(tmp_path, yaml.safe_dump(changed))


def test_each_key_is_one_setting_with_an_own_variable() -> None:
    declared = {flag.key for options in OPTIONS for flag in flags_of(options).values() if flag.key}
    declared |= {flag.key for flag in own_flags().values()}
    assert {*job_keys()} == declared
    variables = [key.variable for key in job_keys().values()]
    assert len({*variables}) == len(variables)
