"""Append-only journals: whole lines, torn lines, and lines that are on the disk."""

import errno
import os
from pathlib import Path

import msgspec
import pytest

from feedferry.schemas.errors import FatalError
from feedferry.transforms.storage.files.journal import DISK, Disk, Journal, write_at


class SyncRecordingDisk(Disk):
    """A disk that records the content at each sync, and may have no space."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.synced: list[bytes] = []
        self.is_full = False

    def write(self, file: int, block: bytes, offset: int) -> None:
        if self.is_full:
            os.pwrite(file, block[:1], offset)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().write(file, block, offset)

    def sync(self, file: int) -> None:
        super().sync(file)
        self.synced.append(self.path.read_bytes())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lines.jsonl"


def opened(path: Path, disk: Disk = DISK) -> Journal[int]:
    return Journal(path, msgspec.json.Decoder(int).decode, expected="a number", disk=disk)


@pytest.mark.parametrize(
    ("content", "expected"), [(None, []), (b"", []), (b"12", []), (b"1\n22\n3", [1, 22])]
)
def test_whole_lines_are_read(path: Path, content: bytes | None, expected: list[int]) -> None:
    if content is not None:
        path.write_bytes(content)

    assert list(opened(path).read()) == expected


def test_a_journal_is_read_from_where_it_was_read_to(path: Path) -> None:
    path.write_bytes(b"1\n2\n3")
    journal = opened(path)
    assert list(journal.read()) == [1, 2]
    with path.open("ab") as stream:
        stream.write(b"3\n4\n{}\n")
    assert [next(journal.read()), journal.number, next(journal.read())] == [33, 3, 4]

    for _ in range(2):
        with pytest.raises(FatalError) as caught:
            list(journal.read())
        assert str(caught.value) == (
            f"{path}:5: Expected `int`, got `object`; expected a number: restore"
            " the file from a copy, or remove the line"
        )


def test_entries_are_appended_after_the_whole_lines(path: Path) -> None:
    path.write_bytes(b"1\n2")
    disk = SyncRecordingDisk(path)
    with opened(path, disk) as journal:
        journal.append(2)
        journal.append(3)
        assert list(journal.read()) == []

    assert disk.synced == [b"1\n", b"1\n2\n", b"1\n2\n3\n"]


def test_nothing_stays_of_an_entry_without_space(path: Path) -> None:
    disk = SyncRecordingDisk(path)
    with opened(path, disk) as journal:
        journal.append(1)
        disk.is_full = True
        with pytest.raises(OSError, match="No space left on device"):
            journal.append(22)
        disk.is_full = False
        journal.append(3)

    assert path.read_bytes() == b"1\n3\n"


def test_a_block_that_the_system_takes_in_pieces_is_written_whole(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, block, at: pwrite(file, block[:2], at))
    with path.open("wb") as stream:
        write_at(stream.fileno(), b"abcdefg", 1)

    assert path.read_bytes() == b"\0abcdefg"
