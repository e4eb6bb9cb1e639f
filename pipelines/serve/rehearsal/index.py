"""The index of a rehearsal appliance: a SQLite file, made from the deliveries in their order.

Each delivery is digested in one transaction, which also stores its ordinal. A receiver that is
killed in the middle leaves the file as it was, and continues after the last digested delivery. The
index is modelled on the guides, and was never compared with an appliance.

A feed that cannot be read changes nothing. The guides do not describe full feeds without their end.
Here such a feed changes nothing either, as it would remove documents that the missing part may
contain. The same applies to a full feed of which no record can be read. Any other feed without its
end is included up to the damage.
"""

import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path

import msgspec

from pipelines.serve.rehearsal import documents
from pipelines.serve.rehearsal.documents import Change
from pipelines.serve.rehearsal.index_reader import (
    WAIT_SECONDS,
    DeliveryStatus,
    IndexReader,
    connect,
)
from pipelines.serve.worker_process import SetAsideError
from schemas.delivery import Delivery, Door
from schemas.errors import ConfigError, FormatError
from schemas.feed import Feed
from schemas.membership import Membership
from schemas.record import Record
from schemas.reject import Reject, record_error
from schemas.span import Span
from transforms.formats import ReadOptions, ReadResult, by_door
from transforms.sources.spool import is_whole, name_of

FILE_NAME = "index.db"
MAX_DETAILS = 5
"""The number of reasons that are kept for a delivery."""

MAX_DETAIL_LENGTH = 1000
"""A longer reason is truncated; a reason may quote a value of any length."""

TORN = "torn-end"
"""The code of the reject for a document whose end is missing."""

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
    *documents.SCHEMA,
    "CREATE TABLE deliveries (ordinal INTEGER PRIMARY KEY, door TEXT NOT NULL,"
    " datasource TEXT NOT NULL, feedtype TEXT NOT NULL, bytes INTEGER NOT NULL, at TEXT NOT NULL,"
    " client TEXT NOT NULL, user_agent TEXT NOT NULL, status TEXT NOT NULL,"
    " included INTEGER NOT NULL DEFAULT 0,"
    " in_error INTEGER NOT NULL DEFAULT 0, details TEXT NOT NULL DEFAULT '[]',"
    " finished_at TEXT NOT NULL DEFAULT '')",
    "CREATE INDEX deliveries_of ON deliveries (door, datasource, ordinal)",
    "CREATE INDEX deliveries_by_status ON deliveries (status, ordinal)",
)
_BEGIN = (
    "INSERT INTO deliveries"
    " (ordinal, door, datasource, feedtype, bytes, at, client, user_agent, status)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'In progress') ON CONFLICT (ordinal) DO UPDATE SET"
    " status = 'In progress', included = 0, in_error = 0, details = '[]', finished_at = ''"
)
_IS_BEGUN = "SELECT 1 FROM deliveries WHERE ordinal = ? AND status = 'In progress'"
_END = (
    "UPDATE deliveries SET status = ?, included = ?, in_error = ?, details = ?,"
    " finished_at = ? WHERE ordinal = ?"
)
_EXPECTED = (
    f"expected an index of version {VERSION}; remove the file, and it is made again from the"
    " deliveries"
)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class DigestTally:
    """Counts the records of a delivery that are included and refused, with the first reasons."""

    def __init__(self) -> None:
        self.included = self.in_error = 0
        self.details: list[str] = []

    @property
    def status(self) -> DeliveryStatus:
        if not self.in_error:
            return DeliveryStatus.COMPLETED
        return DeliveryStatus.WITH_ERRORS if self.included else DeliveryStatus.FAILED

    def refuse(self, line: int, reason: str) -> None:
        """Count a refused record."""
        self._add(f"Skipping the record, Line number: {line}, Error: {reason}")

    def refuse_end(self, reject: Reject) -> None:
        """Count the missing end of a feed."""
        self._add(f"ProcessFeed: parsing error, Line number: {reject.line}: {reject.reason}")

    def fail(self, reason: str) -> None:
        """Record that nothing of the delivery is included."""
        self.included, self.in_error = 0, max(1, self.in_error)
        self.details = [_truncate(reason), *self.details[: MAX_DETAILS - 1]]

    def _add(self, reason: str) -> None:
        self.in_error += 1
        if len(self.details) < MAX_DETAILS:
            self.details.append(_truncate(reason))


class Index(IndexReader):
    """The index that a receiver writes; all methods are safe from several threads.

    `now` returns the time in RFC 3339. `wait_seconds` is how long to wait for another process that
    writes. Raises ConfigError for a file that is no index of this version.
    """

    def __init__(
        self,
        path: Path,
        *,
        now: Callable[[], str] = _now,
        reading: ReadOptions = ReadOptions(),
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self.reading = reading
        self._now = now
        self._writing = threading.Lock()
        self._writer = _open(path, wait_seconds)
        super().__init__(path, wait_seconds=wait_seconds)

    def begin(self, delivery: Delivery) -> None:
        """Record that a delivery is being digested."""
        name, size = name_of(delivery), delivery.bytes
        row = (delivery.ordinal, delivery.door.value, name, delivery.feedtype, size)
        with self._writing:
            self._writer.execute(_BEGIN, (*row, delivery.at, delivery.client, delivery.user_agent))

    def digest(self, delivery: Delivery, spool: Path) -> None:
        """Digest a delivery that was begun, all or nothing; its errors become its status.

        A delivery that is finished already is not digested again. Raises OperationalError if the
        index cannot be written, SetAsideError for a defect: nothing has changed then.
        """
        with self._writing:
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
        with self._writing, _transaction(self._writer):
            for ordinal in ordinals:
                self._end(ordinal, status, tally)

    def close(self) -> None:
        super().close()
        with self._writing:
            self._writer.close()

    def _digest(self, delivery: Delivery, spool: Path, tally: DigestTally) -> None:
        writer = self._writer
        with _transaction(writer):
            if not writer.execute(_IS_BEGUN, (delivery.ordinal,)).fetchone():
                return  # the worker process of a receiver that was killed has finished it
            changes = read_changes(delivery, spool, tally, self.reading)
            for statement, run in groupby(changes, key=itemgetter(0)):
                while batch := [values for _, values in islice(run, _BATCH)]:
                    writer.executemany(statement, batch)
            self._end(delivery.ordinal, tally.status, tally)

    def _end(self, ordinal: int, status: DeliveryStatus, tally: DigestTally) -> None:
        details = msgspec.json.encode(tally.details).decode()
        result = (status.value, tally.included, tally.in_error, details, self._now())
        self._writer.execute(_END, (*result, ordinal))


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


def _open(path: Path, wait_seconds: float) -> sqlite3.Connection:
    """Open the file for writing, and create its tables if it is new."""
    with ExitStack() as opened:
        try:
            connection = connect(path, wait_seconds, mode="rwc")
            opened.callback(connection.close)
            for setting in _SETTINGS:
                connection.execute(setting)
            with _transaction(connection):
                if _is_blank(connection, path):
                    for statement in _SCHEMA:
                        connection.execute(statement)
        except sqlite3.OperationalError as exc:
            raise ConfigError(f"{path}: {exc}; expected a folder where it can be written") from exc
        except sqlite3.DatabaseError as exc:
            raise ConfigError(f"{path}: {exc}; {_EXPECTED}") from exc
        opened.pop_all()
    return connection


def _is_blank(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether the database is new; raise ConfigError for another database or version."""
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if tables and (application, version) != (_APPLICATION, VERSION):
        raise ConfigError(f"{path}: another database, or another version; {_EXPECTED}")
    return not tables


def read_changes(
    delivery: Delivery, spool: Path, tally: DigestTally, options: ReadOptions = ReadOptions()
) -> Iterator[Change]:
    """Yield the changes that a delivery makes, in order, with one record in memory at a time.

    Raises OSError if its file cannot be read, FormatError if it must change nothing: a full feed
    without its end would remove the documents of the missing part, and a full feed of which no
    record can be read would remove all documents.
    """
    is_feed = delivery.door is Door.FEED
    if is_whole(delivery) and is_feed:
        yield from documents.begin_full_feed(delivery)
    elif is_whole(delivery):
        yield documents.forget_groups(delivery)
    if delivery.path is None:
        return
    with (spool / delivery.path).open("rb") as stream:
        # The posted datasource and feedtype win over those in the header of a feed.
        posted = Feed(datasource=delivery.datasource, feedtype=delivery.feedtype)
        span = Span(source=delivery.path, feed=posted if is_feed else None)
        change = documents.change_of(delivery)
        is_read = False
        for result in by_door(delivery.door).read(stream, span=span, options=options):
            is_read = is_read or isinstance(result, Record | Membership)
            yield from _changes_of(result, delivery, tally, change)
    if tally.in_error and not is_read and is_whole(delivery):
        raise FormatError(f"none of its {tally.in_error} records can be read")
    if is_feed and is_whole(delivery):
        yield documents.end_full_feed(delivery)


def _changes_of(
    result: ReadResult, delivery: Delivery, tally: DigestTally, change: Callable[[Record], Change]
) -> Iterator[Change]:
    if isinstance(result, Reject):
        _refuse(result, delivery, tally)
    elif isinstance(result, Record | Membership):
        try:
            if isinstance(result, Record):
                made = change(result)
            else:
                made = documents.add_group(delivery, result)
        except Exception as exc:  # a defect costs the record, not the feed
            tally.refuse(result.provenance.line, record_error(exc).reason)
            if isinstance(result, Record):
                yield from documents.skip_record(delivery, result)
        else:
            tally.included += 1
            yield made


def _refuse(reject: Reject, delivery: Delivery, tally: DigestTally) -> None:
    if reject.code != TORN:
        tally.refuse(reject.line, reject.reason)
    elif is_whole(delivery):
        raise FormatError(f"Line number: {reject.line}: {reject.reason}")
    else:
        tally.refuse_end(reject)


def _truncate(reason: str) -> str:
    return reason if len(reason) <= MAX_DETAIL_LENGTH else f"{reason[:MAX_DETAIL_LENGTH]} …"
