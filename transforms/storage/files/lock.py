"""Exclusive locks between processes. No process waits for one that is held for long.

A lock is an flock of a file, so the kernel releases it when the process ends in any way. On NFS it
also excludes processes on other machines, if the mount supports locks.
"""

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Self

from feedferry.schemas.errors import BusyError

_HOLDER_BYTES = 4096


class Lock:
    """An exclusive lock on the file at `path`, which is created if necessary.

    Raises BusyError if another process, or this one, has the lock; its message names the resource
    `where` and the kind of process `by`. Raises OSError if the file cannot be created or its file
    system has no locks.
    """

    def __init__(self, path: Path, *, where: str, by: str) -> None:
        self._path = path
        self._file = _locked(path, where=where, by=by)

    def remove(self) -> None:
        """Remove the file, while the lock is held; other processes notice that."""
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Release the lock."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


@contextmanager
def waiting_lock(path: Path) -> Iterator[None]:
    """Hold the lock on a file during the block, which must be short; wait for other processes."""
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _locked(path: Path, *, where: str, by: str) -> IO[bytes]:
    """Open and lock the file; start again if its last holder has removed it meanwhile."""
    while True:
        file = path.open("a+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(file, path):
                if file.seek(0, os.SEEK_END):  # ext4 writes a truncated file at its close
                    file.truncate(0)
                file.write(f"process {os.getpid()} on {socket.gethostname()}\n".encode())
                file.flush()
                return file
            file.close()
        except BlockingIOError as exc:
            with file:
                file.seek(0)
                process = file.read(_HOLDER_BYTES).decode(errors="replace").strip()
            holder = f"another {by}, {process}" if process else f"another {by}"  # not written yet
            raise BusyError(
                f"{where}: in use by {holder}; start again when that has ended"
            ) from exc
        except BaseException:
            file.close()
            raise


def _is_at(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
