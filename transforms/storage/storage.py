"""Where the files of a run are: one interface for folders and for object storage.

A storage is a folder; names in it are relative, with slashes. A file appears whole or not at all,
and `put_if_absent` is atomic, so that of several writers one wins. Everything that workers write
for a run goes through this interface.
"""

import errno
import hashlib
import io
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, Self
from uuid import uuid4

from feedferry.schemas.account import SpanFile
from feedferry.schemas.errors import FatalError
from feedferry.transforms.storage.files.lock import Lock

PARTIAL = ".partial"
"""Suffix of an incomplete file."""

OBJECT_SCHEMES = ("s3", "gs", "az", "abfs")
"""The schemes of object storage."""

_BLOCK_BYTES = 1 << 20
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})


def is_object(name: str) -> bool:
    """Whether a name is the URI of something in object storage."""
    scheme, separator, _ = name.partition("://")
    return bool(separator) and scheme.lower() in OBJECT_SCHEMES


class WholeFile(ABC):
    """A file that is being written; it gets its name when it is closed as `whole`."""

    @abstractmethod
    def write(self, data: bytes | memoryview, /) -> None:
        """Append bytes; raise FatalError if they cannot be stored."""

    @abstractmethod
    def close(self, *, whole: bool) -> None:
        """Give the file its name, replacing one of that name; or remove the unfinished file."""


class Storage(ABC):
    """A folder of files that appear whole. Errors are FatalError, and name the file."""

    has_locks = False
    """Whether the processes of a host can lock files in it."""

    @abstractmethod
    def below(self, name: str) -> Self:
        """Return the storage of a folder in this one; it need not exist."""

    @abstractmethod
    def locate(self, name: str) -> str:
        """Return the path or the URI of a file, to open or to show."""

    @abstractmethod
    def open_whole(self, name: str) -> WholeFile:
        """Begin a file, in a folder that is there or held; object storage has no folders."""

    @abstractmethod
    def open(self, name: str, offset: int = 0) -> IO[bytes]:
        """Open a file to read from an offset on; the stream can be sought.

        Raise FileNotFoundError without one.
        """

    @abstractmethod
    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Write a file at once unless there is one of that name; return whether it was written.

        Among several writers of different bytes, one gets True.
        """

    @abstractmethod
    def sizes(self, prefix: str = "") -> dict[str, int]:
        """Return the sizes in bytes of all files below a folder, by their names in this storage."""

    @abstractmethod
    def remove(self, prefix: str) -> None:
        """Remove a file, or a folder with all that is in it, if it is there."""

    def remove_files(self, names: Iterable[str]) -> None:
        """Remove files, with few requests where there are requests."""
        for name in names:
            self.remove(name)

    def make(self, name: str) -> None:  # noqa: B027 # object storage has no folders
        """Make a folder, where there are folders."""

    def hold(self, name: str) -> AbstractContextManager[object]:
        """Make a folder, and lock it for this process during the block, where there are locks.

        Raise BusyError if another process, or this one, has locked it.
        """
        return nullcontext()

    def modified_ns(self, name: str) -> int:
        """Return the time stamp of a file in nanoseconds, 0 where it does not show changes."""
        return 0

    def written_at(self, name: str) -> float:
        """Return when a file was written, by the clock of the storage, in seconds since 1970."""
        return self.modified_ns(name) / 1e9

    def uploads(self, *, abort: bool) -> list[str]:
        """Return the uploads that are open in this folder, or abort them all and return them.

        There are none where they cannot be listed, and at most a thousand are found without
        `abort`.
        """
        return []

    def put(self, name: str, data: bytes) -> None:
        """Write a file at once, replacing one of that name."""
        with whole_in(self, name) as file:
            file.write(data)

    def get(self, name: str) -> bytes | None:
        """Return the bytes of a file, None without one."""
        try:
            with self.open(name) as stream:
                return stream.read()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def is_whole(self, file: SpanFile, *, verify: bool = True) -> bool:
        """Whether a file has the size of its account and, with `verify`, the SHA-256."""
        try:
            with self.open(file.path) as stream:
                return size_of(stream) == file.bytes and (
                    not verify or digest_of_stream(stream) == file.sha256
                )
        except OSError:
            return False

    def are_whole(self, files: Sequence[SpanFile], *, verify: bool = True) -> bool:
        """Whether all files are as they were written; see `is_whole`."""
        return all(self.is_whole(file, verify=verify) for file in files)

    def snapshot(self, begun: str) -> "Storage":
        """Return the storage, or one that answers from a list of its files made earlier.

        A process makes the list once for each start of a run, which is `begun`, so later files may
        be missing from it.
        """
        return self


@contextmanager
def whole_in(storage: Storage, name: str) -> Iterator[WholeFile]:
    """Write a file that gets its name at the end of the block, unless the block raises."""
    file, is_whole = storage.open_whole(name), False
    try:
        yield file
        is_whole = True
    finally:
        file.close(whole=is_whole)


class LocalStorage(Storage):
    """A folder of the file system."""

    has_locks = True

    def __init__(self, root: Path) -> None:
        self.root = root

    def below(self, name: str) -> "LocalStorage":
        return LocalStorage(self.root / name)

    def locate(self, name: str) -> str:
        return str(self.root / name)

    def open_whole(self, name: str) -> WholeFile:
        return _LocalFile(self.root / name)

    def open(self, name: str, offset: int = 0) -> IO[bytes]:
        stream = (self.root / name).open("rb")
        stream.seek(offset)
        return stream

    def put_if_absent(self, name: str, data: bytes) -> bool:
        path = self.root / name
        staged = path.with_name(f"{path.name}.{uuid4().hex}{PARTIAL}")
        try:
            staged.write_bytes(data)
            _link_or_create(staged, path, data)
        except FileExistsError:
            return False
        except OSError as exc:
            raise unwritable(path, exc) from exc
        finally:
            with suppress(OSError):
                staged.unlink(missing_ok=True)
        return True

    def sizes(self, prefix: str = "") -> dict[str, int]:
        root = str(self.root)
        return {
            os.path.relpath(path, root): os.stat(path).st_size
            for folder, _, names in os.walk(self.root / prefix)
            for path in (os.path.join(folder, name) for name in names)
        }

    def remove(self, prefix: str) -> None:
        path = self.root / prefix
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink(missing_ok=True)

    def make(self, name: str) -> None:
        try:
            (self.root / name).mkdir(exist_ok=True)
        except OSError as exc:
            raise unwritable(self.root / name, exc) from exc

    @contextmanager
    def hold(self, name: str) -> Iterator[None]:
        folder, path = self.root / name, self.root / f"{name}.lock"
        try:
            folder.parent.mkdir(exist_ok=True)
            lock = Lock(path, where=str(folder), by="attempt")
            folder.mkdir(exist_ok=True)
        except OSError as exc:
            raise unwritable(folder.parent, exc) from exc
        try:
            yield
        finally:
            with suppress(OSError), lock:
                lock.remove()

    def modified_ns(self, name: str) -> int:
        return (self.root / name).stat().st_mtime_ns


class _LocalFile(WholeFile):
    def __init__(self, path: Path) -> None:
        self._path = path
        self._partial = path.with_name(path.name + PARTIAL)
        self._size = 0
        try:
            self._stream = self._partial.open("wb")
        except OSError as exc:
            raise unwritable(path, exc) from exc

    def write(self, data: bytes | memoryview, /) -> None:
        try:
            self._size += self._stream.write(data)
        except OSError as exc:
            raise unwritable(self._path, exc) from exc

    def close(self, *, whole: bool) -> None:
        is_named = False
        try:
            with self._stream:
                self._begin_to_store()
            if whole:
                os.replace(self._partial, self._path)
                is_named = True
        except OSError as exc:
            raise unwritable(self._path, exc) from exc
        finally:
            if not is_named:
                with suppress(OSError):
                    self._partial.unlink(missing_ok=True)

    def _begin_to_store(self) -> None:
        """Let the system begin to write a large file to the disk, which shortens a later sync."""
        if self._size > _BLOCK_BYTES and hasattr(os, "posix_fadvise"):
            self._stream.flush()
            os.posix_fadvise(self._stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Nowhere(Storage):
    """A storage that keeps nothing: its files are counted and hashed only."""

    def below(self, name: str) -> "Nowhere":
        return self

    def locate(self, name: str) -> str:
        return name

    def open_whole(self, name: str) -> WholeFile:
        return _NoFile()

    def open(self, name: str, offset: int = 0) -> IO[bytes]:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        return True

    def make(self, name: str) -> None:
        pass

    def sizes(self, prefix: str = "") -> dict[str, int]:
        return {}

    def remove(self, prefix: str) -> None:
        pass

    def modified_ns(self, name: str) -> int:
        return 0


class _NoFile(WholeFile):
    def write(self, data: bytes | memoryview, /) -> None:
        pass

    def close(self, *, whole: bool) -> None:
        pass


def size_of(stream: IO[bytes]) -> int:
    """Return the size of an open file, which is then at its begin."""
    size = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    return size


def digest_of_stream(stream: IO[bytes]) -> str:
    """Return the SHA-256 of the rest of a stream, in hexadecimal."""
    return hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]  # it only reads


def unwritable(path: Path, exc: OSError) -> FatalError:
    """Return the error for a file that cannot be written."""
    return FatalError(f"{path}: {exc.strerror}; expected to write there")


def _link_or_create(staged: Path, path: Path, data: bytes) -> None:
    """Create a file at once; raise FileExistsError if there is one with that name.

    On a file system without hard links it is written in place. If that is interrupted, the file is
    damaged.
    """
    try:
        os.link(staged, path)
    except OSError as exc:
        if exc.errno not in _NO_LINKS:
            raise
        with path.open("xb") as stream:
            stream.write(data)
