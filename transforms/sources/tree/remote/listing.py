"""Remote trees as the lines of a listing, in the order of their keys, sidecars with their files.

Memory is bounded: folders are sorted on disk, and a file waits only until no sidecar of it can
follow. Buckets of S3 are listed page by page. Of other object stores and of web servers, the
entries of one folder are in memory.
"""

import errno
import html
import re
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any
from urllib.parse import quote, unquote_to_bytes

import msgspec

from schemas.errors import ConfigError, SourceError
from transforms.sources.listing import EntryKind, ListingEntry
from transforms.sources.tree.external_sort import ExternalSort, SortCodec
from transforms.sources.tree.patterns import SIDECARS, described_by, judge
from transforms.sources.tree.remote.filesystems import (
    check_remote,
    connect,
    error_text,
    scheme_of,
    translate_errors,
)
from transforms.sources.tree.remote.stream import modified_ns_of, size_of, version_in
from transforms.sources.tree.tree import Tree
from transforms.sources.tree.urls import listed_file

MAX_DEPTH = 100
"""Folders nested deeper than this are taken for a loop."""

MAX_WAITING = 100_000
"""Files that may wait for the sidecars of one file before them."""

_LAST_SIDECAR = max(SIDECARS)
_SAFE = "/!$&'()*+,;=:@"
_OTHER_SCHEME = re.compile("[A-Za-z][A-Za-z0-9+.-]*:")
_LISTABLE = "expected a folder that can be listed"


class RemoteEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file, a folder, or anything else in a remote tree; the key of a folder ends in `/`.

    `path` is its URI. A size or time of `None` is unknown. `fingerprint` is the version of a file.
    """

    key: str
    path: str
    kind: EntryKind = EntryKind.FILE
    size: int | None = None
    modified_ns: int | None = None
    fingerprint: str = ""
    code: str = ""
    reason: str = ""


ListFolder = Callable[[RemoteEntry], Iterator[RemoteEntry]]
"""Lists the entries of one folder, in any order; raises what its library raises."""

_CODEC = SortCodec(
    key=attrgetter("key"),
    encode=msgspec.json.Encoder().encode,
    decode=msgspec.json.Decoder(RemoteEntry).decode,
)


def list_remote(tree: Tree) -> Iterator[ListingEntry]:
    """Yield the lines of a remote tree, in the order of the UTF-8 bytes of its keys.

    Files that are left out or cannot be read are lines as well. Raise SourceError if the root
    cannot be listed, ConfigError at once if the options do not suit a remote tree.
    """
    check_remote(tree.root)
    if tree.acl is not None and tree.acl.table is None:
        raise ConfigError(
            f"{tree.root}: remote files have no POSIX owners; expected a table of ACLs"
        )
    if scheme_of(tree.root) == "s3":
        return list_entries(tree, _bucket(tree))
    return list_entries(tree, walk_folders(tree, _folder_lister(tree)))


def list_entries(tree: Tree, entries: Iterable[RemoteEntry]) -> Iterator[ListingEntry]:
    """Yield the lines of entries, which are in order; raise SourceError if they are not."""
    line_of = listed_file(tree)
    only = frozenset(tree.only)
    for waiting in _with_sidecars(tree, _check_names(tree, entries)):
        entry = waiting.entry
        if only and entry.key not in only:
            continue
        if waiting.is_sidecar:
            yield _plain_line(entry, EntryKind.FILTERED, "sidecar")
        elif entry.kind is not EntryKind.FILE:
            yield _plain_line(entry, entry.kind, entry.code, entry.reason)
        else:
            paths = tuple(sidecar.path for sidecar in waiting.sidecars)
            line = line_of(entry.key, entry.path, entry.size, entry.modified_ns, paths)
            marks = (
                f"{sidecar.key} {sidecar.size} {sidecar.modified_ns} {sidecar.fingerprint}".rstrip()
                for sidecar in waiting.sidecars
            )
            fingerprint = "\n".join(filter(None, (line.fingerprint, entry.fingerprint, *marks)))
            yield msgspec.structs.replace(line, fingerprint=fingerprint)


def walk_folders(tree: Tree, list_folder: ListFolder) -> Iterator[RemoteEntry]:
    """Yield all entries below the root but its folders; folders that a rule excludes stay closed.

    Raise SourceError if the root cannot be listed.
    """
    code_of = judge(tree)
    try:
        folders = [_sorted_folder(list_folder, RemoteEntry(key="", path=tree.root))]
    except OSError as exc:
        raise SourceError(f"{tree.root}: {error_text(exc)}; {_LISTABLE}") from exc
    try:
        while folders:
            entry = next(folders[-1], None)
            if entry is None:
                folders.pop().close()
            elif entry.kind is not EntryKind.FOLDER:
                yield entry
            elif code := code_of(entry.key, None):
                yield _filtered(entry.key, entry.path, code)
            elif len(folders) == MAX_DEPTH:
                reason = f"{MAX_DEPTH} folders above it; expected fewer"
                yield _rejected(entry.key, entry.path, "unlistable-folder", reason)
            else:
                try:
                    folders.append(_sorted_folder(list_folder, entry))
                except OSError as exc:
                    reason = f"{error_text(exc)}; {_LISTABLE}"
                    yield _rejected(entry.key, entry.path, "unlistable-folder", reason)
    finally:
        for folder in folders:
            folder.close()


def _sorted_folder(list_folder: ListFolder, folder: RemoteEntry) -> ExternalSort[RemoteEntry]:
    """Return the entries of a folder; a connection that has ended is opened again once."""
    try:
        with translate_errors(folder.path):
            return ExternalSort(list_folder(folder), _CODEC)
    except OSError as exc:
        if exc.errno != errno.EIO:
            raise
    with translate_errors(folder.path):
        return ExternalSort(list_folder(folder), _CODEC)


def _filtered(key: str, path: str, code: str, reason: str = "") -> RemoteEntry:
    return RemoteEntry(key=key, path=path, kind=EntryKind.FILTERED, code=code, reason=reason)


def _rejected(key: str, path: str, code: str, reason: str) -> RemoteEntry:
    return RemoteEntry(key=key, path=path, kind=EntryKind.REJECTED, code=code, reason=reason)


def _check_names(tree: Tree, entries: Iterable[RemoteEntry]) -> Iterator[RemoteEntry]:
    """Yield each entry once; a file whose name cannot be part of a URL becomes REJECTED."""
    last = ""
    for entry in entries:
        if entry.key < last:
            raise SourceError(
                f"{tree.root}: {entry.key!r} is listed after {last!r}; expected names in order"
            )
        if entry.key == last:  # the root as an object of its own, or two links to one file
            continue
        last = entry.key
        yield _check_name(entry) if entry.kind is EntryKind.FILE else entry


def _check_name(entry: RemoteEntry) -> RemoteEntry:
    if entry.key.endswith("/"):
        return _filtered(entry.key, entry.path, "no-file", "an object that represents a folder")
    if not {"", ".", ".."}.isdisjoint(entry.key.split("/")):
        reason = f"{entry.key!r}; expected no '//', '.' or '..' in the name of a file"
        return _rejected(entry.key, entry.path, "file-name", reason)
    return entry


class _WaitingEntry(msgspec.Struct):
    entry: RemoteEntry
    sidecars: list[RemoteEntry]
    is_sidecar: bool = False


def _with_sidecars(tree: Tree, entries: Iterable[RemoteEntry]) -> Iterator[_WaitingEntry]:
    """Yield all entries in their order, each file after its sidecars are known.

    The key of a sidecar begins with the key of its file, so only few entries come in between.
    """
    queue: deque[_WaitingEntry] = deque()
    owners: dict[str, _WaitingEntry] = {}
    for entry in entries:
        while owners and entry.key > next(reversed(owners)) + _LAST_SIDECAR:
            owners.popitem()
        waiting = _WaitingEntry(entry, [])
        queue.append(waiting)
        if entry.kind is EntryKind.FILE:
            owner = owners.get(described_by(entry.key) or "")
            if owner is None:
                owners[entry.key] = waiting
            else:
                owner.sidecars.append(entry)
                waiting.is_sidecar = True
        while queue and not _awaits_sidecars(queue[0], entry.key):
            yield queue.popleft()
        if len(queue) > MAX_WAITING:
            raise SourceError(
                f"{tree.root}: more than {MAX_WAITING} names begin with {queue[0].entry.key!r} and"
                " come before its sidecars; expected another name for that file"
            )
    yield from queue


def _awaits_sidecars(waiting: _WaitingEntry, key: str) -> bool:
    is_owner = waiting.entry.kind is EntryKind.FILE and not waiting.is_sidecar
    return is_owner and key <= waiting.entry.key + _LAST_SIDECAR


def _plain_line(entry: RemoteEntry, kind: EntryKind, code: str, reason: str = "") -> ListingEntry:
    return ListingEntry(
        key=entry.key,
        kind=kind,
        path=entry.path,
        size=entry.size or 0,
        modified_ns=entry.modified_ns,
        code=code,
        reason=reason,
    )


def _bucket(tree: Tree) -> Iterator[RemoteEntry]:
    """Yield the objects below a prefix of S3 in the order of their keys, page by page."""
    bucket, _, prefix = tree.root.partition("://")[2].partition("/")
    prefix = f"{prefix}/" if prefix else ""
    query = {"Bucket": bucket, "Prefix": prefix}
    is_empty = True
    while query:
        try:
            with translate_errors(tree.root):
                page = connect(tree.root)[0].call_s3("list_objects_v2", **query)
        except OSError as exc:
            expected = "expected a bucket that can be listed"
            raise SourceError(f"{tree.root}: {error_text(exc)}; {expected}") from exc
        for found in page.get("Contents", ()):
            is_empty = False
            yield _file_of(
                found["Key"].removeprefix(prefix),
                f"s3://{bucket}/{found['Key']}",
                found | {"size": found["Size"]},
            )
        token = page.get("NextContinuationToken")
        query = query | {"ContinuationToken": token} if token else {}
    if is_empty:
        raise SourceError(f"{tree.root}: no object; expected at least one with this prefix")


def _file_of(key: str, path: str, info: dict[str, Any]) -> RemoteEntry:
    return RemoteEntry(
        key=key,
        path=path,
        size=size_of(info),
        modified_ns=modified_ns_of(info),
        fingerprint=version_in(info),
    )


def _folder_lister(tree: Tree) -> ListFolder:
    match scheme_of(tree.root):
        case "sftp" | "ssh":
            return lambda folder: _sftp_folder(tree, folder)
        case "http" | "https":
            return lambda folder: _web_folder(tree, folder)
        case _:
            return lambda folder: object_folder(folder, *connect(folder.path))


def object_folder(folder: RemoteEntry, filesystem: Any, path: str) -> Iterator[RemoteEntry]:
    """List a folder of a file system of fsspec whose names are not encoded in URIs."""
    for info in filesystem.ls(path, detail=True):
        name = info["name"].rstrip("/").rpartition("/")[2]
        uri = f"{folder.path}/{name}"
        if info["name"].strip("/") == path.strip("/"):  # the folder itself, as an object
            continue
        if info["type"] == "directory":
            yield RemoteEntry(key=f"{folder.key}{name}/", path=uri, kind=EntryKind.FOLDER)
        else:
            yield _file_of(folder.key + name, uri, info)


def _web_folder(tree: Tree, folder: RemoteEntry) -> Iterator[RemoteEntry]:
    """List the targets of the links in a page that are right below its folder.

    Pages show rounded sizes, so the server is asked for each file that no rule leaves out.
    """
    code_of = judge(tree)
    filesystem, page = connect(f"{folder.path}/", lists_pages=True)
    links = [html.unescape(info["name"]) for info in filesystem.ls(page, detail=True)]
    entries = (_linked_entry(folder, link.removeprefix(page)) for link in links)
    found = [entry for entry in entries if entry is not None]
    if not found and not folder.key:
        raise OSError(f"{page} has no link to a file or folder in it")
    for entry in found:
        if entry.kind is EntryKind.FILE and code_of(entry.key, None) is None:
            yield _look_up(entry)
        else:
            yield entry


def _linked_entry(folder: RemoteEntry, quoted: str) -> RemoteEntry | None:
    name = quoted.removesuffix("/")
    if not name or not {"?", "#", "/"}.isdisjoint(name) or _OTHER_SCHEME.match(name):
        return None
    raw = unquote_to_bytes(name)
    text = raw.decode(errors="backslashreplace")
    uri = f"{folder.path}/{name}"
    if raw in (b".", b".."):
        return None
    if b"/" in raw or raw != text.encode():
        reason = f"{raw!r}; expected a name in UTF-8, without '/'"
        return _rejected(folder.key + text, uri, "file-name", reason)
    if quoted.endswith("/"):
        return RemoteEntry(key=f"{folder.key}{text}/", path=uri, kind=EntryKind.FOLDER)
    return RemoteEntry(key=folder.key + text, path=uri)


def _look_up(entry: RemoteEntry) -> RemoteEntry:
    """Add size, time and version of a file; if the server gives none, its reader finds out why."""
    try:
        with translate_errors(entry.path):
            filesystem, path = connect(entry.path)
            return _file_of(entry.key, entry.path, filesystem.info(path))
    except OSError:
        return entry


def _sftp_folder(tree: Tree, folder: RemoteEntry) -> Iterator[RemoteEntry]:
    """List a folder of a server; in memory if links are followed, as each is another request."""
    sftp, path = connect(folder.path)
    try:
        found = sftp.iter_folder(path)
        for attributes in list(found) if tree.follows_links else found:
            yield _sftp_entry(tree, sftp, folder.key + attributes.filename, attributes)
    except UnicodeDecodeError as exc:
        raise OSError(f"the name {exc.object!r} in it is not UTF-8, so rename it") from exc


def _sftp_entry(tree: Tree, sftp: Any, key: str, attributes: Any) -> RemoteEntry:
    mode = attributes.st_mode or stat.S_IFREG
    quoted = quote(key, safe=_SAFE).replace("~", "%7E")  # a ~ would be the home folder
    uri = f"{tree.root}/{quoted}"
    if stat.S_ISLNK(mode):
        if not tree.follows_links:
            return _filtered(key, uri, "symlink")
        path = connect(uri)[1]
        try:
            attributes = sftp.ftp.stat(path)
        except FileNotFoundError:
            reason = "a link to a file that does not exist; expected a file"
            return _rejected(key, uri, "broken-link", reason)
        mode = attributes.st_mode
        if stat.S_ISDIR(mode) and _is_loop(sftp, path):
            return _filtered(key, uri, "symlink-loop")
    if stat.S_ISDIR(mode):
        return RemoteEntry(key=f"{key}/", path=uri, kind=EntryKind.FOLDER)
    if not stat.S_ISREG(mode):
        return _filtered(key, uri, "no-file")
    modified_ns = None if attributes.st_mtime is None else attributes.st_mtime * 1_000_000_000
    return RemoteEntry(key=key, path=uri, size=attributes.st_size, modified_ns=modified_ns)


def _is_loop(sftp: Any, path: str) -> bool:
    """Whether a link leads to one of the folders above it."""
    target = sftp.ftp.normalize(path)
    here = sftp.ftp.normalize(path.rpartition("/")[0] or "/")
    return target == "/" or f"{here}/".startswith(f"{target}/")
