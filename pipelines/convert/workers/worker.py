"""The fork server of a local run: it loads Beam once, and forks the worker processes.

The command starts this module with the settings of its log as JSON, before it loads Beam itself.
It sends a line of JSON for each worker to start. The server reports `PID` when a worker has
started, and `PID CODE` when it has ended.

Standard input is a pipe that the command holds open. When the command ends, even by SIGKILL, the
pipe closes, and the server kills its process group. The command kills the same group when a run
ends early. Each worker also reads from a pipe that the server holds open, and ends if the server
alone was killed. The server has no threads of its own, so that a fork is safe.
"""

import gc
import os
import select
import signal
import sys
import traceback
import warnings
from typing import NoReturn

import msgspec

from feedferry.pipelines.convert.workers.unused_libraries import without_unused_libraries
from feedferry.pipelines.observer.logs import LogSettings, configure_logging
from feedferry.transforms.processes import end_at_eof, leave_signals_to_parent

_STDIN, _STDOUT, _STDERR = 0, 1, 2
_BLOCK_BYTES = 1 << 16
_BLAS_THREADS = "OPENBLAS_NUM_THREADS"
_SAMPLING_MILLISECONDS = 5


class WorkerRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request to start a worker, with its log and additional environment variables."""

    environment: dict[str, str]
    log: LogSettings


def load_numpy() -> None:
    """Load numpy, as Beam does, but without threads for matrices, which would wait actively.

    Programs that are started later find the environment as it was.
    """
    is_set = _BLAS_THREADS in os.environ
    os.environ.setdefault(_BLAS_THREADS, "1")
    import numpy  # noqa: F401 # loaded for Beam

    if not is_set:
        del os.environ[_BLAS_THREADS]


def shorten_sampling() -> None:
    """Let Beam sample the work of a bundle more often: the end of a bundle waits for a sample.

    Its default of 200 ms costs each conversion a tenth of a second on average.
    """
    from apache_beam.runners.worker.statesampler import StateSampler

    StateSampler.__init__.__defaults__ = (_SAMPLING_MILLISECONDS,)


class WorkerForker:
    """Forks workers, and reports those that start and end."""

    def __init__(self) -> None:
        self._workers: set[int] = set()
        self._lifeline, self._held_open = os.pipe()
        self._woken, self._wake = os.pipe()

    def serve(self) -> NoReturn:
        """Answer the requests of the command until it ends; then kill this process group.

        The end of a worker wakes the loop by a pipe. A handler alone would run only after the next
        request if the signal comes just before the loop waits.
        """
        os.set_blocking(self._wake, False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        rest = b""
        while True:
            ready, _, _ = select.select([_STDIN, self._woken], [], [])
            if self._woken in ready:
                os.read(self._woken, _BLOCK_BYTES)
                self._report_ended()
            if _STDIN in ready:
                block = os.read(_STDIN, _BLOCK_BYTES)
                if not block:
                    os.killpg(0, signal.SIGKILL)
                *requests, rest = (rest + block).split(b"\n")
                for request in requests:
                    self._fork(msgspec.json.decode(request, type=WorkerRequest))

    def _fork(self, request: WorkerRequest) -> None:
        with warnings.catch_warnings():
            # Python warns of the threads of NumPy and PyArrow, which both expect forks.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if not pid:
            self._work(request)
        self._workers.add(pid)
        os.write(_STDOUT, b"%d\n" % pid)

    def _work(self, request: WorkerRequest) -> None:
        """Work until the command closes the connection, or the server ends; never return."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for pipe in (self._held_open, self._woken, self._wake):
                os.close(pipe)
            os.dup2(os.open(os.devnull, os.O_RDONLY), _STDIN)
            os.dup2(_STDERR, _STDOUT)
            end_at_eof(self._lifeline)
            os.environ.update(request.environment)
            configure_logging(request.log)
            from apache_beam.runners.worker import sdk_worker_main

            sdk_worker_main.main(sys.argv)
            code = 0
        except Exception:  # the outermost function of the process
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)

    def _report_ended(self) -> None:
        while self._workers:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            self._workers.discard(pid)
            os.write(_STDOUT, b"%d %d\n" % (pid, os.waitstatus_to_exitcode(status)))


def main(log: LogSettings) -> NoReturn:
    """Serve until the command ends."""
    leave_signals_to_parent()
    configure_logging(log)
    gc.disable()
    load_numpy()
    with without_unused_libraries():
        from apache_beam.runners.worker import sdk_worker_main  # noqa: F401 # for the workers

        from feedferry.transforms import stages  # noqa: F401

    shorten_sampling()
    gc.freeze()  # no worker searches the modules for garbage, so that their memory stays shared
    gc.enable()
    WorkerForker().serve()


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=LogSettings))
