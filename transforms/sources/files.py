"""Files as sources: local paths and URIs, plain or compressed, whole or in spans.

Compression is recognised by the extension: .gz, .bz2, .xz, .zst. Files are decompressed by
smart-open.

A run reads a file more than once: to find its format, to split it, and once for each span. A file
that changes meanwhile would yield records of two versions. So a signature is taken when the run
begins, is a part of each span, and is compared before and after the span is read.
"""

import errno
import gzip
import io
import logging
import lzma
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import msgspec

from feedferry.schemas.errors import (
    FormatError,
    RecordError,
    SourceError,
    UnknownFormatError,
    UnreadableError,
)
from feedferry.schemas.reject import TORN_COMPRESSION, UNREADABLE
from feedferry.schemas.span import FileSignature, Span
from feedferry.transforms.formats import (
    FORMATS,
    Format,
    binary_look_of,
    find_format,
    look_of,
    sniff,
)
from feedferry.transforms.formats.base import ReadOptions
from feedferry.transforms.sources.remote import error_text, open_remote, version_of
from feedferry.transforms.storage.files.block_stream import BlockStream

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdError
else:
    from backports.zstd import ZstdError

SNIFFED_BYTES = 64 << 10
BUFFER_BYTES = 1 << 17
"""The size of the read-ahead buffer; larger reads are not copied through it."""
_BLOCK_BYTES = 1 << 20
_SECOND = 1_000_000_000
_log = logging.getLogger(__name__)
_COMPRESSIONS = frozenset({".gz", ".bz2", ".xz", ".zst"})
_UNREACHABLE = (NotImplementedError, ImportError, ValueError)
_TORN = (OSError, EOFError, zlib.error, lzma.LZMAError, ZstdError)

_FILE_FAULTS = frozenset(
    {
        *(errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP),
        *(errno.EIO, errno.ENXIO, errno.ESTALE, errno.ENAMETOOLONG, errno.EINVAL),
    }
)
"""Errors of one file: other files in the same place may be readable."""


class ByteRangeStream(BlockStream):
    """The bytes of one span, unbuffered; errors name the file.

    With `is_partial` the stream ends where its file cannot be read or decompressed any further, and
    `fault` is the reason; otherwise UnreadableError is raised. A span of known length that ends
    early raises SourceError: the file has become shorter since it was split.
    """

    def __init__(
        self,
        stream: IO[bytes] | io.RawIOBase,
        source: str,
        length: int | None,
        *,
        path: str = "",
        is_partial: bool = False,
    ) -> None:
        self._is_partial = is_partial
        self._source = source
        self._path = path or source
        self._left = length
        self._read: Callable[[int], bytes] = stream.read
        if is_compressed(self._path):  # `read` would lose the bytes before an error
            self._read = getattr(stream, "read1", self._read)
        self.bytes_read = 0
        self.fault: RecordError | None = None

    def read_block(self, max_bytes: int) -> bytes:
        size = min(max_bytes, _BLOCK_BYTES)
        if self._left is not None:
            size = min(size, self._left)
        block = self._take(size)
        if self._left is not None:
            if size and not block and self.fault is None:
                raise SourceError(
                    f"{self._source}: ends {self._left:,} bytes before the end of a span that was"
                    " cut from it; expected it to stay as it is; start again when nothing writes to"
                    " it any more"
                )
            self._left -= len(block)
        self.bytes_read += len(block)
        return block

    def _take(self, size: int) -> bytes:
        """Return at most `size` bytes; none at the end and after a fault."""
        if self.fault is not None:
            return b""
        try:
            return self._read(size)
        except _TORN as exc:
            fault = _fault_of(self._path, exc)
            if fault is None:
                raise _unreadable(self._source, exc) from exc
            if not self._is_partial:
                raise UnreadableError(self._source, fault.code, fault.reason) from exc
            self.fault = fault
            return b""


class SpanStream(io.BufferedReader):
    """The stream that readers get: the bytes of one span, buffered.

    `signature` is that of the file when it was opened, None if it has none. `compressed` is the
    open file if it is decompressed.
    """

    def __init__(
        self,
        span: ByteRangeStream,
        signature: FileSignature | None = None,
        *,
        compressed: IO[bytes] | None = None,
    ) -> None:
        super().__init__(span, BUFFER_BYTES)
        self._span = span
        self._compressed = compressed
        self.signature = signature

    @property
    def bytes_read(self) -> int:
        """The number of bytes read from the file so far, including those in the buffer."""
        return self._span.bytes_read

    def end_at(self, length: int) -> None:
        """Count only the first `length` bytes as read: the others are those of the next span."""
        self._span.bytes_read = length

    @property
    def stored_bytes_read(self) -> int:
        """The same before decompression."""
        return self._compressed.tell() if self._compressed else self.bytes_read

    @property
    def fault(self) -> RecordError | None:
        """The reason why the file cannot be read any further, with `is_partial`."""
        return self._span.fault


def is_compressed(source: str) -> bool:
    """Whether the file is decompressed while it is read, so that it cannot be split."""
    return Path(source).suffix.lower() in _COMPRESSIONS


@contextmanager
def open_span(span: Span, *, is_partial: bool = False) -> Iterator[SpanStream]:
    """Open the bytes of a span; raise SourceError if they cannot be opened or read.

    The error is UnreadableError if only this file is at fault, and not its disk or server. With
    `is_partial`, the bytes end where they cannot be read any further. SourceError is also raised at
    the end if the file has changed since the span was made.
    """
    path = span.path or span.source
    with ExitStack() as opened:
        try:
            offset = 0 if is_compressed(path) else span.offset
            file = opened.enter_context(open_file(path, buffering=0, offset=offset))
            stream: IO[bytes] | io.RawIOBase = file
            if is_compressed(path):
                stream = decompress(file, Path(path).suffix.lower())
                opened.callback(stream.close)
        except (*_TORN, *_UNREACHABLE) as exc:
            _require_present(span, exc)
            if fault := _fault_of(path, exc):
                raise UnreadableError(span.source, fault.code, fault.reason) from exc
            raise _unreadable(span.source, exc) from exc
        _require_unchanged(span, file)
        if span.offset:
            stream.seek(span.offset)
        _log.debug("%s: opened at byte %d", span.source, span.offset)
        length = None if span.grid else span.length
        part = ByteRangeStream(stream, span.source, length, path=path, is_partial=is_partial)
        try:
            compressed = file if is_compressed(path) else None
            signature = _sign_stream(file)
            yield opened.enter_context(SpanStream(part, signature, compressed=compressed))
        except (FormatError, SourceError):
            _require_unchanged(span, file)  # the better explanation
            raise
        _require_unchanged(span, file)


def open_file(
    path: str, *, follows_links: bool = True, buffering: int = -1, offset: int = 0
) -> IO[bytes]:
    """Open a local file or a URI, without waiting for the other end of a pipe.

    Only a URI is opened at the offset. Raise FileNotFoundError if it is gone, another OSError if it
    cannot be opened.
    """
    if "://" in path:
        return open_remote(path, offset)
    flags = local_flags(follows_links)
    return open(path, "rb", buffering, opener=lambda name, mode: os.open(name, mode | flags))


def local_flags(follows_links: bool) -> int:
    """Return the flags that open a local file without waiting for the other end of a pipe."""
    return os.O_NONBLOCK if follows_links else os.O_NONBLOCK | os.O_NOFOLLOW


def sign_path(path: str) -> FileSignature | None:
    """Return the signature of a local file; None for a pipe, a remote file or a missing file."""
    try:
        return None if "://" in path else _sign(Path(path).stat())
    except OSError:  # the error is reported when it is opened
        return None


def sniff_format(span: Span) -> str:
    """Return the name of the format of a file; raise UnknownFormatError if it has none.

    Raise UnreadableError if too little of the file can be read to recognise the format.
    """
    with open_span(span, is_partial=True) as stream:
        head, fault = stream.read(SNIFFED_BYTES), stream.fault
    name = sniff(head, source=span.source, encoding=span.encoding)
    if name is None and fault is not None:
        raise UnreadableError(span.source, fault.code, fault.reason)
    if name is None:
        names = ", ".join(format_.name for format_ in FORMATS if format_.is_read)
        raise UnknownFormatError(
            f"⟦inputs⟧: {span.source!r} looks like {look_of(head)}; expected one of the formats"
            f" {names}; convert ⟦from_format files⟧ takes any file as a document"
        )
    return name


def refuse_binary(span: Span, stream: IO[bytes]) -> None:
    """Raise UnknownFormatError for a file that begins with the mark of another type."""
    look = binary_look_of(stream.read(SNIFFED_BYTES))
    if look is not None:
        raise UnknownFormatError(
            f"⟦inputs⟧: {span.source!r} looks like {look}; expected another ⟦from_format⟧: files"
            " takes any file as a document"
        )


def cut_file(
    whole: Span, *, span_bytes: int, options: ReadOptions = ReadOptions()
) -> Iterator[Span]:
    """Yield the spans of a file; a compressed file, or one of at most `span_bytes`, has one span.

    So have a group of small files, a part of a file, and a source that is no file of records. A
    file with a given encoding is not split either: splitters use the declared encoding.
    """
    format_ = _split_format(whole, span_bytes)
    if format_ is None:
        yield whole
        return
    with open_span(whole) as stream:
        whole = _signed(whole, stream)
        split = format_.split(stream, source=whole.source, span_bytes=span_bytes, options=options)
        for span in split:
            yield msgspec.structs.replace(
                span,
                path=whole.path,
                source_ordinal=whole.source_ordinal,
                format=whole.format,
                feed=whole.feed,
                signature=whole.signature,
                is_only=whole.is_only,
            )


def begin_file(
    whole: Span, *, span_bytes: int, options: ReadOptions = ReadOptions()
) -> Iterator[Span]:
    """Yield the spans of a file without scanning it; if its format has a grid, only the first.

    The end of each span of a grid is only known when it is read: it is the begin of the next.
    """
    format_ = _split_format(whole, span_bytes)
    if format_ is None or format_.borders is None:
        yield from cut_file(whole, span_bytes=span_bytes, options=options)
        return
    if whole.signature is None:
        with open_span(whole) as stream:
            whole = _signed(whole, stream)
    yield msgspec.structs.replace(whole, grid=span_bytes)


def _split_format(whole: Span, span_bytes: int) -> Format | None:
    """Return the format of a file that may have several spans."""
    path = whole.path or whole.source
    if whole.offset or whole.length is not None or whole.members or whole.encoding:
        return None
    format_ = find_format(whole.format)
    if format_ is None or is_compressed(path):
        return None
    listed = whole.signature.size if whole.signature else None
    size = listed if "://" in path else os.stat(path).st_size
    return format_ if size is None or size > span_bytes else None


def _signed(whole: Span, stream: SpanStream) -> Span:
    return msgspec.structs.replace(whole, signature=whole.signature or stream.signature)


def decompress(stream: IO[bytes], extension: str) -> IO[bytes] | io.RawIOBase:
    """Return the decompressed bytes of a file; the extension names the compression.

    smart-open puts a buffer around the decompressor. A buffer loses the bytes before damaged data,
    so the decompressor itself is returned; its `read1` does not.
    """
    from smart_open.compression import compression_wrapper  # takes half a second to import

    buffered = compression_wrapper(stream, "rb", extension)
    return buffered.detach() if isinstance(buffered, io.BufferedReader) else buffered


def _fault_of(path: str, exc: BaseException) -> RecordError | None:
    """Return why one file cannot be read; None if its disk or its server is at fault.

    A server that does not respond may respond later, so a connection error is no fault of the file.
    """
    is_local = "://" not in path
    has_cause = isinstance(exc, OSError) and not isinstance(exc, gzip.BadGzipFile)
    if isinstance(exc, OSError) and exc.errno is not None:
        if not is_local or exc.errno not in _FILE_FAULTS:
            return None
        return RecordError(UNREADABLE, f"{exc.strerror}; expected a file that can be read")
    if not is_compressed(path) or not isinstance(exc, _TORN) or (has_cause and not is_local):
        return None
    cause = str(exc) or type(exc).__name__
    return RecordError(TORN_COMPRESSION, f"{cause}; expected a file that can be read")


def _unreadable(source: str, exc: BaseException) -> SourceError:
    return SourceError(f"{source}: {error_text(exc)}; expected a file that can be read")


def _sign_stream(stream: IO[bytes]) -> FileSignature | None:
    """Return the present signature of an open file; None if it has no signature."""
    try:
        number = stream.fileno()
    except (AttributeError, OSError):  # it is not local
        return version_of(stream)
    return _sign(os.fstat(number))


def _require_unchanged(span: Span, stream: IO[bytes]) -> None:
    """Raise SourceError if an open file is not the one that the span was cut from."""
    if span.signature is None:
        return
    now = _sign_stream(stream)
    if now is not None and not _is_compatible(span.signature, now):
        raise SourceError(
            f"{span.source}: changed while it was converted: it had {_describe(span.signature)},"
            f" and has {_describe(now)} now; expected it to stay as it is; start again"
            " when nothing writes to it any more, and all of it is converted"
        )


def _require_present(span: Span, exc: BaseException) -> None:
    """Raise SourceError if opening a file failed because it was removed during the run.

    A signature without a time belongs to a file that this run has not opened yet.
    """
    if span.signature is None or span.signature.modified_ns is None:
        return
    if isinstance(exc, FileNotFoundError):
        raise SourceError(
            f"{span.source}: removed while it was converted: it had {_describe(span.signature)};"
            " expected it to stay as it is; start again when it is there, and all of it is"
            " converted"
        ) from exc


def _sign(status: os.stat_result) -> FileSignature | None:
    if not stat.S_ISREG(status.st_mode):
        return None
    return FileSignature(size=status.st_size, modified_ns=status.st_mtime_ns)


def _is_compatible(before: FileSignature, now: FileSignature) -> bool:
    if before.size != now.size:
        return False
    if before.version and now.version and before.version != now.version:
        return False
    return _is_compatible_time(before.modified_ns, now.modified_ns)


def _is_compatible_time(before: int | None, now: int | None) -> bool:
    """Compare times; file systems such as NFS may round a time to seconds after a while."""
    if before is None or now is None or before == now:
        return True
    is_rounded = before % _SECOND == 0 or now % _SECOND == 0
    return is_rounded and before // _SECOND == now // _SECOND


def _describe(signature: FileSignature) -> str:
    size = "an unknown size" if signature.size is None else f"{signature.size:,} bytes"
    if signature.modified_ns is None:
        return size
    try:
        modified = datetime.fromtimestamp(signature.modified_ns / _SECOND, UTC).isoformat(" ")
    except (ValueError, OverflowError, OSError):  # a year that datetime cannot hold
        modified = f"{signature.modified_ns} ns"
    return f"{size} of {modified}"
