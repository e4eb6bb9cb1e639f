"""No command runs Python files of the folder that it is started in."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from support.archives import documents, gsa_feed, put

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 300
FEEDFERRY = Path(sys.executable).parent / "feedferry"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
NAMES = (
    *("apache_beam", "click", "dill", "encodings", "fastavro", "google", "grpc", "h11", "httpx2"),
    *("isal", "json", "logging", "lxml", "msgspec", "numpy", "pip", "pipelines", "proto"),
    *("psycopg", "re", "runpy", "schemas", "sitecustomize", "sqlalchemy", "ssl"),
    *("token", "transforms", "typing", "usercustomize", "venv", "yaml"),
)
"""Modules that Python, Beam and this project import, or try to."""
HOSTILE = """\
import os
with open({path!r}, "a") as executed:
    executed.write({name!r} + "\\n")
os._exit(99)
"""
MAPPING = "connection: sqlite:///people.db\ntable: people\nurl: https://p.example.com/{id}\n"
TO_JSONL = ("--to", "jsonl", "--progress", "none")
VERBS = {
    "formats": ("formats",),
    "help": ("convert", "--help"),
    "inspect": ("inspect", "feed.xml"),
    "plan": ("plan", "tree", "--to", "jsonl", "--base-url", "https://docs.example.com/"),
    "init": ("init", "--from", "database", "sqlite:///people.db"),
    "convert": ("convert", "feed.xml", "-o", "out", *TO_JSONL),
    "convert in two": ("convert", "feed.xml", "-o", "out", *TO_JSONL, "--jobs", "2"),
    "convert in two of Beam's": (
        *("convert", "feed.xml", "-o", "out", *TO_JSONL, "--jobs", "2"),
        *("--runner", "FnApiRunner"),
    ),
    "convert a database": (
        *("convert", "people.yaml", "--from", "database", "-o", "out", *TO_JSONL),
    ),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with inputs, and with a hostile module of each name."""
    for name in NAMES:
        code = HOSTILE.format(name=name, path=str(tmp_path / "executed"))
        put(tmp_path / f"here/{name}.py", code.encode())
    put(tmp_path / "here/feed.xml", gsa_feed(*documents(1, 9)))
    put(tmp_path / "here/tree/a.txt", b"plan")
    put(tmp_path / "here/people.yaml", MAPPING.encode())
    with closing(sqlite3.connect(tmp_path / "here/people.db")) as people, people:
        people.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT)")
        people.execute("INSERT INTO people VALUES (1, 'Ada')")
    return tmp_path / "here"


def executed(folder: Path) -> list[str]:
    """The hostile modules that were executed."""
    path = folder.parent / "executed"
    return sorted(set(path.read_text().split())) if path.exists() else []


def feedferry(folder: Path, *args: str) -> "subprocess.CompletedProcess[str]":
    """Run the command as it is installed."""
    return subprocess.run(
        [FEEDFERRY, *args],
        check=False,
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )


@contextmanager
def appliance(folder: Path) -> Iterator[str]:
    """Run `feedferry serve` in the folder; yield its URL."""
    process = subprocess.Popen(
        [FEEDFERRY, "serve", "--spool", "spool", "--port", "0", "--min-free", "0"],
        cwd=folder,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip().rstrip("/")
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_SECONDS)


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_executes_no_module_of_the_working_folder(folder: Path, verb: str) -> None:
    run = feedferry(folder, *VERBS[verb])

    assert (run.returncode, executed(folder)) == (0, []), run.stderr


def test_pushing_and_serving_execute_no_module_of_the_working_folder(folder: Path) -> None:
    with appliance(folder) as url:
        pushed = ("push", "feed.xml", "-o", "pushed", "--to", url, "--progress", "none")
        runs = [
            feedferry(folder, *pushed, "--dry-run"),
            feedferry(folder, *pushed),
            feedferry(folder, "convert", "--from", "spool", "spool", "-o", "out", *TO_JSONL),
        ]

    assert ([run.returncode for run in runs], executed(folder)) == ([0, 0, 0], []), runs


def test_setting_up_executes_no_module_of_the_working_folder(folder: Path, tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    shutil.copy(ROOT / "run_local.sh", checkout)
    put(checkout / "pyproject.toml", b'[project]\nname = "nothing"\nversion = "0"\n')
    run = subprocess.run(
        [checkout / "run_local.sh", "formats"],
        check=False,
        cwd=folder,
        env={**os.environ, "PIP_NO_INDEX": "1"},  # that pip is started is enough
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )

    assert "Installing feedferry (run) into .venv" in run.stderr
    assert executed(folder) == [], run.stderr
