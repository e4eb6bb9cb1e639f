"""The folder in which a receiver keeps what came in: feeds, and a journal of their arrival.

::

    SPOOL/
      lock                                 held by the one receiver that writes here
      deliveries.jsonl                     a line for each delivery, in the order of arrival
      feeds/000000000/000000000001.xml     the feeds, named by the ordinals of their deliveries
      incoming/1.partial                   what is still on its way; removed at the next start

A delivery is durable when `commit` returns: feed, folder and journal are on the disk by then. A
feed without a line in the journal was never acknowledged, and its name is given away again.
"""

import errno
import itertools
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO, Self, cast

import msgspec

from schemas.delivery import JOURNAL, Delivery
from schemas.errors import FatalError
from transforms.storage.journal import DISK, Disk, Lines
from transforms.storage.lock import Lock

FEEDS_IN_A_FOLDER = 1000
CHECK_BYTES = 16 << 20
"""How much comes between two looks at the free space."""

WRITE_BACK_BYTES = 32 << 20
"""How much comes before the disk is told to begin."""


class _Kept(msgspec.Struct, frozen=True):
    """What of a delivery is needed to go on behind it."""

    ordinal: int
    bytes: int


class _Journal(msgspec.Struct, kw_only=True):
    """The ordinal of the last delivery, the length of the journal, the bytes of all feeds."""

    ordinal: int
    size: int
    feeds_bytes: int


class FullError(Exception):
    """The disk of the spool has no room for a feed."""


class Spool:
    """A folder that is a spool, or becomes one; raises BusyError if another receiver has it.

    `min_free_bytes` of its disk stay free. `disk` does what makes files durable. Safe from several
    threads.
    """

    def __init__(self, folder: Path, *, min_free_bytes: int = 0, disk: Disk = DISK) -> None:
        self.folder = folder
        self._disk = disk
        self._min_free_bytes = min_free_bytes
        self._numbers = itertools.count(1)
        self._order = threading.Lock()
        self._lock = _lock(folder)
        try:
            self._empty_incoming()
            self._journal = _read_journal(folder / JOURNAL)
            self._lines = Lines(folder / JOURNAL, size=self._journal.size, disk=disk)
            disk.sync_folder(folder)
        except BaseException:
            self._lock.close()
            raise
        self._write_back = ThreadPoolExecutor(thread_name_prefix="write-back")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        with self._order:
            self._write_back.shutdown()
            self._lines.close()
            self._lock.close()

    @property
    def ordinal(self) -> int:
        """That of the last delivery, 0 before the first."""
        return self._journal.ordinal

    @property
    def bytes(self) -> int:
        """How much all feeds have together."""
        return self._journal.feeds_bytes

    @property
    def free_bytes(self) -> int:
        disk = os.statvfs(self.folder)
        return disk.f_bavail * disk.f_frsize

    def check_room(self, size: int) -> None:
        """Raise FullError unless that many bytes fit, and what is to stay free stays so."""
        if self.free_bytes < size + self._min_free_bytes:
            raise FullError

    def open_intake(self) -> "Intake":
        """Return a new file for a feed that begins to come in; raise FullError for want of room."""
        path = self.folder / "incoming" / f"{next(self._numbers)}.partial"
        try:
            return Intake(
                path, check_room=self.check_room, write_back=self._write_back, disk=self._disk
            )
        except OSError as exc:
            raise _full_or(exc) from exc

    def commit(self, delivery: Delivery, intake: "Intake | None" = None) -> Delivery:
        """Keep a feed, or what has none; return the delivery with its ordinal, path and size.

        Raises FullError if there is no room for it after all; nothing of it is then kept.
        """
        try:
            size = intake.settle() if intake else 0
            with self._order:
                ordinal = self._journal.ordinal + 1
                path = _path_of(ordinal) if intake else None
                delivery = msgspec.structs.replace(delivery, ordinal=ordinal, path=path, bytes=size)
                if intake and path:
                    self._move(intake.path, self.folder / path)
                self._note(delivery)
        except OSError as exc:
            raise _full_or(exc) from exc
        return delivery

    def _move(self, partial: Path, path: Path) -> None:
        """Give a feed its name, durably."""
        if not path.parent.exists():
            path.parent.mkdir(parents=True)
            self._disk.sync_folder(path.parent.parent)
            self._disk.sync_folder(path.parent.parent.parent)
        self._disk.rename(partial, path)
        self._disk.sync_folder(path.parent)

    def _note(self, delivery: Delivery) -> None:
        """Append a line to the journal; if it has no room, nothing of the delivery stays."""
        try:
            self._lines.append(msgspec.json.encode(delivery) + b"\n")
        except OSError:
            if delivery.path:
                (self.folder / delivery.path).unlink()
            raise
        self._journal.ordinal = delivery.ordinal
        self._journal.feeds_bytes += delivery.bytes

    def _empty_incoming(self) -> None:
        incoming = self.folder / "incoming"
        incoming.mkdir(exist_ok=True)
        for path in incoming.glob("*.partial"):
            path.unlink()


class Intake:
    """A feed on its way in; removed when its block ends, unless it was committed."""

    def __init__(
        self,
        path: Path,
        *,
        check_room: Callable[[int], None],
        write_back: ThreadPoolExecutor,
        disk: Disk = DISK,
    ) -> None:
        self.path = path
        self.bytes = 0
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        self._check_room = check_room
        self._disk = disk
        self._checked = 0
        self._sent_back = 0
        self._writers = write_back
        self._write_back: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        with suppress(OSError):
            self._await_write_back()
        os.close(self._file)
        self.path.unlink(missing_ok=True)

    def write(self, block: bytes) -> None:
        """Append a block; raise FullError if the disk has no room for it."""
        if self.bytes >= self._checked:
            self._check_room(len(block))
            self._checked = self.bytes + CHECK_BYTES
        try:
            self._disk.write(self._file, block, self.bytes)
        except OSError as exc:
            raise _full_or(exc) from exc
        self.bytes += len(block)
        if self.bytes - self._sent_back >= WRITE_BACK_BYTES:
            self._begin_write_back()

    def open(self) -> IO[bytes]:
        """Open what has come so far, to be read."""
        return cast(IO[bytes], self.path.open("rb"))

    def settle(self) -> int:
        """Return the size, once all is on the disk."""
        self._await_write_back()
        self._disk.sync(self._file)
        return self.bytes

    def _begin_write_back(self) -> None:
        """Have the disk write what has come, while more comes: else all of it waits for the end."""
        if self._write_back is None or self._write_back.done():
            self._await_write_back()
            self._sent_back = self.bytes
            self._write_back = self._writers.submit(self._disk.write_back, self._file)

    def _await_write_back(self) -> None:
        """A disk tells of a write that went wrong only once; it is raised here."""
        if self._write_back is not None:
            self._write_back.result()


def _lock(folder: Path) -> Lock:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return Lock(folder / "lock", where=str(folder), by="receiver")
    except OSError as exc:
        raise FatalError(f"{folder}: {exc.strerror}; expected a folder to write in") from exc


def _read_journal(path: Path) -> _Journal:
    """Return what a journal holds, but for a last line that is torn."""
    ordinal = size = feeds_bytes = 0
    path.touch()
    with path.open("rb") as journal:
        for number, line in enumerate(journal, 1):
            if not line.endswith(b"\n"):
                break
            try:
                kept = msgspec.json.decode(line, type=_Kept)
            except msgspec.DecodeError as exc:
                raise FatalError(f"{path}:{number}: {line[:80]!r}; expected a delivery") from exc
            ordinal, size = kept.ordinal, size + len(line)
            feeds_bytes += kept.bytes
    return _Journal(ordinal=ordinal, size=size, feeds_bytes=feeds_bytes)


def _path_of(ordinal: int) -> str:
    return f"feeds/{ordinal // FEEDS_IN_A_FOLDER:09d}/{ordinal:012d}.xml"


def _full_or(exc: OSError) -> Exception:
    return FullError() if exc.errno in _FULL else exc


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
