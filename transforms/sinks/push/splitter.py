"""Parts of a chunk: if a chunk is refused or too large, some of its records as one document.

The ends of a part depend only on the bytes of the chunk, so a push that continues finds the same
parts as the one before it.
"""

import hashlib
import io
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import IO

import msgspec

from schemas.account import Chunk
from schemas.errors import FormatError, RecordError, SourceError
from schemas.reject import Place, Reject, reject_bytes
from schemas.span import Span
from transforms.formats import sniff
from transforms.formats.splitter import RecordOffsets
from transforms.formats.xml.scanner import find_url
from transforms.sinks.push.model import ChunkPart
from transforms.storage.atomic import HashingReader

MAX_REJECT_BYTES = 1 << 20
"""How much of a refused record a reject keeps."""

_SNIFFED_BYTES = 64 << 10
_HASHED_BYTES = 1 << 20
_SEARCH_PRECISION = 32
_FIX = "the file was changed; convert again to make the chunk anew"


def whole_chunk(chunk: Chunk, root: Path) -> ChunkPart:
    """Return all of a chunk; raise SourceError if its file is missing or has another size."""
    path = root / chunk.path
    try:
        size = path.stat().st_size
    except OSError as exc:
        raise SourceError(f"{path}: {exc.strerror}; expected the file of a chunk") from exc
    if size != chunk.bytes:
        raise SourceError(
            f"{path}: {size} bytes; expected {chunk.bytes} as in the manifest: {_FIX}"
        )
    return ChunkPart(chunk=chunk, path=path, offset=0, length=chunk.bytes, sha256=chunk.sha256)


class ChunkSplitter:
    """Splits one chunk; its file is scanned once, when that is first needed.

    All methods raise FormatError if the chunk cannot be split because it is no feed or has no
    parts, and SourceError if its file has changed.
    """

    def __init__(self, chunk: Chunk, root: Path) -> None:
        self.whole = whole_chunk(chunk, root)

    def split(self, part: ChunkPart) -> list[ChunkPart]:
        """Return two halves, by bytes; raise ValueError for a part with a single record.

        A part with several feeds is split between two of them.
        """
        first, count = part.first, part.count or len(self._records)
        if count < 2:
            raise ValueError(f"{part.path}: {count} records; expected several to split")
        middle = self._records.middle(first, count)
        halves = [self._part(first, middle - first), self._part(middle, first + count - middle)]
        return _with_digests(part, halves)

    def split_to_fit(self, fits: Callable[[ChunkPart], bool]) -> list[ChunkPart]:
        """Return the chunk in parts that fit, each nearly as long as possible.

        A record that does not fit is a part of its own.
        """
        first, count = 0, len(self._records)
        parts = []
        while first < count:
            parts.append(self._longest(first, count - first, fits))
            first += parts[-1].count
        return _with_digests(self.whole, parts)

    def single(self, part: ChunkPart, record: int) -> ChunkPart:
        """Return one record of a part, counted from 0, to be rejected: it has no digest."""
        count = part.records or len(self._records)
        return part if count < 2 else self._part(part.first + record, 1)

    def reject(self, part: ChunkPart, error: RecordError) -> Reject:
        """Return the reject of a part, usually a single record."""
        place = self._place(part)
        with part.path.open("rb") as stream:
            stream.seek(place.offset)
            data = stream.read(min(place.length, MAX_REJECT_BYTES))
        span = Span(source=part.chunk.path)
        reject = reject_bytes(error, span=span, place=place, data=data, url=find_url(data))
        return msgspec.structs.replace(reject, stage="push")

    @cached_property
    def _records(self) -> RecordOffsets:
        chunk, path = self.whole.chunk, self.whole.path
        try:
            with path.open("rb") as stream:
                format = chunk.format or sniff(stream.read(_SNIFFED_BYTES)) or ""
                stream.seek(0)
                reader = HashingReader(stream)
                records = RecordOffsets(io.BufferedReader(reader), format, source=str(path))
        except OSError as exc:
            raise SourceError(f"{path}: {exc.strerror}; expected the file of a chunk") from exc
        _check_digest(self.whole, reader.digest.hexdigest())
        return records

    def _part(self, first: int, count: int) -> ChunkPart:
        piece = self._records.part(first, count)
        return ChunkPart(
            chunk=self.whole.chunk,
            path=self.whole.path,
            offset=piece.offset,
            length=piece.length,
            head=piece.head,
            tail=piece.tail,
            first=first,
            count=count,
        )

    def _longest(self, first: int, left: int, fits: Callable[[ChunkPart], bool]) -> ChunkPart:
        """Return about the longest part that fits, by bisection: `fits` may read the whole part."""
        part = self._part(first, left)
        if left == 1 or fits(part):
            return part
        longest, too_many, fitting = self._part(first, 1), left, 0
        while too_many - fitting > max(1, too_many // _SEARCH_PRECISION if fitting else 1):
            middle = (fitting + too_many) // 2
            part = self._part(first, middle)
            if fits(part):
                longest, fitting = part, middle
            else:
                too_many = middle
        return longest

    def _place(self, part: ChunkPart) -> Place:
        with suppress(FormatError):
            if count := part.count or len(self._records):
                piece = self._records.part(part.first, count)
                return Place(piece.offset, piece.length, self._records.line(part.first))
        return Place(part.offset, part.length, 1)


def _with_digests(whole: ChunkPart, parts: Sequence[ChunkPart]) -> list[ChunkPart]:
    """Return the parts of a whole, which are in order, with the digests of their ranges.

    One pass computes these and the digest of the whole, so they are those of unchanged bytes.
    """
    total, digested, position = hashlib.sha256(), list[ChunkPart](), whole.offset
    try:
        with whole.path.open("rb") as stream:
            stream.seek(whole.offset)
            for part in parts:
                _hash(stream, part.offset - position, total)
                digest = hashlib.sha256()
                _hash(stream, part.length, total, digest)
                digested.append(msgspec.structs.replace(part, sha256=digest.hexdigest()))
                position = part.offset + part.length
            _hash(stream, whole.offset + whole.length - position, total)
    except OSError as exc:
        raise SourceError(f"{whole.path}: {exc.strerror}; expected the file of a chunk") from exc
    _check_digest(whole, total.hexdigest())
    return digested


def _hash(stream: IO[bytes], length: int, *digests: "hashlib._Hash") -> None:
    while length and (block := stream.read(min(length, _HASHED_BYTES))):
        length -= len(block)
        for digest in digests:
            digest.update(block)


def _check_digest(part: ChunkPart, sha256: str) -> None:
    if sha256 != part.sha256:
        expected = f"{part.sha256} as in the manifest" if part.is_whole else part.sha256
        raise SourceError(f"{part.path}: SHA-256 {sha256}; expected {expected}: {_FIX}")
