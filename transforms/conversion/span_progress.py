"""How far the spans of an unfinished run are, in the folder of the run.

::

    progress/SPAN.progress      a span that is being converted
    progress/PROCESS.jsonl      a line for each span that a process has converted

In object storage, where nothing can be appended, a process puts its file again, at most every ten
seconds; the last line then has the spans that it is converting.

A reader reads each line once, so that it costs no time that many spans are finished. Times decide
between several lines of one span: an attempt that is repeated, or a guess of where the span begins.
"""

import os
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from uuid import uuid4

import msgspec

from feedferry.schemas.account import Account
from feedferry.schemas.errors import FatalError
from feedferry.transforms.storage.atomic import read_undamaged, write_whole
from feedferry.transforms.storage.run_folders.find_storage import storage_of
from feedferry.transforms.storage.storage import Storage, is_object

STORED_SECONDS = 10.0
"""The least time between two puts of a process, and between two lists of a reader."""

_FOLDER = "progress"
_CURRENT = ".progress"
_FINISHED = ".jsonl"
_NO_SPANS = b"[]\n"
_REQUESTS = 32


class SpanProgress(msgspec.Struct, frozen=True, array_like=True):
    """The bytes, records and rejects that a span has read so far."""

    bytes: int = 0
    records: int = 0
    rejects: int = 0

    @classmethod
    def of(cls, account: Account) -> "SpanProgress":
        """Return the progress of the spans of an account, which are converted."""
        rejects = sum(account.rejected.values())
        return cls(account.bytes_stored, sum(account.read.values()), rejects)


class _SpanLine(msgspec.Struct, frozen=True, array_like=True):
    """A line: the progress of a span at `time`, in nanoseconds since 1970."""

    span: str
    time: int
    progress: SpanProgress


_line_of = msgspec.json.Decoder(_SpanLine).decode
_lines_of = msgspec.json.Decoder(list[_SpanLine]).decode
_encode = msgspec.json.encode


class ProgressLog:
    """Takes the progress of the spans of a run; this one forgets it."""

    def write(self, span: str, progress: SpanProgress) -> None:
        """Take the progress of a span that is being converted."""

    def finish(self, span: str, progress: SpanProgress | None) -> None:
        """Take the progress of a converted span; None if it is no span of the run."""


class _FolderLog(ProgressLog):
    """Writes the progress into a folder."""

    def __init__(self, run: Path) -> None:
        self._folder = run / _FOLDER
        self._folder.mkdir(exist_ok=True)

    def write(self, span: str, progress: SpanProgress) -> None:
        write_whole(self._folder / f"{span}{_CURRENT}", _encode(progress), by_several=True)

    def finish(self, span: str, progress: SpanProgress | None) -> None:
        line = _SpanLine(span, time.time_ns(), progress or SpanProgress())
        path = self._folder / f"{socket.gethostname()}-{os.getpid()}{_FINISHED}"
        with path.open("ab", buffering=0) as stream:
            stream.write(_encode(line) + b"\n")
        (self._folder / f"{span}{_CURRENT}").unlink(missing_ok=True)


class StoredProgressLog(ProgressLog):
    """Puts the progress of this process into a storage, at most once in some seconds.

    What it takes last may never be put: nothing is put after the run. Safe from several threads.
    """

    def __init__(self, storage: Storage, seconds: float = STORED_SECONDS) -> None:
        self._storage = storage
        self._seconds = seconds
        self._name = f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:16]}{_FINISHED}"
        self._finished = bytearray()
        self._current: dict[str, _SpanLine] = {}
        self._lock = threading.Lock()
        self._due_at = 0.0

    def write(self, span: str, progress: SpanProgress) -> None:
        with self._lock:
            self._current[span] = _SpanLine(span, time.time_ns(), progress)
            self._put_if_due()

    def finish(self, span: str, progress: SpanProgress | None) -> None:
        line = _SpanLine(span, time.time_ns(), progress or SpanProgress())
        with self._lock:
            self._current.pop(span, None)
            self._finished += _encode(line) + b"\n"
            self._put_if_due()

    def _put_if_due(self) -> None:
        if time.monotonic() >= self._due_at:
            text = self._finished + _encode([*self._current.values()]) + b"\n"
            with suppress(FatalError):  # the span fails by its own requests
                self._storage.put(self._name, bytes(text))
            self._due_at = time.monotonic() + self._seconds


def progress_log(folder: str | None, begun: str = "") -> ProgressLog:
    """Return the log of a run: in a folder, by its path or URI, or nowhere.

    In object storage, a process has one for each start of the run, which is `begun`.
    """
    if folder is None:
        return ProgressLog()
    return (
        _stored_log(folder, begun, os.getpid()) if is_object(folder) else _FolderLog(Path(folder))
    )


@lru_cache(maxsize=1)
def _stored_log(folder: str, begun: str, process: int) -> ProgressLog:
    return StoredProgressLog(storage_of(folder).below(_FOLDER))


class ProgressReader(ABC):
    """Adds up the progress of all spans of a run; a damaged file or line is left out.

    `lines` counts the lines of converted spans. Safe from several threads.
    """

    def __init__(self) -> None:
        self._finished: dict[str, _SpanLine] = {}
        self._offsets: dict[str, int] = {}
        self._sum = SpanProgress()
        self._total: SpanProgress | None = None
        self._lock = threading.Lock()
        self.lines = 0

    def sum(self) -> SpanProgress:
        """Return the sum now. The time it takes depends on the spans since the last call."""
        with self._lock:
            if self._total is not None:
                return self._total
            current = self._read()
            total = self._sum
            for span, progress in current.items():
                if span not in self._finished:
                    total = _add(total, progress)
            return total

    def finish(self, account: Account) -> None:
        """Take the account of the run, when all spans are converted; it is the sum from now on."""
        self._total = SpanProgress.of(account)

    @abstractmethod
    def _read(self) -> Mapping[str, SpanProgress]:
        """Take the new lines of converted spans; return the progress of the others."""

    def _take(self, name: str, lines: Iterable[bytes]) -> None:
        """Take lines of a file, of which a line without its end is still being written."""
        for line in lines:
            if not line.endswith(b"\n"):
                return
            self._offsets[name] = self._offsets.get(name, 0) + len(line)
            with suppress(msgspec.MsgspecError, UnicodeDecodeError):
                self._finish(_line_of(line))

    def _finish(self, line: _SpanLine) -> None:
        self.lines += 1
        known = self._finished.get(line.span)
        if known is None or known.time <= line.time:
            self._finished[line.span] = line
            self._sum = _add(self._sum, line.progress)
            if known is not None:
                self._sum = _add(self._sum, known.progress, sign=-1)


class _FolderReader(ProgressReader):
    def __init__(self, run: Path) -> None:
        super().__init__()
        self._folder = run / _FOLDER

    def _read(self) -> Mapping[str, SpanProgress]:
        names = os.listdir(self._folder) if self._folder.exists() else []
        # A span that is finished meanwhile is in one of both, because these are read first.
        files = [name for name in names if name.endswith(_CURRENT)]
        found = {name: read_undamaged(self._folder / name, SpanProgress) for name in files}
        for name in names:
            if name.endswith(_FINISHED):
                with (self._folder / name).open("rb") as stream:
                    stream.seek(self._offsets.get(name, 0))
                    self._take(name, stream)
        return {
            name.removesuffix(_CURRENT): progress
            for name, progress in found.items()
            if progress is not None
        }


class StoredProgressReader(ProgressReader):
    """Lists the objects of all processes and gets their new lines, at most once in some seconds."""

    def __init__(self, storage: Storage, seconds: float = STORED_SECONDS) -> None:
        super().__init__()
        self._storage = storage
        self._seconds = seconds
        self._current: dict[str, SpanProgress] = {}
        self._due_at = 0.0

    def _read(self) -> Mapping[str, SpanProgress]:
        if time.monotonic() >= self._due_at:
            with suppress(FatalError, OSError):  # the job fails by its own requests
                self._current = self._read_objects()
            self._due_at = time.monotonic() + self._seconds
        return self._current

    def _read_objects(self) -> dict[str, SpanProgress]:
        names = [*self._storage.sizes()]
        with ThreadPoolExecutor(_REQUESTS) as pool:
            found = [*zip(names, pool.map(self._new_lines, names), strict=True)]
        current: list[_SpanLine] = []
        for name, [*lines, last] in found:
            self._take(name, lines)
            current += _lines_of(last)
        current.sort(key=lambda line: line.time)
        return {line.span: line.progress for line in current}

    def _new_lines(self, name: str) -> list[bytes]:
        """Return the lines since the last call, and the last line, which is always there."""
        try:
            with self._storage.open(name, self._offsets.get(name, 0)) as stream:
                return stream.readlines()
        except FileNotFoundError:  # it was removed meanwhile
            return [_NO_SPANS]


def progress_reader(folder: str) -> ProgressReader:
    """Return a reader of the progress of a run, by the path or URI of its folder."""
    if is_object(folder):
        return StoredProgressReader(storage_of(folder).below(_FOLDER))
    return _FolderReader(Path(folder))


def _add(total: SpanProgress, more: SpanProgress, *, sign: int = 1) -> SpanProgress:
    return SpanProgress(
        total.bytes + sign * more.bytes,
        total.records + sign * more.records,
        total.rejects + sign * more.rejects,
    )
