"""Parts of a chunk: if a chunk is refused or too large, some of its records as one document.

The ends of a part depend only on the bytes of the chunk, so a push that continues finds the same
parts as the one before it.
"""

import io
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path

import msgspec

from schemas.account import Chunk
from schemas.errors import FormatError, RecordError, SourceError
from schemas.reject import Place, Reject, reject_bytes
from schemas.span import Span
from transforms.formats import sniff
from transforms.formats.splitter import RecordOffsets, name_in
from transforms.sinks.push.model import ChunkPart
from transforms.storage.hashing_reader import HashingReader

MAX_REJECT_BYTES = 1 << 20
"""How much of a refused record a reject keeps."""

_SNIFFED_BYTES = 64 << 10
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

    All methods raise FormatError if the chunk cannot be split because it is no feed or not in
    UTF-8, and SourceError if its file has changed.
    """

    def __init__(self, chunk: Chunk, root: Path) -> None:
        self.whole = whole_chunk(chunk, root)

    def split(self, part: ChunkPart) -> tuple[ChunkPart, ChunkPart]:
        """Return two halves, by bytes; raise ValueError for a part with a single record.

        A part with several feeds is split between two of them.
        """
        first, count = part.first, part.count or len(self._records)
        if count < 2:
            raise ValueError(f"{part.path}: {count} records; expected several to split")
        middle = self._records.middle(first, count)
        return self._part(first, middle - first), self._part(middle, first + count - middle)

    def split_to_fit(self, fits: Callable[[ChunkPart], bool]) -> Iterator[ChunkPart]:
        """Yield the chunk in parts that fit, each nearly as long as possible.

        A record that does not fit is a part of its own.
        """
        first, count = 0, len(self._records)
        while first < count:
            part = self._longest(first, count - first, fits)
            yield part
            first += part.count

    def single(self, part: ChunkPart, record: int) -> ChunkPart:
        """Return one record of a part, counted from 0."""
        count = part.records or len(self._records)
        return part if count < 2 else self._part(part.first + record, 1)

    def reject(self, part: ChunkPart, error: RecordError) -> Reject:
        """Return the reject of a part, usually a single record."""
        place = self._place(part)
        with part.path.open("rb") as stream:
            stream.seek(place.offset)
            data = stream.read(min(place.length, MAX_REJECT_BYTES))
        span = Span(source=part.chunk.path)
        reject = reject_bytes(error, span=span, place=place, data=data, url=name_in(data))
        return msgspec.structs.replace(reject, stage="push")

    @cached_property
    def _records(self) -> RecordOffsets:
        """Scan the file; parts have no digest of their own, so the whole file is verified."""
        chunk, path = self.whole.chunk, self.whole.path
        try:
            with path.open("rb") as stream:
                format = chunk.format or sniff(stream.read(_SNIFFED_BYTES)) or ""
                stream.seek(0)
                reader = HashingReader(stream)
                records = RecordOffsets(io.BufferedReader(reader), format, source=str(path))
        except OSError as exc:
            raise SourceError(f"{path}: {exc.strerror}; expected the file of a chunk") from exc
        sha256 = reader.digest.hexdigest()
        if sha256 != chunk.sha256:
            raise SourceError(
                f"{path}: SHA-256 {sha256}; expected {chunk.sha256} as in the manifest: {_FIX}"
            )
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
