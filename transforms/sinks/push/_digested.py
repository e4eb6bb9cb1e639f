"""A stream that is digested while it is read."""

import hashlib
from typing import IO


class Digested:
    """Counts the bytes that were read, and their SHA-256."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.digest = hashlib.sha256()
        self.bytes = 0

    def read(self, size: int) -> bytes:
        block = self._stream.read(size)
        self.digest.update(block)
        self.bytes += len(block)
        return block
