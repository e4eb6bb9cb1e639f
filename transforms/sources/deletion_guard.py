"""Stop a run that would delete too much.

A folder that is not mounted looks empty, and a wrong filter looks like many deletions. So the
listing is counted before any document is read.
"""

from collections.abc import Iterable, Iterator
from decimal import Decimal

import msgspec

from schemas.errors import StoppedError
from schemas.known import UNCHANGED
from transforms.sources.change_detection import is_folder
from transforms.sources.listing import EntryKind, ListingEntry


class Safety(msgspec.Struct, frozen=True, kw_only=True):
    """The least number of documents in a source, and the largest share of deletions."""

    min_records: int = 1
    max_delete_percent: Decimal = Decimal(20)


class Counts(msgspec.Struct, kw_only=True):
    """The numbers of documents in a source, and of deletions."""

    listed: int = 0
    gone: int = 0


def counted(lines: Iterable[ListingEntry], counts: Counts) -> Iterator[ListingEntry]:
    """Yield all lines and count them in `counts`.

    Folders and deletions without a URL do not count.
    """
    for line in lines:
        if line.kind is EntryKind.FILE or (line.code == UNCHANGED and not is_folder(line)):
            counts.listed += 1
        elif line.kind is EntryKind.GONE and line.url and not is_folder(line):
            counts.gone += 1
        yield line


def check_safety(counts: Counts, *, known: int, safety: Safety) -> None:
    """Raise StoppedError if too many of the documents in the state are missing in the source."""
    if known and counts.listed < safety.min_records:
        raise StoppedError(
            f"{counts.listed} documents are in the source, and the state has {known}; expected "
            f"{safety.min_records} or more; no document was read: check whether the source is "
            "complete; if it is, --min-records allows fewer"
        )
    if counts.gone * 100 > safety.max_delete_percent * known:
        raise StoppedError(
            f"{counts.gone} of {known} documents in the state are gone; expected at most "
            f"{safety.max_delete_percent}% of them; no document was read: check whether the "
            "source is complete; if it is, --max-delete-percent allows more"
        )
