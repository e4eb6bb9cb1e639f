"""A worker process returns results, and is killed when a function takes too long."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from feedferry.pipelines.serve.worker_process import (
    SetAsideError,
    WorkerEndedError,
    WorkerProcess,
    WorkStoppedError,
)
from feedferry.schemas.errors import FormatError, RecordError
from support import hostile_work as work
from support.served import wait_until

pytestmark = pytest.mark.slow

Run = Callable[..., object]


@pytest.fixture
def worker() -> Iterator[WorkerProcess]:
    worker = WorkerProcess(limit_seconds=3.0)
    yield worker
    worker.close()


@pytest.fixture
def run(worker: WorkerProcess) -> Run:
    return partial(worker.run, size=262)


def refuse() -> None:
    raise FormatError("no feed")


def refuse_record() -> None:
    raise RecordError("code", "a reason")  # it cannot be unpickled


def is_running(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return status != "Z"


def test_one_process_runs_all_functions(run: Run) -> None:
    assert run(work.add, 1, 2) == 3
    pids = {run(os.getpid) for _ in range(3)}
    assert len(pids) == 1
    assert os.getpid() not in pids
    with pytest.raises(FormatError, match="no feed"):
        run(refuse)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (work.fail, "Internal Error: ZeroDivisionError('division by zero')"),
        (refuse_record, "Internal Error: RuntimeError("),
        (work.loop, "not finished after 3 seconds, the limit for 262 bytes"),
        (work.sleep, "not finished after 3 seconds, the limit for 262 bytes"),
        (work.match_slowly, "not finished after 3 seconds, the limit for 262 bytes"),
    ],
)
def test_a_defect_or_an_exceeded_limit_is_a_reason_to_set_aside(
    run: Run, function: Callable[[], None], reason: str
) -> None:
    with pytest.raises(SetAsideError) as caught:
        run(function)
    assert str(caught.value).startswith(reason)
    assert run(work.add, 1, 2) == 3


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (work.die, "its process was ended by SIGKILL"),
        (work.crash, "its process was ended by SIGSEGV"),
        (work.leave, "its process ended with exit code 7"),
    ],
)
def test_the_end_of_its_process_ends_a_function(
    run: Run, function: Callable[[], None], message: str
) -> None:
    with pytest.raises(WorkerEndedError) as caught:
        run(function)
    assert str(caught.value) == message
    assert run(work.add, 1, 2) == 3


def test_another_thread_can_stop_it() -> None:
    worker = WorkerProcess()  # a limit of time that a busy machine does not reach
    worker.run(os.getpid, size=0)
    timer = threading.Timer(0.3, worker.stop)
    timer.start()
    with pytest.raises(WorkStoppedError):
        worker.run(work.loop, size=0)
    with pytest.raises(WorkStoppedError):
        worker.run(os.getpid, size=0)
    timer.join()
    worker.close()


def test_no_process_is_left_when_it_is_closed(worker: WorkerProcess, run: Run) -> None:
    pid = run(os.getpid)
    worker.close()
    assert isinstance(pid, int)
    assert not is_running(pid)


def test_no_process_is_left_when_its_parent_is_killed() -> None:
    program = (
        "import os; from feedferry.pipelines.serve.worker_process import WorkerProcess;"
        "from support import hostile_work as work; worker = WorkerProcess();"
        "print(worker.run(os.getpid, size=0), flush=True);"
        "worker.run(work.loop, size=0)"
    )
    process = subprocess.Popen(
        (sys.executable, "-c", program),
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    process.kill()
    process.communicate()
    wait_until(lambda: not is_running(pid))


def test_modules_of_the_working_folder_are_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    for name in ("json", "pickle", "socket", "transforms", "multiprocessing"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.chdir(tmp_path)
    assert run(work.add, 1, 2) == 3
