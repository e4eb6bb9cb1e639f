"""The fork server as the command sees it: it is started early, and has the worker processes.

This module does not import Beam, so that the server and the command load it at the same time.
"""

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import IO, NamedTuple

import msgspec

from feedferry.pipelines.convert.workers.worker import WorkerRequest, load_numpy
from feedferry.pipelines.observer.logs import log_settings
from feedferry.pipelines.observer.signals import uninterrupted
from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.transforms.processes import end_group, start_child
from feedferry.transforms.sources import find_source

_EXIT_SECONDS = 10.0
_WORKER = "feedferry.pipelines.convert.workers.worker"


class ForkedWorker(NamedTuple):
    """One worker process of a server, and its exit code when it has ended."""

    server: "ForkServer"
    end: Future[int]


class ForkServer:
    """A process that has loaded Beam and forks worker processes; see `worker.py`."""

    def __init__(self) -> None:
        log = msgspec.json.encode(msgspec.structs.replace(log_settings(), files=())).decode()
        pipe = subprocess.PIPE
        self._process = start_child(_WORKER, log, stdout=pipe, stderr=pipe)
        self.is_killed = False
        self._ends: dict[int, Future[int]] = {}
        self._started = SimpleQueue[int]()
        stdin, stdout, stderr = self._process.stdin, self._process.stdout, self._process.stderr
        if stdin is None or stdout is None or stderr is None:
            raise TypeError("a process with pipes")
        self._requests = stdin
        self._relay = threading.Thread(target=_print_lines, args=(stderr,), daemon=True)
        reports = threading.Thread(target=self._read_reports, args=(stdout,), daemon=True)
        for thread in (self._relay, reports):
            thread.start()

    def fork(self, environment: dict[str, str]) -> ForkedWorker:
        """Start a worker with additional environment variables.

        If the server has ended, so has the worker, with the same exit code.
        """
        request = WorkerRequest(environment=environment, log=log_settings())
        with suppress(OSError, ValueError):  # the server has ended, which it reports otherwise
            self._requests.write(msgspec.json.encode(request) + b"\n")
            self._requests.flush()
        pid = self._started.get()
        if not pid:
            self._started.put(pid)
        return ForkedWorker(self, self._ends[pid])

    def kill(self) -> None:
        """Kill the server and all workers, also one that is being forked, and wait for them.

        All of them hold stderr open until they have ended.
        """
        self.is_killed = True
        end_group(self._process)
        self._relay.join(_EXIT_SECONDS)
        with suppress(OSError):
            self._requests.close()

    def _read_reports(self, stdout: IO[bytes]) -> None:
        with stdout:
            for line in stdout:
                pid, _, code = line.partition(b" ")
                if code:
                    self._ends[int(pid)].set_result(int(code))
                else:
                    self._ends[int(pid)] = Future()
                    self._started.put(int(pid))
        self._ends[0] = Future()
        exit_code = self._process.wait()
        for end in self._ends.values():
            if not end.done():
                end.set_result(exit_code)
        self._started.put(0)


def _print_lines(stderr: IO[bytes]) -> None:
    """Print what workers write to stderr, above a display of progress."""
    with stderr:
        for line in stderr:
            sys.stderr.write(line.decode("utf-8", "backslashreplace"))


_servers: list[ForkServer] = []


def uses_processes(options: ConvertOptions) -> bool:
    """Whether a conversion has worker processes."""
    source = find_source(options.from_format)
    return options.jobs > 1 and not (source is not None and source.reads_in_threads)


@contextmanager
def early_fork_server(options: ConvertOptions) -> Iterator[None]:
    """Start the fork server of a conversion that will need one, before Beam is loaded with numpy.

    A server that still runs at the end of the block is killed.
    """
    try:
        if uses_processes(options) and options.runner is None:
            find_fork_server()
        load_numpy()
        yield
    finally:
        end_fork_server()


@uninterrupted
def find_fork_server() -> ForkServer:
    """Return the server, which may have ended; start it if there is none."""
    if not _servers:
        _servers.append(ForkServer())
    return _servers[-1]


@uninterrupted
def end_fork_server() -> None:
    """Kill the server; the next pipeline starts one of its own."""
    while _servers:
        _servers.pop().kill()
