"""The folders of local and remote trees, as entries of a listing.

Every file system is asked for the items of one folder: their names, their modes, and their
signatures. Buckets are listed page by page, and other folders item by item.

The fingerprint of a local file is one text of everything but its content that decides its record.
With POSIX ACLs it has mode, owners and change time of the file, and a digest of the permissions of
the folders above it where they matter. A tree without ACLs marks the files that others may not
read.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from feedferry.schemas.errors import ConfigError
from feedferry.schemas.sent_document import StateRow
from feedferry.schemas.span import FileSignature
from feedferry.transforms.sources.listing import (
    EntryKind,
    ListingEntry,
    file_entry,
    left_out,
    plain_path,
    rejected,
)
from feedferry.transforms.sources.remote import (
    check_remote,
    connect,
    error_text,
    join_uri,
    locate_object,
    scheme_of,
)
from feedferry.transforms.sources.tree.acl.posix_acl import LeadingFolders, read_acl
from feedferry.transforms.sources.tree.rules.patterns import SIDECARS
from feedferry.transforms.sources.tree.rules.tree import Tree
from feedferry.transforms.sources.tree.rules.urls import decode_name, is_unicode
from feedferry.transforms.storage.storage import is_object

NOT_PUBLIC = "shut"
"""Marks the fingerprint of a file that others may not read, in a tree without ACLs."""

_CACHED_FOLDERS = 1 << 12
_BATCH = 1_000
LISTABLE = "expected a folder that can be listed"


class FolderItems(NamedTuple):
    """The entries of a folder, or the keys of some files, in any order.

    `read` returns the entry of a key. `rows` returns what a state has of files by their keys and
    URLs; a file that cannot be read, or is no file, has a row that no state has.
    The entry of a folder has the kind FOLDER and a key that ends in `/`. An entry with the key of
    the listed folder itself is a line of the listing.
    """

    items: Iterable[ListingEntry | str] = ()
    read: Callable[[str], ListingEntry] = dict[str, ListingEntry]().__getitem__
    rows: Callable[[Sequence[str], Sequence[str]], Sequence[StateRow]] = lambda _keys, _urls: ()
    close: Callable[[], None] = lambda: None

    def entry_of(self, item: ListingEntry | str) -> ListingEntry:
        return self.read(item) if isinstance(item, str) else item


def key_of(item: ListingEntry | str) -> str:
    return item if isinstance(item, str) else item.key


ListFolder = Callable[[ListingEntry], FolderItems]
"""Lists a folder; it and the items raise what its library raises."""

_Item = tuple[str, int, FileSignature]
"""The name of a file or a folder, its mode, and its signature."""


def folder_lister(tree: Tree, *, marks_files: bool = False) -> ListFolder:
    """Return the function that lists the folders of a tree.

    `marks_files` says that inherited ACLs of folders are in the fingerprints of their files.
    Raise ConfigError if its root is no folder, or no URI of a folder that can be read.
    """
    if not scheme_of(tree.root):
        return LocalFolders(tree, marks_files=marks_files)
    check_remote(tree.root)
    return _remote_folder


def _remote_folder(folder: ListingEntry) -> FolderItems:
    """List a folder of an SFTP server; of object storage, all objects below it."""
    list_items = _object_items if is_object(folder.path) else _sftp_items
    return FolderItems(
        _entry(folder.key + name, join_uri(folder.path, name), mode, signature)
        for name, mode, signature in list_items(folder.path)
    )


def _object_items(uri: str) -> Iterator[_Item]:
    """List all objects below a prefix: a request per folder takes too long."""
    from feedferry.transforms.storage.objects.requests import list_objects

    bucket, prefix = locate_object(uri)
    begin = len(prefix) + 1 if prefix else 0
    is_empty = True
    for found in list_objects(bucket, prefix, uri=uri):
        is_empty = False
        if name := found.key[begin:]:  # without one, it represents the folder itself
            yield name, stat.S_IFREG, found.signature
    if is_empty:
        raise OSError("no object with this prefix")


def _sftp_items(uri: str) -> Iterator[_Item]:
    filesystem, path = connect(uri)
    try:
        for status in filesystem.ftp.listdir_iter(path):
            seconds = status.st_mtime
            modified_ns = None if seconds is None else seconds * 1_000_000_000
            signature = FileSignature(size=status.st_size, modified_ns=modified_ns)
            yield status.filename, status.st_mode or stat.S_IFREG, signature
    except UnicodeDecodeError as exc:
        raise OSError(f"the name {exc.object!r} in it is not UTF-8, so rename it") from exc


def _entry(key: str, path: str, mode: int, signature: FileSignature) -> ListingEntry:
    """Return the entry of an item; a link or a device may be a sidecar, so its size is stated."""
    if stat.S_ISDIR(mode):
        return ListingEntry(key=f"{key}/", kind=EntryKind.FOLDER, path=path)
    size, modified_ns = signature.size, signature.modified_ns
    if stat.S_ISREG(mode):
        return file_entry(key, path, size, modified_ns, signature.version)
    return ListingEntry(
        key=key,
        kind=EntryKind.FILTERED,
        path=path,
        size=size or 0,
        modified_ns=modified_ns,
        code="symlink" if stat.S_ISLNK(mode) else "no-file",
    )


class LocalFolders:
    """Lists the folders of a local tree: all entries, or only the named files of the root.

    Raise ConfigError if the root is no folder.
    """

    def __init__(self, tree: Tree, *, marks_files: bool = False) -> None:
        self._tree = tree
        self._root = _root_of(tree)
        self._marks_files = marks_files
        self._top = self._root or "/"
        self._has_posix_acls = tree.acl is not None and tree.acl.table is None
        self._is_inherited = tree.acl is not None and tree.acl.is_inherited
        self._follows_links = tree.follow_links
        self._leading = LeadingFolders(tree)
        self._path_access = lru_cache(maxsize=_CACHED_FOLDERS)(self._find_path_access)

    def __call__(self, folder: ListingEntry) -> FolderItems:
        """Return the keys of plain files, other entries, and the folder if files inherit from it.

        Files are read by their names in the open folder: that saves a sixth of the time.
        """
        stored = folder.path if folder.key else self._top
        path = plain_path(stored)
        if self._follows_links and self._is_loop(path):
            return FolderItems([left_out(folder.key, stored, "symlink-loop")])
        access = self._path_access(path)
        number = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        reader = _LocalFolder(self, number, len(folder.key), f"{path.rstrip('/')}/", access)
        items = self._items(folder.key, stored, number, access)
        return FolderItems(items, reader.read, reader.rows, partial(os.close, number))

    def _items(
        self, key: str, stored: str, number: int, access: str
    ) -> Iterator[ListingEntry | str]:
        path = plain_path(stored)
        if self._is_inherited:
            fingerprint = f"{self._access(path)} {self._link_access(path)}".rstrip()
            yield ListingEntry(key=key, kind=EntryKind.FOLDER, path=stored, fingerprint=fingerprint)
        if self._tree.only:
            for name in self._named_files():
                yield self._entry(name, os.path.join(path, name), access)
            return
        is_plain = path == stored
        with os.scandir(number) as entries:
            while batch := [*islice(entries, _BATCH)]:
                files = [each.name for each in batch if each.is_file(follow_symlinks=False)]
                if not (is_plain and is_unicode("".join(files))):
                    files = [*filter(is_unicode, files)] if is_plain else []
                yield from map(key.__add__, files)
                if len(files) < len(batch):
                    known = {*files}
                    for name in (each.name for each in batch if each.name not in known):
                        decoded = decode_name(name, self._tree.name_charset)
                        yield self._entry(key + decoded, os.path.join(path, name), access)

    def _named_files(self) -> Iterator[str]:
        """Yield the names of the files to read and of their sidecars, each once."""
        names = dict.fromkeys(self._tree.only)
        for name in self._tree.only:
            keys = (name + suffix for suffix in SIDECARS)
            names |= {key: None for key in keys if os.path.lexists(f"{self._root}/{key}")}
        yield from names

    def _entry(self, key: str, path: str, path_access: str) -> ListingEntry:
        if not key.isascii() and (not is_unicode(key) or _is_taken(key, path)):
            shown = os.fsencode(path)[len(self._root) + 1 :].decode("utf-8", "backslashreplace")
            expected = (
                "expected one that is, or ⟦name_charset⟧ that decodes it to a name of its own"
            )
            reason = f"{shown}: a name that is not UTF-8; {expected}"
            return rejected(shown, "", "file-name", reason)
        return self._status_entry(key, path, path_access, name=path)

    def _status_entry(
        self, key: str, path: str, path_access: str, *, name: str, folder: int | None = None
    ) -> ListingEntry:
        """Return the entry of a path, the status of which is that of a name in an open folder."""
        is_stored = path.isascii() or is_unicode(path)
        stored = path if is_stored else "\0" + os.fsencode(path).hex()
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=self._follows_links)
        except OSError as exc:
            return replace(_without_status(key, path, exc), path=stored)
        if status.st_size and stat.S_ISREG(status.st_mode):
            return ListingEntry(
                key=key,
                path=stored,
                size=status.st_size,
                modified_ns=status.st_mtime_ns,
                changed_ns=status.st_ctime_ns,
                fingerprint=self._mark(path, status, path_access),
            )
        signature = FileSignature(size=status.st_size, modified_ns=status.st_mtime_ns)
        entry = _entry(key, stored, status.st_mode, signature)
        return replace(entry, changed_ns=status.st_ctime_ns)

    def _mark(self, path: str, status: os.stat_result, path_access: str) -> str:
        """Return the fingerprint of a file; any change of a POSIX ACL changes the ctime."""
        if self._follows_links:
            path_access = f"{path_access} {self._link_access(path)}".strip()
        if self._has_posix_acls:
            owners = f"{status.st_mode:o}:{status.st_uid}:{status.st_gid}:{status.st_ctime_ns}"
            return f"{owners} {path_access}".rstrip()
        is_private = path_access or not status.st_mode & stat.S_IROTH
        return NOT_PUBLIC if is_private and self._tree.has_secure_files else ""

    def _access(self, path: str) -> str:
        """Return who may search a folder, as far as the fingerprints of its files need it.

        The times of a folder are left out: they change with its files.
        """
        status = os.stat(path)
        if self._has_posix_acls:
            acl = (read_acl(path) or b"").hex()
            return f"{status.st_mode:o}:{status.st_uid}:{status.st_gid}:{acl}"
        is_private = self._tree.has_secure_files and not status.st_mode & stat.S_IXOTH
        return NOT_PUBLIC if is_private else ""

    def _link_access(self, path: str) -> str:
        """Return who may search the folders of the real path, if links lead elsewhere."""
        accesses = [*map(self._access, self._leading.of_links(path))]
        if self._has_posix_acls and accesses:
            return _digest("\n".join(accesses))
        return NOT_PUBLIC if NOT_PUBLIC in accesses else ""

    def _find_path_access(self, path: str) -> str:
        """Return who may search a folder and all folders above it, up to the root.

        With inherited ACLs that is in the lines of the folders, unless files are marked, too.
        """
        access = self._access(path)
        above = "" if path == self._top else self._path_access(os.path.dirname(path))
        if self._tree.has_secure_files:
            return above or access
        if not self._has_posix_acls or (self._is_inherited and not self._marks_files):
            return ""
        return _digest(f"{above}\n{access}")

    def _is_loop(self, path: str) -> bool:
        """Whether a folder is one of those above it; unknown on file systems without inodes."""
        status = os.stat(path)
        while path != self._top and status.st_ino:
            path = os.path.dirname(path)
            if os.path.samestat(status, os.stat(path)):
                return True
        return False


class _LocalFolder(NamedTuple):
    """Reads the files of an open folder by their names, their keys without `length` characters."""

    folders: LocalFolders
    number: int
    length: int
    path: str
    access: str

    def read(self, key: str) -> ListingEntry:
        name = key[self.length :]
        entry = self.folders._status_entry(
            key, self.path + name, self.access, name=name, folder=self.number
        )
        is_folder = entry.kind is EntryKind.FOLDER
        return left_out(key, entry.path, "vanished") if is_folder else entry

    def rows(self, keys: Sequence[str], urls: Sequence[str]) -> Sequence[StateRow]:
        length, number, follows = self.length, self.number, self.folders._follows_links
        try:
            found = [os.stat(key[length:], dir_fd=number, follow_symlinks=follows) for key in keys]
        except OSError:
            found = []
        of_mode = {each.st_mode: each for each in found}
        if not (found and all(map(stat.S_ISREG, of_mode))):  # they are read one by one
            return [(key, "", 0, None, "") for key in keys]
        mark = partial(self.folders._mark, path_access=self.access)
        if self.folders._has_posix_acls or follows:
            marks = [
                mark(self.path + key[length:], each) for key, each in zip(keys, found, strict=True)
            ]
        else:
            of_modes = {mode: mark(self.path, each) for mode, each in of_mode.items()}
            marks = [of_modes[each.st_mode] for each in found]
        sizes = [each.st_size for each in found]
        times = [m if (m := each.st_mtime_ns) > (c := each.st_ctime_ns) else c for each in found]
        return [*zip(keys, urls, sizes, times, marks, strict=True)]


def _is_taken(key: str, path: str) -> bool:
    """Whether another file in the folder of a path has the name that was decoded for a key."""
    folder, name = os.path.dirname(path), key.rpartition("/")[2]
    return not path.endswith(f"/{name}") and os.path.lexists(os.path.join(folder, name))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _root_of(tree: Tree) -> str:
    """Return the absolute path of the root without a final `/`; that of `/` is empty."""
    path = str(Path(tree.root).absolute())
    if not is_unicode(path):
        raise ConfigError(f"⟦inputs⟧: {path!r}: a path that is not UTF-8; expected one that is")
    try:
        status = os.stat(path)
    except OSError as exc:
        raise ConfigError(f"⟦inputs⟧: {path!r}: {exc.strerror}; {LISTABLE}") from exc
    if not stat.S_ISDIR(status.st_mode):
        raise ConfigError(f"⟦inputs⟧: {path!r} is not a folder; {LISTABLE}")
    return path.rstrip("/")


def _without_status(key: str, path: str, exc: OSError) -> ListingEntry:
    if exc.errno == errno.ELOOP:
        return left_out(key, path, "symlink-loop")
    if exc.errno not in (errno.ENOENT, errno.ENOTDIR):
        reason = f"{error_text(exc)}; expected a file that can be read"
        return rejected(key, path, "unreadable", reason)
    try:
        target = os.readlink(path)
    except OSError:
        return left_out(key, path, "vanished")
    reason = f"a link to {target!r}, which does not exist; expected a file or a folder"
    return rejected(key, path, "broken-link", reason)
