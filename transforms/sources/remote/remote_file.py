"""Remote files as streams.

A stream is either read to its end or raises an error: it never ends early without one, and never
joins bytes of two versions of a file. A connection that ends is opened again once, at the beginning
and in the middle of a file.
"""

import errno
import io
from typing import IO

from feedferry.schemas.errors import SourceError
from feedferry.schemas.span import FileSignature
from feedferry.transforms.sources.remote.file_systems import (
    again,
    connect,
    error_text,
    read_info,
    translate_errors,
)
from feedferry.transforms.sources.remote.uris import SFTP, known_scheme, locate_object, scheme_of
from feedferry.transforms.storage.files.block_stream import RemoteStream
from feedferry.transforms.storage.storage import is_object

BUFFER_BYTES = 1 << 20
REQUEST_BYTES = 4 << 20
"""Bytes of one range request; a larger file needs several."""


def open_remote(path: str, offset: int = 0) -> IO[bytes]:
    """Open a remote file at an offset; the stream can be sought.

    Raise FileNotFoundError if there is no such file, another OSError if it cannot be opened, and
    SourceError if there is no connection to its server.
    """
    if is_object(path):
        from feedferry.transforms.storage.objects.object_stream import ObjectStream

        stream: RemoteStream = ObjectStream(*locate_object(path), offset, uri=path)
    else:
        stream = _FileStream(path)
        stream.seek(offset)
    return io.BufferedReader(stream, BUFFER_BYTES)


def version_of(stream: IO[bytes]) -> FileSignature | None:
    """Return the present signature of a file that `open_remote` opened, None for other streams."""
    raw = getattr(stream, "raw", None)
    return raw.signature() if isinstance(raw, RemoteStream) else None


class _FileStream(RemoteStream):
    """A file of SFTP or the web."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._position = 0
        self._received = 0
        self._reopened = False
        self._file: IO[bytes] | None = None
        self._signature = again(self._look)
        self._file = self._open()

    def signature(self) -> FileSignature:
        """Return the signature of the file as it is now; raise SourceError if it is removed."""
        if not self._received and not self._position:
            return self._signature
        try:
            return self._look()
        except OSError as exc:
            raise SourceError(
                f"{self._path}: {error_text(exc)} after it was opened; expected it to stay as it is"
            ) from exc

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        size = self._signature.size
        if whence == io.SEEK_END and size is None:
            raise io.UnsupportedOperation("seek from the end of a file of unknown size")
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: size or 0}[whence]
        if base + offset != self._position:
            self._drop()
            self._position = max(0, base + offset)
        return self._position

    def read_block(self, max_bytes: int) -> bytes:
        block = self._next_block(max_bytes)
        self._position += len(block)
        self._received += len(block)
        return block

    def close(self) -> None:
        if not self.closed:
            self._drop()
        super().close()

    def _next_block(self, max_bytes: int) -> bytes:
        size = self._signature.size
        if size is not None:
            max_bytes = min(max_bytes, size - self._position)
        while max_bytes > 0:
            cause = None
            try:
                with translate_errors(self._path):
                    file = self._file = self._file or self._open()
                    block = file.read(max_bytes)
                if block or size is None:
                    return block
            except OSError as exc:
                cause = exc
            self._prepare_retry(cause)
        if self._received > REQUEST_BYTES and self._look() != self._signature:
            raise self._error("changed while it was read")
        return b""

    def _look(self) -> FileSignature:
        with translate_errors(self._path):
            filesystem, path = connect(self._path)
            info = filesystem.info(path)
        if info.get("type") == "directory":
            raise IsADirectoryError(errno.EISDIR, "Is a directory", self._path)
        stated = read_info(info)
        version = f"{stated.version} {stated.modified_ns or ''}".strip()
        return FileSignature(size=stated.size, version=version)

    def _open(self) -> IO[bytes]:
        scheme, at_begin = scheme_of(self._path), not self._position
        options: dict[str, object] = {"block_size": REQUEST_BYTES}
        if scheme in ("sftp", "ssh"):
            options["offset"] = self._position
        elif scheme in ("http", "https"):
            options["size"] = self._signature.size
            if at_begin:
                options["block_size"] = 0  # one request, so no byte ranges are needed
        with translate_errors(self._path):
            filesystem, path = connect(self._path)
            file: IO[bytes] = filesystem.open(path, "rb", **options)
            if not at_begin:
                file.seek(self._position)
        return file

    def _prepare_retry(self, cause: OSError | None) -> None:
        """Let the next read open the file again; raise OSError if that was done before."""
        self._drop()
        if isinstance(cause, FileNotFoundError | PermissionError):
            raise cause
        if self._reopened or not self._signature.version:
            size = self._signature.size
            shown = "unknown" if size is None else size
            ended = f"the connection ended after {self._position} of {shown} bytes"
            raise self._error(ended) from cause
        self._reopened = True
        if known_scheme(self._path) is SFTP:  # the session may be broken; other schemes have none
            connect(self._path)[0].client.close()
        if self._look() != self._signature:
            raise self._error("changed while it was read") from cause

    def _drop(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None

    def _error(self, reason: str) -> OSError:
        return OSError(errno.EIO, reason, self._path)
