"""Deletions of the documents that a full feed removes, for an appliance without full feeds.

They are read from the index of a spool, while the receiver writes to it. Documents that the spool
never contained are not among them.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pipelines.serve.rehearsal.index_reader import IndexReader
from schemas.delivery import Delivery
from schemas.errors import SourceError
from schemas.feed import INCREMENTAL, Feed
from schemas.record import Action, Record
from transforms.formats import GSA_FEED, WriteOptions, write_all
from transforms.storage.atomic import whole_file

FORMAT = GSA_FEED.name


@contextmanager
def open_index(path: Path) -> Iterator[IndexReader]:
    """Open the index of a spool; raise SourceError if it cannot be read."""
    try:
        with IndexReader(path) as index:
            yield index
    except sqlite3.Error as exc:
        raise SourceError(
            f"{path}: {exc}; expected the index of the spool; stop the receiver and remove the"
            " file: it is made again from the deliveries"
        ) from exc


def is_digested(path: Path, ordinal: int) -> bool:
    """Whether all deliveries up to one are digested; raise SourceError if it cannot be read."""
    if not path.exists():
        return False
    with open_index(path) as index:
        first_open = next(iter(index.open_deliveries()), ordinal + 1)
        return index.applied >= ordinal and first_open > ordinal


def write_deletions(
    index_path: Path, delivery: Delivery, path: Path, *, is_settled: Callable[[int], bool]
) -> int:
    """Write a feed that deletes the documents a full feed removed; return the number of records.

    Documents that another datasource has taken since then, by a settled delivery, are not deleted.
    Raises SourceError if the index cannot be read.
    """
    feed = Feed(datasource=delivery.datasource, feedtype=INCREMENTAL)
    count = 0

    def deletions(index: IndexReader) -> Iterator[Record]:
        nonlocal count
        for url, taken_by in index.left_out(delivery):
            if taken_by is None or not is_settled(taken_by):
                count += 1
                yield Record(url=url, action=Action.DELETE)

    with open_index(index_path) as index, whole_file(path) as stream:
        write_all(GSA_FEED.make_encoder(WriteOptions(feed=feed)), deletions(index), stream)
    return count
