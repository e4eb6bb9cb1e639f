"""From the lines of a listing to records: files are read, and become what they are found to be.

A file that is changed while it is read, that vanishes, or that cannot be read costs itself, and
nothing stops the run but a server that cannot be talked to. Files are read once and are never
copied; a digest is made only where somebody remembers it.
"""

from collections.abc import Generator, Iterator
from io import BytesIO
from typing import IO

from schemas.defect import record_error
from schemas.errors import RecordError
from schemas.known import Known, See
from schemas.record import Action, Record
from schemas.reject import Reject
from schemas.span import Span
from transforms.formats.base import ReadOptions, ReadResult
from transforms.sources.listing import Kind, Listed, read_listing
from transforms.sources.tree.archive_members import Members
from transforms.sources.tree.archives import is_archive, is_openable
from transforms.sources.tree.describe import AclOf, describer, folder_acl
from transforms.sources.tree.file_content import (
    USUAL_PAUSE,
    Hold,
    LeftOutError,
    Opener,
    Pause,
    State,
    TooLargeError,
    open_linked,
    open_local,
    read_whole,
)
from transforms.sources.tree.file_record import Documents
from transforms.sources.tree.remote.filesystems import scheme_of
from transforms.sources.tree.remote.stream import open_remote
from transforms.sources.tree.tree import Oversize, Tree


def read_tree(  # noqa: PLR0913 # what all readers are told, and three doors to the world
    stream: IO[bytes],
    *,
    span: Span,
    tree: Tree,
    options: ReadOptions = ReadOptions(),
    see: See | None = None,
    open_file: Opener | None = None,
    pause: Pause = USUAL_PAUSE,
) -> Generator[ReadResult, None, None]:
    """Yield what becomes of each line of a part of a listing, in its order.

    That is one Record, Filtered or Reject for each, and notices before it; of an archive that is
    opened, one for each member; of what is gone and has no url, nothing. Behind what is found to be
    an archive, or to be none any more, come deletions of what was sent of it. `see` is told of each
    document just before. Files are opened as it is done in trees like this, unless `open_file` is
    given; `pause` waits before a file that changed is read once more.
    """
    opener = open_file or opener_of(tree)
    hold = Hold(open_file=opener, max_bytes=options.max_content_bytes, pause=pause)
    documents = Documents(span, tree, see, describer(tree, opener))
    reader = _Reader(documents, tree, hold)
    for offset, listed in read_listing(stream):
        documents.offset = span.offset + offset
        yield from reader.found(listed)


def opener_of(tree: Tree) -> Opener:
    """Return how the files of a tree are opened: over the network, or as links are to be taken."""
    if scheme_of(tree.root):
        return open_remote
    return open_linked if tree.follows_links else open_local


class _Reader:
    """Makes of each kind of line what is found of it."""

    def __init__(self, documents: Documents, tree: Tree, hold: Hold) -> None:
        self._documents = documents
        self._tree = tree
        self._hold = hold
        self._members = Members(documents, tree, hold)
        self._acl_of: AclOf | None = None

    def found(self, listed: Listed) -> Iterator[ReadResult]:
        try:
            yield from self._found(listed)
        except Exception as exc:
            yield self._documents.rejected(listed, record_error(exc))

    def _found(self, listed: Listed) -> Iterator[ReadResult]:
        match listed.kind:
            case Kind.FILE:
                yield from self._file(listed)
            case Kind.FOLDER:
                yield self._folder(listed)
            case Kind.GONE:
                known = listed.known or Known(key=listed.key, url=listed.url)
                yield from self._documents.deleted(known)
            case Kind.FILTERED:
                yield self._documents.filtered(listed, listed.code)
            case Kind.REJECTED:
                yield self._documents.rejected(listed, RecordError(listed.code, listed.reason))

    def _file(self, listed: Listed) -> Iterator[ReadResult]:
        if is_archive(listed.key):
            yield from self._archive(listed)
        elif self._tree.is_crawled:
            state = State(listed.size, listed.modified_ns)
            yield from self._instead(listed, self._documents.unread(listed, state))
        else:
            yield from self._read(listed)

    def _archive(
        self, listed: Listed, mimetype: str | None = None, content: bytes | None = None
    ) -> Iterator[ReadResult]:
        tree = self._tree
        if tree.is_crawled or not tree.opens_archives or not is_openable(listed.key, mimetype):
            yield self._documents.filtered(listed, "archive")
            yield from self._documents.deleted(Known(key=listed.key, url=""))
            for known in listed.members:
                yield from self._documents.deleted(known)
            return
        stream = None if content is None else BytesIO(content)
        yield from self._members.found(listed, mimetype, stream)

    def _read(self, listed: Listed) -> Iterator[ReadResult]:
        try:
            whole = read_whole(listed, self._hold)
        except LeftOutError as exc:
            yield self._documents.filtered(listed, exc.code)
        except TooLargeError as exc:
            yield from self._instead(listed, self._too_large(listed, exc))
        except RecordError as exc:
            yield self._documents.rejected(listed, exc)
        else:
            detected = self._documents.detected(listed, whole)
            if is_archive(listed.key, detected.mimetype):
                yield from self._archive(listed, detected.mimetype, whole.content)
            else:
                yield from self._instead(listed, self._documents.read(listed, whole, detected))

    def _instead(self, listed: Listed, found: list[ReadResult]) -> Iterator[ReadResult]:
        """Yield a document, and deletions of the members of an archive that stood in its place."""
        yield from found
        if not any(isinstance(one, Reject) for one in found):
            for known in listed.members:
                if known.key != listed.key:
                    yield from self._documents.deleted(known)

    def _too_large(self, listed: Listed, exc: TooLargeError) -> list[ReadResult]:
        if self._tree.oversize is Oversize.METADATA:
            return self._documents.unread(listed, exc.state)
        return [self._documents.rejected(listed, exc.reason)]

    def _folder(self, listed: Listed) -> ReadResult:
        try:
            if self._acl_of is None:
                self._acl_of = folder_acl(self._tree)
            acl = self._acl_of(listed)
        except RecordError as exc:
            return self._documents.rejected(listed, exc)
        return self._documents.alone(listed, Record(url=listed.url, action=Action.ADD, acl=acl))
