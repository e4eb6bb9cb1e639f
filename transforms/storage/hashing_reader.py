"""A stream that is digested while it is read."""

import hashlib
import io
from typing import IO

_BLOCK_BYTES = 1 << 20


class Digested(io.RawIOBase):
    """Counts the bytes that were read, and computes their SHA-256.

    A buffer around it reads ahead, so both are only known when the stream was read to its end.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.digest = hashlib.sha256()
        self.bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview | bytearray", /) -> int:  # type: ignore[override]  # only these are passed
        block = self._stream.read(min(len(buffer), _BLOCK_BYTES))
        buffer[: len(block)] = block
        self.digest.update(block)
        self.bytes += len(block)
        return len(block)
