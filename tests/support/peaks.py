"""The most memory that a command had, measured in a process of its own.

It is read from `/proc/self/status` by the command itself. What `wait` reports of a child includes
the memory of the process that started it, which may be a test process with much of it.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

from support.runs import ROOT

_COMMAND = (
    "import sys; from feedferry.pipelines.cli.main import main; code = main();"
    " print(open('/proc/self/status').read(), flush=True); sys.exit(code)"
)
_PEAK = re.compile(r"VmHWM:\s+(\d+) kB")


def peak_of(status: str) -> int:
    """Return the peak in bytes that the text of `/proc/PID/status` states."""
    match = _PEAK.search(status)
    assert match is not None, status
    return int(match[1]) << 10


def run_measured(words: list[str], *, cwd: Path | None = None) -> tuple[int, str, int]:
    """Run the command; return its exit code, its stderr and its peak in bytes."""
    ended = subprocess.run(
        [sys.executable, "-c", _COMMAND, *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    return ended.returncode, ended.stderr, peak_of(ended.stdout)
