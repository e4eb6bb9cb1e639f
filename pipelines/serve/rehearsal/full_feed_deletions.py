"""What full feeds removed, for whoever forwards them to an appliance that knows no such feeds.

It is asked of the index of a spool, while the receiver goes on to write that. Documents that the
spool never saw are not in it.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from pipelines.serve.rehearsal import deliveries, documents
from pipelines.serve.rehearsal.set_aside import SetAside
from pipelines.serve.rehearsal.views import Status
from schemas.delivery import Delivery
from schemas.errors import SourceError
from schemas.feed import INCREMENTAL, Feed
from schemas.record import Action, Record
from transforms.formats import GSA_FEED, WriteOptions, write_all
from transforms.storage.atomic import whole_file

FORMAT = GSA_FEED.name
"""The format that deletions are written in."""

_WAIT_SECONDS = 10.0


def is_digested(index: Path, ordinal: int) -> bool:
    """Whether all deliveries up to one are digested; raise SourceError if that cannot be asked."""
    if not index.exists():
        return False
    with _connected(index) as connection:
        waiting = deliveries.left_behind(connection)[:1]
        return deliveries.applied(connection) >= ordinal and not any(
            one <= ordinal for one in waiting
        )


def is_set_aside(index: Path, ordinal: int) -> bool:
    """Whether the index could not digest a delivery."""
    with _connected(index) as connection:
        return deliveries.status(connection, ordinal) is Status.SET_ASIDE


def read_set_aside(index: Path) -> list[SetAside]:
    """Return what the index has set aside; nothing where there is no index yet."""
    if not index.exists():
        return []
    with _connected(index) as connection:
        return deliveries.read_set_aside(connection)


def write_deletions(
    index: Path, delivery: Delivery, path: Path, *, is_settled: Callable[[int], bool]
) -> int:
    """Write a feed that deletes what a full feed removed; return the number of its records.

    What other datasources have made theirs since then, by deliveries that are settled, is not among
    them. Raises SourceError where the index cannot be read.
    """
    feed = Feed(datasource=delivery.datasource, feedtype=INCREMENTAL)
    count = 0

    def deletions(connection: sqlite3.Connection) -> Iterator[Record]:
        nonlocal count
        for url, taken_by in documents.read_left_out(connection, delivery):
            if taken_by is None or not is_settled(taken_by):
                count += 1
                yield Record(url=url, action=Action.DELETE)

    with _connected(index) as connection, whole_file(path) as stream:
        write_all(GSA_FEED.make_encoder(WriteOptions(feed=feed)), deletions(connection), stream)
    return count


@contextmanager
def _connected(index: Path) -> Iterator[sqlite3.Connection]:
    try:
        uri = f"{index.absolute().as_uri()}?mode=rw"
        with closing(sqlite3.connect(uri, uri=True, timeout=_WAIT_SECONDS)) as connection:
            yield connection
    except sqlite3.Error as exc:
        raise SourceError(
            f"{index}: {exc}; expected the index of the spool; stop the receiver and remove it, and"
            " it is made again of what was delivered"
        ) from exc
