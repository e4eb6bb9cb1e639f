"""Journals: append-only files of JSON lines that outlive a crash of the machine."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Generic, Self, TypeVar

import msgspec

from feedferry.schemas.errors import FatalError, FeedferryError

Entry = TypeVar("Entry")


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

    def store(self, path: Path, line: bytes, offset: int) -> None:
        """Store a line that is on the disk elsewhere, too; here, nowhere."""

    def rename(self, path: Path, new: Path) -> None:
        """Give a file another name, which is on the disk only after `sync_folder`."""
        os.replace(path, new)

    def sync_folder(self, folder: Path) -> None:
        """Wait until the names in a folder are on the disk."""
        sync_file(folder)


DISK = Disk()


class Journal(Generic[Entry]):
    """A file with a JSON line for each entry; a caller that appends entries has locked it.

    `decode` makes an entry of a line, and raises MsgspecError or ValueError for a damaged line.
    `expected` names an entry in messages, and `fix` what to do without a copy of the file. Lines
    are counted from 1: `number` is that of the last line that was read or appended, `offset` is
    where it begins.
    """

    def __init__(
        self,
        path: Path,
        decode: Callable[[bytes], Entry],
        *,
        expected: str,
        fix: str = "remove the line",
        disk: Disk = DISK,
    ) -> None:
        self.path = path
        self.number = self.offset = 0
        self._decode = decode
        self._help = f"expected {expected}: restore the file from a copy, or {fix}"
        self._disk = disk
        self._size = 0  # up to the end of that line
        self._file: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def read(self) -> Iterator[Entry]:
        """Yield the entries after those that were read or appended; none if there is no file.

        A crash may leave a last line without its end, which never counted. Raises FatalError for a
        damaged line, and if the file cannot be read.
        """
        try:
            stream = self.path.open("rb")
        except FileNotFoundError:
            return
        except OSError as exc:
            raise FatalError(f"{self.path}: {exc.strerror}; expected a readable file") from exc
        with stream:
            stream.seek(self._size)
            for line in stream:
                if not line.endswith(b"\n"):
                    return
                try:
                    entry = self._decode(line[:-1])
                except (msgspec.MsgspecError, ValueError) as exc:
                    where = f"{self.path}:{self.number + 1}"
                    raise FatalError(f"{where}: {exc}; {self._help}") from exc
                self._count(line)
                yield entry

    def open(self) -> int:
        """Open the file for new entries, after all that are there; return its descriptor.

        A torn line is cut off. File and folder are on the disk on return. Raises OSError if the
        file cannot be opened.
        """
        if self._file is not None:
            return self._file
        for _ in self.read():
            pass
        file = self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            self._disk.truncate(file, self._size)
            self._disk.sync(file)
            self._disk.sync_folder(self.path.parent)
            self._disk.sync_folder(self.path.parent.parent)
        except OSError:
            self.close()
            raise
        return file

    def append(self, entry: Entry) -> None:
        """Append an entry, which is on the disk on return. After an OSError nothing of it stays."""
        file, line = self.open(), msgspec.json.encode(entry) + b"\n"
        try:
            self._disk.write(file, line, self._size)
            self._disk.sync(file)
            self._disk.store(self.path, line, self._size)
        except (OSError, FeedferryError):
            with suppress(OSError):
                self._disk.truncate(file, self._size)
            raise
        self._count(line)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _count(self, line: bytes) -> None:
        self.number += 1
        self.offset = self._size
        self._size += len(line)


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
