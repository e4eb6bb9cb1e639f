"""A stream that gives few bytes at a time, as a pipe or a network may."""

import io
from typing import IO, cast


class _Slow(io.RawIOBase):
    def __init__(self, markup: bytes, block_bytes: int) -> None:
        self._rest = io.BytesIO(markup)
        self._block_bytes = block_bytes

    def read(self, size: int = -1) -> bytes:
        return self._rest.read(min(size, self._block_bytes) if size >= 0 else self._block_bytes)


def slow(markup: bytes, block_bytes: int) -> IO[bytes]:
    """Return a stream of `markup` that never gives more than `block_bytes` at once."""
    return cast("IO[bytes]", _Slow(markup, block_bytes))
