"""The deliveries of an index: their status, and the rows of the Feeds page."""

import enum
from collections.abc import Callable, Iterable

import msgspec

from feedferry.pipelines.serve.rehearsal.documents import DigestTally
from feedferry.pipelines.serve.rehearsal.index_database import IndexDatabase, json_object
from feedferry.schemas.delivery import Delivery
from feedferry.transforms.sources.spool import name_of

DELIVERIES_SCHEMA = (
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


_IS_OPEN = "status IN ('In progress', 'Waiting')"
_APPLIED = f"SELECT ordinal FROM deliveries WHERE NOT {_IS_OPEN} ORDER BY ordinal DESC LIMIT 1"
_OPEN = (
    f"SELECT ordinal FROM deliveries WHERE {_IS_OPEN} AND ordinal < coalesce(({_APPLIED}), 0)"
    " ORDER BY ordinal"
)
_SET_ASIDE_JSON = json_object(
    SetAsideDelivery,
    by="'index'",
    name="datasource",
    reason="coalesce(json_extract(details, '$[0]'), '')",
    set_aside_at="finished_at",
)
_SET_ASIDE = f"SELECT {_SET_ASIDE_JSON} FROM deliveries WHERE status = 'Set aside' ORDER BY ordinal"
_FEED_ROWS = (
    f"SELECT {json_object(FeedRow, details='json(details)')} FROM deliveries"
    " WHERE ordinal IN (SELECT ordinal FROM"
    " (SELECT ordinal, row_number() OVER (PARTITION BY endpoint, datasource ORDER BY ordinal DESC)"
    " AS place FROM deliveries) WHERE place <= ?) ORDER BY ordinal DESC"
)


class DeliveryTable:
    """The deliveries that were begun; all methods are safe from several threads.

    `now` returns the time in RFC 3339.
    """

    def __init__(self, database: IndexDatabase, *, now: Callable[[], str]) -> None:
        self._database = database
        self._now = now

    @property
    def applied(self) -> int:
        """The ordinal of the last digested delivery, 0 before the first."""
        return next((int(row[0]) for row in self._database.query(_APPLIED)), 0)

    def status(self, ordinal: int) -> DeliveryStatus | None:
        """Return the status of a delivery, None if it was never begun."""
        rows = self._database.query("SELECT status FROM deliveries WHERE ordinal = ?", ordinal)
        return next((DeliveryStatus(row[0]) for row in rows), None)

    def errors(self, ordinal: int) -> str | None:
        """Return the status and the first reason of a delivery with errors."""
        return next((": ".join(row) for row in self._database.query(_ERRORS, ordinal)), None)

    def failed_count(self) -> int:
        """Return the number of deliveries of which nothing is included."""
        return int(self._database.query(_FAILED)[0][0])

    def open_deliveries(self) -> list[int]:
        """Return the deliveries before the last digested one that are not digested, in order."""
        return [int(row[0]) for row in self._database.query(_OPEN)]

    def is_digested(self, ordinal: int) -> bool:
        """Whether all deliveries up to this one are digested."""
        return min(self.open_deliveries(), default=self.applied + 1) > ordinal

    def all_set_aside(self) -> list[SetAsideDelivery]:
        """Return the deliveries that the index has set aside, in order of arrival."""
        return self._database.rows(SetAsideDelivery, _SET_ASIDE)

    def feed_rows(self, *, per_datasource: int = 5) -> list[FeedRow]:
        """Return the last deliveries of each datasource and endpoint, newest first."""
        return self._database.rows(FeedRow, _FEED_ROWS, per_datasource)

    def begin(self, delivery: Delivery) -> None:
        """Record that a delivery is being digested."""
        name, size = name_of(delivery), delivery.bytes
        row = (delivery.ordinal, delivery.endpoint, name, delivery.feedtype, size)
        with self._database.lock:
            self._database.connection.execute(
                _BEGIN, (*row, delivery.at, delivery.client, delivery.user_agent)
            )

    def end(self, ordinals: Iterable[int], status: DeliveryStatus, reason: str = "") -> None:
        """Record that deliveries are set aside, are not needed, or wait to be digested again."""
        tally = DigestTally()
        if reason:
            tally.fail(reason)
        with self._database.lock, self._database.transaction():
            for ordinal in ordinals:
                self.settle(ordinal, status, tally)

    def is_begun(self, ordinal: int) -> bool:
        """Whether a delivery is being digested; the caller has the lock."""
        return bool(self._database.connection.execute(_IS_BEGUN, (ordinal,)).fetchone())

    def settle(self, ordinal: int, status: DeliveryStatus, tally: DigestTally) -> None:
        """Record the result of a digestion; the caller has the lock."""
        details = msgspec.json.encode(tally.details).decode()
        result = (status.value, tally.included, tally.in_error, details, self._now())
        self._database.connection.execute(_END, (*result, ordinal))
