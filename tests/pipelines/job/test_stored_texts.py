"""What a job stores is read without the job: each text names flags, and none has a marker."""

import io
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from feedferry.pipelines.cli.main import main
from feedferry.pipelines.report.run_data import numbered_rejects
from feedferry.schemas.run_record import RunRecord
from feedferry.transforms.storage.run_folders.run_record import read_run, write_run
from support.jobs import TreeJob

MARKERS = ("⟦".encode(), "⟧".encode(), rb"\u27e6", rb"\u27e7")
MORE = "push: {attempts: 1}\n"


def run(*flags: str) -> int:
    return main(["run", "people.yaml", "--progress", "none", *flags])


def test_the_message_of_a_run_names_flags(tmp_path: Path) -> None:
    at = datetime(2026, 11, 22, 2, tzinfo=UTC)
    record = RunRecord(id="a", started_at=at, message="12 rejects; raise ⟦max_rejects⟧")
    assert write_run(tmp_path, record).message == "12 rejects; raise --max-rejects"
    assert read_run(tmp_path) == write_run(tmp_path, record)


@pytest.mark.slow
def test_no_file_of_a_job_has_a_marker(here: Path) -> None:
    """Runs fail, are abandoned and stop; their rejects and notices name settings."""
    job = TreeJob(here, "http://127.0.0.1:9", documents=3, more=MORE)
    job.write("large.txt", "text " * 1_000)
    job.write("closed.txt", "text")
    (job.docs / "closed.txt").chmod(0o600)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("inner.txt", "text")
    (job.docs / "old.zip").write_bytes(archive.getvalue())
    small = ("--set", "source.max_content_bytes=1KiB")

    assert run(*small) == 4
    assert run(*small, "--fresh") == 4
    assert run(*small, "--fresh", "--set", "rejects.max=0") == 3

    abandoned = [record.message for record in job.records() if record.is_abandoned]
    assert abandoned == ["begun anew with --fresh"] * 2
    rejects = [row for run in job.records() for row in numbered_rejects(job.home / run.id)]
    assert ["raise --max-content-bytes" in row.reject.reason for row in rejects] == [True] * 2
    report = (job.home / job.records()[1].id / "report.json").read_text()
    assert ("--open-archives" in report, "--acl posix" in report) == (True, True)
    # the account of an unfinished run keeps them, for the error that names the keys
    paths = [path for path in (here / "runs").rglob("*") if path.is_file()]
    paths = [path for path in paths if ".work" not in path.parts]
    assert [path for path in paths if any(mark in path.read_bytes() for mark in MARKERS)] == []
    assert not any(mark in repr(rejects).encode() for mark in MARKERS)
