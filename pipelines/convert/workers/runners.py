"""Beam runners: the local one by default, with worker processes that always end, or one by name.

Beam's `DirectRunner` would first try to fetch another runner from the network, so local runs use
the in-process FnApiRunner by its class. It starts its workers without the pipeline options, so
that log levels and file systems have no effect in them; `LocalRunner` passes the options on. Its
worker processes are replaced as well: Beam starts them with the working folder first on the module
path, and waits without a limit for a worker that has not connected yet, so that a signal or an
error at that time hangs the run. See docs/decisions/worker-processes.md.

This module uses private attributes of Beam, which is why `pyproject.toml` has a range of tested
versions.
"""

import signal
import threading
from concurrent.futures import wait
from contextlib import suppress
from importlib.util import find_spec
from typing import ClassVar

import grpc  # type: ignore[import-untyped]  # its stubs are a package of their own
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, StandardOptions
from apache_beam.pipeline import Pipeline
from apache_beam.portability import python_urns
from apache_beam.portability.api import beam_provision_api_pb2, endpoints_pb2
from apache_beam.runners.portability.fn_api_runner import fn_runner, worker_handlers
from apache_beam.runners.portability.portable_runner import JobServiceHandle
from apache_beam.runners.runner import PipelineResult, PipelineRunner, create_runner
from google.protobuf import json_format, text_format  # type: ignore[import-untyped]

from feedferry.pipelines.convert.workers.fork_server import (
    ForkedWorker,
    ForkServer,
    end_fork_server,
    find_fork_server,
    uses_processes,
)
from feedferry.pipelines.convert.workers.worker import shorten_sampling
from feedferry.pipelines.observer.signals import in_thread
from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.schemas.errors import ConfigError, FatalError
from feedferry.transforms.processes import exit_reason

_DASK = "apache_beam.runners.dask.dask_runner.DaskRunner"
_DASK_NAME = "daskrunner"
_CLUSTER_FLAGS = {
    "cluster": {
        "DaskRunner": "--dask_client_address",
        "FlinkRunner": "--flink_master",
        "PortableRunner": "--job_endpoint",
        "PrismRunner": "--job_endpoint",
        "SparkRunner": "--spark_master_url",
    },
    "parallelism": {"FlinkRunner": "--parallelism", "PortableRunner": "--parallelism"},
    "workers_per_node": dict.fromkeys(
        ("FlinkRunner", "PortableRunner", "SparkRunner"), "--sdk_worker_parallelism"
    ),
}
"""The flag of each runner for each of our options."""

_EXTRAS = {
    _DASK_NAME: ("distributed", "feedferry[dask]"),
    "dataflowrunner": ("apitools", "apache-beam[gcp]"),
    "interactiverunner": ("IPython", "apache-beam[interactive]"),
}
"""The module that a runner cannot do without, and what to install for it."""

_NAMES = ", ".join(
    ["DaskRunner", *(n for n in StandardOptions.KNOWN_RUNNER_NAMES if not n.startswith("Test"))]
)
_MULTI_PROCESSING = "multi_processing"
_EXIT_SECONDS = 10.0
"""Time for an idle worker to end, and for a pipeline to notice that its workers have ended."""
_POLL_SECONDS = 0.1


def runner_of(options: ConvertOptions) -> PipelineRunner:
    """Return the runner that --runner names.

    Raise ConfigError if there is none of that name, or if it lacks a setting of ours.
    """
    if options.runner is None:
        for name in _CLUSTER_FLAGS:
            if getattr(options, name) is not None:
                raise ConfigError(f"⟦{name}⟧: without a runner; expected ⟦runner NAME⟧ with it")
        return LocalRunner()
    LocalWorker.server = None
    is_dask = options.runner.lower() in ("dask", _DASK_NAME)  # Beam has no short name for it
    name = _DASK if is_dask else options.runner
    _check_extra(name)
    _cluster_flags(_short_name(name), options)  # raises ConfigError
    try:
        runner = create_runner(name)
    except (AttributeError, ImportError, TypeError, ValueError) as exc:
        cause = f" ({exc})" if isinstance(exc, ImportError) else ""  # it may say what to install
        raise _unknown_runner(f"{options.runner!r}{cause}") from exc
    if not isinstance(runner, PipelineRunner):
        raise _unknown_runner(repr(options.runner))
    return runner


def pipeline_options(options: ConvertOptions) -> PipelineOptions:
    """Return the options for Beam: the number of workers, and the words after `--`."""
    flags = ["--default_sdk_harness_log_level=ERROR"]
    if options.runner is not None:
        flags += _cluster_flags(_short_name(options.runner), options)
    flags += options.beam_flags
    if uses_processes(options):
        flags += [
            f"--direct_running_mode={_MULTI_PROCESSING}",
            f"--direct_num_workers={options.jobs}",
        ]
    return _RunOptions(flags)


class _RunOptions(PipelineOptions):
    """Options that keep their views: Beam asks for 150 in a run, and each parses arguments."""

    def view_as(self, cls: type[PipelineOptions]) -> PipelineOptions:
        views: dict[type[PipelineOptions], PipelineOptions]
        views = self.__dict__.setdefault("_views", {})
        if cls not in views:
            views[cls] = super().view_as(cls)
        return views[cls]


class LocalRunner(fn_runner.FnApiRunner):
    """The FnApiRunner, with workers that get the pipeline options and end with the run.

    With worker processes, the pipeline runs in a thread of its own. The main thread only waits, so
    that the exception of a signal is never raised inside Beam, where it could be lost.
    """

    def run_pipeline(self, pipeline: Pipeline, options: PipelineOptions) -> PipelineResult:
        encoded = JobServiceHandle.encode_pipeline_options(options.get_all_options())
        self._provision_info = fn_runner.ExtendedProvisionInfo(
            beam_provision_api_pb2.ProvisionInfo(pipeline_options=encoded)
        )
        shorten_sampling()
        run = super().run_pipeline
        if options.view_as(DirectOptions).direct_running_mode != _MULTI_PROCESSING:
            return run(pipeline, options)
        LocalWorker.deaths.clear()
        LocalWorker.server = find_fork_server()
        result = in_thread(lambda: run(pipeline, options), name="pipeline")
        try:
            return result.result()
        except Exception as exc:  # Beam reports a closed channel when a worker has died
            if LocalWorker.deaths:
                raise _death_error(LocalWorker.deaths[0]) from exc
            raise
        finally:  # also after a signal, which ends the wait
            end_fork_server()
            wait([result], _EXIT_SECONDS)


@worker_handlers.WorkerHandler.register_environment(python_urns.SUBPROCESS_SDK, bytes)
class LocalWorker(worker_handlers.GrpcWorkerHandler):
    """One worker process; `close` ends it in any state."""

    server: ClassVar[ForkServer | None] = None
    """That of the run; without it, the one that the command has."""

    deaths: ClassVar[list[int]] = []
    """Exit codes of workers that ended by themselves before they were closed."""

    def __init__(self, _command: bytes, *args: object) -> None:
        super().__init__(*args)
        self._process: ForkedWorker | None = None
        self._is_closing = threading.Event()
        self._suppress_connection_errors()

    def start_worker(self) -> None:
        environment = {
            "CONTROL_API_SERVICE_DESCRIPTOR": text_format.MessageToString(
                endpoints_pb2.ApiServiceDescriptor(url=self.control_address)
            ),
            "PIPELINE_OPTIONS": json_format.MessageToJson(
                self.provision_info.provision_info.pipeline_options
            ),
            "WORKER_ID": self.worker_id,
        }
        server = find_fork_server() if self.server is None else self.server
        self._process = server.fork(environment)
        threading.Thread(target=self._watch, args=(self._process,), daemon=True).start()

    def close(self) -> None:
        """Let an idle process end, and kill a busy one.

        Beam announces the end of the work only to a worker that has connected. Here it is queued in
        any case, and the process has ended before anything waits for its connections.
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
        if self._process is None:
            return
        try:
            self._process.end.result(seconds)
        except TimeoutError:
            self._process.server.kill()  # Beam closes the other workers next
            self._process.end.result()

    def _watch(self, process: ForkedWorker) -> None:
        """Abort all requests to the process if it ends before it is closed."""
        code = process.end.result()
        if self._is_closing.is_set():
            return
        if not process.server.is_killed:
            self.deaths.append(code)
        self.data_conn._closed = True
        while not self._is_closing.wait(_POLL_SECONDS):
            self.control_conn.abort(RuntimeError(f"a worker process ended with exit code {code}"))

    def _suppress_connection_errors(self) -> None:
        """Let the threads that read from the process end without a traceback when it ends.

        The thread of the control connection is made a daemon: otherwise it would keep the command
        from ending.
        """
        connection, data = self.control_conn, self.data_conn
        read, read_inputs = connection._read, data._read_inputs

        def read_responses() -> None:
            with suppress(grpc.RpcError):
                read()

        def read_data(elements: object) -> None:
            with suppress(grpc.RpcError):
                read_inputs(elements)

        connection._read_thread = threading.Thread(
            name="beam_control_read", target=read_responses, daemon=True
        )
        data._read_inputs = read_data


def _death_error(code: int) -> FatalError:
    fix = "; use fewer --jobs if memory is short" if code == -signal.SIGKILL else ""
    return FatalError(
        f"a worker process ended with {exit_reason(code)}; start again to resume{fix}"
    )


def _short_name(runner: str) -> str:
    name = runner.rpartition(".")[2].lower()
    return name if name.endswith("runner") else f"{name}runner"


def _check_extra(runner: str) -> None:
    """Raise ConfigError for a runner whose packages are not installed."""
    module, extra = _EXTRAS.get(_short_name(runner), (None, ""))
    if module is not None and find_spec(module) is None:
        raise ConfigError(
            f"⟦runner {runner.rpartition('.')[2]}⟧: needs packages that are not installed; install"
            f" them with: pip install '{extra}'"
        )


def _cluster_flags(runner: str, options: ConvertOptions) -> list[str]:
    """Return the flags of a runner for our options; raise ConfigError for one that it lacks."""
    flags = ["--dask_partition_size=1"] if runner == _DASK_NAME else []
    for option, names in _CLUSTER_FLAGS.items():
        value = getattr(options, option)
        if value is None:
            continue
        flag = next((flag for name, flag in names.items() if name.lower() == runner), None)
        if flag is None:
            raise ConfigError(
                f"⟦{option} {value}⟧: not for this runner; expected flags of Beam after --, or one"
                f" of {', '.join(names)}"
            )
        flags.append(f"{flag}={value}")
    return flags


def _unknown_runner(found: str) -> ConfigError:
    return ConfigError(f"--runner: {found}; expected {_NAMES}, or the full name of a class")
