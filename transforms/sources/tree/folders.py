"""The folders of local and remote trees, as entries of a listing.

Buckets of S3 are listed page by page, and folders of SFTP servers entry by entry. Of other object
stores, the entries of one folder are in memory.

The fingerprint of a local file is one text of everything but its content that decides its record.
With POSIX ACLs it has mode, owners and change time of the file, and a digest of the permissions of
the folders above it where they matter. A tree without ACLs marks the files that others may not
read.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from schemas.errors import ConfigError
from transforms.sources.listing import (
    EntryKind,
    ListingEntry,
    file_entry,
    left_out,
    rejected,
)
from transforms.sources.remote import (
    check_remote,
    connect,
    error_text,
    read_info,
    scheme_of,
)
from transforms.sources.tree.patterns import SIDECARS
from transforms.sources.tree.posix_acl import read_acl
from transforms.sources.tree.tree import Tree
from transforms.sources.tree.urls import is_unicode

NOT_PUBLIC = "shut"
"""Marks the fingerprint of a file that others may not read, in a tree without ACLs."""

_CACHED_FOLDERS = 1 << 12
_FILE_TYPES = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
}
_SAFE = "/!$&'()*+,;=:@"
LISTABLE = "expected a folder that can be listed"

ListFolder = Callable[[ListingEntry], Iterable[ListingEntry]]
"""Lists the entries of a folder in any order; raises what its library raises.

The entry of a folder has the kind FOLDER and a key that ends in `/`. An entry with the key of the
listed folder itself is a line of the listing.
"""


def folder_lister(tree: Tree) -> ListFolder:
    """Return the function that lists the folders of a tree.

    Raise ConfigError if its root is no folder, or no URI of a folder that can be read.
    """
    scheme = scheme_of(tree.root)
    if not scheme:
        return LocalFolders(tree)
    check_remote(tree.root)
    match scheme:
        case "s3":
            return lambda _root: _bucket(tree.root)
        case "sftp" | "ssh":
            return lambda folder: _sftp_folder(tree.root, folder)
        case _:
            return lambda folder: object_folder(folder, *connect(folder.path))


def object_folder(folder: ListingEntry, filesystem: Any, path: str) -> Iterator[ListingEntry]:
    """List a folder of a file system of fsspec whose names are not encoded in URIs."""
    for info in filesystem.ls(path, detail=True):
        name = info["name"].rstrip("/").rpartition("/")[2]
        uri = f"{folder.path}/{name}"
        if info["name"].strip("/") == path.strip("/"):  # the folder itself, as an object
            continue
        if info["type"] == "directory":
            yield ListingEntry(key=f"{folder.key}{name}/", kind=EntryKind.FOLDER, path=uri)
        else:
            yield file_entry(folder.key + name, uri, *read_info(info))


class LocalFolders:
    """Lists the folders of a local tree: all entries, or only the named files of the root.

    Raise ConfigError if the root is no folder.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._root = _root_of(tree)
        self._has_posix_acls = tree.acl is not None and tree.acl.table is None
        self._is_inherited = tree.acl is not None and tree.acl.is_inherited
        self._marks_not_public = tree.acl is None and not tree.is_public
        self._path_access = lru_cache(maxsize=_CACHED_FOLDERS)(self._find_path_access)

    def __call__(self, folder: ListingEntry) -> Iterator[ListingEntry]:
        """Yield the entries of a folder, and its own line if files inherit from it."""
        path = self._path(folder.key)
        if self._tree.follows_links and self._is_loop(folder.key):
            yield left_out(folder.key, path, "symlink-loop")
            return
        access = self._path_access(folder.key)
        if self._is_inherited:
            fingerprint = self._access(path)
            yield ListingEntry(
                key=folder.key, kind=EntryKind.FOLDER, path=path, fingerprint=fingerprint
            )
        if self._tree.only:
            for name in self._named_files():
                yield self._entry(folder.key + name, access)
            return
        with os.scandir(path) as entries:
            for entry in entries:
                yield self._entry(folder.key + entry.name, access)

    def _named_files(self) -> Iterator[str]:
        """Yield the names of the files to read and of their sidecars, each once."""
        names = dict.fromkeys(self._tree.only)
        for name in self._tree.only:
            sidecars = (name + suffix for suffix in SIDECARS)
            names.update(dict.fromkeys(key for key in sidecars if os.path.lexists(self._path(key))))
        yield from names

    def _entry(self, key: str, path_access: str) -> ListingEntry:
        path = self._path(key)
        if not key.isascii() and not is_unicode(key):
            shown = os.fsencode(key).decode("utf-8", "backslashreplace")
            reason = f"{shown}: a name that is not UTF-8; expected one that is, so rename it"
            return rejected(shown, "", "file-name", reason)
        try:
            status = os.stat(path, follow_symlinks=self._tree.follows_links)
        except OSError as exc:
            return _without_status(key, path, exc)
        file_type = stat.S_IFMT(status.st_mode)
        if file_type == stat.S_IFDIR:
            return ListingEntry(key=f"{key}/", kind=EntryKind.FOLDER, path=path)
        size, modified_ns = status.st_size, status.st_mtime_ns
        if file_type == stat.S_IFREG:
            return file_entry(key, path, size, modified_ns, self._mark(status, path_access))
        code = "symlink" if file_type == stat.S_IFLNK else "no-file"
        return ListingEntry(  # it may be a sidecar, of which size and time are needed
            key=key,
            kind=EntryKind.FILTERED,
            path=path,
            size=size,
            modified_ns=modified_ns,
            code=code,
            reason=_FILE_TYPES.get(file_type, ""),
        )

    def _mark(self, status: os.stat_result, path_access: str) -> str:
        """Return the fingerprint of a file; any change of a POSIX ACL changes the ctime."""
        if self._has_posix_acls:
            owners = f"{status.st_mode:o}:{status.st_uid}:{status.st_gid}:{status.st_ctime_ns}"
            return f"{owners} {path_access}".rstrip()
        is_closed = self._marks_not_public and (path_access or not status.st_mode & stat.S_IROTH)
        return NOT_PUBLIC if is_closed else ""

    def _access(self, path: str) -> str:
        """Return who may search a folder, as far as the fingerprints of its files need it.

        The times of a folder are left out: they change with its files.
        """
        status = os.stat(path)
        if self._has_posix_acls:
            acl = (read_acl(path) or b"").hex()
            return f"{status.st_mode:o}:{status.st_uid}:{status.st_gid}:{acl}"
        is_closed = self._marks_not_public and not status.st_mode & stat.S_IXOTH
        return NOT_PUBLIC if is_closed else ""

    def _find_path_access(self, key: str) -> str:
        """Return who may search a folder and all folders above it, up to the root.

        With inherited ACLs that is in the lines of the folders.
        """
        access = self._access(self._path(key))
        above = self._path_access(_folder_above(key)) if key else ""
        if self._marks_not_public:
            return above or access
        if not self._has_posix_acls or self._is_inherited:
            return ""
        return hashlib.sha256(f"{above}\n{access}".encode()).hexdigest()[:16]

    def _is_loop(self, key: str) -> bool:
        """Whether a folder is one of those above it; unknown on file systems without inodes."""
        status = os.stat(self._path(key))
        while key and status.st_ino:
            key = _folder_above(key)
            if os.path.samestat(status, os.stat(self._path(key))):
                return True
        return False

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}".rstrip("/") or "/"


def _root_of(tree: Tree) -> str:
    """Return the absolute path of the root without a final `/`; that of `/` is empty."""
    path = str(Path(tree.root).absolute())
    if not is_unicode(path):
        raise ConfigError(f"INPUT: {path!r}: a path that is not UTF-8; expected one that is")
    try:
        status = os.stat(path)
    except OSError as exc:
        raise ConfigError(f"INPUT: {path!r}: {exc.strerror}; {LISTABLE}") from exc
    if not stat.S_ISDIR(status.st_mode):
        raise ConfigError(f"INPUT: {path!r} is not a folder; {LISTABLE}")
    return path.rstrip("/")


def _folder_above(key: str) -> str:
    """Return the key of the folder above a folder; that of the root is empty.

    >>> _folder_above("a/b/"), _folder_above("a/")
    ('a/', '')
    """
    folder, slash, _ = key.removesuffix("/").rpartition("/")
    return folder + slash


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


def _bucket(root: str) -> Iterator[ListingEntry]:
    """List all objects below a prefix of S3, page by page: a request per folder takes too long."""
    bucket, _, prefix = root.partition("://")[2].partition("/")
    prefix = f"{prefix}/" if prefix else ""
    query = {"Bucket": bucket, "Prefix": prefix}
    is_empty = True
    while query:
        page = connect(root)[0].call_s3("list_objects_v2", **query)
        for info in page.get("Contents", ()):
            is_empty = False
            key, path = info["Key"].removeprefix(prefix), f"s3://{bucket}/{info['Key']}"
            if key.endswith("/"):
                yield left_out(key, path, "no-file", "an object that represents a folder")
            elif key:
                yield file_entry(key, path, *read_info(info))
        token = page.get("NextContinuationToken")
        query = query | {"ContinuationToken": token} if token else {}
    if is_empty:
        raise OSError("no object with this prefix")


def _sftp_folder(root: str, folder: ListingEntry) -> Iterator[ListingEntry]:
    sftp, path = connect(folder.path)
    try:
        for attributes in sftp.ftp.listdir_iter(path):
            yield _sftp_entry(root, folder.key + attributes.filename, attributes)
    except UnicodeDecodeError as exc:
        raise OSError(f"the name {exc.object!r} in it is not UTF-8, so rename it") from exc


def _sftp_entry(root: str, key: str, attributes: Any) -> ListingEntry:
    mode = attributes.st_mode or stat.S_IFREG
    quoted = quote(key, safe=_SAFE).replace("~", "%7E")  # a ~ would be the home folder
    uri = f"{root}/{quoted}"
    if stat.S_ISLNK(mode):
        return left_out(key, uri, "symlink")
    if stat.S_ISDIR(mode):
        return ListingEntry(key=f"{key}/", kind=EntryKind.FOLDER, path=uri)
    if not stat.S_ISREG(mode):
        return left_out(key, uri, "no-file")
    modified_ns = None if attributes.st_mtime is None else attributes.st_mtime * 1_000_000_000
    return file_entry(key, uri, attributes.st_size, modified_ns)
