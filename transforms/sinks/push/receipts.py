"""The receipts of a push: a line for each attempt, on the disk before the push continues.

A folder has the receipts of one run at one appliance: a file for the push, and another one for each
replay. The first line of a file names run and appliance. A line that was torn by a crash had no
consequences yet, so it is cut off.
"""

import hashlib
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import msgspec

from schemas.account import Chunk
from schemas.errors import ConfigError
from schemas.receipt import Receipt
from transforms.sinks.push.outcome import outcomes_of
from transforms.sinks.push.settings import PushSettings
from transforms.storage.atomic import writing
from transforms.storage.journal import DISK, Disk, Journal
from transforms.storage.lock import Lock

VERSION = 1


class ReceiptsHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a file of receipts."""

    version: int
    target: str
    run: str

    def __str__(self) -> str:
        return f"{self.run!r} at {self.target!r}"


ReceiptsJournal = Journal[ReceiptsHeader | Receipt]

_header_decoder = msgspec.json.Decoder(ReceiptsHeader)
_receipt_decoder = msgspec.json.Decoder(Receipt)


def read_receipts(folder: Path) -> Iterator[Receipt]:
    """Yield the receipts of the last push or replay; raise FatalError at a damaged line."""
    entries = _journal_in(_last_file(folder)).read()
    return (entry for entry in entries if isinstance(entry, Receipt))


def _last_file(folder: Path) -> Path:
    return max(folder.glob("receipts-*.jsonl"), default=folder / "receipts-001.jsonl")


def _journal_in(path: Path, disk: Disk = DISK) -> ReceiptsJournal:
    def decode(line: bytes) -> ReceiptsHeader | Receipt:
        return (_receipt_decoder if journal.number else _header_decoder).decode(line)

    fix = "remove its folder and push everything again"
    journal = ReceiptsJournal(path, decode, expected="a receipt", fix=fix, disk=disk)
    return journal


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
        identity = [(chunk.sha256, chunk.datasource, chunk.feedtype) for chunk in planned]
        run = hashlib.sha256(msgspec.json.encode(identity)).hexdigest()[:16]
        target = settings.appliance.canonical_target
        self._header = ReceiptsHeader(version=VERSION, target=target, run=run)
        self._lock = threading.Lock()
        self._opened = ExitStack()
        self._journal = _journal_in(_last_file(folder), disk)
        self._receipts: list[Receipt] = []
        self._last: dict[tuple[int, int, int], Receipt] = {}

    def __enter__(self) -> Self:
        """Lock the folder and read the receipts; no file is made before the first receipt.

        Raises BusyError if another push has the folder, ConfigError if it belongs to another run,
        FatalError if a file is damaged or cannot be written.
        """
        with ExitStack() as opened, writing(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            where = str(self._folder)
            opened.enter_context(Lock(self._folder / "lock", where=where, by="push"))
            for receipt in self.read():
                self._remember(receipt)
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._journal.close()
        self._opened.close()

    def all(self) -> list[Receipt]:
        """Return all receipts of this push, in their order."""
        with self._lock:
            return list(self._receipts)

    def add(self, receipt: Receipt) -> None:
        """Add a receipt, which is on the disk on return."""
        with self._lock:
            with writing(self._folder):
                if not self._journal.number:
                    self._journal.append(self._header)
                self._journal.append(receipt)
            self._remember(receipt)

    def last(self, chunk: Chunk, first: int, count: int) -> Receipt | None:
        """Return the receipt of the last attempt to send these records, None if there was none."""
        with self._lock:
            return self._last.get((chunk.ordinal, first, count))

    def read(self) -> list[Receipt]:
        """Return the receipts in the folder; make no file.

        Raises ConfigError if they belong to another run, or if there is nothing to replay.
        """
        path = _last_file(self._folder)
        self._journal = _journal_in(path, self._disk)
        receipts: list[Receipt] = []
        for entry in self._journal.read():
            if isinstance(entry, ReceiptsHeader):
                self._check_header(entry, path)
            else:
                receipts.append(entry)
        if not self._is_replay:
            return receipts
        number = int(path.stem.rpartition("-")[2])
        outcomes = outcomes_of(self._planned, receipts)
        if self._journal.number and all(outcome.allows_next for outcome in outcomes):
            new = self._folder / f"receipts-{number + 1:03d}.jsonl"
            self._journal = _journal_in(new, self._disk)
            return []
        if number == 1:
            found = "a push that is not finished" if self._journal.number else "nothing was pushed"
            raise ConfigError(
                f"⟦replay⟧: {self._folder}: {found}; expected a finished push: push without it"
                " first"
            )
        return receipts

    def _check_header(self, header: ReceiptsHeader, path: Path) -> None:
        if header.version != VERSION:
            raise ConfigError(f"{path}:1: version {header.version}; expected {VERSION}")
        if header != self._header:
            raise ConfigError(
                f"{path}: receipts of {header}; expected those of {self._header}: push the files "
                f"that they belong to, with the same ⟦groups_mode⟧, or remove {self._folder} to "
                "push all of these"
            )

    def _remember(self, receipt: Receipt) -> None:
        self._receipts.append(receipt)
        self._last[receipt.chunk, receipt.first, receipt.count] = receipt
