"""The fork server of a local run: it loads Beam once, and forks the worker processes.

The command starts it as `python -P -m feedferry.pipelines.convert.worker LOG`, with the settings
of its log as JSON, before it loads Beam itself. It sends a line of JSON for each worker to start,
and for each worker to kill, with its process id. The server reports `PID` when a worker has
started, and `PID CODE` when it has ended.

Standard input is a pipe that the command holds open. When the command ends, even by SIGKILL, the
pipe closes and the server ends. Workers end when the server does: each reads from a pipe that the
server holds open. The server has no threads of its own, so that a fork is safe.
"""

import gc
import os
import signal
import sys
import threading
import traceback
import warnings
from types import FrameType

import msgspec

from feedferry.pipelines.observer.logs import LogSettings, configure_logging

_STDIN, _STDOUT, _STDERR = 0, 1, 2
_ORPHAN_EXIT = 1
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
    """Forks and kills workers, and reports those that start and end."""

    def __init__(self) -> None:
        self._workers: set[int] = set()
        self._lifeline, self._held_open = os.pipe()

    def serve(self) -> None:
        """Answer the requests of the command, until it ends."""
        signal.signal(signal.SIGCHLD, self._report_ended)
        for line in sys.stdin.buffer:
            request = msgspec.json.decode(line, type=WorkerRequest | int)
            # Meanwhile no worker is reaped, so that its process id is not used again.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
            if isinstance(request, WorkerRequest):
                self._fork(request)
            elif request in self._workers:
                os.kill(request, signal.SIGKILL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})

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
        code = _ORPHAN_EXIT
        try:
            os.close(self._held_open)
            os.dup2(os.open(os.devnull, os.O_RDONLY), _STDIN)
            os.dup2(_STDERR, _STDOUT)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
            threading.Thread(target=self._end_with_the_server, name="parent", daemon=True).start()
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

    def _end_with_the_server(self) -> None:
        os.read(self._lifeline, 1)
        os._exit(_ORPHAN_EXIT)

    def _report_ended(self, number: int, frame: FrameType | None) -> None:
        while self._workers:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:  # this handler has interrupted itself after waitpid
                return
            if not pid:
                return
            self._workers.discard(pid)
            os.write(_STDOUT, b"%d %d\n" % (pid, os.waitstatus_to_exitcode(status)))


def main(log: LogSettings) -> None:
    """Serve until the command ends; leave a Ctrl-C of the terminal to the command."""
    # A function, because programs that a worker starts would inherit SIG_IGN.
    signal.signal(signal.SIGINT, lambda number, frame: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    configure_logging(log)
    gc.disable()
    load_numpy()
    from apache_beam.runners.worker import sdk_worker_main  # noqa: F401 # loaded for the workers

    from feedferry.transforms import stages  # noqa: F401

    shorten_sampling()
    gc.freeze()  # no worker searches the modules for garbage, so that their memory stays shared
    gc.enable()
    WorkerForker().serve()
    os._exit(_ORPHAN_EXIT)


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=LogSettings))
