"""Runs of the command in this process, and what they leave in a folder."""

import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from feedferry.pipelines.cli.main import main
from feedferry.pipelines.observer.logs import LogSettings, configure_logging

ROOT = Path(__file__).parents[2]
AVRO_RUN = [
    *("chunks/", "chunks/000001.avro", "config.rendered.yaml", "manifest.jsonl"),
    *("report.html", "report.json", "run.json", "run.log", "timeline.jsonl"),
]
"""All files of a finished run with one chunk."""

OF_ONE_RUN = ("report", "timeline", "config.rendered", "run")
"""Stems of files that name the folder of their run, or that have times."""

_T = TypeVar("_T")


def convert(*args: str) -> int:
    """Convert without showing that it moves; return the exit code."""
    return main(["convert", *args, "--progress", "none"])


def chunks(folder: str | Path) -> list[bytes]:
    """The chunks of a finished run, in the order of their names."""
    return [path.read_bytes() for path in sorted(Path(folder, "chunks").iterdir())]


def manifest(folder: str | Path) -> list[Any]:
    """The lines of its manifest."""
    text = Path(folder, "manifest.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def column(folder: str | Path, name: str) -> list[Any]:
    """What each line of the manifest has under this name."""
    return [line[name] for line in manifest(folder)]


def report(folder: str | Path) -> Any:
    """The report of a finished run."""
    return json.loads(Path(folder, "report.json").read_text("utf-8"))


def left(folder: str | Path) -> list[str]:
    """All that is in a folder, at any depth, by path."""
    return sorted(_names(Path(folder)))


@contextmanager
def keep_levels() -> Iterator[None]:
    """Give the loggers their levels back, and end the log: the command sets both."""
    loggers = [logging.getLogger(name) for name in ("", "feedferry")]
    before = [logger.level for logger in loggers]
    try:
        yield
    finally:
        configure_logging(LogSettings(has_stderr=False))
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


def chosen(*, usual: _T, full: _T) -> _T:
    """Return `full` if FEEDFERRY_STORM=full: all instants at which a storm kills or races."""
    return full if os.environ.get("FEEDFERRY_STORM") == "full" else usual


def _names(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*"):
        yield path.relative_to(folder).as_posix() + ("/" if path.is_dir() else "")
