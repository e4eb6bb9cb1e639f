"""A feed is on the disk before its client gets Success, and survives any end of the receiver."""

import errno
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from feedferry.pipelines.serve import spool_writer as spools
from feedferry.pipelines.serve.spool_writer import DiskFullError, SpoolWriter
from feedferry.schemas.delivery import JOURNAL, Delivery
from feedferry.schemas.errors import BusyError, FatalError
from feedferry.transforms.storage.files import journal as durable
from feedferry.transforms.storage.files.journal import Disk
from support.disks import RecordingDisk
from support.endpoints import DATA, FEED, GROUPS, StoredEndpoints, body_of, post

POSTED = Delivery(
    ordinal=0,
    endpoint="xmlfeed",
    format="gsa-feed",
    path=None,
    bytes=0,
    datasource="s",
    feedtype="full",
)
KILLED = """
import os, signal, sys
from pathlib import Path
from feedferry.schemas.delivery import Delivery
from feedferry.pipelines.serve.spool_writer import SpoolWriter
spool = SpoolWriter(Path(sys.argv[1]))
posted = Delivery(ordinal=0, endpoint="xmlfeed", format="gsa-feed", path=None, bytes=0)
with spool.open_intake() as intake:
    intake.write(b"<whole/>")
    spool.commit(posted, intake)
with spool.open_intake() as intake:
    intake.write(b"<torn")
    os.kill(os.getpid(), signal.SIGKILL)
"""


FIRST = [
    *("write incoming/1.partial", "sync incoming/1.partial", "sync folder feeds", "sync folder ."),
    *("rename incoming/1.partial feeds/000000000/000000000001.xml", "sync folder feeds/000000000"),
    *("write deliveries.jsonl", "sync deliveries.jsonl"),
]
SECOND = [
    *("write incoming/2.partial", "sync incoming/2.partial"),
    *("rename incoming/2.partial feeds/000000000/000000000002.xml", "sync folder feeds/000000000"),
    *("write deliveries.jsonl", "sync deliveries.jsonl"),
]
CLEANUP = ["write deliveries.jsonl", "sync deliveries.jsonl"]
ENDPOINTS = [("/xmlfeed", FEED), ("/xmlgroups", GROUPS), ("/recvdata.xml", DATA)]


def deliver(spool: SpoolWriter, *blocks: bytes) -> Delivery:
    with spool.open_intake() as intake:
        list(map(intake.write, blocks))
        return spool.commit(POSTED, intake)


def journal(folder: Path) -> list[Delivery]:
    lines = (folder / JOURNAL).read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Delivery) for line in lines]


def files(folder: Path) -> list[str]:
    """All files below a folder but the lock."""
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return sorted(path.as_posix() for path in paths if path.name != "lock")


def test_a_feed_is_stored_under_its_ordinal_and_the_next_start_continues(tmp_path: Path) -> None:
    with SpoolWriter(tmp_path) as spool:
        first = deliver(spool, b"<gsafeed", b"/>")
    with SpoolWriter(tmp_path) as spool:
        second = deliver(spool, b"<b/>")
        assert spool.bytes == 14
    path = "feeds/000000000/000000000001.xml"
    assert first == msgspec.structs.replace(POSTED, ordinal=1, path=path, bytes=10)
    assert second.path == "feeds/000000000/000000000002.xml"
    assert journal(tmp_path) == [first, second]
    assert (tmp_path / path).read_bytes() == b"<gsafeed/>"


def test_a_folder_has_a_thousand_feeds(tmp_path: Path) -> None:
    last = msgspec.structs.replace(POSTED, ordinal=999)
    (tmp_path / JOURNAL).write_bytes(msgspec.json.encode(last) + b"\n")
    with SpoolWriter(tmp_path) as spool:
        assert deliver(spool, b"<a/>").path == "feeds/000000001/000000001000.xml"


def test_a_second_receiver_must_wait(tmp_path: Path) -> None:
    with SpoolWriter(tmp_path), pytest.raises(BusyError) as caught:
        SpoolWriter(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}: in use by another receiver, process {os.getpid()} on {socket.gethostname()}; "
        "start again when that has ended"
    )


def test_a_file_is_no_spool(tmp_path: Path) -> None:
    path = tmp_path / "spool"
    path.touch()
    with pytest.raises(FatalError) as caught:
        SpoolWriter(path)
    assert str(caught.value) == f"{path}: File exists; expected a folder to write in"


def test_damaged_line_is_reported(tmp_path: Path) -> None:
    path = tmp_path / JOURNAL
    path.write_bytes(
        msgspec.json.encode(msgspec.structs.replace(POSTED, ordinal=1)) + b"\n\0\0\0\n"
    )
    with pytest.raises(FatalError) as caught:
        SpoolWriter(tmp_path)
    assert str(caught.value) == (
        f"{path}:2: JSON is malformed: invalid character (byte 0); expected a delivery, as"
        " feedferry serve writes it: restore the file from a copy, or take the line out, and all"
        " but the feed that it names is read"
    )
    path.unlink()
    with SpoolWriter(tmp_path) as spool:  # the lock is free
        assert deliver(spool, b"<a/>").ordinal == 1


def test_killed_receiver_keeps_only_whole_feeds(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert "incoming/2.partial" in files(tmp_path)
    with SpoolWriter(tmp_path) as spool:
        assert deliver(spool, b"<next/>").ordinal == 2
    assert files(tmp_path) == [
        JOURNAL,
        "feeds/000000000/000000000001.xml",
        "feeds/000000000/000000000002.xml",
    ]


def test_a_feed_that_was_never_noted_gives_its_name_away(tmp_path: Path) -> None:
    path = tmp_path / "feeds" / "000000000" / "000000000001.xml"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"<never noted/>")
    with SpoolWriter(tmp_path) as spool:
        deliver(spool, b"<a/>")
    assert path.read_bytes() == b"<a/>"


def test_deliveries_of_many_clients_have_an_order(tmp_path: Path) -> None:
    with SpoolWriter(tmp_path) as spool, ThreadPoolExecutor(8) as clients:
        kept = list(clients.map(lambda number: deliver(spool, b"%d" % number), range(40)))
    assert sorted(kept, key=lambda item: item.ordinal) == journal(tmp_path)
    assert [entry.ordinal for entry in journal(tmp_path)] == list(range(1, 41))
    contents = {(tmp_path / (record.path or "")).read_bytes() for record in kept}
    assert contents == {b"%d" % number for number in range(40)}


def test_the_room_is_looked_at_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spools, "CHECK_BYTES", 10)
    with SpoolWriter(tmp_path) as spool, spool.open_intake() as intake:
        intake.write(b"a" * 10)
        monkeypatch.setattr(spool, "_min_free_bytes", 1 << 60)
        with pytest.raises(DiskFullError):
            intake.write(b"a")


def test_full_disk_is_reported(tmp_path: Path) -> None:
    with SpoolWriter(tmp_path) as spool, spool.open_intake() as intake:
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, intake._file)
        os.close(full)
        with pytest.raises(DiskFullError):
            intake.write(b"<gsafeed/>")


class FullDisk(Disk):
    """A disk that finds out that it is full when it writes."""

    is_full = False

    def sync(self, file: int) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_disk_that_is_full_while_a_feed_arrives_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spools, "CHECK_BYTES", 10)
    disk = FullDisk()
    with SpoolWriter(tmp_path, disk=disk) as spool, spool.open_intake() as intake:
        disk.is_full = True
        intake.write(b"a" * 10)
        intake.write(b"b" * 10)
        spool._syncs.shutdown()  # waits for the disk
        with pytest.raises(DiskFullError):
            intake.write(b"c" * 10)


def test_a_disk_without_room_for_one_more_name_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with SpoolWriter(tmp_path) as spool:
        monkeypatch.setattr(os, "open", refuse)
        with pytest.raises(DiskFullError):
            spool.open_intake()


def test_a_journal_without_room_keeps_nothing_of_the_feed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SpoolWriter(tmp_path) as spool:
        first = deliver(spool, b"<a/>")
        monkeypatch.setattr(durable, "write_at", write_half_a_line)
        with pytest.raises(DiskFullError), spool.open_intake() as intake:
            spool.commit(POSTED, intake)
        monkeypatch.undo()
        second = deliver(spool, b"<b/>")
    assert journal(tmp_path) == [first, second]
    assert second.ordinal == 2


def write_half_a_line(file: int, block: bytes, offset: int) -> None:
    os.pwrite(file, block[: len(block) // 2], offset)
    raise OSError(28, "No space left on device")


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


@pytest.mark.parametrize(("path", "body"), ENDPOINTS)
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


@pytest.mark.parametrize(("path", "body"), ENDPOINTS)
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
    assert list((stored.folder / "incoming").iterdir()) == []
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
        folders = ("sync folder .", f"sync folder {tmp_path.parent}")
        assert disk.done == ["sync deliveries.jsonl", *folders]
