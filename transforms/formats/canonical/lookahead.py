"""A stream of bytes that can be looked ahead in; it need not be seekable."""

import io
from typing import IO

_READ_BYTES = 1 << 16
_PIECE_BYTES = 1 << 20


class Tape:
    """Bytes taken one after the other; `offset` counts from where the source begins.

    It reads ahead: nobody else may read the stream. A read for a length that nobody can trust
    costs no more memory than there are bytes.
    """

    def __init__(self, stream: IO[bytes], *, offset: int = 0) -> None:
        self.offset = offset
        self._stream = stream
        self._ahead = b""
        self._at = 0
        self._ended = False

    def peek(self, size: int) -> bytes:
        """Return the next `size` bytes and leave them there; fewer only at the end."""
        self._fill(size)
        return self._ahead[self._at : self._at + size]

    def take(self, size: int) -> bytes:
        """Return the next `size` bytes; fewer only at the end."""
        taken = self.peek(size)
        self._pass(len(taken))
        return taken

    def look(self, distance: int, size: int) -> bytes:
        """Return `size` bytes that begin `distance` bytes ahead; fewer only at the end."""
        self._fill(distance + size)
        at = self._at + distance
        return self._ahead[at : at + size]

    def holds(self, mark: bytes) -> bool:
        """Whether `mark` is among the bytes that were read and not taken."""
        return self._ahead.find(mark, self._at) >= 0

    def skip(self, size: int) -> None:
        """Pass over `size` bytes without a look at them, or over the end of a seekable stream."""
        near = min(size, len(self._ahead) - self._at)
        self._pass(near)
        far = size - near
        if far and self._stream.seekable():
            self._stream.seek(far, io.SEEK_CUR)
            self.offset += far
            return
        while far and (piece := self.take(min(far, _PIECE_BYTES))):
            far -= len(piece)

    def take_past(self, mark: bytes, *, keep: int) -> tuple[bytes, int]:
        """Take all up to and with the next `mark`, or up to the end.

        Returns the first `keep` bytes and the number of all.
        """
        begin, kept, found = self.offset, b"", -1
        while found < 0:
            found = self._ahead.find(mark, self._at)
            left = len(self._ahead) - self._at
            if found >= 0:
                size = found + len(mark) - self._at
            else:  # the last bytes may begin the mark
                size = max(0, left - len(mark) + 1)
                self._fill(left + _PIECE_BYTES)
                if len(self._ahead) - self._at == left:
                    found, size = left, left  # the stream has ended
            kept += self._ahead[self._at : self._at + min(size, keep - len(kept))]
            self._pass(size)
        return kept, self.offset - begin

    def _pass(self, size: int) -> None:
        self._at += size
        self.offset += size

    def _fill(self, size: int) -> None:
        missing = size - (len(self._ahead) - self._at)
        if missing <= 0 or self._ended:
            return
        pieces = [self._ahead[self._at :]]
        missing = max(missing, len(pieces[0]) // 4)  # what is copied is paid for by what is read
        while missing > 0:
            piece = self._stream.read(min(max(missing, _READ_BYTES), _PIECE_BYTES))
            if not piece:
                self._ended = True
                break
            pieces.append(piece)
            missing -= len(piece)
        self._ahead, self._at = b"".join(pieces), 0
