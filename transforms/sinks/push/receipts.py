"""The receipts of a push: a line for each attempt, on the disk before the push continues.

A folder has the receipts of one run at one appliance: a file for the push, and another one for each
replay. The first line of a file names run and appliance. The last line says that the push is
finished. A line that was torn by a crash had no consequences yet, so it is cut off.
"""

import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple, Self, TypeVar

import msgspec

from schemas.account import Chunk
from schemas.errors import ConfigError, FatalError
from schemas.receipt import Receipt
from transforms.storage.journal import DISK, Disk, Journal, read_journal
from transforms.storage.lock import Lock

LOCK = "lock"
VERSION = 1
_NAME = re.compile(r"receipts-([0-9]{3,})\.jsonl", re.ASCII)
_FINISHED = b'{"finished":'


class ReceiptsHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a file of receipts."""

    version: int
    target: str
    run: str

    def __str__(self) -> str:
        return f"{self.run!r} at {self.target!r}"


class _PushFinished(msgspec.Struct, frozen=True):
    """The last line of a finished push, with the time in RFC 3339."""

    finished: str


class _ReceiptsFile(NamedTuple):
    """The content of a file of receipts; `size` is the end of its last whole line."""

    number: int
    header: ReceiptsHeader | None = None
    receipts: tuple[Receipt, ...] = ()
    is_finished: bool = False
    size: int = 0


_JournalEntry = TypeVar("_JournalEntry", ReceiptsHeader, Receipt)


class Receipts:
    """The receipts of one run at one appliance; no other process can have them at the same time.

    With `replay`, all chunks are sent again: in a new file if the push before is finished, in the
    same file if it is a replay that was interrupted. Safe from several threads.
    """

    def __init__(
        self, folder: Path, *, target: str, run: str, replay: bool = False, disk: Disk = DISK
    ) -> None:
        self._folder = folder
        self._disk = disk
        self._header = ReceiptsHeader(version=VERSION, target=target, run=run)
        self._replay = replay
        self._lock = threading.Lock()
        self._opened = ExitStack()
        self._journal: Journal | None = None
        self._file = _ReceiptsFile(1)
        self._receipts: list[Receipt] = []
        self._last: dict[tuple[int, int, int], Receipt] = {}
        self.is_finished = False

    def __enter__(self) -> Self:
        """Lock the folder and read the receipts; no file is made before the first receipt.

        Raises BusyError if another push has the folder, ConfigError if it belongs to another run or
        there is nothing to replay, FatalError if a file is damaged or cannot be written.
        """
        with ExitStack() as opened, _explained(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            where = str(self._folder)
            opened.enter_context(Lock(self._folder / LOCK, where=where, by="push"))
            self._file = self.find_file()
            for receipt in self._file.receipts:
                self._remember(receipt)
            self.is_finished = self._file.is_finished
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._opened.close()

    def all(self) -> list[Receipt]:
        """Return all receipts of this push, in their order."""
        with self._lock:
            return list(self._receipts)

    def add(self, receipt: Receipt) -> None:
        """Add a receipt, which is on the disk on return."""
        with self._lock:
            self._append(receipt)
            self._remember(receipt)
            self.is_finished = False

    def last(self, chunk: Chunk, first: int, count: int) -> Receipt | None:
        """Return the receipt of the last attempt to send these records, None if there was none."""
        with self._lock:
            return self._last.get((chunk.ordinal, first, count))

    def finish(self, at: str) -> None:
        """Mark the push as finished; `at` is the time in RFC 3339."""
        with self._lock:
            if not self.is_finished:
                self._append(_PushFinished(at))
                self.is_finished = True

    def find_file(self) -> _ReceiptsFile:
        """Return the file to continue; make none.

        Raises ConfigError if the receipts in the folder do not allow this push.
        """
        with _explained(self._folder):
            newest = _newest(self._folder)
            file = _read_file(self._folder, newest) if newest else _ReceiptsFile(0)
        if file.header not in (None, self._header):
            raise ConfigError(
                f"{_path(self._folder, newest)}: receipts of {file.header}; expected those of "
                f"{self._header}: push the files that they belong to, with the same --groups-mode, "
                f"or remove {self._folder} to push all of these"
            )
        if not self._replay:
            return file if newest else _ReceiptsFile(1)
        if file.is_finished:
            return _ReceiptsFile(newest + 1)
        if newest > 1:
            return file
        found = "a push that is not finished" if newest else "nothing was pushed"
        raise ConfigError(
            f"--replay: {self._folder}: {found}; expected a finished push: push without it first"
        )

    def _append(self, line: Receipt | _PushFinished) -> None:
        with _explained(self._folder):
            self._journal = self._journal or self._open_journal()
            self._journal.append(msgspec.json.encode(line) + b"\n")

    def _open_journal(self) -> Journal:
        path = _path(self._folder, self._file.number)
        journal = Journal(path, size=self._file.size, disk=self._disk)
        self._opened.callback(journal.close)
        if self._file.header is None:
            journal.append(msgspec.json.encode(self._header) + b"\n")
            self._disk.sync_folder(self._folder)
            self._disk.sync_folder(self._folder.parent)
        return journal

    def _remember(self, receipt: Receipt) -> None:
        self._receipts.append(receipt)
        self._last[receipt.chunk, receipt.first, receipt.count] = receipt


def _newest(folder: Path) -> int:
    """Return the number of the newest file, 0 if there is none."""
    if not folder.is_dir():
        return 0
    matches = (_NAME.fullmatch(path.name) for path in folder.iterdir())
    return max((int(match[1]) for match in matches if match), default=0)


def _path(folder: Path, number: int) -> Path:
    return folder / f"receipts-{number:03d}.jsonl"


def _read_file(folder: Path, number: int) -> _ReceiptsFile:
    path = _path(folder, number)
    lines = list(read_journal(path))
    if not lines:
        return _ReceiptsFile(number)
    header = _decode(lines[0].text, ReceiptsHeader, f"{path}:1")
    if header.version != VERSION:
        raise ConfigError(f"{path}:1: version {header.version}; expected {VERSION}")
    receipts = tuple(
        _decode(line.text, Receipt, f"{path}:{line.number}")
        for line in lines[1:]
        if not line.text.startswith(_FINISHED)
    )
    last = lines[-1]
    return _ReceiptsFile(number, header, receipts, last.text.startswith(_FINISHED), last.end)


def _decode(line: bytes, entry: type[_JournalEntry], where: str) -> _JournalEntry:
    try:
        return msgspec.json.decode(line, type=entry)
    except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise FatalError(
            f"{where}: a damaged line; expected a receipt: restore the file from a copy, or remove "
            "its folder and push everything again"
        ) from exc


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise FatalError(f"{folder}: {exc.strerror}; expected to write receipts there") from exc
