"""A stream that is hashed while it is read."""

import hashlib
import io
from typing import IO

_BLOCK_BYTES = 1 << 20


class HashingReader(io.RawIOBase):
    """Counts the bytes that are read, and computes their SHA-256.

    A buffered reader around it reads ahead, so both are complete only at the end of the stream.
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
