"""Append-only journals: whole lines, torn lines, and lines that are on the disk."""

import errno
import os
from pathlib import Path

import pytest

from transforms.storage.journal import Disk, Journal, read_journal, write_at


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


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, []),
        (b"", []),
        (b"torn", []),
        (b"a\n\nb\nto", [(1, b"a", 2), (2, b"", 3), (3, b"b", 5)]),
    ],
)
def test_whole_lines_are_read(
    path: Path, content: bytes | None, expected: list[tuple[int, bytes, int]]
) -> None:
    if content is not None:
        path.write_bytes(content)

    assert list(read_journal(path)) == expected


def test_lines_are_appended_after_the_whole_lines(path: Path) -> None:
    path.write_bytes(b"a\nto")
    disk = SyncRecordingDisk(path)
    journal = Journal(path, size=2, disk=disk)
    journal.append(b"b\n")
    journal.append(b"c\n")
    journal.close()

    assert disk.synced == [b"a\n", b"a\nb\n", b"a\nb\nc\n"]


def test_nothing_stays_of_a_line_without_space(path: Path) -> None:
    disk = SyncRecordingDisk(path)
    journal = Journal(path, size=0, disk=disk)
    journal.append(b"a\n")
    disk.is_full = True
    with pytest.raises(OSError, match="No space left on device"):
        journal.append(b"bb\n")
    disk.is_full = False
    journal.append(b"c\n")
    journal.close()

    assert path.read_bytes() == b"a\nc\n"


def test_a_block_that_the_system_takes_in_pieces_is_written_whole(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, block, at: pwrite(file, block[:2], at))
    with path.open("wb") as stream:
        write_at(stream.fileno(), b"abcdefg", 1)

    assert path.read_bytes() == b"\0abcdefg"
