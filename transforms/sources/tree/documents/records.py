"""The results of lines of a listing: records, and rejects, filtered files and notices."""

import hashlib
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial

from msgspec.structs import replace

from feedferry.schemas.acl import Acl
from feedferry.schemas.errors import RecordError
from feedferry.schemas.notice import Notice
from feedferry.schemas.record import Action, Arrival, Content, Crawl, Provenance, Record
from feedferry.schemas.reject import Filtered, Place, Reject, record_error, reject_bytes
from feedferry.schemas.sent_document import UNCHANGED, OnChange, SentDocument, StateChange
from feedferry.schemas.setting import in_flags
from feedferry.schemas.span import Span
from feedferry.transforms.content_types.detection import FileType
from feedferry.transforms.content_types.mimetype_table import type_of_name
from feedferry.transforms.formats.base import ReadResult
from feedferry.transforms.sources.listing import ListingEntry, is_folder
from feedferry.transforms.sources.tree.acl.acl_table import load_acl_table
from feedferry.transforms.sources.tree.acl.posix_acl import PosixAcls
from feedferry.transforms.sources.tree.documents.sidecars import OpenFile, read_sidecars
from feedferry.transforms.sources.tree.folders.folders import NOT_PUBLIC
from feedferry.transforms.sources.tree.rules.tree import Tree, TreeAcl
from feedferry.transforms.sources.tree.rules.urls import display_url_of, path_metadata

ARCHIVE = "archive"
"""The code of archives that are left out."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ADD, _PUSHED = (
    Action.ADD,
    Arrival.PUSHED,
)  # the attribute lookup of an enum costs ten times as much
_ADDED = _ADD.value


class TreeRecords:
    """Makes the results of one line, whose offset in the listing is `offset`.

    `see` is called for each document before its record is returned; `open_file` opens sidecars.
    The records of files `are_plain` if nothing but the files themselves decides over them.
    Raise ConfigError if the table of ACLs cannot be used.
    """

    def __init__(self, span: Span, tree: Tree, see: OnChange | None, open_file: OpenFile) -> None:
        rules = tree.acl or TreeAcl()
        self._span = span
        self._tree = tree
        self._see = see
        self._acl_of_key = None if rules.table is None else load_acl_table(rules.table)
        self._posix_acls = PosixAcls(tree, rules)
        # The members of an archive come one after the other, and have the same sidecars.
        self._read_sidecars = lru_cache(maxsize=1)(partial(read_sidecars, open_file=open_file))
        self.are_plain = not (tree.acl or tree.display_url or tree.path_metadata)
        self.offset = 0

    def filtered(self, listed: ListingEntry, code: str) -> Filtered:
        return Filtered(code=code, url=listed.url or listed.key, action=_ADDED, count=listed.count)

    def rejected(self, listed: ListingEntry, exc: RecordError) -> Reject:
        place, url = Place(self.offset, 0), listed.url or None
        reject = reject_bytes(exc, span=self._span, place=place, data=b"", url=url)
        return replace(reject, key=listed.key or ".", action=_ADDED)

    def notice(self, code: str, listed: ListingEntry, detail: str) -> Notice:
        return Notice(
            code=code,
            detail=in_flags(f"{listed.key!r}: {detail}"),
            source=self._span.source,
            span=self._span.ordinal,
            offset=self.offset,
        )

    def deleted(self, document: SentDocument) -> list[ReadResult]:
        """Return the deletion of a document; without a URL only the state changes."""
        self.remember(document, is_deleted=True)
        if not document.url:
            return []
        # Of a folder, only its ACL was sent.
        acl = Acl(alone=True) if is_folder(document.key) else None
        provenance = self._provenance(self.offset)
        return [Record(url=document.url, action=Action.DELETE, acl=acl, provenance=provenance)]

    def remember(self, document: SentDocument, *, is_deleted: bool = False) -> None:
        """Pass a document to the state."""
        if self._see:
            self._see(StateChange(document=document, is_deleted=is_deleted))

    def of_content(
        self, listed: ListingEntry, content: bytes, file_type: FileType, parent: str | None = None
    ) -> list[ReadResult]:
        """Return the results of a file that was read; `parent` is the key of its archive."""
        document, before = self._content_document(listed, content, parent), listed.sent_document
        inputs = document.digest, document.url, document.fingerprint  # all but its time
        if before and inputs == (before.digest, before.url, before.fingerprint):
            self.remember(document)
            return [self.filtered(listed, UNCHANGED)]
        record = self.plain(
            file_type, listed.url, content, time_of(listed.modified_ns), self.offset
        )
        results = self._described(listed, record, document)
        if file_type.named is not None:
            detail = f"{file_type.named} by its name; sent as {file_type.mimetype},"
            detail += " which its content shows"
            results.insert(0, self.notice("mimetype-differs", listed, detail))
        return results

    def remember_content(self, listed: ListingEntry, content: bytes) -> None:
        """Pass a file that was read to the state."""
        self.remember(self._content_document(listed, content, None))

    def _content_document(
        self, listed: ListingEntry, content: bytes, parent: str | None
    ) -> SentDocument:
        document = _document(listed, parent)
        if self._see or listed.sent_document:
            return replace(document, digest=hashlib.sha256(content).hexdigest())
        return document

    def plain(  # the values that differ between plain files
        self,
        file_type: FileType,
        url: str,
        content: bytes,
        modified: datetime | None,
        offset: int,
    ) -> Record:
        """Return the record of a file without metadata and ACL."""
        return Record(
            url=url,
            action=_ADD,
            arrival=_PUSHED,
            content=Content(content),
            mimetype=file_type.mimetype,
            charset=file_type.charset,
            modified=modified,
            provenance=self._provenance(offset),
        )

    def of_metadata(self, listed: ListingEntry, parent: str | None = None) -> list[ReadResult]:
        """Return the results of a file whose content is too large, or fetched by the target."""
        record = Record(
            url=listed.url,
            action=Action.ADD,
            arrival=Arrival.CRAWLED,
            mimetype=type_of_name(listed.key.rpartition("/")[2]),
            size=None if self._tree.is_crawled else listed.size,
            modified=time_of(listed.modified_ns),
            provenance=self._provenance(self.offset),
        )
        return self._described(listed, record, _document(listed, parent))

    def of_folder(self, listed: ListingEntry) -> Record:
        """Return the record of a folder, which is its ACL."""
        acl = self._posix_acls.of_folder(listed.path)
        self.remember(_document(listed, None))
        provenance = self._provenance(self.offset)
        return Record(url=listed.url, action=Action.ADD, acl=acl, provenance=provenance)

    def _described(
        self, listed: ListingEntry, record: Record, document: SentDocument
    ) -> list[ReadResult]:
        try:
            described = self._describe(listed, record)
        except Exception as exc:
            return [self.rejected(listed, record_error(exc))]
        self.remember(document)
        if described.crawl is None or not described.crawl.secure:
            return [described]
        detail = "not readable by others; sent as secure, as it has no ACL: ⟦acl posix⟧ makes one"
        return [self.notice("not-public", listed, detail), described]

    def _describe(self, listed: ListingEntry, record: Record) -> Record:
        """Add metadata, ACL and crawl hints; raise RecordError if they cannot be read.

        The ACL of a sidecar replaces that of the tree. A file without an ACL that others may not
        read is secure: an appliance then asks who may see it, instead of showing it to everyone.
        """
        sidecars = self._read_sidecars(listed.sidecars)
        paths = path_metadata(listed.key) if self._tree.path_metadata else ()
        is_secure = sidecars.acl is None and NOT_PUBLIC in listed.fingerprint.split()
        crawl = None
        if (display_url := display_url_of(self._tree, listed.key)) or is_secure:
            crawl = Crawl(display_url=display_url, secure=is_secure or None)
        return replace(
            record,
            metadata=sidecars.metadata + paths,
            acl=self._acl_of(listed) if sidecars.acl is None else sidecars.acl,
            overwrite_acls=sidecars.overwrite_acls,
            crawl=crawl,
        )

    def _acl_of(self, listed: ListingEntry) -> Acl | None:
        if self._tree.acl is None:
            return None
        if self._acl_of_key is not None:
            return self._acl_of_key(listed.key)
        return self._posix_acls.of_file(listed.path)

    def _provenance(self, offset: int) -> Provenance:
        return Provenance(source=self._span.source, span=self._span.ordinal, offset=offset)


def _document(listed: ListingEntry, parent: str | None) -> SentDocument:
    return SentDocument(
        key=listed.key,
        url=listed.url,
        size=listed.size,
        modified_ns=listed.latest_ns,
        fingerprint=listed.fingerprint,
        parent=parent,
    )


def time_of(modified_ns: int | None) -> datetime | None:
    """Return a time for a record; years that datetime cannot hold are not stated."""
    if modified_ns is None:
        return None
    try:
        return _EPOCH + timedelta(microseconds=modified_ns // 1000)
    except OverflowError:
        return None
