"""The output of spans in the folder of an unfinished run.

::

    NAME/ATTEMPT/…          files of one attempt to convert the span NAME
    NAME/ATTEMPT.lock       locked while that attempt runs
    NAME.0.json             the account of the span, with all its files

Several attempts may convert one span at the same time: a runner retries, or a run is started
again while workers of the run before still live. Each attempt writes to its own folder, and the
first to publish its account wins. The others remove their files and return that account.

No file is ever replaced. If the files of an account are damaged, or the span was split differently,
the span is converted again and the new account is NAME.1.json. So the storage only has to provide
one operation: create a file unless there is one with that name.
"""

import errno
import glob
import hashlib
import os
import shutil
import socket
from contextlib import suppress
from itertools import count, takewhile
from pathlib import Path
from typing import Self
from uuid import uuid4

import msgspec

from schemas.account import Account, SpanFile
from schemas.errors import BusyError
from schemas.span import Span
from transforms.storage.atomic import NOWHERE, WrittenFile, read_undamaged, writing
from transforms.storage.lock import Lock

_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK})


class _PublishedAccount(msgspec.Struct, frozen=True, kw_only=True):
    """The account of a converted span; `span` is a digest of the span."""

    span: str
    attempt: str
    account: Account


class Attempt:
    """One attempt to convert a span; its files are removed unless `commit` publishes its account.

    With `verify`, an account of another attempt counts only if the SHA-256 of its files matches,
    otherwise if their sizes match. The block raises FatalError if no files can be written.
    """

    def __init__(self, folder: Path, span: Span, *, verify: bool = True) -> None:
        self._root = folder
        self._digest = hashlib.sha256(msgspec.json.encode(span)).hexdigest()
        self._verify = verify
        self._damaged = 0
        self._parent = folder / span.name
        self._host = socket.gethostname()
        self._name = f"{self._host}-{os.getpid()}-{uuid4().hex[:16]}"
        self._is_committed = False
        self.folder = self._parent / self._name

    def find_account(self) -> Account | None:
        """Return the account of any attempt that counts, None if there is none with whole files."""
        while (path := self._account_path(self._damaged)).exists():
            published = read_undamaged(path, _PublishedAccount)
            if published is not None and published.span == self._digest:
                files = published.account.files
                if all(is_whole(self._root / f.path, f, verify=self._verify) for f in files):
                    return published.account
            self._damaged += 1
        return None

    def __enter__(self) -> Self:
        with writing(self._parent):
            self._parent.mkdir(exist_ok=True)
            where = str(self.folder)
            self._lock = Lock(self._parent / f"{self._name}.lock", where=where, by="attempt")
            self._sweep()
            self.folder.mkdir()
        return self

    def __exit__(self, *exc: object) -> None:
        if not self._is_committed:
            shutil.rmtree(self.folder, ignore_errors=True)
        with suppress(OSError), self._lock:
            self._lock.remove()

    @property
    def list_folder(self) -> Path:
        """The folder of lists that are read after the pipeline, also by a plan."""
        return self.folder

    def path_of(self, name: str) -> str:
        """Return the path of a file of this attempt, relative to the folder of the run."""
        return str(self.folder.relative_to(self._root) / name)

    def file(self, written: WrittenFile) -> SpanFile:
        """Describe a complete file of this attempt."""
        return SpanFile(
            path=self.path_of(written.name),
            bytes=written.bytes,
            sha256=written.sha256,
            modified_ns=(self.folder / written.name).stat().st_mtime_ns,
        )

    def commit(self, account: Account) -> Account:
        """Publish the account unless another attempt was first; return the account that counts."""
        own = _PublishedAccount(span=self._digest, attempt=self._name, account=account)
        while (published := self.find_account()) is None:
            path = self._account_path(self._damaged)
            with writing(path), suppress(FileExistsError):
                _create(path, msgspec.json.encode(own), staged=self.folder / "account.json")
                self._is_committed = True
                return account
        return published

    def _sweep(self) -> None:
        """Remove the files of attempts whose process ended before they could commit.

        Attempts on other hosts are left alone, because locks may not work between hosts.
        """
        for path in list(self._parent.glob(f"{glob.escape(self._host)}-*")):
            if not path.is_dir():
                continue
            with (
                suppress(BusyError),
                Lock(path.with_name(f"{path.name}.lock"), where="", by="") as lock,
            ):
                accounts = takewhile(Path.exists, map(self._account_path, count()))
                published = (read_undamaged(account, _PublishedAccount) for account in accounts)
                if path.name not in {account.attempt for account in published if account}:
                    shutil.rmtree(path, ignore_errors=True)
                lock.remove()

    def _account_path(self, number: int) -> Path:
        return self._parent.with_name(f"{self._parent.name}.{number}.json")


class DryAttempt(Attempt):
    """An attempt that stores no file: its account says what an attempt would write."""

    def __init__(self, folder: Path, span: Span, *, verify: bool = True) -> None:
        super().__init__(folder, span, verify=verify)
        self.folder = NOWHERE

    def find_account(self) -> Account | None:
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    @property
    def list_folder(self) -> Path:
        self._parent.mkdir(exist_ok=True)
        return self._parent

    def path_of(self, name: str) -> str:
        return f"{self._parent.name}/{name}"

    def file(self, written: WrittenFile) -> SpanFile:
        return SpanFile(
            path=self.path_of(written.name),
            bytes=written.bytes,
            sha256=written.sha256,
            modified_ns=0,
        )

    def commit(self, account: Account) -> Account:
        return account


def is_whole(path: Path, file: SpanFile, *, verify: bool = True) -> bool:
    """Whether a file has the size of its account and, with `verify`, the SHA-256."""
    try:
        if path.stat().st_size != file.bytes:
            return False
        return not verify or digest_of(path) == file.sha256
    except OSError:
        return False


def is_untouched(path: Path, file: SpanFile) -> bool:
    """Whether a file is unchanged since its writer closed it."""
    try:
        status = path.stat()
    except OSError:
        return False
    return (status.st_size, status.st_mtime_ns) == (file.bytes, file.modified_ns)


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _create(path: Path, data: bytes, *, staged: Path) -> None:
    """Create a file at once; raise FileExistsError if there is one with that name.

    On a file system without hard links it is written in place. If that is interrupted, the file is
    a damaged account.
    """
    staged.write_bytes(data)
    try:
        os.link(staged, path)
    except OSError as exc:
        if exc.errno not in _NO_LINKS:
            raise
        with path.open("xb") as stream:
            stream.write(data)
    finally:
        staged.unlink()
