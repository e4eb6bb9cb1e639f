"""The stream that readers get in production, over bytes of a test."""

import io
from collections.abc import Callable, Iterable
from typing import IO, TypeVar

from transforms.sources.files import ByteRangeStream, SpanStream

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
