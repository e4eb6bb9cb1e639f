"""The output of spans in the folder of an unfinished run.

::

    NAME/ATTEMPT/…          files of one attempt to convert the span NAME
    NAME/ATTEMPT.lock       locked while that attempt runs, in a storage with locks
    NAME.0.json             the account of the span, with all its files

Several attempts may convert one span at the same time: a runner retries, or a run is started
again while workers of the run before still live. Each attempt writes to its own folder, and the
first to publish its account wins. The others remove their files and return that account.

No file is ever replaced. If the files of an account are damaged, or the span was split differently,
the span is converted again and the new account is NAME.1.json. So the storage only has to provide
one operation: create a file unless there is one with that name.
"""

import hashlib
import os
import socket
from contextlib import ExitStack, suppress
from itertools import count, takewhile
from pathlib import Path
from typing import Self
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from feedferry.schemas.account import Account, SpanFile
from feedferry.schemas.errors import BusyError
from feedferry.schemas.span import Span
from feedferry.transforms.storage.storage import Nowhere, Storage, digest_of_stream

SPAN_REJECTS = ".rejects.avro"
"""Suffix of the rejects of a span."""


class _PublishedAccount(msgspec.Struct, frozen=True, kw_only=True):
    """The account of a converted span; `span` is a digest of the span."""

    span: str
    attempt: str
    account: Account


class Attempt:
    """One attempt to convert a span; its files are removed unless `commit` publishes its account.

    With `verify`, an account of another attempt counts only if the SHA-256 of its files matches,
    otherwise if their sizes match. One of another `version` of the settings does not count. The
    block raises FatalError if no files can be written.
    """

    def __init__(self, run: Storage, span: Span, *, verify: bool = True, version: str = "") -> None:
        self._run = run
        self._digest = hashlib.sha256(msgspec.json.encode(span) + version.encode()).hexdigest()
        self._verify = verify
        self._damaged = 0
        self._span = span.name
        self._host = socket.gethostname()
        self._name = f"{self._host}-{os.getpid()}-{uuid4().hex[:16]}"
        self._is_committed = False
        self._held = ExitStack()
        self.storage = run.below(self.path_of(""))
        """Where the files of this attempt are."""

    def find_account(self, *, begun: str = "") -> Account | None:
        """Return the account of any attempt that counts, None if there is none with whole files.

        An account that was published after this start of the run, `begun`, may be missing.
        """
        return self._find(self._run.snapshot(begun))

    def _find(self, run: Storage) -> Account | None:
        while (data := self._read(run, self._damaged)) is not None:
            published = _decode(data)
            account = published.account if published and published.span == self._digest else None
            if account is not None and run.are_whole(account.files, verify=self._verify):
                return self._named(account)
            self._damaged += 1
        return None

    def __enter__(self) -> Self:
        self._held.enter_context(self._run.hold(self.path_of("")))
        if self._run.has_locks:
            self._sweep()
        return self

    def __exit__(self, *exc: object) -> None:
        if not self._is_committed:
            self._run.remove(self.path_of(""))
        self._held.close()

    @property
    def lists(self) -> Storage:
        """Where the lists are that are read after the pipeline, also by a plan."""
        return self.storage

    def path_of(self, name: str) -> str:
        """Return the name of a file of this attempt in the storage of the run."""
        return f"{self._span}/{self._name}/{name}".rstrip("/")

    def file(self, file: SpanFile) -> SpanFile:
        """Return a file of this attempt with its path in the run, and its time."""
        modified_ns = self.storage.modified_ns(file.path)
        return replace(file, path=self.path_of(file.path), modified_ns=modified_ns)

    def commit(self, account: Account) -> Account:
        """Publish the account unless another attempt was first; return the account that counts."""
        own = _PublishedAccount(span=self._digest, attempt=self._name, account=account)
        data = msgspec.json.encode(own)
        while (published := self._find(self._run)) is None:
            if self._run.put_if_absent(self._account_name(self._damaged), data):
                self._is_committed = True
                return self._named(account)
        return published

    def _sweep(self) -> None:
        """Remove the files of attempts whose process ended before they could commit.

        Attempts on other hosts are left alone, because locks may not work between hosts.
        """
        found = {name.split("/")[1] for name in self._run.sizes(self._span) if name.count("/") > 1}
        for name in found:
            if name.startswith(f"{self._host}-"):
                with suppress(BusyError), self._run.hold(f"{self._span}/{name}"):
                    if name not in self._published():
                        self._run.remove(f"{self._span}/{name}")

    def _published(self) -> set[str]:
        """Return the attempts that have published an account."""
        accounts = (self._read(self._run, number) for number in count())
        published = map(_decode, takewhile(lambda data: data is not None, accounts))
        return {account.attempt for account in published if account is not None}

    def _read(self, run: Storage, number: int) -> bytes | None:
        """Return an account, None if there is none; one that cannot be read counts as damaged."""
        try:
            return run.get(self._account_name(number))
        except OSError:
            return b""

    def _named(self, account: Account) -> Account:
        return replace(account, stored=[self._account_name(self._damaged)])

    def _account_name(self, number: int) -> str:
        return f"{self._span}.{number}.json"


class DryAttempt(Attempt):
    """An attempt that stores no file: its account lists the files that an attempt would write."""

    def __init__(self, run: Storage, span: Span, *, verify: bool = True, version: str = "") -> None:
        super().__init__(Nowhere(), span, verify=verify, version=version)
        self._plan = run

    @property
    def lists(self) -> Storage:
        self._plan.make(self._span)
        return self._plan.below(self._span)

    def path_of(self, name: str) -> str:
        return f"{self._span}/{name}"

    def commit(self, account: Account) -> Account:
        return account


class StoredDryAttempt(DryAttempt):
    """A dry attempt that stores the files of its span, for a plan that reads the chunks."""

    def __init__(self, run: Storage, span: Span, *, verify: bool = True, version: str = "") -> None:
        super().__init__(run, span, verify=verify, version=version)
        run.make(span.name)
        self.storage = run.below(span.name)


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
        return digest_of_stream(stream)


def account_of(data: bytes | None) -> Account | None:
    """Return a published account, None for a damaged one."""
    published = _decode(data)
    return None if published is None else published.account


def _decode(data: bytes | None) -> _PublishedAccount | None:
    """Return a published account, None for a damaged one."""
    try:
        return msgspec.json.decode(data or b"", type=_PublishedAccount)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
