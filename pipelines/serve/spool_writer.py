"""The folder in which a receiver stores deliveries: feeds, and a journal of their arrival.

::

    SPOOL/
      lock                                 held by the receiver that writes here
      deliveries.jsonl                     a line for each delivery, in the order of arrival
      feeds/000000000/000000000001.xml     the feeds, named by the ordinals of their deliveries
      incoming/1.partial                   feeds that are being received; removed at the next start

A delivery is durable when `commit` returns: feed, folder and journal are on the disk. A feed
without a line in the journal was never acknowledged, and its name is used again.
"""

import errno
import itertools
import os
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO, Self

import msgspec

from feedferry.schemas.delivery import Delivery
from feedferry.schemas.errors import FatalError
from feedferry.transforms.sources.spool import open_deliveries
from feedferry.transforms.storage.files.journal import DISK, Disk
from feedferry.transforms.storage.files.lock import Lock

FEEDS_PER_FOLDER = 1000
CHECK_BYTES = 16 << 20
"""The free space is checked after this many bytes of a feed."""

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class DiskFullError(Exception):
    """The disk of the spool has no room for a feed."""


class SpoolWriter:
    """A folder that is a spool, or becomes one; raises BusyError if another receiver has it.

    `min_free_bytes` of its disk stay free. `disk` makes files durable. Safe from several threads.
    `ordinal` is that of the last delivery, 0 before the first; `bytes` is the size of all feeds.
    """

    def __init__(self, folder: Path, *, min_free_bytes: int = 0, disk: Disk = DISK) -> None:
        self.folder = folder
        self.ordinal = self.bytes = 0
        self._disk = disk
        self._min_free_bytes = min_free_bytes
        self._numbers = itertools.count(1)
        self._order = threading.Lock()
        self._syncs = ThreadPoolExecutor(thread_name_prefix="sync")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = Lock(folder / "lock", where=str(folder), by="receiver")
        except OSError as exc:
            raise FatalError(f"{folder}: {exc.strerror}; expected a folder to write in") from exc
        try:
            incoming = self.folder / "incoming"
            incoming.mkdir(exist_ok=True)
            for path in incoming.glob("*.partial"):
                path.unlink()
            self._journal = open_deliveries(folder, disk=disk)
            for delivery in self._journal.read():
                self._count(delivery)
            self._journal.open()
        except BaseException:
            self._lock.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        with self._order:
            self._journal.close()
            self._lock.close()
        self._syncs.shutdown()

    @property
    def free_bytes(self) -> int:
        disk = os.statvfs(self.folder)
        return disk.f_bavail * disk.f_frsize

    def check_room(self, size: int) -> None:
        """Raise DiskFullError unless there is room in addition to the minimum of free space."""
        if self.free_bytes < size + self._min_free_bytes:
            raise DiskFullError

    def open_intake(self) -> "IncomingFeed":
        """Return a new file for an incoming feed; raise DiskFullError if there is no room."""
        path = self.folder / "incoming" / f"{next(self._numbers)}.partial"
        try:
            return IncomingFeed(path, self._syncs, check_room=self.check_room, disk=self._disk)
        except OSError as exc:
            raise _translate(exc) from exc

    def commit(self, delivery: Delivery, intake: "IncomingFeed | None" = None) -> Delivery:
        """Store a delivery, with its feed if it has one; return it with ordinal, path and size.

        Raises DiskFullError if there is no room after all; nothing of the delivery is then kept.
        """
        try:
            size = intake.settle() if intake else 0
            with self._order:
                ordinal = self.ordinal + 1
                path = f"feeds/{ordinal // FEEDS_PER_FOLDER:09d}/{ordinal:012d}.xml"
                delivery = msgspec.structs.replace(
                    delivery, ordinal=ordinal, path=path if intake else None, bytes=size
                )
                if intake:
                    self._move(intake.path, self.folder / path)
                self._append(delivery)
        except OSError as exc:
            raise _translate(exc) from exc
        return delivery

    def _move(self, partial: Path, path: Path) -> None:
        if not path.parent.exists():
            path.parent.mkdir(parents=True)
            self._disk.sync_folder(path.parent.parent)
            self._disk.sync_folder(path.parent.parent.parent)
        self._disk.rename(partial, path)
        self._disk.sync_folder(path.parent)

    def _append(self, delivery: Delivery) -> None:
        """Append a line to the journal; remove the feed if there is no room."""
        try:
            self._journal.append(delivery)
        except OSError:
            if delivery.path:
                (self.folder / delivery.path).unlink()
            raise
        self._count(delivery)

    def _count(self, delivery: Delivery) -> None:
        self.ordinal = delivery.ordinal
        self.bytes += delivery.bytes


class IncomingFeed:
    """The file of a feed that is being received; removed at the end unless it was committed."""

    def __init__(
        self, path: Path, syncs: Executor, *, check_room: Callable[[int], None], disk: Disk = DISK
    ) -> None:
        self.path = path
        self._syncs = syncs
        self._sync: Future[None] | None = None
        self.bytes = 0
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
        self._check_room = check_room
        self._disk = disk
        self._checked = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        with suppress(OSError):
            self._await_sync()
        os.close(self._file)
        self.path.unlink(missing_ok=True)

    def write(self, block: bytes) -> None:
        """Append a block; raise DiskFullError if there is no room for it."""
        try:
            if self.bytes >= self._checked:
                self._check_room(len(block))
                self._checked = self.bytes + CHECK_BYTES
                if self.bytes and (self._sync is None or self._sync.done()):
                    self._await_sync()  # the disk writes while more bytes arrive
                    self._sync = self._syncs.submit(self._disk.sync, self._file)
            self._disk.write(self._file, block, self.bytes)
        except OSError as exc:
            raise _translate(exc) from exc
        self.bytes += len(block)

    def open(self) -> IO[bytes]:
        """Open the received bytes for reading."""
        return self.path.open("rb")

    def settle(self) -> int:
        """Return the size once all bytes are on the disk."""
        self._await_sync()
        self._disk.sync(self._file)
        return self.bytes

    def _await_sync(self) -> None:
        """Raise the error of a write: a disk reports it only once."""
        if self._sync is not None:
            self._sync.result()


def _translate(exc: OSError) -> Exception:
    return DiskFullError() if exc.errno in _FULL else exc
