"""A local tree as lines of a listing, in the order of the UTF-8 bytes of their keys.

What cannot be read, or is not to be, is a line as well: nothing stops a walk but a root that is not
there or cannot be listed. A folder is read to its end before anything of it is told, so that one
that cannot be is REJECTED as a whole and nothing in it looks as if it were gone. Sidecars are used
with the files that they describe, whatever the patterns say of their names.

`fingerprint` is a text of everything but the file that decides over a record: size and time of
each sidecar; with ACLs of POSIX, mode, owners and change time of the file, and a digest of the
permissions of the folders above it, where they decide over it.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from schemas.errors import ConfigError, SourceError
from transforms.sources.listing import Kind, Listed
from transforms.sources.tree.fingerprint import (
    SHUT,
    Sidecar,
    around_file,
    around_folder,
    asks_others,
    decides_by_posix,
    digest,
    is_shut,
    sidecars_of,
)
from transforms.sources.tree.patterns import described_by, judge
from transforms.sources.tree.sorted_names import Is, Name, Names, read_names
from transforms.sources.tree.tree import Tree
from transforms.sources.tree.urls import folder_url_of, url_of

ListFile = Callable[[str, str, int | None, int | None, tuple[str, ...]], Listed]
"""Makes a line of a file: of its key, path, size, time of change, and the paths of its sidecars."""

_SEGMENTS = frozenset({".", ".."})
_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
    stat.S_IFDIR: "a folder by now",
}
_LISTABLE = "expected a folder that can be listed"


def listed_file(tree: Tree) -> ListFile:
    """Return the function that makes the line of a file: FILE, or FILTERED with its code.

    A name that cannot stand in a url is REJECTED.
    """
    make_url, code_of = url_of(tree), judge(tree)

    def line_of(
        key: str, path: str, size: int | None, modified_ns: int | None, sidecars: tuple[str, ...]
    ) -> Listed:
        if not _SEGMENTS.isdisjoint(key.split("/")):
            reason = f"{key!r}; expected no '.' and no '..' in a path"
            return Listed(key=key, kind=Kind.REJECTED, path=path, code="file-name", reason=reason)
        url = make_url(key)
        if code := code_of(key, size):
            return Listed(key=key, kind=Kind.FILTERED, path=path, url=url, code=code)
        return Listed(
            key=key, path=path, url=url, size=size or 0, modified_ns=modified_ns, sidecars=sidecars
        )

    return line_of


def walk(tree: Tree) -> Iterator[Listed]:
    """Yield what stands in a tree: all of it, or only the files that are named.

    Some thousand names of each folder on the way are held in memory, and no more. Raise ConfigError
    where the root is no folder, SourceError where it cannot be listed.
    """
    walker = _Walker(tree)
    yield from walker.named(tree.only) if tree.only else walker.all()


class _Folder(msgspec.Struct, frozen=True, kw_only=True):
    """A folder that is open; `mark` is who may search it, `guard` the same of all above it too."""

    key: str
    names: Names
    identity: tuple[int, int] | None
    mark: str
    guard: str


class _Walker:
    """Knows the rules of one tree."""

    def __init__(self, tree: Tree) -> None:
        self._root = _root_of(tree)
        self._follows_links = tree.follows_links
        self._line_of = listed_file(tree)
        self._code_of = judge(tree)
        self._url_of = url_of(tree)
        self._folder_url_of = folder_url_of(tree)
        self._is_posix = decides_by_posix(tree)
        self._asks_others = asks_others(tree)
        self._is_inherited = tree.acl is not None and tree.acl.is_inherited

    def all(self) -> Iterator[Listed]:
        """Yield all lines; of the folders that are open, the last is the one that is read."""
        folders = [self._open_root()]
        try:
            yield from self._folder_lines(folders[0].key, folders[0].mark)
            while folders:
                name = next(folders[-1].names, None)
                if name is None:
                    folders.pop().names.close()
                    continue
                found = self._found(name, folders)
                if isinstance(found, Listed):
                    yield found
                else:
                    folders.append(found)
                    yield from self._folder_lines(found.key, found.mark)
        finally:
            for folder in folders:
                folder.names.close()

    def named(self, only: tuple[str, ...]) -> Iterator[Listed]:
        """Yield the lines of files that are named, and of the folders above them."""
        self._status_of_root()
        folders = {folder for key in only for folder in _folders_above(key)}
        for key in sorted({*only, *folders}):
            if key in folders:
                yield from self._folder_lines(key, self._mark(key))
            elif described_by(key) in only:
                yield self._line(key, Kind.FILTERED, "sidecar", "")
            else:
                guard = ""
                for folder in _folders_above(key):
                    guard = self._guard(guard, self._mark(folder))
                yield self._file(key, self._sidecars(key), guard)

    def _open_root(self) -> _Folder:
        status = self._status_of_root()
        try:
            return self._opened("", status, above="")
        except OSError as exc:
            raise SourceError(f"{self._path('')}: {_words(exc)}; {_LISTABLE}") from exc

    def _status_of_root(self) -> os.stat_result:
        path = self._path("")
        try:
            status = os.stat(path)
        except OSError as exc:
            raise ConfigError(f"INPUT: {path!r}: {_words(exc)}; {_LISTABLE}") from exc
        if not stat.S_ISDIR(status.st_mode):
            raise ConfigError(f"INPUT: {path!r} is no folder; {_LISTABLE}")
        return status

    def _found(self, name: Name, folders: list[_Folder]) -> _Folder | Listed:
        folder = folders[-1]
        key = folder.key + name.text
        match Is(name.kind):
            case Is.UNNAMED:
                return self._unnamed(key)
            case Is.LINK:
                return self._filtered(key, "symlink")
            case Is.FOLDER:
                return self._enter(key, folders)
        if not folder.names.has_sidecars:
            return self._file(key, [], folder.guard)
        if self._is_sidecar(key):
            return self._line(key, Kind.FILTERED, "sidecar", "")
        return self._file(key, self._sidecars(key), folder.guard)

    def _unnamed(self, key: str) -> Listed:
        """Return the line of what has a name that can stand in no url, and no listing."""
        if self._code_of(key, None):
            return self._filtered(key, "")
        reason = f"{key}: a name that is not UTF-8; expected one that is, so rename it"
        return Listed(key=key, kind=Kind.REJECTED, code="file-name", reason=reason)

    def _enter(self, key: str, folders: list[_Folder]) -> _Folder | Listed:
        if self._code_of(key, None):
            return self._filtered(key, "")
        path = self._path(key)
        try:
            status = os.stat(path)
            identity = _identity(status)
            if identity and identity in (folder.identity for folder in folders):
                return self._filtered(key, "symlink-loop")
            return self._opened(key, status, above=folders[-1].guard)
        except OSError as exc:
            return self._rejected(key, "unlistable-folder", f"{_words(exc)}; {_LISTABLE}")

    def _opened(self, key: str, status: os.stat_result, *, above: str) -> _Folder:
        mark = self._mark_of(status, self._path(key))
        return _Folder(
            key=key,
            names=read_names(self._path(key), follows_links=self._follows_links),
            identity=_identity(status),
            mark=mark,
            guard=self._guard(above, mark),
        )

    def _file(self, key: str, sidecars: list[Sidecar], guard: str) -> Listed:
        path = self._path(key)
        try:
            status = os.stat(path, follow_symlinks=self._follows_links)
        except OSError as exc:
            return self._without_status(key, exc)
        kind = stat.S_IFMT(status.st_mode)
        if kind == stat.S_IFLNK:  # it became one
            return self._filtered(key, "symlink")
        if kind != stat.S_IFREG:
            return self._filtered(key, "no-file", _KINDS.get(kind, ""))
        paths = tuple(sidecar.path for sidecar in sidecars)
        listed = self._line_of(key, path, status.st_size, status.st_mtime_ns, paths)
        marks = [sidecar.mark for sidecar in sidecars]
        if self._is_posix:
            marks.append(around_file(status, guard))
        elif self._asks_others and (guard or is_shut(status)):
            marks.append(SHUT)
        if listed.kind is not Kind.FILE or not marks:
            return listed
        return msgspec.structs.replace(listed, fingerprint=" ".join(marks))

    def _without_status(self, key: str, exc: OSError) -> Listed:
        """Return the line of a file that may not be there, if its name alone does not decide."""
        if self._code_of(key, None):
            return self._filtered(key, "")
        if exc.errno == errno.ELOOP:
            return self._filtered(key, "symlink-loop")
        if exc.errno not in (errno.ENOENT, errno.ENOTDIR):
            reason = f"{_words(exc)}; expected a file that can be read"
            return self._rejected(key, "unreadable", reason)
        try:
            target = os.readlink(self._path(key))
        except OSError:
            return self._filtered(key, "vanished")
        reason = f"a link to {target!r}, which is not there; expected a file or a folder"
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

    def _sidecars(self, key: str) -> list[Sidecar]:
        return sidecars_of(self._path(key), follows_links=self._follows_links)

    def _mark(self, folder: str) -> str:
        path = self._path(folder)
        try:
            return self._mark_of(os.stat(path), path)
        except OSError as exc:  # then the file is not there either
            return _words(exc)

    def _mark_of(self, status: os.stat_result, path: str) -> str:
        """Return who may search a folder, as far as its files are to know it."""
        if self._is_posix:
            return around_folder(status, path)
        return SHUT if self._asks_others and is_shut(status) else ""

    def _guard(self, above: str, mark: str) -> str:
        """Return who may search a folder and all above it, where no line of theirs tells it."""
        if self._asks_others:
            return above or mark
        return digest((above, mark)) if self._is_posix and not self._is_inherited else ""

    def _folder_lines(self, key: str, mark: str) -> Iterator[Listed]:
        if self._is_inherited:
            url = self._folder_url_of(key)
            yield Listed(key=key, kind=Kind.FOLDER, path=self._path(key), url=url, fingerprint=mark)

    def _filtered(self, key: str, code: str, reason: str = "") -> Listed:
        """Return a line for a rule about names, and if there is none, with this code."""
        by_name = self._code_of(key, None)
        return self._line(key, Kind.FILTERED, by_name or code, "" if by_name else reason)

    def _rejected(self, key: str, code: str, reason: str) -> Listed:
        return self._line(key, Kind.REJECTED, code, reason)

    def _line(self, key: str, kind: Kind, code: str, reason: str) -> Listed:
        url = self._folder_url_of(key) if key.endswith("/") else self._url_of(key)
        return Listed(key=key, kind=kind, path=self._path(key), url=url, code=code, reason=reason)

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}".rstrip("/") or "/"


def _root_of(tree: Tree) -> str:
    """Return the path of the root, absolute, without a `/` behind it; that of `/` is empty."""
    root = str(Path(tree.root).absolute()).rstrip("/")
    try:
        root.encode()
    except UnicodeEncodeError as exc:
        raise ConfigError(
            f"INPUT: {root!r}: a path that is not UTF-8; expected one that is"
        ) from exc
    return root


def _folders_above(key: str) -> Iterator[str]:
    """Yield the keys of the folders that a file stands in, beginning with that of the root."""
    yield ""
    for place, char in enumerate(key):
        if char == "/":
            yield key[: place + 1]


def _identity(status: os.stat_result) -> tuple[int, int] | None:
    """Return what no other folder has; some file systems tell no inodes."""
    return (status.st_dev, status.st_ino) if status.st_ino else None


def _words(exc: OSError) -> str:
    return exc.strerror or type(exc).__name__
