"""Compare the rows of a page with the state: what has not changed is counted, and not sent.

A row is compared in two steps. Its *signature* is a number for its values, the rules, the options
and the release, all that its record is made of. A row with the signature in the state is unchanged,
and its record is not made. Of the other rows, the records are made, in batches where they are
alike, and their *digests* decide: a row whose record is as it was is unchanged, too.

Rows have no signature if their records depend on more than their values, such as files, documents
that are fetched, or lookup queries. Deletions and rejected rows have none either.

An entry of the state that stays as it is is not written again.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from uuid import UUID

import msgspec
from msgspec.structs import replace

from feedferry.schemas import avro
from feedferry.schemas.errors import RecordError
from feedferry.schemas.notice import Notice
from feedferry.schemas.record import Action, Provenance, Record
from feedferry.schemas.reject import Filtered, Reject
from feedferry.schemas.sent_document import (
    NO_DIGEST,
    UNCHANGED,
    OnChange,
    SentDocument,
    StateChange,
)
from feedferry.transforms.formats.base import ReadOptions
from feedferry.transforms.formats.canonical.avro import AvroEncoder
from feedferry.transforms.formats.fast_path.columns.cells import plain
from feedferry.transforms.formats.fast_path.columns.record_batch import RecordBatch
from feedferry.transforms.formats.fast_path.columns.shape_columns import Columns
from feedferry.transforms.formats.fast_path.elements.element_block import ElementBlock
from feedferry.transforms.formats.fast_path.plans.batch_plan import BatchPlan, learn
from feedferry.transforms.formats.text.byte_scans import hash64
from feedferry.transforms.sources.database.changes.watermark import timestamp_text
from feedferry.transforms.sources.database.mapping.columns import ColumnIndex, Page, Row
from feedferry.transforms.sources.database.mapping.row_mapping import (
    TIMESTAMP,
    RowMapping,
    rules_of,
)
from feedferry.transforms.sources.database.records.row_batches import RowResult
from feedferry.transforms.sources.database.tables.table import write_key, write_keys
from feedferry.transforms.storage.state import SourceState

NO_SIGNATURE = 0
"""In place of the signature of a row that has none."""

_SEED_BYTES = 8
_PLAIN_TYPES = frozenset({str, int, float, bool, bytes, type(None)})
"""Types whose values differ in MessagePack, even in one column."""

_ONLY_TYPES = frozenset({datetime, date, Decimal, UUID})
"""Types whose values differ in MessagePack if the column has no other values but NULL."""

_DIGEST = "digest"
_NO_PROVENANCE = Provenance()
_ADDED = Action.ADD.value

Outcome = RowResult | Notice | Filtered
OutcomesOf = Callable[[Sequence[Row]], Iterator[RowResult]]


SignaturesOf = Callable[[Page], Sequence[int]]
"""Returns the signatures of the rows of a page."""


class RowChanges:
    """The outcomes of rows that are new, changed or rejected, and the number of the others.

    `see` is called for each row whose entry in the state changes, before its outcome is yielded.
    The order of rows is kept; `of_waiting` is called after the last one, and before `of_outcome`.
    Without a state, and for a refresh, all rows are sent.
    """

    def __init__(
        self,
        index: ColumnIndex,
        mapping: RowMapping,
        signatures_of: SignaturesOf,
        *,
        see: OnChange | None,
        state: SourceState | None,
    ) -> None:
        self._see = see
        self._state = state
        self._key_of = index.key_getter()
        self._key_places = [index.at("key", name) for name in index.key]
        timestamp = mapping.timestamp
        self._timestamp_at = None if timestamp is None else index.at(TIMESTAMP, timestamp)
        self._signatures_of = signatures_of
        self._waiting: list[tuple[Row, str, int]] = []

    def of_rows(
        self,
        rows: Sequence[Row],
        outcomes_of: OutcomesOf,
    ) -> Iterator[Outcome]:
        """Yield the outcomes of rows of a page, of which `outcomes_of` makes the records.

        Changed rows wait until they are as many as a page has, unless their records may depend on
        more than the rows: what is looked up for a page is not kept.
        """
        page = Page(rows)
        keys, signatures = self._keys(page), self._signatures_of(page)
        places: Sequence[int] = range(len(rows))
        has_signatures = any(signatures)
        if self._state is not None and has_signatures:
            changed = self._state.changed(dict(zip(keys, signatures, strict=True)))
            places = [place for place, each in enumerate(signatures) if each in changed]
            if count := len(rows) - len(places):
                yield Filtered(code=UNCHANGED, url="", action=_ADDED, count=count)
        self._waiting += [(rows[place], keys[place], signatures[place]) for place in places]
        if len(self._waiting) >= len(rows) or not has_signatures:
            yield from self.of_waiting(outcomes_of)

    def of_waiting(self, outcomes_of: OutcomesOf) -> Iterator[Outcome]:
        """Yield the outcomes of the rows that wait for others, with which they are a batch."""
        if not self._waiting:
            return
        rows, keys, signatures = zip(*self._waiting, strict=True)
        self._waiting = []
        before = {} if self._state is None else self._state.find_all(keys)
        begin = 0
        for outcome in outcomes_of(rows):
            end = begin + 1
            if isinstance(outcome, RecordBatch):
                end = begin + len(outcome.order)
            elif isinstance(outcome, ElementBlock):
                end = begin + len(outcome.ends)
            documents = [
                SentDocument(key=key, url="", size=signature, fingerprint=self._timestamp(row))
                for row, key, signature in zip(
                    rows[begin:end], keys[begin:end], signatures[begin:end], strict=True
                )
            ]
            if isinstance(outcome, RecordBatch):
                yield from self._of_batch(outcome, documents, before)
            elif isinstance(outcome, ElementBlock):
                yield from self._of_block(outcome, documents, before)
            else:
                yield from self._of_outcome(outcome, documents[0], before.get(keys[begin]))
            begin = end

    def of_outcome(
        self, row: Row, outcome: Record | Reject
    ) -> Iterator[Record | Reject | Filtered]:
        """Yield the outcome of a row that was read alone, which has no signature."""
        key = write_key(self._key_of(row))
        before = {} if self._state is None else self._state.find_all([key])
        document = SentDocument(key=key, url="", fingerprint=self._timestamp(row))
        return self._of_outcome(outcome, document, before.get(key))

    def _of_outcome(
        self, outcome: Record | Reject, stated: SentDocument, before: SentDocument | None
    ) -> Iterator[Record | Reject | Filtered]:
        document, is_deleted = _document_of(outcome, stated)
        self._see_change(document, before, is_deleted=is_deleted)
        if isinstance(outcome, Record) and _is_unchanged(before, document):
            yield Filtered(code=UNCHANGED, url=outcome.url, action=outcome.action.value)
        else:
            yield outcome

    def _of_block(
        self, block: ElementBlock, stated: Sequence[SentDocument], before: dict[str, SentDocument]
    ) -> Iterator[Record | Reject | Notice | ElementBlock | Filtered]:
        """Yield a block of which all is to be sent, as of most; else its records one by one."""
        items = [*block]
        yield from (item for item in items if isinstance(item, Notice))
        outcomes = [item for item in items if not isinstance(item, Notice)]
        documents = [*map(_document_of, outcomes, stated)]
        urls = [document.url for document, _ in documents if document.url]
        if len({*urls}) < len(urls) or any(
            _is_unchanged(before.get(document.key), document) for document, _ in documents
        ):
            for outcome, document in zip(outcomes, stated, strict=True):
                yield from self._of_outcome(outcome, document, before.get(document.key))
            return
        for document, is_deleted in documents:
            self._see_change(document, before.get(document.key), is_deleted=is_deleted)
        yield block

    def _of_batch(
        self, batch: RecordBatch, stated: Sequence[SentDocument], before: dict[str, SentDocument]
    ) -> Iterator[Outcome]:
        """Yield the records of a batch that are to be sent.

        What is rejected later is found by its URL. So records that share a URL go one by one.
        """
        pairs = _urls_and_digests(batch)
        documents = [
            _completed(document, url, digest)
            for document, (url, digest) in zip(stated, pairs, strict=True)
        ]
        if len({document.url for document in documents}) < len(documents):
            for record, document in zip(batch, stated, strict=True):
                yield from self._of_outcome(record, document, before.get(document.key))
            return
        sent = [
            place
            for place, document in enumerate(documents)
            if not _is_unchanged(before.get(document.key), document)
        ]
        for document in documents:
            self._see_change(document, before.get(document.key), is_deleted=False)
        if len(sent) == len(documents):
            yield batch
            return
        count = len(documents) - len(sent)
        yield Filtered(code=UNCHANGED, url="", action=_ADDED, count=count)
        if sent:
            yield _selected(batch, sent)

    def _see_change(
        self, document: SentDocument, before: SentDocument | None, *, is_deleted: bool
    ) -> None:
        if self._see is not None and (is_deleted or document != before):
            self._see(StateChange(document=document, is_deleted=is_deleted))

    def _keys(self, page: Page) -> list[str]:
        return write_keys([page.columns[place] for place in self._key_places])

    def _timestamp(self, row: Row) -> str:
        return "" if self._timestamp_at is None else timestamp_text(row[self._timestamp_at])


def _document_of(outcome: Record | Reject, stated: SentDocument) -> tuple[SentDocument, bool]:
    """Return a document with its URL and digest, and whether it is deleted."""
    digest, is_deleted = NO_DIGEST, False
    if isinstance(outcome, Record):
        digest, is_deleted = digest_of(outcome), outcome.action is Action.DELETE
    if is_deleted:
        stated = replace(stated, size=NO_SIGNATURE)
    return _completed(stated, outcome.url or "", digest), is_deleted


def _completed(document: SentDocument, url: str, digest: str) -> SentDocument:
    """Return a document with its URL and digest; without a digest, it has no signature."""
    signature = document.size if digest != NO_DIGEST else NO_SIGNATURE
    return SentDocument(
        key=document.key,
        url=url,
        size=signature,
        fingerprint=document.fingerprint,
        digest=digest,
    )


def _is_unchanged(before: SentDocument | None, document: SentDocument) -> bool:
    """Return whether a row is as in the state, where a deletion has no URL."""
    if before is None or document.digest == NO_DIGEST or before.digest != document.digest:
        return False
    return before.url in ("", document.url)


def signatures_of(mapping: RowMapping, options: ReadOptions, secret: str) -> SignaturesOf:
    """Return what makes the signatures of the rows of a page, with the secret of a state."""
    content, acl = mapping.content, mapping.acl
    depends_on_more = (
        (content.path, content.fetch, content.template) != (None, None, None)
        or (acl is not None and acl.query is not None)
        or any(entry.query is not None for entry in mapping.metadata_columns)
    )
    if depends_on_more or not (release := _release()):
        return lambda page: [NO_SIGNATURE] * len(page.rows)
    options = replace(options, batch_records=0)
    return RowSignatures(release, rules_of(mapping), options, secret).of_page


@cache
def _release() -> str:
    try:
        return version("feedferry")
    except PackageNotFoundError:
        return ""


class RowSignatures:
    """Makes the signatures of rows, from their values and `rules`, which JSON can hold.

    They are hashes of 63 bits, so that SQLite can store them: two values of a row have the same one
    by accident in one of 10^18 cases. SHA-256 takes five times as long. The rules have the secret
    of the state, so that an author of rows cannot find two values with one signature.
    """

    def __init__(self, *rules: object) -> None:
        self._rules = msgspec.json.encode(rules, order="sorted", enc_hook=repr)
        self._encode = msgspec.msgpack.Encoder().encode

    def of_page(self, page: Page) -> Sequence[int]:
        """Return the signatures of all rows, of none if a value has another type than usual.

        MessagePack has no zones and one form for several types. These are the same in a column.
        """
        forms = [_form_of(column) for column in page.columns]
        if None in forms:
            return [NO_SIGNATURE] * len(page.rows)
        digest = hashlib.sha256(msgspec.json.encode(forms) + self._rules).digest()
        encode, seed = self._encode, int.from_bytes(digest[:_SEED_BYTES])
        try:
            return [hash64(encode(row), seed) >> 1 for row in page.rows]
        except (OverflowError, UnicodeEncodeError):  # of more than 64 bits; lone surrogates
            return [NO_SIGNATURE] * len(page.rows)


def _form_of(column: Sequence[object]) -> str | None:
    """Return what the values of a column have in common, None if they could be mistaken."""
    types = {*map(type, column)}
    if types <= _PLAIN_TYPES:
        return ""
    types.discard(type(None))
    [type_] = types if len(types) == 1 else (None,)
    if type_ not in _ONLY_TYPES:
        return None
    if type_ is not datetime:
        return type_.__name__
    zones = {value.tzinfo for value in column if isinstance(value, datetime)}
    return f"datetime {zones.pop()}" if len(zones) == 1 else None


def digest_of(record: Record) -> str:
    """Return the SHA-256 of a record without its provenance; empty if no format can hold it."""
    try:
        datum = avro.encode(replace(record, provenance=_NO_PROVENANCE))
    except (RecordError, UnicodeEncodeError):  # the writer rejects it
        return NO_DIGEST
    return hashlib.sha256(datum).hexdigest()


_encoder = AvroEncoder()


def _without_provenance(record: Record) -> tuple[Record, tuple[()]]:
    return replace(record, provenance=_NO_PROVENANCE), ()


def _digests_of(columns: Columns) -> list[str]:
    """Return the digests of records of one shape, by a plan if the shape has one."""
    plans = columns.shape.plans
    key = (_DIGEST,)
    if key not in plans:
        plans[key] = learn(columns.shape, _without_provenance, _encoder)
    plan = plans[key]
    if isinstance(plan, BatchPlan):
        digests = [hashlib.sha256(datum).hexdigest() for datum in plan.encode_each(columns)]
        if not plan.is_due(columns.count) or digests[0] == digest_of(next(iter(columns.first()))):
            return digests
        plans[key] = None
    return [*map(digest_of, columns)]


def _urls_and_digests(batch: RecordBatch) -> list[tuple[str, str]]:
    groups = []
    for group in batch.groups:
        url_at = group.shape.url_at
        urls = plain(group.shape.kinds[url_at], group.column(url_at))
        groups.append(zip(urls, _digests_of(group), strict=True))
    return [next(groups[number]) for number in batch.order]


def _selected(batch: RecordBatch, places: Sequence[int]) -> RecordBatch:
    """Return the records at some places of a batch, at least one."""
    counts = [0] * len(batch.groups)
    at_places = []  # of each record, its place in its group
    for number in batch.order:
        at_places.append(counts[number])
        counts[number] += 1
    groups = []
    for number, group in enumerate(batch.groups):
        chosen = [place for place in places if batch.order[place] == number]
        if chosen:
            rows = [at_places[place] for place in chosen]
            columns = [
                [group.column(at)[row] for row in rows] for at in range(len(group.shape.kinds))
            ]
            new_places = [at for at, place in enumerate(places) if batch.order[place] == number]
            groups.append((Columns(group.shape, columns, len(rows)), new_places))
    return RecordBatch.of(groups)
