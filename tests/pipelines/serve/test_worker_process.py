"""A worker process does what it is told, and is ended when that takes too long."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipelines.serve.worker_process import (
    FunctionError,
    KillableWorker,
    TimeLimitError,
    WorkerEndedError,
)
from schemas.errors import FormatError, RecordError
from support import hostile_work as work
from support.served import wait_until

pytestmark = pytest.mark.slow

PLENTY = 60.0
SHORT = 0.3


@pytest.fixture
def worker() -> Iterator[KillableWorker]:
    worker = KillableWorker()
    yield worker
    worker.close()


def refuse() -> None:
    raise FormatError("feed.xml: no element at all")


def refuse_record() -> None:
    raise RecordError("no-url", "no url")


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_result_of_the_function_is_returned(worker: KillableWorker) -> None:
    assert worker.run(work.add, 1, 2, seconds=PLENTY) == 3


def test_one_process_runs_all_functions(worker: KillableWorker) -> None:
    first = worker.run(os.getpid, seconds=PLENTY)
    assert worker.run(os.getpid, seconds=PLENTY) == first
    assert first != os.getpid()


def test_exception_of_the_function_is_raised(worker: KillableWorker) -> None:
    with pytest.raises(FormatError, match="no element at all"):
        worker.run(refuse, seconds=PLENTY)


def test_exception_that_cannot_be_sent_is_replaced(worker: KillableWorker) -> None:
    with pytest.raises(FunctionError, match="RecordError"):
        worker.run(refuse_record, seconds=PLENTY)


@pytest.mark.parametrize("function", [work.loop, work.sleep, work.match_slowly])
def test_a_function_that_takes_too_long_is_ended(
    worker: KillableWorker, function: Callable[[], None]
) -> None:
    worker.run(os.getpid, seconds=PLENTY)
    with pytest.raises(TimeLimitError) as caught:
        worker.run(function, seconds=SHORT)
    assert caught.value.seconds == SHORT
    assert worker.run(work.add, 1, 2, seconds=PLENTY) == 3


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (work.die, "its process was ended by SIGKILL"),
        (work.crash, "its process was ended by SIGSEGV"),
        (work.leave, "its process ended with exit code 7"),
    ],
)
def test_end_of_the_process_is_reported(
    worker: KillableWorker, function: Callable[[], None], message: str
) -> None:
    with pytest.raises(WorkerEndedError) as caught:
        worker.run(function, seconds=PLENTY)
    assert str(caught.value) == message
    assert worker.run(work.add, 1, 2, seconds=PLENTY) == 3


def test_another_thread_can_end_it(worker: KillableWorker) -> None:
    worker.run(os.getpid, seconds=PLENTY)
    timer = threading.Timer(SHORT, worker.kill)
    timer.start()
    with pytest.raises(WorkerEndedError, match="SIGKILL"):
        worker.run(work.loop, seconds=PLENTY)
    timer.join()


def test_no_process_is_left_when_it_is_closed(worker: KillableWorker) -> None:
    pid = worker.run(os.getpid, seconds=PLENTY)
    worker.close()
    assert not is_running(pid)


def test_no_process_is_left_when_the_one_that_started_it_is_killed() -> None:
    program = (
        "import os, sys, threading; from pipelines.serve.worker_process import KillableWorker;"
        "from support import hostile_work as work; worker = KillableWorker();"
        "print(worker.run(os.getpid, seconds=60), flush=True);"
        "worker.run(work.loop, seconds=60)"
    )
    path = os.pathsep.join(filter(None, sys.path))
    process = subprocess.Popen(
        (sys.executable, "-c", program),
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    process.kill()
    process.communicate()
    wait_until(lambda: not is_running(pid))


def test_modules_of_the_working_folder_are_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, worker: KillableWorker
) -> None:
    for name in ("json", "pickle", "socket", "transforms", "multiprocessing"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.chdir(tmp_path)
    assert worker.run(work.add, 1, 2, seconds=PLENTY) == 3
