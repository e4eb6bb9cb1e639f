"""What is found in a tree, as records: a line of a listing and the bytes of its file made one."""

import hashlib
from datetime import UTC, datetime, timedelta

import msgspec

from schemas.acl import Acl
from schemas.defect import record_error
from schemas.errors import RecordError
from schemas.known import UNCHANGED, Known, See, Seen
from schemas.notice import Notice
from schemas.record import Action, Arrival, Content, Provenance, Record
from schemas.reject import Filtered, Reject
from schemas.span import Span
from transforms.formats.base import ReadResult
from transforms.mimetype_table import type_of_name
from transforms.sources.listing import Listed
from transforms.sources.tree.describe import Describe
from transforms.sources.tree.file_content import State, Whole
from transforms.sources.tree.mimetype import FileType, detect
from transforms.sources.tree.tree import Tree

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ADD = Action.ADD.value


class Documents:
    """Makes what is found of one line, which stands at `offset` in the listing."""

    def __init__(self, span: Span, tree: Tree, see: See | None, describe: Describe) -> None:
        self._span = span
        self._tree = tree
        self._see = see
        self._describe = describe
        self.offset = 0

    def filtered(self, listed: Listed, code: str) -> Filtered:
        return Filtered(code=code, url=listed.url or listed.key, action=_ADD)

    def rejected(self, listed: Listed, exc: RecordError) -> Reject:
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

    def deleted(self, known: Known) -> list[ReadResult]:
        """What is gone; nothing but the state has to know it of what has no url."""
        self._tell(known, is_gone=True)
        if not known.url:
            return []
        is_folder = not known.key or known.key.endswith("/")
        acl = Acl(alone=True) if is_folder else None  # of a folder nothing else was sent
        place = self._provenance()
        return [Record(url=known.url, action=Action.DELETE, acl=acl, provenance=place)]

    def remembered(self, known: Known) -> None:
        """Tell of what is no document itself."""
        self._tell(known)

    def detected(self, listed: Listed, whole: Whole) -> FileType:
        """Return what a file is, by its name and its bytes."""
        return detect(listed.key.rpartition("/")[2], whole.content, charset=self._tree.charset)

    def read(
        self, listed: Listed, whole: Whole, detected: FileType, parent: str | None = None
    ) -> list[ReadResult]:
        """What becomes of a file that was read; `parent` is the key of the archive it is in."""
        known = self._known(listed, State(len(whole.content), whole.modified_ns))
        if self._see or listed.known:
            digest = hashlib.sha256(whole.content).hexdigest()
            known = msgspec.structs.replace(known, digest=digest, parent=parent)
        if listed.known and _is_same(listed.known, known):
            self._tell(known)
            return [self.filtered(listed, UNCHANGED)]
        record = Record(
            url=listed.url,
            action=Action.ADD,
            arrival=Arrival.PUSHED,
            content=Content(whole.content),
            mimetype=detected.mimetype,
            charset=detected.charset,
            modified=_time_of(whole.modified_ns),
            provenance=self._provenance(),
        )
        return [*self._noticed(listed, detected), *self._finished(listed, record, known)]

    def unread(self, listed: Listed, state: State, parent: str | None = None) -> list[ReadResult]:
        """What becomes of a file whose content is fetched by others, or is too large."""
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
        return self._finished(listed, record, known)

    def alone(self, listed: Listed, record: Record) -> Record:
        """What becomes of a folder, whose record is made."""
        self._tell(self._known(listed, State(listed.size, listed.modified_ns)))
        return msgspec.structs.replace(record, provenance=self._provenance())

    def _finished(self, listed: Listed, record: Record, known: Known) -> list[ReadResult]:
        try:
            described = self._describe(listed, record)
        except Exception as exc:
            return [self.rejected(listed, record_error(exc))]
        self._tell(known)
        if described.crawl is None or not described.crawl.secure:
            return [described]
        detail = f"{listed.key!r}: not for others to read; sent as secure, as it has no ACL"
        return [self._notice("not-public", f"{detail}: --acl posix makes one"), described]

    def _noticed(self, listed: Listed, detected: FileType) -> list[ReadResult]:
        if detected.notice is None:
            return []
        detail = f"{listed.key!r}: {detected.named} by its name; sent as {detected.mimetype},"
        return [self._notice(detected.notice, f"{detail} which its content shows")]

    def _notice(self, code: str, detail: str) -> Notice:
        return Notice(
            code=code,
            detail=detail,
            source=self._span.source,
            span=self._span.ordinal,
            offset=self.offset,
        )

    def _known(self, listed: Listed, state: State) -> Known:
        return Known(
            key=listed.key,
            url=listed.url,
            size=state.size,
            modified_ns=state.modified_ns,
            fingerprint=listed.fingerprint,
        )

    def _tell(self, known: Known, *, is_gone: bool = False) -> None:
        if self._see:
            self._see(Seen(known=known, is_gone=is_gone))

    def _provenance(self) -> Provenance:
        return Provenance(source=self._span.source, span=self._span.ordinal, offset=self.offset)


def _is_same(before: Known, now: Known) -> bool:
    """Whether the record would be the same but for its time."""
    return (before.digest, before.url, before.fingerprint) == (now.digest, now.url, now.fingerprint)


def _time_of(modified_ns: int | None) -> datetime | None:
    """A time as records have it: file systems can hold years that nobody else knows."""
    if modified_ns is None:
        return None
    try:
        return _EPOCH + timedelta(microseconds=modified_ns // 1000)
    except OverflowError:
        return None
