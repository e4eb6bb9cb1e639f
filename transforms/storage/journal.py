"""Append-only files that outlive a crash of the machine."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class Disk:
    """The operations that make files durable; a test passes others.

    Each returns when the system has done it, and raises OSError otherwise.
    """

    def write(self, file: int, block: bytes, offset: int) -> None:
        """Write a block; it is not on the disk yet."""
        write_at(file, block, offset)

    def truncate(self, file: int, size: int) -> None:
        os.ftruncate(file, size)

    def sync(self, file: int) -> None:
        """Wait until a file is on the disk, and its size."""
        os.fsync(file)

    def rename(self, path: Path, new: Path) -> None:
        """Give a file another name, which is on the disk only after `sync_folder`."""
        os.replace(path, new)

    def sync_folder(self, folder: Path) -> None:
        """Wait until the names in a folder are on the disk."""
        sync_file(folder)


DISK = Disk()


class JournalLine(NamedTuple):
    """A whole line without its line break; `end` is the offset after the line break."""

    number: int
    text: bytes
    end: int


def read_journal(path: Path) -> Iterator[JournalLine]:
    """Yield the whole lines of a journal, none if there is no file.

    A crash may leave a last line without its end, which never counted.
    """
    if not path.exists():
        return
    end = 0
    with path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            if not line.endswith(b"\n"):
                return
            end += len(line)
            yield JournalLine(number, line[:-1], end)


class Journal:
    """Appends lines to a file; the caller has locked it.

    Everything after the first `size` bytes, a torn line, is cut off. Raises OSError if the file
    cannot be opened.
    """

    def __init__(self, path: Path, *, size: int, disk: Disk = DISK) -> None:
        self._size = size
        self._disk = disk
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            disk.truncate(self._file, size)
            disk.sync(self._file)
        except OSError:
            self.close()
            raise

    def append(self, line: bytes) -> None:
        """Append a line, which is on the disk on return. After an OSError nothing of it stays."""
        try:
            self._disk.write(self._file, line, self._size)
            self._disk.sync(self._file)
        except OSError:
            with suppress(OSError):
                self._disk.truncate(self._file, self._size)
            raise
        self._size += len(line)

    def close(self) -> None:
        os.close(self._file)


def write_at(file: int, block: bytes, offset: int) -> None:
    """Write a whole block, which the system may take in several pieces."""
    left = memoryview(block)
    while left:
        written = os.pwrite(file, left, offset)
        offset += written
        left = left[written:]


def sync_file(path: Path) -> None:
    """Wait until a file is on the disk, or the names in a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
