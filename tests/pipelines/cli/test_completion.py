"""Completion of shells: verbs, values of flags, and names of files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete

from feedferry.pipelines.cli.main import feedferry
from support.runs import ROOT


@pytest.mark.parametrize(
    ("words", "incomplete", "completed"),
    [
        ([], "con", ["config", "convert"]),
        (["convert", "--to"], "a", ["authorizer-stream", "avro"]),
        (["convert", "--from"], "data", ["database"]),
        (["convert", "--progress"], "", ["auto", "bar", "plain", "none"]),
        (["push", "--on-refusal"], "s", ["stop", "skip"]),
        (["push"], "--backlog", ["--backlog-ceiling", "--backlog-floor", "--backlog-interval"]),
    ],
)
def test_words_are_completed(words: list[str], incomplete: str, completed: list[str]) -> None:
    shell = BashComplete(feedferry, {}, "feedferry", "_FEEDFERRY_COMPLETE")
    results = [item.value for item in shell.get_completions(words, incomplete)]
    assert results == completed


@pytest.mark.parametrize("words", [["convert"], ["push"], ["run"], ["convert", "--mapping"]])
def test_names_of_files_are_completed_by_the_shell(words: list[str]) -> None:
    shell = BashComplete(feedferry, {}, "feedferry", "_FEEDFERRY_COMPLETE")
    assert [item.type for item in shell.get_completions(words, "a")] == ["file"]


@pytest.mark.slow
def test_bash_completes_the_formats_that_are_written(tmp_path: Path) -> None:
    command = tmp_path / "feedferry"
    code = "import sys; from feedferry.pipelines.cli.main import main; sys.exit(main())"
    command.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{code}' \"$@\"\n")
    command.chmod(0o755)
    script = """
        eval "$(_FEEDFERRY_COMPLETE=bash_source feedferry)"
        COMP_WORDS=(feedferry convert --to thu) COMP_CWORD=3
        _feedferry_completion feedferry thu --to
        echo "${COMPREPLY[@]}"
    """
    path = f"{tmp_path}:{os.environ['PATH']}"
    process = subprocess.run(
        ["bash", "-c", script],
        env={"PATH": path, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout == "thunderstone\n"
