"""Read the lines of a listing: files become records, and members of archives too.

A file that cannot be read, changes while it is read, or vanishes costs itself only; a run ends only
if a server cannot be reached. Files are read once and not copied. Digests are made only for a
state.
"""

import errno
import os
import stat
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from io import BytesIO
from itertools import chain
from typing import IO, NamedTuple

from msgspec.structs import replace

from feedferry.schemas.choices import Oversize
from feedferry.schemas.errors import RecordError
from feedferry.schemas.record import Record
from feedferry.schemas.reject import Filtered, Reject, record_error
from feedferry.schemas.sent_document import UNCHANGED, OnChange, SentDocument
from feedferry.schemas.span import Span
from feedferry.transforms.content_types.detection import FileType, detect
from feedferry.transforms.content_types.mimetype_table import is_archive_type
from feedferry.transforms.formats.base import ReadOptions, ReadResult
from feedferry.transforms.sources.files import local_flags, open_span
from feedferry.transforms.sources.files import open_file as open_path
from feedferry.transforms.sources.listing import (
    EntryKind,
    ListingEntry,
    is_folder,
    read_listing,
)
from feedferry.transforms.sources.tree.acl.posix_acl import LeadingFolders
from feedferry.transforms.sources.tree.documents.archives import (
    ArchiveLimits,
    ArchiveMember,
    is_archive,
    is_openable,
    open_archive,
    unreadable,
)
from feedferry.transforms.sources.tree.documents.file_run import FileRun
from feedferry.transforms.sources.tree.documents.member_keys import member_entry
from feedferry.transforms.sources.tree.documents.records import ARCHIVE, TreeRecords
from feedferry.transforms.sources.tree.documents.sidecars import OpenFile
from feedferry.transforms.sources.tree.folders.folders import NOT_PUBLIC
from feedferry.transforms.sources.tree.folders.walk import LineMaker
from feedferry.transforms.sources.tree.rules.tree import Tree

_BLOCK_BYTES = 1 << 20
_NO_CONTENT = -1  # the limit of files that the target fetches
_SKIPPED = {
    errno.ENOENT: "vanished",
    errno.ENOTDIR: "vanished",  # a folder above it became a file
    errno.ELOOP: "symlink",  # it became a link
    errno.ENXIO: "no-file",  # it became a socket
}


class SkippedFileError(Exception):
    """A file is filtered, by the rule that has this code."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class TooLargeError(RecordError):
    """A file has more bytes than a document may have; `listed` has its present size."""

    def __init__(self, listed: ListingEntry, max_bytes: int) -> None:
        cure = "raise ⟦max_content_bytes⟧, or use ⟦oversize metadata⟧"
        reason = f"{listed.key!r} has {listed.size} bytes; expected at most {max_bytes} bytes"
        super().__init__("content-too-large", f"{reason}; {cure}")
        self.listed = listed


def read_tree(  # noqa: PLR0913 # the parameters of all readers, and two collaborators
    stream: IO[bytes],
    *,
    span: Span,
    tree: Tree,
    options: ReadOptions = ReadOptions(),
    see: OnChange | None = None,
    open_file: OpenFile | None = None,
) -> Generator[ReadResult, None, None]:
    """Yield the results of each line of a part of a listing, in its order.

    But files that have not changed, which are only counted, do not end a batch: they may come
    before the records of earlier lines.

    A line has one Record, Filtered or Reject, with notices before it; an opened archive has one for
    each member; a deletion without a URL has none. Before a file that became an archive, or the
    other way round, come deletions of its former records. `see` is called for each document before
    its record.
    """
    open_raw = None if open_file else partial(os.open, flags=local_flags(tree.follow_links))
    open_file = open_file or partial(open_path, follows_links=tree.follow_links, buffering=0)
    records = TreeRecords(span, tree, see, open_file)
    run = FileRun(records.plain, max_records=options.batch_records if records.are_plain else 0)
    leading = LeadingFolders(tree) if tree.has_secure_files else None
    opener = _Opener(open_file, open_raw, leading)
    reader = _TreeReader(records, tree, opener, options.max_content_bytes, run)
    for offset, listed in read_listing(stream):
        records.offset = span.offset + offset
        if run.is_full:
            yield from run.take()
        if run.is_empty and opener.leading is not None:
            opener.leading.is_closed_in_tree.cache_clear()
        try:
            for result in reader.read(listed):
                if not isinstance(result, Filtered) or result.code != UNCHANGED:
                    yield from run.take()
                yield result
        except Exception as exc:
            yield from run.take()
            yield records.rejected(listed, record_error(exc))
    yield from run.take()


def read_folders(span: Span, tree: Tree) -> Generator[ReadResult, None, None]:
    """Yield the results of the folders of a part of a listing: their ACLs, rejects, deletions."""
    open_file = partial(open_path, follows_links=tree.follow_links, buffering=0)
    records = TreeRecords(span, tree, None, open_file)
    opener = _Opener(open_file, None, None)
    reader = _TreeReader(records, tree, opener, _NO_CONTENT, FileRun(records.plain, max_records=0))
    with open_span(span) as stream:
        for offset, listed in read_listing(stream):
            records.offset = span.offset + offset
            if not is_folder(listed.key) or listed.kind is EntryKind.FILTERED:
                continue
            try:
                yield from reader.read(listed)
            except Exception as exc:
                yield records.rejected(listed, record_error(exc))


class _Opener(NamedTuple):
    """Opens files as streams, and local ones also by number, which takes half the time.

    `leading` are the folders that may close a file, in a tree whose closed files are secure.
    """

    stream: OpenFile
    number: Callable[[str], int] | None
    leading: LeadingFolders | None

    def present(self, listed: ListingEntry, status: os.stat_result) -> ListingEntry:
        """Return a line as its local file is now; it is secure if others may not read it."""
        listed = _present_entry(listed, status)
        if self.leading is None or NOT_PUBLIC in listed.fingerprint.split():
            return listed
        if status.st_mode & stat.S_IROTH and not self.leading.are_closed(listed.path):
            return listed
        return replace(listed, fingerprint=f"{listed.fingerprint} {NOT_PUBLIC}".lstrip())


class _TreeReader:
    """Makes the results of each kind of line; plain files are added to `run` instead."""

    def __init__(
        self, records: TreeRecords, tree: Tree, opener: _Opener, max_bytes: int, run: FileRun
    ) -> None:
        self._records = records
        self._tree = tree
        self._opener = opener
        self._max_bytes = _NO_CONTENT if tree.is_crawled else max_bytes
        self._line_of = LineMaker(tree)
        self._run = run

    def read(self, listed: ListingEntry) -> Iterable[ReadResult]:
        match listed.kind:
            case EntryKind.FILE:
                return self._file(listed)
            case EntryKind.FOLDER:
                return [self._records.of_folder(listed)]
            case EntryKind.GONE:
                return self._records.deleted(SentDocument(key=listed.key, url=listed.url))
            case EntryKind.FILTERED:
                return [self._records.filtered(listed, listed.code)]
            case EntryKind.REJECTED:
                error = RecordError(listed.code, listed.reason)
                return [self._records.rejected(listed, error)]

    def _file(self, listed: ListingEntry) -> Iterable[ReadResult]:
        if is_archive(listed.key):
            return self._archive(listed)
        return self._content(listed)

    def _content(self, listed: ListingEntry) -> Iterable[ReadResult]:
        try:
            listed, content = _read_content(listed, self._opener, self._max_bytes)
        except SkippedFileError as exc:
            return [self._records.filtered(listed, exc.code)]
        except TooLargeError as exc:
            if self._tree.oversize is not Oversize.METADATA and not self._tree.is_crawled:
                raise
            return self._instead_of_members(listed, self._records.of_metadata(exc.listed))
        file_type = self._type_of(listed, content)
        if is_archive_type(file_type.mimetype):
            return self._archive(listed, file_type.mimetype, content)
        if self._run.add(listed, content, file_type, self._records.offset):
            self._records.remember_content(listed, content)
            return ()
        results = self._records.of_content(listed, content, file_type)
        return self._instead_of_members(listed, results)

    def _type_of(self, listed: ListingEntry, content: bytes) -> FileType:
        return detect(listed.key.rpartition("/")[2], content, charset=self._tree.charset)

    def _instead_of_members(
        self, listed: ListingEntry, results: list[ReadResult]
    ) -> Iterable[ReadResult]:
        """Return deletions of the members of the archive that a document was, and the document."""
        former = [member for member in listed.members if member.key != listed.key]
        if not former or any(isinstance(result, Reject) for result in results):
            return results
        deletions = (deletion for member in former for deletion in self._records.deleted(member))
        return chain(deletions, results)

    def _archive(
        self, listed: ListingEntry, mimetype: str | None = None, content: bytes | None = None
    ) -> Iterator[ReadResult]:
        can_be_opened = not self._tree.is_crawled and is_openable(listed.key, mimetype)
        if can_be_opened and self._tree.open_archives:
            stream = None if content is None else BytesIO(content)
            opened = _OpenedArchive(listed)
            yield from self._open_archive(opened, mimetype, stream)
            return
        if can_be_opened:
            detail = "left out; ⟦open_archives⟧ reads the files in it"
            yield self._records.notice("archive-not-opened", listed, detail)
        yield self._records.filtered(listed, ARCHIVE)
        yield from self._records.deleted(SentDocument(key=listed.key, url=""))
        for member in listed.members:
            yield from self._records.deleted(member)

    def _open_archive(
        self, opened: "_OpenedArchive", mimetype: str | None, stream: IO[bytes] | None
    ) -> Iterator[ReadResult]:
        """Yield the results of an archive; `stream` is its content, if it is open already.

        Only an archive that was read to its end has deletions. It is remembered if it has members;
        if one of them was rejected, without its time, so that the next run reads it again.
        """
        listed = opened.listed
        try:
            with stream or self._open(listed) as content:
                yield from self._members(opened, content, mimetype)
        except SkippedFileError as exc:
            yield self._records.filtered(listed, exc.code)
            return
        except Exception as exc:
            yield self._records.rejected(listed, record_error(exc))
            if not opened.present:
                return
            opened.has_rejects = True
            # The members before the damage stay; the document that it was before is deleted.
            opened.present.update(opened.former.keys() - {listed.key})
        if opened.is_empty:
            yield self._records.filtered(listed, "empty")
        for member in opened.former.values():
            if member.key not in opened.present:
                yield from self._records.deleted(member)
        now = opened.listed
        self._records.remember(
            SentDocument(
                key=now.key,
                url="",
                size=now.size,
                modified_ns=None if opened.has_rejects else now.latest_ns,
                fingerprint=now.fingerprint,
            )
        )

    def _open(self, listed: ListingEntry) -> IO[bytes]:
        try:
            return self._opener.stream(listed.path)
        except OSError as exc:
            raise _error_of(listed.key, exc) from exc

    def _members(
        self, opened: "_OpenedArchive", stream: IO[bytes], mimetype: str | None
    ) -> Iterator[ReadResult]:
        key, number = opened.listed.key, _number_of(stream)
        if number is not None:
            opened.listed = self._opener.present(opened.listed, os.fstat(number))
        before = opened.listed
        name = key.rpartition("/")[2]
        limits = ArchiveLimits(max_content_bytes=self._max_bytes)
        members = open_archive(
            name, stream, mimetype=mimetype, limits=limits, name_charset=self._tree.name_charset
        )
        for member in members:
            opened.is_empty = False
            if member.is_guessed:
                detail = f"{member.path!r}: not UTF-8, read as CP437; ⟦name_charset⟧ states another"
                yield self._records.notice("name-charset", opened.listed, detail)
            yield from self._member(opened, member)
        if number is not None and _present_entry(before, os.fstat(number)) is not before:
            raise _changed_error(key)

    def _member(self, opened: "_OpenedArchive", member: ArchiveMember) -> list[ReadResult]:
        listed = member_entry(opened.listed, member, self._line_of)
        listed = replace(listed, sent_document=opened.former.get(listed.key))
        if listed.kind is EntryKind.FILTERED:
            return [self._records.filtered(listed, listed.code)]
        opened.present.add(listed.key)
        try:
            if listed.kind is EntryKind.REJECTED:
                raise RecordError(listed.code, listed.reason)
            results = self._member_document(opened, listed, member)
        except Exception as exc:
            opened.has_rejects = True
            return [self._records.rejected(listed, record_error(exc))]
        if not any(isinstance(result, Record) for result in results):
            return results
        document = opened.former.pop(opened.listed.key, None)
        return results if document is None else [*self._records.deleted(document), *results]

    def _member_document(
        self, opened: "_OpenedArchive", listed: ListingEntry, member: ArchiveMember
    ) -> list[ReadResult]:
        parent = opened.listed.key
        if member.size > self._max_bytes and self._tree.oversize is Oversize.METADATA:
            return self._records.of_metadata(listed, parent)
        content = member.read()
        file_type = self._type_of(listed, content)
        if is_archive(member.path, file_type.mimetype):
            opened.present.discard(listed.key)
            return [self._records.filtered(listed, ARCHIVE)]
        return self._records.of_content(listed, content, file_type, parent)


class _OpenedArchive:
    """An archive while it is read: which members it has, and whether all of them were read."""

    def __init__(self, listed: ListingEntry) -> None:
        self.listed = listed
        self.former = {member.key: member for member in listed.members}
        self.present: set[str] = set()
        self.has_rejects = False
        self.is_empty = True


def _read_content(
    listed: ListingEntry, opener: _Opener, max_bytes: int
) -> tuple[ListingEntry, bytes]:
    """Return the bytes of a file, and its line as it is now.

    The stream of a remote file finds out whether the file changes. Raise SkippedFileError,
    TooLargeError or RecordError if the file cannot be a document.
    """
    path = listed.path
    try:
        if max_bytes == _NO_CONTENT:
            is_local = opener.number is not None and "://" not in path
            now = opener.present(listed, os.stat(path)) if is_local else listed
            raise TooLargeError(now, max_bytes)
        if opener.number is not None and "://" not in path:
            number = opener.number(path)
            try:
                return _read_local(listed, number, partial(os.read, number), opener, max_bytes)
            finally:
                os.close(number)
        with opener.stream(path) as stream:
            opened = _number_of(stream)
            if opened is not None:
                return _read_local(listed, opened, stream.read, opener, max_bytes)
            if listed.size > max_bytes:
                raise TooLargeError(listed, max_bytes)
            data = _read_bytes(stream.read, max_bytes + 1, _BLOCK_BYTES)
    except OSError as exc:
        raise _error_of(listed.key, exc) from exc
    if not data:
        raise SkippedFileError("empty")
    now = replace(listed, size=len(data))
    if now.size > max_bytes:
        raise TooLargeError(now, max_bytes)
    return now, data


def _read_local(
    listed: ListingEntry,
    number: int,
    read: Callable[[int], bytes],
    opener: _Opener,
    max_bytes: int,
) -> tuple[ListingEntry, bytes]:
    """Return the line and the bytes of an open file, which must not change meanwhile."""
    now = opener.present(listed, os.fstat(number))
    size = now.size
    if size > max_bytes:
        raise TooLargeError(now, max_bytes)
    data = read(size)  # one call, without a copy
    if data and len(data) < size:  # of more than 2 GiB
        data += _read_bytes(read, size - len(data), size)
    if len(data) != size or _present_entry(now, os.fstat(number)) is not now:
        raise _changed_error(listed.key)
    return now, data


def _error_of(key: str, exc: OSError) -> Exception:
    """Return the SkippedFileError or RecordError of a file that cannot be opened or read."""
    if isinstance(exc, IsADirectoryError):
        return RecordError("unreadable", f"{key!r} is a folder; expected a file")
    code = _SKIPPED.get(exc.errno or 0)
    return SkippedFileError(code) if code else unreadable(key, exc)


def _number_of(stream: IO[bytes]) -> int | None:
    """Return the number of an open local file; None for other streams."""
    try:
        return stream.fileno()
    except (AttributeError, OSError):  # io.UnsupportedOperation is one
        return None


def _present_entry(listed: ListingEntry, status: os.stat_result) -> ListingEntry:
    """Return a line with the present size and times of its local file.

    It is `listed` itself if these are the same. If not, the permissions may have changed too, so
    the document is sent without a comparison. Raise SkippedFileError for a file that is empty, or
    no regular file; IsADirectoryError for a folder.
    """
    size, modified_ns, changed_ns = status.st_size, status.st_mtime_ns, status.st_ctime_ns
    if not stat.S_ISREG(status.st_mode):
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        raise SkippedFileError("no-file")
    if not size:
        raise SkippedFileError("empty")
    if (size, modified_ns, changed_ns) == (listed.size, listed.modified_ns, listed.changed_ns):
        return listed
    now = {"size": size, "modified_ns": modified_ns, "changed_ns": changed_ns}
    return replace(listed, sent_document=None, **now)


def _read_bytes(read: Callable[[int], bytes], max_bytes: int, block_bytes: int) -> bytes:
    """Return at most `max_bytes` of a stream."""
    blocks = []
    while max_bytes > 0 and (block := read(min(max_bytes, block_bytes))):
        blocks.append(block)
        max_bytes -= len(block)
    return blocks[0] if len(blocks) == 1 else b"".join(blocks)


def _changed_error(key: str) -> RecordError:
    """Return the error for a file that changed while it was read."""
    reason = f"{key!r} was changed while it was read; expected no change; start again"
    return RecordError("changed-while-read", reason)
