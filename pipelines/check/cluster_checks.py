"""Check a cluster: each worker uses the output folder as a run does, and describes itself."""

import os
import platform
import re
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version
from uuid import uuid4

import apache_beam as beam
import msgspec

from feedferry.pipelines.convert.workers.beam_job import run_to_file
from feedferry.pipelines.convert.workers.runners import pipeline_options, runner_of
from feedferry.pipelines.options.convert_options import ConvertOptions
from feedferry.schemas.check import CheckLine, Level, fail, ok, warn
from feedferry.schemas.errors import FatalError
from feedferry.schemas.units import format_size
from feedferry.transforms.storage.run_folders.find_storage import storage_of
from feedferry.transforms.storage.storage import Storage, is_object

_FEEDFERRY = "feedferry"
_SAME = (_FEEDFERRY, "apache-beam")
"""Packages whose versions are the same on all workers."""

_CREDENTIALS = ("AWS_", "AZURE_", "GOOGLE_")
_COMMAND, _FIRST = "command", "first"
_LEAST_ELEMENTS = 32
_ELEMENTS_PER_SPAN = 8
_ELEMENT_SECONDS = 0.1
"""Elements take some time, so that a worker does not take those of the others."""

_CLOCK_SECONDS = 5.0
_one_thread = threading.Lock()


class WorkerCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A worker process, and the faults of its storage.

    `credentials` are names of variables. `clock_seconds` is how far its clock is ahead of that of
    the storage. `is_first` is whether it created the file that only one worker can create.
    """

    host: str
    pid: int
    python: str
    packages: dict[str, str]
    credentials: list[str]
    clock_seconds: float | None
    free_bytes: int
    is_first: bool
    problem: str = ""


class ClusterCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The command and all workers that have answered."""

    command: WorkerCheck
    workers: list[WorkerCheck]

    def lines(self) -> Iterator[CheckLine]:
        """Yield a line for each process, and one for the storage that they share."""
        yield _line_of("command", self.command, self.command)
        for worker in self.workers:
            yield _line_of(f"{worker.host} {worker.pid}", worker, self.command)
        if self.command.problem:
            return
        firsts = sum(worker.is_first for worker in self.workers)
        if firsts == 1:
            yield ok("storage", f"one of {len(self.workers)} workers created the same file")
        else:
            yield fail(
                "storage",
                f"{firsts} of {len(self.workers)} workers created the same file",
                "use a folder that all workers share, or storage with conditional puts",
            )


def check_cluster(options: ConvertOptions) -> ClusterCheck:
    """Check the output folder from here, and then from all workers of --runner."""
    runner, flags = runner_of(options), pipeline_options(options)  # raise ConfigError
    given = options.output
    output = storage_of(given if is_object(given) else os.path.abspath(given))
    output.make("")
    name = f".cluster-check-{uuid4().hex}"
    folder = output.locate(name)
    storage = storage_of(folder)
    storage.make("")
    try:
        storage.put_if_absent(_COMMAND, b"")
        command = check_process(storage)
        if command.problem:
            return ClusterCheck(command=command, workers=[])
        storage.remove(_FIRST)
        pipeline = beam.Pipeline(runner=runner, options=flags)
        count = max(_LEAST_ELEMENTS, _ELEMENTS_PER_SPAN * (options.parallelism or 0))
        found = (
            pipeline
            | beam.Create([b"%d" % number for number in range(count)], reshuffle=False)
            | beam.Reshuffle()
            | beam.Map(_check_worker, folder).with_output_types(bytes)
            | beam.combiners.ToList().without_defaults()
            | beam.Map(_joined).with_output_types(bytes)
        )
        text = run_to_file(pipeline, found, folder, options=options, progress=storage.sizes)
    finally:
        output.remove(name)
    checks = msgspec.json.decode(text, type=list[WorkerCheck])
    workers = {(check.host, check.pid): check for check in checks}
    return ClusterCheck(command=command, workers=[workers[key] for key in sorted(workers)])


def check_process(storage: Storage) -> WorkerCheck:
    """Describe this process, and use the storage of the check."""
    problem, clock, is_first = "", None, False
    try:
        problem, clock = _use(storage)
        is_first = not problem and storage.put_if_absent(_FIRST, uuid4().hex.encode())
    except FatalError as exc:
        problem = exc.text
    return WorkerCheck(
        host=socket.gethostname(),
        pid=os.getpid(),
        python=platform.python_version(),
        packages=_packages(),
        credentials=sorted(name for name in os.environ if name.startswith(_CREDENTIALS)),
        clock_seconds=clock,
        free_bytes=shutil.disk_usage(tempfile.gettempdir()).free,
        is_first=is_first,
        problem=problem,
    )


def _use(storage: Storage) -> tuple[str, float | None]:
    """Write, read and create files; return what is wrong, and how far the clock is ahead."""
    name = uuid4().hex
    where = storage.locate("")
    if storage.get(_COMMAND) is None:
        return f"{where}: not the folder of the command; use one that all workers share", None
    begin = time.time()
    storage.put(name, name.encode())
    clock = (begin + time.time()) / 2 - storage.written_at(name)
    if storage.get(name) != name.encode():
        return f"{where}: a file is read with other bytes; use storage that keeps them", clock
    is_created = storage.put_if_absent(f"{name}.0", b"1")
    if not is_created or storage.put_if_absent(f"{name}.0", b"2"):
        return (
            f"{where}: a second conditional put succeeded, so that two attempts at a span would"
            " both count; use storage with conditional puts (If-None-Match)",
            clock,
        )
    return "", clock


def _check_worker(_: bytes, folder: str) -> bytes:
    time.sleep(_ELEMENT_SECONDS)
    with _one_thread:
        return _check_once(folder, os.getpid())


@cache
def _check_once(folder: str, process: int) -> bytes:
    return msgspec.json.encode(check_process(storage_of(folder)))


def _joined(checks: Sequence[bytes]) -> bytes:
    return b"[" + b",".join(checks) + b"]"


def _packages() -> dict[str, str]:
    """Return the versions of feedferry and of its requirements, without the extras."""
    try:
        required = [text for text in requires(_FEEDFERRY) or () if "extra ==" not in text]
    except PackageNotFoundError:
        return {}
    names = re.findall(r"^[\w.-]+", "\n".join([_FEEDFERRY, *required]), re.MULTILINE)
    return {name: _version(name) for name in names}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"


def _line_of(what: str, check: WorkerCheck, command: WorkerCheck) -> CheckLine:
    if check.problem:
        found, _, cure = check.problem.partition("; ")
        return fail(what, found, cure)
    others = {
        name: number
        for name, number in check.packages.items()
        if number != command.packages.get(name)
    }
    clock = check.clock_seconds or 0.0
    words = [
        f"Python {check.python}, {_FEEDFERRY} {check.packages.get(_FEEDFERRY, 'missing')}",
        *(f"{name} {number}" for name, number in others.items()),
        ", ".join(check.credentials) or "no credentials in the environment",
        f"clock {round(clock, 1) + 0.0:+} s",
        f"{format_size(check.free_bytes)} free",
    ]
    found = "; ".join(words)
    if check.python.rpartition(".")[0] != command.python.rpartition(".")[0] or any(
        name in others for name in _SAME
    ):
        return fail(what, found, "install the Python and the packages of the command")
    if others:
        return warn(what, found, "install the versions of the command")
    if abs(clock) > _CLOCK_SECONDS:
        return warn(what, found, "synchronize the clock; reports have wrong times")
    return CheckLine(Level.OK, what, found)
