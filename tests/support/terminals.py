"""Commands on a terminal of some columns."""

import errno
import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from pathlib import Path

from support.runs import ROOT

MAIN = "import sys; from feedferry.pipelines.cli.main import main; sys.exit(main())"
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_LINE_START = re.compile(r"\r|\x1b\[2K|\x1b\[1A")


def run_on_terminal(
    *words: str, cwd: Path, columns: int, environment: Mapping[str, str] = {}
) -> str:
    """Run a command on a terminal; return all that it writes there, with control sequences."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    shell = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"}
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, *words],
        cwd=cwd,
        env={**shell, "LANG": "C.UTF-8", **environment},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    written = io.BytesIO()
    with os.fdopen(ours, "rb", buffering=0) as stream, process:
        try:
            while block := stream.read(1 << 16):
                written.write(block)
        except OSError as exc:  # Linux reports the end of a terminal like this
            if exc.errno != errno.EIO:
                raise
    return written.getvalue().decode().replace("\r\n", "\n")


def drawn_lines(text: str) -> list[str]:
    """Return all lines that a terminal has shown, also those that were drawn over."""
    lines = (part for line in text.split("\n") for part in _LINE_START.split(line))
    return [line for line in (CONTROL.sub("", line).rstrip() for line in lines) if line]
