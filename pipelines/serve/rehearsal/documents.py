"""The documents and groups of a rehearsal appliance, and the changes that a record makes to them.

**Spec:** Feeds Protocol Developer's Guide 7.x, "Choosing the Feed Type", "Full Feeds and
Incremental Feeds", "Removing Feed Content From the Index", "Fed Documents Aren't Updated or Removed
as Specified in the Feed XML", "Creating a Groups Feed Client"; Thunderstone dataload API.

The guide says:

- All feeds share one space of URLs. A URL belongs to the datasource that updated it last, and only
  that datasource can delete it. A URL of a content feed keeps its owner when a web feed names it.
- A full feed replaces everything of its datasource, and none of its records may have metadata
  without content. A web feed is always incremental.
- A record without content changes the fields it states, and keeps all others and the content.

The guide leaves open, and we chose, so that no document loses its ACL:

- An ACL that arrived alone for a URL stays until another ACL arrives or the URL is deleted. It does
  not change the owner of the URL. Deleting it alone keeps a document, and the document's ACL.

Each profile of Thunderstone data has its own space of URLs. `I` replaces a document; `U` changes
the fields it states, and adds a missing document. Added documents are searchable after `UI`.

The table `left_out` has the URLs that each full feed removed, and `skipped` the URLs of refused
records. A gateway reads both, as it deletes URLs one by one where the target has no full feeds.

A full feed of groups overwrites the groups, in our reading those of its groupsource, and an
incremental feed appends. Deployed clients also send `cleanup`, which removes the groups of a
source, and `replace`, which is a full feed. A feed without a feedtype, as the guide's own client
sends it, is incremental. A group is identified by source, namespace and name. Members are not
stored.
"""

from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path

import msgspec

from feedferry.pipelines.report.page_text import short_text
from feedferry.schemas.acl import identity
from feedferry.schemas.content import CHECKED, decode
from feedferry.schemas.delivery import Delivery
from feedferry.schemas.errors import FormatError, RecordError
from feedferry.schemas.feed import FULL, Feed, is_web
from feedferry.schemas.membership import Membership
from feedferry.schemas.patterns import is_wide, prefix_of, sqlite_glob
from feedferry.schemas.record import Action, Arrival, Crawl, Record
from feedferry.schemas.reject import Reject, record_error
from feedferry.schemas.span import Span
from feedferry.transforms.formats import ReadOptions, ReadResult, by_name
from feedferry.transforms.sources.spool import is_whole

EMPTY_METADATA = "Element record content does not follow the DTD, Misplaced metadata"
"""The appliance's text for a record with an empty metadata value."""

MAX_PATTERN_LENGTH = 10_000
"""SQLite takes patterns of 50,000 bytes, and a character may take four."""

REFUSED_BY_SCENARIO = "refused by the scenario"

MAX_DETAILS = 5
"""The number of reasons that are kept for a delivery."""

MAX_DETAIL_LENGTH = 1000
"""A longer reason is truncated; a reason may quote a value of any length."""

TORN = "torn-end"
"""The code of the reject for a document whose end is missing."""

SCHEMA = (
    "CREATE TABLE documents (id INTEGER PRIMARY KEY, profile TEXT NOT NULL, url TEXT NOT NULL,"
    " datasource TEXT NOT NULL, kind TEXT NOT NULL, arrival TEXT, mimetype TEXT, bytes INTEGER,"
    " sha256 TEXT, metadata TEXT, acl TEXT, acl_is_alone INTEGER NOT NULL, fields TEXT,"
    " searchable INTEGER NOT NULL, feed INTEGER NOT NULL)",
    "CREATE UNIQUE INDEX documents_url ON documents (url, profile)",
    "CREATE INDEX documents_of ON documents (datasource)",
    "CREATE INDEX documents_hidden ON documents (profile) WHERE kind = 'data' AND NOT searchable",
    "CREATE TABLE left_out (feed INTEGER NOT NULL, url TEXT NOT NULL, PRIMARY KEY (feed, url))"
    " WITHOUT ROWID",
    "CREATE TABLE skipped (url TEXT PRIMARY KEY, datasource TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE groups (groupsource TEXT NOT NULL, name TEXT NOT NULL, namespace TEXT NOT NULL,"
    " PRIMARY KEY (groupsource, name, namespace)) WITHOUT ROWID",
)

Change = tuple[str, tuple[object, ...]]
"""A statement and its values."""

_COLUMNS = (
    *("profile", "url", "datasource", "kind", "arrival", "mimetype", "bytes", "sha256"),
    *("metadata", "acl", "acl_is_alone", "fields", "searchable", "feed"),
)
_Assignments = dict[str, str]


def _upsert(assignments: _Assignments) -> str:
    """Return the statement that inserts a row, or assigns columns of the row with its URL."""
    names, marks = ", ".join(_COLUMNS), ", ".join("?" * len(_COLUMNS))
    settings = ", ".join(f"{name} = {value}" for name, value in assignments.items())
    return (
        f"INSERT INTO documents ({names}) VALUES ({marks})"
        f" ON CONFLICT (url, profile) DO UPDATE SET {settings}"
    )


def _stated(name: str) -> str:
    return f"coalesce(excluded.{name}, documents.{name})"


def _crawled(name: str) -> str:
    """Return the new value for a web feed: an update of a pushed document, else a replacement."""
    is_pushed = "documents.kind = 'feed' AND documents.arrival = 'PUSHED'"
    kept = {**_STATED_ACL, "metadata": _stated("metadata"), "fields": _MERGED_FIELDS}
    return f"iif({is_pushed}, {kept.get(name, f'documents.{name}')}, {_REPLACED[name]})"


_MERGED_FIELDS = (
    "iif(excluded.fields IS NULL, documents.fields,"
    " json_patch(coalesce(documents.fields, '{}'), excluded.fields))"
)
_STATED_ACL: _Assignments = {
    "acl": _stated("acl"),
    "acl_is_alone": "iif(excluded.acl IS NULL, documents.acl_is_alone, excluded.acl_is_alone)",
}
_KEEPS_ACL = "excluded.acl IS NULL AND documents.acl_is_alone"
_REPLACED: _Assignments = {
    **{name: f"excluded.{name}" for name in _COLUMNS if name not in ("profile", "url")},
    "acl": f"iif({_KEEPS_ACL}, documents.acl, excluded.acl)",
    "acl_is_alone": f"iif({_KEEPS_ACL}, 1, excluded.acl_is_alone)",
}

_REPLACE = _upsert(_REPLACED)
_UPDATE = _upsert(
    {
        **_REPLACED,
        **{name: _stated(name) for name in ("mimetype", "metadata", "bytes", "sha256")},
        "fields": _MERGED_FIELDS,
        **_STATED_ACL,
        "searchable": "max(documents.searchable, excluded.searchable)",
    }
)
_CRAWL = _upsert({**{name: _crawled(name) for name in _REPLACED}, "feed": "excluded.feed"})
_SET_ACL = _upsert(
    {
        "acl": "excluded.acl",
        "acl_is_alone": "1",
        "datasource": "iif(documents.kind = 'acl', excluded.datasource, documents.datasource)",
        "feed": "excluded.feed",
    }
)
_DELETE = "DELETE FROM documents WHERE url = ? AND profile = ? AND datasource = ?"
_DELETE_ACL = f"{_DELETE} AND kind = 'acl'"
MATCHING = "FROM documents WHERE profile = ? AND url >= ? AND url < ? AND url GLOB ?"
_DELETE_MATCHING = f"DELETE {MATCHING}"
_SHOW = "UPDATE documents SET searchable = 1 WHERE profile = ? AND kind = 'data' AND NOT searchable"
_FORGET = "DELETE FROM documents WHERE datasource = ? AND profile = ''"
_IS_FED = "profile = '' AND kind <> 'acl'"
_SKIP = "INSERT OR REPLACE INTO skipped VALUES (?, ?)"
_UNSKIP = "DELETE FROM skipped WHERE datasource = ?"
_LEAVE_OUT = (
    f"INSERT INTO left_out SELECT ?, url FROM documents WHERE {_IS_FED} AND datasource = ?"
    " UNION SELECT ?, url FROM skipped WHERE datasource = ?"
)
_EXISTS = "EXISTS (SELECT 1 FROM {0} WHERE {0}.url = left_out.url AND {1})".format
_KEEP = (
    f"DELETE FROM left_out WHERE feed = ?"
    f" AND ({_EXISTS('documents', _IS_FED)} OR {_EXISTS('skipped', 'true')})"
)
_ADD_GROUP = "INSERT OR IGNORE INTO groups VALUES (?, ?, ?)"
_FORGET_GROUPS = "DELETE FROM groups WHERE groupsource = ?"
_LAST_CHARACTER = "\U0010ffff"

# Module constants, as looking them up in their enums costs several times as much.
_IS_DELETE = Action.DELETE
_PUSHED, _CRAWLED = Arrival.PUSHED.value, Arrival.CRAWLED.value

_HINTS = tuple(name for name in Crawl.__struct_fields__ if name != "anchors")
_TEXTS = ("title", "description", "keywords", "modified")
_encode = msgspec.json.Encoder().encode


class DigestTally:
    """Counts the records of a delivery that are included and refused, with the first reasons."""

    def __init__(self) -> None:
        self.included = self.in_error = 0
        self.details: list[str] = []

    def refuse(self, line: int, reason: str) -> None:
        """Count a refused record."""
        self._add(f"Skipping the record, Line number: {line}, Error: {reason}")

    def refuse_end(self, reject: Reject) -> None:
        """Count the missing end of a feed."""
        self._add(f"ProcessFeed: parsing error, Line number: {reject.line}: {reject.reason}")

    def fail(self, reason: str) -> None:
        """Record that nothing of the delivery is included."""
        self.included, self.in_error = 0, max(1, self.in_error)
        self.details = [short_text(reason, MAX_DETAIL_LENGTH), *self.details[: MAX_DETAILS - 1]]

    def _add(self, reason: str) -> None:
        self.in_error += 1
        if len(self.details) < MAX_DETAILS:
            self.details.append(short_text(reason, MAX_DETAIL_LENGTH))


def read_changes(
    delivery: Delivery, spool: Path, tally: DigestTally, options: ReadOptions = ReadOptions()
) -> Iterator[Change]:
    """Yield the changes that a delivery makes, in order, with one record in memory at a time.

    Raises OSError if its file cannot be read, FormatError if it must change nothing: a full feed
    without its end would remove the documents of the missing part, and a full feed of which no
    record can be read would remove all documents.
    """
    is_feed = _is_feed(delivery)
    if is_whole(delivery) and is_feed:
        yield _LEAVE_OUT, (delivery.ordinal, delivery.datasource) * 2  # everything of before
        yield _FORGET, (delivery.datasource,)
        yield _UNSKIP, (delivery.datasource,)
    elif is_whole(delivery):
        yield _FORGET_GROUPS, (delivery.datasource,)
    if delivery.path is None:
        return
    with (spool / delivery.path).open("rb") as stream:
        # The posted datasource and feedtype win over those in the header of a feed.
        posted = Feed(datasource=delivery.datasource, feedtype=delivery.feedtype)
        span = Span(source=delivery.path, feed=posted if is_feed else None)
        change = change_of(delivery)
        is_read = False
        for result in by_name(delivery.format).read(stream, span=span, options=options):
            is_read = is_read or isinstance(result, Record | Membership)
            yield from _changes_of(result, delivery, tally, change)
    if tally.in_error and not is_read and is_whole(delivery):
        raise FormatError(f"none of its {tally.in_error} records can be read")
    if is_feed and is_whole(delivery):
        yield _KEEP, (delivery.ordinal,)  # its own URLs are not left out


def _is_feed(delivery: Delivery) -> bool:
    """Whether a delivery is a feed of documents of a datasource."""
    return by_name(delivery.format).has_document_feeds


def _changes_of(
    result: ReadResult, delivery: Delivery, tally: DigestTally, change: Callable[[Record], Change]
) -> Iterator[Change]:
    if isinstance(result, Reject):
        _refuse(result, delivery, tally)
    elif isinstance(result, Record | Membership):
        try:
            made = change(result) if isinstance(result, Record) else add_group(delivery, result)
        except Exception as exc:  # a defect costs the record, not the feed
            tally.refuse(result.provenance.line, record_error(exc).reason)
            is_fed = isinstance(result, Record) and _is_feed(delivery)
            if is_fed and result.action is not _IS_DELETE:  # a gateway still forwards it
                yield _SKIP, (result.url, delivery.datasource)
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


def change_of(delivery: Delivery) -> Callable[[Record], Change]:
    """Return the function that turns a record of a delivery into a change.

    The function raises RecordError for a record that the appliance refuses.
    """
    change_by = _change_by_data if delivery.profile else _change_by_feed
    change = partial(change_by, delivery)
    refused = frozenset(delivery.refused)

    def change_unless_refused(record: Record) -> Change:
        if record.url in refused:
            raise RecordError("refused", REFUSED_BY_SCENARIO)
        return change(record)

    return change_unless_refused if refused else change


def add_group(delivery: Delivery, membership: Membership) -> Change:
    """Return the change that adds a group."""
    namespace, name = identity(membership.group.namespace, membership.group.name)
    return _ADD_GROUP, (delivery.datasource, name, namespace)


def check_pattern(pattern: str) -> None:
    """Raise RecordError for a deletion pattern that the appliance denies."""
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise RecordError(
            "long-pattern",
            f"a pattern of {len(pattern)} characters; expected at most {MAX_PATTERN_LENGTH}",
        )
    if is_wide(pattern):
        raise RecordError(
            "wide-delete",
            f"a deletion of all URLs like {pattern!r}; expected a pattern that names part of a"
            " path, as this one empties a host or more",
        )


def matching_values(pattern: str, profile: str) -> tuple[str, ...]:
    """Return the values of the MATCHING condition; the range of URLs makes it use the index."""
    prefix = prefix_of(pattern)
    return profile, prefix, prefix + _LAST_CHARACTER, sqlite_glob(pattern)


def _change_by_data(delivery: Delivery, record: Record) -> Change:
    """Return the change by Thunderstone data of a profile."""
    profile, action = delivery.profile, record.action
    if action is _IS_DELETE:
        return _DELETE, (record.url, profile, profile)
    if action is Action.DELETE_PATTERN:
        check_pattern(record.url)
        return _DELETE_MATCHING, matching_values(record.url, profile)
    if action is Action.UPDATE_INDEX:
        return _SHOW, (profile,)
    head = (profile, record.url, profile, "data", _PUSHED)
    statement = _REPLACE if action is Action.ADD else _UPDATE
    return statement, (*head, *_columns(record), False, delivery.ordinal)


def _change_by_feed(delivery: Delivery, record: Record) -> Change:
    """Return the change by a feed; the content of a web feed, and the type of that, are ignored."""
    datasource, ordinal = delivery.datasource, delivery.ordinal
    for meta in record.metadata:
        if not meta.value and not meta.data:
            raise RecordError("empty-metadata", EMPTY_METADATA)
    is_alone = record.acl is not None and record.acl.alone
    if record.action is _IS_DELETE:
        statement = _DELETE_ACL if is_alone else _DELETE
        return statement, (record.url, "", datasource)
    if is_alone:
        columns = _columns(record)
        return _SET_ACL, ("", record.url, datasource, "acl", None, *columns, False, ordinal)
    statement, arrival = _UPDATE, _PUSHED
    if is_web(datasource, delivery.feedtype):
        statement, arrival = _CRAWL, _CRAWLED
        record = msgspec.structs.replace(record, content=None, mimetype=None)
    elif record.content is not None:
        statement = _REPLACE
    elif delivery.feedtype == FULL and record.metadata:
        raise RecordError(
            "metadata-alone",
            "metadata without content in a full feed; expected content, or incremental",
        )
    head = ("", record.url, datasource, "feed", arrival)
    return statement, (*head, *_columns(record), True, ordinal)


def _columns(record: Record) -> tuple[object, ...]:
    """Return the values of the columns from `mimetype` to `fields`."""
    size, digest = _content_of(record)
    acl = record.acl
    return (
        record.mimetype,
        size,
        digest,
        _json(record.metadata),
        _json(acl),
        acl is not None and acl.alone,
        _json(_fields_of(record)),
    )


def _content_of(record: Record) -> tuple[int | None, str | None]:
    """Return size and digest of the content, or of the body text if there is no content."""
    if record.content is not None:
        document = decode(record.content, max_bytes=CHECKED)
    elif record.body is not None:
        document = record.body.encode()
    else:
        return None, None
    return len(document), sha256(document).hexdigest()


def _fields_of(record: Record) -> dict[str, object]:
    values: dict[str, object] = {name: getattr(record, name) for name in _TEXTS}
    values |= {name: getattr(record.crawl, name, None) for name in _HINTS}
    fields = {name: value for name, value in values.items() if value is not None}
    if record.categories:
        fields["categories"] = record.categories
    return fields | {f"u:{field.name}": field.values for field in record.fields}


def _json(value: object) -> str | None:
    """Return the JSON text of a value, `None` if it is empty."""
    return _encode(value).decode() if value else None
