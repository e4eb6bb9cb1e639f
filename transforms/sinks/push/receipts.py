"""The receipts of a push: a line for each attempt, on the disk before the push continues.

A folder has the receipts of one run at one appliance: a file for the push, and another one for each
replay. The first line of a file names run and appliance. A line that was torn by a crash had no
consequences yet, so it is cut off.
"""

import hashlib
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self, TypeVar

import msgspec

from schemas.account import Chunk
from schemas.errors import ConfigError, FatalError
from schemas.receipt import Receipt
from transforms.sinks.push.outcome import outcomes_of
from transforms.sinks.push.settings import PushSettings
from transforms.storage.journal import DISK, Disk, Journal, JournalLine, read_journal
from transforms.storage.lock import Lock

VERSION = 1
_FINISHED = b'{"finished":'
"""Earlier versions wrote such a line after the last receipt."""


class ReceiptsHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a file of receipts."""

    version: int
    target: str
    run: str

    def __str__(self) -> str:
        return f"{self.run!r} at {self.target!r}"


_JournalEntry = TypeVar("_JournalEntry", ReceiptsHeader, Receipt)


class Receipts:
    """The receipts of one run at one appliance; no other process can have them at the same time.

    A `with` block opens them. With a replay, all chunks are sent again: in a new file if the push
    before is finished, in the same file if it is a replay that was interrupted. Safe from several
    threads.
    """

    def __init__(
        self, folder: Path, planned: Sequence[Chunk], settings: PushSettings, *, disk: Disk = DISK
    ) -> None:
        self._folder = folder
        self._disk = disk
        self._planned = planned
        self._is_replay = settings.replay
        self._path = folder / "receipts-001.jsonl"
        identity = [(chunk.sha256, chunk.datasource, chunk.feedtype) for chunk in planned]
        run = hashlib.sha256(msgspec.json.encode(identity)).hexdigest()[:16]
        self._targets = settings.appliance.targets
        self._header = ReceiptsHeader(version=VERSION, target=self._targets[0], run=run)
        self._lock = threading.Lock()
        self._opened = ExitStack()
        self._journal: Journal | None = None
        self._size = 0  # up to the end of the last whole line
        self._receipts: list[Receipt] = []
        self._last: dict[tuple[int, int, int], Receipt] = {}

    def __enter__(self) -> Self:
        """Lock the folder and read the receipts; no file is made before the first receipt.

        Raises BusyError if another push has the folder, ConfigError if it belongs to another run,
        FatalError if a file is damaged or cannot be written.
        """
        with ExitStack() as opened, self._explained():
            self._folder.mkdir(parents=True, exist_ok=True)
            where = str(self._folder)
            opened.enter_context(Lock(self._folder / "lock", where=where, by="push"))
            for receipt in self.read():
                self._remember(receipt)
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
            with self._explained():
                self._journal = self._journal or self._open_journal()
                self._journal.append(msgspec.json.encode(receipt) + b"\n")
            self._remember(receipt)

    def last(self, chunk: Chunk, first: int, count: int) -> Receipt | None:
        """Return the receipt of the last attempt to send these records, None if there was none."""
        with self._lock:
            return self._last.get((chunk.ordinal, first, count))

    def read(self) -> list[Receipt]:
        """Return the receipts in the folder; make no file.

        Raises ConfigError if they belong to another run, or if there is nothing to replay.
        """
        first = self._path
        path = self._path = max(self._folder.glob("receipts-*.jsonl"), default=first)
        with self._explained():
            lines = list(read_journal(path))
        receipts = self._decode(lines) if lines else []
        if not self._is_replay:
            return receipts
        outcomes = outcomes_of(self._planned, receipts)
        if lines and all(outcome.allows_next for outcome in outcomes):
            number = int(path.stem.rpartition("-")[2]) + 1
            self._path, self._size = self._folder / f"receipts-{number:03d}.jsonl", 0
            return []
        if path == first:
            found = "a push that is not finished" if lines else "nothing was pushed"
            raise ConfigError(
                f"--replay: {self._folder}: {found}; expected a finished push: push without it"
                " first"
            )
        return receipts

    def _decode(self, lines: Sequence[JournalLine]) -> list[Receipt]:
        path = self._path
        header = _decode(lines[0].text, ReceiptsHeader, f"{path}:1")
        if header.version != VERSION:
            raise ConfigError(f"{path}:1: version {header.version}; expected {VERSION}")
        if header.run != self._header.run or header.target not in self._targets:
            raise ConfigError(
                f"{path}: receipts of {header}; expected those of {self._header}: push the files "
                f"that they belong to, with the same --groups-mode, or remove {self._folder} to "
                "push all of these"
            )
        self._size = lines[-1].end
        return [
            _decode(line.text, Receipt, f"{path}:{line.number}")
            for line in lines[1:]
            if not line.text.startswith(_FINISHED)
        ]

    def _open_journal(self) -> Journal:
        journal = Journal(self._path, size=self._size, disk=self._disk)
        self._opened.callback(journal.close)
        if not self._size:
            journal.append(msgspec.json.encode(self._header) + b"\n")
            self._disk.sync_folder(self._folder)
            self._disk.sync_folder(self._folder.parent)
        return journal

    def _remember(self, receipt: Receipt) -> None:
        self._receipts.append(receipt)
        self._last[receipt.chunk, receipt.first, receipt.count] = receipt

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as exc:
            raise FatalError(
                f"{self._folder}: {exc.strerror}; expected to write receipts there"
            ) from exc


def _decode(line: bytes, entry: type[_JournalEntry], where: str) -> _JournalEntry:
    try:
        return msgspec.json.decode(line, type=entry)
    except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise FatalError(
            f"{where}: a damaged line; expected a receipt: restore the file from a copy, or remove "
            "its folder and push everything again"
        ) from exc
