"""Chunks as they are sent: whole, or in parts if a chunk is refused or too large.

The ends of a part depend only on the bytes of the chunk, so a push that continues finds the same
parts as the one before it.
"""

import hashlib
import io
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import IO

import msgspec

from feedferry.schemas.account import Chunk
from feedferry.schemas.errors import FormatError, RecordError
from feedferry.schemas.reject import Place, Reject, reject_bytes
from feedferry.schemas.span import Span
from feedferry.transforms.formats import Format, Places, find_format
from feedferry.transforms.sinks.push.model import (
    ChunkPart,
    changed_error,
    open_chunk_file,
    range_blocks,
)
from feedferry.transforms.storage.atomic import HashingReader
from feedferry.transforms.storage.storage import size_of

MAX_REJECT_BYTES = 1 << 20
"""How much of a refused record a reject keeps."""


def scan_feed(path: Path, format: Format, *, source: str) -> tuple[Places, HashingReader]:
    """Read a feed once; return its records, and the reader with its size and digest.

    `source` is its name in messages. Raises FormatError if it is no feed of this format, or if the
    format has no parts, and SourceError if it cannot be read.
    """
    with open_chunk_file(path) as stream:
        reader = HashingReader(stream)
        return format.find_places(io.BufferedReader(reader), source=source), reader


def whole_chunk(chunk: Chunk, root: Path) -> ChunkPart:
    """Return all of a chunk; raise SourceError if its file is missing or has another size."""
    path = root / chunk.path
    with open_chunk_file(path) as stream:
        size = size_of(stream)
    if size != chunk.bytes:
        raise changed_error(path, f"{size} bytes", f"{chunk.bytes} as in the manifest")
    return ChunkPart(chunk=chunk, path=path, offset=0, length=chunk.bytes, sha256=chunk.sha256)


class ChunkSplitter:
    """Splits one chunk; its file is scanned once, when that is first needed.

    All methods raise FormatError if the chunk cannot be split because it is no feed or has no
    parts, and SourceError if its file has changed.
    """

    def __init__(self, chunk: Chunk, root: Path) -> None:
        self.whole = whole_chunk(chunk, root)

    def split(self, part: ChunkPart) -> list[ChunkPart]:
        """Return two halves, by bytes; raise ValueError for a part with a single record."""
        first, count = part.first, part.count or len(self._places)
        if count < 2:
            raise ValueError(f"{part.path}: {count} records; expected several to split")
        middle = self._places.middle(first, count)
        ranges = ((first, middle - first), (middle, first + count - middle))
        with open_chunk_file(part.path) as stream:
            halves = [self._part(stream, *records) for records in ranges]
            digest = _digest(stream, part.offset, part.length)
        _check_digest(part, digest)  # now the halves are known to be of unchanged bytes
        return halves

    def reject(self, error: RecordError, record: int | None = None) -> Reject:
        """Return the reject of one record, numbered from 0, or of the whole chunk."""
        place = self._place(record)
        with open_chunk_file(self.whole.path) as stream:
            stream.seek(place.offset)
            data = stream.read(min(place.length, MAX_REJECT_BYTES))
        url = None
        with suppress(FormatError):
            url = self._places.url_of(data)
        span = Span(source=self.whole.chunk.path)
        reject = reject_bytes(error, span=span, place=place, data=data, url=url)
        return msgspec.structs.replace(reject, stage="push")

    @cached_property
    def _places(self) -> Places:
        path = self.whole.path
        format = find_format(self.whole.chunk.format)
        if format is None:
            raise FormatError(f"{path}: a chunk without a format; expected one that is stated")
        places, reader = scan_feed(path, format, source=str(path))
        _check_digest(self.whole, reader.digest.hexdigest())
        return places

    def _part(self, stream: IO[bytes], first: int, count: int) -> ChunkPart:
        piece = self._places.part(first, count)
        return ChunkPart(
            chunk=self.whole.chunk,
            path=self.whole.path,
            offset=piece.offset,
            length=piece.length,
            head=piece.head,
            tail=piece.tail,
            first=first,
            count=count,
            sha256=_digest(stream, piece.offset, piece.length),
        )

    def _place(self, record: int | None) -> Place:
        """Return the place of a record, or of all of them; of the file if it cannot be split."""
        with suppress(FormatError):
            if count := len(self._places):
                first, count = (0, count) if record is None else (record, 1)
                piece = self._places.part(first, count)
                return Place(piece.offset, piece.length, self._places.line(first))
        return Place(0, self.whole.length, 1)


def _digest(stream: IO[bytes], offset: int, length: int) -> str:
    digest = hashlib.sha256()
    for block in range_blocks(stream, offset, length):
        digest.update(block)
    return digest.hexdigest()


def _check_digest(part: ChunkPart, sha256: str) -> None:
    if sha256 != part.sha256:
        raise changed_error(part.path, f"SHA-256 {sha256}", part.sha256)
