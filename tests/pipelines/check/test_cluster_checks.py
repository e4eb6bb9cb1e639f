"""The workers of a cluster are checked: storage, versions, clocks."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from feedferry.pipelines.check.cluster_checks import ClusterCheck, WorkerCheck, check_process
from feedferry.pipelines.cli.main import main
from feedferry.schemas.check import Level
from feedferry.transforms.storage.run_folders.find_storage import storage_of
from feedferry.transforms.storage.storage import LocalStorage
from support import remotes
from support.dask_cluster import DaskCluster, environment
from support.object_faults import Request, faulty_proxy
from support.ports import kept_port
from support.runs import ROOT

WORKER = WorkerCheck(
    host="a",
    pid=1,
    python="3.11.7",
    packages={"feedferry": "0.1.0", "lxml": "6.1"},
    credentials=["AWS_ACCESS_KEY_ID"],
    clock_seconds=0.04,
    free_bytes=10**9,
    is_first=True,
)


class Replacing(LocalStorage):
    """A storage that ignores the condition of a put."""

    def put_if_absent(self, name: str, data: bytes) -> bool:
        self.put(name, data)
        return True


class Separate(LocalStorage):
    """A storage without the files of other processes."""

    def get(self, name: str) -> bytes | None:
        return None if name == "command" else super().get(name)


def lines(*workers: WorkerCheck) -> list[tuple[Level, str, str, str]]:
    check = ClusterCheck(command=WORKER, workers=list(workers))
    return [(line.level, line.what, line.found, line.cure) for line in check.lines()][1:]


def test_a_storage_whose_second_conditional_put_succeeds_is_refused(tmp_path: Path) -> None:
    (tmp_path / "command").touch()
    assert check_process(LocalStorage(tmp_path)).problem == ""
    assert check_process(Replacing(tmp_path)).problem == (
        f"{tmp_path}: a second conditional put succeeded, so that two attempts at a span would both"
        " count; use storage with conditional puts (If-None-Match)"
    )


def test_a_folder_that_is_not_shared_is_refused(tmp_path: Path) -> None:
    (tmp_path / "command").touch()
    assert check_process(Separate(tmp_path)).problem == (
        f"{tmp_path}: not the folder of the command; use one that all workers share"
    )


def test_a_worker_has_a_line_with_the_names_of_its_credentials() -> None:
    assert lines(WORKER) == [
        (
            Level.OK,
            "a 1",
            "Python 3.11.7, feedferry 0.1.0; AWS_ACCESS_KEY_ID; clock +0.0 s; 953.7 MiB free",
            "",
        ),
        (Level.OK, "storage", "one of 1 workers created the same file", ""),
    ]


@pytest.mark.parametrize(
    ("worker", "level", "cure"),
    [
        (
            replace(WORKER, packages={"feedferry": "0.0.9", "lxml": "6.1"}),
            Level.FAIL,
            "install the Python and the packages of the command",
        ),
        (
            replace(WORKER, python="3.12.1"),
            Level.FAIL,
            "install the Python and the packages of the command",
        ),
        (
            replace(WORKER, packages={"feedferry": "0.1.0", "lxml": "5.0"}),
            Level.WARN,
            "install the versions of the command",
        ),
        (
            replace(WORKER, clock_seconds=-90.0),
            Level.WARN,
            "synchronize the clock; reports have wrong times",
        ),
        (replace(WORKER, problem="s3://a: denied; check"), Level.FAIL, "check"),
    ],
)
def test_a_worker_that_differs_is_reported(worker: WorkerCheck, level: Level, cure: str) -> None:
    assert next((line[0], line[3]) for line in lines(worker)) == (level, cure)


def test_workers_that_create_the_same_file_share_no_folder() -> None:
    other = replace(WORKER, host="b")
    assert lines(WORKER, other)[-1] == (
        Level.FAIL,
        "storage",
        "2 of 2 workers created the same file",
        "use a folder that all workers share, or storage with conditional puts",
    )


def job_file() -> str:
    """Write a job file that reads a sample; return its name."""
    source = f"{{type: gsa-feed, path: {ROOT}/pipelines/sample/01-intranet.xml}}"
    text = f"version: 1\njob: j\nsource: {source}\ntarget: {{type: avro}}\n"
    Path("job.yaml").write_text(text)
    return "job.yaml"


@pytest.mark.slow
def test_this_process_is_checked_and_nothing_is_left(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "open sesame")
    assert main(["check", job_file(), "-o", "out", "--format", "json"]) == 0
    text = capsys.readouterr().out
    report = json.loads(text)
    assert (report["version"], len(report["workers"])) == (1, 1)
    assert "AWS_SECRET_ACCESS_KEY" in report["workers"][0]["credentials"]
    assert "open sesame" not in text
    assert list(Path("out").iterdir()) == []


def _drop_condition(request: Request) -> str:
    del request.headers["If-None-Match"]
    return "pass"


@pytest.mark.slow
def test_object_storage_is_checked_and_refused_without_conditional_puts(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["check", job_file(), "-o", f"s3://{remotes.BUCKET}/run"]
    with remotes.s3_server(), faulty_proxy(os.environ["AWS_ENDPOINT_URL"]) as proxy:
        assert main(words) == 0
        assert "AWS_ACCESS_KEY_ID" in capsys.readouterr().out
        proxy.fault = _drop_condition
        assert main(words) == 4
        assert storage_of(words[-1]).sizes() == {}
    text = " ".join(capsys.readouterr().out.split())
    assert "fail command s3://documents/run/.cluster-check-" in text
    assert "a second conditional put succeeded" in text


@pytest.mark.slow
def test_each_worker_of_a_dask_cluster_is_checked(here: Path, tmp_path: Path) -> None:
    main_of_all = "from feedferry.pipelines.cli.main import main; raise SystemExit(main())"
    words = [
        sys.executable,
        "-c",
        main_of_all,
        "check",
        job_file(),
        "-o",
        "out",
        "--format",
        "json",
    ]
    with kept_port() as port:
        cluster = DaskCluster(port, tmp_path / "log")
        try:
            command = [*words, "--runner", "DaskRunner", "--cluster", cluster.url]
            text = subprocess.check_output(command, cwd=here, env=environment(), timeout=120)
        finally:
            cluster.end()
    workers = json.loads(text)["workers"]
    assert {worker["pid"] for worker in workers} == {process.pid for process in cluster.workers}
    assert [worker["is_first"] for worker in workers].count(True) == 1
