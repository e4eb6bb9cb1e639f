"""Files that get their name when they are complete: chunks, rejects, lists and reports."""

import hashlib
import io
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from operator import attrgetter
from pathlib import Path
from typing import IO, NamedTuple
from uuid import uuid4

import fastavro
import msgspec

from schemas.account import Chunk
from schemas.avro import schema
from schemas.errors import FatalError
from schemas.membership import Membership
from schemas.reject import Reject
from schemas.span import Span
from transforms.chunk import Frame

SYNC_MARKER = b"feedferryrejects"
"""Fixed, so that the same rejects make the same bytes."""

PARTIAL = ".partial"
"""Suffix of an incomplete file."""

_ACTION = attrgetter("action._value_")


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

    def describe(self, name: str) -> WrittenFile:
        """Return the size and the digest so far."""
        return WrittenFile(name, self._size, self._digest.hexdigest())


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file that gets its name when the block ends; remove it if the block raises."""
    partial = path.with_name(path.name + PARTIAL)
    try:
        with partial.open("wb") as stream:
            yield stream
        os.replace(partial, path)
    except BaseException as exc:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        if isinstance(exc, OSError):
            raise unwritable(path, exc) from exc
        raise


def write_by_several(path: Path, text: bytes) -> None:
    """Write a file that several processes may write at the same time; the last one wins."""
    partial = path.with_name(f"{path.name}.{uuid4().hex}{PARTIAL}")
    try:
        partial.write_bytes(text)
        os.replace(partial, path)
    except OSError as exc:
        raise unwritable(path, exc) from exc


def write_json(path: Path, value: object) -> None:
    """Write an indented document with sorted keys."""
    with whole_file(path) as stream:
        text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
        stream.write(text.encode() + b"\n")


def write_chunk(path: Path, text: bytes) -> Chunk:
    """Write a chunk; return it without ordinal, records and datasource."""
    with whole_file(path) as stream:
        stream.write(text)
    return Chunk(
        path=path.name,
        bytes=len(text),
        sha256=hashlib.sha256(text).hexdigest(),
        records={},
        first_url="",
        last_url="",
        source="",
        span=0,
    )


class ChunkFiles:
    """Writes frames to `folder/NAME-NNN.EXTENSION`; `finished` lists the complete chunks."""

    def __init__(self, folder: Path, span: Span, extension: str) -> None:
        self._folder = folder
        self._span = span
        self._extension = extension
        self.finished: list[Chunk] = []

    def write(self, frames: Iterable[Frame]) -> None:
        """Write all frames; remove a chunk if its last frame does not come."""
        frames = iter(frames)
        frame = next(frames, None)
        while frame is not None:
            frame = self._write_chunk(frame, frames)

    def _write_chunk(self, frame: Frame, frames: Iterator[Frame]) -> Frame | None:
        """Write the chunk that begins with `frame`; return the first frame of the next."""
        path = self._folder / f"{self._span.name}-{frame.number:03d}.{self._extension}"
        totals = _ChunkTotals(frame)
        following: Frame | None = frame
        with whole_file(path) as stream:
            while following is not None and following.number == frame.number:
                stream.write(following.data)
                totals.add(following)
                following = next(frames, None)
        self.finished.append(totals.chunk(path.name, self._span))
        return following


class _ChunkTotals:
    """Size, digest and records of a chunk."""

    def __init__(self, frame: Frame) -> None:
        self._feed = frame.feed
        self._target_feed = frame.target_feed
        self._digest = hashlib.sha256()
        self._bytes = 0
        self._records: Counter[str] = Counter()
        self._urls: tuple[str, str] | None = None
        self._members = 0

    def add(self, frame: Frame) -> None:
        self._digest.update(frame.data)
        self._bytes += len(frame.data)
        self._records.update(map(_ACTION, frame.records))
        if frame.records:
            first = self._urls[0] if self._urls else frame.records[0].url
            self._urls = (first, frame.records[-1].url)
        if self._target_feed and self._target_feed.memberships:
            groups = (record for record in frame.records if isinstance(record, Membership))
            self._members += sum(len(group.members) for group in groups)

    def chunk(self, path: str, span: Span) -> Chunk:
        first, last = self._urls or ("", "")
        return Chunk(
            path=path,
            bytes=self._bytes,
            sha256=self._digest.hexdigest(),
            records=dict(sorted(self._records.items())),
            first_url=first,
            last_url=last,
            source=span.source,
            span=span.ordinal,
            datasource=(self._feed.datasource or None) if self._feed else None,
            feedtype=self._feed.feedtype if self._feed else None,
            requested_feedtype=self._target_feed.feed.feedtype
            if self._target_feed and self._target_feed.feed
            else None,
            origin=self._target_feed.origin if self._target_feed else None,
            members=self._members,
        )


class _OptionalFile:
    """A file that is made when there is something to write, and is atomic.

    `written` describes it when it is complete.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._partial = path.with_name(path.name + PARTIAL)
        self._stream: HashedFile | None = None
        self.written: WrittenFile | None = None

    def close(self, *, whole: bool) -> None:
        """Give the file its name if it is complete, else remove it."""
        if self._stream is None:
            return
        self._stream.close()
        if whole:
            os.replace(self._partial, self._path)
            self.written = self._stream.describe(self._path.name)
        else:
            self._partial.unlink(missing_ok=True)


class LineFile(_OptionalFile):
    """A file of lines, made with the first line."""

    def add(self, line: bytes) -> None:
        """Write a line without its line break."""
        try:
            self._stream = self._stream or HashedFile(self._partial)
            self._stream.write(line + b"\n")
        except OSError as exc:
            raise unwritable(self._path, exc) from exc


class RejectFile(_OptionalFile):
    """An Avro container of rejects, made with the first reject."""

    count = 0

    def add(self, reject: Reject) -> None:
        try:
            if self._stream is None:
                self._stream = HashedFile(self._partial)
                self._writer = fastavro.write.Writer(
                    self._stream, schema("reject"), sync_marker=SYNC_MARKER
                )
            self._writer.write(msgspec.to_builtins(reject, builtin_types=(bytes,)))
        except OSError as exc:
            raise unwritable(self._path, exc) from exc
        self.count += 1

    def close(self, *, whole: bool) -> None:
        if self._stream is not None and whole:
            self._writer.flush()
        super().close(whole=whole)


def unwritable(path: Path, exc: OSError) -> FatalError:
    """Return the error for a file that cannot be written."""
    return FatalError(f"{path}: {exc.strerror}; expected to write there")
