"""Reading the rehearsal index: what replies, the page, `GET /documents` and a gateway need.

A receiver reads its own index while it writes; a gateway and `--retry` read that of a spool. Reads
return the state before the delivery that is being digested.
"""

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import msgspec

from pipelines.serve.rehearsal.documents import LAST_CHARACTER, MATCHING, matching_values
from pipelines.serve.rehearsal.views import (
    DatasourceTotal,
    DeliveryStatus,
    FeedRow,
    IndexedDocument,
    json_columns,
)
from pipelines.serve.set_aside import SetAsideDelivery
from schemas.delivery import Delivery

WAIT_SECONDS = 10.0

_IS_OPEN = "status IN ('In progress', 'Waiting')"
_APPLIED = f"SELECT ordinal FROM deliveries WHERE NOT {_IS_OPEN} ORDER BY ordinal DESC LIMIT 1"
_OPEN = (
    f"SELECT ordinal FROM deliveries WHERE {_IS_OPEN} AND ordinal < coalesce(({_APPLIED}), 0)"
    " ORDER BY ordinal"
)
_SET_ASIDE_JSON = json_columns(
    SetAsideDelivery,
    by="'index'",
    name="datasource",
    reason="coalesce(json_extract(details, '$[0]'), '')",
    set_aside_at="finished_at",
)
_SET_ASIDE = f"SELECT {_SET_ASIDE_JSON} FROM deliveries WHERE status = 'Set aside' ORDER BY ordinal"
_FEED_ROWS = (
    f"SELECT {json_columns(FeedRow, details='json(details)')} FROM deliveries"
    " WHERE ordinal IN (SELECT ordinal FROM"
    " (SELECT ordinal, row_number() OVER (PARTITION BY door, datasource ORDER BY ordinal DESC)"
    " AS place FROM deliveries) WHERE place <= ?) ORDER BY ordinal DESC"
)
_DOCUMENT_JSON = json_columns(
    IndexedDocument,
    metadata="json(coalesce(metadata, '[]'))",
    acl="json(acl)",
    fields="json(coalesce(fields, '{}'))",
    flags="json(coalesce(flags, '{}'))",
    searchable="json(iif(searchable, 'true', 'false'))",
)
_TOTAL_JSON = json_columns(
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


class IndexReader:
    """The documents, groups and deliveries of a spool; safe from several threads."""

    def __init__(self, path: Path, *, wait_seconds: float = WAIT_SECONDS) -> None:
        self.path = path
        self._reading = threading.Lock()
        self._reader = connect(path, wait_seconds)
        self._totals: tuple[int, list[DatasourceTotal]] | None = None

    @property
    def applied(self) -> int:
        """The ordinal of the last digested delivery, 0 before the first."""
        return next((int(row[0]) for row in self._query(_APPLIED)), 0)

    def state(self, ordinal: int) -> tuple[DeliveryStatus | None, int]:
        """Return the status of a delivery, and how often it was begun since it was last finished.

        They are None and 0 for a delivery that was never begun.
        """
        rows = self._query("SELECT status, attempts FROM deliveries WHERE ordinal = ?", ordinal)
        return next(((DeliveryStatus(row[0]), int(row[1])) for row in rows), (None, 0))

    def open_deliveries(self) -> list[int]:
        """Return the deliveries before the last digested one that are not digested, in order."""
        return [int(row[0]) for row in self._query(_OPEN)]

    def all_set_aside(self) -> list[SetAsideDelivery]:
        """Return the deliveries that the index has set aside, in order of arrival."""
        decode = msgspec.json.Decoder(SetAsideDelivery).decode
        return [decode(row[0]) for row in self._query(_SET_ASIDE)]

    def feed_rows(self, *, per_datasource: int = 5) -> list[FeedRow]:
        """Return the last deliveries of each datasource and endpoint, newest first."""
        decode = msgspec.json.Decoder(FeedRow).decode
        return [decode(row[0]) for row in self._query(_FEED_ROWS, per_datasource)]

    def documents(
        self,
        *,
        datasource: str | None = None,
        prefix: str | None = None,
        after: str | None = None,
        limit: int = 1000,
    ) -> list[IndexedDocument]:
        """Return documents in the order of the UTF-8 of their URLs, which begin with `prefix`.

        All documents with the same URL are on one page, so that the next page can begin after it. A
        page may have more than `limit` documents for that.
        """
        stated = {
            "+datasource = ?": datasource,  # the plus sign makes SQLite use the index of URLs
            "url >= ?": prefix or None,
            "url < ?": prefix + LAST_CHARACTER if prefix else None,
            "url > ?": after,
        }
        conditions = {clause: value for clause, value in stated.items() if value is not None}

        def fetch(conditions: dict[str, str], limit: int) -> list[tuple[str, ...]]:
            where = " AND ".join(["true", *conditions])
            query = f"SELECT url, {_DOCUMENT_JSON} FROM documents WHERE {where}"
            values = (*conditions.values(), limit)
            return self._query(f"{query} ORDER BY url, profile LIMIT ?", *values)

        rows = fetch(conditions, limit)
        if rows and len(rows) == limit:
            last = rows[-1][0]
            all_of_last = fetch({**conditions, "url = ?": last}, -1)
            rows = [row for row in rows if row[0] != last] + all_of_last
        decode = msgspec.json.Decoder(IndexedDocument).decode
        return [decode(text) for _, text in rows]

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
            decode = msgspec.json.Decoder(DatasourceTotal).decode
            totals = self._totals = applied, [decode(row[0]) for row in self._query(_TOTALS)]
        return totals[1]

    def groups_count(self) -> int:
        return int(self._query("SELECT count(*) FROM groups")[0][0])

    def groups_bytes(self) -> int:
        """Return how much of the capacity for groups is used."""
        return int(self._query("SELECT groups_bytes FROM head")[0][0])

    def left_out(self, delivery: Delivery) -> Iterator[tuple[str, int | None]]:
        """Yield the URLs that a full feed removed; for one thread only.

        The second value is the last delivery by which another datasource or profile took the URL.
        """
        yield from self._reader.execute(_LEFT_OUT, (delivery.ordinal, delivery.datasource))

    def close(self) -> None:
        with self._reading:
            self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _query(self, query: str, *values: object) -> list[tuple[str, ...]]:
        with self._reading:
            return self._reader.execute(query, values).fetchall()


def connect(path: Path, wait_seconds: float, *, mode: str = "rw") -> sqlite3.Connection:
    """Open a database; it is created only with the mode `rwc`."""
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(
        uri, uri=True, timeout=wait_seconds, isolation_level=None, check_same_thread=False
    )
