"""Files that get their name when they are complete: chunks, rejects, lists and reports."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import IO, TypeVar
from uuid import uuid4

import msgspec

from feedferry.schemas.account import SpanFile
from feedferry.schemas.avro import UNREADABLE, schema
from feedferry.schemas.errors import FatalError
from feedferry.schemas.reject import Reject
from feedferry.transforms.storage.files.block_stream import BlockStream
from feedferry.transforms.storage.storage import (
    PARTIAL,
    LocalStorage,
    Storage,
    WholeFile,
    unwritable,
)

SYNC_MARKER = b"feedferryrejects"
"""Fixed, so that the same rejects make the same bytes."""

_BLOCK_BYTES = 1 << 20
_Document = TypeVar("_Document")


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


def write_whole(path: Path, data: bytes, *, by_several: bool = False) -> None:
    """Write a file at once; with `by_several`, the last of several processes wins."""
    with whole_file(path, by_several=by_several) as stream:
        stream.write(data)


def write_json(path: Path, value: object) -> None:
    """Write an indented document with sorted keys."""
    text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
    write_whole(path, text.encode() + b"\n")


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


def paths_of(folder: Path, files: Iterable[SpanFile], suffix: str) -> list[Path]:
    """Return the paths of the files of one kind, in the order of their spans."""
    return [folder / file.path for file in files if file.path.endswith(suffix)]


def read_lines(paths: Iterable[Path], kind: type[_Document]) -> Iterator[_Document]:
    """Yield the documents of the lines of files."""
    decode = msgspec.json.Decoder(kind).decode
    for path in paths:
        with path.open("rb") as lines:
            yield from map(decode, lines)


class AtomicFile:
    """A file that is made when there is something to write, hashed, and named when it is complete.

    `written` describes the complete file.
    """

    def __init__(self, storage: Storage, name: str) -> None:
        self._storage = storage
        self._name = name
        self._file: WholeFile | None = None
        self._digest = hashlib.sha256()
        self._bytes = 0
        self.written: SpanFile | None = None

    @property
    def is_empty(self) -> bool:
        return self._file is None

    def write(self, data: bytes | memoryview) -> None:
        self._digest.update(data)
        self._bytes += len(data)
        self._begin().write(data)

    def flush(self) -> None:
        """Do nothing: the file is complete when it is closed."""

    def seekable(self) -> bool:
        return False

    def finish(self) -> SpanFile:
        """Give the file its name, also without a byte, and return its description."""
        self._begin().close(whole=True)
        self._file = None
        sha256 = self._digest.hexdigest()
        self.written = SpanFile(path=self._name, bytes=self._bytes, sha256=sha256)
        return self.written

    def close(self, *, whole: bool) -> None:
        """Give a file that was begun its name if it is complete, else remove it."""
        if self._file is not None and whole:
            self.finish()
        elif self._file is not None:
            self._file.close(whole=False)
            self._file = None

    def _begin(self) -> WholeFile:
        self._file = self._file or self._storage.open_whole(self._name)
        return self._file


class RejectFile(AtomicFile):
    """An Avro container of rejects, made with the first reject."""

    count = 0

    def add(self, reject: Reject) -> None:
        from fastavro.write import Writer, schemaless_writer

        if not self.count:
            self._writer = Writer(self, schema("reject"), sync_marker=SYNC_MARKER)  # type: ignore[arg-type]  # it only writes
        fields = msgspec.to_builtins(reject, builtin_types=(bytes,))
        schemaless_writer(BytesIO(), schema("reject"), fields)  # raises before a part is written
        self._writer.write(fields)
        self.count += 1

    def close(self, *, whole: bool) -> None:
        if self.count and whole:
            self._writer.flush()
        super().close(whole=whole)


def read_rejects(path: Path) -> Iterator[Reject]:
    """Yield the rejects of a file; raise FatalError if it cannot be read."""
    return read_stored_rejects(LocalStorage(path.parent), path.name)


def read_stored_rejects(storage: Storage, name: str) -> Iterator[Reject]:
    """Yield the rejects of a file of a run; raise FatalError if it cannot be read."""
    from fastavro import reader

    path = storage.locate(name)
    try:
        with storage.open(name) as stream:
            for fields in reader(stream):
                yield msgspec.convert(fields, Reject)
    except OSError as exc:
        raise FatalError(f"{path}: {exc.strerror}; expected a file of rejects") from exc
    except UNREADABLE as exc:
        raise FatalError(
            f"{path}: unreadable ({type(exc).__name__}); expected an Avro file of rejects"
        ) from exc
