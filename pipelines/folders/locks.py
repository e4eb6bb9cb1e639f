"""Locks of a run: on its folder, its state, and the pushes whose files it is about to remove.

A second run on any of them is refused at once. Locks end with the process, even if it is killed.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from errno import ENOSPC
from pathlib import Path

from feedferry.schemas.errors import ConfigError, FatalError
from feedferry.transforms.storage.files.lock import Lock
from feedferry.transforms.storage.storage import unwritable

WORK = ".work"
"""Folder of an output folder with the files of unfinished runs."""

ACCOUNT = "account.json"
"""The account of a conversion that stopped at a limit, in the folder of an unfinished run."""

SEAL = "seal.json"
SEALED = ("generation", "*.listing", "*.listed-at", "*.plan.json", "*.gone", "*.prepared", "*.acls")
"""The files that sources and steps make before the pipeline begins, and that of their digests."""

STATE_UPDATE = "state-update.json"
"""How the state is updated after the push, in the same folder."""

STATED_UPDATE = "stated-update.json"
"""How the stated ACLs of documents are kept after the push, in the same folder."""

PUSHES = "push"
"""Folder of an output folder with the receipts, in a folder for each appliance."""

LOCK = "lock"
"""Name of the lock file of a run or a push, in its folder."""


@contextmanager
def locked_output(output: Path) -> Iterator[None]:
    """Lock an output folder. Folders that are made for the lock are removed if they stay empty.

    Raises BusyError if another run has the lock, ConfigError if the folder cannot be written to,
    FatalError if the disk is full.
    """
    work = output / WORK
    missing = [folder for folder in (work, *work.parents) if not folder.exists()]
    try:
        lock = _lock_in(work, where=f"⟦output⟧ {output}")
    except OSError as exc:
        if exc.errno == ENOSPC:
            raise unwritable(output, exc) from exc
        raise ConfigError(
            f"⟦output⟧ {output}: {exc.strerror}; expected a folder to write in"
        ) from exc
    with lock:
        try:
            yield
        finally:
            lock.remove()
            with suppress(OSError):  # a folder is not empty
                for folder in missing or [work]:
                    folder.rmdir()


def locked_job(home: Path) -> Lock:
    """Lock a job; raise BusyError, which names the process, if it is running."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        return Lock(home / LOCK, where=str(home), by="run")
    except OSError as exc:
        raise ConfigError(f"{home}: {exc.strerror}; expected a folder for runs") from exc


@contextmanager
def locked_state(path: Path) -> Iterator[None]:
    """Lock a state; raise BusyError if another run has the lock."""
    try:
        lock = Lock(state_lock(path), where=f"⟦state⟧ {path}", by="run")
    except OSError as exc:
        raise FatalError(f"⟦state⟧ {path}: cannot be locked: {exc.strerror}") from exc
    with lock:
        try:
            yield
        finally:
            lock.remove()


def state_lock(path: Path) -> Path:
    """Return the lock file of a state. SQLite has locks of its own on the state itself."""
    path = path.resolve()
    return path.with_name(f".{path.name}.lock")


@contextmanager
def locked_pushes(output: Path) -> Iterator[None]:
    """Lock all pushes of an output folder; raise BusyError if one of them is running."""
    with ExitStack() as locks:
        for path in output.glob(f"{PUSHES}/*/{LOCK}"):
            locks.enter_context(Lock(path, where=str(path.parent), by="push"))
        yield


def _lock_in(work: Path, *, where: str) -> Lock:
    """Lock a folder that another run, which is just ending, may remove while it is made."""
    while True:
        work.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):
            return Lock(work / LOCK, where=where, by="run")
