"""What an appliance's group database can hold, and whether that is near.

**Spec:** Feeds Protocol Developer's Guide 7.x, "Feeding Groups to the Search Appliance" (three
million members), "Creating a Groups Feed Client" (1 GB).
"""

import logging
from collections.abc import Iterable

from schemas.account import Chunk
from schemas.errors import StoppedError

MAX_MEMBERS = 3_000_000
MAX_BYTES = 1_000_000_000
WARNED_PERCENT = 90

_log = logging.getLogger(__name__)


def check_groups(chunks: Iterable[Chunk]) -> None:
    """Raise StoppedError if the groups are more than one appliance takes; warn from 90 % on.

    Only what this run wrote is counted: an incremental feed is added to what is there. Chunks are
    in the order in which they are pushed; what a full feed of the same groupsource comes behind
    does not count.
    """
    chunks = _standing(chunks)
    _check("members", sum(chunk.members for chunk in chunks), MAX_MEMBERS)
    _check("bytes", sum(chunk.bytes for chunk in chunks), MAX_BYTES)


def _standing(chunks: Iterable[Chunk]) -> list[Chunk]:
    standing: dict[str | None, list[Chunk]] = {}
    begun: dict[str | None, str] = {}
    for chunk in chunks:
        if chunk.origin is not None and begun.get(chunk.datasource) != chunk.origin:
            begun[chunk.datasource] = chunk.origin
            standing.pop(chunk.datasource, None)
        standing.setdefault(chunk.datasource, []).append(chunk)
    return [chunk for chunks in standing.values() for chunk in chunks]


def _check(unit: str, count: int, limit: int) -> None:
    if count > limit:
        raise StoppedError(
            f"groups with {count:,} {unit}; expected at most {limit:,}, for the group database of"
            " an appliance takes no more; leave out groups that no ACL names"
        )
    if count * 100 >= limit * WARNED_PERCENT:
        _log.warning(
            "groups with %s %s, of %s that an appliance takes at most",
            f"{count:,}",
            unit,
            f"{limit:,}",
        )
