"""Measure whole processes: wall-clock time, processor time and memory, of all their processes."""

import os
import re
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_SAMPLE_SECONDS = 0.1
"""A sample takes a millisecond of a core that the measured processes share."""
_TIMEOUT_SECONDS = 3600
_RESIDENT = re.compile(r"^(VmRSS|VmHWM):\s+(\d+) kB", re.MULTILINE)


class Measured(NamedTuple):
    """One run: wall-clock time, user and system time of all its processes, their peak memory.

    The memory is that of all processes together, and of the largest process.
    """

    seconds: float
    cpu_seconds: float
    sum_bytes: int
    max_bytes: int


class RunError(Exception):
    """A measured command failed."""


def measure(command: Sequence[str], *, cwd: Path) -> Measured:
    """Run a command to its end; raise RunError unless it exits with 0 within the time limit."""
    with (cwd / "benchmark.log").open("w+b") as log:
        started = time.perf_counter()
        child = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        memory = _Memory(child.pid)
        memory.start()
        try:
            status, usage = _wait(child.pid)
        finally:
            seconds = time.perf_counter() - started
            memory.stop()
            _end_all(child)
        log.seek(0)
        if status:
            raise RunError(f"{' '.join(command)}: exit code {status}\n{_tail(log.read())}")
    max_bytes = max(memory.max_bytes, usage.ru_maxrss << 10)
    cpu_seconds = usage.ru_utime + usage.ru_stime  # with those of all processes that it waited for
    return Measured(seconds, cpu_seconds, max(memory.sum_bytes, max_bytes), max_bytes)


def peak_bytes(pid: int) -> int:
    """Return the peak memory of a running process."""
    return _resident_bytes(pid)[1]


def _wait(pid: int) -> tuple[int, resource.struct_rusage]:
    before = signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(_TIMEOUT_SECONDS)
    try:
        _, status, usage = os.wait4(pid, 0)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return os.waitstatus_to_exitcode(status), usage


def _too_long(signum: int, frame: object) -> None:
    raise RunError(f"no end after {_TIMEOUT_SECONDS} seconds")


def _end_all(child: subprocess.Popen[bytes]) -> None:
    """Kill the process group of the command, with all processes that are left in it."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.returncode = 0


def _tail(log: bytes) -> str:
    return log[-2000:].decode("utf-8", "replace")


class _Memory(threading.Thread):
    """Sample the memory of a process and its descendants."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.sum_bytes = 0
        self.max_bytes = 0
        self._pid = pid
        self._stopped = threading.Event()

    def run(self) -> None:
        while not self._stopped.wait(_SAMPLE_SECONDS):
            sizes = [_resident_bytes(pid) for pid in _descent(self._pid)]
            self.sum_bytes = max(self.sum_bytes, sum(now for now, _ in sizes))
            self.max_bytes = max(self.max_bytes, *(peak for _, peak in sizes))

    def stop(self) -> None:
        self._stopped.set()
        self.join()


def _descent(pid: int) -> Iterator[int]:
    yield pid
    try:
        threads = list(Path(f"/proc/{pid}/task").glob("*/children"))
        pids = [int(word) for children in threads for word in children.read_text().split()]
    except OSError:  # the process or a thread has ended
        return
    for child in pids:
        yield from _descent(child)


def _resident_bytes(pid: int) -> tuple[int, int]:
    """Return the memory of a process now, and its peak."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:  # the process has ended
        return 0, 0
    kilobytes = dict(_RESIDENT.findall(status))
    return int(kilobytes.get("VmRSS", 0)) << 10, int(kilobytes.get("VmHWM", 0)) << 10
