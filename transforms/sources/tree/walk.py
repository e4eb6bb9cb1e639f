"""A local tree as the lines of a listing, in the order of the UTF-8 bytes of their keys.

Files that are left out or cannot be read are lines as well: only a root that does not exist or
cannot be listed stops a walk. A folder is read to its end before its first line is made, so a
folder that cannot be read is REJECTED as a whole, and no file in it seems to be deleted. Sidecars
belong to the files that they describe, even if patterns exclude their names.

The fingerprint of a file is one text of everything but its content that decides its record: size
and time of each sidecar; with POSIX ACLs also mode, owners and change time of the file, and a
digest of the permissions of the folders above it where they matter.
"""

import enum
import errno
import hashlib
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from schemas.errors import ConfigError, SourceError
from transforms.sources.listing import EntryKind, ListingEntry
from transforms.sources.tree.external_sort import ExternalSort, SortCodec
from transforms.sources.tree.patterns import SIDECARS, described_by, judge
from transforms.sources.tree.remote.filesystems import scheme_of
from transforms.sources.tree.remote.listing import list_remote
from transforms.sources.tree.tree import Tree
from transforms.sources.tree.urls import folder_url_of, is_unicode, listed_file, url_of

RUN_NAMES = 20_000
"""Names of one folder that are sorted in memory; more are sorted on disk."""

NOT_PUBLIC = "shut"
"""Marks the fingerprint of a file that others may not read, in a tree without ACLs."""

_ACL_ATTRIBUTE = "system.posix_acl_access"
_FILE_TYPES = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
    stat.S_IFDIR: "a folder by now",
}
_LISTABLE = "expected a folder that can be listed"


class EntryType(enum.Enum):
    """The types of entries in a folder; a FILE may be a pipe or a device, too."""

    FILE = "f"
    FOLDER = "d"
    LINK = "l"
    NOT_UTF8 = "u"


class FolderEntry(NamedTuple):
    r"""A name as a part of a key: a folder ends in `/`; bytes that are not UTF-8 become `\xff`."""

    name: str
    type: str  # the value of an EntryType, whose members have no order


class FolderEntries(Iterator[FolderEntry]):
    """The entries of a folder in the order of the UTF-8 bytes of their names; to be closed.

    With `follows_links` a link to a folder is a FOLDER, and any other link a FILE. OSError is
    raised if the folder cannot be read to its end.
    """

    def __init__(self, path: str, *, follows_links: bool, run_names: int) -> None:
        self.has_sidecars = False
        with os.scandir(path) as entries:
            named = (self._note(_entry_of(entry, follows_links)) for entry in entries)
            self._sorted = ExternalSort(named, _CODEC, run_length=run_names)

    def __next__(self) -> FolderEntry:
        return next(self._sorted)

    def close(self) -> None:
        self._sorted.close()

    def _note(self, entry: FolderEntry) -> FolderEntry:
        self.has_sidecars = self.has_sidecars or described_by(entry.name) is not None
        return entry


class SidecarFile(NamedTuple):
    """A file that describes another file, with its size and time as a text."""

    path: str
    mark: str


def list_tree(tree: Tree) -> Iterator[ListingEntry]:
    """Yield the lines of a local or remote tree, in the order of the UTF-8 bytes of its keys.

    Raise SourceError if its root cannot be listed, ConfigError if no such tree can be listed.
    """
    return list_remote(tree) if scheme_of(tree.root) else walk(tree)


def walk(tree: Tree, *, run_names: int = RUN_NAMES) -> Iterator[ListingEntry]:
    """Yield the lines of a local tree: all of them, or only those of the files in `tree.only`.

    Of each open folder at most `run_names` names are in memory. Raise ConfigError if the root is no
    folder, SourceError if it cannot be listed.
    """
    walker = _Walker(tree, run_names)
    yield from walker.named(tree.only) if tree.only else walker.all()


def sidecars_of(path: str, *, follows_links: bool) -> list[SidecarFile]:
    """Return the sidecars of a file, including those that cannot be read.

    A link that is not followed, or is broken, counts: it may lead to the ACL of the file, and
    without that ACL the file would be public.
    """
    sidecars = []
    for suffix in SIDECARS:
        try:
            status = _status_of(path + suffix, follows_links=follows_links)
        except OSError:
            continue
        if not stat.S_ISDIR(status.st_mode):
            mark = f"{suffix}={status.st_size}:{status.st_mtime_ns}"
            sidecars.append(SidecarFile(path + suffix, mark))
    return sidecars


class _OpenFolder(msgspec.Struct, frozen=True, kw_only=True):
    """A folder on the way; `access` says who may search it, `path_access` also all above it."""

    key: str
    entries: FolderEntries
    identity: tuple[int, int] | None
    access: str
    path_access: str


class _Walker:
    def __init__(self, tree: Tree, run_names: int) -> None:
        self._root = _root_of(tree)
        self._run_names = run_names
        self._follows_links = tree.follows_links
        self._line_of = listed_file(tree)
        self._code_of = judge(tree)
        self._url_of = url_of(tree)
        self._folder_url_of = folder_url_of(tree)
        self._has_posix_acls = tree.acl is not None and tree.acl.table is None
        self._marks_not_public = tree.acl is None and not tree.is_public
        self._is_inherited = tree.acl is not None and tree.acl.is_inherited

    def all(self) -> Iterator[ListingEntry]:
        """Yield all lines, depth first."""
        folders = [self._open_root()]
        try:
            yield from self._folder_lines(folders[0].key, folders[0].access)
            while folders:
                entry = next(folders[-1].entries, None)
                if entry is None:
                    folders.pop().entries.close()
                    continue
                line = self._visit(entry, folders)
                if isinstance(line, ListingEntry):
                    yield line
                else:
                    folders.append(line)
                    yield from self._folder_lines(line.key, line.access)
        finally:
            for folder in folders:
                folder.entries.close()

    def named(self, only: tuple[str, ...]) -> Iterator[ListingEntry]:
        """Yield the lines of some files, and of the folders above them."""
        self._status_of_root()
        folders = {folder for key in only for folder in _folders_above(key)}
        for key in sorted({*only, *folders}):
            if key in folders:
                yield from self._folder_lines(key, self._access(key))
            elif described_by(key) in only:
                yield self._line(key, EntryKind.FILTERED, "sidecar", "")
            else:
                path_access = ""
                for folder in _folders_above(key):
                    path_access = self._joined_access(path_access, self._access(folder))
                yield self._file(key, self._sidecars(key), path_access)

    def _open_root(self) -> _OpenFolder:
        status = self._status_of_root()
        try:
            return self._open("", status, access_above="")
        except OSError as exc:
            raise SourceError(f"{self._path('')}: {_text_of(exc)}; {_LISTABLE}") from exc

    def _status_of_root(self) -> os.stat_result:
        path = self._path("")
        try:
            status = os.stat(path)
        except OSError as exc:
            raise ConfigError(f"INPUT: {path!r}: {_text_of(exc)}; {_LISTABLE}") from exc
        if not stat.S_ISDIR(status.st_mode):
            raise ConfigError(f"INPUT: {path!r} is not a folder; {_LISTABLE}")
        return status

    def _visit(self, entry: FolderEntry, folders: list[_OpenFolder]) -> _OpenFolder | ListingEntry:
        """Return the line of an entry, or the folder that it is, opened."""
        folder = folders[-1]
        key = folder.key + entry.name
        match EntryType(entry.type):
            case EntryType.NOT_UTF8:
                return self._not_utf8(key)
            case EntryType.LINK:
                return self._filtered(key, "symlink")
            case EntryType.FOLDER:
                return self._enter(key, folders)
        if not folder.entries.has_sidecars:
            return self._file(key, [], folder.path_access)
        if self._is_sidecar(key):
            return self._line(key, EntryKind.FILTERED, "sidecar", "")
        return self._file(key, self._sidecars(key), folder.path_access)

    def _not_utf8(self, key: str) -> ListingEntry:
        if self._code_of(key, None):
            return self._filtered(key, "")
        reason = f"{key}: a name that is not UTF-8; expected one that is, so rename it"
        return ListingEntry(key=key, kind=EntryKind.REJECTED, code="file-name", reason=reason)

    def _enter(self, key: str, folders: list[_OpenFolder]) -> _OpenFolder | ListingEntry:
        if self._code_of(key, None):
            return self._filtered(key, "")
        try:
            status = os.stat(self._path(key))
            identity = _identity_of(status)
            if identity and identity in (folder.identity for folder in folders):
                return self._filtered(key, "symlink-loop")
            return self._open(key, status, access_above=folders[-1].path_access)
        except OSError as exc:
            return self._rejected(key, "unlistable-folder", f"{_text_of(exc)}; {_LISTABLE}")

    def _open(self, key: str, status: os.stat_result, *, access_above: str) -> _OpenFolder:
        path = self._path(key)
        access = self._folder_access(status, path)
        return _OpenFolder(
            key=key,
            entries=FolderEntries(
                path, follows_links=self._follows_links, run_names=self._run_names
            ),
            identity=_identity_of(status),
            access=access,
            path_access=self._joined_access(access_above, access),
        )

    def _file(self, key: str, sidecars: list[SidecarFile], path_access: str) -> ListingEntry:
        path = self._path(key)
        try:
            status = os.stat(path, follow_symlinks=self._follows_links)
        except OSError as exc:
            return self._without_status(key, exc)
        file_type = stat.S_IFMT(status.st_mode)
        if file_type == stat.S_IFLNK:  # it became a link
            return self._filtered(key, "symlink")
        if file_type != stat.S_IFREG:
            return self._filtered(key, "no-file", _FILE_TYPES.get(file_type, ""))
        paths = tuple(sidecar.path for sidecar in sidecars)
        line = self._line_of(key, path, status.st_size, status.st_mtime_ns, paths)
        marks = [sidecar.mark for sidecar in sidecars]
        if self._has_posix_acls:  # any change of a POSIX ACL changes the ctime
            owners = f"{status.st_mode:o}:{status.st_uid}:{status.st_gid}:{status.st_ctime_ns}"
            marks.append(f"{owners} {path_access}" if path_access else owners)
        elif self._marks_not_public and (path_access or _is_closed_to_others(status)):
            marks.append(NOT_PUBLIC)
        if line.kind is not EntryKind.FILE or not marks:
            return line
        return msgspec.structs.replace(line, fingerprint=" ".join(marks))

    def _without_status(self, key: str, exc: OSError) -> ListingEntry:
        if self._code_of(key, None):
            return self._filtered(key, "")
        if exc.errno == errno.ELOOP:
            return self._filtered(key, "symlink-loop")
        if exc.errno not in (errno.ENOENT, errno.ENOTDIR):
            reason = f"{_text_of(exc)}; expected a file that can be read"
            return self._rejected(key, "unreadable", reason)
        try:
            target = os.readlink(self._path(key))
        except OSError:
            return self._filtered(key, "vanished")
        reason = f"a link to {target!r}, which does not exist; expected a file or a folder"
        return self._rejected(key, "broken-link", reason)

    def _is_sidecar(self, key: str) -> bool:
        described = described_by(key)
        if described is None:
            return False
        try:
            status = os.stat(self._path(described), follow_symlinks=self._follows_links)
        except OSError:
            return False
        return not stat.S_ISDIR(status.st_mode)

    def _sidecars(self, key: str) -> list[SidecarFile]:
        return sidecars_of(self._path(key), follows_links=self._follows_links)

    def _access(self, folder: str) -> str:
        path = self._path(folder)
        try:
            return self._folder_access(os.stat(path), path)
        except OSError as exc:  # then the file does not exist either
            return _text_of(exc)

    def _folder_access(self, status: os.stat_result, path: str) -> str:
        """Return who may search a folder, as far as the fingerprints of its files need it.

        The times of a folder are left out: they change with its files.
        """
        if self._has_posix_acls:
            acl = _posix_acl(path).hex()
            return f"{status.st_mode:o}:{status.st_uid}:{status.st_gid}:{acl}"
        return NOT_PUBLIC if self._marks_not_public and _is_closed_to_others(status) else ""

    def _joined_access(self, above: str, access: str) -> str:
        """Return who may search a folder and all folders above it.

        With inherited ACLs that is in the lines of the folders.
        """
        if self._marks_not_public:
            return above or access
        if not self._has_posix_acls or self._is_inherited:
            return ""
        return hashlib.sha256(f"{above}\n{access}".encode()).hexdigest()[:16]

    def _folder_lines(self, key: str, access: str) -> Iterator[ListingEntry]:
        if self._is_inherited:
            url, path = self._folder_url_of(key), self._path(key)
            yield ListingEntry(
                key=key, kind=EntryKind.FOLDER, path=path, url=url, fingerprint=access
            )

    def _filtered(self, key: str, code: str, reason: str = "") -> ListingEntry:
        """Return a line with the code of a rule about names, or with this code if none applies."""
        by_name = self._code_of(key, None)
        return self._line(key, EntryKind.FILTERED, by_name or code, "" if by_name else reason)

    def _rejected(self, key: str, code: str, reason: str) -> ListingEntry:
        return self._line(key, EntryKind.REJECTED, code, reason)

    def _line(self, key: str, kind: EntryKind, code: str, reason: str) -> ListingEntry:
        url = self._folder_url_of(key) if key.endswith("/") else self._url_of(key)
        return ListingEntry(
            key=key, kind=kind, path=self._path(key), url=url, code=code, reason=reason
        )

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}".rstrip("/") or "/"


def _root_of(tree: Tree) -> str:
    """Return the absolute path of the root without a final `/`; that of `/` is empty."""
    root = str(Path(tree.root).absolute()).rstrip("/")
    if not is_unicode(root):
        raise ConfigError(f"INPUT: {root!r}: a path that is not UTF-8; expected one that is")
    return root


def _entry_of(entry: "os.DirEntry[str]", follows_links: bool) -> FolderEntry:
    try:
        slash = "/" if entry.is_dir(follow_symlinks=follows_links) else ""
    except OSError:  # a link to itself, or to a place that cannot be looked into
        slash = ""
    name = entry.name
    if not name.isascii() and not is_unicode(name):
        shown = os.fsencode(name).decode("utf-8", "backslashreplace")
        return FolderEntry(shown + slash, EntryType.NOT_UTF8.value)
    if slash:
        return FolderEntry(name + slash, EntryType.FOLDER.value)
    is_link = not follows_links and entry.is_symlink()
    return FolderEntry(name, (EntryType.LINK if is_link else EntryType.FILE).value)


def _decode_entry(encoded: bytes) -> FolderEntry:
    text = encoded.decode()
    return FolderEntry(text[1:], text[0])


_CODEC = SortCodec[FolderEntry](
    key=lambda entry: entry,
    encode=lambda entry: f"{entry.type}{entry.name}".encode(),
    decode=_decode_entry,
)


def _folders_above(key: str) -> Iterator[str]:
    """Yield the keys of the folders above a file, from that of the root down."""
    yield ""
    for place, char in enumerate(key):
        if char == "/":
            yield key[: place + 1]


def _identity_of(status: os.stat_result) -> tuple[int, int] | None:
    """Return the unique id of a folder, None on file systems without inode numbers."""
    return (status.st_dev, status.st_ino) if status.st_ino else None


def _is_closed_to_others(status: os.stat_result) -> bool:
    """Whether others may not read a file, or not search a folder."""
    is_folder = stat.S_ISDIR(status.st_mode)
    return not status.st_mode & (stat.S_IXOTH if is_folder else stat.S_IROTH)


def _status_of(path: str, *, follows_links: bool) -> os.stat_result:
    try:
        return os.stat(path, follow_symlinks=follows_links)
    except OSError:
        return os.lstat(path)


def _posix_acl(path: str) -> bytes:
    if sys.platform != "linux":
        return b""
    try:
        return os.getxattr(path, _ACL_ATTRIBUTE)
    except OSError:  # no ACL, or a file system without ACLs
        return b""


def _text_of(exc: OSError) -> str:
    return exc.strerror or type(exc).__name__
