"""A worker process that runs one function at a time, and that can be killed at any moment.

A thread cannot be stopped from outside: a slow regular expression, or a loop that neither reads nor
yields, never ends. A process can be killed. One delivery must not stop the others: work that
exceeds its time limit, or meets a defect of feedferry, is set aside.
"""

import os
import pickle
import sqlite3
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import TypeVar

import msgspec

from feedferry.pipelines.observer.logs import LogSettings, configure_logging, log_settings
from feedferry.schemas.errors import FatalError, FeedferryError
from feedferry.transforms.processes import (
    end_at_eof,
    end_group,
    exit_reason,
    leave_signals_to_parent,
    start_child,
)

Result = TypeVar("Result")

_MODULE = "feedferry.pipelines.serve.worker_process"

DEFAULT_LIMIT_SECONDS = 300.0
_BYTES_PER_SECOND = 1_000_000
_EXIT_SECONDS = 10.0
"""Time to end for a process that has closed its channel."""


class SetAsideError(Exception):
    """A delivery cannot be processed, now or later; the message is the reason."""


class WorkerEndedError(FatalError):
    """The process ended while it ran a function: a crash, or the system ran out of memory."""


class WorkStoppedError(Exception):
    """Work was ended because the receiver stops; it has to be done again."""


class WorkerProcess:
    """A process that is started for the first function, and again after it has ended.

    A function for a delivery may take `limit_seconds`, plus a second for each megabyte of it. `run`
    is for one thread at a time; `stop` and `close` are safe from any thread. Functions are
    sent by name, so they are in modules that can be imported; arguments and results are pickled.
    """

    def __init__(self, *, limit_seconds: float = DEFAULT_LIMIT_SECONDS) -> None:
        self._limit_seconds = limit_seconds
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Connection | None = None

    def run(self, function: Callable[..., Result], *arguments: object, size: int) -> Result:
        """Return the result of a function for a delivery of `size` bytes.

        Raises SetAsideError for an exceeded time limit, or a defect; WorkerEndedError if the
        process ends; WorkStoppedError after `stop`. An error of the disk, the database or
        feedferry's own tree is raised as it is: another attempt may succeed.
        """
        try:
            return self.call(function, arguments, size)
        except (SetAsideError, WorkStoppedError, FeedferryError, OSError, sqlite3.Error):
            raise
        except Exception as exc:  # a defect must not stop the other deliveries
            raise SetAsideError(f"Internal Error: {exc!r}") from exc

    def call(
        self, function: Callable[..., Result], arguments: tuple[object, ...], size: int
    ) -> Result:
        """Return the result of a function, or raise its exception; kill it after its time limit."""
        seconds = self._limit_seconds + size / _BYTES_PER_SECOND
        with self._lock:
            if self._stopping.is_set():
                raise WorkStoppedError
            channel = self._start()
        try:
            channel.send((function, arguments))
            channel.recv()  # it has imported the function, and begins
            if not channel.poll(seconds):
                self.close()
                raise SetAsideError(
                    f"not finished after {seconds:,.0f} seconds, the limit for {size:,} bytes"
                )
            is_done, result = channel.recv()
        except (EOFError, ConnectionError):
            raise self._ended() from None
        if is_done:
            returned: Result = result
            return returned
        raise result

    def stop(self) -> None:
        """Kill the running function, and start no other."""
        self._stopping.set()
        with self._lock:
            if self._process is not None:
                end_group(self._process)

    def close(self) -> None:
        """Kill the process and wait for it."""
        with self._lock:
            self._reap()

    def _start(self) -> Connection:
        if self._channel is not None:
            return self._channel
        log = msgspec.json.encode(log_settings()).decode()
        self._channel, theirs = Pipe()
        with theirs:
            self._process = start_child(
                _MODULE,
                str(theirs.fileno()),
                log,
                environment=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                pass_fds=(theirs.fileno(),),
            )
        return self._channel

    def _ended(self) -> Exception:
        with self._lock:
            exit_code = self._reap(_EXIT_SECONDS)
        if self._stopping.is_set():
            return WorkStoppedError()
        how = "was ended by" if exit_code < 0 else "ended with"
        return WorkerEndedError(f"its process {how} {exit_reason(exit_code)}")

    def _reap(self, seconds: float = 0.0) -> int:
        """Kill the process if it has not ended after some seconds; return its exit code."""
        process, channel = self._process, self._channel
        self._process = self._channel = None
        if channel is not None:
            channel.close()
        if process is None:
            return 0
        exit_code = end_group(process, grace_seconds=seconds)
        if process.stdin is not None:
            process.stdin.close()
        return exit_code


def main() -> None:
    """Run the functions that arrive on the channel in the first argument, until it is closed.

    The second argument has the settings of the log.
    """
    leave_signals_to_parent()
    end_at_eof()
    configure_logging(msgspec.json.decode(sys.argv[2], type=LogSettings))
    with Connection(int(sys.argv[1])) as channel:
        while True:
            try:
                function, arguments = channel.recv()
            except (EOFError, ConnectionError):
                return
            channel.send(None)
            try:
                channel.send((True, function(*arguments)))
            except Exception as exc:  # raised again in the parent process
                channel.send((False, _sendable(exc)))


def _sendable(exc: Exception) -> Exception:
    """Return the exception with its traceback as a note, or an Exception with its text."""
    exc.add_note("".join(traceback.format_exception(exc)))
    try:
        pickle.loads(pickle.dumps(exc))
    except Exception:  # pickling and unpickling an exception may raise anything
        return RuntimeError(repr(exc))
    return exc


if __name__ == "__main__":
    main()
