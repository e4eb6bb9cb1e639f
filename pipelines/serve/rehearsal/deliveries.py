"""What became of each delivery: the table behind the Feeds page, in which an index finds its place.

A delivery whose status is `In progress` or `Waiting` is not digested: its other figures are not
known yet. `attempts` counts how often it was begun since it was last finished.
"""

import sqlite3
from collections.abc import Iterable

import msgspec

from pipelines.serve.rehearsal.digest import Tally
from pipelines.serve.rehearsal.paging import Row
from pipelines.serve.rehearsal.set_aside import By, SetAside
from pipelines.serve.rehearsal.views import Fed, Status
from schemas.delivery import Delivery, Door
from transforms.sources.spool import name_of

_BY_STATUS = "CREATE INDEX deliveries_by_status ON deliveries (status, ordinal)"
SCHEMA = (
    "CREATE TABLE deliveries (ordinal INTEGER PRIMARY KEY, door TEXT NOT NULL,"
    " datasource TEXT NOT NULL, feedtype TEXT NOT NULL, bytes INTEGER NOT NULL, at TEXT NOT NULL,"
    " client TEXT NOT NULL, user_agent TEXT NOT NULL, status TEXT NOT NULL,"
    " included INTEGER NOT NULL DEFAULT 0,"
    " in_error INTEGER NOT NULL DEFAULT 0, details TEXT NOT NULL DEFAULT '[]',"
    " finished_at TEXT NOT NULL DEFAULT '', attempts INTEGER NOT NULL DEFAULT 0)",
    "CREATE INDEX deliveries_of ON deliveries (door, datasource, ordinal)",
    _BY_STATUS,
)

UPGRADE = (
    "ALTER TABLE deliveries ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0",
    _BY_STATUS,
)
"""What makes the table of an index of version 2 this one."""

_BEGIN = (
    "INSERT INTO deliveries"
    " (ordinal, door, datasource, feedtype, bytes, at, client, user_agent, status, attempts)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'In progress', 1) ON CONFLICT (ordinal) DO UPDATE SET"
    " status = 'In progress', attempts = attempts + 1, included = 0, in_error = 0, details = '[]',"
    " finished_at = ''"
)
_END = (
    "UPDATE deliveries SET status = ?, included = ?, in_error = ?, details = ?,"
    " finished_at = ?, attempts = 0 WHERE ordinal = ?"
)
_IS_OPEN = "status IN ('In progress', 'Waiting')"
_APPLIED = f"SELECT ordinal FROM deliveries WHERE NOT {_IS_OPEN} ORDER BY ordinal DESC LIMIT 1"
_LEFT_BEHIND = f"SELECT ordinal FROM deliveries WHERE {_IS_OPEN} AND ordinal < ? ORDER BY ordinal"
_STATE = "SELECT status, attempts FROM deliveries WHERE ordinal = ?"
_FORGET_ATTEMPTS = "UPDATE deliveries SET attempts = 0 WHERE status = 'In progress'"
_REQUEUE = "UPDATE deliveries SET status = 'Waiting', attempts = 0 WHERE ordinal = ?"
_SET_ASIDE = (
    "SELECT ordinal, door, datasource, feedtype, bytes, at, details, finished_at FROM deliveries"
    " WHERE status = 'Set aside' ORDER BY ordinal"
)
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


def end(
    connection: sqlite3.Connection,
    ordinal: int,
    tally: Tally,
    *,
    at: str,
    status: Status | None = None,
) -> None:
    """Note what became of it; the status is that of the tally, unless one is given."""
    details = msgspec.json.encode(tally.details).decode()
    counts = ((status or tally.status).value, tally.included, tally.in_error)
    connection.execute(_END, (*counts, details, at, ordinal))


def is_begun(connection: sqlite3.Connection, ordinal: int) -> bool:
    """Whether a delivery was begun and is not finished."""
    return status(connection, ordinal) is Status.IN_PROGRESS


def attempts(connection: sqlite3.Connection, ordinal: int) -> int:
    """Return how often a delivery was begun since it was last finished."""
    return int(_state(connection, ordinal)[1])


def status(connection: sqlite3.Connection, ordinal: int) -> Status | None:
    """Return what became of a delivery, `None` if it was never begun."""
    found = _state(connection, ordinal)[0]
    return Status(found) if found else None


def _state(connection: sqlite3.Connection, ordinal: int) -> Row:
    found: Row | None = connection.execute(_STATE, (ordinal,)).fetchone()
    return found or ("", 0)


def forget_attempts(connection: sqlite3.Connection) -> None:
    """Note that what is in progress was ended on purpose: that attempt does not count."""
    connection.execute(_FORGET_ATTEMPTS)


def requeue(connection: sqlite3.Connection, ordinals: Iterable[int]) -> None:
    """Have deliveries digested again."""
    connection.executemany(_REQUEUE, [(ordinal,) for ordinal in ordinals])


def left_behind(connection: sqlite3.Connection) -> list[int]:
    """Return what is not digested and has finished ones after it, in order of arrival."""
    return [int(row[0]) for row in connection.execute(_LEFT_BEHIND, (applied(connection),))]


def read_set_aside(connection: sqlite3.Connection) -> list[SetAside]:
    """Return what is set aside, in order of arrival."""
    return list(map(_read_set_aside, connection.execute(_SET_ASIDE).fetchall()))


def _read_set_aside(row: Row) -> SetAside:
    ordinal, door, name, feedtype, size, at, details, finished_at = row
    return SetAside(
        ordinal=ordinal,
        by=By.INDEX,
        reason=" ".join(msgspec.json.decode(details, type=list[str])[:1]),
        set_aside_at=finished_at,
        door=Door(door),
        name=name,
        feedtype=feedtype,
        bytes=size,
        at=at,
    )


def applied(connection: sqlite3.Connection) -> int:
    """Return the ordinal of the last that was digested, 0 before the first."""
    found = connection.execute(_APPLIED).fetchone()
    return int(found[0]) if found else 0


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
