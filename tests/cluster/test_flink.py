"""A Flink cluster writes the bytes of one process, whatever is killed.

`./run_local.sh test-cluster` runs these tests; `pytest` alone does not collect them.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from cluster.flink import JOB_SERVICE, FlinkCluster, environment, flink_cluster, kill, wait_until
from feedferry.transforms.storage.run_folders.find_storage import storage_of
from support import remotes
from support.archives import BROKEN, documents, gsa_feed, put
from support.plans import plans
from support.runs import ROOT, convert, keep_levels
from support.seaweed import seaweed

FEEDFERRY = [
    sys.executable,
    "-c",
    "from feedferry.pipelines.cli.main import main; raise SystemExit(main())",
]
PAGE = "plan " * 6_000
PIECES = 16
RUN_SECONDS = 600
STALL_SECONDS = 60
ATTEMPTS = 5
CANCELLED = "CANCELLED: client cancelled"
TO = ("--to", "gsa-feed", "--accept-loss", "acl")
SMALL_SPANS = ("--span-bytes", "4MiB")

Fault = Callable[[FlinkCluster], object]


@pytest.fixture(scope="module", autouse=True)
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with seaweed(tmp_path_factory.mktemp("seaweed")) as endpoint, remotes.s3_at(endpoint):
        yield


@pytest.fixture(scope="module")
def cluster(s3: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlinkCluster]:
    with flink_cluster(tmp_path_factory.mktemp("flink")) as started:
        yield started


@pytest.fixture(params=["local", "s3"])
def output(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder for a run, as a path or as a URI."""
    name = request.node.name.replace("[", "-").strip("]")
    return str(tmp_path / "out") if request.param == "local" else f"s3://{remotes.BUCKET}/{name}"


class Feed(NamedTuple):
    """A file, and the chunks that one process makes of it."""

    path: str
    chunks: list[tuple[object, ...]]


@pytest.fixture(scope="module")
def feed(tmp_path_factory: pytest.TempPathFactory) -> Feed:
    """240 MB, in 58 spans of SMALL_SPANS."""
    folder = tmp_path_factory.mktemp("feed")
    path = put(folder / "a.xml", gsa_feed(*documents(1, 8_000, text=PAGE)))
    return Feed(path, in_process(folder, path, *TO, *SMALL_SPANS))


def in_process(folder: Path, *args: str) -> list[tuple[object, ...]]:
    """Return the chunks that one process writes."""
    with keep_levels():
        assert convert(*args, "-o", str(folder / "out"), "-q") in (0, 1)
    return digests(str(folder / "out"))


def digests(folder: str) -> list[tuple[object, ...]]:
    """Return what the manifest says of each chunk, but for its path."""
    lines = (storage_of(folder).get("manifest.jsonl") or b"").splitlines()
    kept = ("ordinal", "bytes", "sha256", "records", "first_url", "last_url", "source", "line")
    return [tuple(str(chunk.get(name)) for name in kept) for chunk in map(json.loads, lines)]


def start(cluster: FlinkCluster, folder: Path, *args: str) -> subprocess.Popen[str]:
    """Start a conversion on the cluster."""
    command = [*FEEDFERRY, "convert", *args, "-q", *cluster.flags, "--", *cluster.beam_flags]
    return subprocess.Popen(
        command, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip


def run(cluster: FlinkCluster, folder: Path, *args: str) -> tuple[int, str]:
    """Convert on the cluster, and resume if Flink has cancelled the workers of a short job.

    It does so now and then on a loaded machine, while the Python workers start.
    """
    for _ in range(ATTEMPTS):
        process = start(cluster, folder, *args)
        try:
            text, _ = process.communicate(timeout=RUN_SECONDS)
        finally:
            process.kill()
        if CANCELLED not in text:
            break
    return process.returncode, text


@contextmanager
def under_way(
    cluster: FlinkCluster, folder: Path, feed: Feed, output: str, *args: str
) -> Iterator[subprocess.Popen[str]]:
    """Convert on the cluster; the block begins when some of the spans are converted."""
    process = start(cluster, folder, feed.path, "-o", output, *TO, *SMALL_SPANS, *args)
    try:
        wait_until(lambda: process.poll() is not None or accounts(output) > 4, "accounts")
        assert process.poll() is None, process.communicate()
        yield process
    finally:
        process.kill()
        process.communicate(timeout=RUN_SECONDS)


def accounts(folder: str) -> int:
    """How many spans of an unfinished run are converted."""
    return len([name for name in storage_of(folder).sizes(".work") if name.endswith(".0.json")])


def test_the_sample_is_equal(cluster: FlinkCluster, output: str, tmp_path: Path) -> None:
    sample = str(ROOT / "pipelines" / "sample")
    code, text = run(cluster, tmp_path, sample, "-o", output, *TO)

    assert code == 0, text
    assert digests(output) == in_process(tmp_path / "expected", sample, *TO)


def test_the_flink_runner_starts_its_own_job_service(cluster: FlinkCluster, tmp_path: Path) -> None:
    sample = str(ROOT / "pipelines" / "sample")
    runner = ("--runner", "FlinkRunner", "--cluster", f"localhost:{cluster.rest}")
    beam = (f"--flink_job_server_jar={JOB_SERVICE}", *cluster.beam_flags)
    command = [*FEEDFERRY, "convert", sample, "-o", "out", *TO, "-q", *runner, "--", *beam]
    done = subprocess.run(
        command, check=False, cwd=tmp_path, env=environment(), timeout=RUN_SECONDS,
        capture_output=True, text=True,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert digests(str(tmp_path / "out")) == in_process(tmp_path / "expected", sample, *TO)


def test_the_workers_are_checked(cluster: FlinkCluster, output: str, tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    source = f"{{type: gsa-feed, path: {ROOT}/pipelines/sample/01-intranet.xml}}"
    job.write_text(f"version: 1\njob: j\nsource: {source}\ntarget: {{type: avro}}\n")
    words = ["check", str(job), "-o", output, "--format", "json", *cluster.flags]
    for _ in range(ATTEMPTS):
        done = subprocess.run(
            [*FEEDFERRY, *words, "--", *cluster.beam_flags],
            check=False, cwd=tmp_path, env=environment(), timeout=RUN_SECONDS,
            capture_output=True, text=True,
        )  # fmt: skip
        if CANCELLED not in done.stderr:
            break
    report = json.loads(done.stdout)
    assert {check["level"] for check in report["checks"]} == {"ok"}
    assert 2 <= len(report["workers"]) <= 4


def test_a_gigabyte_in_16_pieces_is_equal(
    cluster: FlinkCluster, output: str, tmp_path: Path
) -> None:
    put(tmp_path / "a.xml", gsa_feed(*documents(1, 33_000, text=PAGE)))
    size = (tmp_path / "a.xml").stat().st_size
    assert size > 990_000_000
    words = (str(tmp_path / "a.xml"), *TO, "--span-bytes", str(size // PIECES + 1))
    code, text = run(cluster, tmp_path, *words, "-o", output)

    assert code == 0, text
    chunks = digests(output)
    assert (len(chunks), chunks) == (PIECES, in_process(tmp_path / "expected", *words))


def test_files_with_damage_are_equal(cluster: FlinkCluster, output: str, tmp_path: Path) -> None:
    for number in range(100):
        broken = [BROKEN] if number % 3 == 0 else []
        data = gsa_feed(
            *documents(number * 50, number * 50 + 49), *broken, datasource=f"d{number % 5}"
        )
        put(tmp_path / f"in/{number:03}.xml", data[: len(data) - 400] if number % 10 == 7 else data)
    words = (str(tmp_path / "in"), *TO)
    code, text = run(cluster, tmp_path, *words, "-o", output)

    assert code == 1, text
    assert digests(output) == in_process(tmp_path / "expected", *words)
    assert rejects(output) == rejects(str(tmp_path / "expected/out"))
    assert rejects(output) == {"malformed": 41, "torn-end": 10}


def rejects(folder: str) -> dict[str, int]:
    """Return the rejected records by their codes."""
    report = json.loads(storage_of(folder).get("report.json") or b"")
    return dict(report["account"]["reject_codes"])


def test_a_tree_and_a_database_are_equal(
    cluster: FlinkCluster, output: str, tmp_path: Path
) -> None:
    words = ("--to", "gsa-feed", "--datasource", "plans", "--span-bytes", "200KB")
    for number, source in enumerate(plans(tmp_path, 400)):
        folder = f"{output}{number}"
        code, text = run(cluster, tmp_path, *source, *words, "-o", folder)
        assert code == 0, text
        assert digests(folder) == in_process(tmp_path / f"expected{number}", *source, *words)


def kill_task_manager(cluster: FlinkCluster) -> None:
    kill(cluster.task_managers.pop(0))


def kill_pool(cluster: FlinkCluster) -> None:
    kill(cluster.pool)


def kill_python_worker(cluster: FlinkCluster) -> None:
    os.kill(cluster.python_workers()[0], signal.SIGKILL)


@pytest.mark.parametrize("fault", [kill_task_manager, kill_pool, kill_python_worker])
def test_a_run_is_resumed_after(
    fault: Fault,
    cluster: FlinkCluster,
    output: str,
    feed: Feed,
    tmp_path: Path,
) -> None:
    stall = ("--stall", f"{STALL_SECONDS}s")
    with under_way(cluster, tmp_path, feed, output, *stall) as process:
        fault(cluster)
        text, _ = process.communicate(timeout=RUN_SECONDS)
    assert process.returncode == 4, text
    assert "start again to resume" in text
    wait_until(lambda: cluster.jobs()[0] in ("FAILED", "CANCELED"), "end of the job")
    converted = accounts(output)
    cluster.mend()

    code, text = run(cluster, tmp_path, feed.path, "-o", output, *TO, *SMALL_SPANS)
    assert code == 0, text
    assert digests(output) == feed.chunks
    assert converted > 4


def test_a_killed_driver_leaves_its_job_and_the_next_run_is_equal(
    cluster: FlinkCluster,
    output: str,
    feed: Feed,
    tmp_path: Path,
) -> None:
    with under_way(cluster, tmp_path, feed, output) as process:
        process.kill()
        process.wait()
    assert cluster.jobs()[0] == "RUNNING"
    if "://" in output:
        time.sleep(65)  # until the lease of the killed run has ended

    code, text = run(cluster, tmp_path, feed.path, "-o", output, *TO, *SMALL_SPANS)
    assert code == 0, text
    assert digests(output) == feed.chunks


def test_an_interrupt_ends_the_work_of_the_job(
    cluster: FlinkCluster, output: str, feed: Feed, tmp_path: Path
) -> None:
    with under_way(cluster, tmp_path, feed, output, "--span-bytes", "512KiB") as process:
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=RUN_SECONDS)
    assert process.returncode == 130, text
    wait_until(lambda: cluster.jobs()[0] != "RUNNING", "end of the job")
    assert accounts(output) < 400


def test_flink_repeats_a_job_if_its_configuration_says_so(
    s3: None, feed: Feed, tmp_path: Path
) -> None:
    with flink_cluster(tmp_path, retries=3) as cluster:
        output = str(tmp_path / "out")
        with under_way(cluster, tmp_path, feed, output) as process:
            kill_task_manager(cluster)
            cluster.mend()
            text, _ = process.communicate(timeout=RUN_SECONDS)
        assert process.returncode == 0, text
        assert digests(output) == feed.chunks
