"""Reading of streams in blocks and in lines."""

from collections.abc import Callable, Iterator
from typing import IO, NamedTuple

from feedferry.schemas.span import Span

PIECE_BYTES = 1 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Line(NamedTuple):
    """A line with its end, or the first bytes of a longer line; `length` counts all its bytes."""

    text: bytes
    number: int
    offset: int
    length: int

    @property
    def end(self) -> int:
        """The offset after the line."""
        return self.offset + self.length


def read_block(read: Callable[[int], bytes], size: int, *, least: int) -> bytes:
    """Return up to `size` bytes of a stream; fewer than `least` only at its end.

    A pipe returns few bytes per call. A caller that appends each block to its buffer copies the
    buffer each time, so blocks must not be small compared with the buffer.
    """
    pieces = [read(size)]
    length = len(pieces[0])
    while pieces[-1] and length < least:
        pieces.append(read(size))
        length += len(pieces[-1])
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def read_lines(stream: IO[bytes], span: Span, *, max_bytes: int) -> Iterator[Line]:
    """Yield the lines of a span, of each at most `max_bytes`, without a byte order mark.

    A span with a grid ends before the first line at or after the next multiple of its grid.
    """
    number, offset, stop = span.line, span.offset, span.stop_after(span.offset)
    while offset < stop and (text := stream.readline(max_bytes)):
        length = len(text) if text.endswith(b"\n") else len(text) + skip_line(stream)
        kept = text.removeprefix(_BYTE_ORDER_MARK) if offset == 0 else text
        mark_bytes = len(text) - len(kept)
        yield Line(kept, number, offset + mark_bytes, length - mark_bytes)
        number, offset = number + 1, offset + length


def skip_line(stream: IO[bytes]) -> int:
    """Skip the rest of a line; return how many bytes it has."""
    skipped = 0
    while piece := stream.readline(PIECE_BYTES):
        skipped += len(piece)
        if piece.endswith(b"\n"):
            break
    return skipped
