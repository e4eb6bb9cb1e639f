"""The results of lines of a listing: records, and rejects, filtered files and notices."""

import hashlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial

from msgspec.structs import replace

from schemas.acl import Acl
from schemas.errors import RecordError
from schemas.notice import Notice
from schemas.record import Action, Arrival, Content, Crawl, Provenance, Record
from schemas.reject import Filtered, Reject, record_error
from schemas.sent_document import UNCHANGED, OnChange, SentDocument, StateChange
from schemas.span import Span
from transforms.formats.base import ReadResult
from transforms.mimetype_table import type_of_name
from transforms.sources.listing import ListingEntry
from transforms.sources.tree.acl_table import load_acl_table
from transforms.sources.tree.file_content import FileContent, FileState, OpenFile
from transforms.sources.tree.local_folders import NOT_PUBLIC
from transforms.sources.tree.mimetype import FileType
from transforms.sources.tree.posix_acl import PosixAcls
from transforms.sources.tree.sidecars import read_sidecars
from transforms.sources.tree.tree import Tree
from transforms.sources.tree.urls import display_url_of, path_metadata

ARCHIVE = "archive"
"""The code of archives that are left out."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ADD = Action.ADD.value


class TreeRecords:
    """Makes the results of one line, whose offset in the listing is `offset`.

    `see` is called for each document before its record is returned. Raise ConfigError if the table
    of ACLs cannot be used.
    """

    def __init__(self, span: Span, tree: Tree, see: OnChange | None, open_file: OpenFile) -> None:
        self._span = span
        self._tree = tree
        self._see = see
        self._describe = describer(tree, open_file)
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

    def notice(self, code: str, listed: ListingEntry, detail: str) -> Notice:
        return Notice(
            code=code,
            detail=f"{listed.key!r}: {detail}",
            source=self._span.source,
            span=self._span.ordinal,
            offset=self.offset,
        )

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

    def of_content(
        self,
        listed: ListingEntry,
        content: FileContent,
        file_type: FileType,
        parent: str | None = None,
    ) -> list[ReadResult]:
        """Return the results of a file that was read; `parent` is the key of its archive."""
        known = self._known(listed, FileState(len(content.data), content.modified_ns), parent)
        before = listed.known
        if self._see or before:
            known = replace(known, digest=hashlib.sha256(content.data).hexdigest())
        if before and _has_same_record(before, known):
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
        if file_type.named is not None:
            detail = f"{file_type.named} by its name; sent as {file_type.mimetype},"
            detail += " which its content shows"
            results.insert(0, self.notice("mimetype-differs", listed, detail))
        return results

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
        return self._described(listed, record, self._known(listed, state, parent))

    def of_folder(self, listed: ListingEntry, acl: Acl) -> Record:
        """Return the record of a folder, which is its ACL."""
        self.remember(self._known(listed, FileState(listed.size, listed.modified_ns), None))
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
        detail = "not readable by others; sent as secure, as it has no ACL: --acl posix makes one"
        return [self.notice("not-public", listed, detail), described]

    def _known(self, listed: ListingEntry, state: FileState, parent: str | None) -> SentDocument:
        return SentDocument(
            key=listed.key,
            url=listed.url,
            size=state.size,
            modified_ns=state.modified_ns,
            fingerprint=listed.fingerprint,
            parent=parent,
        )

    def _provenance(self) -> Provenance:
        return Provenance(source=self._span.source, span=self._span.ordinal, offset=self.offset)


def describer(tree: Tree, open_file: OpenFile) -> Callable[[ListingEntry, Record], Record]:
    """Return the function that adds metadata, ACL and crawl hints; `open_file` opens sidecars.

    It raises RecordError if they cannot be read. The ACL of a sidecar replaces that of the tree. A
    file without an ACL that others may not read is secure: an appliance then asks who may see it,
    instead of showing it to everyone. Raise ConfigError if the table of ACLs cannot be used.
    """
    acl_of = _acl_of(tree)
    make_display_url = display_url_of(tree)
    # The members of an archive come one after the other, and have the same sidecars.
    read_once = lru_cache(maxsize=1)(partial(read_sidecars, open_file=open_file))

    def describe(listed: ListingEntry, record: Record) -> Record:
        sidecars = read_once(listed.sidecars)
        paths = path_metadata(listed.key) if tree.states_paths else ()
        crawl = record.crawl
        if display_url := make_display_url(listed.key):
            crawl = replace(crawl or Crawl(), display_url=display_url)
        if sidecars.acl is None and NOT_PUBLIC in listed.fingerprint.split():
            crawl = replace(crawl or Crawl(), secure=True)
        return replace(
            record,
            metadata=record.metadata + sidecars.metadata + paths,
            acl=acl_of(listed) if sidecars.acl is None else sidecars.acl,
            overwrite_acls=sidecars.overwrite_acls,
            crawl=crawl,
        )

    return describe


def _acl_of(tree: Tree) -> Callable[[ListingEntry], Acl | None]:
    rules = tree.acl
    if rules is None:
        return lambda _listed: None
    if rules.table is not None:
        of_key = load_acl_table(rules.table)
        return lambda listed: of_key(listed.key)
    acls = PosixAcls(tree, rules)
    return lambda listed: acls.of_file(listed.path)


def _has_same_record(before: SentDocument, now: SentDocument) -> bool:
    """Whether two states of a document have the same record but for its time."""
    was = (before.digest, before.url, before.fingerprint)
    return was == (now.digest, now.url, now.fingerprint)


def _time_of(modified_ns: int | None) -> datetime | None:
    """Return a time for a record; years that datetime cannot hold are not stated."""
    if modified_ns is None:
        return None
    try:
        return _EPOCH + timedelta(microseconds=modified_ns // 1000)
    except OverflowError:
        return None
