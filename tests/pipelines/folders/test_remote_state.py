"""The state of a source in object storage, and the ACLs that are kept next to it."""

from pathlib import Path

import pytest

from feedferry.pipelines.folders.remote_state import RemoteState
from feedferry.schemas.errors import FatalError
from feedferry.transforms.steps.kept_acls import KeptAcl, read_kept, replace_kept
from feedferry.transforms.storage.state import StateHead, open_state, update_state
from feedferry.transforms.storage.storage import LocalStorage

ACLS = [[KeptAcl(url=f"http://x/{number}", alone=True)] for number in range(4)]


def run(folder: Path, number: int) -> RemoteState:
    """Download the state, and update it and its ACLs."""
    (folder / "bucket").mkdir(exist_ok=True)
    place = folder / f"run-{number}"
    place.mkdir()
    remote = RemoteState(LocalStorage(folder / "bucket"), place / "state.db")
    with open_state(remote.path) as state:
        before = state.head.generation
    update_state(remote.path, [], before=before, stamp=StateHead(source="s"))
    replace_kept(place / "state.db.acls", ACLS[number])
    return remote


def test_a_run_gets_the_acls_of_the_run_before_it(tmp_path: Path) -> None:
    for number in range(3):
        run(tmp_path, number).save()
    assert sorted(path.name for path in (tmp_path / "bucket").iterdir()) == [
        "000000002.acls",
        "000000002.db",
        "000000003.acls",
        "000000003.db",
    ]
    (tmp_path / "later").mkdir()
    remote = RemoteState(LocalStorage(tmp_path / "bucket"), tmp_path / "later" / "state.db")
    assert [*read_kept(tmp_path / "later" / "state.db.acls")] == ACLS[2]
    assert remote.path.exists()


def test_of_two_runs_of_one_state_the_second_is_refused(tmp_path: Path) -> None:
    first, second = run(tmp_path, 0), run(tmp_path, 1)
    first.save()
    with pytest.raises(FatalError, match="another run has updated this state"):
        second.save()
    assert [*read_kept(tmp_path / "bucket" / "000000001.acls")] == ACLS[0]
