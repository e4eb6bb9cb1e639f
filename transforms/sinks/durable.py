"""Files that outlive a crash of the machine: lines that are appended, and names in folders."""

import os
from contextlib import suppress
from pathlib import Path


class Lines:
    """A file that lines are appended to; whoever has it is alone with it.

    What stands behind its first `size` bytes, a line that was torn, is cut off. Raises OSError
    where the file cannot be opened.
    """

    def __init__(self, path: Path, *, size: int) -> None:
        self._size = size
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.ftruncate(self._file, size)
            os.fsync(self._file)
        except OSError:
            self.close()
            raise

    def append(self, line: bytes) -> None:
        """Append a line; it is on the disk when this returns. Else nothing of it stays: OSError."""
        try:
            write_at(self._file, line, self._size)
            os.fsync(self._file)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file, self._size)
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
