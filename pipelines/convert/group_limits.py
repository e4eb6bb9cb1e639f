"""Limits of the group database of an appliance.

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
    """Raise StoppedError for more groups than an appliance accepts; warn at 90 % of a limit.

    Only the chunks of this run are counted, in the order in which they are pushed; a full feed
    replaces the earlier chunks of its groupsource. The groups that an appliance already has are
    not known.
    """
    chunks = _effective(chunks)
    _check("members", sum(chunk.members for chunk in chunks), MAX_MEMBERS)
    _check("bytes", sum(chunk.bytes for chunk in chunks), MAX_BYTES)


def _effective(chunks: Iterable[Chunk]) -> list[Chunk]:
    """Return the chunks that no later full feed of their groupsource replaces."""
    effective: dict[str | None, list[Chunk]] = {}
    last_full: dict[str | None, str] = {}
    for chunk in chunks:
        if chunk.origin is not None and last_full.get(chunk.datasource) != chunk.origin:
            last_full[chunk.datasource] = chunk.origin
            effective.pop(chunk.datasource, None)
        effective.setdefault(chunk.datasource, []).append(chunk)
    return [chunk for chunks in effective.values() for chunk in chunks]


def _check(unit: str, count: int, limit: int) -> None:
    if count > limit:
        raise StoppedError(
            f"groups with {count:,} {unit}; expected at most {limit:,}, the limit of the group"
            " database of an appliance; leave out groups that no ACL names"
        )
    if count * 100 >= limit * WARNED_PERCENT:
        _log.warning(
            "groups with %s %s; an appliance accepts at most %s",
            f"{count:,}",
            unit,
            f"{limit:,}",
        )
