"""Streams over bytes of a test: the one that readers get in production, and a slow one."""

import io
from collections.abc import Callable, Iterable
from typing import IO, TypeVar

from feedferry.transforms.sources.files import ByteRangeStream, SpanStream

Item = TypeVar("Item")


def opened(data: bytes) -> SpanStream:
    """Return the bytes as a stream of the class that `open_span` returns."""
    return SpanStream(ByteRangeStream(io.BytesIO(data), "test", len(data)))


def read_both_ways(read: Callable[[IO[bytes]], Iterable[Item]], data: bytes) -> list[Item]:
    """Return what is read of the production stream; assert that a BytesIO reads the same."""
    with opened(data) as stream:
        results = list(read(stream))
    assert list(read(io.BytesIO(data))) == results
    return results


class _SlowStream(io.BytesIO):
    def __init__(self, data: bytes, block_bytes: int) -> None:
        super().__init__(data)
        self._block_bytes = block_bytes

    def read(self, size: int | None = -1, /) -> bytes:
        is_limited = size is not None and size >= 0
        return super().read(min(size or 0, self._block_bytes) if is_limited else self._block_bytes)


def slow(data: bytes, block_bytes: int) -> IO[bytes]:
    """Return a stream that never returns more than `block_bytes` at once, as a pipe may."""
    return _SlowStream(data, block_bytes)
