"""The same archive makes the same bytes, whatever runs it, and in however many processes."""

import gzip
import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import grpc  # type: ignore[import-untyped]  # its stubs are a package of their own
import pytest

from support.archives import ACL, BROKEN, DELETED, document, documents, gsa_feed, put
from support.plans import plans
from support.ports import kept_port
from support.runs import OF_ONE_RUN, ROOT, chunks, convert, keep_levels, manifest
from support.served import wait_until, wait_until_settled

pytestmark = pytest.mark.slow

PAGE = "plan " * 6_000
PROTECTED = [document(number, text=PAGE, inside=ACL) for number in range(40, 50)]
SPANS = ("--span-bytes", "100KB")
"""A size that splits the archive into about ten spans."""
TO_GSA_FEED = ("--to", "gsa-feed", "--accept-holes", *SPANS)
TO_THUNDERSTONE = ("--to", "thunderstone", "--accept-loss", "acl", *SPANS)

ENVIRONMENT = {
    **os.environ,
    "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    "PYTHONPATH": str(ROOT),
    "NO_PROXY": "localhost",
}
"""A worker pool starts the first `python` of PATH, not the one that runs it."""
FEEDFERRY = [
    sys.executable,
    "-c",
    "from feedferry.pipelines.cli.main import main; raise SystemExit(main())",
]
START_SECONDS = 300
RUN_SECONDS = 300


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A full feed whose first span leaves nothing, and a compressed one of another datasource."""
    folder = tmp_path_factory.mktemp("archive")
    broken = documents(1, 8, text="fish & chips " * 3_000)
    good = documents(9, 39, text=PAGE)
    put(folder / "1.xml", gsa_feed(*broken, *good, BROKEN, *PROTECTED, DELETED, feedtype="full"))
    put(folder / "2.xml.gz", gzip.compress(gsa_feed(*documents(50, 60), datasource="wiki")))
    return folder


@pytest.fixture(scope="module")
def expected(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of one process."""
    folder = tmp_path_factory.mktemp("expected")
    with keep_levels():
        convert(str(archive), "-o", str(folder / "gsa-feed"), *TO_GSA_FEED)
        convert(str(archive), "-o", str(folder / "thunderstone"), *TO_THUNDERSTONE)
    return folder


@pytest.fixture(scope="module")
def flags(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The Beam flags for a job service and a worker pool that run during the module."""
    folder = tmp_path_factory.mktemp("services")
    with ExitStack() as stack:
        job_port, pool_port = (stack.enter_context(kept_port()) for _ in range(2))
        jobs = ["portability.local_job_service_main", f"--port={job_port}", "--staging_dir=staged"]
        pool = ["worker.worker_pool_main", f"--service_port={pool_port}"]
        stack.enter_context(service(*jobs, folder=folder / "jobs", port=job_port))
        stack.enter_context(service(*pool, folder=folder / "pool", port=pool_port))
        yield [
            f"--job_endpoint=localhost:{job_port}",
            "--environment_type=EXTERNAL",
            f"--environment_config=localhost:{pool_port}",
            "--experiments=disable_logging_submission_environment",
        ]


@contextmanager
def service(module: str, *args: str, folder: Path, port: int) -> Iterator[None]:
    """Run a module of Beam's runners, in a folder of its own, until the block ends."""
    folder.mkdir()
    command = [sys.executable, "-m", f"apache_beam.runners.{module}", *args]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=ENVIRONMENT, stdout=log, stderr=log, start_new_session=True
        )
    try:
        wait_for(port)
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # the workers of the pool are of its group
        process.wait(timeout=START_SECONDS)


def wait_for(port: int) -> None:
    with grpc.insecure_channel(f"localhost:{port}") as channel:
        grpc.channel_ready_future(channel).result(timeout=START_SECONDS)


def portable(folder: Path, *args: str, flags: list[str]) -> subprocess.CompletedProcess[str]:
    """Convert on a PortableRunner; a run that hangs is killed, and nothing else is."""
    command = [*FEEDFERRY, "convert", *args, "--runner", "PortableRunner", "-q", "--", *flags]
    return subprocess.run(
        command,
        check=False,
        cwd=folder,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=RUN_SECONDS,
    )


def digest(folder: Path) -> dict[str, str]:
    """The name and hash of all that a run left.

    But for those that name their own folder or have times.
    """
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.stem not in OF_ONE_RUN
    }


def test_the_archive_is_cut_in_many_spans(expected: Path) -> None:
    spans = {(line["source"], line["span"]) for line in manifest(expected / "gsa-feed")}

    assert len(spans) > 5


@pytest.mark.parametrize(
    ("name", "args"), [("gsa-feed", TO_GSA_FEED), ("thunderstone", TO_THUNDERSTONE)]
)
def test_two_processes_write_the_same_bytes_as_one(
    name: str, args: tuple[str, ...], archive: Path, expected: Path, here: Path
) -> None:
    convert(str(archive), "-o", "out", *args, "--jobs", "2")

    assert digest(here / "out") == digest(expected / name)


def test_a_worker_pool_writes_the_same_bytes_as_one_process(
    archive: Path, expected: Path, flags: list[str], tmp_path: Path
) -> None:
    run = portable(tmp_path, str(archive), "-o", "out", *TO_GSA_FEED, flags=flags)

    assert run.returncode == 1, run.stdout
    assert digest(tmp_path / "out") == digest(expected / "gsa-feed")


def test_a_worker_pool_in_another_folder_finds_the_inputs(flags: list[str], tmp_path: Path) -> None:
    put(tmp_path / "a.xml", gsa_feed(*documents(1, 2)))
    run = portable(tmp_path, "a.xml", "-o", "out", "--to", "jsonl", flags=flags)

    assert run.returncode == 0, run.stdout


def test_a_worker_pool_reports_the_error_that_stopped_a_run(
    flags: list[str], tmp_path: Path
) -> None:
    source = put(tmp_path / "a.xml", gsa_feed(PROTECTED[0]))
    run = portable(tmp_path, source, "-o", "out", "--to", "thunderstone", flags=flags)

    assert run.returncode == 3, run.stdout


def test_a_worker_pool_is_left_without_work_by_an_interrupt(
    flags: list[str], tmp_path: Path
) -> None:
    feed = gsa_feed(*documents(1, 900, text=PAGE))
    put(tmp_path / "a.xml", feed)
    words = ("a.xml", "-o", "out", "--to", "jsonl", *SPANS, "--runner", "PortableRunner", "-q")
    command = [*FEEDFERRY, "convert", *words, "--", *flags]
    with subprocess.Popen(command, cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.DEVNULL) as run:
        wait_until(lambda: accounts(tmp_path) > 0 or run.poll() is not None)
        run.send_signal(signal.SIGTERM)
        assert run.wait(RUN_SECONDS) == 143
    assert wait_until_settled(lambda: accounts(tmp_path)) < len(feed) // 100_000


def accounts(folder: Path) -> int:
    """How many spans of an unfinished run are converted."""
    return len(list((folder / "out").glob(".work/*/*.0.json")))


def test_a_tree_and_a_database_are_read_the_same_by_a_pool_of_workers(
    flags: list[str], tmp_path: Path
) -> None:
    words = ("--to", "gsa-feed", "--datasource", "plans", "--span-bytes", "50KB", "-o")
    tree, rows_of = ((*source, *words) for source in plans(tmp_path, 40))
    codes = [convert(*tree, str(tmp_path / "1")), convert(*rows_of, str(tmp_path / "2"))]
    runs = [
        portable(tmp_path, *tree, "3", flags=flags),
        portable(tmp_path, *rows_of, "4", flags=flags),
    ]

    assert [*codes, *(run.returncode for run in runs)] == [0, 0, 0, 0], runs
    assert digest(tmp_path / "3") == digest(tmp_path / "1")
    assert digest(tmp_path / "4") == digest(tmp_path / "2")
    assert len(chunks(tmp_path / "3")) == len(chunks(tmp_path / "4")) > 3
