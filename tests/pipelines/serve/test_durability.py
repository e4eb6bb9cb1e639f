"""A feed is on the disk before its client is told so, step by step."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.serve.spool_writer import SpoolWriter
from schemas.delivery import JOURNAL
from support.disks import RecordingDisk
from support.endpoints import DATA, FEED, GROUPS, StoredEndpoints, body_of, post

FIRST = [
    "write incoming/1.partial",
    "sync incoming/1.partial",
    "sync folder feeds",
    "sync folder .",
    "rename incoming/1.partial feeds/000000000/000000000001.xml",
    "sync folder feeds/000000000",
    "write deliveries.jsonl",
    "sync deliveries.jsonl",
]
SECOND = [
    "write incoming/2.partial",
    "sync incoming/2.partial",
    "rename incoming/2.partial feeds/000000000/000000000002.xml",
    "sync folder feeds/000000000",
    "write deliveries.jsonl",
    "sync deliveries.jsonl",
]
CLEANUP = ["write deliveries.jsonl", "sync deliveries.jsonl"]
DOORS = [("/xmlfeed", FEED), ("/xmlgroups", GROUPS), ("/recvdata.xml", DATA)]


@pytest.fixture
def disk(tmp_path: Path) -> RecordingDisk:
    return RecordingDisk(tmp_path)


@pytest.fixture
def stored(tmp_path: Path, disk: RecordingDisk) -> Iterator[StoredEndpoints]:
    stored = StoredEndpoints(tmp_path, disk=disk)
    yield stored
    stored.close()


def is_accepted(reply: bytes) -> bool:
    return reply == b"Success" or b"<Status>OK</Status>" in reply


@pytest.mark.parametrize(("path", "body"), DOORS)
def test_a_feed_its_folder_and_its_line_are_on_the_disk_in_this_order(
    stored: StoredEndpoints, disk: RecordingDisk, path: str, body: str
) -> None:
    disk.done.clear()
    assert is_accepted(body_of(stored.endpoints().answer(post(path, body))))
    assert disk.done == FIRST
    disk.done.clear()
    assert is_accepted(body_of(stored.endpoints().answer(post(path, body))))
    assert disk.done == SECOND


def test_the_line_of_a_cleanup_is_on_the_disk(stored: StoredEndpoints, disk: RecordingDisk) -> None:
    disk.done.clear()
    assert body_of(stored.endpoints().answer(post("/xmlgroups", "cleanup=ldap"))) == b"Success"
    assert disk.done == CLEANUP


@pytest.mark.parametrize(("path", "body"), DOORS)
@pytest.mark.parametrize("operation", range(1, len(SECOND) + 1))
def test_success_is_answered_after_the_last_step(
    stored: StoredEndpoints, disk: RecordingDisk, path: str, body: str, operation: int
) -> None:
    body_of(stored.endpoints().answer(post(path, body)))
    before = (stored.folder / JOURNAL).read_bytes()
    disk.fail_at(operation)
    with pytest.raises(OSError, match="Input/output error"):
        stored.endpoints().answer(post(path, body))
    assert disk.done == SECOND[: operation - 1]
    assert (stored.folder / JOURNAL).read_bytes() == before
    assert stored.arrivals == 1


@pytest.mark.parametrize("operation", [1, 2])
def test_cleanup_is_answered_after_the_last_step(
    stored: StoredEndpoints, disk: RecordingDisk, operation: int
) -> None:
    disk.fail_at(operation)
    with pytest.raises(OSError, match="Input/output error"):
        stored.endpoints().answer(post("/xmlgroups", "cleanup=ldap"))
    assert disk.done == CLEANUP[: operation - 1]


def test_a_new_spool_is_on_the_disk_before_it_takes_anything(
    tmp_path: Path, disk: RecordingDisk
) -> None:
    with SpoolWriter(tmp_path, disk=disk):
        assert disk.done == ["sync deliveries.jsonl", "sync folder ."]
