"""The journal of a spool: the feeds that a receiver took, in the order of their arrival.

A spool is a folder with a journal, `deliveries.jsonl`, and the files of the feeds that it names. It
may be read while the receiver writes to it: lines and files never change.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from feedferry.schemas.delivery import JOURNAL, Delivery
from feedferry.schemas.feed import CLEANUP, FULL, REPLACE, is_web
from feedferry.transforms.formats import by_name
from feedferry.transforms.storage.files.journal import DISK, Disk, Journal

_decoder = msgspec.json.Decoder(Delivery)


def open_deliveries(spool: Path, *, disk: Disk = DISK) -> Journal[Delivery]:
    """Return the journal of a spool; ordinals rise from line to line, and feeds are below it."""
    last = 0

    def decode(line: bytes) -> Delivery:
        nonlocal last
        delivery = _decoder.decode(line)
        if delivery.ordinal <= last:
            raise ValueError(f"ordinal {delivery.ordinal} after {last}")
        if delivery.path is not None and not _is_inside(delivery.path):
            raise ValueError(f"path {delivery.path!r}, which is not below the spool")
        last = delivery.ordinal
        return delivery

    return Journal(
        spool / JOURNAL,
        decode,
        expected="a delivery, as feedferry serve writes it",
        fix="take the line out, and all but the feed that it names is read",
        disk=disk,
    )


def read_deliveries(spool: Path) -> Iterator[Delivery]:
    """Yield the deliveries in order of arrival; a line that is still being written is ignored."""
    return open_deliveries(spool).read()


def is_whole(delivery: Delivery) -> bool:
    """Whether a delivery replaces everything of its datasource or groupsource."""
    format_ = by_name(delivery.format)
    if format_.holds_only_memberships:
        return delivery.feedtype in (FULL, CLEANUP, REPLACE)
    is_content = not is_web(delivery.datasource, delivery.feedtype)
    return format_.has_feedtypes and delivery.feedtype == FULL and is_content


def name_of(delivery: Delivery) -> str:
    """Return the datasource, groupsource or profile of a delivery."""
    return delivery.profile or delivery.datasource


def queue_of(delivery: Delivery) -> tuple[str, str]:
    """Return what orders deliveries: those with the same value are processed in order."""
    return delivery.endpoint, name_of(delivery)


def _is_inside(path: str) -> bool:
    parts = {*path.split("/")}
    return not path.startswith("/") and ".." not in parts and bool(parts - {"", "."})
