"""A worker process that runs one function at a time, and that can be killed at any moment.

A thread cannot be stopped from outside: a slow regular expression, or a loop that neither reads nor
yields, never ends. A process can be killed. The time limit is an alarm of the operating system in
the worker process, so it depends neither on the function nor on this process.
"""

import os
import pickle
import signal
import sqlite3
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Protocol, TypeVar

import msgspec

from pipelines.serve.set_aside import SetAsideError
from schemas.errors import FeedferryError

Result = TypeVar("Result")

_COMMAND = "from pipelines.serve.worker_process import main; main()"


class TimeLimit(msgspec.Struct, frozen=True, kw_only=True):
    """The time limit of one feed: `seconds`, plus the time for its bytes at a minimum speed."""

    seconds: float = 300.0
    bytes_per_second: int = 1_000_000

    def of(self, size: int) -> float:
        """Return the limit for a feed of `size` bytes."""
        return self.seconds + size / self.bytes_per_second


DEFAULT_LIMIT = TimeLimit()


class TimeLimitError(Exception):
    """A function exceeded its time limit, and its process was killed."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds

    def __str__(self) -> str:
        return f"not finished after {self.seconds:,.0f} seconds"


class WorkerEndedError(Exception):
    """The process ended while it ran a function: a crash, or the system ran out of memory."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code

    def __str__(self) -> str:
        if self.exit_code < 0:
            return f"its process was ended by {_signal_name(-self.exit_code)}"
        return f"its process ended with exit code {self.exit_code}"


class WorkStoppedError(Exception):
    """Work was ended because the receiver stops; it has to be done again."""


class FunctionError(Exception):
    """Replaces an exception of the function that cannot be sent to another process."""


class Runner(Protocol):
    """Runs functions, as `KillableWorker` does."""

    def run(self, function: Callable[..., Result], *arguments: object, seconds: float) -> Result:
        """Return the result of a function, or raise its exception."""

    def kill(self) -> None:
        """Make a running function end soon."""

    def close(self) -> None:
        """Release all resources, when no function runs."""


class KillableWorker:
    """A process that is started for the first function, and again after it has ended.

    `run` is for one thread at a time; `kill` may be called from any thread. Functions are sent by
    name, so they are in modules that can be imported; arguments and results are pickled.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Connection | None = None

    def run(self, function: Callable[..., Result], *arguments: object, seconds: float) -> Result:
        """Return the result of a function, or raise its exception.

        Raises TimeLimitError or WorkerEndedError, OSError if no process can be started.
        """
        with self._lock:
            channel = self._start()
        try:
            channel.send((function, arguments, seconds))
            is_done, result = channel.recv()
        except (EOFError, OSError):
            raise self._end(seconds) from None
        if not is_done:
            raise result
        returned: Result = result
        return returned

    def kill(self) -> None:
        """Kill the process at once; a function that runs raises WorkerEndedError."""
        with self._lock:
            if self._process is not None:
                self._process.kill()

    def close(self) -> None:
        """Kill the process and wait for it."""
        self.kill()
        with self._lock:
            self._reap()

    def _start(self) -> Connection:
        if self._channel is not None:
            return self._channel
        ours, theirs = Pipe()
        with theirs:
            # Its standard input closes when this process ends, however that happens.
            self._process = subprocess.Popen(
                (sys.executable, "-P", "-c", _COMMAND, str(theirs.fileno())),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                pass_fds=(theirs.fileno(),),
            )
        self._channel = ours
        return ours

    def _end(self, seconds: float) -> Exception:
        with self._lock:
            exit_code = self._reap()
        if exit_code == -signal.SIGALRM:
            return TimeLimitError(seconds)
        return WorkerEndedError(exit_code)

    def _reap(self) -> int:
        """Wait for a process that has ended, or is about to; return its exit code."""
        process, channel = self._process, self._channel
        self._process = self._channel = None
        if channel is not None:
            channel.close()
        if process is None:
            return 0
        if process.stdin is not None:
            process.stdin.close()
        return process.wait()


class GuardedWorker:
    """Does the work for one delivery at a time; a delivery that cannot be processed is set aside.

    `stop` and `close` are safe from any thread.
    """

    def __init__(self, *, limit: TimeLimit = DEFAULT_LIMIT, runner: Runner | None = None) -> None:
        self._limit = limit
        self._runner = runner or KillableWorker()
        self._stopping = threading.Event()

    def run(self, function: Callable[..., Result], *arguments: object, size: int) -> Result:
        """Return the result of a function for a delivery of `size` bytes.

        Raises SetAsideError for an exceeded time limit and for a defect, WorkerEndedError where
        the process ended, WorkStoppedError after `stop`. An error of the disk, the database or
        feedferry's own tree is raised as it is: another attempt may succeed.
        """
        if self._stopping.is_set():
            raise WorkStoppedError
        try:
            return self._runner.run(function, *arguments, seconds=self._limit.of(size))
        except TimeLimitError as exc:
            raise SetAsideError(f"{exc}, the limit for {size:,} bytes") from exc
        except WorkerEndedError as exc:
            if self._stopping.is_set():
                raise WorkStoppedError from exc
            raise
        except (SetAsideError, FeedferryError, OSError, sqlite3.Error):
            raise
        except Exception as exc:  # a defect must not stop the other deliveries
            raise SetAsideError(f"Internal Error: {exc!r}") from exc

    def stop(self) -> None:
        """End the running function, and start no other."""
        self._stopping.set()
        self._runner.kill()

    def close(self) -> None:
        """End the worker process, when no function runs."""
        self._runner.close()


def main() -> None:
    """Run the functions that arrive on the channel in the first argument, until it is closed."""
    for number in (signal.SIGINT, signal.SIGTERM):  # these are for the parent process to handle
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with Connection(int(sys.argv[1])) as channel:
        while True:
            try:
                function, arguments, seconds = channel.recv()
            except EOFError:
                return
            channel.send(_run(function, arguments, seconds))


def _run(
    function: Callable[..., object], arguments: tuple[object, ...], seconds: float
) -> tuple[bool, object]:
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return True, function(*arguments)
    except Exception as exc:  # raised again in the parent process
        return False, _sendable(exc)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _sendable(exc: Exception) -> Exception:
    """Return the exception with its traceback as a note, or a FunctionError with its text."""
    exc.add_note("".join(traceback.format_exception(exc)))
    try:
        pickle.loads(pickle.dumps(exc))
    except Exception:  # pickling and unpickling an exception may raise anything
        return FunctionError(repr(exc))
    return exc


def _end_with_parent() -> None:
    os.read(0, 1)
    os._exit(1)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
