"""Files that get their name when they are complete: chunks, rejects, lists and reports."""

import hashlib
import io
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple, TypeVar
from uuid import uuid4

import msgspec

from schemas.avro import UNREADABLE, schema
from schemas.errors import FatalError
from schemas.reject import Reject
from transforms.storage.block_stream import BlockStream

SYNC_MARKER = b"feedferryrejects"
"""Fixed, so that the same rejects make the same bytes."""

PARTIAL = ".partial"
"""Suffix of an incomplete file."""

NOWHERE = Path(os.devnull)
"""The folder of files that are counted and hashed, and not stored."""

_BLOCK_BYTES = 1 << 20
_Document = TypeVar("_Document")


class WrittenFile(NamedTuple):
    """A complete file."""

    name: str
    bytes: int
    sha256: str


class HashedFile(io.BufferedWriter):
    """A file that is hashed while it is written."""

    def __init__(self, path: Path) -> None:
        super().__init__(io.FileIO(path, "wb"))
        self._digest = hashlib.sha256()
        self._size = 0

    def write(self, data: bytes | memoryview, /) -> int:  # type: ignore[override]  # one of these
        self._digest.update(data)
        self._size += memoryview(data).nbytes
        return super().write(data)

    def close(self) -> None:
        """Close it; the system begins to write it to the disk, which shortens a later sync."""
        try:
            if not self.closed and self._size > _BLOCK_BYTES and hasattr(os, "posix_fadvise"):
                self.flush()
                os.posix_fadvise(self.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            super().close()

    def describe(self, name: str) -> WrittenFile:
        """Return the size and the digest so far."""
        return WrittenFile(name, self._size, self._digest.hexdigest())


class HashingReader(BlockStream):
    """A stream that is hashed and counted while it is read.

    A buffered reader around it reads ahead, so both are complete only at the end of the stream.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.digest = hashlib.sha256()
        self.bytes = 0

    def read_block(self, max_bytes: int) -> bytes:
        block = self._stream.read(min(max_bytes, _BLOCK_BYTES))
        self.digest.update(block)
        self.bytes += len(block)
        return block


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise FatalError in place of an OSError of the block, which writes a file or to a folder."""
    try:
        yield
    except OSError as exc:
        raise unwritable(path, exc) from exc


@contextmanager
def whole_file(path: Path, *, by_several: bool = False) -> Iterator[IO[bytes]]:
    """Open a file that gets its name when the block ends; remove it if the block raises.

    With `by_several`, other processes may write it at the same time.
    """
    own = f".{uuid4().hex}" if by_several else ""
    partial = path.with_name(path.name + own + PARTIAL)
    with writing(path):
        try:
            with partial.open("wb") as stream:
                yield stream
            os.replace(partial, path)
        except BaseException:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
            raise


def link_or_copy(path: Path, to: Path) -> None:
    """Link a file, or copy it to another disk or a file system without links."""
    try:
        os.link(path, to)
    except OSError:
        with path.open("rb") as source, whole_file(to) as stream:
            shutil.copyfileobj(source, stream, _BLOCK_BYTES)


def write_by_several(path: Path, text: bytes) -> None:
    """Write a file that several processes may write at the same time; the last one wins."""
    with whole_file(path, by_several=True) as stream:
        stream.write(text)


def write_json(path: Path, value: object) -> None:
    """Write an indented document with sorted keys."""
    with whole_file(path) as stream:
        text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
        stream.write(text.encode() + b"\n")


def read_json(path: Path, kind: type[_Document], *, expected: str) -> _Document | None:
    """Return the document of a file, None without a file.

    Raises FatalError if it is unreadable or damaged; `expected` names the document, and the fix.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as exc:
        found = exc.strerror if isinstance(exc, OSError) else exc
        raise FatalError(f"{path}: {found}; expected {expected}") from exc


def read_undamaged(path: Path, kind: type[_Document]) -> _Document | None:
    """Return the document of a file, None without a file or from a damaged one."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


class AtomicFile:
    """A file that is made when there is something to write, hashed, and named when it is complete.

    `written` describes the complete file. A file in the folder `NOWHERE` is not stored.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_stored = path.parent != NOWHERE
        self._partial = path.with_name(path.name + PARTIAL)
        self._stream: HashedFile | None = None
        self.written: WrittenFile | None = None

    @property
    def is_empty(self) -> bool:
        return self._stream is None

    def write(self, data: bytes) -> None:
        try:
            self._open().write(data)
        except OSError as exc:
            raise unwritable(self._path, exc) from exc

    def _open(self) -> HashedFile:
        self._stream = self._stream or HashedFile(self._partial if self._is_stored else NOWHERE)
        return self._stream

    def close(self, *, whole: bool) -> WrittenFile | None:
        """Give the file its name if it is complete, else remove it; return its description."""
        if self._stream is None:
            return None
        with writing(self._path):
            try:
                self._stream.close()
                if whole:
                    if self._is_stored:
                        os.replace(self._partial, self._path)
                    self.written = self._stream.describe(self._path.name)
            finally:
                if self.written is None and self._is_stored:
                    self._partial.unlink(missing_ok=True)
        return self.written


class RejectFile(AtomicFile):
    """An Avro container of rejects, made with the first reject."""

    count = 0

    def add(self, reject: Reject) -> None:
        try:
            if not self.count:
                from fastavro.write import Writer

                self._writer = Writer(self._open(), schema("reject"), sync_marker=SYNC_MARKER)
            self._writer.write(msgspec.to_builtins(reject, builtin_types=(bytes,)))
        except OSError as exc:
            raise unwritable(self._path, exc) from exc
        self.count += 1

    def close(self, *, whole: bool) -> WrittenFile | None:
        if self.count and whole:
            self._writer.flush()
        return super().close(whole=whole)


def read_rejects(path: Path) -> Iterator[Reject]:
    """Yield the rejects of a file; raise FatalError if it cannot be read."""
    from fastavro import reader

    try:
        with path.open("rb") as stream:
            for fields in reader(stream):
                yield msgspec.convert(fields, Reject)
    except OSError as exc:
        raise FatalError(f"{path}: {exc.strerror}; expected a file of rejects") from exc
    except UNREADABLE as exc:
        raise FatalError(
            f"{path}: unreadable ({type(exc).__name__}); expected an Avro file of rejects"
        ) from exc


def unwritable(path: Path, exc: OSError) -> FatalError:
    """Return the error for a file that cannot be written."""
    return FatalError(f"{path}: {exc.strerror}; expected to write there")
