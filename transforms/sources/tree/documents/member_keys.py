"""The members of archives as files of a tree, and which members an archive has."""

from collections.abc import Set
from urllib.parse import quote

from msgspec.structs import replace

from feedferry.schemas.errors import RecordError
from feedferry.transforms.sources.files import open_file
from feedferry.transforms.sources.listing import (
    EntryKind,
    ListingEntry,
    file_entry,
    left_out,
    plain_path,
    rejected,
)
from feedferry.transforms.sources.tree.documents.archives import (
    ArchiveMember,
    is_archive,
    is_openable,
    open_archive,
)
from feedferry.transforms.sources.tree.documents.records import ARCHIVE
from feedferry.transforms.sources.tree.folders.walk import LineMaker
from feedferry.transforms.sources.tree.rules.tree import Tree


def member_entry(archive: ListingEntry, member: ArchiveMember, line_of: LineMaker) -> ListingEntry:
    """Return a member as a file of the tree, in a folder with the name of the archive.

    It has the fingerprint, the sidecars and so the ACL of the archive.
    """
    key = f"{archive.key}/{member.path}"
    modified_ns = archive.modified_ns if member.modified_ns is None else member.modified_ns
    if member.reason:
        listed = rejected(key, archive.path, member.code, member.reason)
    elif member.code:
        listed = left_out(key, archive.path, member.code)
    else:
        listed = line_of(file_entry(key, archive.path, member.size, modified_ns))
    if listed.kind is EntryKind.FILE and is_archive(member.path):
        listed = left_out(key, archive.path, ARCHIVE)
    return replace(
        listed,
        url=f"{archive.url}/{quote(member.path, safe='/', errors='surrogateescape')}",
        fingerprint=archive.fingerprint,
        sidecars=archive.sidecars,
    )


class MemberLister:
    """Lists the members of archives without reading their contents."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._line_of = LineMaker(tree)

    def __call__(self, archive: ListingEntry) -> Set[str] | None:
        """Return the keys of the members that an archive has now.

        They are not known if the name of the file is not that of an archive, or if it cannot be
        read, in which case its reader rejects it.
        """
        if not is_archive(archive.key):
            return None
        if self._tree.is_crawled or not (self._tree.open_archives and is_openable(archive.key)):
            return frozenset()
        try:
            return self._read(archive)
        except (OSError, RecordError):
            return None

    def _read(self, archive: ListingEntry) -> Set[str]:
        name, path = archive.key.rpartition("/")[2], plain_path(archive.path)
        with open_file(path, follows_links=self._tree.follow_links, buffering=0) as stream:
            members = open_archive(name, stream, name_charset=self._tree.name_charset)
            entries = [member_entry(archive, member, self._line_of) for member in members]
        return {entry.key for entry in entries if entry.kind is not EntryKind.FILTERED}
