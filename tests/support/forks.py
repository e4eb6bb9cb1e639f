"""Runs of the command that begin at once, as they are forked from a process that has loaded it.

A run can be killed at any operation.
"""

import atexit
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from support.runs import ROOT

BOUND_SECONDS = 1500
"""Longer than any run takes: one that takes as long hangs."""

_SERVER = """\
import gc, json, logging, os, signal, sys, time
import apache_beam.runners.portability.fn_api_runner.fn_runner
import feedferry.pipelines.job.run.engine, feedferry.pipelines.job.file.flag_job
import feedferry.pipelines.job.file.job_file, feedferry.pipelines.job.history.list_runs
import feedferry.pipelines.report.pages, feedferry.pipelines.terminal.display
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


def count_operations(last):
    count, child = 0, os.getpid()

    def end(event, arguments):
        nonlocal count
        if event.startswith(EVENTS) and os.getpid() == child:
            count += 1
            if count == last:
                os.kill(child, signal.SIGKILL)

    for name in ("pwrite", "fsync"):  # the writes of journals, which are no events
        setattr(os, name, audited(name))
    sys.addaudithook(end)
    return lambda: count


def begin(folder, environment, streams):
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(folder)
    for number, path in enumerate((os.devnull, *streams)):
        flags = os.O_RDWR | os.O_CREAT | (os.O_APPEND if number else 0)
        os.dup2(os.open(path, flags, 0o600), number)


logging.root.handlers.clear()  # Beam warns while it is imported, which adds one
gc.collect()
gc.freeze()  # a collection in a fork copies the pages of all objects otherwise
for line in sys.stdin:
    words, last, counted, *place = json.loads(line)
    child = os.fork()
    if child == 0:
        begin(*place)
        sys.argv[1:] = words
        if not counted:
            sys.exit(main())
        operations = count_operations(last)
        try:
            code = main()
        except BaseException:
            import traceback

            traceback.print_exc()
            code = 99
        sys.stdout.flush()
        with open(counted, "w") as stream:
            print(operations(), file=stream)
        os._exit(code)
    signal.alarm(BOUND_SECONDS)
    _, status = os.waitpid(child, 0)
    signal.alarm(0)
    print(os.waitstatus_to_exitcode(status), flush=True)
""".replace("BOUND_SECONDS", str(BOUND_SECONDS))


class ForkedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that has ended: `operations` is how many it had, 0 if it was killed."""

    returncode: int
    output: str
    operations: int


class Forks:
    """Forks runs from a process that has loaded everything, one after another."""

    def __init__(self, process: "subprocess.Popen[str]", folder: Path) -> None:
        self._process = process
        self._folder = folder

    def run(self, *words: str, last: int = 0) -> ForkedRun:
        """Run the command in the folder; it is killed at its operation `last` if it has that."""
        output = self._folder / "output.txt"
        count = self._folder / "output.txt.count"
        for path in (output, count):
            path.unlink(missing_ok=True)
        place = str(self._folder), dict(os.environ), [str(output)] * 2
        code = _ask(self._process, words, last, str(count), *place)
        operations = int(count.read_text()) if count.exists() else 0
        return ForkedRun(returncode=code, output=output.read_text("utf-8"), operations=operations)


@contextmanager
def forks(folder: Path, *, prepare: str = "") -> Iterator[Forks]:
    """Load the command once; its runs have `folder` as their working folder.

    `prepare` is code that is executed when all is loaded.
    """
    with _start(prepare) as process:
        yield Forks(process, folder)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=BOUND_SECONDS) == 0


def run(*words: str, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    """Run the command to its end, as a process of its own."""
    with TemporaryDirectory() as folder:
        streams = [Path(folder, name) for name in ("stdout", "stderr")]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        place = str(cwd or Path.cwd()), environment, [str(path) for path in streams]
        code = _ask(_shared(), words, 0, "", *place)
        return subprocess.CompletedProcess(words, code, *(path.read_text() for path in streams))


def _ask(process: "subprocess.Popen[str]", *request: object) -> int:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()
    return int(process.stdout.readline())


def _start(prepare: str = "") -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", _SERVER.replace("{prepare}", prepare)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT)


@cache
def _shared() -> "subprocess.Popen[str]":
    """Return the process that forks the runs of all tests of a worker; it ends with the worker."""
    process = _start()
    atexit.register(process.communicate)
    return process
