"""A job in a folder: its documents, its file, its runs, and the appliance that it fills."""

import re
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from feedferry.pipelines.folders.job_folders import runs_of
from feedferry.schemas.run_record import RunRecord
from feedferry.transforms.sources.spool import read_deliveries
from support.forks import run
from support.served import BOUND_SECONDS, Served, start, wait_until

HOST = "http://docs.example.com/"


class TreeJob:
    """A job that reads a folder of small texts and keeps a state."""

    def __init__(self, folder: Path, url: str, *, documents: int, more: str = "") -> None:
        self.folder = folder
        self.docs = folder / "docs"
        self.home = folder / "runs" / "people"
        self.docs.mkdir(parents=True)
        for number in range(documents):
            self.write(f"{number:04d}.txt", f"text {number} " * 20)
        (folder / "people.yaml").write_text(
            "version: 1\njob: people\n"
            f"source: {{type: files, path: docs, base_url: {HOST!r}}}\n"
            f"target: {{type: gsa-feed, datasource: people, url: {url!r}}}\n{more}"
        )

    def write(self, name: str, text: str) -> None:
        (self.docs / name).write_text(text)

    def urls(self) -> list[str]:
        """Return the URLs of the documents that are there now."""
        return sorted(HOST + path.name for path in self.docs.iterdir())

    def run(self, *flags: str) -> "subprocess.CompletedProcess[str]":
        return run("run", "people.yaml", "--progress", "none", *flags, cwd=self.folder)

    def start(self, *flags: str) -> "subprocess.Popen[str]":
        return start("run", "people.yaml", "--progress", "none", *flags, cwd=self.folder)

    def kill_when(self, is_there: Callable[[], bool], *flags: str) -> None:
        """Start the job, and end it with SIGKILL as soon as something is there."""
        process = self.start(*flags)
        wait_until(lambda: process.poll() is not None or is_there())
        process.send_signal(signal.SIGKILL)
        _, stderr = process.communicate(timeout=BOUND_SECONDS)
        assert process.returncode == -signal.SIGKILL, stderr

    def records(self) -> list[RunRecord]:
        return runs_of(self.home)

    def has(self, pattern: str) -> bool:
        """Whether the folder of any run has a file."""
        return any(self.home.glob(f"*-*/{pattern}"))


def times_received(appliance: Served) -> Counter[str]:
    """Return how often each document came in."""
    paths = [delivery.path for delivery in read_deliveries(appliance.spool) if delivery.path]
    text = "".join((appliance.spool / path).read_text() for path in paths)
    return Counter(re.findall(r'<record url="([^"]+)"', text))
