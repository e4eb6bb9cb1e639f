"""Run a shell command on a terminal of 100 columns, and write what it shows as an SVG picture.

Usage: python .ci/terminal_svg.py PICTURE.svg COMMAND

docs/images/terminal.svg is a conversion of the sample, and docs/images/terminal-*.svg are the
commands of the first tutorial.
"""

import io
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

COLUMNS = 100


def main() -> None:
    picture, command = sys.argv[1:]
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print(Text("$ ", "bold green") + Text(command, "bold"))
    for line in shown(command):
        console.print(Text.from_ansi(line), soft_wrap=False)
    svg = console.export_svg(title="feedferry", theme=MONOKAI, unique_id=Path(picture).stem)
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)  # fonts of another host
    Path(picture).write_text(svg, "utf-8")


def shown(command: str) -> list[str]:
    """Return the lines that are left on the terminal when the command has ended."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "LINES": "50", "TERM": "xterm-256color"}
    process = subprocess.Popen(
        ["bash", "-c", command], stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    output = b""
    try:
        while block := os.read(ours, 1 << 16):
            output += block
    except OSError:  # the terminal is closed when its last process has ended
        process.wait()
    lines: list[str] = []
    for line in output.decode("utf-8", "replace").replace("\r\n", "\n").split("\n"):
        for _ in range(line.count("\x1b[1A")):  # a live display goes up and writes its lines again
            lines = lines[:-1]
        lines.append(re.sub(r".*(?:\r|\x1b\[2K)", "", line).replace("\x1b[1A", ""))
    return lines[:-1] if lines and not lines[-1] else lines


main()
