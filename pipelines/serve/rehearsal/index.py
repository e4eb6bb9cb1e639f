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

import enum
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Self, TypeVar

import msgspec

from feedferry.pipelines.serve.rehearsal.documents import (
    MATCHING,
    SCHEMA,
    DigestTally,
    matching_values,
    read_changes,
)
from feedferry.pipelines.serve.worker_process import SetAsideError
from feedferry.schemas.delivery import Delivery
from feedferry.schemas.errors import ConfigError, FormatError, SourceError
from feedferry.schemas.feed import INCREMENTAL, Feed
from feedferry.schemas.indexed_document import DocumentOrigin, IndexedDocument
from feedferry.schemas.record import Action, Record
from feedferry.transforms.formats import GSA_FEED, ReadOptions, WriteOptions, write_all
from feedferry.transforms.sources.spool import name_of
from feedferry.transforms.storage.atomic import whole_file

INDEX_FILE = "index.db"
VERSION = 5
_APPLICATION = 0x66657269  # "feri"
_BATCH = 256  # switching between reader and database for each row takes 1.5 times as long
_SETTINGS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = NORMAL",  # a delivery that a power failure loses is digested again
    "PRAGMA journal_size_limit = 67108864",
    "PRAGMA cache_size = -65536",
)
_SCHEMA = (
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
    *SCHEMA,
    "CREATE TABLE deliveries (ordinal INTEGER PRIMARY KEY, endpoint TEXT NOT NULL,"
    " datasource TEXT NOT NULL, feedtype TEXT NOT NULL, bytes INTEGER NOT NULL, at TEXT NOT NULL,"
    " client TEXT NOT NULL, user_agent TEXT NOT NULL, status TEXT NOT NULL,"
    " included INTEGER NOT NULL DEFAULT 0,"
    " in_error INTEGER NOT NULL DEFAULT 0, details TEXT NOT NULL DEFAULT '[]',"
    " finished_at TEXT NOT NULL DEFAULT '')",
    "CREATE INDEX deliveries_of ON deliveries (endpoint, datasource, ordinal)",
    "CREATE INDEX deliveries_by_status ON deliveries (status, ordinal)",
)
_BEGIN = (
    "INSERT INTO deliveries"
    " (ordinal, endpoint, datasource, feedtype, bytes, at, client, user_agent, status)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'In progress') ON CONFLICT (ordinal) DO UPDATE SET"
    " status = 'In progress', included = 0, in_error = 0, details = '[]', finished_at = ''"
)
_ERRORS = (
    "SELECT status, json_extract(details, '$[0]') FROM deliveries WHERE ordinal = ? AND in_error"
)
_FAILED = "SELECT count(*) FROM deliveries WHERE status = 'Failed in error'"
_IS_BEGUN = "SELECT 1 FROM deliveries WHERE ordinal = ? AND status = 'In progress'"
_END = (
    "UPDATE deliveries SET status = ?, included = ?, in_error = ?, details = ?,"
    " finished_at = ? WHERE ordinal = ?"
)
_EXPECTED = (
    f"expected an index of version {VERSION}; remove the file, and it is made again from the"
    " deliveries"
)
WAIT_SECONDS = 10.0
Row = TypeVar("Row", bound=msgspec.Struct)


class DeliveryStatus(enum.Enum):
    """The state of a delivery, in the words of the appliance's Feeds page.

    SET_ASIDE and WAITING are ours: a retry may be requested, or has been requested.
    """

    COMPLETED = "Completed"
    WITH_ERRORS = "Completed with errors"
    FAILED = "Failed in error"
    IN_PROGRESS = "In progress"
    SET_ASIDE = "Set aside"
    WAITING = "Waiting"


class SetAsideBy(enum.Enum):
    """The part of a receiver that has set a delivery aside."""

    INDEX = "index"
    GATEWAY = "gateway"


class SetAsideDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery that is set aside; `name` is its datasource, groupsource or profile.

    `at` is the time of arrival, `set_aside_at` the time it was set aside, in RFC 3339.
    """

    ordinal: int
    by: SetAsideBy
    reason: str
    set_aside_at: str
    endpoint: str = ""
    name: str = ""
    feedtype: str = ""
    bytes: int = 0
    at: str = ""


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


class FeedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery as a row of the Feeds page.

    `datasource` may be a groupsource or a profile. `included` counts records, `in_error` refused
    records; `details` are the first reasons. `at` is in RFC 3339.
    """

    ordinal: int
    endpoint: str
    datasource: str
    feedtype: str
    bytes: int
    at: str
    status: DeliveryStatus
    included: int = 0
    in_error: int = 0
    details: tuple[str, ...] = ()
    client: str = ""
    user_agent: str = ""

    @property
    def place(self) -> tuple[str, str]:
        """The name and the endpoint; a name at two endpoints is two datasources."""
        return self.datasource, self.endpoint


def _json_object(row: type[msgspec.Struct], **expressions: str) -> str:
    """Return the SQL expression for a row as JSON: a column for each field, or an expression."""
    pairs = (f"'{name}', {expressions.get(name, name)}" for name in row.__struct_fields__)
    return f"json_object({', '.join(pairs)})"


_IS_OPEN = "status IN ('In progress', 'Waiting')"
_APPLIED = f"SELECT ordinal FROM deliveries WHERE NOT {_IS_OPEN} ORDER BY ordinal DESC LIMIT 1"
_OPEN = (
    f"SELECT ordinal FROM deliveries WHERE {_IS_OPEN} AND ordinal < coalesce(({_APPLIED}), 0)"
    " ORDER BY ordinal"
)
_SET_ASIDE_JSON = _json_object(
    SetAsideDelivery,
    by="'index'",
    name="datasource",
    reason="coalesce(json_extract(details, '$[0]'), '')",
    set_aside_at="finished_at",
)
_SET_ASIDE = f"SELECT {_SET_ASIDE_JSON} FROM deliveries WHERE status = 'Set aside' ORDER BY ordinal"
_FEED_ROWS = (
    f"SELECT {_json_object(FeedRow, details='json(details)')} FROM deliveries"
    " WHERE ordinal IN (SELECT ordinal FROM"
    " (SELECT ordinal, row_number() OVER (PARTITION BY endpoint, datasource ORDER BY ordinal DESC)"
    " AS place FROM deliveries) WHERE place <= ?) ORDER BY ordinal DESC"
)
_DOCUMENT_JSON = _json_object(
    IndexedDocument,
    metadata="json(coalesce(metadata, '[]'))",
    acl="json(acl)",
    fields="json(coalesce(fields, '{}'))",
    searchable="json(iif(searchable, 'true', 'false'))",
)
_ON_PAGE = "url > coalesce(?1, '') AND (?2 IS NULL OR datasource = ?2)"
_LAST_URL = f"SELECT url FROM documents WHERE {_ON_PAGE} ORDER BY url LIMIT 1 OFFSET ?3"
_DOCUMENTS = (
    f"SELECT {_DOCUMENT_JSON} FROM documents WHERE {_ON_PAGE} AND url <= coalesce(({_LAST_URL}),"
    " (SELECT max(url) FROM documents)) ORDER BY url, profile"
)
_TOTAL_JSON = _json_object(
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
    " AND (profile <> '' OR datasource <> ?2)"
)
_LEFT_OUT = (
    f"SELECT url, ({_TAKEN_BY}) FROM left_out WHERE feed = ?1 AND NOT EXISTS"
    " (SELECT 1 FROM skipped WHERE skipped.url = left_out.url AND datasource <> ?2) ORDER BY url"
)


def _status_of(tally: DigestTally) -> DeliveryStatus:
    if not tally.in_error:
        return DeliveryStatus.COMPLETED
    return DeliveryStatus.WITH_ERRORS if tally.included else DeliveryStatus.FAILED


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class Index:
    """The documents, groups and deliveries of a spool; all methods are safe from several threads.

    `now` returns the time in RFC 3339. `wait_seconds` is how long to wait for another process that
    writes. Raises ConfigError for a file that is no index of this version. A file that `is_made` by
    another process is opened as it is.
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
        self._now = now
        self._lock = threading.Lock()
        try:
            self._database = _open(path, wait_seconds, is_made=is_made)
        except sqlite3.DatabaseError as exc:
            if is_made:
                raise
            is_place = isinstance(exc, sqlite3.OperationalError)
            expected = "expected a folder where it can be written" if is_place else _EXPECTED
            raise ConfigError(f"{path}: {exc}; {expected}") from exc
        self._totals: tuple[int, list[DatasourceTotal]] | None = None

    @property
    def applied(self) -> int:
        """The ordinal of the last digested delivery, 0 before the first."""
        return next((int(row[0]) for row in self._query(_APPLIED)), 0)

    def status(self, ordinal: int) -> DeliveryStatus | None:
        """Return the status of a delivery, None if it was never begun."""
        rows = self._query("SELECT status FROM deliveries WHERE ordinal = ?", ordinal)
        return next((DeliveryStatus(row[0]) for row in rows), None)

    def errors(self, ordinal: int) -> str | None:
        """Return the status and the first reason of a delivery with errors."""
        return next((": ".join(row) for row in self._query(_ERRORS, ordinal)), None)

    def failed_count(self) -> int:
        """Return the number of deliveries of which nothing is included."""
        return int(self._query(_FAILED)[0][0])

    def open_deliveries(self) -> list[int]:
        """Return the deliveries before the last digested one that are not digested, in order."""
        return [int(row[0]) for row in self._query(_OPEN)]

    def is_digested(self, ordinal: int) -> bool:
        """Whether all deliveries up to this one are digested."""
        return min(self.open_deliveries(), default=self.applied + 1) > ordinal

    def all_set_aside(self) -> list[SetAsideDelivery]:
        """Return the deliveries that the index has set aside, in order of arrival."""
        return self._rows(SetAsideDelivery, _SET_ASIDE)

    def feed_rows(self, *, per_datasource: int = 5) -> list[FeedRow]:
        """Return the last deliveries of each datasource and endpoint, newest first."""
        return self._rows(FeedRow, _FEED_ROWS, per_datasource)

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
        return self._rows(IndexedDocument, _DOCUMENTS, after, datasource, limit - 1)

    def has_document(self, url: str, *, profile: str = "") -> bool:
        """Whether feeds, or a profile, have a document with this URL."""
        return bool(self._query(_HAS, url, profile))

    def count_matching(self, pattern: str, *, profile: str = "") -> int:
        """Return the number of documents of feeds, or of a profile, that match a pattern."""
        values = matching_values(pattern, profile)
        return int(self._query(f"SELECT count(*) {MATCHING}", *values)[0][0])

    def totals(self) -> list[DatasourceTotal]:
        """Return the totals of each datasource and profile; they are counted once per delivery."""
        applied, totals = self.applied, self._totals
        if totals is None or totals[0] != applied:
            totals = self._totals = applied, self._rows(DatasourceTotal, _TOTALS)
        return totals[1]

    def groups_count(self) -> int:
        return int(self._query("SELECT count(*) FROM groups")[0][0])

    def left_out(self, delivery: Delivery) -> Iterator[tuple[str, int | None]]:
        """Yield the URLs that a full feed removed; for one thread only.

        The second value is the last delivery by which another datasource or profile took the URL.
        """
        yield from self._database.execute(_LEFT_OUT, (delivery.ordinal, delivery.datasource))

    def _rows(self, type_: type[Row], query: str, *values: object) -> list[Row]:
        decode = msgspec.json.Decoder(type_).decode
        return [decode(row[0]) for row in self._query(query, *values)]

    def _query(self, query: str, *values: object) -> list[tuple[str, ...]]:
        with self._lock:
            return self._database.execute(query, values).fetchall()

    def begin(self, delivery: Delivery) -> None:
        """Record that a delivery is being digested."""
        name, size = name_of(delivery), delivery.bytes
        row = (delivery.ordinal, delivery.endpoint, name, delivery.feedtype, size)
        with self._lock:
            self._database.execute(
                _BEGIN, (*row, delivery.at, delivery.client, delivery.user_agent)
            )

    def digest(self, delivery: Delivery, spool: Path) -> None:
        """Digest a delivery that was begun, all or nothing; its errors become its status.

        A delivery that is finished already is not digested again. Raises OperationalError if the
        index cannot be written, SetAsideError for a defect: nothing has changed then.
        """
        with self._lock:
            tally = DigestTally()
            try:
                self._digest(delivery, spool, tally)
            except FormatError as exc:
                tally.fail(f"ProcessFeed: parsing error: {exc}")
                self._end(delivery.ordinal, DeliveryStatus.FAILED, tally)
            except OSError as exc:
                tally.fail(f"{delivery.path}: {exc.strerror}; expected the file of the delivery")
                self._end(delivery.ordinal, DeliveryStatus.FAILED, tally)
            except sqlite3.OperationalError:
                raise
            except Exception as exc:  # a defect must not stop later deliveries
                raise SetAsideError(f"Internal Error: {exc!r}") from exc

    def end(self, ordinals: Iterable[int], status: DeliveryStatus, reason: str = "") -> None:
        """Record that deliveries are set aside, are not needed, or wait to be digested again."""
        tally = DigestTally()
        if reason:
            tally.fail(reason)
        with self._lock, _transaction(self._database):
            for ordinal in ordinals:
                self._end(ordinal, status, tally)

    def close(self) -> None:
        with self._lock:
            self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _digest(self, delivery: Delivery, spool: Path, tally: DigestTally) -> None:
        database = self._database
        with _transaction(database):
            if not database.execute(_IS_BEGUN, (delivery.ordinal,)).fetchone():
                return  # the worker process of a receiver that was killed has finished it
            changes = read_changes(delivery, spool, tally, self.reading)
            for statement, run in groupby(changes, key=itemgetter(0)):
                while batch := [values for _, values in islice(run, _BATCH)]:
                    database.executemany(statement, batch)
            self._end(delivery.ordinal, _status_of(tally), tally)

    def _end(self, ordinal: int, status: DeliveryStatus, tally: DigestTally) -> None:
        details = msgspec.json.encode(tally.details).decode()
        result = (status.value, tally.included, tally.in_error, details, self._now())
        self._database.execute(_END, (*result, ordinal))


_index_of = lru_cache(maxsize=1)(Index)


def digest_delivery(index: Path, delivery: Delivery, spool: Path, reading: ReadOptions) -> None:
    """Digest a delivery that was begun, in a worker process, which keeps the index open."""
    _index_of(index, reading=reading).digest(delivery, spool)


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _open(path: Path, wait_seconds: float, *, is_made: bool) -> sqlite3.Connection:
    """Open the file; create it, and its tables if it is new, unless it is made by another."""
    uri = f"{path.absolute().as_uri()}?mode={'rw' if is_made else 'rwc'}"
    with ExitStack() as opened:
        database = sqlite3.connect(
            uri, uri=True, timeout=wait_seconds, isolation_level=None, check_same_thread=False
        )
        opened.callback(database.close)
        if not is_made:
            for setting in _SETTINGS:
                database.execute(setting)
            with _transaction(database):
                for statement in _SCHEMA if _is_blank(database, path) else ():
                    database.execute(statement)
        opened.pop_all()
    return database


def _is_blank(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether the database is new; raise ConfigError for another database or version."""
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if tables and (application, version) != (_APPLICATION, VERSION):
        raise ConfigError(f"{path}: another database, or another version; {_EXPECTED}")
    return not tables


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
        if index.status(delivery.ordinal) is DeliveryStatus.SET_ASIDE:
            raise SetAsideError("the index could not digest it, so its deletions are not known")
        write_all(GSA_FEED.make_encoder(WriteOptions(feed=feed)), deletions(index), stream)
    return count
