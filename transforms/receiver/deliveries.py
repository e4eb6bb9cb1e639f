"""What became of each delivery: the table behind the Feeds page, in which an index finds its place.

A delivery whose status is `In progress` is not digested: its other figures are not known yet.
"""

import sqlite3

import msgspec

from schemas.delivery import Delivery, Door
from transforms.receiver._page import Row
from transforms.receiver.digest import Tally
from transforms.receiver.held import Delivered, Fed, Status

SCHEMA = (
    "CREATE TABLE deliveries (ordinal INTEGER PRIMARY KEY, door TEXT NOT NULL,"
    " datasource TEXT NOT NULL, feedtype TEXT NOT NULL, bytes INTEGER NOT NULL, at TEXT NOT NULL,"
    " client TEXT NOT NULL, user_agent TEXT NOT NULL, status TEXT NOT NULL,"
    " sha256 TEXT NOT NULL DEFAULT '', included INTEGER NOT NULL DEFAULT 0,"
    " in_error INTEGER NOT NULL DEFAULT 0, details TEXT NOT NULL DEFAULT '[]',"
    " finished_at TEXT NOT NULL DEFAULT '')",
    "CREATE INDEX deliveries_sha256 ON deliveries (sha256)",
)

_BEGIN = (
    "INSERT OR REPLACE INTO deliveries"
    " (ordinal, door, datasource, feedtype, bytes, at, client, user_agent, status)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'In progress')"
)
_END = (
    "UPDATE deliveries SET status = ?, sha256 = ?, included = ?, in_error = ?, details = ?,"
    " finished_at = ? WHERE ordinal = ?"
)
_DIGESTED = "status <> 'In progress'"
_APPLIED = f"SELECT coalesce(max(ordinal), 0) FROM deliveries WHERE {_DIGESTED}"
_ACCEPTED = f"SELECT count(*) FROM deliveries WHERE sha256 = ? AND {_DIGESTED}"
_DELIVERED = (
    "SELECT ordinal, sha256, datasource, feedtype, bytes FROM deliveries"
    f" WHERE ordinal > ? AND {_DIGESTED} ORDER BY ordinal"
)
_FED = (
    "SELECT ordinal, door, datasource, feedtype, bytes, at, client, user_agent, status, included,"
    " in_error, details, finished_at FROM (SELECT *, row_number() OVER"
    " (PARTITION BY door, datasource ORDER BY ordinal DESC) AS place FROM deliveries)"
    " WHERE place <= ? ORDER BY ordinal DESC"
)


def begin(connection: sqlite3.Connection, delivery: Delivery) -> None:
    """Note that a delivery is being digested."""
    is_data = delivery.door is Door.DATA
    name = delivery.profile if is_data else delivery.datasource
    row = (delivery.ordinal, delivery.door.value, name, delivery.feedtype, delivery.bytes)
    connection.execute(_BEGIN, (*row, delivery.at, delivery.client, delivery.user_agent))


def end(connection: sqlite3.Connection, ordinal: int, tally: Tally, *, at: str) -> None:
    """Note what became of it."""
    details = msgspec.json.encode(tally.details).decode()
    counts = (tally.status.value, tally.sha256, tally.included, tally.in_error)
    connection.execute(_END, (*counts, details, at, ordinal))


def applied(connection: sqlite3.Connection) -> int:
    """Return the ordinal of the last that was digested, 0 before the first."""
    return int(connection.execute(_APPLIED).fetchone()[0])


def accepted(connection: sqlite3.Connection, sha256: str) -> int:
    """Return how many files with this digest were digested."""
    return int(connection.execute(_ACCEPTED, (sha256,)).fetchone()[0])


def read_delivered(connection: sqlite3.Connection, after: int) -> list[Delivered]:
    """Return what was digested behind an ordinal, in order of arrival."""
    rows = connection.execute(_DELIVERED, (after,)).fetchall()
    return [
        Delivered(ordinal=ordinal, sha256=sha256, datasource=name, feedtype=feedtype, bytes=size)
        for ordinal, sha256, name, feedtype, size in rows
    ]


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
