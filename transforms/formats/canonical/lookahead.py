"""A reader that looks ahead in a stream."""

from typing import IO

_READ_BYTES = 1 << 16
_PIECE_BYTES = 1 << 20


class LookaheadReader:
    """Bytes of a stream in order; `offset` is the position in the source.

    It reads ahead, so it must be the only reader of the stream. Reading a length that the stream
    does not have takes no more memory than the stream has bytes.
    """

    def __init__(self, stream: IO[bytes], *, offset: int = 0) -> None:
        self.offset = offset
        self._stream = stream
        self._ahead = b""
        self._at = 0
        self._ended = False

    def peek(self, size: int) -> bytes:
        """Return the next `size` bytes without taking them; fewer only at the end."""
        return self.look(0, size)

    def look(self, distance: int, size: int) -> bytes:
        """Return `size` bytes that begin `distance` bytes ahead; fewer only at the end."""
        self._fill(distance + size)
        at = self._at + distance
        return self._ahead[at : at + size]

    def take(self, size: int) -> bytes:
        """Return the next `size` bytes; fewer only at the end."""
        taken = self.look(0, size)
        self._advance(len(taken))
        return taken

    def holds(self, mark: bytes) -> bool:
        """Return whether `mark` is in the bytes that are read ahead."""
        return self._ahead.find(mark, self._at) >= 0

    def take_past(self, mark: bytes, *, keep: int) -> tuple[bytes, int]:
        """Take all bytes up to the end of the next `mark`, or to the end of the stream.

        Return the first `keep` bytes and the number of all.
        """
        begin, kept, is_done = self.offset, b"", False
        while not is_done:
            place = self._ahead.find(mark, self._at)
            left = len(self._ahead) - self._at
            if place >= 0:
                size, is_done = place + len(mark) - self._at, True
            else:
                size = max(0, left - len(mark) + 1)  # the last bytes may begin the mark
                self._fill(left + _PIECE_BYTES)
                if len(self._ahead) - self._at == left:  # the stream has ended
                    size, is_done = left, True
            kept += self._ahead[self._at : self._at + min(size, keep - len(kept))]
            self._advance(size)
        return kept, self.offset - begin

    def _advance(self, size: int) -> None:
        self._at += size
        self.offset += size

    def _fill(self, size: int) -> None:
        missing = size - (len(self._ahead) - self._at)
        if missing <= 0 or self._ended:
            return
        pieces = [self._ahead[self._at :]]
        missing = max(missing, len(pieces[0]) // 4)  # so that copying takes linear time
        while missing > 0:
            piece = self._stream.read(min(max(missing, _READ_BYTES), _PIECE_BYTES))
            if not piece:
                self._ended = True
                break
            pieces.append(piece)
            missing -= len(piece)
        self._ahead, self._at = b"".join(pieces), 0
