"""Files that outlive a crash of the machine: lines that are appended, and names in folders."""

import os
from contextlib import suppress
from pathlib import Path


class Disk:
    """The operations that make files durable; a test has others in their place.

    Each returns when the system has done what it says, and raises OSError where it has not.
    """

    def write(self, file: int, block: bytes, offset: int) -> None:
        """Write a block; it is not on the disk yet."""
        write_at(file, block, offset)

    def truncate(self, file: int, size: int) -> None:
        os.ftruncate(file, size)

    def sync(self, file: int) -> None:
        """Wait until a file is on the disk, and its size."""
        os.fsync(file)

    def write_back(self, file: int) -> None:
        """Wait until what a file holds so far is on the disk."""
        os.fdatasync(file)

    def rename(self, path: Path, new: Path) -> None:
        """Give a file another name, on the disk only after `sync_folder`."""
        os.replace(path, new)

    def sync_folder(self, folder: Path) -> None:
        """Wait until the names in a folder are on the disk."""
        sync_folder(folder)


DISK = Disk()


class Lines:
    """A file that lines are appended to; whoever has it is alone with it.

    What stands behind its first `size` bytes, a line that was torn, is cut off. Raises OSError
    where the file cannot be opened.
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
        """Append a line; it is on the disk when this returns. Else nothing of it stays: OSError."""
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
    """Write all of a block, which the system may take in several pieces."""
    rest = memoryview(block)
    while rest:
        written = os.pwrite(file, rest, offset)
        offset += written
        rest = rest[written:]


def sync_file(path: Path) -> None:
    """Let the bytes of a file outlive a crash."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Let the names in a folder outlive a crash."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
