"""Streams that tell how much an archive costs before it is paid."""

import errno
import io
from collections.abc import Callable
from typing import IO

import msgspec

from schemas.content import MAX_CONTENT_BYTES
from schemas.errors import RecordError

_BLOCK_BYTES = 1 << 20
_ASKED_TOO_MUCH = (None, errno.EINVAL)  # of what cannot be sought in, or for what is before it


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """What an archive may hold.

    When it is opened, it may have `max_bytes`, or `max_ratio` times its own if that is more: an
    honest archive of text is compressed to a tenth, and only zeros go beyond the 200.
    """

    max_members: int = 100_000
    max_bytes: int = 1 << 30
    max_ratio: int = 200
    max_content_bytes: int = MAX_CONTENT_BYTES


USUAL = Bounds()


class Budget:
    """What may still be decompressed of an archive of `size` bytes."""

    def __init__(self, bounds: Bounds, size: int) -> None:
        self.max_bytes = max(bounds.max_bytes, bounds.max_ratio * size)
        self._max_members = bounds.max_members
        self._max_content_bytes = bounds.max_content_bytes
        self._left = self.max_bytes

    def count(self, members: int) -> None:
        """Raise RecordError for an archive of so many members, if that is too many."""
        if members > self._max_members:
            raise RecordError(
                "archive-too-large",
                f"more than {self._max_members} members; expected at most that",
            )

    def check(self, name: str, size: int) -> None:
        """Raise RecordError for a member that says itself that it is too large."""
        if size > self._max_content_bytes:
            raise self._too_large(name, f"{size} bytes")

    def read(self, name: str, stream: IO[bytes], size: int | None) -> bytes:
        """Return the bytes of a member to the end, which is at `size` if that is known."""
        most = self._max_content_bytes + 1 if size is None else size
        blocks = []
        while most > 0 and (block := stream.read(min(most, _BLOCK_BYTES))):
            blocks.append(block)
            most -= len(block)
            self._left -= len(block)
            if self._left < 0:
                raise _too_much(self.max_bytes)
        if size is None and most == 0:
            raise self._too_large(name, f"more than {self._max_content_bytes} bytes")
        return blocks[0] if len(blocks) == 1 else b"".join(blocks)

    def _too_large(self, name: str, found: str) -> RecordError:
        return RecordError(
            "content-too-large",
            f"{name!r} has {found}; expected at most {self._max_content_bytes} bytes;"
            " raise --max-content-bytes to read it",
        )


class Guarded(io.RawIOBase):
    """A stream whose own trouble cannot be taken for damage of what is read from it."""

    def __init__(self, name: str, stream: IO[bytes]) -> None:
        self._name = name
        self._stream = stream

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._stream.seekable()

    def find_size(self) -> int | None:
        """Return how long it is; None where it cannot be sought in, and so stands where it stood.

        A stream over the network may say that it can, and not know its own end.
        """
        if not self._stream.seekable():
            return None
        try:
            size = self._stream.seek(0, io.SEEK_END)
        except io.UnsupportedOperation:
            return None
        self._stream.seek(0)
        return size

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # any buffer is one
        try:
            block = self._stream.read(len(buffer))
        except OSError as exc:
            raise unreadable(self._name, exc) from exc
        buffer[: len(block)] = block
        return len(block)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        try:
            return self._stream.seek(offset, whence)
        except OSError as exc:
            if exc.errno in _ASKED_TOO_MUCH:
                raise
            raise unreadable(self._name, exc) from exc

    def tell(self) -> int:
        return self._stream.tell()


class Bounded(io.RawIOBase):
    """A stream of which only so much may be taken at a time, and in all.

    `last` is what was read last; as long as a limit is set, `watch` is told of what is read.
    """

    def __init__(self, stream: IO[bytes], max_bytes: int | None = None) -> None:
        self._stream = stream
        self._max_bytes = max_bytes
        self._allowed: int | None = None
        self._most: int | None = None
        self._at = stream.tell()
        self.watch: Callable[[bytes], None] = _ignore
        self.last = b""

    def allow(self, size: int | None) -> None:
        """Set how many bytes may be read from now on; `None` is any number."""
        self._allowed = self._most = size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        if self._allowed is None:
            self.last = self._stream.read(size)
        else:
            self.last = self._next(size, self._allowed)
        self._at += len(self.last)
        self._check_place(self._at)
        return self.last

    def readinto(self, buffer: "memoryview | bytearray", /) -> int:  # type: ignore[override]  # only these are passed
        block = self.read(len(buffer))
        buffer[: len(block)] = block
        return len(block)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_SET:
            self._check_place(offset)
        if whence != io.SEEK_SET or offset != self._at:
            self._at = self._stream.seek(offset, whence)
        return self._at

    def _next(self, size: int, allowed: int) -> bytes:
        if size > allowed:
            raise RecordError(
                "archive-too-large",
                f"a header or directory of {size} bytes; expected at most {self._most}",
            )
        block = self._stream.read(allowed if size < 0 else size)
        self._allowed = allowed - len(block)
        self.watch(block)
        return block

    def _check_place(self, offset: int) -> None:
        if self._max_bytes is not None and offset > self._max_bytes:
            raise _too_much(self._max_bytes)


def _ignore(_block: bytes) -> None:
    return None


def _too_much(max_bytes: int) -> RecordError:
    """Return the trouble with a bomb."""
    return RecordError(
        "archive-too-large",
        f"more than {max_bytes} bytes when it is opened; expected at most that",
    )


def unreadable(name: str, exc: OSError) -> RecordError:
    """Return the trouble with a file that cannot be read."""
    cause = exc.strerror or str(exc) or type(exc).__name__
    return RecordError("unreadable", f"{name!r}: {cause}; expected a file that can be read")
