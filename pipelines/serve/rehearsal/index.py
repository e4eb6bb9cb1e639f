"""The index of a rehearsal appliance: a SQLite file, made from the deliveries in their order.

Each delivery is digested in one transaction, which also stores its ordinal. A receiver that is
killed in the middle leaves the file as it was, and continues after the last digested delivery. The
index is modelled on the guides, and was never compared with an appliance.

A feed that cannot be read changes nothing. The guides do not describe full feeds without their end.
Here such a feed changes nothing either, as it would remove documents that the missing part may
contain. The same applies to a full feed of which no record can be read. Any other feed without its
end is included up to the damage.

A receiver reads its index while its worker process writes, and a gateway reads that of its spool.
Reads of another process return the state before the delivery that is being digested.
"""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Self

import msgspec

from feedferry.pipelines.serve.rehearsal.delivery_table import (
    DELIVERIES_SCHEMA,
    DeliveryStatus,
    DeliveryTable,
)
from feedferry.pipelines.serve.rehearsal.documents import (
    MATCHING,
    SCHEMA,
    DigestTally,
    matching_values,
    read_changes,
)
from feedferry.pipelines.serve.rehearsal.index_database import IndexDatabase, json_object
from feedferry.pipelines.serve.worker_process import SetAsideError
from feedferry.schemas.delivery import Delivery
from feedferry.schemas.errors import FormatError, SourceError
from feedferry.schemas.feed import INCREMENTAL, Feed
from feedferry.schemas.indexed_document import DocumentOrigin, IndexedDocument
from feedferry.schemas.record import Action, Record
from feedferry.transforms.formats import GSA_FEED, ReadOptions, WriteOptions, write_all
from feedferry.transforms.storage.atomic import whole_file

INDEX_FILE = "index.db"
WAIT_SECONDS = 10.0
_BATCH = 256  # switching between reader and database for each row takes 1.5 times as long
_TABLES = (*SCHEMA, *DELIVERIES_SCHEMA)


class DatasourceTotal(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of the documents of a datasource, or of a profile.

    `documents` does not count URLs with only an ACL; it includes `crawled` and `unsearchable`.
    `bytes` is the size of all contents.
    """

    datasource: str
    kind: DocumentOrigin
    documents: int = 0
    crawled: int = 0
    unsearchable: int = 0
    acls: int = 0
    bytes: int = 0


_DOCUMENT_JSON = json_object(
    IndexedDocument,
    metadata="json(coalesce(metadata, '[]'))",
    acl="json(acl)",
    fields="json(coalesce(fields, '{}'))",
    searchable="json(iif(searchable, 'true', 'false'))",
)
_ON_PAGE = "url > coalesce(?, '') AND (? IS NULL OR datasource = ?)"
_LAST_URL = f"SELECT url FROM documents WHERE {_ON_PAGE} ORDER BY url LIMIT 1 OFFSET ?"
_DOCUMENTS = (
    f"SELECT {_DOCUMENT_JSON} FROM documents WHERE {_ON_PAGE} AND url <= coalesce(({_LAST_URL}),"
    " (SELECT max(url) FROM documents)) ORDER BY url, profile"
)
_TOTAL_JSON = json_object(
    DatasourceTotal,
    kind="iif(profile = '', 'feed', 'data')",
    documents="sum(kind <> 'acl')",
    crawled="sum(arrival IS 'CRAWLED')",
    unsearchable="sum(kind = 'data' AND NOT searchable)",
    acls="sum(kind = 'acl')",
    bytes="coalesce(sum(bytes), 0)",
)
_TOTALS = (
    f"SELECT {_TOTAL_JSON} FROM documents GROUP BY datasource, profile ORDER BY datasource, profile"
)
_HAS = "SELECT 1 FROM documents WHERE url = ? AND profile = ? AND kind <> 'acl'"
_TAKEN_BY = (
    "SELECT max(feed) FROM documents WHERE documents.url = left_out.url AND kind <> 'acl'"
    " AND (profile <> '' OR datasource <> ?)"
)
_LEFT_OUT = (
    f"SELECT url, ({_TAKEN_BY}) FROM left_out WHERE feed = ? AND NOT EXISTS"
    " (SELECT 1 FROM skipped WHERE skipped.url = left_out.url AND datasource <> ?) ORDER BY url"
)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _status_of(tally: DigestTally) -> DeliveryStatus:
    if not tally.in_error:
        return DeliveryStatus.COMPLETED
    return DeliveryStatus.WITH_ERRORS if tally.included else DeliveryStatus.FAILED


class Index:
    """The documents and groups of a spool; all methods are safe from several threads.

    `deliveries` has the status of each delivery. `now` returns the time in RFC 3339. `wait_seconds`
    is how long to wait for another process that writes. Raises ConfigError for a file that is no
    index of this version. A file that `is_made` by another process is opened as it is.
    """

    def __init__(
        self,
        path: Path,
        *,
        now: Callable[[], str] = _now,
        reading: ReadOptions = ReadOptions(),
        wait_seconds: float = WAIT_SECONDS,
        is_made: bool = False,
    ) -> None:
        self.path = path
        self.reading = reading
        self._database = IndexDatabase(path, _TABLES, wait_seconds=wait_seconds, is_made=is_made)
        self.deliveries = DeliveryTable(self._database, now=now)
        self._totals: tuple[int, list[DatasourceTotal]] | None = None

    def documents(
        self,
        *,
        datasource: str | None = None,
        after: str | None = None,
        limit: int = 1000,
    ) -> list[IndexedDocument]:
        """Return documents in the order of the UTF-8 of their URLs, of those after a URL.

        All documents with the same URL are on one page, so that the next page can begin after it. A
        page may have more than `limit` documents for that.
        """
        page = (after, datasource, datasource)
        return self._database.rows(IndexedDocument, _DOCUMENTS, *page, *page, limit - 1)

    def has_document(self, url: str, *, profile: str = "") -> bool:
        """Whether feeds, or a profile, have a document with this URL."""
        return bool(self._database.query(_HAS, url, profile))

    def count_matching(self, pattern: str, *, profile: str = "") -> int:
        """Return the number of documents of feeds, or of a profile, that match a pattern."""
        values = matching_values(pattern, profile)
        return int(self._database.query(f"SELECT count(*) {MATCHING}", *values)[0][0])

    def totals(self) -> list[DatasourceTotal]:
        """Return the totals of each datasource and profile; they are counted once per delivery."""
        applied, totals = self.deliveries.applied, self._totals
        if totals is None or totals[0] != applied:
            totals = self._totals = applied, self._database.rows(DatasourceTotal, _TOTALS)
        return totals[1]

    def groups_count(self) -> int:
        return int(self._database.query("SELECT count(*) FROM groups")[0][0])

    def left_out(self, delivery: Delivery) -> Iterator[tuple[str, int | None]]:
        """Yield the URLs that a full feed removed; for one thread only.

        The second value is the last delivery by which another datasource or profile took the URL.
        """
        yield from self._database.connection.execute(
            _LEFT_OUT, (delivery.datasource, delivery.ordinal, delivery.datasource)
        )

    def digest(self, delivery: Delivery, spool: Path) -> None:
        """Digest a delivery that was begun, all or nothing; its errors become its status.

        A delivery that is finished already is not digested again. Raises OperationalError if the
        index cannot be written, SetAsideError for a defect: nothing has changed then.
        """
        with self._database.lock:
            tally = DigestTally()
            try:
                self._digest(delivery, spool, tally)
            except FormatError as exc:
                tally.fail(f"ProcessFeed: parsing error: {exc}")
                self.deliveries.settle(delivery.ordinal, DeliveryStatus.FAILED, tally)
            except OSError as exc:
                tally.fail(f"{delivery.path}: {exc.strerror}; expected the file of the delivery")
                self.deliveries.settle(delivery.ordinal, DeliveryStatus.FAILED, tally)
            except sqlite3.OperationalError:
                raise
            except Exception as exc:  # a defect must not stop later deliveries
                raise SetAsideError(f"Internal Error: {exc!r}") from exc

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _digest(self, delivery: Delivery, spool: Path, tally: DigestTally) -> None:
        with self._database.transaction() as connection:
            if not self.deliveries.is_begun(delivery.ordinal):
                return  # the worker process of a receiver that was killed has finished it
            changes = read_changes(delivery, spool, tally, self.reading)
            for statement, run in groupby(changes, key=itemgetter(0)):
                while batch := [values for _, values in islice(run, _BATCH)]:
                    connection.executemany(statement, batch)
            self.deliveries.settle(delivery.ordinal, _status_of(tally), tally)


_index_of = lru_cache(maxsize=1)(Index)


def digest_delivery(index: Path, delivery: Delivery, spool: Path, reading: ReadOptions) -> None:
    """Digest a delivery that was begun, in a worker process, which keeps the index open."""
    _index_of(index, reading=reading).digest(delivery, spool)


@contextmanager
def open_index(path: Path) -> Iterator[Index]:
    """Open the index of a spool for reading; raise SourceError if it cannot be read."""
    try:
        with Index(path, is_made=True) as index:
            yield index
    except sqlite3.Error as exc:
        raise SourceError(
            f"{path}: {exc}; expected the index of the spool; stop the receiver and remove the"
            " file: it is made again from the deliveries"
        ) from exc


def write_deletions(
    index_path: Path, delivery: Delivery, path: Path, *, is_settled: Callable[[int], bool]
) -> int:
    """Write a feed that deletes the documents a full feed removed; return the number of records.

    It is for an appliance without full feeds. Documents that the spool never contained are not in
    it, nor those that another datasource has taken since then by a settled delivery. Raises
    SourceError if the index cannot be read, SetAsideError if it has set the delivery aside.
    """
    count = 0

    def deletions(index: Index) -> Iterator[Record]:
        nonlocal count
        for url, taken_by in index.left_out(delivery):
            if taken_by is None or not is_settled(taken_by):
                count += 1
                yield Record(url=url, action=Action.DELETE)

    feed = Feed(datasource=delivery.datasource, feedtype=INCREMENTAL)
    with open_index(index_path) as index, whole_file(path) as stream:
        if index.deliveries.status(delivery.ordinal) is DeliveryStatus.SET_ASIDE:
            raise SetAsideError("the index could not digest it, so its deletions are not known")
        write_all(GSA_FEED.make_encoder(WriteOptions(feed=feed)), deletions(index), stream)
    return count
