"""The changes by a push in who sees the documents of an index: counts, and a list."""

import re
from collections.abc import Iterator, Mapping, Sequence
from csv import DictReader
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from feedferry.transforms.access.meet import AclChange
from feedferry.transforms.rules.withheld_list import csv_line

COMPARE: Final = "compare who sees documents"
"""The step of a push whose reply has the counts."""

ACL_CHANGES: Final = "acl-changes.csv"
"""The list, next to the receipts of a push."""

LISTED = (AclChange.WIDER, AclChange.BOTH, AclChange.NARROWER, AclChange.HIDDEN)
"""Documents that are new, gone or the same are counted only."""

_MAX_SCANNED = 10_000
_COUNT = re.compile(r"([a-z]+) ([0-9]+)")


class ListedChange(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the list; `gained` and `lost` are tokens of users and groups, or `*`."""

    url: str
    datasource: str
    change: str
    gained: Sequence[str] = ()
    lost: Sequence[str] = ()


class AccessComparison(msgspec.Struct, frozen=True, kw_only=True):
    """The documents of a run by the change in who sees them, and why it would stop, if it would."""

    changes: Mapping[AclChange, int]
    stop: str | None = None


HEAD = csv_line(*ListedChange.__struct_fields__)


def counts_text(counts: Mapping[AclChange, int]) -> str:
    """Return counts as the reply to a step, which `read_counts` reads.

    >>> counts_text({AclChange.NEW: 2, AclChange.WIDER: 1})
    'wider 1, new 2'
    """
    return ", ".join(f"{change.value} {counts[change]}" for change in AclChange if change in counts)


def read_counts(text: str) -> dict[str, int]:
    """Return the counts of a reply by the names of changes.

    >>> read_counts("wider 1, new 2")
    {'wider': 1, 'new': 2}
    """
    return {name: int(count) for name, count in _COUNT.findall(text)}


def read_changes(path: Path) -> Iterator[ListedChange]:
    """Yield the lines of a list; there is no file without one."""
    if not path.exists():
        return
    with path.open(encoding="utf-8", newline="") as lines:
        for row in DictReader(lines):
            yield ListedChange(
                url=row["url"],
                datasource=row["datasource"],
                change=row["change"],
                gained=_names(row["gained"]),
                lost=_names(row["lost"]),
            )


def first_changes(path: Path, most: int) -> list[ListedChange]:
    """Return the changes among the first of a list, the wider ones first."""
    names = [change.value for change in LISTED]
    changes = islice(read_changes(path), _MAX_SCANNED)
    return sorted(changes, key=lambda change: names.index(change.change))[:most]


def change_line(change: ListedChange) -> bytes:
    """Return a line of the list; no token has a comma."""
    names = ",".join(change.gained), ",".join(change.lost)
    return csv_line(change.url, change.datasource, change.change, *names)


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(",")) if text else ()
