"""The ACLs of a job as of an earlier run are those that later runs have replaced."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from feedferry.pipelines.access.run_history import find_history
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.run_record import Phase, RunRecord
from feedferry.transforms.formats import ReadResult
from feedferry.transforms.steps.kept_acls import KEPT_ACLS, forget_sent
from feedferry.transforms.storage.run_folders.run_record import write_run
from support.acl_nights import HOST, Nights, alone, deleted, document, feed, own_acl, rejected

IDS = [f"2026112{day}T020000Z-000{day}" for day in range(1, 7)]


class RunFolders:
    """A job with a folder for each night, from 2026-11-21, at 2 o'clock."""

    def __init__(self, home: Path) -> None:
        self.home, self._nights = home, Nights(home)
        self._count = 0

    def night(self, *items: ReadResult, is_abandoned: bool = False) -> None:
        run = self.home / IDS[self._count]
        self._count += 1
        run.mkdir()
        started = datetime(2026, 11, 20 + self._count, 2, tzinfo=UTC)
        record = RunRecord(
            id=run.name,
            job="j",
            generation=self._count,
            started_at=started,
            ended_at=started + timedelta(hours=1),
            phase=Phase.PUSH if is_abandoned else Phase.DONE,
            is_abandoned=is_abandoned,
        )
        write_run(run, record)
        self._nights.run(*items, work=run, is_remembered=not is_abandoned)
        if is_abandoned:
            (run / "replaced.acls").unlink()  # the folder of its work, which is another one
            forget_sent(run / KEPT_ACLS, self._nights.store, run)

    def users(self, path: str, as_of: str | None = None) -> list[str]:
        """Return the user of each ACL of a URL as of a run, and the number of its run."""
        kept = find_history(str(self.home), as_of).acls_of(HOST + path)
        return [
            f"{item.acl.principals[0].name if item.acl else None} {IDS.index(item.run) + 1}"
            for item in kept
        ]


@pytest.fixture
def job(tmp_path: Path) -> RunFolders:
    made = RunFolders(tmp_path)
    made.night(alone("x", "ann"), alone("gone", "ann"), alone("lost", "ann"))
    made.night(alone("x", "ann"), alone("new", "ann"), deleted("gone"))
    made.night(alone("x", "bob"), alone("new", "bob"))
    made.night(alone("lost", "cid"), is_abandoned=True)
    made.night(alone("x", "cid"), document("new", stated=own_acl("ann")), alone("lost", "dan"))
    made.night(alone("new", "dan"))
    return made


def test_the_acls_as_of_a_run_are_those_that_later_runs_have_replaced(job: RunFolders) -> None:
    by_run = {path: [job.users(path, run) for run in IDS] for path in ("x", "gone", "new", "lost")}
    assert by_run == {
        "x": [["ann 1"], ["ann 1"], ["bob 3"], ["bob 3"], ["cid 5"], ["cid 5"]],
        "gone": [["ann 1"], [], [], [], [], []],
        "new": [[], ["ann 2"], ["bob 3"], ["bob 3"], [], ["dan 6"]],
        "lost": [["ann 1"], ["ann 1"], ["ann 1"], ["None 4"], ["dan 5"], ["dan 5"]],
    }
    assert job.users("x") == ["cid 5"]


@pytest.mark.parametrize(
    ("as_of", "expected"),
    [
        ("2026-11-22", ["ann 1"]),
        ("2026-11-23", ["bob 3"]),
        ("2026-11-23T01:59:00Z", ["ann 1"]),
        ("2026-11-24T20:00:00+01:00", ["bob 3"]),
        ("2027-01-01", ["cid 5"]),
    ],
)
def test_a_time_is_that_of_the_last_run_that_had_begun(
    as_of: str, expected: list[str], job: RunFolders
) -> None:
    assert job.users("x", as_of) == expected


def test_the_folder_of_a_run_states_it(job: RunFolders) -> None:
    history = find_history(str(job.home / IDS[1]), None)
    assert [folder.name for folder in history.folders] == [IDS[1], IDS[0]]


def test_notes_name_unfinished_runs_and_acls_that_were_changed_by_hand(job: RunFolders) -> None:
    push = job.home / IDS[3] / "push" / "index"
    push.mkdir(parents=True)
    receipts = push / "receipts-001.jsonl"
    begin = '{"version": 1, "target": "t", "run": "r"}\n{"step": "begin", "is_done": true}\n'
    receipts.write_text(begin, "utf-8")
    assert not find_history(str(job.home), IDS[4]).notes
    receipts.write_text(f'{begin}{{"step": "narrow who sees documents"}}\n', "utf-8")
    for day in (22, 24):
        (job.home / f"state.acls.backup-202611{day}T120000.000000Z").touch()
    notes = " ".join(find_history(str(job.home), IDS[4]).notes)
    assert notes == f"{IDS[3]} was abandoned: the target may have a part of it"
    notes = " ".join(find_history(str(job.home), IDS[2]).notes)
    assert "state.acls.backup-20261124T120000.000000Z has the ACLs of the job before" in notes


@pytest.mark.parametrize(
    ("as_of", "message"),
    [
        ("20260101T020000Z-0001", f"no run in .*, which has {IDS[0]} to {IDS[5]}; expected one"),
        ("2026-11-20", f"before {IDS[0]}, the oldest run in .*; expected a later time"),
    ],
)
def test_a_run_that_was_removed_is_refused(as_of: str, message: str, job: RunFolders) -> None:
    with pytest.raises(ConfigError, match=message):
        find_history(str(job.home), as_of)


def test_a_state_file_has_the_acls_of_now_only(tmp_path: Path) -> None:
    nights = Nights(tmp_path)
    nights.run(alone("x", "ann"))
    for name in ("state", "state.acls"):
        (tmp_path / "state").touch()
        [kept] = find_history(str(tmp_path / name), None).acls_of(f"{HOST}x")
        assert kept.run == "run-1"
    with pytest.raises(ConfigError, match="not for a state file"):
        find_history(str(tmp_path / "state"), IDS[0])


def test_a_document_that_states_no_acl_has_none_until_it_is_unknown(tmp_path: Path) -> None:
    job, other = RunFolders(tmp_path), feed("other")
    job.night(alone("x", "ann"), document("x", other))
    job.night(document("y", other), rejected("x", at=other))
    job.night(alone("x", "bob", other))
    by_run = [job.users("x", run) for run in IDS[:3]]
    assert by_run == [["ann 1"], ["ann 1", "None 2"], ["ann 1", "bob 3"]]
