"""A Dask cluster writes the same bytes as one process, and is left without work by an interrupt."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.archives import documents, gsa_feed, put
from support.dask_cluster import FEEDFERRY, DaskCluster, environment
from support.ports import kept_port
from support.runs import convert, keep_levels, manifest
from support.served import wait_until, wait_until_settled

pytestmark = pytest.mark.slow

FILES = 8
TO = ("--to", "gsa-feed", "--span-bytes", "100KB")
WAIT_SECONDS = 300


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DaskCluster]:
    with kept_port() as port:
        started = DaskCluster(port, tmp_path / "dask.log")
        try:
            yield started
        finally:
            started.end()


@pytest.fixture(scope="module")
def feeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("feeds")
    for number in range(FILES):
        feed = gsa_feed(*documents(number * 100, number * 100 + 99, text="plan " * 6_000))
        put(folder / f"{number}.xml", feed)
    return folder


@pytest.fixture(scope="module")
def expected(feeds: Path, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[object, object]]:
    """The chunks that one process writes."""
    folder = tmp_path_factory.mktemp("expected") / "out"
    with keep_levels():
        assert convert(str(feeds), "-o", str(folder), *TO) == 0
    return digests(folder)


def digests(folder: Path) -> list[tuple[object, object]]:
    return [(line["path"], line["sha256"]) for line in manifest(folder)]


@contextmanager
def dask(
    feeds: Path, folder: Path, cluster: DaskCluster, *args: str
) -> Iterator[subprocess.Popen[str]]:
    """Convert on a cluster; the block begins when the first spans are converted."""
    runner = ("--runner", "DaskRunner", "--cluster", cluster.url)
    command = [*FEEDFERRY, "convert", str(feeds), "-o", "out", *TO, *runner, "-q", *args]
    process = subprocess.Popen(
        command, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip
    try:
        wait_until(lambda: accounts(folder) >= 5 or process.poll() is not None)
        yield process
    finally:
        process.kill()
        process.wait(WAIT_SECONDS)


def accounts(folder: Path) -> int:
    """How many spans of an unfinished run are converted."""
    return len(list((folder / "out").glob(".work/*/*.0.json")))


@pytest.mark.kind("cluster")
def test_a_killed_worker_costs_no_byte(
    feeds: Path, expected: list[tuple[object, object]], cluster: DaskCluster, tmp_path: Path
) -> None:
    with dask(feeds, tmp_path, cluster) as run:
        cluster.workers[0].kill()
        output, _ = run.communicate(timeout=WAIT_SECONDS)
    assert run.returncode == 0, output
    assert digests(tmp_path / "out") == expected


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_work_on_the_cluster_and_the_run_is_resumed(
    number: int,
    feeds: Path,
    expected: list[tuple[object, object]],
    cluster: DaskCluster,
    tmp_path: Path,
) -> None:
    with dask(feeds, tmp_path, cluster) as run:
        run.send_signal(number)
        run.communicate(timeout=WAIT_SECONDS)
    assert run.returncode == 128 + number
    assert wait_until_settled(lambda: accounts(tmp_path)) < len(expected)
    with dask(feeds, tmp_path, cluster) as again:
        output, _ = again.communicate(timeout=WAIT_SECONDS)
    assert again.returncode == 0, output
    assert digests(tmp_path / "out") == expected


def test_workers_that_make_no_progress_are_reported(
    feeds: Path, cluster: DaskCluster, tmp_path: Path
) -> None:
    with dask(feeds, tmp_path, cluster, "--stall", "3s") as run:
        for worker in cluster.workers:
            worker.send_signal(signal.SIGSTOP)
        output, _ = run.communicate(timeout=WAIT_SECONDS)
    assert run.returncode == 4
    assert "feedferry: no progress for 3s, so the job is cancelled: a worker may have" in output


def test_a_scheduler_that_ends_is_no_defect_of_feedferry(
    feeds: Path, cluster: DaskCluster, tmp_path: Path
) -> None:
    with dask(feeds, tmp_path, cluster) as run:
        cluster.scheduler.kill()
        output, _ = run.communicate(timeout=WAIT_SECONDS)
    assert run.returncode == 4
    assert "feedferry: --runner DaskRunner: " in output
    assert "start again to resume" in output
