"""Files as sources: local paths and remote uris, plain or compressed, whole or in spans.

Compression goes by the extension: .gz, .bz2, .xz, .zst. Remote files are read by smart-open.
"""

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

import msgspec
import smart_open
import zstandard

from schemas.errors import FormatError, SourceError
from schemas.span import Span
from transforms.formats import CUTTERS, sniff

COMPRESSED: dict[str, Callable[..., object]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": zstandard.open,
}
SNIFFED_BYTES = 64 << 10
_TORN = (OSError, EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError)


class Stretch(io.RawIOBase):
    """A stretch of a stream as a stream; what goes wrong in reading names the file."""

    def __init__(self, stream: IO[bytes], source: str, length: int | None) -> None:
        self._stream = stream
        self._source = source
        self._left = length
        self.bytes_read = 0

    def read(self, size: int = -1) -> bytes:
        if self._left is not None:
            size = self._left if size < 0 else min(size, self._left)
        try:
            block = self._stream.read(size)
        except _TORN as exc:
            raise _unreadable(self._source, exc) from exc
        if self._left is not None:
            self._left -= len(block)
        self.bytes_read += len(block)
        return block

    def readable(self) -> bool:
        return True


def is_compressed(source: str) -> bool:
    """Whether the file is decompressed while it is read, so that no offset can be sought in it."""
    return Path(source).suffix.lower() in COMPRESSED


@contextmanager
def open_span(span: Span) -> Iterator[Stretch]:
    """Open the bytes of a span; raise SourceError where they cannot be opened or read."""
    try:
        stream = _open(span.source)
    except _TORN as exc:
        raise _unreadable(span.source, exc) from exc
    with stream:
        if span.offset:
            stream.seek(span.offset)
        yield Stretch(stream, span.source, span.length)


def sniff_format(source: str) -> str:
    """Return the name of the format that a file is in; raise FormatError where none is known."""
    with open_span(Span(source=source)) as stream:
        head = b""
        while len(head) < SNIFFED_BYTES and (block := stream.read(SNIFFED_BYTES - len(head))):
            head += block
    found = sniff(head)
    if found is None:
        raise FormatError(f"{source}:1: none of the formats that are known; expected --from FORMAT")
    return found


def cut_file(whole: Span, *, span_bytes: int) -> Iterator[Span]:
    """Yield the spans of a file; one that is compressed, or not longer than that, stays whole."""
    if is_compressed(whole.source) or _is_small(whole.source, span_bytes):
        yield whole
        return
    with open_span(whole) as stream:
        cut = CUTTERS[whole.format]
        for span in cut(cast(IO[bytes], stream), source=whole.source, span_bytes=span_bytes):
            yield msgspec.structs.replace(
                span, source_ordinal=whole.source_ordinal, format=whole.format
            )


def _open(source: str) -> IO[bytes]:
    open_compressed = COMPRESSED.get(Path(source).suffix.lower())
    if "://" in source:
        remote: IO[bytes] = smart_open.open(source, "rb", compression="disable")
        return _decompress(open_compressed, remote)
    local = open(source, "rb", buffering=0)  # noqa: SIM115 - the caller closes it
    return _decompress(open_compressed, cast(IO[bytes], local))


def _decompress(open_compressed: Callable[..., object] | None, stream: IO[bytes]) -> IO[bytes]:
    return cast(IO[bytes], open_compressed(stream, "rb")) if open_compressed else stream


def _is_small(source: str, span_bytes: int) -> bool:
    return "://" not in source and Path(source).stat().st_size <= span_bytes


def _unreadable(source: str, exc: BaseException) -> SourceError:
    cause = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
    return SourceError(f"{source}: {cause or type(exc).__name__}; expected a file that can be read")
