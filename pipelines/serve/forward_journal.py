"""The journal of a gateway: the outcome of each delivery that needs nothing more.

Lines are appended, and each is on the disk before the next delivery begins.
"""

import enum
from pathlib import Path

import msgspec

from feedferry.pipelines.folders.gateway_folders import FORWARD, FORWARDED
from feedferry.transforms.storage.atomic import writing
from feedferry.transforms.storage.files.journal import DISK, Disk, Journal


class ForwardState(enum.Enum):
    """The state of a delivery.

    SET_ASIDE: reported, and kept in the spool; it cannot be read, its conversion was not finished,
    or the appliance refused it as a whole. LEFT_OUT: the appliance has no place for it. RETRIED
    cancels an earlier line: the delivery is to be forwarded again.
    """

    FORWARDED = "forwarded"
    SET_ASIDE = "set-aside"
    LEFT_OUT = "left-out"
    RETRIED = "retried"


class DeliveryOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """The outcome of a delivery.

    `accepted` and `refused` count records by the reply of the appliance, `rejected` and `filtered`
    count records that were not sent, `groups` those that are kept, `losses` what records were sent
    without. Of the rejected documents, `withheld` are shown to no user; `waiting` are forwarded so
    until the ACL of a parent arrives. `changed` counts documents of earlier deliveries that got a
    new decision. `decided` says that the appliance got decisions of ACLs. The counts are those of a
    run, which has forwarded the deliveries `together`, too. `at` is a time in RFC 3339.
    """

    ordinal: int
    state: ForwardState
    accepted: int = 0
    refused: int = 0
    rejected: int = 0
    filtered: int = 0
    groups: int = 0
    losses: dict[str, int] = {}
    withheld: int = 0
    waiting: int = 0
    changed: int = 0
    decided: bool = False
    together: tuple[int, ...] = ()
    reason: str = ""
    at: str = ""


class ForwardJournal:
    """The journal file of a spool, which one gateway has to itself.

    `last` is the last ordinal in the journal, `last_decided` that of a delivery whose ACLs were
    decided. `set_aside` has the deliveries that are set aside, by ordinal.

    Raises FatalError if the file cannot be opened or read.
    """

    def __init__(self, spool: Path, *, disk: Disk = DISK) -> None:
        self.path = path = spool / FORWARD / FORWARDED
        self.last = self.last_decided = 0
        self.set_aside: dict[int, DeliveryOutcome] = {}
        self._open: set[int] = set()  # of those up to the last
        decode = msgspec.json.Decoder(DeliveryOutcome).decode
        self._lines = Journal(path, decode, expected="the outcome of a delivery", disk=disk)
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            for outcome in self._lines.read():
                self._apply(outcome)
            self._lines.open()

    def is_settled(self, ordinal: int) -> bool:
        """Whether a delivery needs nothing more."""
        return ordinal <= self.last and ordinal not in self._open

    def append(self, outcome: DeliveryOutcome) -> None:
        """Append a line; it is on the disk when this returns."""
        self._lines.append(outcome)
        self._apply(outcome)

    def close(self) -> None:
        self._lines.close()

    def _apply(self, outcome: DeliveryOutcome) -> None:
        ordinal = outcome.ordinal
        last = max((ordinal, *outcome.together))
        self._open.update(range(self.last + 1, last + 1))
        self.last = max(self.last, last)
        if outcome.decided:
            self.last_decided = max(self.last_decided, last)
        self._open.difference_update(outcome.together)
        self.set_aside.pop(ordinal, None)
        if outcome.state is ForwardState.RETRIED:
            self._open.add(ordinal)
            return
        self._open.discard(ordinal)
        if outcome.state is ForwardState.SET_ASIDE:
            self.set_aside[ordinal] = outcome


def run_folder(spool: Path, ordinal: int) -> Path:
    """Return the folder of the run that forwards a delivery."""
    return spool / FORWARD / f"{ordinal:012d}"
