"""The documents that an appliance would hold after a history of feeds.

A record becomes an `Event`, with the size and the digest of its content. The events of one URL, in
the order of the input, are folded into its `Document`.

**Spec:** Feeds Protocol Developer's Guide 7.x, "Choosing the Feed Type", "Full Feeds and
Incremental Feeds", "Removing Feed Content From the Index"; Thunderstone dataload API. As the guide
says:

- A full feed replaces all documents of its datasource, and a full feed of groups all its groups.
- A record with content replaces the document; without content, it changes the fields it states.
- Content and MIME type in a web feed are ignored, as the appliance crawls the documents.
- A URL belongs to the datasource that updated it last, and only that datasource deletes it. A URL
  of a content feed keeps its content and owner when a web feed names it.
- An ACL that arrived alone stays until another ACL arrives or the URL is deleted. One that
  withholds a document stays until a version of the document arrives.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec
from msgspec.structs import replace

from feedferry.schemas.errors import FormatError, SourceError
from feedferry.schemas.feed import FULL, REPLACE, FeedHeader
from feedferry.schemas.membership import Membership, RecordOrMembership
from feedferry.schemas.notice import Notice
from feedferry.schemas.patterns import compile_deletion
from feedferry.schemas.record import Action, Arrival, Provenance, Record, overlaid
from feedferry.schemas.reject import Filtered, Reject, record_error, reject_record
from feedferry.transforms.compare.events import (
    Event,
    decoded,
    encoded,
    encoded_batch,
    event_of,
    number_of,
)
from feedferry.transforms.formats.base import ReadResult
from feedferry.transforms.formats.fast_path.columns.record_batch import RecordBatch
from feedferry.transforms.formats.fast_path.elements.element_block import ElementBlock
from feedferry.transforms.formats.fast_path.elements.singly import singly

MAX_PATTERNS = 1_000
"""The most deletions by pattern of a history: each is compared with every URL."""

_SAMPLES = 3
_OF_SEVERAL_URLS = (Action.DELETE_PATTERN, Action.UPDATE_INDEX)
_FULL_GROUPS = (FULL, REPLACE)


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A document, an ACL alone, or a group, as an appliance would hold it.

    `record` has all fields but the content. `number` is that of the record with the content, None
    without one. Where `is_deleted`, the last event was a deletion. With a `fault`, it is not known
    whether there is a document.
    """

    record: Record | None = None
    membership: Membership | None = None
    size: int | None = None
    digest: bytes | None = None
    number: int | None = None
    is_deleted: bool = False
    fault: str | None = None

    @property
    def datasource(self) -> str | None:
        item = self.record or self.membership
        return item.provenance.datasource if item else None

    @property
    def is_acl(self) -> bool:
        """Whether it is the ACL of a URL without a document, such as a folder."""
        record = self.record
        return (
            record is not None
            and record.acl is not None
            and record.acl.alone
            and record.arrival is None
            and self.digest is None
        )


def stated(document: Document) -> Record:
    """Return the record of a document; its ACL is a part of it, even if it arrived alone."""
    record = document.record
    if record is None:
        raise AssertionError("a group among documents")
    if record.acl is None or not record.acl.alone or document.is_acl:
        return record
    return replace(record, acl=replace(record.acl, alone=False))


def with_contents(
    documents: Iterable[Document], results: Iterable[ReadResult | Event]
) -> Iterator[Record]:
    """Yield documents with their contents, which are read again; both are in the same order.

    Raises SourceError if the input has changed.
    """
    numbered = enumerate(each(results))
    for document in documents:
        result = next((item for number, item in numbered if number == document.number), None)
        record = stated(document)
        if not isinstance(result, Record) or result.url.strip() != record.url.strip():
            raise SourceError(f"{record.url}: the input has changed; expected it as it was read")
        yield replace(record, content=result.content, body=result.body)


class FeedHistory:
    """Reads one input as events, and folds those of a URL; reading must have ended before."""

    def __init__(self) -> None:
        self.records = Counter[str]()
        self.rejects = Counter[str]()
        self.samples: list[str] = []
        self._number = -1
        self._removed_at = -1
        self._begun: dict[tuple[bool, str | None], str] = {}
        self._full_feeds: dict[tuple[bool, str | None], list[int]] = {}
        self._patterns: list[tuple[int, re.Pattern[str]]] = []

    def stored(self, results: Iterable[ReadResult | Event]) -> Iterator[tuple[bytes, bytes]]:
        """Yield the keys and the stored forms of the events of an input; count its rejects.

        Raise FormatError for too many deletions by pattern.
        """
        for item in results:
            rows = self._of_batch(item) if isinstance(item, RecordBatch) else None
            if rows is not None:
                yield from rows
            elif isinstance(item, RecordBatch | ElementBlock):
                yield from filter(None, map(self._of_item, item))
            elif (row := self._of_item(item)) is not None:
                yield row

    def _of_batch(self, batch: RecordBatch) -> Iterator[tuple[bytes, bytes]] | None:
        """Return the rows of a batch, None if its records go one by one."""
        rows = encoded_batch(batch, self._number + 1)
        if rows is None:
            return None
        self._number += 1
        self._enter(batch.groups[0].shape.model.provenance, is_group=False)
        self._number += len(batch.order) - 1
        for group in batch.groups:
            self.records[group.shape.model.action.value] += group.count
        return rows

    def _of_item(self, item: ReadResult | Event) -> tuple[bytes, bytes] | None:
        """Return the row of a single result; count it, or notice what it says about others."""
        if isinstance(item, Notice | Filtered):
            return None
        self._number += 1
        if isinstance(item, Record | Membership):
            return self._of_record(item)
        if isinstance(item, Event):
            return encoded(item, self._number)
        if isinstance(item, Reject):
            self._count_reject(item)
        elif isinstance(item, FeedHeader) and item.feedtype in _FULL_GROUPS:
            self._begin_full((item.memberships, item.datasource))
        return None

    def _of_record(self, item: RecordOrMembership) -> tuple[bytes, bytes] | None:
        self.records[item.action._value_] += 1  # twice as fast as `value`
        self._enter(item.provenance, is_group=isinstance(item, Membership))
        try:
            row = encoded(event_of(item), self._number)
        except Exception as exc:
            self._count_reject(reject_record(item, record_error(exc), stage="read"))
            return None
        if item.action is Action.DELETE_PATTERN and isinstance(item, Record):
            self._add_pattern(item)
        return row if item.action not in _OF_SEVERAL_URLS else None

    def is_last(self, stored: bytes) -> bool:
        """Whether no full feed or pattern after an event removes documents."""
        return number_of(stored) >= self._removed_at

    def document(self, rows: Iterable[bytes]) -> Document | None:
        """Return the document of the stored events of a URL, in order; None without events."""
        document: Document | None = None
        last = 0
        for number, event in map(decoded, rows):
            if document is not None:
                document = self._kept(document, last, number)
            last = number
            if event.membership is not None:
                document = _with_group(document, event.membership)
            elif event.record is not None:
                document = _with_record(document, event, event.record, number)
        return None if document is None else self._kept(document, last, self._number + 1)

    def has_full_feed(self, datasource: str | None, *, memberships: bool) -> bool:
        return (memberships, datasource) in self._full_feeds

    def _enter(self, at: Provenance, *, is_group: bool) -> None:
        """Notice the first record of a full feed; its parts in other files have the same source."""
        if at.feedtype == FULL or (is_group and at.feedtype == REPLACE):
            if self._begun.get((is_group, at.datasource)) != at.source:
                self._begin_full((is_group, at.datasource))
                self._begun[is_group, at.datasource] = at.source
        elif self._begun:
            self._begun.pop((is_group, at.datasource), None)

    def _begin_full(self, feed: tuple[bool, str | None]) -> None:
        self._full_feeds.setdefault(feed, []).append(self._number)
        self._removed_at = self._number

    def _add_pattern(self, record: Record) -> None:
        if len(self._patterns) >= MAX_PATTERNS:
            raise FormatError(
                f"{record.provenance.source}: more than {MAX_PATTERNS} deletions by pattern;"
                " expected fewer: convert the history with ⟦known_urls⟧ first, which expands them"
            )
        self._patterns.append((self._number, compile_deletion(record.url)))
        self._removed_at = self._number

    def _kept(self, document: Document, since: int, until: int) -> Document:
        """Return a document, as deleted if a full feed or a pattern removes it."""
        if document.is_deleted:
            return document
        began = self._full_feeds.get((document.membership is not None, document.datasource), ())
        index = bisect_right(began, since)
        is_replaced = index < len(began) and began[index] <= until
        url = document.record.url if document.record else ""
        if is_replaced or any(
            since < number < until and pattern.fullmatch(url) for number, pattern in self._patterns
        ):
            return replace(document, is_deleted=True)
        return document

    def _count_reject(self, reject: Reject) -> None:
        self.rejects[reject.code] += 1
        if len(self.samples) < _SAMPLES:
            self.samples.append(reject.message)


def each(results: Iterable[ReadResult | Event]) -> Iterator[ReadResult | Event]:
    """Yield all results, records in place of batches; without notices and filtered records."""
    items: Iterator[ReadResult | Event] = singly(results)
    return (item for item in items if not isinstance(item, Notice | Filtered))


def _with_group(document: Document | None, membership: Membership) -> Document:
    """Return a group with the members of another membership; a feed appends members."""
    if document is not None and document.membership is not None and not document.is_deleted:
        members = dict.fromkeys((*document.membership.members, *membership.members))
        membership = replace(membership, members=tuple(members))
    return Document(membership=membership)


def _with_record(
    document: Document | None, event: Event, record: Record, number: int
) -> Document | None:
    held = None if document is None or document.is_deleted else document
    is_alone = record.acl is not None and record.acl.alone
    if record.action is Action.DELETE:
        return _without(document, record, is_alone=is_alone)
    if held is None or held.record is None:
        return _made(event, record, number)
    acl = held.record.acl
    is_withheld = acl is not None and acl.withholds
    if is_alone and (is_withheld or not held.is_acl):
        return held if is_withheld else replace(held, record=replace(held.record, acl=record.acl))
    is_crawled = record.arrival is Arrival.CRAWLED
    if is_crawled and held.record.arrival is Arrival.PUSHED:
        return replace(held, record=merged(held.record, replace(record, mimetype=None)))
    if record.action is Action.UPDATE and not is_crawled:
        content = _made(event, record, number) if event.digest is not None else held
        return replace(content, record=merged(held.record, record, is_owner=True))
    if record.acl is None and acl is not None and acl.alone and not is_withheld:
        record = replace(record, acl=acl)
    return _made(event, record, number)


def _made(event: Event, record: Record, number: int) -> Document:
    return Document(
        record=record,
        size=event.size,
        digest=event.digest,
        number=None if event.digest is None else number,
        fault=event.fault,
    )


def _without(document: Document | None, record: Record, *, is_alone: bool) -> Document | None:
    """Apply a deletion: only the owner deletes, and that of an ACL alone keeps a document."""
    if document is None:
        return Document(record=record, is_deleted=True)
    owner, source = document.datasource, record.provenance.datasource
    if (owner and source and owner != source) or (is_alone and not document.is_acl):
        return document
    return replace(document, is_deleted=True)


def merged(held: Record, stated: Record, *, is_owner: bool = False) -> Record:
    """Return a record with the fields that a partial update states; others are kept."""
    owner, fields = stated if is_owner else held, held.fields
    if stated.fields:
        fields = tuple({field.name: field for field in (*held.fields, *stated.fields)}.values())
    return replace(
        overlaid(held, stated),
        url=held.url,
        action=held.action,
        arrival=owner.arrival,
        provenance=owner.provenance,
        fields=fields,
    )
