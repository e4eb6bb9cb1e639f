"""The journal of a push: a receipt for each attempt, on the disk before anything else goes on.

A folder holds the receipts of one run at one target: a file for the push, and one for each time
that it was sent again. The first line of a file names both; the last, where all is settled, says
so. A line that was torn by a crash was never acted on, so it is cut off.
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
from schemas.receipt import AttemptState, Receipt
from transforms.storage.atomic import PARTIAL
from transforms.storage.journal import DISK, Disk, Lines
from transforms.storage.lock import Lock

LOCK = "lock"
VERSION = 1
_NAME = re.compile(r"receipts-([0-9]{3,})\.jsonl", re.ASCII)
_FINISHED = b'{"finished":'


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a file of receipts."""

    version: int
    target: str
    run: str


class _Last(msgspec.Struct, frozen=True):
    """The line behind which nothing is left to be settled, with the time in RFC 3339."""

    finished: str


class _Journal(NamedTuple):
    """What a file of receipts holds; `size` is where its last whole line ends."""

    head: Head | None
    receipts: tuple[Receipt, ...]
    is_finished: bool
    size: int


_Key = tuple[int, int, int]
_Line = TypeVar("_Line", Head, Receipt)


class Receipts:
    """The receipts of one run at one target, which no other process can have at the same time.

    With `replay`, all is sent again: in a new file if the one before is finished, in the same if
    that was begun so. `disk` does what makes files durable. All methods are safe from several
    threads.
    """

    def __init__(
        self, folder: Path, *, target: str, run: str, replay: bool = False, disk: Disk = DISK
    ) -> None:
        self._folder = folder
        self._disk = disk
        self._head = Head(version=VERSION, target=target, run=run)
        self._replay = replay
        self._lock = threading.Lock()
        self._opened = ExitStack()
        self._last: dict[_Key, Receipt] = {}
        self._attempts: dict[_Key, int] = {}
        self._digests: dict[int, str] = {}
        self.is_finished = False

    def __enter__(self) -> Self:
        """Open the journal.

        Raises BusyError if another push has it, ConfigError if it is another's or there is nothing
        to send again, FatalError if it is damaged or cannot be written.
        """
        with ExitStack() as opened, _explained(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
            where = str(self._folder)
            opened.enter_context(Lock(self._folder / LOCK, where=where, by="push"))
            self._open(opened)
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._opened.close()

    def check(self) -> None:
        """Raise ConfigError if the receipts in the folder refuse this push; make no file."""
        newest = _newest(self._folder)
        self._generation(newest, self._read(newest) if newest else _NOTHING)

    def add(self, receipt: Receipt) -> None:
        """Keep a receipt; it is on the disk when this returns."""
        with self._lock:
            self._write(receipt)
            self._remember(receipt)
            self.is_finished = False

    def known(self, chunk: Chunk, first: int, count: int) -> AttemptState | None:
        """Return how the last attempt with these records ended, None if there was none.

        Raises ConfigError if the chunk is not the one that was pushed.
        """
        with self._lock:
            pushed = self._digests.get(chunk.ordinal, chunk.sha256)
            last = self._last.get((chunk.ordinal, first, count))
        if pushed != chunk.sha256:
            raise ConfigError(
                f"{chunk.path}: sha256 {chunk.sha256}; expected {pushed}, which the push began "
                f"with: bring that file back, or remove {self._folder} and push all of it again"
            )
        return last.state if last else None

    def attempts(self, chunk: Chunk, first: int, count: int) -> int:
        """Return how often it was tried to send these records."""
        with self._lock:
            return self._attempts.get((chunk.ordinal, first, count), 0)

    def finish(self, at: str = "") -> None:
        """Say that all is settled; `at` is the time in RFC 3339."""
        with self._lock:
            if not self.is_finished:
                self._write(_Last(at))
                self.is_finished = True

    def _open(self, opened: ExitStack) -> None:
        newest = _newest(self._folder)
        journal = self._read(newest) if newest else _NOTHING
        generation = self._generation(newest, journal)
        if generation != newest or journal.head is None:
            self._begin(generation)
            journal = self._read(generation)
        for receipt in journal.receipts:
            self._remember(receipt)
        self.is_finished = journal.is_finished
        self._lines = Lines(_path(self._folder, generation), size=journal.size, disk=self._disk)
        opened.callback(self._lines.close)

    def _read(self, generation: int) -> _Journal:
        path = _path(self._folder, generation)
        journal = _read(path)
        if journal.head in (None, self._head):
            return journal
        found, expected = _shown(journal.head), _shown(self._head)
        raise ConfigError(
            f"{path}: receipts of {found}; expected those of {expected}: push the files that they"
            " are of, with the same --groups-mode,"
            f" or remove {self._folder} to push all of these"
        )

    def _generation(self, newest: int, journal: _Journal) -> int:
        """Return the number of the file to go on with."""
        if not self._replay:
            return newest or 1
        if journal.is_finished:
            return newest + 1
        if newest > 1:
            return newest
        found = "a push that is not finished" if newest else "nothing was pushed"
        raise ConfigError(
            f"--replay: {self._folder}: {found}; expected a push that is: push first, without it"
        )

    def _begin(self, generation: int) -> None:
        path = _path(self._folder, generation)
        partial = path.with_name(path.name + PARTIAL)
        with partial.open("wb") as stream:
            stream.write(_line(self._head))
            stream.flush()
            self._disk.sync(stream.fileno())
        self._disk.rename(partial, path)
        self._disk.sync_folder(self._folder)
        self._disk.sync_folder(self._folder.parent)

    def _write(self, line: Receipt | _Last) -> None:
        with _explained(self._folder):
            self._lines.append(_line(line))

    def _remember(self, receipt: Receipt) -> None:
        key = (receipt.chunk, receipt.first, receipt.count)
        self._last[key] = receipt
        self._attempts[key] = max(receipt.attempt, self._attempts.get(key, 0))
        self._digests[receipt.chunk] = receipt.sha256


def read_receipts(folder: Path) -> list[Receipt]:
    """Return the receipts of the newest push from a folder, in their order, without its lock."""
    with _explained(folder):
        newest = _newest(folder)
        return list(_read(_path(folder, newest)).receipts) if newest else []


def _newest(folder: Path) -> int:
    """Return the number of the newest file, 0 if there is none."""
    if not folder.is_dir():
        return 0
    found = (_NAME.fullmatch(path.name) for path in folder.iterdir())
    return max((int(name[1]) for name in found if name), default=0)


def _path(folder: Path, generation: int) -> Path:
    return folder / f"receipts-{generation:03d}.jsonl"


def _read(path: Path) -> _Journal:
    """Return all whole lines; raise FatalError at one that cannot be read."""
    text = path.read_bytes()
    size = text.rfind(b"\n") + 1
    lines = text[:size].split(b"\n")[:-1]
    if not lines:
        return _NOTHING
    head = _decoded(lines[0], Head, f"{path}:1")
    if head.version != VERSION:
        raise ConfigError(f"{path}:1: version {head.version}; expected {VERSION}")
    receipts = tuple(
        _decoded(line, Receipt, f"{path}:{number}")
        for number, line in enumerate(lines[1:], start=2)
        if not line.startswith(_FINISHED)
    )
    return _Journal(head, receipts, lines[-1].startswith(_FINISHED), size)


def _decoded(line: bytes, kind: type[_Line], where: str) -> _Line:
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise FatalError(
            f"{where}: a line that was damaged; expected a receipt: bring the file back from a "
            "copy, or remove its folder and push everything again"
        ) from exc


def _line(line: msgspec.Struct) -> bytes:
    return msgspec.json.encode(line) + b"\n"


def _shown(head: Head | None) -> str:
    return f"{head.run!r} at {head.target!r}" if head else ""


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise FatalError(f"{folder}: {exc.strerror}; expected to keep receipts there") from exc


_NOTHING = _Journal(None, (), False, 0)
