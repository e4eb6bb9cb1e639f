"""Read one file completely, in the state of one moment."""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

from msgspec.structs import replace

from schemas.errors import RecordError
from transforms.sources.listing import ListingEntry
from transforms.sources.tree.archives import unreadable

OpenFile = Callable[[str], IO[bytes]]
"""Opens a path or URI; raises OSError if it cannot, FileNotFoundError if the file is gone."""

_BLOCK_BYTES = 1 << 20
_SKIPPED = {
    errno.ENOENT: "vanished",
    errno.ENOTDIR: "vanished",  # a folder above it became a file
    errno.ELOOP: "symlink",  # it became a link
    errno.ENXIO: "no-file",  # it became a socket
}


class SkippedFileError(Exception):
    """A file is filtered, by the rule that has this code."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class TooLargeError(RecordError):
    """A file has more bytes than a document may have; `listed` has its present size."""

    def __init__(self, listed: ListingEntry, max_bytes: int) -> None:
        cure = "raise --max-content-bytes, or use --oversize metadata"
        reason = f"{listed.key!r} has {listed.size} bytes; expected at most {max_bytes} bytes"
        super().__init__("content-too-large", f"{reason}; {cure}")
        self.listed = listed


def open_local(path: str, *, follows_links: bool = False) -> IO[bytes]:
    """Open a local file, without waiting for the other end of a pipe."""
    flags = os.O_NONBLOCK if follows_links else os.O_NONBLOCK | os.O_NOFOLLOW
    return open(path, "rb", opener=lambda name, mode: os.open(name, mode | flags))


def read_content(
    listed: ListingEntry, open_file: OpenFile, max_bytes: int
) -> tuple[ListingEntry, bytes]:
    """Return the bytes of a file, and its line as it is now.

    The stream of a remote file finds out whether the file changes. Raise SkippedFileError,
    TooLargeError or RecordError if the file cannot be a document.
    """
    with translate_errors(listed.key), open_file(listed.path) as stream:
        opened = present_entry(listed, stream)
        now = opened or listed
        if now.size > max_bytes:
            raise TooLargeError(now, max_bytes)
        if opened is None:
            data = read_bytes(stream, max_bytes + 1)
        else:
            data = stream.read(opened.size + 1)  # one call, without a copy
            if len(data) != opened.size or present_entry(listed, stream) != opened:
                raise changed_error(listed.key)
    if not data:
        raise SkippedFileError("empty")
    now = replace(now, size=len(data))
    if now.size > max_bytes:
        raise TooLargeError(now, max_bytes)
    return now, data


@contextmanager
def translate_errors(key: str) -> Iterator[None]:
    """Raise SkippedFileError or RecordError for an OSError."""
    try:
        yield
    except IsADirectoryError as exc:
        raise RecordError("unreadable", f"{key!r} is a folder; expected a file") from exc
    except OSError as exc:
        if code := _SKIPPED.get(exc.errno or 0):
            raise SkippedFileError(code) from exc
        raise unreadable(key, exc) from exc


def present_entry(listed: ListingEntry, stream: IO[bytes]) -> ListingEntry | None:
    """Return a line with the present size and time of its open local file; None for other streams.

    Raise SkippedFileError for a file that is empty, or no regular file.
    """
    try:
        number = stream.fileno()
    except (AttributeError, OSError):  # io.UnsupportedOperation is one
        return None
    status = os.fstat(number)
    if not stat.S_ISREG(status.st_mode):
        raise SkippedFileError("no-file")
    if not status.st_size:
        raise SkippedFileError("empty")
    return replace(listed, size=status.st_size, modified_ns=status.st_mtime_ns)


def read_bytes(stream: IO[bytes], max_bytes: int) -> bytes:
    """Return at most `max_bytes` of a stream."""
    blocks = []
    while max_bytes > 0 and (block := stream.read(min(max_bytes, _BLOCK_BYTES))):
        blocks.append(block)
        max_bytes -= len(block)
    return blocks[0] if len(blocks) == 1 else b"".join(blocks)


def changed_error(key: str) -> RecordError:
    """Return the error for a file that changed while it was read."""
    reason = f"{key!r} was changed while it was read; expected no change; start again"
    return RecordError("changed-while-read", reason)
