"""Deliveries that are set aside, and how a user requests another attempt at them.

A delivery is set aside when its digestion, or its conversion in a gateway, exceeds its time limit,
ends its process repeatedly, or meets a defect of feedferry. Later deliveries are processed.

::

    SPOOL/retry/12        a request to retry delivery 12; removed when the receiver has taken it
"""

import enum
from collections.abc import Iterable
from pathlib import Path

import msgspec

from schemas.delivery import Delivery, Door
from transforms.sources.spool import is_whole, name_of

RETRY_FOLDER = "retry"
ALL = "all"

MAX_ATTEMPTS = 3
"""A delivery that was begun this often, and never finished, is set aside."""

TOO_MANY_ATTEMPTS = f"begun {MAX_ATTEMPTS} times and never finished: the process ended each time"


class SetAsideError(Exception):
    """A delivery cannot be processed, now or later; the message is the reason."""


class SetAsideBy(enum.Enum):
    """The part of a receiver that has set a delivery aside."""

    INDEX = "index"
    GATEWAY = "gateway"


class SetAsideDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery that is set aside; `name` is its datasource, groupsource or profile.

    `at` is the time of arrival, `set_aside_at` the time it was set aside, in RFC 3339.
    """

    ordinal: int
    by: SetAsideBy
    reason: str
    set_aside_at: str
    door: Door | None = None
    name: str = ""
    feedtype: str = ""
    bytes: int = 0
    at: str = ""


def request_retries(spool: Path, ordinals: Iterable[int]) -> None:
    """Request another attempt from the receiver that runs, or from the next one that starts."""
    folder = spool / RETRY_FOLDER
    folder.mkdir(exist_ok=True)
    for ordinal in ordinals:
        (folder / str(ordinal)).touch()


def requested_retries(spool: Path) -> list[int]:
    """Return the ordinals of the deliveries to retry, in order."""
    folder = spool / RETRY_FOLDER
    if not folder.is_dir():
        return []
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdecimal())


def remove_retry_request(spool: Path, ordinal: int) -> None:
    (spool / RETRY_FOLDER / str(ordinal)).unlink(missing_ok=True)


def queue_of(delivery: Delivery) -> tuple[Door, str]:
    """Return what orders deliveries: those with the same value are processed in order."""
    return delivery.door, name_of(delivery)


def deliveries_to_repeat(deliveries: Iterable[Delivery], ordinal: int) -> tuple[Delivery, ...]:
    """Return a delivery and all later ones of the same queue, in order.

    They are repeated together, so that old records do not overwrite newer ones.
    """
    repeated: list[Delivery] = []
    for delivery in deliveries:
        is_same = repeated and queue_of(delivery) == queue_of(repeated[0])
        if delivery.ordinal == ordinal or is_same:
            repeated.append(delivery)
    return tuple(repeated)


def find_superseding(deliveries: tuple[Delivery, ...]) -> Delivery | None:
    """Return the last delivery after the first that replaces everything of its queue."""
    return next((later for later in reversed(deliveries[1:]) if is_whole(later)), None)
