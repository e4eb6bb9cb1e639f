"""Beam's in-process runner, with worker processes that always end.

The bare `DirectRunner` would first try to fetch another runner from the network. The in-process
one starts its workers without the pipeline's options, so that log levels and file systems have no
effect in them; `LocalRunner` hands them over. Beam's own worker processes are replaced as well:
Beam starts them with the working folder first on the module path, and it waits without a limit for
a worker that has not connected yet, so that a signal or an error at that time hangs the run. See
docs/decisions/worker-processes.md.

All of this uses attributes that Beam keeps private, which is why `pyproject.toml` pins its version.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import ClassVar

import grpc  # type: ignore[import-untyped]  # its stubs are a package of their own
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions
from apache_beam.pipeline import Pipeline
from apache_beam.portability import python_urns
from apache_beam.portability.api import beam_provision_api_pb2, endpoints_pb2
from apache_beam.runners.portability.fn_api_runner import fn_runner, worker_handlers
from apache_beam.runners.portability.portable_runner import JobServiceHandle
from apache_beam.runners.runner import PipelineResult
from google.protobuf import json_format, text_format  # type: ignore[import-untyped]

from schemas.errors import FatalError

_MULTI_PROCESSING = "multi_processing"
_EXIT_SECONDS = 10.0
"""How long a worker may take to end by itself, and a pipeline to notice that its workers did."""
_POLL_SECONDS = 0.1


class LocalRunner(fn_runner.FnApiRunner):
    """The FnApiRunner, whose workers know the options and end with the run.

    With worker processes, the pipeline runs in a thread of its own. The main thread only waits, so
    that the exception of a signal is never raised inside Beam, where it could be lost.
    """

    def __init__(self, *, verbosity: int = 0) -> None:
        super().__init__()
        self._verbosity = verbosity

    def run_pipeline(self, pipeline: Pipeline, options: PipelineOptions) -> PipelineResult:
        encoded = JobServiceHandle.encode_pipeline_options(options.get_all_options())
        self._provision_info = fn_runner.ExtendedProvisionInfo(
            beam_provision_api_pb2.ProvisionInfo(pipeline_options=encoded)
        )
        run = super().run_pipeline
        if options.view_as(DirectOptions).direct_running_mode != _MULTI_PROCESSING:
            return run(pipeline, options)
        WorkerProcess.verbosity = self._verbosity
        WorkerProcess.deaths.clear()
        return _run_in_thread(lambda: run(pipeline, options))


@worker_handlers.WorkerHandler.register_environment(python_urns.SUBPROCESS_SDK, bytes)
class WorkerProcess(worker_handlers.GrpcWorkerHandler):
    """One worker process; `close` ends it in whatever state it is."""

    running: ClassVar[set["subprocess.Popen[bytes]"]] = set()
    deaths: ClassVar[list[int]] = []
    """Exit codes of workers that ended although they were still needed."""
    verbosity: ClassVar[int] = 0

    def __init__(self, _command: bytes, *args: object) -> None:
        super().__init__(*args)
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closing = threading.Event()
        self._read_quietly()

    def start_worker(self) -> None:
        """Start the process, without a shell and without the working folder on its module path."""
        command = [sys.executable, "-P", "-m", "pipelines.convert.worker", str(self.verbosity)]
        environment = {
            **os.environ,
            "CONTROL_API_SERVICE_DESCRIPTOR": text_format.MessageToString(
                endpoints_pb2.ApiServiceDescriptor(url=self.control_address)
            ),
            "PIPELINE_OPTIONS": json_format.MessageToJson(
                self.provision_info.provision_info.pipeline_options
            ),
            "WORKER_ID": self.worker_id,
        }
        # A worker that starts would show where a Ctrl-C came; it unblocks SIGINT when it is ready.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self.running.add(self._process)
        threading.Thread(target=self._watch, args=(self._process,), daemon=True).start()

    def close(self) -> None:
        """End the process: by itself if it is idle, by SIGKILL if it is not.

        Beam sends the end of the work only to a worker that has connected; here it is queued in any
        case, and nothing is waited for that depends on the worker before the worker has ended.
        """
        self._is_closing.set()
        is_idle = not self.control_conn._futures_by_id
        self.control_conn.push(worker_handlers.BeamFnControlServicer._DONE_MARKER)
        if is_idle:
            self.data_conn.close()
        self.data_conn._closed = True
        self._end(_EXIT_SECONDS if is_idle else 0)
        self.control_conn.close()

    def stop_worker(self) -> None:
        """Do nothing: `close` has ended the process."""

    def _end(self, seconds: float) -> None:
        process = self._process
        if process is None:
            return
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self.running.discard(process)
        if process.stdin is not None:
            process.stdin.close()

    def _watch(self, process: "subprocess.Popen[bytes]") -> None:
        """Tell those that wait for an answer of the process if it ends too early."""
        code = process.wait()
        if self._is_closing.is_set():
            return
        self.deaths.append(code)
        self.data_conn._closed = True
        while not self._is_closing.wait(_POLL_SECONDS):
            self.control_conn.abort(RuntimeError(f"a worker process ended with exit code {code}"))

    def _read_quietly(self) -> None:
        """Let the threads that read from the process end without a traceback when it ends.

        Beam's thread of the control connection is no daemon, and would keep the command from
        ending.
        """
        connection, data = self.control_conn, self.data_conn
        read, read_inputs = connection._read, data._read_inputs

        def read_answers() -> None:
            with suppress(grpc.RpcError):
                read()

        def read_data(elements: object) -> None:
            with suppress(grpc.RpcError):
                read_inputs(elements)

        connection._read_thread = threading.Thread(
            name="beam_control_read", target=read_answers, daemon=True
        )
        data._read_inputs = read_data


def _run_in_thread(run: Callable[[], PipelineResult]) -> PipelineResult:
    """Return what `run` returns, or raise what it raises; end the workers if a signal ends this."""
    outcome: Future[PipelineResult] = Future()
    thread = threading.Thread(target=_settle, args=(outcome, run), name="pipeline", daemon=True)
    thread.start()
    try:
        return outcome.result()
    finally:
        _end_workers(thread)


def _settle(outcome: "Future[PipelineResult]", run: Callable[[], PipelineResult]) -> None:
    try:
        outcome.set_result(run())
    except Exception as exc:  # it is raised again where the outcome is waited for
        outcome.set_exception(_cause(exc))


def _cause(exc: Exception) -> Exception:
    """Beam says that a channel was closed where a worker has died."""
    if not WorkerProcess.deaths:
        return exc
    code = WorkerProcess.deaths[0]
    found = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
    cure = "; use fewer --jobs if memory is short" if code == -signal.SIGKILL else ""
    fatal = FatalError(
        f"worker process: ended with {found}; expected it to work to the end of the run; start"
        f" again to resume{cure}"
    )
    fatal.__cause__ = exc
    return fatal


def _end_workers(thread: threading.Thread) -> None:
    """Wait for the thread of the pipeline; while it is not over, kill what it has started."""
    end = time.monotonic() + _EXIT_SECONDS
    while thread.is_alive() and time.monotonic() < end:
        for process in tuple(WorkerProcess.running):
            process.kill()
        thread.join(_POLL_SECONDS)
