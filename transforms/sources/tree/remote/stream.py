"""A remote file as a stream: one that ends before its promised length raises, and is never short.

A connection that dies is opened again once, if it can be told that the file is still the same.
"""

import errno
import io
import os
from collections.abc import Callable
from typing import IO, NamedTuple, Protocol, cast

from schemas.span import FileSignature

BUFFER_BYTES = 1 << 20


class Readable(Protocol):
    """What a library gives of a file, from some place in it on."""

    def read(self, size: int, /) -> bytes: ...

    def close(self) -> object: ...


class Body(NamedTuple):
    """A file from an offset on, the `size` of all of it, and which of its versions this is.

    A size of `None` was not promised; an empty version cannot be told from another.
    """

    stream: Readable
    size: int | None
    version: str


Fetch = Callable[[int], Body]
"""Opens a file at an offset; raises OSError, FileNotFoundError and PermissionError among them."""


def open_stream(path: str, fetch: Fetch, *, died: tuple[type[Exception], ...]) -> IO[bytes]:
    """Return the file as a stream that can be sought; `died` is what its library raises."""
    return cast(IO[bytes], io.BufferedReader(_RemoteStream(path, fetch, died), BUFFER_BYTES))


def version_of(stream: IO[bytes]) -> FileSignature | None:
    """Return the signature of a stream that `open_stream` gave, None of any other."""
    raw = getattr(stream, "raw", None)
    return raw.signature if isinstance(raw, _RemoteStream) else None


def gone(path: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def refused(path: str, reason: str = "") -> PermissionError:
    return PermissionError(errno.EACCES, reason or os.strerror(errno.EACCES), path)


def broken(path: str, reason: str) -> OSError:
    return OSError(errno.EIO, reason, path)


class _RemoteStream(io.RawIOBase):
    def __init__(self, path: str, fetch: Fetch, died: tuple[type[Exception], ...]) -> None:
        self._path = path
        self._fetch = fetch
        self._died = died
        self._at = 0
        self._reopened = False
        self._body: Readable | None
        self._body, self._size, self._version = fetch(0)

    @property
    def signature(self) -> FileSignature:
        return FileSignature(size=self._size, version=self._version)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_END and self._size is None:
            raise io.UnsupportedOperation("the end of a file of unknown size")
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size or 0}[whence]
        if base + offset != self._at:
            self._drop()
            self._at = max(0, base + offset)
        return self._at

    def readall(self) -> bytes:
        return b"".join(iter(lambda: self.read(BUFFER_BYTES) or b"", b""))

    def readinto(self, buffer: "memoryview | bytearray", /) -> int:  # type: ignore[override]  # it is given one of these
        block = self._next(len(buffer))
        buffer[: len(block)] = block
        self._at += len(block)
        return len(block)

    def close(self) -> None:
        if not self.closed:
            self._drop()
        super().close()

    def _next(self, size: int) -> bytes:
        if self._size is not None:
            size = min(size, self._size - self._at)
        while size > 0:
            body = self._opened()
            try:
                block = body.read(size)
            except self._died as exc:
                self._reopen(exc)
                continue
            if block or self._size is None:
                return block
            self._reopen(None)
        return b""

    def _opened(self) -> Readable:
        if self._body is None:
            body = self._fetch(self._at)
            if body.version != self._version:
                body.stream.close()
                raise broken(self._path, "changed while it was read")
            self._body = body.stream
        return self._body

    def _reopen(self, cause: Exception | None) -> None:
        """Let the next read open the file again, where it is; raise OSError if that was done."""
        self._drop()
        if self._reopened or not self._version:
            raise self._short() from cause
        self._reopened = True

    def _drop(self) -> None:
        if self._body is not None:
            self._body.close()
        self._body = None

    def _short(self) -> OSError:
        size = "unknown" if self._size is None else self._size
        return broken(self._path, f"the connection ended after {self._at} of {size} bytes")
