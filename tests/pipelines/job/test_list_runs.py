"""Runs are listed, shown and removed, whatever state they are in."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

import feedferry
from feedferry.pipelines.cli.main import main
from feedferry.pipelines.job.file.job import Retention
from feedferry.pipelines.job.history.retention import runs_to_remove
from feedferry.schemas.errors import StoppedError
from feedferry.schemas.run_record import Phase, Replay, RunRecord
from feedferry.transforms.storage.files.lock import Lock
from feedferry.transforms.storage.run_folders.run_record import write_run
from support.archives import BROKEN, document, gsa_feed

NIGHT = datetime(2026, 11, 20, 2, tzinfo=UTC)
HOME = Path("runs/people")


def record(day: int, phase: Phase = Phase.DONE, *, is_abandoned: bool = False) -> RunRecord:
    """Return the run of a night, which took five minutes."""
    at = NIGHT + timedelta(days=day)
    return RunRecord(
        id=f"{at:%Y%m%dT%H%M%SZ}-00aa",
        job="people",
        generation=day + 1,
        started_at=at,
        ended_at=at + timedelta(minutes=5),
        phase=phase,
        exit_code=0 if phase is Phase.DONE else 4,
        message=None if phase is Phase.DONE else "connection refused",
        is_abandoned=is_abandoned,
    )


NIGHTS = [record(0), record(1, Phase.PUSH, is_abandoned=True), record(2), record(3, Phase.PUSH)]


@pytest.fixture
def runs(here: Path) -> None:
    for run in NIGHTS:
        (HOME / run.id).mkdir(parents=True)
        write_run(HOME / run.id, run)
    account = {"read": {"ADD": 5000}, "written": {"ADD": 4999}, "rejected": {"ADD": 1}}
    report = {
        **{"version": 1, "account": account, "folder": "f", "chunks": 1, "chunk_bytes": 9},
        **{"exit_code": 1, "settings": {}, "sources": ["a.xml"]},
    }
    (HOME / NIGHTS[3].id / "report.json").write_text(json.dumps(report))


def removed(keep: Retention) -> list[int | None]:
    """Return the generations of the runs that go on the fifth night."""
    now = NIGHT + timedelta(days=4)
    return [run.generation for run in runs_to_remove(NIGHTS, keep, now)]


def test_runs_beyond_the_retention_go_but_not_the_newest_nor_an_unfinished_one() -> None:
    assert removed(Retention()) == []
    assert removed(Retention(runs=2)) == [1]
    assert removed(Retention(runs=1)) == [1, 2]
    assert removed(Retention(seconds=3 * 86400)) == [1]
    assert removed(Retention(seconds=1)) == [1, 2]
    assert removed(Retention(runs=3, seconds=2.5 * 86400)) == [1, 2]


def test_a_replay_is_no_run_to_be_counted_and_goes_with_its_run() -> None:
    replays = [
        replace(record(day), replay=Replay(run=of.id, generation=1, export="a"))
        for day, of in ((4, NIGHTS[0]), (5, NIGHTS[2]))
    ]
    gone = runs_to_remove([*NIGHTS, *replays], Retention(runs=1), NIGHT)
    assert [run.generation for run in gone] == [1, 2, 5]


@pytest.mark.usefixtures("runs")
def test_runs_are_listed_from_the_newest_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "list"]) == 0
    assert capsys.readouterr().out == (
        "runs/people/\n"
        "run                    gen  took  phase      exit   read  written  rejects  pushed\n"
        "20261123T020000Z-00aa    4  5:00  push          4  5,000    4,999        1       -\n"
        "20261122T020000Z-00aa    3  5:00  done          0      -        -        -       -\n"
        "20261121T020000Z-00aa    2  5:00  abandoned     4      -        -        -       -\n"
        "20261120T020000Z-00aa    1  5:00  done          0      -        -        -       -\n"
    )


@pytest.mark.usefixtures("runs")
def test_a_replay_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    replay = replace(record(4), replay=Replay(run=NIGHTS[2].id, generation=3, export="a"))
    (HOME / replay.id).mkdir()
    write_run(HOME / replay.id, replay)
    assert main(["runs", "list"]) == 0
    _, _, newest, before, *_ = capsys.readouterr().out.splitlines()
    assert newest == (
        "20261124T020000Z-00aa    5  5:00  done, replay     0      -        -        -       -"
    )
    assert before.split()[3] == "push"
    assert main(["runs", "show", str(HOME / replay.id)]) == 0
    assert f"replay    of {NIGHTS[2].id}\n" in capsys.readouterr().out


@pytest.mark.usefixtures("runs")
def test_runs_are_listed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "list", "people", "--format", "json"]) == 0
    newest = json.loads(capsys.readouterr().out)["runs"][0]
    assert (newest["id"], newest["phase"], newest["rejected"]) == (NIGHTS[3].id, "push", 1)


def test_a_run_that_stopped_at_a_limit_shows_its_account(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "feed.xml").write_bytes(gsa_feed(document(1), BROKEN))
    with pytest.raises(StoppedError):
        feedferry.convert("feed.xml", "out", to_format="gsa-feed", max_rejects="1%")
    capsys.readouterr()
    assert main(["runs", "show", "out", "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["read"], shown["written"], shown["rejected"]) == (2, 1, 1)


@pytest.mark.usefixtures("runs")
def test_the_newest_run_of_a_job_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "show", "people"]) == 0
    text = capsys.readouterr().out
    assert text.startswith(
        "run       runs/people/20261123T020000Z-00aa\n"
        "job       people, generation 4\n"
        "begun     2026-11-23 02:00:00 UTC, attempts 1\n"
        "ended     2026-11-23 02:05:00 UTC\n"
        "phase     push\n"
    )
    assert "reason    connection refused\n" in text
    assert "5,000       4,999           1" in text


@pytest.mark.usefixtures("runs")
def test_old_runs_are_removed_on_request_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "clean", "people", "--keep", "1", "-n"]) == 0
    assert capsys.readouterr().out == (
        f"would remove  {HOME}/20261120T020000Z-00aa\nwould remove  {HOME}/20261121T020000Z-00aa\n"
    )
    push = HOME / NIGHTS[1].id / "push" / "gsa"
    push.mkdir(parents=True)
    with Lock(push / "lock", where="gsa", by="push"):  # as a push of this run has it
        assert main(["runs", "clean", "people", "--keep", "1"]) == 0
    assert (HOME / NIGHTS[1].id).exists()
    assert main(["runs", "clean", "people", "--keep", "1"]) == 0
    assert sorted(path.name for path in HOME.iterdir()) == [
        *("20261122T020000Z-00aa", "20261123T020000Z-00aa", "lock")
    ]
    assert main(["runs", "clean", "people"]) == 2
