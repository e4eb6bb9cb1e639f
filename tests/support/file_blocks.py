"""Files of a listing in blocks, as a walk over a local tree yields them."""

from collections.abc import Iterable, Iterator
from itertools import groupby

from feedferry.transforms.sources.listing import EntryKind, FileBlock, ListingEntry

SIZES = (0, 1, 2, 7, 1000)
"""Sizes of blocks that must give the same changes; with 0, entries come one by one."""


def in_blocks(entries: Iterable[ListingEntry], most: int) -> Iterator[ListingEntry | FileBlock]:
    """Yield files that follow one another in blocks of at most a number, and other entries."""
    for is_file, group in groupby(entries, key=lambda entry: entry.kind is EntryKind.FILE):
        run = [*group]
        if not is_file or not most:
            yield from run
            continue
        for begin in range(0, len(run), most):
            yield block_of(run[begin : begin + most])


def block_of(entries: list[ListingEntry]) -> FileBlock:
    rows = [(each.key, each.url, each.size, each.latest_ns, each.fingerprint) for each in entries]
    return FileBlock([each.key for each in entries], lambda: rows, entries.__getitem__)
