"""Runs of the command that begin at once, as they are forked, and are killed at any operation."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from support.runs import ROOT
from support.served import BOUND_SECONDS

_SERVER = """\
import json, os, signal, sys
import apache_beam.runners.portability.fn_api_runner.fn_runner
import feedferry.pipelines.job.run.engine, feedferry.pipelines.job.file.flag_job
import feedferry.pipelines.job.file.job_file, feedferry.pipelines.job.history.list_runs
from feedferry.pipelines.cli.main import main

# Everything that changes a file or a connection, or comes just before or after that.
EVENTS = ("open", "os.", "shutil.", "socket.connect", "sqlite3.", "fcntl.")


{prepare}


def audited(name):
    function = getattr(os, name)

    def call(*arguments):
        sys.audit("os." + name, *arguments)
        return function(*arguments)

    return call


def run(words, folder, last, output):
    os.chdir(folder)
    target = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(target, 1)
    os.dup2(target, 2)
    count = 0

    def end(event, arguments):
        nonlocal count
        if event.startswith(EVENTS) and os.getpid() == child:
            count += 1
            if count == last:
                os.kill(child, signal.SIGKILL)

    child = os.getpid()
    for name in ("pwrite", "fsync"):  # the writes of journals, which are no events
        setattr(os, name, audited(name))
    sys.addaudithook(end)
    try:
        code = main(words)
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 99
    sys.stdout.flush()
    with open(output + ".count", "w") as stream:
        print(count, file=stream)
    os._exit(code)


for line in sys.stdin:
    words, folder, last, output = json.loads(line)
    child = os.fork()
    if child == 0:
        run(words, folder, last, output)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""


class ForkedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that has ended: `operations` is how many it had, 0 if it was killed."""

    returncode: int
    output: str
    operations: int


class Forks:
    """Forks runs from a process that has loaded everything."""

    def __init__(self, process: "subprocess.Popen[str]", folder: Path) -> None:
        self._process = process
        self._folder = folder

    def run(self, *words: str, last: int = 0) -> ForkedRun:
        """Run the command in the folder; it is killed at its operation `last` if it has that."""
        output = self._folder / "output.txt"
        count = self._folder / "output.txt.count"
        count.unlink(missing_ok=True)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = json.dumps([words, str(self._folder), last, str(output)])
        self._process.stdin.write(request + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        operations = int(count.read_text()) if count.exists() else 0
        return ForkedRun(returncode=code, output=output.read_text("utf-8"), operations=operations)


@contextmanager
def forks(folder: Path, *, prepare: str = "") -> Iterator[Forks]:
    """Load the command once; its runs have `folder` as their working folder.

    `prepare` is code that is executed when all is loaded.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVER.replace("{prepare}", prepare)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    with process:
        yield Forks(process, folder)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=BOUND_SECONDS) == 0
