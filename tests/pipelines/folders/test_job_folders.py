"""A run is found by its folder, and the newest one by its job."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from feedferry.pipelines.folders.job_folders import (
    abandon,
    find_home,
    find_run,
    new_run_id,
    runs_of,
)
from feedferry.schemas.errors import ConfigError, FatalError
from feedferry.schemas.run_record import Phase, Replay, RunRecord
from feedferry.transforms.storage.run_folders.run_record import read_run, write_run

NIGHT = datetime(2026, 11, 22, 2, tzinfo=UTC)
FIRST, SECOND = "20261121T020000Z-00ab", "20261122T020000Z-00aa"


def make_runs(home: Path) -> None:
    for name in (SECOND, FIRST):
        (home / name).mkdir(parents=True)
        write_run(home / name, RunRecord(id=name, job=home.name, started_at=NIGHT))


def test_names_of_runs_sort_by_their_time() -> None:
    assert new_run_id(NIGHT).startswith("20261122T020000Z-")
    assert len(new_run_id(NIGHT)) == len(SECOND)


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    record = RunRecord(id=FIRST, job="people", generation=3, started_at=NIGHT, phase=Phase.PUSH)
    write_run(tmp_path, record)
    assert read_run(tmp_path) == record


def test_an_abandoned_run_keeps_the_phase_in_which_it_ended(tmp_path: Path) -> None:
    abandon(tmp_path, RunRecord(id=FIRST, started_at=NIGHT, phase=Phase.PUSH), "--fresh")
    record = read_run(tmp_path)
    assert record is not None
    assert (record.phase, record.is_over, record.message) == (Phase.PUSH, True, "--fresh")


def test_a_damaged_record_is_not_taken_for_a_folder_without_one(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"id": "2026')
    with pytest.raises(FatalError, match="expected the record of a run: restore it"):
        read_run(tmp_path)


def test_runs_of_a_job_are_its_folders_with_a_record(tmp_path: Path) -> None:
    make_runs(tmp_path)
    (tmp_path / "20261123T020000Z-00ff").mkdir()
    (tmp_path / "notes-of-mine").mkdir()
    assert [record.id for record in runs_of(tmp_path)] == [FIRST, SECOND]


def test_the_newest_run_that_is_no_replay_is_found_by_job_file_folder_or_name(here: Path) -> None:
    make_runs(Path("runs/people"))
    Path("nightly.yaml").write_text("version: 1\njob: people\nsource: {type: database}\n")
    replay = Replay(run=SECOND, generation=2, export="fixed")
    later = datetime(2026, 11, 30, tzinfo=UTC)
    name = "20261130T020000Z-0003"
    Path("runs/people", name).mkdir()
    record = RunRecord(id=name, job="people", started_at=later, replay=replay)
    write_run(Path("runs/people", name), record)
    texts = ("nightly.yaml", "runs/people", "people", f"runs/people/{SECOND}")
    assert {str(find_run(text)) for text in texts} == {f"runs/people/{SECOND}"}


def test_a_job_file_may_name_another_folder_of_runs(here: Path) -> None:
    Path("nightly.yaml").write_text("job: people\nruns: var\n")
    assert find_home("nightly.yaml") == Path("var/people")


def test_the_output_of_a_conversion_is_the_folder_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "manifest.jsonl").touch()
    assert find_run(str(tmp_path)) == tmp_path


def test_an_unknown_job_is_refused_with_the_known_ones(here: Path) -> None:
    make_runs(Path("runs/people"))
    with pytest.raises(ConfigError, match=r"'peple': no such job; expected a job file, .*: runs/"):
        find_run("peple")


def test_runs_are_in_the_order_of_their_generations_when_the_clock_was_set_back(
    tmp_path: Path,
) -> None:
    for generation, name in ((1, SECOND), (2, FIRST)):
        (tmp_path / name).mkdir()
        at = datetime(2026, 11, 22 - generation, tzinfo=UTC)
        record = RunRecord(id=name, job="people", generation=generation, started_at=at)
        write_run(tmp_path / name, record)
    assert [record.id for record in runs_of(tmp_path)] == [SECOND, FIRST]


def test_a_copy_of_the_folder_of_a_run_is_no_run(tmp_path: Path) -> None:
    make_runs(tmp_path)
    shutil.copytree(tmp_path / FIRST, tmp_path / "20261121T020000Z-copy")
    shutil.copytree(tmp_path / FIRST, tmp_path / "20261121T020000Z-0001")
    assert [record.id for record in runs_of(tmp_path)] == [FIRST, SECOND]
