"""The files for a forge and for pre-commit start programs and scripts that exist."""

import re
import tomllib
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from support.runs import ROOT

WORKFLOWS = ROOT / ".github" / "workflows"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def workflow(name: str) -> Any:  # YAML
    return yaml.safe_load((WORKFLOWS / f"{name}.yml").read_text("utf-8"))


def commands(name: str) -> list[str]:
    """Return the commands of a workflow."""
    jobs = workflow(name)["jobs"].values()
    return [step["run"] for job in jobs for step in job["steps"] if "run" in step]


def test_changes_are_tested_as_ci_does_and_with_each_version_of_python() -> None:
    assert commands("test")[0] == ".ci/run"
    assert (ROOT / ".ci" / "run").exists()
    tested = ["3.11", *workflow("test")["jobs"]["fast"]["strategy"]["matrix"]["python"]]
    classified = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert tested == classified


def test_only_the_job_that_publishes_may_ask_for_a_token_and_it_runs_no_command() -> None:
    publishing = workflow("publish")
    assert publishing["permissions"] == {"contents": "read"}
    assert publishing[True] == {"push": {"tags": ["v*"]}}  # YAML reads `on` as true
    allowed = [name for name, job in publishing["jobs"].items() if "permissions" in job]
    job = publishing["jobs"]["publish"]
    assert (allowed, job["permissions"], job["environment"]) == (
        ["publish"],
        {"id-token": "write"},
        "release",
    )
    assert not any("run" in step for step in job["steps"])


def test_the_distributions_are_checked_before_they_are_published() -> None:
    assert commands("publish")[-2:] == [
        "python -m build",
        "python -m twine check --strict dist/*",
    ]


@pytest.mark.parametrize("hook", ["ruff-check", "ruff-format", "lint-imports"])
def test_each_hook_is_a_check_of_the_test_command(hook: str) -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))
    (repository,) = config["repos"]
    entries = {item["id"]: item["entry"] for item in repository["hooks"]}
    program, *words = entries[hook].removeprefix(".venv/bin/").split()
    beginning = " ".join([program, *words[: program == "ruff"]])
    assert re.search(rf"' {beginning} ", (ROOT / "run_local.sh").read_text("utf-8"))
