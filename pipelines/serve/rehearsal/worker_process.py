"""A process that runs functions for this one, and that can be ended at any moment.

A thread cannot be stopped from outside: a slow regular expression, or a loop that neither reads nor
yields, would go on for ever. A process can. The time limit is an alarm of the operating system in
the worker process, so it holds whatever the function does, and also when this process is gone.
"""

import os
import pickle
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Protocol, TypeVar

Result = TypeVar("Result")

_COMMAND = "from pipelines.serve.rehearsal.worker_process import main; main()"


class TimeLimitError(Exception):
    """A function ran longer than its time limit, and its process was ended."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds

    def __str__(self) -> str:
        return f"not finished after {self.seconds:,.0f} seconds"


class WorkerEndedError(Exception):
    """The process ended while it ran a function: a crash, or the system had no memory left."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code

    def __str__(self) -> str:
        if self.exit_code < 0:
            return f"its process was ended by {_signal_name(-self.exit_code)}"
        return f"its process ended with exit code {self.exit_code}"


class FunctionError(Exception):
    """Stands for an exception of the function that cannot be sent to another process."""


class Runner(Protocol):
    """Runs functions; `Worker` says how."""

    def run(self, function: Callable[..., Result], *arguments: object, seconds: float) -> Result:
        """Return what the function returns, or raise what it raises."""

    def kill(self) -> None:
        """Have `run` end soon."""

    def close(self) -> None:
        """Let go of everything, when `run` has ended."""


class Worker:
    """A process that is started for the first function, and again after it has ended.

    `run` is for one thread at a time; `kill` may be called from any thread. Functions are sent by
    their names, so they stand in modules that can be imported; arguments and results are pickled.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Connection | None = None

    def run(self, function: Callable[..., Result], *arguments: object, seconds: float) -> Result:
        """Return what the function returns, or raise what it raises.

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
        """End the process, whatever it does; a function that runs raises WorkerEndedError."""
        with self._lock:
            if self._process is not None:
                self._process.kill()

    def close(self) -> None:
        """End the process and wait for it."""
        self.kill()
        with self._lock:
            self._reap()

    def _start(self) -> Connection:
        if self._channel is not None:
            return self._channel
        ours, theirs = Pipe()
        with theirs:
            # Its standard input ends when this process does, however that ends.
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
        """Let go of a process that has ended, or is about to; return its exit code."""
        process, channel = self._process, self._channel
        self._process = self._channel = None
        if channel is not None:
            channel.close()
        if process is None:
            return 0
        if process.stdin is not None:
            process.stdin.close()
        return process.wait()


def main() -> None:
    """Run what comes over the channel that is the first argument, until that is closed."""
    for number in (signal.SIGINT, signal.SIGTERM):  # they are for the process that started this one
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
    except Exception as exc:  # whatever it is, the other process is to know of it
        return False, _sendable(exc)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _sendable(exc: Exception) -> Exception:
    """Return the exception with its traceback as a note, or one that stands for it."""
    exc.add_note("".join(traceback.format_exception(exc)))
    try:
        pickle.loads(pickle.dumps(exc))
    except Exception:  # an exception may fail in any way when it is pickled or made again
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
