"""The receipts of a push: a line for each attempt and step, on the disk before the push continues.

A folder has the receipts of one run at one appliance: a file for the push, and another one for each
replay. The first line of a file names run and appliance. A line that was torn by a crash had no
consequences yet, so it is cut off.
"""

import threading
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import msgspec
from msgspec.structs import replace

from feedferry.schemas.account import Chunk
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.lazy_sequence import LazySequence
from feedferry.schemas.receipt import NARROW, ChunkState, Receipt, StepReceipt
from feedferry.transforms.sinks.push.outcome import ChunkOutcome, outcome_of
from feedferry.transforms.sinks.push.push_plan import PlannedChunks
from feedferry.transforms.sinks.push.settings import PushSettings
from feedferry.transforms.storage.atomic import writing
from feedferry.transforms.storage.files.journal import DISK, Disk, Journal
from feedferry.transforms.storage.files.line_file import LineFile
from feedferry.transforms.storage.run_folders.mirrors import locked

VERSION = 1


class ReceiptsHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a file of receipts."""

    version: int
    target: str
    run: str

    def __str__(self) -> str:
        return f"{self.run!r} at {self.target!r}"


ReceiptsJournal = Journal[ReceiptsHeader | Receipt | StepReceipt]

_header_decoder = msgspec.json.Decoder(ReceiptsHeader)
_receipt_decoder = msgspec.json.Decoder(Receipt)
_step_decoder = msgspec.json.Decoder(StepReceipt)
_STEP = b'{"step":'
"""The begin of the line of a step."""


def read_receipts(folder: Path) -> Iterator[Receipt]:
    """Yield the receipts of the last push or replay; raise FatalError at a damaged line."""
    entries = _journal_in(_last_file(folder)).read()
    return (entry for entry in entries if isinstance(entry, Receipt))


def has_sent(folder: Path) -> bool:
    """Whether a push or a replay may have changed documents; FatalError as in `read_receipts`.

    Receipts of steps that prepare a run are there before a limit stops it.
    """
    return any(
        entry.step == NARROW if isinstance(entry, StepReceipt) else isinstance(entry, Receipt)
        for path in folder.glob("receipts-*.jsonl")
        for entry in _journal_in(path).read()
    )


def _last_file(folder: Path) -> Path:
    return max(folder.glob("receipts-*.jsonl"), default=folder / "receipts-001.jsonl")


def _journal_in(path: Path, disk: Disk = DISK) -> ReceiptsJournal:
    def decode(line: bytes) -> ReceiptsHeader | Receipt | StepReceipt:
        if not journal.number:
            return _header_decoder.decode(line)
        return (_step_decoder if line.startswith(_STEP) else _receipt_decoder).decode(line)

    fix = "remove its folder and push everything again"
    journal = ReceiptsJournal(path, decode, expected="a receipt", fix=fix, disk=disk)
    return journal


class ReceiptIndex:
    """The receipts of a file by their chunk.

    Of a chunk that was accepted at its first attempt, whole and without refusals, only the place of
    its receipt in the file is in memory: 8 bytes. Of other chunks, all receipts are, and of those
    whose ordinal is greater than the number of chunks.
    """

    def __init__(self, path: Path, *, chunks: int) -> None:
        self._lines = LineFile(path)
        self._places = array("q", bytes(8 * (chunks + 1)))
        """By ordinal; 0 without one, because the header is there."""
        self._receipts: dict[int, list[Receipt]] = {}
        self._last: dict[tuple[int, int, int], Receipt] = {}

    def add(self, receipt: Receipt, place: int) -> None:
        """Add a receipt, which begins at `place` in the file."""
        ordinal = receipt.chunk
        if self._place(ordinal):
            self._receipts[ordinal] = self.of_chunk(ordinal)
            self._last[ordinal, 0, 0] = self._receipts[ordinal][-1]
            self._places[ordinal] = 0
        receipts = self._receipts.setdefault(ordinal, [])
        receipts.append(receipt)
        self._last[ordinal, receipt.first, receipt.count] = receipt
        if ordinal < len(self._places) and _is_plain(receipts):
            self._places[ordinal] = place
            del self._receipts[ordinal], self._last[ordinal, 0, 0]

    def of_chunk(self, ordinal: int) -> list[Receipt]:
        """Return the receipts of a chunk, in their order."""
        if not (place := self._place(ordinal)):
            return self._receipts.get(ordinal, [])
        accepted = _receipt_decoder.decode(self._lines.line_at(place))
        state = ChunkState.SENDING
        sending = replace(accepted, state=state, bytes=0, status=None, reply="", seconds=0.0)
        return [sending, accepted]

    def last(self, ordinal: int, first: int, count: int) -> Receipt | None:
        """Return the last receipt of these records of a chunk."""
        if (first, count) == (0, 0) and self._place(ordinal):
            return self.of_chunk(ordinal)[-1]
        return self._last.get((ordinal, first, count))

    def outcomes(self, chunks: Sequence[Chunk]) -> LazySequence[ChunkOutcome]:
        """Return the outcome of each chunk, by its receipts at the time when it is asked for."""
        return LazySequence(chunks, lambda chunk: outcome_of(chunk, self.of_chunk(chunk.ordinal)))

    def _place(self, ordinal: int) -> int:
        return self._places[ordinal] if ordinal < len(self._places) else 0


def _is_plain(receipts: Sequence[Receipt]) -> bool:
    """Whether these are the receipts of a chunk that was accepted as it is at once."""
    return (
        len(receipts) == 2
        and [receipt.state for receipt in receipts] == [ChunkState.SENDING, ChunkState.ACCEPTED]
        and all((each.first, each.count, each.attempt) == (0, 0, 1) for each in receipts)
        and not receipts[0].reply
        and not receipts[1].refused
    )


class Receipts:
    """The receipts of one run at one appliance; no other process can have them at the same time.

    A `with` block opens them. With a replay, all chunks are sent again: in a new file if the push
    before is finished, in the same file if it is a replay that was interrupted. Safe from several
    threads.
    """

    def __init__(
        self, folder: Path, planned: PlannedChunks, settings: PushSettings, *, disk: Disk = DISK
    ) -> None:
        self._folder = folder
        self._disk = disk
        self._planned = planned
        self._is_replay = settings.replay
        target = settings.appliance.canonical_target
        self.header = ReceiptsHeader(version=VERSION, target=target, run=planned.digest)
        self._lock = threading.Lock()
        self._opened = ExitStack()
        self._journal = _journal_in(_last_file(folder), disk)
        self._index = self._new_index()
        self._steps: dict[str, StepReceipt] = {}

    def __enter__(self) -> Self:
        """Lock the folder and read the receipts; no file is made before the first receipt.

        Raises BusyError if another push has the folder, ConfigError if it belongs to another run,
        FatalError if a file is damaged or cannot be written.
        """
        with ExitStack() as opened, writing(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            opened.enter_context(locked(self._folder, by="push"))
            self._index = self.read()
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._journal.close()
        self._opened.close()

    def outcomes(self, chunks: Sequence[Chunk]) -> LazySequence[ChunkOutcome]:
        """Return the outcome of each chunk, in the order of the chunks, by all receipts so far."""
        return self._index.outcomes(chunks)

    def add(self, receipt: Receipt | StepReceipt) -> None:
        """Add a receipt, which is on the disk on return."""
        with self._lock:
            with writing(self._folder):
                if not self._journal.number:
                    self._journal.append(self.header)
                self._journal.append(receipt)
            self._note(receipt, self._index)

    def last(self, chunk: Chunk, first: int, count: int) -> Receipt | None:
        """Return the receipt of the last attempt to send these records, None if there was none."""
        with self._lock:
            return self._index.last(chunk.ordinal, first, count)

    @property
    def steps(self) -> Mapping[str, StepReceipt]:
        """The last receipt of each step before and after the chunks, of this push or replay."""
        return self._steps

    def read(self) -> ReceiptIndex:
        """Return the receipts in the folder; make no file.

        Raises ConfigError if they belong to another run, or if there is nothing to replay.
        """
        path = _last_file(self._folder)
        self._journal = _journal_in(path, self._disk)
        index = self._new_index()
        self._steps = {}
        for entry in self._journal.read():
            if isinstance(entry, ReceiptsHeader):
                self._check_header(entry, path)
            else:
                self._note(entry, index)
        if not self._is_replay:
            return index
        number = int(path.stem.rpartition("-")[2])
        outcomes = index.outcomes(self._planned)
        if self._journal.number and all(outcome.allows_next for outcome in outcomes):
            new = self._folder / f"receipts-{number + 1:03d}.jsonl"
            self._journal = _journal_in(new, self._disk)
            self._steps = {}
            return self._new_index()
        if number == 1:
            found = "a push that is not finished" if self._journal.number else "nothing was pushed"
            raise ConfigError(
                f"⟦replay⟧: {self._folder}: {found}; expected a finished push: push without it"
                " first"
            )
        return index

    def _note(self, receipt: Receipt | StepReceipt, index: ReceiptIndex) -> None:
        """Keep the receipt that was read or appended last."""
        if isinstance(receipt, StepReceipt):
            self._steps[receipt.step] = receipt
        else:
            index.add(receipt, self._journal.offset)

    def _new_index(self) -> ReceiptIndex:
        return ReceiptIndex(self._journal.path, chunks=len(self._planned))

    def _check_header(self, header: ReceiptsHeader, path: Path) -> None:
        if header.version != VERSION:
            raise ConfigError(f"{path}:1: version {header.version}; expected {VERSION}")
        if header != self.header:
            raise ConfigError(
                f"{path}: receipts of {header}; expected those of {self.header}: push the files "
                f"that they belong to, with the same ⟦groups_mode⟧, or remove {self._folder} to "
                "push all of these"
            )
