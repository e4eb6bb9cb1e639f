"""How little of a source may be left, and how much gone, before a run believes it.

A folder that is not mounted looks like an empty one, and a wrong filter like a great clearance:
what the target has would be deleted. So the listing is counted before anything is read.
"""

from collections.abc import Iterable, Iterator
from decimal import Decimal

import msgspec

from schemas.errors import StoppedError
from schemas.known import UNCHANGED
from transforms.sources.change_detection import is_folder
from transforms.sources.listing import EntryKind, ListingEntry


class Safety(msgspec.Struct, frozen=True, kw_only=True):
    """Fewest documents that a source must have, and most that may be gone at once."""

    min_records: int = 1
    max_delete_percent: Decimal = Decimal(20)


class Counts(msgspec.Struct, kw_only=True):
    """How many documents stand in a source, and how many are to be deleted."""

    listed: int = 0
    gone: int = 0


def counted(lines: Iterable[ListingEntry], counts: Counts) -> Iterator[ListingEntry]:
    """Yield all lines; `counts` are theirs when the last one was taken.

    Folders do not count, nor what is only to be forgotten: it has no url.
    """
    for line in lines:
        if line.kind is EntryKind.FILE or (line.code == UNCHANGED and not is_folder(line)):
            counts.listed += 1
        elif line.kind is EntryKind.GONE and line.url and not is_folder(line):
            counts.gone += 1
        yield line


def check_safety(counts: Counts, *, known: int, safety: Safety) -> None:
    """Raise StoppedError if a source of which the state knows some looks emptied."""
    if known and counts.listed < safety.min_records:
        raise StoppedError(
            f"{counts.listed} documents stand in the source, and the state knows {known}; expected "
            f"{safety.min_records} or more; nothing was read: see whether all of the source is "
            "there; if it is, --min-records allows fewer"
        )
    if counts.gone * 100 > safety.max_delete_percent * known:
        raise StoppedError(
            f"{counts.gone} of {known} documents that the state knows are gone; expected at most "
            f"{safety.max_delete_percent}% of them; nothing was read: see whether all of the "
            "source is there; if it is, --max-delete-percent allows more"
        )
