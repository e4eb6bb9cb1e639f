"""The processor time of short commands: `cd tests && python -m benchmarks.start_up`."""

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

REPEATS = 5
_FEEDFERRY = str(Path(sys.executable).with_name("feedferry"))
FEED = b"""\
<gsafeed><header><datasource>x</datasource><feedtype>incremental</feedtype></header><group>
<record url="http://h.example.com/1" mimetype="text/plain"><content>a</content></record>
</group></gsafeed>
"""
JOB = b"""\
version: 1
job: docs
source: {type: gsa-feed, path: feed.xml}
target: {type: gsa-feed, url: "http://gsa.example.com:19900"}
"""
COMMANDS = (
    "--help",
    "formats",
    "inspect feed.xml",
    "plan feed.xml --to jsonl",
    "plan job.yaml",
    "push out --to http://gsa.example.com:19900 --dry-run",
    "convert feed.xml -o out --to gsa-feed --fresh -q --jobs 1",
    "convert feed.xml -o out --to gsa-feed --fresh -q --jobs 2",
)
"""What is measured; `convert` also starts the processes of Beam."""

PARTS = (
    "numpy, pyarrow",
    "apache_beam",
    "feedferry.transforms.stages",
    "feedferry.pipelines.job.run.engine",
)
"""Modules whose import is measured on its own, without the garbage collector: with Beam, all that a
worker loads, all that `convert` loads."""


def cpu_seconds(command: Sequence[str]) -> float:
    """Return the user and system time of all processes of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def commands() -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the label and the command line of everything that is measured."""
    for words in COMMANDS:
        yield f"feedferry {words}", (_FEEDFERRY, *words.split())
    for modules in PARTS:
        code = f"import gc; gc.disable(); import {modules}"
        yield f"import {modules}", (sys.executable, "-P", "-c", code)


def main() -> None:
    """Run everything in turn, and print the best and the median of each."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("feed.xml").write_bytes(FEED)
        Path("job.yaml").write_bytes(JOB)
        cpu_seconds((_FEEDFERRY, *COMMANDS[-2].split()))
        runs = [[cpu_seconds(command) for _, command in commands()] for _ in range(REPEATS)]
    print(" best   median")
    for (label, _), seconds in zip(commands(), zip(*runs, strict=True), strict=True):
        print(f"{min(seconds) * 1000:5.0f}   {median(seconds) * 1000:5.0f} ms  {label}")


if __name__ == "__main__":
    main()
