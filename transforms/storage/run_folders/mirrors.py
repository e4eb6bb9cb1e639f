"""Mirrors: folders of this process for runs in object storage, without the large files.

A file that is not in a mirror is read from the storage. The lines of a journal in a mirror are
objects as well, one for each, `JOURNAL/OFFSET`: nothing can be appended to an object.
"""

import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO
from uuid import uuid4

from msgspec.structs import replace

from feedferry.schemas.account import SpanFile
from feedferry.schemas.errors import BusyError, errors_worded
from feedferry.transforms.storage.files.journal import Disk
from feedferry.transforms.storage.files.lock import Lock
from feedferry.transforms.storage.run_folders.find_storage import lease_on, storage_of
from feedferry.transforms.storage.storage import LocalStorage, Storage

_LINE = re.compile(r".*\.jsonl/\d+")
_DOWNLOADS = 32
_mirrors: dict[Path, Storage] = {}


@contextmanager
def mirroring(folder: Path, storage: Storage) -> Iterator[None]:
    """Let a folder be the mirror of a storage during the block."""
    _mirrors[folder] = storage
    try:
        yield
    finally:
        del _mirrors[folder]


@contextmanager
def mirror_of(uri: str) -> Iterator[Path]:
    """Yield a mirror of a folder in object storage, without a file; errors name the URI."""
    with TemporaryDirectory(prefix="feedferry-") as temporary:
        mirror = Path(temporary).resolve()
        reworded = errors_worded(lambda text: text.replace(str(mirror), uri))
        with reworded, mirroring(mirror, storage_of(uri)):
            yield mirror


@contextmanager
def locked(folder: Path, *, by: str) -> Iterator[None]:
    """Lock a folder during the block; one in a mirror is leased, and has the journals then.

    Raises BusyError if another process, or this one, has it.
    """
    if not any(mirror in _mirrors for mirror in folder.parents):
        with Lock(folder / "lock", where=str(folder), by=by):
            yield
        return
    with lease_on(shown(folder)):
        fetch_journals(folder)
        yield


def fetch_journals(folder: Path) -> None:
    """Append the lines that another process has put to the journals in a folder of a mirror."""
    for mirror in _mirrors.keys() & {*folder.parents}:
        storage = _mirrors[mirror]
        fetch_lines(mirror, storage, storage.sizes(folder.relative_to(mirror).as_posix()))


def fetch_lines(mirror: Path, storage: Storage, names: Iterable[str]) -> None:
    """Append the lines of journals, of all names of objects, that are not in a mirror yet."""
    sizes: dict[Path, int] = {}
    missing = []
    for name in sorted(filter(_LINE.fullmatch, names)):
        path = mirror / name
        journal = path.parent
        if journal not in sizes:
            journal.parent.mkdir(parents=True, exist_ok=True)
            sizes[journal] = journal.stat().st_size if journal.exists() else 0
        if int(path.name) >= sizes[journal]:
            missing.append(name)
    with ThreadPoolExecutor(_DOWNLOADS) as pool:
        for name, line in zip(missing, pool.map(storage.get, missing), strict=True):
            with (mirror / name).parent.open("ab") as stream:
                stream.write(line or b"")


def place_of(path: Path) -> tuple[Storage, str]:
    """Return the storage that has a file, and its name there."""
    for folder in path.parents:
        if folder in _mirrors and not path.exists():
            return _mirrors[folder], path.relative_to(folder).as_posix()
    return LocalStorage(path.parent), path.name


def open_file(path: Path) -> IO[bytes]:
    """Open a file to read; raise OSError if it cannot be opened."""
    storage, name = place_of(path)
    return storage.open(name)


def shown(path: Path) -> str:
    """Return the path of a file, or its URI if it is in a mirror."""
    for folder in (path, *path.parents):
        if folder in _mirrors:
            relative = path.relative_to(folder).as_posix()
            return _mirrors[folder].locate("" if relative == "." else relative).rstrip("/")
    return str(path)


def changed_files(
    folder: Path, files: Iterable[SpanFile], *, verify: bool, may_be_gone: bool
) -> Iterator[str]:
    """Yield the paths of files without the size of their account or, with `verify`, the SHA-256.

    With `may_be_gone`, a missing file is not among them. Objects are listed once.
    """
    listing = uuid4().hex
    for file in files:
        storage, name = place_of(folder / file.path)
        storage = storage.snapshot(listing)
        is_whole = storage.are_whole([replace(file, path=name)], verify=verify)
        if not is_whole and not (may_be_gone and _is_gone(storage, name)):
            yield file.path


def _is_gone(storage: Storage, name: str) -> bool:
    try:
        storage.open(name).close()
    except FileNotFoundError:
        return True
    return False


def store(path: Path) -> None:
    """Put a file into the storage too if it is in a mirror."""
    for folder in path.parents:
        if folder in _mirrors:
            _mirrors[folder].put(path.relative_to(folder).as_posix(), path.read_bytes())


def remove(path: Path) -> None:
    """Remove a file if it is there."""
    storage, name = place_of(path)
    storage.remove(name)


class MirrorDisk(Disk):
    """The disk of a mirror: each line of a journal is also put into the storage.

    `store` raises BusyError if another process has put a line there.
    """

    def store(self, path: Path, line: bytes, offset: int) -> None:
        for folder in path.parents:
            if folder in _mirrors:
                name = path.relative_to(folder).as_posix()
                if not _mirrors[folder].put_if_absent(f"{name}/{offset:012d}", line):
                    raise BusyError(f"{shown(path)}: another process adds to it")
