"""Reading the rehearsal index: what replies, the page, `GET /documents` and a gateway need.

A receiver reads its own index while it writes; a gateway reads that of its spool. Reads return the
state before the delivery that is being digested.
"""

import enum
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self, TypeVar

import msgspec

from pipelines.serve.rehearsal.documents import MATCHING, matching_values
from schemas.acl import Acl
from schemas.delivery import Delivery, Door
from schemas.errors import SourceError
from schemas.feed import INCREMENTAL, Feed
from schemas.record import Action, Arrival, Meta, Record
from transforms.formats import GSA_FEED, WriteOptions, write_all
from transforms.storage.atomic import whole_file

WAIT_SECONDS = 10.0
Row = TypeVar("Row", bound=msgspec.Struct)


class DocumentOrigin(enum.Enum):
    """How a document arrived; ACL is the ACL of a URL without a document, such as a folder."""

    FEED = "feed"
    DATA = "data"
    ACL = "acl"


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
    door: Door | None = None
    name: str = ""
    feedtype: str = ""
    bytes: int = 0
    at: str = ""


class IndexedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document of the index; its content is known by its digest only.

    `datasource` is the owner: a datasource or a profile. `bytes` and `sha256` are those of the
    decoded content, `None` if there is none. `fields` are texts that are not metadata and hints for
    crawling and ranking, by name; the names of additional fields begin with `u:`. `searchable` is
    false for data that waits for an update of the search indexes. `feed` is the ordinal of the
    delivery that changed the document last.
    """

    url: str
    datasource: str
    kind: DocumentOrigin
    arrival: Arrival | None = None
    mimetype: str | None = None
    bytes: int | None = None
    sha256: str | None = None
    metadata: tuple[Meta, ...] = ()
    acl: Acl | None = None
    fields: dict[str, bool | int | str | list[str]] = {}
    searchable: bool = True
    feed: int = 0


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
    records; `details` are the first reasons. Times are in RFC 3339.
    """

    ordinal: int
    door: Door
    datasource: str
    feedtype: str
    bytes: int
    at: str
    status: DeliveryStatus
    included: int = 0
    in_error: int = 0
    details: tuple[str, ...] = ()
    finished_at: str = ""
    client: str = ""
    user_agent: str = ""


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
    " (SELECT ordinal, row_number() OVER (PARTITION BY door, datasource ORDER BY ordinal DESC)"
    " AS place FROM deliveries) WHERE place <= ?) ORDER BY ordinal DESC"
)
_DOCUMENT_JSON = _json_object(
    IndexedDocument,
    metadata="json(coalesce(metadata, '[]'))",
    acl="json(acl)",
    fields="json(coalesce(fields, '{}'))",
    searchable="json(iif(searchable, 'true', 'false'))",
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

    def status(self, ordinal: int) -> DeliveryStatus | None:
        """Return the status of a delivery, None if it was never begun."""
        rows = self._query("SELECT status FROM deliveries WHERE ordinal = ?", ordinal)
        return next((DeliveryStatus(row[0]) for row in rows), None)

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
        stated = {
            "+datasource = ?": datasource,  # the plus sign makes SQLite use the index of URLs
            "url > ?": after,
        }
        conditions = {clause: value for clause, value in stated.items() if value is not None}

        def fetch(conditions: dict[str, str], limit: int) -> list[IndexedDocument]:
            where = " AND ".join(["true", *conditions])
            query = f"SELECT {_DOCUMENT_JSON} FROM documents WHERE {where}"
            values = (*conditions.values(), limit)
            return self._rows(IndexedDocument, f"{query} ORDER BY url, profile LIMIT ?", *values)

        page = fetch(conditions, limit)
        if page and len(page) == limit:
            last = page[-1].url
            all_of_last = fetch({**conditions, "url = ?": last}, -1)
            page = [document for document in page if document.url != last] + all_of_last
        return page

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
        yield from self._reader.execute(_LEFT_OUT, (delivery.ordinal, delivery.datasource))

    def close(self) -> None:
        with self._reading:
            self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _rows(self, type_: type[Row], query: str, *values: object) -> list[Row]:
        decode = msgspec.json.Decoder(type_).decode
        return [decode(row[0]) for row in self._query(query, *values)]

    def _query(self, query: str, *values: object) -> list[tuple[str, ...]]:
        with self._reading:
            return self._reader.execute(query, values).fetchall()


def connect(path: Path, wait_seconds: float, *, mode: str = "rw") -> sqlite3.Connection:
    """Open a database; it is created only with the mode `rwc`."""
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(
        uri, uri=True, timeout=wait_seconds, isolation_level=None, check_same_thread=False
    )


@contextmanager
def open_index(path: Path) -> Iterator[IndexReader]:
    """Open the index of a spool; raise SourceError if it cannot be read."""
    try:
        with IndexReader(path) as index:
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
    SourceError if the index cannot be read.
    """
    count = 0

    def deletions(index: IndexReader) -> Iterator[Record]:
        nonlocal count
        for url, taken_by in index.left_out(delivery):
            if taken_by is None or not is_settled(taken_by):
                count += 1
                yield Record(url=url, action=Action.DELETE)

    feed = Feed(datasource=delivery.datasource, feedtype=INCREMENTAL)
    with open_index(index_path) as index, whole_file(path) as stream:
        write_all(GSA_FEED.make_encoder(WriteOptions(feed=feed)), deletions(index), stream)
    return count
