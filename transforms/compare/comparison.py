"""The differences between what two histories of feeds make: added, removed and changed documents.

Any format, any order. Events are on disk (`Spill`), so memory hardly depends on the input.
"""

import enum
from collections.abc import Iterable, Iterator
from contextlib import closing
from hashlib import sha256
from heapq import nsmallest
from operator import itemgetter
from pathlib import Path

import msgspec
from msgspec.structs import replace

from feedferry.schemas.record import Action, Arrival
from feedferry.transforms.compare.differences import (
    ACL,
    CONTENT,
    FieldChange,
    changes,
    without_answer,
)
from feedferry.transforms.compare.events import Event, decoded, is_deletion, state_of
from feedferry.transforms.compare.history import Document, FeedHistory
from feedferry.transforms.formats import ReadResult
from feedferry.transforms.storage.files.scratch import scratch_database
from feedferry.transforms.storage.files.spill import Spill

_SCHEMA = """
CREATE TABLE differences
    (rank INTEGER NOT NULL, key BLOB NOT NULL, number INTEGER, data BLOB NOT NULL)
"""
_INSERT = "INSERT INTO differences VALUES (?, ?, ?, ?)"
_BEFORE, _AFTER = 0, 1
_SEVERAL = 2
_HASH_BYTES = 8
_EVERY = 1 << 8 * _HASH_BYTES


class Change(enum.Enum):
    """How a document differs, from the first input to the second."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    UNKNOWN = "unknown"
    """The target did not say whether it has the document."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One document that differs; `fields` are those that changed, the ACL first.

    `before` and `after` are the documents without contents; an unknown one has neither. A removed
    document has an `after` if the second input deletes it, and none if it does not mention it.
    """

    url: str
    change: Change
    fields: tuple[FieldChange, ...] = ()
    before: Document | None = None
    after: Document | None = None

    @property
    def changes_acl(self) -> bool:
        return any(field.field == ACL for field in self.fields)

    @property
    def rank(self) -> int:
        """The place in a list: changed ACLs come first."""
        return 0 if self.changes_acl else 1 + [*Change].index(self.change)

    def number(self, *, is_updated: bool) -> int | None:
        """Return the number of the result of the second input whose content a feed needs.

        With `is_updated`, a feed can change a document without its content.
        """
        if self.after is None or self.after.is_deleted:
            return None
        return None if is_updated and self.is_update else self.after.number

    @property
    def needs_deletion(self) -> bool:
        """Whether a deletion must come first: the document is gone, or would keep old fields."""
        old, new = self.before, self.after
        if old is None or old.record is None:
            return False
        if new is None or new.record is None or self.change is Change.REMOVED:
            return True
        keeps_acl = old.record.acl is not None and old.record.acl.alone and new.record.acl is None
        if new.number is not None or keeps_acl:
            return keeps_acl
        is_replaced = new.record.arrival is Arrival.CRAWLED or new.is_acl
        is_alike = old.record.arrival is new.record.arrival and old.is_acl is new.is_acl
        return not (is_alike and (is_replaced or self.is_update))

    @property
    def is_update(self) -> bool:
        """Whether a record without content makes the change: it only adds or replaces fields."""
        after = self.after.record if self.after else None
        if self.change is not Change.CHANGED or after is None:
            return False
        kept = {CONTENT: False} | {
            change.field: change.after is not None
            or bool(change.field.startswith("metadata:") and after.metadata)
            for change in self.fields
            if change.field != CONTENT
        }
        return all(kept[change.field] for change in self.fields)


class InputSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The records and rejects of one input, and the number of its documents."""

    records: dict[str, int]
    rejects: dict[str, int]
    reject_samples: tuple[str, ...]
    documents: int


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of a comparison.

    `acl_changes` are counted among the changed documents as well. `unmentioned` documents are in
    the first input, and the second does not say anything about them; they are only counted where
    the comparison is one-sided. Of `unknown` documents, the target did not say whether it has them.
    Documents that are `not_sampled` are in the second input, and were not compared.
    """

    before: InputSummary
    after: InputSummary
    same: int
    added: int
    removed: int
    changed: int
    acl_changes: int
    unmentioned: int = 0
    unknown: int = 0
    not_sampled: int = 0

    @property
    def has_findings(self) -> bool:
        """Whether anything differs, or could not be read."""
        is_unread = self.before.rejects or self.after.rejects
        differs = self.added or self.removed or self.changed or self.unknown
        return bool(differs or is_unread)


class Sample(msgspec.Struct, frozen=True):
    """The keys whose hashes are below a limit: a share of all keys, or the first `count` of them.

    It is the same each time, and in every input. A sample by `count` has no limit until it knows
    all keys.
    """

    limit: int = _EVERY
    count: int | None = None

    @classmethod
    def share(cls, share: float) -> "Sample":
        """Return the sample of a share of all keys, from 0 to 1."""
        return cls(limit=round(share * _EVERY))

    @property
    def needs_keys(self) -> bool:
        return self.count is not None

    def of(self, keys: Iterable[bytes]) -> "Sample":
        """Return the sample of `count` of these keys, which are distinct; of all if they are fewer.

        Memory grows with `count`.
        """
        if self.count is None:
            return self
        hashes = nsmallest(self.count, map(_hash, keys))
        return Sample(limit=hashes[-1] + 1 if hashes else 0)

    def __contains__(self, key: bytes) -> bool:
        return self.limit >= _EVERY or _hash(key) < self.limit


ALL = Sample()


class Comparer:
    """Compares two inputs, in a folder of its own: add both, compare, then list what differs.

    `only` are the fields that both inputs can state. With `is_updated`, a feed can change a
    document without its content. Where it `is_one_sided`, documents that only the first input
    mentions do not differ. With `has_only_documents`, the first input has no ACL of a URL without a
    document, so that an ACL alone is only compared with that of a document. Where it
    `is_by_datasource`, a URL may be a document in each of several datasources. Only the documents
    of the second input in the `sample` are compared. `found` are differences that
    are known before, by URL and datasource; they count if the first input has the document.
    """

    def __init__(
        self,
        folder: Path,
        *,
        ignored: frozenset[str] = frozenset(),
        only: frozenset[str] | None = None,
        is_updated: bool = False,
        is_one_sided: bool = False,
    ) -> None:
        self._spill = Spill(folder)
        self._histories = (FeedHistory(), FeedHistory())
        self._ignored, self._only = ignored, only
        self._is_updated, self._is_one_sided = is_updated, is_one_sided
        self.has_only_documents = False
        self.is_by_datasource = False
        self.sample = ALL
        self.found: dict[tuple[str, str | None], FieldChange] = {}
        self._is_list = False
        self._not_sampled = 0
        self._database = scratch_database(_SCHEMA, folder / "differences.db")

    def close(self) -> None:
        self._database.close()

    def add_before(self, results: Iterable[ReadResult | Event], *, is_list: bool = False) -> None:
        """Read the first input: a history, or a list with all documents of each URL."""
        self._is_list = is_list
        self._spill.add(_BEFORE, self._histories[_BEFORE].stored(results))

    def add_after(self, results: Iterable[ReadResult | Event]) -> None:
        """Read the second input."""
        self._spill.add(_AFTER, self._histories[_AFTER].stored(results))

    def documents(self) -> Iterator[Document]:
        """Yield the documents of the second input, also deleted ones, before the comparison."""
        for _, events in self._sampled(keep=True):
            document = self._histories[_AFTER].document(events[_AFTER])
            if document is not None:
                yield document

    def first_documents(self, count: int) -> list[Document]:
        """Return documents of the second input that are there, chosen by their URLs."""
        there = (document for document in self.documents() if not document.is_deleted)
        named = ((_hash(of.record.url.encode()), of) for of in there if of.record is not None)
        return [document for _, document in nsmallest(count, named, key=itemgetter(0))]

    def _sampled(self, *, keep: bool = False) -> Iterator[tuple[bytes, tuple[list[bytes], ...]]]:
        """Yield the keys of the sample with their events."""
        sides, self._not_sampled = len(self._histories), 0
        if self.sample.needs_keys:
            after = (key for key, events in self._spill.keys(sides, keep=True) if events[_AFTER])
            self.sample = self.sample.of(after)
        for key, events in self._spill.keys(sides, keep=keep):
            if key in self.sample:
                yield from ((key, own) for own in self._of_documents(events))
            else:
                self._not_sampled += bool(events[_AFTER])

    def _of_documents(self, events: tuple[list[bytes], ...]) -> Iterator[tuple[list[bytes], ...]]:
        """Yield the events of each document of a URL; those without a datasource are of all."""
        if not self.is_by_datasource or all(len(side) < _SEVERAL for side in events):
            yield events
            return
        stated = [[(decoded(data)[1].datasource, data) for data in side] for side in events]
        names = dict.fromkeys(name for side in stated for name, _ in side if name is not None)
        for name in names or (None,):
            yield tuple([data for of, data in side if of in (None, name)] for side in stated)

    def compare(self) -> Comparison:
        """Compare both inputs, which have been read."""
        counts = dict.fromkeys(Change, 0)
        documents = [0, 0]
        same = acl_changes = unmentioned = 0
        found = {url for url, _ in self.found}
        encode = msgspec.msgpack.Encoder().encode
        for key, events in self._sampled():
            if self._are_same(*events) and key.decode() not in found:
                is_there = not is_deletion(events[0][0])
                documents = [count + is_there for count in documents]
                same += is_there
                continue
            before, after = self._listed(key, *events) if self._is_list else self._folded(*events)
            for side, document in enumerate((before, after)):
                documents[side] += document is not None and not document.is_deleted
            difference = self._difference(key, before, after)
            if difference is None:
                same += before is not None and not before.is_deleted
                continue
            is_removed = difference.change is Change.REMOVED
            if self._is_one_sided and is_removed and difference.after is None:
                unmentioned += 1
                continue
            counts[difference.change] += 1
            acl_changes += difference.changes_acl
            number = difference.number(is_updated=self._is_updated)
            row = (difference.rank, key, number, encode(difference))
            self._database.execute(_INSERT, row)
        first, second = (
            InputSummary(
                records=dict(sorted(history.records.items())),
                rejects=dict(sorted(history.rejects.items())),
                reject_samples=tuple(history.samples),
                documents=count,
            )
            for history, count in zip(self._histories, documents, strict=True)
        )
        return Comparison(
            before=first,
            after=second,
            same=same,
            added=counts[Change.ADDED],
            removed=counts[Change.REMOVED],
            changed=counts[Change.CHANGED],
            acl_changes=acl_changes,
            unmentioned=unmentioned,
            unknown=counts[Change.UNKNOWN],
            not_sampled=self._not_sampled,
        )

    def differences(self) -> Iterator[Difference]:
        """Yield changed ACLs, then added, removed and other changed documents, each by URL."""
        return self._rows("ORDER BY rank, key")

    def with_contents(self) -> Iterator[Difference]:
        """Yield the differences whose feed needs a content, in the order of the second input."""
        return self._rows("WHERE number IS NOT NULL ORDER BY number")

    def without_contents(self) -> Iterator[Difference]:
        """Yield all other differences, by URL."""
        return self._rows("WHERE number IS NULL ORDER BY key")

    def to_delete(self) -> Iterator[Difference]:
        """Yield the differences that need a deletion first, by URL."""
        return (row for row in self._rows("ORDER BY key") if row.needs_deletion)

    def _rows(self, clause: str) -> Iterator[Difference]:
        decode = msgspec.msgpack.Decoder(Difference).decode
        with closing(self._database.cursor()) as cursor:
            for (data,) in cursor.execute(f"SELECT data FROM differences {clause}"):
                yield decode(data)

    def has_full_feed(self, datasource: str | None, *, memberships: bool) -> bool:
        """Whether the second input has a full feed of a datasource, so that it is known whole."""
        return self._histories[_AFTER].has_full_feed(datasource, memberships=memberships)

    def _folded(self, *events: list[bytes]) -> tuple[Document | None, Document | None]:
        """Return the document of each input after all its events."""
        before, after = map(FeedHistory.document, self._histories, events)
        return before, after

    def _listed(
        self, key: bytes, before: list[bytes], after: list[bytes]
    ) -> tuple[Document | None, Document | None]:
        """Return the first listed document that differs, or the last one, and the expected one."""
        _, expected = self._folded([], after)
        listed: Document | None = None
        for event in before:
            listed = self._histories[_BEFORE].document([event])
            if self._difference(key, listed, expected) is not None:
                break
        return listed, expected

    def _difference(
        self, key: bytes, before: Document | None, after: Document | None
    ) -> Difference | None:
        is_acl = after is not None and is_acl_update(after)
        is_unchanged = before is None or before.is_deleted or _is_withheld(before)
        if self.has_only_documents and is_acl and is_unchanged:
            return None
        only = frozenset({ACL}) if self.has_only_documents and is_acl else self._only
        difference = difference_of(key, before, after, ignored=self._ignored, only=only)
        change = self.found.get((key.decode(), after.datasource if after else None))
        if change is None or before is None or (difference and difference.after is None):
            return difference
        if difference is not None:
            return replace(difference, fields=(change, *difference.fields))
        return Difference(
            url=key.decode(), change=Change.CHANGED, fields=(change,), before=before, after=after
        )

    def _are_same(self, before: list[bytes], after: list[bytes]) -> bool:
        """Whether both have one event of a URL, with equal states, after which nothing removes."""
        return (
            len(before) == len(after) == 1
            and state_of(before[0]) == state_of(after[0])
            and self._histories[_BEFORE].is_last(before[0])
            and self._histories[_AFTER].is_last(after[0])
        )


def difference_of(
    key: bytes,
    before: Document | None,
    after: Document | None,
    *,
    ignored: frozenset[str] = frozenset(),
    only: frozenset[str] | None = None,
) -> Difference | None:
    """Return what differs of one URL; a deleted document is one that is not there."""
    old = None if before is None or before.is_deleted else before
    new = None if after is None or after.is_deleted else after
    url = key.decode()
    if old is not None and old.fault is not None:
        found = without_answer(old.fault)
        return Difference(url=url, change=Change.UNKNOWN, fields=(found,))
    if old is None or new is None:
        if old is new:
            return None
        change = Change.ADDED if old is None else Change.REMOVED
        return Difference(url=url, change=change, before=old, after=after)
    fields = changes(old, new, ignored=ignored, only=only)
    if not fields:
        return None
    return Difference(url=url, change=Change.CHANGED, fields=fields, before=old, after=new)


def _is_withheld(document: Document) -> bool:
    """Whether a document is hidden until its next version, so that no ACL alone shows it."""
    acl = None if document.record is None else document.record.acl
    return acl is not None and acl.withholds


def is_acl_update(document: Document) -> bool:
    """Whether only the ACL of a document is known, because it arrived alone."""
    record = document.record
    return record is not None and record.action is Action.UPDATE and document.number is None


def _hash(key: bytes) -> int:
    return int.from_bytes(sha256(key).digest()[:_HASH_BYTES], "big")
