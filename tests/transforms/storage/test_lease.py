"""Leases: one driver has a run, a killed one loses it, and one that lost it notices."""

import os
import subprocess
import sys
from datetime import timedelta

import msgspec
import pytest

from feedferry.schemas.errors import BusyError
from feedferry.transforms.storage.objects import lease
from feedferry.transforms.storage.objects.lease import Lease
from feedferry.transforms.storage.objects.object_storage import ObjectStorage, Version
from support import remotes

NAME = "lease.json"

pytestmark = pytest.mark.slow


@pytest.fixture
def storage(s3: None) -> ObjectStorage:
    return ObjectStorage.of(f"s3://{remotes.BUCKET}/run")


def _put_holder(storage: ObjectStorage, **values: object) -> None:
    storage.put(NAME, msgspec.json.encode(values))


def test_a_lease_is_of_one_process_at_a_time(storage: ObjectStorage) -> None:
    with Lease(storage, NAME) as first:
        with pytest.raises(BusyError, match=f"in use by process {os.getpid()} on"):
            Lease(storage, NAME)
        first.check()
    assert storage.sizes() == {}
    Lease(storage, NAME).release()


def test_a_lease_of_a_process_that_has_ended_is_taken_over_at_once(storage: ObjectStorage) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
    )
    _put_holder(storage, host="a", pid=int(ended.stdout), processes=lease._processes())
    with Lease(storage, NAME) as held:
        held.check()


def test_a_lease_of_another_host_is_taken_over_when_it_is_not_renewed(
    storage: ObjectStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    _put_holder(storage, host="elsewhere", pid=1, processes="other")
    with pytest.raises(BusyError, match="process 1 on elsewhere"):
        Lease(storage, NAME)

    version = ObjectStorage.version

    def aged(self: ObjectStorage, name: str) -> Version | None:
        found = version(self, name)
        if found is None or name != NAME:
            return found
        return Version(found.etag, found.modified - timedelta(seconds=61))

    monkeypatch.setattr(ObjectStorage, "version", aged)
    Lease(storage, NAME).release()
    assert storage.sizes() == {}


def test_who_lost_a_lease_is_told_and_leaves_that_of_the_other(storage: ObjectStorage) -> None:
    held = Lease(storage, NAME)
    _put_holder(storage, host="elsewhere", pid=1, token="another")
    with pytest.raises(BusyError, match="taken over by another process"):
        held.check()
    held.release()
    assert list(storage.sizes()) == [NAME]


def test_a_renewal_whose_answer_was_lost_is_ones_own(storage: ObjectStorage) -> None:
    held = Lease(storage, NAME)
    before = held._version
    held.check()
    held._version = before
    held.check()
    held.release()


def test_a_lease_is_renewed_while_it_is_held(
    storage: ObjectStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "RENEWED_SECONDS", 0.01)
    with Lease(storage, NAME):
        first = storage.version(NAME)
        while storage.version(NAME) == first:
            pass
