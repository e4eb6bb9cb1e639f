"""What a run locks: its folder, its state, and the pushes whose files it is about to remove.

A second run on any of them is refused at once. The locks end with the process, however it ends.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from schemas.errors import ConfigError, FatalError
from transforms.storage.lock import Lock

WORK = ".work"
"""Folder inside the output folder where the files of an unfinished run are, to be resumed."""

PUSHES = "push"
"""Folder in that of a run where receipts are, in a folder for each appliance."""

LOCK = "lock"
"""The file that is locked, in the folder of an unfinished run and in that of a push."""

_TRIES = 100


@contextmanager
def locked_output(output: Path) -> Iterator[None]:
    """Lock the folder of a run. Folders that are made for that are removed if they stay empty.

    Raises BusyError if another run has it, ConfigError if it cannot be written to.
    """
    work = output / WORK
    missing = [folder for folder in (work, *work.parents) if not folder.exists()]
    try:
        lock = _lock_in(work, where=f"-o {output}")
    except OSError as exc:
        raise ConfigError(f"-o {output}: {exc.strerror}; expected a folder to write in") from exc
    with lock:
        try:
            yield
        finally:
            lock.remove()
            with suppress(OSError):  # it is not empty
                for folder in missing or [work]:
                    folder.rmdir()


@contextmanager
def locked_state(path: Path) -> Iterator[None]:
    """Lock a state; raises BusyError if another run has it."""
    try:
        lock = Lock(state_lock(path), where=f"--state {path}", by="run")
    except OSError as exc:
        raise FatalError(f"--state {path}: {exc.strerror}; expected to lock it") from exc
    with lock:
        try:
            yield
        finally:
            lock.remove()


def state_lock(path: Path) -> Path:
    """Return the file by which a state is locked: next to it, as SQLite has its own locks on it."""
    path = path.resolve()
    return path.with_name(f".{path.name}.lock")


@contextmanager
def locked_pushes(output: Path) -> Iterator[None]:
    """Lock all pushes of the chunks in a folder; raises BusyError if one of them is running."""
    with ExitStack() as locks:
        for path in output.glob(f"{PUSHES}/*/{LOCK}"):
            locks.enter_context(Lock(path, where=str(path.parent), by="push"))
        yield


def _lock_in(work: Path, *, where: str) -> Lock:
    """Lock a folder; a run that ends in this moment may remove it while it is made."""
    for _ in range(_TRIES):
        work.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            return Lock(work / LOCK, where=where, by="run")
    return Lock(work / LOCK, where=where, by="run")
