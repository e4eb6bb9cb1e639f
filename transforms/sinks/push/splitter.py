"""Parts of a chunk: where a chunk is refused or too large, some of its records as one document.

Where a part ends depends on the bytes of the chunk alone, so that a push that goes on finds the
same parts as the one before it.
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
from transforms.sinks.push.outcome import count_of
from transforms.storage.hashing_reader import Digested

KEPT_BYTES = 1 << 20
"""How much of a refused record is kept."""

_SNIFFED_BYTES = 64 << 10
_PRECISION = 32


def whole(chunk: Chunk, root: Path) -> ChunkPart:
    """Return all of a chunk; raise SourceError where its file is not the one of its manifest."""
    path = root / chunk.path
    try:
        found = path.stat().st_size
    except OSError as exc:
        raise SourceError(f"{path}: {exc.strerror}; expected the file of a chunk") from exc
    if found != chunk.bytes:
        raise SourceError(
            f"{path}: {found} bytes; expected {chunk.bytes}, as its manifest says: the file was "
            "changed, make the chunk again"
        )
    return ChunkPart(chunk=chunk, path=path, offset=0, length=chunk.bytes, sha256=chunk.sha256)


class ChunkSplitter:
    """Cuts one chunk; its file is looked through once, when that is needed for the first time.

    All that asks for less than the whole raises FormatError where the chunk cannot be cut: it is
    no feed, or not in UTF-8; and SourceError where its file is not the one of its manifest.
    """

    def __init__(self, chunk: Chunk, root: Path) -> None:
        self.whole = whole(chunk, root)

    def split(self, part: ChunkPart) -> tuple[ChunkPart, ChunkPart]:
        """Return two halves, in bytes; raise ValueError for a part of a single record.

        A part with several feeds, one behind the other, is split between two of them.
        """
        first, count = part.first, part.count or len(self._offsets)
        if count < 2:
            raise ValueError(f"{part.path}: {count} records; expected several to split")
        middle = self._offsets.middle(first, count)
        return self._part(first, middle - first), self._part(middle, first + count - middle)

    def fitting(self, fits: Callable[[ChunkPart], bool]) -> Iterator[ChunkPart]:
        """Yield the chunk as runs of records that fit, each nearly as long as it can be.

        A record that does not even fit alone comes alone.
        """
        first, count = 0, len(self._offsets)
        while first < count:
            part = self._longest(first, count - first, fits)
            yield part
            first += part.count

    def single(self, part: ChunkPart, record: int) -> ChunkPart:
        """Return one record of a part, by its place in it from 0."""
        count = part.count or count_of(part.chunk) or len(self._offsets)
        return part if count < 2 else self._part(part.first + record, 1)

    def reject(self, part: ChunkPart, exc: RecordError) -> Reject:
        """Return the reject of a part, above all of a single record, at its place in the chunk."""
        place = self._place(part)
        with part.path.open("rb") as stream:
            stream.seek(place.offset)
            text = stream.read(min(place.length, KEPT_BYTES))
        span = Span(source=part.chunk.path)
        reject = reject_bytes(exc, span=span, place=place, data=text, url=name_in(text))
        return msgspec.structs.replace(reject, stage="push")

    @cached_property
    def _offsets(self) -> RecordOffsets:
        path = self.whole.path
        try:
            with path.open("rb") as stream:
                format = self.whole.chunk.format or sniff(stream.read(_SNIFFED_BYTES)) or ""
                stream.seek(0)
                digested = Digested(stream)
                found = RecordOffsets(io.BufferedReader(digested), format, source=str(path))
        except OSError as exc:
            raise SourceError(f"{path}: {exc.strerror}; expected the file of a chunk") from exc
        self._require(digested.digest.hexdigest())
        return found

    def _require(self, sha256: str) -> None:
        """A part has no digest of its own, so the file is looked at before it is cut."""
        chunk = self.whole.chunk
        if sha256 != chunk.sha256:
            raise SourceError(
                f"{self.whole.path}: a SHA-256 of {sha256}; expected {chunk.sha256}, as its "
                "manifest says: the file was changed, make the chunk again"
            )

    def _part(self, first: int, count: int) -> ChunkPart:
        piece = self._offsets.part(first, count)
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
        """Return about the longest part that fits; to ask may mean to read all of it."""
        part = self._part(first, left)
        if left == 1 or fits(part):
            return part
        fitting, most, least = self._part(first, 1), left, 0
        while most - least > max(1, most // _PRECISION if least else 1):
            middle = (least + most) // 2
            part = self._part(first, middle)
            if fits(part):
                fitting, least = part, middle
            else:
                most = middle
        return fitting

    def _place(self, part: ChunkPart) -> Place:
        """Where its records stand; what cannot be cut stands as it is."""
        with suppress(FormatError):
            if count := part.count or len(self._offsets):
                piece = self._offsets.part(part.first, count)
                return Place(piece.offset, piece.length, self._offsets.line(part.first))
        return Place(part.offset, part.length, 1)
