"""A file read whole, as long as it rests; what keeps one from being read, as codes and words."""

import errno
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import IO, NamedTuple, cast

import msgspec

from schemas.errors import RecordError
from transforms.sources.listing import Listed
from transforms.sources.tree.archive_limits import unreadable

Opener = Callable[[str], IO[bytes]]
"""Opens a path or uri; raises OSError where it cannot, FileNotFoundError where it is gone."""

Pause = Callable[[], None]
"""Waits before a file that changed is read once more."""

USUAL_PAUSE: Pause = partial(time.sleep, 0.05)

_BLOCK_BYTES = 1 << 20
_FILTERED = {
    errno.ENOENT: "vanished",
    errno.ENOTDIR: "vanished",  # a folder above it became a file
    errno.ELOOP: "symlink",  # it became one
    errno.ENXIO: "no-file",  # it became a socket
}


class LeftOutError(Exception):
    """A file is not wanted after all, by a rule that has this code."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class TooLargeError(Exception):
    """A file has more bytes than a document may have; `reason` is why it is rejected, if it is."""

    def __init__(self, key: str, state: "State", max_bytes: int) -> None:
        cure = "raise --max-content-bytes, or use --oversize metadata"
        reason = f"{key!r} has {state.size} bytes; expected at most {max_bytes} bytes; {cure}"
        super().__init__(reason)
        self.reason = RecordError("content-too-large", reason)
        self.state = state


class State(NamedTuple):
    """Of what size a file is, and when it was changed last, if that is known."""

    size: int
    modified_ns: int | None


class Whole(NamedTuple):
    """The bytes of a file, and when it was changed last."""

    content: bytes
    modified_ns: int | None


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """How files are opened, how many bytes one may have, and what is done while one changes."""

    open_file: Opener
    max_bytes: int
    pause: Pause = USUAL_PAUSE


def open_local(path: str) -> IO[bytes]:
    """Open a local file that is no symbolic link; it does not wait for the other end of a pipe."""
    return cast(IO[bytes], open(path, "rb", buffering=0, opener=_open_unlinked))


def open_linked(path: str) -> IO[bytes]:
    """Open a local file, or what a symbolic link leads to."""
    return cast(IO[bytes], open(path, "rb", buffering=0, opener=_open_unblocked))


def read_whole(listed: Listed, hold: Hold) -> Whole:
    """Return a file as it is now; raise LeftOutError or RecordError where it cannot be had.

    Where it is changed while it is read, it is read once more.
    """
    with told(listed.key):
        whole, is_whole = _read_once(listed, listed.size, hold)
        if not is_whole:
            hold.pause()
            whole, is_whole = _read_once(listed, len(whole.content), hold)
    if not is_whole:
        raise changed(listed.key)
    return whole


@contextmanager
def told(key: str) -> Iterator[None]:
    """Say why a file cannot be read as LeftOutError or RecordError."""
    try:
        yield
    except IsADirectoryError as exc:
        raise RecordError("unreadable", f"{key!r} is a folder; expected a file") from exc
    except OSError as exc:
        if code := _FILTERED.get(exc.errno or 0):
            raise LeftOutError(code) from exc
        raise unreadable(key, exc) from exc


def state_of(stream: IO[bytes]) -> State | None:
    """Return the state of an open file; None of what is not local.

    Raises LeftOutError for what is no file, and for what is empty.
    """
    try:
        number = stream.fileno()
    except (AttributeError, OSError):  # io.UnsupportedOperation is one
        return None
    status = os.fstat(number)
    if not stat.S_ISREG(status.st_mode):
        raise LeftOutError("no-file")
    if not status.st_size:
        raise LeftOutError("empty")
    return State(status.st_size, status.st_mtime_ns)


def changed(key: str) -> RecordError:
    """Return the trouble with a file that does not rest."""
    reason = f"{key!r} was changed while it was read; expected it to rest"
    return RecordError("changed-while-read", reason)


def _open_unlinked(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)


def _open_unblocked(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def _read_once(listed: Listed, expected: int, hold: Hold) -> tuple[Whole, bool]:
    """What was read, and whether that is all of it and of one time.

    Of what is not local, that shows only by its size: the one that was listed, or of a moment ago.
    """
    with hold.open_file(listed.path) as stream:
        before = state_of(stream)
        size = expected if before is None else before.size
        if size > hold.max_bytes:
            modified_ns = listed.modified_ns if before is None else before.modified_ns
            raise TooLargeError(listed.key, State(size, modified_ns), hold.max_bytes)
        if before is not None:
            content = _up_to(stream, size + 1)
            is_whole = len(content) == size and state_of(stream) == before
            return Whole(content, before.modified_ns), is_whole
        content = _up_to(stream, hold.max_bytes + 1, _BLOCK_BYTES)
    if not content:
        raise LeftOutError("empty")
    if len(content) > hold.max_bytes:
        state = State(len(content), listed.modified_ns)
        raise TooLargeError(listed.key, state, hold.max_bytes)
    return Whole(content, listed.modified_ns), len(content) == expected or not expected


def _up_to(stream: IO[bytes], most: int, at_once: int | None = None) -> bytes:
    """So many bytes, or those to the end; of a local file by one call, without a copy."""
    blocks = []
    while most > 0 and (block := stream.read(min(most, at_once or most))):
        blocks.append(block)
        most -= len(block)
    return blocks[0] if len(blocks) == 1 else b"".join(blocks)
