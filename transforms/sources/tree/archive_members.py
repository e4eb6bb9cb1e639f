"""An archive as records: one of each member, and the deletions of those that are gone from it."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import IO
from urllib.parse import quote

import msgspec

from schemas.defect import record_error
from schemas.errors import RecordError
from schemas.known import Known
from transforms.formats.base import ReadResult
from transforms.sources.listing import Kind, Listed
from transforms.sources.tree.archive_limits import USUAL, Bounds
from transforms.sources.tree.archives import Member, is_archive, open_archive
from transforms.sources.tree.file_content import (
    Hold,
    LeftOutError,
    State,
    Whole,
    changed,
    state_of,
    told,
)
from transforms.sources.tree.file_record import Documents
from transforms.sources.tree.tree import Oversize, Tree
from transforms.sources.tree.urls import listed_file


class Members:
    """Opens archives, one at a time."""

    def __init__(
        self, documents: Documents, tree: Tree, hold: Hold, *, bounds: Bounds = USUAL
    ) -> None:
        self._documents = documents
        self._is_metadata = tree.oversize is Oversize.METADATA
        self._hold = hold
        self._bounds = msgspec.structs.replace(bounds, max_content_bytes=hold.max_bytes)
        self._listed_file = listed_file(tree)

    def found(
        self, archive: Listed, mimetype: str | None = None, stream: IO[bytes] | None = None
    ) -> Iterator[ReadResult]:
        """Yield what is found in an archive; `stream` is what it holds, if it is open already.

        Deletions are told only where it was read to its end. It is remembered as soon as a member
        is; where something of it was rejected, as one that is to be read again.
        """
        opened = _Opened(archive)
        try:
            with ExitStack() as stack:
                if stream is None:
                    with told(archive.key):
                        stream = stack.enter_context(self._hold.open_file(archive.path))
                yield from self._read(opened, stream, mimetype)
        except LeftOutError as exc:
            yield self._documents.filtered(archive, exc.code)
            return
        except Exception as exc:
            yield self._documents.rejected(archive, record_error(exc))
            yield from self._torn(opened)
            return
        if opened.is_empty:
            yield self._documents.filtered(archive, "empty")
        yield from self._gone(opened)
        self._remember(opened)

    def _read(
        self, opened: "_Opened", stream: IO[bytes], mimetype: str | None
    ) -> Iterator[ReadResult]:
        archive = opened.archive
        name = archive.key.rpartition("/")[2]
        before = state_of(stream)
        opened.state = before or State(archive.size, archive.modified_ns)
        for member in open_archive(name, stream, mimetype=mimetype, bounds=self._bounds):
            opened.is_empty = False
            yield from self._member(opened, member)
        if before is not None and state_of(stream) != before:
            raise changed(archive.key)

    def _member(self, opened: "_Opened", member: Member) -> list[ReadResult]:
        listed = self._listed(opened, member)
        if listed.kind is Kind.FILTERED:
            return [self._documents.filtered(listed, listed.code)]
        opened.present.add(listed.key)
        try:
            if listed.kind is Kind.REJECTED:
                raise RecordError(listed.code, listed.reason)
            return self._document(opened, listed, member)
        except LeftOutError:
            raise
        except Exception as exc:
            rejected = self._documents.rejected(listed, record_error(exc))
            opened.has_rejects = True
            return [rejected]

    def _document(self, opened: "_Opened", listed: Listed, member: Member) -> list[ReadResult]:
        parent = opened.archive.key
        state = State(member.size, listed.modified_ns)
        if self._is_metadata and member.size > self._hold.max_bytes:
            return self._documents.unread(listed, state, parent)
        whole = Whole(member.read(), listed.modified_ns)
        detected = self._documents.detected(listed, whole)
        if is_archive(member.path, detected.mimetype):
            opened.present.discard(listed.key)
            return [self._documents.filtered(listed, "archive")]
        return self._documents.read(listed, whole, detected, parent)

    def _listed(self, opened: "_Opened", member: Member) -> Listed:
        """The member as if it were a file of the tree, in a folder that is called as the archive.

        Where the archive may be read, its members may; so what is around it is around them, and
        what describes it describes them.
        """
        archive = opened.archive
        key = f"{archive.key}/{member.path}"
        modified_ns = archive.modified_ns if member.modified_ns is None else member.modified_ns
        if member.code:
            kind = Kind.REJECTED if member.reason else Kind.FILTERED
            listed = Listed(key=key, kind=kind, code=member.code, reason=member.reason)
        else:
            listed = self._listed_file(key, archive.path, member.size, modified_ns, ())
        if listed.kind is Kind.FILE and is_archive(member.path):
            listed = msgspec.structs.replace(listed, kind=Kind.FILTERED, code="archive")
        return msgspec.structs.replace(
            listed,
            url=f"{archive.url}/{quote(member.path, safe='/', errors='surrogateescape')}",
            fingerprint=archive.fingerprint,
            sidecars=archive.sidecars,
            known=opened.known.get(key),
        )

    def _gone(self, opened: "_Opened") -> Iterator[ReadResult]:
        for known in opened.archive.members:
            if known.key not in opened.present:
                yield from self._documents.deleted(known)

    def _torn(self, opened: "_Opened") -> Iterator[ReadResult]:
        """What came before the damage stands, and what was a document here does not."""
        if not opened.present:
            return
        for known in opened.archive.members:
            if known.key == opened.archive.key:
                yield from self._documents.deleted(known)
        opened.has_rejects = True
        self._remember(opened)

    def _remember(self, opened: "_Opened") -> None:
        archive = opened.archive
        state = opened.state or State(archive.size, archive.modified_ns)
        self._documents.remembered(
            Known(
                key=archive.key,
                url="",
                size=state.size,
                modified_ns=None if opened.has_rejects else state.modified_ns,
                fingerprint=archive.fingerprint,
            )
        )


class _Opened:
    """What is known of an archive while it is read."""

    def __init__(self, archive: Listed) -> None:
        self.archive = archive
        self.known = {known.key: known for known in archive.members}
        self.present: set[str] = set()
        self.state: State | None = None
        self.has_rejects = False
        self.is_empty = True
