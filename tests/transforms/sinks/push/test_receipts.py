"""The receipts of a push: what they keep, what a crash leaves, and who may have them."""

import errno
import os
import socket
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.errors import BusyError, ConfigError, FatalError, FeedferryError
from schemas.receipt import ChunkState, Receipt, Refusal
from support.appliance_sockets import chunk
from support.fake_appliance import read_receipts
from transforms.sinks.push.receipts import Receipts
from transforms.storage.journal import DISK, Disk

TARGET = "http://gsa.example.com:19900"
SHA = "ab" * 32
HEADER = b'{"version":1,"target":"http://gsa.example.com:19900","run":"run-1"}\n'
FINISHED = b'{"finished":"2026-11-21T21:00:00Z"}\n'
CHUNK = chunk(b"", ordinal=7)
SENDING = Receipt(chunk=7, sha256=SHA, state=ChunkState.SENDING, at="2026-11-21T20:00:00Z")
ACCEPTED = Receipt(
    chunk=7,
    sha256=SHA,
    state=ChunkState.ACCEPTED,
    feedtype="full",
    bytes=12,
    status=200,
    reply="Success\n\x00é",
    seconds=0.25,
    at="2026-11-21T20:00:01Z",
    refused=(Refusal(3, "no"),),
)
FAILED = Receipt(chunk=7, sha256=SHA, state=ChunkState.FAILED, attempt=2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "push" / "gsa"


def opened(
    folder: Path,
    *,
    run: str = "run-1",
    target: str = TARGET,
    replay: bool = False,
    disk: Disk = DISK,
) -> Receipts:
    return Receipts(folder, target=target, run=run, replay=replay, disk=disk)


def push(folder: Path, *added: Receipt, replay: bool = False, finish: bool = False) -> None:
    with opened(folder, replay=replay) as receipts:
        for receipt in added:
            receipts.add(receipt)
        if finish:
            receipts.finish("2026-11-21T21:00:00Z")


def file_of(folder: Path, number: int = 1) -> Path:
    return folder / f"receipts-{number:03d}.jsonl"


def state(folder: Path, first: int = 0, count: int = 0, *, replay: bool = False) -> object:
    with opened(folder, replay=replay) as receipts:
        last = receipts.last(CHUNK, first, count)
    return last and last.state


def refusal(receipts: Receipts, kind: type[FeedferryError]) -> str:
    with pytest.raises(kind) as caught, receipts:
        pass
    return str(caught.value)


# What is kept


def test_the_last_receipt_of_the_same_records_counts(folder: Path) -> None:
    half = Receipt(chunk=7, sha256=SHA, state=ChunkState.REFUSED, first=4, count=5)
    other = Receipt(chunk=8, sha256=SHA, state=ChunkState.ACCEPTED)
    with opened(folder) as receipts:
        assert receipts.last(CHUNK, 0, 0) is None
        for receipt in (SENDING, FAILED, SENDING, half, other):
            receipts.add(receipt)
            assert receipts.all()[-1] == read_receipts(folder)[-1] == receipt
    with opened(folder) as receipts:
        assert receipts.last(CHUNK, 0, 0) == SENDING
        assert receipts.last(CHUNK, 4, 5) == half
        assert receipts.last(CHUNK, 4, 4) is None


def test_a_receipt_is_one_line(folder: Path) -> None:
    push(folder, SENDING)

    assert file_of(folder).read_bytes() == HEADER + (
        b'{"chunk":7,"sha256":"' + SHA.encode() + b'","state":"sending","first":0,"count":0,'
        b'"attempt":1,"feedtype":null,"bytes":0,"status":null,"reply":"","seconds":0.0,'
        b'"at":"2026-11-21T20:00:00Z","refused":[]}\n'
    )


# The end of a push, and replays


def test_a_push_is_finished_once(folder: Path) -> None:
    push(folder, finish=True)
    push(folder, finish=True)
    assert file_of(folder).read_bytes() == HEADER + FINISHED
    with opened(folder) as receipts:
        assert receipts.is_finished
        receipts.add(ACCEPTED)
        assert not receipts.is_finished

    assert read_receipts(folder) == [ACCEPTED]
    assert state(folder) is ChunkState.ACCEPTED


def test_a_replay_has_a_file_of_its_own(folder: Path) -> None:
    push(folder, ACCEPTED, finish=True)
    before = file_of(folder).read_bytes()
    assert state(folder, replay=True) is None
    push(folder, SENDING, replay=True)

    assert file_of(folder).read_bytes() == before
    assert sorted(path.name for path in folder.iterdir()) == [
        *("lock", "receipts-001.jsonl", "receipts-002.jsonl"),
    ]
    assert state(folder, replay=True) is ChunkState.SENDING
    assert state(folder) is ChunkState.SENDING
    push(folder, finish=True)
    push(folder, FAILED, replay=True)
    assert read_receipts(folder) == [FAILED]


@pytest.mark.parametrize(
    ("added", "found"),
    [([ACCEPTED], "a push that is not finished"), ([], "nothing was pushed")],
)
def test_only_a_finished_push_is_replayed(folder: Path, added: list[Receipt], found: str) -> None:
    push(folder, *added)

    assert refusal(opened(folder, replay=True), ConfigError) == (
        f"--replay: {folder}: {found}; expected a finished push: push without it first"
    )


# Other runs


@pytest.mark.parametrize(
    ("run", "target"), [("run-1", "http://other.example.com:19900"), ("run-2", TARGET)]
)
def test_a_folder_belongs_to_one_run_and_one_appliance(folder: Path, run: str, target: str) -> None:
    push(folder, ACCEPTED)

    assert refusal(opened(folder, run=run, target=target), ConfigError) == (
        f"{folder}/receipts-001.jsonl: receipts of 'run-1' at '{TARGET}'; expected those of "
        f"'{run}' at '{target}': push the files that they belong to, with the same --groups-mode, "
        f"or remove {folder} to push all of these"
    )
    assert state(folder) is ChunkState.ACCEPTED  # the folder is not locked


def test_receipts_of_a_later_version_are_refused(folder: Path) -> None:
    push(folder, SENDING)
    file_of(folder).write_bytes(HEADER.replace(b'"version":1', b'"version":2'))

    assert refusal(opened(folder), ConfigError) == (
        f"{folder}/receipts-001.jsonl:1: version 2; expected 1"
    )


# What a crash leaves


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("whole")
    push(folder, SENDING, ACCEPTED, finish=True)
    return file_of(folder).read_bytes()


@settings(max_examples=80)
@given(share=st.floats(0, 1, exclude_max=True))
def test_a_push_continues_after_the_whole_lines_of_a_file_cut_anywhere(
    share: float, whole: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    left = whole[: int(share * len(whole))]
    kept = [SENDING, ACCEPTED][: max(0, left.count(b"\n") - 1)]
    file_of(folder).write_bytes(left)
    assert read_receipts(folder) == kept
    push(folder, FAILED)

    assert read_receipts(folder) == [*kept, FAILED]


def test_zeros_that_a_crash_leaves_are_cut_off(folder: Path) -> None:
    push(folder, SENDING)
    before = file_of(folder).read_bytes()
    file_of(folder).write_bytes(before + bytes(300))
    push(folder, finish=True)

    assert file_of(folder).read_bytes() == before + FINISHED


@pytest.mark.parametrize(
    "line", [b"", b"{", b"[]", b"\xff", b'{"chunk":1}', b"null", b'{"state":"sendinh"}']
)
def test_a_damaged_line_is_fatal(folder: Path, line: bytes) -> None:
    push(folder, SENDING)
    file_of(folder).write_bytes(HEADER + line + b"\n")

    assert refusal(opened(folder), FatalError) == (
        f"{file_of(folder)}:2: a damaged line; expected a receipt: restore the file from a copy, "
        "or remove its folder and push everything again"
    )


class FullDisk(Disk):
    """A disk that is full at times: a few bytes of a line are written."""

    is_full = False

    def write(self, file: int, block: bytes, offset: int) -> None:
        if self.is_full:
            os.pwrite(file, block[:10], offset)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().write(file, block, offset)


def test_a_full_disk_leaves_no_torn_line(folder: Path) -> None:
    disk = FullDisk()
    with opened(folder, disk=disk) as receipts:
        receipts.add(SENDING)
        disk.is_full = True
        with pytest.raises(FatalError) as caught:
            receipts.add(ACCEPTED)
        assert receipts.last(CHUNK, 0, 0) == SENDING
        disk.is_full = False
        receipts.add(FAILED)

    assert read_receipts(folder) == [SENDING, FAILED]
    assert str(caught.value) == (
        f"{folder}: No space left on device; expected to write receipts there"
    )


def test_a_folder_that_is_a_file_is_fatal(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    assert refusal(opened(tmp_path / "file"), FatalError) == (
        f"{tmp_path}/file: File exists; expected to write receipts there"
    )


# Locks


def test_a_second_push_is_kept_out(folder: Path) -> None:
    with opened(folder):
        assert refusal(opened(folder), BusyError) == (
            f"{folder}: in use by another push, process {os.getpid()} on {socket.gethostname()}; "
            "start again when that has ended"
        )
        (folder / "lock").write_bytes(b"")
        assert refusal(opened(folder), BusyError) == (
            f"{folder}: in use by another push; start again when that has ended"
        )
