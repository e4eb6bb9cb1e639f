"""Remote files as streams that are either read to their end or raise an error.

A stream never ends early without an error, and never joins bytes of two versions of a file. A
connection that ends is opened again once.
"""

import errno
import io
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import IO, Any

from schemas.errors import SourceError
from schemas.span import FileSignature
from transforms.sources.tree.remote.filesystems import (
    RemoteReader,
    connect,
    error_text,
    scheme_of,
    translate_errors,
)

BUFFER_BYTES = 1 << 20
REQUEST_BYTES = 4 << 20
"""Bytes of one range request; a larger file needs several."""

_TIMES = ("LastModified", "mtime", "last_modified", "updated", "Last-Modified")
_VERSIONS = ("ETag", "etag", "generation")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def open_remote(path: str) -> IO[bytes]:
    """Open a remote file; the stream can be sought.

    Raise FileNotFoundError if there is no such file, another OSError if it cannot be opened, and
    SourceError if there is no connection to its server.
    """
    return io.BufferedReader(_RemoteStream(path), BUFFER_BYTES)


def version_of(stream: IO[bytes]) -> FileSignature | None:
    """Return the present signature of a file that `open_remote` opened, None for other streams."""
    raw = getattr(stream, "raw", None)
    return raw.signature() if isinstance(raw, _RemoteStream) else None


def size_of(info: Mapping[str, Any]) -> int | None:
    """Return the size in an info of fsspec, if it is known."""
    size = info.get("size")
    return size if isinstance(size, int) else None


def modified_ns_of(info: Mapping[str, Any]) -> int | None:
    """Return the time of the last change in an info of fsspec, if it is known."""
    value = next((info[name] for name in _TIMES if info.get(name)), None)
    if isinstance(value, str):
        try:
            value = parsedate_to_datetime(value)
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1) * 1000


def version_in(info: Mapping[str, Any]) -> str:
    """Return the version of a file by its server; empty if the server has no versions."""
    value = next((info[name] for name in _VERSIONS if info.get(name)), "")
    return str(value).strip('"')


class _RemoteStream(io.RawIOBase):
    def __init__(self, path: str) -> None:
        self._path = path
        self._position = 0
        self._received = 0
        self._reopened = False
        self._file: RemoteReader | None = None
        try:
            self._signature = self._look()
        except OSError as exc:
            if exc.errno != errno.EIO:
                raise
            self._reopened = True  # the connection may have ended since the last file
            self._signature = self._look()
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

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        size = self._signature.size
        if whence == io.SEEK_END and size is None:
            raise io.UnsupportedOperation("seek from the end of a file of unknown size")
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: size or 0}[whence]
        if base + offset != self._position:
            self._drop()
            self._position = max(0, base + offset)
        return self._position

    def readinto(self, buffer: "memoryview | bytearray", /) -> int:  # type: ignore[override]  # only these are passed
        block = self._next_block(len(buffer))
        buffer[: len(block)] = block
        self._position += len(block)
        self._received += len(block)
        return len(block)

    def close(self) -> None:
        if not self.closed:
            self._drop()
        super().close()

    def _next_block(self, max_bytes: int) -> bytes:
        size = self._signature.size
        if size is not None:
            max_bytes = min(max_bytes, size - self._position)
        while max_bytes > 0:
            try:
                with translate_errors(self._path):
                    file = self._file = self._file or self._open()
                    block = file.read(max_bytes)
            except OSError as exc:
                self._prepare_retry(exc)
                continue
            if block or size is None:
                return block
            self._prepare_retry(None)
        if self._received > REQUEST_BYTES and self._look() != self._signature:
            raise self._error("changed while it was read")
        return b""

    def _look(self) -> FileSignature:
        with translate_errors(self._path):
            filesystem, path = connect(self._path)
            info = filesystem.info(path)
        if info.get("type") == "directory":
            raise IsADirectoryError(errno.EISDIR, "Is a directory", self._path)
        modified_ns = modified_ns_of(info)
        version = f"{version_in(info)} {modified_ns or ''}".strip()
        return FileSignature(size=size_of(info), version=version)

    def _open(self) -> RemoteReader:
        options: dict[str, object] = {"block_size": REQUEST_BYTES}
        scheme = scheme_of(self._path)
        if scheme in ("sftp", "ssh"):
            options["offset"] = self._position
        elif scheme in ("http", "https"):
            options["size"] = self._signature.size
            if not self._position:
                options["block_size"] = 0  # one request, so no byte ranges are needed
        with translate_errors(self._path):
            filesystem, path = connect(self._path)
            file: RemoteReader = filesystem.open(path, "rb", **options)
            if self._position:
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
        if self._look() != self._signature:
            raise self._error("changed while it was read") from cause

    def _drop(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None

    def _error(self, reason: str) -> OSError:
        return OSError(errno.EIO, reason, self._path)
