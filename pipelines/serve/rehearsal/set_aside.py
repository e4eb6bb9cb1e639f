"""Deliveries that are set aside: what is told of them, and how their user asks for another attempt.

A delivery is set aside where its digestion, or its conversion in a gateway, was not finished in
time, ended its process again and again, or met a defect. What comes after it goes on.

::

    SPOOL/retry/12        another attempt at delivery 12 is asked for; removed when it was noted
"""

import enum
from collections.abc import Iterable
from pathlib import Path

import msgspec

from schemas.delivery import Delivery, Door
from transforms.sources.spool import is_whole, name_of

RETRY = "retry"
"""Folder of a spool where deliveries are asked for again."""

MAX_ATTEMPTS = 3
"""How often a delivery is begun that was never finished, before it is set aside."""

ALL = "all"


class By(enum.Enum):
    """Who has set a delivery aside."""

    INDEX = "index"
    GATEWAY = "gateway"


class TimeLimit(msgspec.Struct, frozen=True, kw_only=True):
    """How long one feed may take: `seconds`, and more for each byte of it."""

    seconds: float = 300.0
    bytes_per_second: int = 1_000_000

    def of(self, size: int) -> float:
        """Return the limit for a feed of `size` bytes."""
        return self.seconds + size / self.bytes_per_second


DEFAULT_LIMIT = TimeLimit()


class SetAside(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery that is set aside; `name` is its datasource, groupsource or profile.

    `at` is when it arrived, `set_aside_at` when it was set aside, in RFC 3339.
    """

    ordinal: int
    by: By
    reason: str
    set_aside_at: str
    door: Door | None = None
    name: str = ""
    feedtype: str = ""
    bytes: int = 0
    at: str = ""


def ended_too_often() -> str:
    """Return the reason for a delivery that ended its process each time that it was begun."""
    return f"begun {MAX_ATTEMPTS} times and never finished: the process ended each time"


def ask(spool: Path, ordinals: Iterable[int]) -> None:
    """Ask for another attempt at deliveries, of the receiver that runs or starts next."""
    folder = spool / RETRY
    folder.mkdir(exist_ok=True)
    for ordinal in ordinals:
        (folder / str(ordinal)).touch()


def asked(spool: Path) -> list[int]:
    """Return the deliveries that another attempt is asked for, in their order."""
    folder = spool / RETRY
    if not folder.is_dir():
        return []
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdecimal())


def answered(spool: Path, ordinal: int) -> None:
    """Note that a request for another attempt was taken."""
    (spool / RETRY / str(ordinal)).unlink(missing_ok=True)


def again(deliveries: Iterable[Delivery], ordinal: int) -> tuple[Delivery, ...]:
    """Return a delivery, and all later ones of the same name at the same door, in order.

    They are repeated with it: records of the older one must not overwrite newer ones. The first
    is alone where a later one supersedes it, a full feed or one that says the same.
    """
    found: list[Delivery] = []
    for delivery in deliveries:
        if delivery.ordinal == ordinal or (found and _lane(delivery) == _lane(found[0])):
            found.append(delivery)
    return tuple(found)


def superseding(repeated: tuple[Delivery, ...]) -> Delivery | None:
    """Return the last delivery that says anew all that there is, if it is not the first."""
    return next((one for one in reversed(repeated[1:]) if is_whole(one)), None)


def _lane(delivery: Delivery) -> tuple[Door, str]:
    return delivery.door, name_of(delivery)
