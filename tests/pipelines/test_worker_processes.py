"""Worker processes of `--jobs N` end: with the run, by a signal, and when the command is killed."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec
import pytest

from feedferry.pipelines.convert.workers.worker import WorkerRequest
from feedferry.pipelines.observer.logs import LogSettings
from support.archives import documents, gsa_feed, put
from support.processes import PATIENCE_SECONDS, Marked, marked
from support.runs import OF_ONE_RUN, convert

pytestmark = pytest.mark.slow

INSTANTS = 30
AT_ONCE = 3
WORDS = ("--to", "jsonl", "--span-bytes", "100KB")
IN_TWO = (*WORDS, "--jobs", "2", "--progress", "none")
HARD_OF_HEARING = """\
import time
from feedferry.pipelines.observer.signals import raised
with raised():
    try:
        print("ready", flush=True)
        time.sleep(600)
    finally:
        print("ending", flush=True)
        time.sleep(600)
"""

IDLE_WORKERS = """\
import signal
from feedferry.pipelines.convert.workers.worker import WorkerForker
class IdleWorkers(WorkerForker):
    def _work(self, request):
        signal.pause()
IdleWorkers().serve()
"""
"""A fork server whose workers do nothing."""


@pytest.fixture(scope="module")
def feed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A feed of which two workers have a few seconds of work, in about 30 spans."""
    path = tmp_path_factory.mktemp("feed") / "feed.xml"
    put(path, gsa_feed(*documents(1, 15_000, text="plan " * 20)))
    return path


def digest(folder: Path) -> dict[str, str]:
    """The name and hash of each file of a finished run.

    But for those that name its folder or have times, and those that it was about to remove, which
    the next run removes.
    """
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and path.stem not in OF_ONE_RUN
        and not any(part.endswith(".over") for part in path.parts)
    }


@contextmanager
def converting(feed: Path, folder: Path) -> Iterator[Marked]:
    folder.mkdir()
    with marked(folder, "convert", str(feed), "-o", "out", *IN_TWO) as run:
        yield run


def undisturbed(feed: Path, folder: Path) -> float:
    """Convert without a signal; return how long it took."""
    begun = time.monotonic()
    with converting(feed, folder) as run:
        assert run.process.wait(PATIENCE_SECONDS * 3) == 0, run.stderr()
    return time.monotonic() - begun


def signalled(feed: Path, number: int, *, folder: Path, seconds: float) -> tuple[int, str]:
    """Send one signal at an instant; return the exit code, and what was said on stderr.

    A signal that comes before the command handles it, or after it is done, ends the process.
    """
    sent = signal.SIGINT if number % 2 else signal.SIGTERM
    with converting(feed, folder / str(number)) as run:
        time.sleep(seconds * number / INSTANTS)
        if sent == signal.SIGINT:
            os.killpg(run.process.pid, sent)  # as a terminal does at Ctrl-C
        elif run.process.poll() is None:
            os.kill(run.process.pid, sent)
        code = run.process.wait(PATIENCE_SECONDS)
        assert run.alive() == []
        return code, run.stderr().strip()


def test_a_signal_at_any_instant_ends_a_run_that_can_be_resumed(feed: Path, tmp_path: Path) -> None:
    whole = [tmp_path / f"whole-{number}" for number in range(AT_ONCE)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        seconds = max(pool.map(partial(undisturbed, feed), whole))
        send = partial(signalled, feed, folder=tmp_path, seconds=seconds)
        ended = list(pool.map(send, range(INSTANTS)))

    expected = digest(whole[0] / "out")
    handled = (130, "feedferry: interrupted"), (143, "feedferry: terminated")
    unhandled = (-signal.SIGINT, ""), (-signal.SIGTERM, ""), (0, "")
    assert [end for end in ended if end not in (*handled, *unhandled)] == []
    assert any(end in handled for end in ended)
    for number in range(INSTANTS):
        output = tmp_path / str(number) / "out"
        left = [path for path in (output / ".work").glob("*/") if path.suffix != ".over"]
        if (
            left or not (output / "report.json").exists()
        ):  # else it ended while it removed its files
            assert convert(str(feed), "-o", str(output), *WORDS) == 0
        assert digest(output) == expected


@pytest.mark.parametrize("workers", [1, 2])
def test_no_worker_is_left_when_the_command_is_killed(
    feed: Path, tmp_path: Path, workers: int
) -> None:
    with converting(feed, tmp_path / "run") as run:
        run.wait_for_children(workers)
        run.process.kill()
        run.process.wait()
        run.wait_until_none()


def nothing_converted(_folder: Path) -> None:
    """Do not wait: the workers have not connected yet."""


def first_span_converted(folder: Path) -> None:
    """Wait for the account of a span; the workers have most of the feed to convert then."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not list(folder.glob("out/.work/**/*.0.json")):
        assert time.monotonic() < end, "no span was converted"
        time.sleep(0.01)


@pytest.mark.parametrize(
    "wait",
    [
        nothing_converted,
        pytest.param(first_span_converted, marks=pytest.mark.kind("worker processes")),
    ],
)
def test_a_worker_that_dies_ends_the_run_with_a_message(
    feed: Path, tmp_path: Path, wait: Callable[[Path], None]
) -> None:
    with converting(feed, tmp_path / "run") as run:
        worker = run.wait_for_children(2)[0]
        wait(tmp_path / "run")
        os.kill(worker, signal.SIGKILL)
        code = run.process.wait(PATIENCE_SECONDS)
        message, again = run.stderr().splitlines()
        assert (code, run.alive()) == (4, [])
        assert message == (
            "feedferry: a worker process ended with SIGKILL; start again to resume; use fewer"
            " --jobs if memory is short"
        )
        assert again.startswith("feedferry: start again: feedferry convert ")


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_second_signal_ends_a_process_whose_clean_up_hangs(
    tmp_path: Path, sent: int, code: int
) -> None:
    with marked(tmp_path, code=HARD_OF_HEARING) as run:
        run.process.send_signal(sent)
        assert run.process.stdout is not None
        assert run.process.stdout.readline() == b"ending\n"
        with pytest.raises(subprocess.TimeoutExpired):
            run.process.wait(0.5)
        run.process.send_signal(sent)
        assert run.process.wait(PATIENCE_SECONDS) == code


def test_workers_that_end_at_once_are_each_reported() -> None:
    request = msgspec.json.encode(WorkerRequest(environment={}, log=LogSettings()))
    command = [sys.executable, "-c", IDLE_WORKERS]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write((request + b"\n") * 3)
        server.stdin.flush()
        first, second, _ = [int(server.stdout.readline()) for _ in range(3)]
        os.kill(first, signal.SIGTERM)
        os.kill(second, signal.SIGKILL)
        ended = {server.stdout.readline() for _ in range(2)}
        server.stdin.close()

        assert ended == {b"%d -15\n" % first, b"%d -9\n" % second}
        assert server.wait(PATIENCE_SECONDS) == -signal.SIGKILL
        assert not server.stdout.read()  # the third worker holds it open until it has ended
