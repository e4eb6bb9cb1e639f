"""The documents that a rehearsal appliance holds, and how a record changes them.

**Spec:** Feeds Protocol Developer's Guide 7.x, "Choosing the Feed Type", "Full Feeds and
Incremental Feeds", "Removing Feed Content From the Index", "Fed Documents Aren't Updated or Removed
as Specified in the Feed XML"; Thunderstone dataload API.

What the guide says:

- All feeds share one space of urls. A url is the datasource's that updated it last, and only that
  can delete it; but that of a content feed stays its own when a web feed names it.
- A full feed replaces all that its datasource had, and none of its records may have metadata
  without content. A web feed is always incremental.
- A record without content changes what it states, and leaves the rest, content above all.

What it does not say, and we chose, so that no document loses its ACL:

- An ACL that came alone for a url stays until another one comes or the url is deleted. It does not
  change whose the url is, and to delete it alone leaves a document, and that its ACL.

Profiles of Thunderstone data have a space of urls each. There `I` replaces; `U` changes what is
stated, and adds what is not held; what `I` brought, and what `U` added, is searchable after `UI`.
"""

import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256

import msgspec

from pipelines.serve.rehearsal import document_sql as sql
from pipelines.serve.rehearsal.paging import Row, read_page
from pipelines.serve.rehearsal.url_patterns import behind, literal_prefix
from pipelines.serve.rehearsal.views import Document, Held, Total
from schemas.acl import Acl
from schemas.content import CHECKED, decode
from schemas.delivery import Delivery, Door
from schemas.errors import RecordError
from schemas.feed import FULL, is_web
from schemas.patterns import is_wide
from schemas.record import Action, Arrival, Crawl, Meta, Record

MISPLACED = "Element record content does not follow the DTD, Misplaced metadata"
"""The appliance's words for a record of which a metadata value is empty."""

SCHEMA = sql.SCHEMA
REFUSED = "refused by the scenario"

_SELECT = (
    "SELECT url, datasource, kind, action, arrival, mimetype, display_url, bytes, sha256, metadata,"
    " acl, fields, flags, searchable, feed FROM documents"
)

_HOLDS = "SELECT 1 FROM documents WHERE url = ? AND profile = ? AND kind <> 'acl'"
_TOTALS = (
    "SELECT datasource, profile <> '', sum(kind <> 'acl'), sum(arrival IS 'CRAWLED'),"
    " sum(kind = 'data' AND NOT searchable), sum(kind = 'acl'), coalesce(sum(bytes), 0)"
    " FROM documents GROUP BY datasource, profile ORDER BY datasource, profile"
)

Change = tuple[str, tuple[object, ...]]
"""A statement and its values."""

Changer = Callable[[Record], Change]

_FURTHEST = b""
"""Behind all text: SQLite has any bytes there."""

# Looked up in their enums they cost a multiple.
_DELETE = Action.DELETE
_ADDS, _UPDATES = Action.ADD.value, Action.UPDATE.value
_PUSHED, _CRAWLED = Arrival.PUSHED.value, Arrival.CRAWLED.value

_DATA_CHANGES = {Action.ADD: (sql.REPLACE, _ADDS), Action.UPDATE: (sql.UPDATE, _UPDATES)}
_FLAGS = tuple(name for name in Crawl.__struct_fields__ if name not in ("display_url", "anchors"))
_TEXTS = ("title", "description", "keywords", "modified")
_encode = msgspec.json.Encoder().encode
_read_metadata = msgspec.json.Decoder(tuple[Meta, ...]).decode
_read_acl = msgspec.json.Decoder(Acl).decode
_read_fields = msgspec.json.Decoder(dict[str, str | list[str]]).decode
_read_flags = msgspec.json.Decoder(dict[str, bool | int | str]).decode


def changer(delivery: Delivery) -> Changer:
    """Return what makes a change of each record; it raises RecordError for one that is refused."""
    is_web_feed = is_web(delivery.datasource, delivery.feedtype)
    kind = _Data if delivery.door is Door.DATA else _Web if is_web_feed else _Feed
    change = kind(delivery).change
    if not delivery.refused:
        return change
    return partial(_unless_refused, change=change, urls=frozenset(delivery.refused))


def forget(delivery: Delivery) -> tuple[Change, ...]:
    """Return the changes that a full feed begins with: all that there was is left out so far."""
    ordinal, datasource = delivery.ordinal, delivery.datasource
    return (
        (sql.LEAVE_OUT, (ordinal, datasource)),
        (sql.FORGET, (datasource,)),
        (sql.UNSKIP, (datasource,)),
    )


def skip(delivery: Delivery, record: Record) -> tuple[Change, ...]:
    """Return the changes for a record that is refused here: a gateway forwards it all the same."""
    is_fed = delivery.door is Door.FEED and record.action is not _DELETE
    return ((sql.SKIP, (record.url, delivery.datasource)),) if is_fed else ()


def keep(delivery: Delivery) -> Change:
    """Return the change that a full feed ends with: what it had again is not left out."""
    return sql.KEEP, (delivery.ordinal,)


def read_left_out(
    connection: sqlite3.Connection, delivery: Delivery
) -> Iterator[tuple[str, int | None]]:
    """Yield urls that a full feed removed, and what another datasource or profile took each by."""
    yield from connection.execute(sql.LEFT_OUT, (delivery.ordinal, delivery.datasource))


def check_pattern(pattern: str) -> None:
    """Raise RecordError for a pattern that the appliance denies."""
    if is_wide(pattern):
        raise RecordError(
            "wide-delete",
            f"a deletion of all urls like {pattern!r}; expected a pattern that names part of a"
            " path, as this one empties a host or more",
        )


def read_documents(
    connection: sqlite3.Connection,
    *,
    datasource: str | None,
    prefix: str | None,
    after: str | None,
    limit: int,
) -> list[Document]:
    """Return documents in the order of their urls, which is that of their UTF-8."""
    conditions = (
        ("+datasource = ?", datasource),
        ("url >= ?", prefix or None),
        ("url < ?", (behind(prefix) or _FURTHEST) if prefix else None),
        ("url > ?", after),
    )
    order = ("url", "profile")
    rows = read_page(connection, _SELECT, conditions, order=order, limit=limit)
    return list(map(_read_document, rows))


def read_totals(connection: sqlite3.Connection) -> list[Total]:
    """Return what is held of each datasource and each profile, in the order of their names."""
    rows = connection.execute(_TOTALS).fetchall()
    return [
        Total(
            datasource=datasource,
            kind=Held.DATA if is_data else Held.FEED,
            documents=count,
            crawled=crawled,
            unsearchable=unsearchable,
            acls=acls,
            bytes=size,
        )
        for datasource, is_data, count, crawled, unsearchable, acls, size in rows
    ]


def holds(connection: sqlite3.Connection, url: str, profile: str) -> bool:
    """Whether there is a document of feeds, or of a profile, with this url."""
    return connection.execute(_HOLDS, (url, profile)).fetchone() is not None


def count_fitting(connection: sqlite3.Connection, pattern: str, profile: str) -> int:
    """Return how many documents of feeds, or of a profile, a pattern names."""
    (count,) = connection.execute(sql.COUNT_FITTING, _range_of(pattern, profile)).fetchone()
    return int(count)


def _read_document(row: Row) -> Document:
    url, datasource, kind, action, arrival, mimetype, display_url, size, digest, *rest = row
    metadata, acl, fields, flags, searchable, feed = rest
    return Document(
        url=url,
        datasource=datasource,
        kind=Held(kind),
        action=Action(action),
        arrival=None if arrival is None else Arrival(arrival),
        mimetype=mimetype,
        display_url=display_url,
        bytes=size,
        sha256=digest,
        metadata=_read_metadata(metadata or "[]"),
        acl=None if acl is None else _read_acl(acl),
        fields=_read_fields(fields or "{}"),
        flags=_read_flags(flags or "{}"),
        searchable=bool(searchable),
        feed=feed,
    )


def _unless_refused(record: Record, *, change: Changer, urls: frozenset[str]) -> Change:
    if record.url in urls:
        raise RecordError("refused", REFUSED)
    return change(record)


def _range_of(pattern: str, profile: str) -> tuple[object, ...]:
    prefix = literal_prefix(pattern)
    return profile, prefix, behind(prefix) or _FURTHEST, pattern


class _Data:
    """Thunderstone data, of a profile."""

    def __init__(self, delivery: Delivery) -> None:
        self._profile = delivery.profile
        self._ordinal = delivery.ordinal

    def change(self, record: Record) -> Change:
        profile, action = self._profile, record.action
        if action is _DELETE:
            return sql.DELETE, (record.url, profile, profile)
        if action is Action.DELETE_PATTERN:
            check_pattern(record.url)
            return sql.DELETE_FITTING, _range_of(record.url, profile)
        if action is Action.UPDATE_INDEX:
            return sql.SHOW, (profile,)
        statement, name = _DATA_CHANGES[action]
        head = (profile, record.url, profile, "data", name, _PUSHED)
        return statement, (*head, *_columns(record), False, self._ordinal)


class _Feed:
    """A content feed."""

    def __init__(self, delivery: Delivery) -> None:
        self._datasource = delivery.datasource
        self._ordinal = delivery.ordinal
        self._is_full = delivery.feedtype == FULL

    def change(self, record: Record) -> Change:
        _check_metadata(record)
        acl = record.acl
        is_alone = acl is not None and acl.alone
        if record.action is _DELETE:
            statement = sql.DELETE_ACL if is_alone else sql.DELETE
            return statement, (record.url, "", self._datasource)
        if is_alone:
            head = ("", record.url, self._datasource, "acl", _UPDATES, None)
            return sql.GIVE_ACL, (*head, *_columns(record), False, self._ordinal)
        return self._change_document(record)

    def _change_document(self, record: Record) -> Change:
        if record.content is not None:
            return sql.REPLACE, self._row(record, _ADDS, _PUSHED)
        if self._is_full and record.metadata:
            found = "metadata without content in a full feed"
            raise RecordError("metadata-alone", f"{found}; expected content, or incremental")
        return sql.UPDATE, self._row(record, _UPDATES, _PUSHED)

    def _row(self, record: Record, action: str, arrival: str) -> tuple[object, ...]:
        head = ("", record.url, self._datasource, "feed", action, arrival)
        return (*head, *_columns(record), True, self._ordinal)


class _Web(_Feed):
    """A web feed: what it has of content is not looked at, nor is the type of that."""

    def _change_document(self, record: Record) -> Change:
        bare = msgspec.structs.replace(record, content=None, mimetype=None)
        return sql.CRAWL, self._row(bare, _ADDS, _CRAWLED)


def _check_metadata(record: Record) -> None:
    for meta in record.metadata:
        if not meta.value and not meta.data:
            raise RecordError("empty-metadata", MISPLACED)


def _columns(record: Record) -> tuple[object, ...]:
    """Return what a row has between its arrival and whether it is searchable."""
    size, digest = _content_of(record)
    acl, crawl, metadata = record.acl, record.crawl, record.metadata
    return (
        record.mimetype,
        None if crawl is None else crawl.display_url,
        size,
        digest,
        _json(metadata) if metadata else None,
        None if acl is None else _json(acl),
        acl is not None and acl.alone,
        _fields(record),
        None if crawl is None else _flags(crawl),
    )


def _content_of(record: Record) -> tuple[int | None, str | None]:
    """Return size and digest of the document itself; a text stands in for it where it has none."""
    if record.content is not None:
        document = decode(record.content, max_bytes=CHECKED)
    elif record.body is not None:
        document = record.body.encode()
    else:
        return None, None
    return len(document), sha256(document).hexdigest()


def _fields(record: Record) -> str | None:
    fields: dict[str, object] = {}
    for name in _TEXTS:
        if (stated := getattr(record, name)) is not None:
            fields[name] = stated
    if record.categories:
        fields["categories"] = record.categories
    for field in record.fields:
        fields[f"u:{field.name}"] = field.values
    return _json(fields) if fields else None


def _flags(crawl: Crawl) -> str | None:
    stated = {name: getattr(crawl, name) for name in _FLAGS}
    flags = {name: value for name, value in stated.items() if value is not None}
    return _json(flags) if flags else None


def _json(found: object) -> str:
    return _encode(found).decode()
