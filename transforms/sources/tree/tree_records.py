"""The results of lines of a listing: records, and rejects, filtered files and notices."""

import hashlib
from datetime import UTC, datetime, timedelta

import msgspec

from schemas.acl import Acl
from schemas.errors import RecordError
from schemas.notice import Notice
from schemas.record import Action, Arrival, Content, Provenance, Record
from schemas.reject import Filtered, Reject, record_error
from schemas.sent_document import UNCHANGED, OnChange, SentDocument, StateChange
from schemas.span import Span
from transforms.formats.base import ReadResult
from transforms.mimetype_table import type_of_name
from transforms.sources.listing import ListingEntry
from transforms.sources.tree.describe import Describe
from transforms.sources.tree.file_content import FileContent, FileState
from transforms.sources.tree.mimetype import FileType, detect
from transforms.sources.tree.tree import Tree

ARCHIVE = "archive"
"""The code of archives that are left out."""

ARCHIVE_NOT_OPENED = "archive-not-opened"
"""The code of the notice about archives that could be opened."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ADD = Action.ADD.value


class TreeRecords:
    """Makes the results of one line, whose offset in the listing is `offset`.

    `see` is called for each document before its record is returned.
    """

    def __init__(self, span: Span, tree: Tree, see: OnChange | None, describe: Describe) -> None:
        self._span = span
        self._tree = tree
        self._see = see
        self._describe = describe
        self.offset = 0

    def filtered(self, listed: ListingEntry, code: str) -> Filtered:
        return Filtered(code=code, url=listed.url or listed.key, action=_ADD)

    def rejected(self, listed: ListingEntry, exc: RecordError) -> Reject:
        return Reject(
            code=exc.code,
            reason=exc.reason,
            stage="read",
            source=self._span.source,
            span=self._span.ordinal,
            offset=self.offset,
            url=listed.url or None,
            action=_ADD,
        )

    def closed_archive(self, listed: ListingEntry) -> list[ReadResult]:
        """Return the results of an archive that `--open-archives` would open."""
        detail = f"{listed.key!r}: left out; --open-archives reads the files in it"
        return [self._notice(ARCHIVE_NOT_OPENED, detail), self.filtered(listed, ARCHIVE)]

    def deleted(self, known: SentDocument) -> list[ReadResult]:
        """Return the deletion of a document; without a URL only the state changes."""
        self.remember(known, is_gone=True)
        if not known.url:
            return []
        is_folder = not known.key or known.key.endswith("/")
        acl = Acl(alone=True) if is_folder else None  # of a folder, only its ACL was sent
        provenance = self._provenance()
        return [Record(url=known.url, action=Action.DELETE, acl=acl, provenance=provenance)]

    def remember(self, known: SentDocument, *, is_gone: bool = False) -> None:
        """Pass a document to the state."""
        if self._see:
            self._see(StateChange(known=known, is_gone=is_gone))

    def file_type(self, listed: ListingEntry, content: FileContent) -> FileType:
        """Return the type of a file, by its name and its bytes."""
        return detect(listed.key.rpartition("/")[2], content.data, charset=self._tree.charset)

    def of_content(
        self,
        listed: ListingEntry,
        content: FileContent,
        file_type: FileType,
        parent: str | None = None,
    ) -> list[ReadResult]:
        """Return the results of a file that was read; `parent` is the key of its archive."""
        known = self._known(listed, FileState(len(content.data), content.modified_ns))
        if self._see or listed.known:
            digest = hashlib.sha256(content.data).hexdigest()
            known = msgspec.structs.replace(known, digest=digest, parent=parent)
        if listed.known and _has_same_record(listed.known, known):
            self.remember(known)
            return [self.filtered(listed, UNCHANGED)]
        record = Record(
            url=listed.url,
            action=Action.ADD,
            arrival=Arrival.PUSHED,
            content=Content(content.data),
            mimetype=file_type.mimetype,
            charset=file_type.charset,
            modified=_time_of(content.modified_ns),
            provenance=self._provenance(),
        )
        results = self._described(listed, record, known)
        if file_type.named is None:
            return results
        detail = f"{listed.key!r}: {file_type.named} by its name; sent as {file_type.mimetype},"
        return [self._notice("mimetype-differs", f"{detail} which its content shows"), *results]

    def of_metadata(
        self, listed: ListingEntry, state: FileState, parent: str | None = None
    ) -> list[ReadResult]:
        """Return the results of a file whose content is too large, or fetched by the target."""
        record = Record(
            url=listed.url,
            action=Action.ADD,
            arrival=Arrival.CRAWLED,
            mimetype=type_of_name(listed.key.rpartition("/")[2]),
            size=None if self._tree.is_crawled else state.size,
            modified=_time_of(state.modified_ns),
            provenance=self._provenance(),
        )
        known = msgspec.structs.replace(self._known(listed, state), parent=parent)
        return self._described(listed, record, known)

    def of_folder(self, listed: ListingEntry, acl: Acl) -> Record:
        """Return the record of a folder, which is its ACL."""
        self.remember(self._known(listed, FileState(listed.size, listed.modified_ns)))
        provenance = self._provenance()
        return Record(url=listed.url, action=Action.ADD, acl=acl, provenance=provenance)

    def _described(
        self, listed: ListingEntry, record: Record, known: SentDocument
    ) -> list[ReadResult]:
        try:
            described = self._describe(listed, record)
        except Exception as exc:
            return [self.rejected(listed, record_error(exc))]
        self.remember(known)
        if described.crawl is None or not described.crawl.secure:
            return [described]
        detail = f"{listed.key!r}: not readable by others; sent as secure, as it has no ACL"
        return [self._notice("not-public", f"{detail}: --acl posix makes one"), described]

    def _notice(self, code: str, detail: str) -> Notice:
        return Notice(
            code=code,
            detail=detail,
            source=self._span.source,
            span=self._span.ordinal,
            offset=self.offset,
        )

    def _known(self, listed: ListingEntry, state: FileState) -> SentDocument:
        return SentDocument(
            key=listed.key,
            url=listed.url,
            size=state.size,
            modified_ns=state.modified_ns,
            fingerprint=listed.fingerprint,
        )

    def _provenance(self) -> Provenance:
        return Provenance(source=self._span.source, span=self._span.ordinal, offset=self.offset)


def _has_same_record(before: SentDocument, now: SentDocument) -> bool:
    """Whether two states of a document have the same record but for its time."""
    return (before.digest, before.url, before.fingerprint) == (
        *(now.digest, now.url, now.fingerprint),
    )


def _time_of(modified_ns: int | None) -> datetime | None:
    """Return a time for a record; years that datetime cannot hold are not stated."""
    if modified_ns is None:
        return None
    try:
        return _EPOCH + timedelta(microseconds=modified_ns // 1000)
    except OverflowError:
        return None
