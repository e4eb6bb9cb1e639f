"""What became of the deliveries that a gateway forwards: a line for each that needs nothing more.

The journal is appended to, and each line is on the disk before the next delivery begins.
"""

import enum
from collections.abc import Iterator
from pathlib import Path

import msgspec

from schemas.errors import FatalError
from transforms.storage.journal import DISK, Disk, Lines

FORWARDED = "forwarded.jsonl"
_FEW = 1000


class State(enum.Enum):
    """What became of a delivery.

    SET_ASIDE is told, and stays in the spool: nothing can be read of it, its conversion was not
    finished, or the appliance refused it as a whole. LEFT_OUT has no place in the appliance.
    RETRIED takes back what an earlier line says: the delivery is to be forwarded again.
    """

    FORWARDED = "forwarded"
    SET_ASIDE = "set-aside"
    LEFT_OUT = "left-out"
    RETRIED = "retried"


class Forwarded(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A delivery that needs nothing more; all up to the ordinal `settled` are such.

    `accepted` and `refused` count records by what the appliance said, `rejected` and `filtered`
    those that were not sent, `losses` what others were sent without. `at` is a time in RFC 3339.
    """

    ordinal: int
    state: State
    settled: int
    accepted: int = 0
    refused: int = 0
    rejected: int = 0
    filtered: int = 0
    losses: dict[str, int] = {}
    reason: str = ""
    at: str = ""


class Ledger:
    """The journal of a gateway, which is alone with it.

    All up to the ordinal `settled` need nothing more, but for those that are retried, and none
    behind `last` was ever noted. `aside` has the deliveries that are set aside, by ordinal.

    Raises FatalError where it cannot be opened or read. A last line without its end was never
    written.
    """

    def __init__(self, path: Path, *, disk: Disk = DISK) -> None:
        self._path = path
        self._beyond: set[int] = set()
        self._most = _FEW
        self.settled = 0
        self.last = 0
        self.aside: dict[int, Forwarded] = {}
        self._retried: set[int] = set()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._lines = Lines(path, size=self._read(), disk=disk)
            disk.sync_folder(path.parent)
            disk.sync_folder(path.parent.parent)
        except OSError as exc:
            raise FatalError(
                f"{path}: {exc.strerror}; expected to keep there what became of deliveries"
            ) from exc

    @property
    def set_aside(self) -> int:
        """How many deliveries are set aside."""
        return len(self.aside)

    @property
    def open_after(self) -> int:
        """All deliveries up to this ordinal need nothing more, without exception."""
        return min(self._retried, default=self.settled + 1) - 1

    def is_settled(self, ordinal: int) -> bool:
        """Whether a delivery needs nothing more."""
        if ordinal in self._retried:
            return False
        return ordinal <= self.settled or ordinal in self._beyond

    def note(self, forwarded: Forwarded) -> None:
        """Append a line; it is on the disk when this returns."""
        self._lines.append(msgspec.json.encode(forwarded) + b"\n")
        self._remember(forwarded)

    def close(self) -> None:
        self._lines.close()

    def _read(self) -> int:
        """Take in all whole lines; return where they end."""
        end = 0
        for forwarded, end in _read_lines(self._path):  # noqa: B007 - the last end counts
            self._remember(forwarded)
        return end

    def _remember(self, forwarded: Forwarded) -> None:
        ordinal = forwarded.ordinal
        self.last = max(self.last, ordinal, forwarded.settled)
        self.aside.pop(ordinal, None)
        if forwarded.state is State.RETRIED:
            self._retried.add(ordinal)
            return
        self._retried.discard(ordinal)
        self._beyond.add(ordinal)
        self.settled = max(self.settled, forwarded.settled)
        if forwarded.state is State.SET_ASIDE:
            self.aside[ordinal] = forwarded
        if len(self._beyond) > self._most:
            self._beyond = {one for one in self._beyond if one > self.settled}
            self._most = max(2 * len(self._beyond), _FEW)


def read_set_aside(path: Path) -> dict[int, Forwarded]:
    """Return the deliveries that a journal says are set aside, without opening it to be written."""
    aside: dict[int, Forwarded] = {}
    for forwarded, _ in _read_lines(path):
        aside.pop(forwarded.ordinal, None)
        if forwarded.state is State.SET_ASIDE:
            aside[forwarded.ordinal] = forwarded
    return aside


def _read_lines(path: Path) -> Iterator[tuple[Forwarded, int]]:
    """Yield all whole lines, and where each ends."""
    if not path.exists():
        return
    end = 0
    with path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            if not line.endswith(b"\n"):
                return
            end += len(line)
            try:
                forwarded = msgspec.json.decode(line, type=Forwarded)
            except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
                raise FatalError(
                    f"{path}:{number}: {exc}; expected what became of a delivery; take the line out"
                ) from exc
            yield forwarded, end
