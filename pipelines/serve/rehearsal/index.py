"""What a rehearsal appliance holds: an SQLite file, made of the deliveries in their order.

Each delivery is digested in one transaction, and its ordinal stands in the file with what it did.
Whoever is killed in the middle leaves the file as it was, and goes on behind the last delivery that
was digested. It is modelled on the guides, and was never compared with an appliance.

A feed of which nothing can be read changes nothing; nor does a full one without its end, for what
the appliance does with that is not documented, and to remove what may stand in the rest is worse
than to keep it; nor one that has records of which none can be read. Any other feed without its end
goes in as far as it goes.
"""

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Self

from pipelines.serve.rehearsal import deliveries, documents, groups
from pipelines.serve.rehearsal.digest import Interrupted, Tally, Unreadable, digest
from pipelines.serve.rehearsal.set_aside import SetAside
from pipelines.serve.rehearsal.url_patterns import fits
from pipelines.serve.rehearsal.views import Document, Fed, Group, Status, Total
from schemas.delivery import Delivery, Door
from schemas.errors import ConfigError, FormatError
from transforms.formats.base import ReadOptions

VERSION = 3
_UPGRADED = 2  # a version that is made this one
_APPLICATION = 0x66657269  # "feri"
_WAIT_SECONDS = 10.0
_BATCH = 256  # to change turns between reader and database at each row takes half as long again
_SETTINGS = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = NORMAL",  # what is lost with the power is digested again
    "PRAGMA journal_size_limit = 67108864",
    "PRAGMA cache_size = -65536",
)
_SCHEMA = (
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
    "CREATE TABLE head (groups_bytes INTEGER NOT NULL)",
    "INSERT INTO head VALUES (0)",
    *documents.SCHEMA,
    *groups.SCHEMA,
    *deliveries.SCHEMA,
)
_EXPECTED = (
    f"expected an index of version {VERSION}; remove it, and it is made again of what was delivered"
)
_log = logging.getLogger(__name__)


def _never() -> bool:
    return False


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class Index:
    """The documents, groups and deliveries of a spool; all methods are safe from several threads.

    What is asked while a delivery is digested is answered as it was before. `now` tells the time
    in RFC 3339.
    """

    def __init__(
        self, path: Path, *, now: Callable[[], str] = _now, reading: ReadOptions = ReadOptions()
    ) -> None:
        self.path = path
        self.reading = reading
        self._now = now
        self._writing, self._reading = threading.Lock(), threading.Lock()
        self._writer = _open(path)
        self._reader = _connect(path)
        self._applied = deliveries.applied(self._reader)
        self._totals: tuple[int, list[Total]] | None = None

    @property
    def applied(self) -> int:
        """The ordinal of the last delivery that was digested, 0 before the first."""
        return self._applied

    def apply(
        self, delivery: Delivery, spool: Path, *, stopping: Callable[[], bool] = _never
    ) -> None:
        """Digest a delivery, all or nothing; whatever is wrong with it becomes its status.

        One that was digested is not digested again, nor is any before it.

        Raises Interrupted when `stopping` says so: nothing has changed then, and the delivery is
        to be applied again. So it is where the index cannot be written: sqlite3.Error is raised.
        """
        if delivery.ordinal > self._applied or self.is_open(delivery.ordinal):
            self.begin(delivery)
            self.digest(delivery, spool, stopping=stopping)

    def begin(self, delivery: Delivery) -> None:
        """Note that a delivery is being digested, and count the attempt."""
        with self._writing:
            deliveries.begin(self._writer, delivery)

    def digest(
        self, delivery: Delivery, spool: Path, *, stopping: Callable[[], bool] = _never
    ) -> None:
        """Digest a delivery that was begun, as `apply` does; nothing if it is finished already.

        A defect of ours sets the delivery aside.
        """
        with self._writing:
            tally = Tally()
            try:
                self._digest(delivery, spool, tally, stopping)
            except (Interrupted, sqlite3.OperationalError) as exc:
                if stopping():
                    raise Interrupted from exc
                raise
            except (FormatError, Unreadable, OSError) as exc:
                self._fail(delivery, _words(delivery, exc), Status.FAILED, tally)
            except Exception as exc:  # no delivery may keep those behind it from being digested
                _log.exception("delivery %s", delivery.ordinal)
                self._fail(delivery, f"Internal Error: {exc!r}", Status.SET_ASIDE, tally)
            self._applied = max(delivery.ordinal, self._applied)

    def set_aside(self, delivery: Delivery, reason: str) -> None:
        """Note that a delivery is not digested, and not tried again unless that is asked for."""
        with self._writing:
            self._fail(delivery, reason, Status.SET_ASIDE)
            self._applied = max(delivery.ordinal, self._applied)

    def drop(self, ordinal: int, reason: str) -> None:
        """Note that a delivery that was set aside is of no more use."""
        tally = Tally()
        tally.fail(reason)
        with self._writing:
            deliveries.end(self._writer, ordinal, tally, at=self._now())

    def requeue(self, ordinals: Iterable[int]) -> None:
        """Have deliveries digested again."""
        with self._writing, _transaction(self._writer):
            deliveries.requeue(self._writer, ordinals)
        self.refresh()

    def forget_attempts(self) -> None:
        """Note that what is in progress was ended on purpose."""
        with self._writing:
            deliveries.forget_attempts(self._writer)

    def refresh(self) -> None:
        """Take notice of what another process has digested."""
        with self._reading:
            self._applied = deliveries.applied(self._reader)

    def attempts(self, ordinal: int) -> int:
        """Return how often a delivery was begun since it was last finished."""
        with self._reading:
            return deliveries.attempts(self._reader, ordinal)

    def status(self, ordinal: int) -> Status | None:
        """Return what became of a delivery, `None` if it was never begun."""
        with self._reading:
            return deliveries.status(self._reader, ordinal)

    def is_open(self, ordinal: int) -> bool:
        """Whether a delivery is to be digested again."""
        return self.status(ordinal) in (Status.IN_PROGRESS, Status.WAITING)

    def left_behind(self) -> list[int]:
        """Return what is to be digested again and has finished ones after it, in order."""
        with self._reading:
            return deliveries.left_behind(self._reader)

    def all_set_aside(self) -> list[SetAside]:
        """Return what is set aside, in order of arrival."""
        with self._reading:
            return deliveries.read_set_aside(self._reader)

    def interrupt(self) -> None:
        """Cut short a statement that runs; for whoever has told `apply` to stop."""
        self._writer.interrupt()

    def documents(
        self,
        *,
        datasource: str | None = None,
        prefix: str | None = None,
        after: str | None = None,
        limit: int = 1000,
    ) -> list[Document]:
        """Return documents with urls that begin so and come behind `after`, in their order.

        A url that several profiles have is not parted from itself: a page may be longer for that.
        """
        with self._reading:
            return documents.read_documents(
                self._reader, datasource=datasource, prefix=prefix, after=after, limit=limit
            )

    def holds(self, url: str, *, profile: str = "") -> bool:
        """Whether a document is held: of feeds, or of a profile."""
        with self._reading:
            return documents.holds(self._reader, url, profile)

    def count_fitting(self, pattern: str, *, profile: str = "") -> int:
        """Return how many documents of feeds, or of a profile, a pattern names."""
        with self._reading:
            return documents.count_fitting(self._reader, pattern, profile)

    def totals(self) -> list[Total]:
        """Return how much is held of each datasource and profile."""
        with self._reading:
            known, applied = self._totals, self._applied
            if known is None or known[0] != applied:
                known = self._totals = applied, documents.read_totals(self._reader)
        return list(known[1])

    def groups(
        self,
        *,
        groupsource: str | None = None,
        after: str | None = None,
        limit: int = 1000,
        members: int = 1000,
    ) -> list[Group]:
        """Return groups with names behind `after`, in their order, and the first of their members.

        A page ends where a name does, as with documents.
        """
        with self._reading:
            return groups.read_groups(
                self._reader, groupsource=groupsource, after=after, limit=limit, members=members
            )

    def groups_count(self) -> int:
        """Return how many groups are held."""
        with self._reading:
            return groups.count(self._reader)

    def groups_bytes(self) -> int:
        """Return how much of the capacity for groups is used."""
        with self._reading:
            (size,) = self._reader.execute("SELECT groups_bytes FROM head").fetchone()
        return int(size)

    def feeds(self, *, per_datasource: int = 5) -> list[Fed]:
        """Return the last deliveries of each datasource, newest first."""
        with self._reading:
            return deliveries.read_fed(self._reader, per_datasource)

    def close(self) -> None:
        """Close the files, when the delivery that is being digested has ended."""
        with self._writing, self._reading:
            self._reader.close()
            self._writer.execute("SELECT 1")  # else an interruption keeps close from tidying up
            self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _digest(
        self, delivery: Delivery, spool: Path, tally: Tally, stopping: Callable[[], bool]
    ) -> None:
        with _transaction(self._writer):
            if not deliveries.is_begun(self._writer, delivery.ordinal):
                return  # by another process, which was left alone when its receiver was killed
            changes = digest(delivery, spool, tally, stopping=stopping, options=self.reading)
            for statement, run in groupby(changes, key=itemgetter(0)):
                while batch := [values for _, values in islice(run, _BATCH)]:
                    self._writer.executemany(statement, batch)
            if delivery.door is Door.GROUPS:
                self._writer.execute(f"UPDATE head SET groups_bytes = ({groups.BYTES})")
            deliveries.end(self._writer, delivery.ordinal, tally, at=self._now())

    def _fail(
        self, delivery: Delivery, reason: str, status: Status, tally: Tally | None = None
    ) -> None:
        tally = tally or Tally()
        tally.fail(reason)
        deliveries.end(self._writer, delivery.ordinal, tally, at=self._now(), status=status)


def _words(delivery: Delivery, exc: Exception) -> str:
    match exc:
        case Unreadable():
            return str(exc)
        case OSError():
            return f"{delivery.path}: {exc.strerror}; expected the file of the delivery"
    return str(Unreadable(exc))


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _open(path: Path) -> sqlite3.Connection:
    """Open the file to be written, and make it if it is not there."""
    with ExitStack() as opened:
        try:
            connection = _connect(path)
            opened.callback(connection.close)
            _make(connection, path)
        except sqlite3.OperationalError as exc:
            raise ConfigError(f"{path}: {exc}; expected a folder where it can be written") from exc
        except sqlite3.DatabaseError as exc:
            raise ConfigError(f"{path}: {exc}; {_EXPECTED}") from exc
        opened.pop_all()
    return connection


def _make(connection: sqlite3.Connection, path: Path) -> None:
    for setting in _SETTINGS:
        connection.execute(setting)
    with _transaction(connection):
        if _is_blank(connection, path):
            for statement in _SCHEMA:
                connection.execute(statement)


def _is_blank(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether nothing was ever written there; raise ConfigError for what is not ours.

    An index of the version before is made one of this.
    """
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if (application, version) == (_APPLICATION, _UPGRADED):
        for statement in (*deliveries.UPGRADE, f"PRAGMA user_version = {VERSION}"):
            connection.execute(statement)
        return False
    if tables and (application, version) != (_APPLICATION, VERSION):
        raise ConfigError(f"{path}: something else, or of another version; {_EXPECTED}")
    return not tables


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False
    )
    connection.create_function("fits", 2, fits, deterministic=True)
    return connection
