"""The part of a stream that is being looked at, as UTF-8, and where it stands in the stream."""

from collections.abc import Callable
from typing import IO

from schemas.span import Span
from transforms.formats.xml.encoding import HEAD_BYTES, Transcoded, detect

BLOCK_BYTES = 1 << 20
_GROWTH = 4
"""A large record is read on by a quarter of what is there: less is copied by more, held by less."""


class Window:
    """Bytes of a span: `_data` from `_pos` on is what is not consumed yet.

    `_offset` and `_line` tell where that begins in the stream, in its own encoding.
    """

    def __init__(self, stream: IO[bytes], span: Span) -> None:
        self._span = span
        self._line = span.line
        self._offset = span.offset
        self._consumed = 0
        self._pos = 0
        self._ended = False
        self._begin(stream)

    def original(self, utf8: bytes) -> bytes:
        """Return the stream's own bytes for a stretch of it that was read."""
        return self._transcoded.original(utf8) if self._transcoded else utf8

    @property
    def place(self) -> tuple[int, int]:
        """Offset and line of what is not read yet, between two runs of units."""
        return self._offset, self._line

    @property
    def is_utf8(self) -> bool:
        """Whether offsets can be sought: the stream is read as it is."""
        return self._transcoded is None

    @property
    def doubt(self) -> tuple[str, int] | None:
        """The declared codec and the place of the first text that looks like UTF-8 instead."""
        transcoded = self._transcoded
        if transcoded is None or transcoded.doubt is None or self._span.encoding:
            return None
        return transcoded.codec, transcoded.doubt

    def _begin(self, stream: IO[bytes]) -> None:
        head = _read_head(stream) if self._span.offset == 0 else b""
        codec, mark = detect(head, source=self._span.source, encoding=self._span.encoding)
        self._transcoded = Transcoded(stream, codec, head[mark:]) if codec != "utf-8" else None
        self._read = self._transcoded.read if self._transcoded else stream.read
        self._data = b"" if self._transcoded else head[mark:]
        self._offset += mark

    def _more(self) -> bool:
        """Read on; what was consumed is dropped, so positions are kept relative to `_pos`."""
        if not self._ended:
            self._compact()
            least = len(self._data) // _GROWTH
            block = read_block(self._read, max(BLOCK_BYTES, least), least=least)
            self._ended = not block
            self._data += block
        return not self._ended

    def _compact(self) -> None:
        """Let go of what was consumed."""
        self._data = self._data[self._pos :]
        self._pos = 0

    def _consume(self, length: int) -> None:
        end = self._pos + length
        self._line += self._data.count(b"\n", self._pos, end)
        if self._transcoded:
            self._offset += len(self._transcoded.original(self._data[self._pos : end]))
        else:
            self._offset += length
        self._consumed += length
        self._pos = end


def read_block(read: Callable[[int], bytes], size: int, *, least: int) -> bytes:
    """Return up to `size` bytes of a stream; fewer than `least` only at its end.

    A pipe gives little at once. What is unread is copied with each block, so a block must not be
    small against it.
    """
    pieces = [read(size)]
    length = len(pieces[0])
    while pieces[-1] and length < least:
        pieces.append(read(size))
        length += len(pieces[-1])
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _read_head(stream: IO[bytes]) -> bytes:
    head = b""
    while len(head) < HEAD_BYTES and (block := stream.read(HEAD_BYTES - len(head))):
        head += block
    return head
