"""Receivers for tests: `feedferry serve` as a process of its own, and pushes to it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import ProxyHandler, build_opener

from feedferry.transforms.sources.spool import read_deliveries
from support.forks import run as run_forked
from support.programs_needed import path_of
from support.runs import ROOT

BOUND_SECONDS = 300.0
COMMAND = (
    sys.executable,
    "-c",
    "import sys; from feedferry.pipelines.cli.main import main; sys.exit(main())",
)
_OPENER = build_opener(ProxyHandler({}))


class Served:
    """A receiver that runs: where it is, and what it got and holds."""

    def __init__(self, process: "subprocess.Popen[str]", url: str, spool: Path) -> None:
        self.process = process
        self.url = url
        self.spool = spool
        self.log: list[str] = []
        """The lines on stderr, once it has ended."""

    def get(self, path: str) -> bytes:
        with _OPENER.open(self.url + path, timeout=BOUND_SECONDS) as answer:
            result: bytes = answer.read()
        return result

    def settle(self) -> None:
        """Wait until all that came in is digested, whatever a scenario counts."""
        wait_until(lambda: json.loads(self.get("/documents?limit=1"))["backlog"] == 0)

    def documents(self, **asked: str) -> list[Any]:
        """All documents that it holds, once it has digested what came in."""
        self.settle()
        result: list[Any] = []
        while True:
            page = json.loads(self.get(f"/documents?{urlencode(asked)}"))
            result += page["documents"]
            if page["next"] is None:
                return result
            asked["after"] = page["next"]

    def urls(self) -> list[str]:
        return [document["url"] for document in self.documents()]

    def arrivals(self) -> Counter[str]:
        """How often each feed came in, by the sha256 of its bytes."""
        paths = (
            self.spool / delivery.path for delivery in read_deliveries(self.spool) if delivery.path
        )
        return Counter(sha256(path.read_bytes()).hexdigest() for path in paths)

    def feedtypes(self) -> list[str]:
        """What each delivery was posted as, in order of arrival."""
        return [delivery.feedtype for delivery in read_deliveries(self.spool)]


def post_form(url: str, *fields: str, text: bytes = b"") -> bytes:
    """Post the fields of a form with curl, which reads `-` from the text; return the reply."""
    words = [word for field in fields for word in ("-F", field)]
    command = [path_of("curl"), "-sS", "--noproxy", "*", "--max-time", "60", *words, url]
    return subprocess.run(command, input=text, capture_output=True, check=False).stdout


@contextmanager
def serving(spool: Path, *flags: str) -> Iterator[Served]:
    """Run a receiver on a free port; end it by SIGTERM, and see that it ends well."""
    process = start("serve", "--spool", str(spool), "--port", "0", "--min-free", "0", *flags)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url, process.communicate(timeout=BOUND_SECONDS)[1]
        served = Served(process, url.rstrip("/"), spool)
        yield served
    finally:
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=BOUND_SECONDS)
    served.log = stderr.splitlines()
    assert process.returncode == 0, stderr


@contextmanager
def stopped(process: "subprocess.Popen[str]") -> Iterator[None]:
    """Let a process do nothing while the block runs."""
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def start(*args: str, cwd: Path | None = None) -> "subprocess.Popen[str]":
    """Start the command; its output is kept."""
    return subprocess.Popen(
        [*COMMAND, *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


run = run_forked
"""Run the command to its end."""


def wait_until(is_so: Callable[[], bool], *, seconds: float = BOUND_SECONDS) -> None:
    """Wait for something that another process does; fail if it does not come."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "it did not come in time"
        time.sleep(0.005)


def wait_until_settled(count: Callable[[], int]) -> int:
    """Return a number that other processes raise, when it has been the same for two seconds."""
    last = -1
    while last != (last := count()):
        time.sleep(2)
    return last
