"""What became of each delivery: the table behind the Feeds page, in which an index finds its place.

A delivery whose status is `In progress` is not digested: its other figures are not known yet.
"""

import sqlite3

import msgspec

from schemas.delivery import Delivery, Door
from transforms.receiver._page import Row
from transforms.receiver.digest import Tally
from transforms.receiver.held import Fed, Status
from transforms.sources.spool import name_of

SCHEMA = (
    "CREATE TABLE deliveries (ordinal INTEGER PRIMARY KEY, door TEXT NOT NULL,"
    " datasource TEXT NOT NULL, feedtype TEXT NOT NULL, bytes INTEGER NOT NULL, at TEXT NOT NULL,"
    " client TEXT NOT NULL, user_agent TEXT NOT NULL, status TEXT NOT NULL,"
    " included INTEGER NOT NULL DEFAULT 0,"
    " in_error INTEGER NOT NULL DEFAULT 0, details TEXT NOT NULL DEFAULT '[]',"
    " finished_at TEXT NOT NULL DEFAULT '')",
    "CREATE INDEX deliveries_of ON deliveries (door, datasource, ordinal)",
)

_BEGIN = (
    "INSERT OR REPLACE INTO deliveries"
    " (ordinal, door, datasource, feedtype, bytes, at, client, user_agent, status)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'In progress')"
)
_END = (
    "UPDATE deliveries SET status = ?, included = ?, in_error = ?, details = ?,"
    " finished_at = ? WHERE ordinal = ?"
)
_APPLIED = "SELECT coalesce(max(ordinal), 0) FROM deliveries WHERE status <> 'In progress'"
_FED = (
    "SELECT ordinal, door, datasource, feedtype, bytes, at, client, user_agent, status, included,"
    " in_error, details, finished_at FROM deliveries WHERE ordinal IN (SELECT ordinal FROM"
    " (SELECT ordinal, row_number() OVER (PARTITION BY door, datasource ORDER BY ordinal DESC)"
    " AS place FROM deliveries) WHERE place <= ?) ORDER BY ordinal DESC"
)


def begin(connection: sqlite3.Connection, delivery: Delivery) -> None:
    """Note that a delivery is being digested."""
    name, size = name_of(delivery), delivery.bytes
    row = (delivery.ordinal, delivery.door.value, name, delivery.feedtype, size)
    connection.execute(_BEGIN, (*row, delivery.at, delivery.client, delivery.user_agent))


def end(connection: sqlite3.Connection, ordinal: int, tally: Tally, *, at: str) -> None:
    """Note what became of it."""
    details = msgspec.json.encode(tally.details).decode()
    counts = (tally.status.value, tally.included, tally.in_error)
    connection.execute(_END, (*counts, details, at, ordinal))


def applied(connection: sqlite3.Connection) -> int:
    """Return the ordinal of the last that was digested, 0 before the first."""
    return int(connection.execute(_APPLIED).fetchone()[0])


def read_fed(connection: sqlite3.Connection, per_datasource: int) -> list[Fed]:
    """Return the last deliveries of each datasource at each door, newest first."""
    return list(map(_read_fed, connection.execute(_FED, (per_datasource,)).fetchall()))


def _read_fed(row: Row) -> Fed:
    ordinal, door, datasource, feedtype, size, at, client, user_agent, status, *rest = row
    included, in_error, details, finished_at = rest
    return Fed(
        ordinal=ordinal,
        door=Door(door),
        datasource=datasource,
        feedtype=feedtype,
        bytes=size,
        at=at,
        status=Status(status),
        included=included,
        in_error=in_error,
        details=msgspec.json.decode(details, type=tuple[str, ...]),
        finished_at=finished_at,
        client=client,
        user_agent=user_agent,
    )
