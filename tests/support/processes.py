"""The command as a process whose descendants can be found: all of them have its mark."""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from support.runs import ROOT

PATIENCE_SECONDS = 300.0
"""A process that takes longer to end hangs."""
_MAIN = """\
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # it may have been ignored above us
from feedferry.pipelines.cli.main import main
print("ready", flush=True)
sys.exit(main())
"""
_PAUSE_SECONDS = 0.05


class Marked:
    """A process of the command, in a process group of its own."""

    def __init__(self, process: "subprocess.Popen[bytes]", mark: str, stderr: IO[bytes]) -> None:
        self.process = process
        self._mark = mark
        self._stderr = stderr

    def alive(self) -> list[int]:
        """Return the processes that live of all that the command started, itself among them."""
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and self._is_ours(name)]

    def children(self) -> list[int]:
        """Return the processes that the command started and that live."""
        return [pid for pid in self.alive() if pid != self.process.pid]

    def wait_for_children(self, count: int) -> list[int]:
        """Wait until there are so many, and return them."""
        end = time.monotonic() + PATIENCE_SECONDS
        while len(children := self.children()) < count:
            assert time.monotonic() < end, self.stderr()
            assert self.process.poll() is None, self.stderr()
            time.sleep(_PAUSE_SECONDS)
        return children

    def wait_until_none(self) -> None:
        """Wait until nothing is left that the command started."""
        end = time.monotonic() + PATIENCE_SECONDS
        while left := self.alive():
            assert time.monotonic() < end, f"processes {left} are left"
            time.sleep(_PAUSE_SECONDS)

    def stderr(self) -> str:
        """Return what was written to stderr, by the command or by what it started."""
        self._stderr.seek(0)
        return self._stderr.read().decode()

    def _is_ours(self, pid: str) -> bool:
        try:
            return self._mark.encode() in Path("/proc", pid, "environ").read_bytes()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return False


@contextmanager
def marked(folder: Path, *args: str, code: str = _MAIN) -> Iterator[Marked]:
    """Start the command in `folder`; yield when it handles signals; leave no process behind."""
    mark = uuid.uuid4().hex
    with (folder / f"{mark}.stderr").open("w+b") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", code, *args],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TEST_MARK": mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            start_new_session=True,
        )
        started = Marked(process, mark, stderr)
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n", started.stderr()
            yield started
        finally:
            for pid in started.alive():
                os.kill(pid, signal.SIGKILL)
            process.communicate(timeout=PATIENCE_SECONDS)
