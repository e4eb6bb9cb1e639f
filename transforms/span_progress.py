"""How far the spans of an unfinished run are, in the folder of the run.

::

    progress/SPAN.progress      a span that is being converted
    progress/PROCESS.jsonl      a line for each span that a process has converted

A reader reads each line once, so that it costs no time that many spans are finished. Times decide
between several lines of one span: an attempt that is repeated, or a guess of where the span begins.
"""

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from transforms.storage.atomic import read_undamaged, write_by_several

_FOLDER = "progress"
_CURRENT = ".progress"
_FINISHED = ".jsonl"


class SpanProgress(msgspec.Struct, frozen=True, array_like=True):
    """The bytes, records and rejects that a span has read so far."""

    bytes: int = 0
    records: int = 0
    rejects: int = 0


class _FinishedSpan(msgspec.Struct, frozen=True, array_like=True):
    """A line: a span that is converted at `time`, in nanoseconds since 1970."""

    span: str
    time: int
    progress: SpanProgress


_decoder = msgspec.json.Decoder(_FinishedSpan)


def write_progress(run: Path, span: str, progress: SpanProgress) -> None:
    """Write the progress of a span that is being converted."""
    path = _folder_of(run) / f"{span}{_CURRENT}"
    write_by_several(path, msgspec.json.encode(progress))


def finish_progress(run: Path, span: str, progress: SpanProgress | None) -> None:
    """Write the progress of a converted span; None if it turns out to be no span of the run."""
    folder = _folder_of(run)
    line = _FinishedSpan(span, time.time_ns(), progress or SpanProgress())
    path = folder / f"{socket.gethostname()}-{os.getpid()}{_FINISHED}"
    with path.open("ab", buffering=0) as stream:
        stream.write(msgspec.json.encode(line) + b"\n")
    (folder / f"{span}{_CURRENT}").unlink(missing_ok=True)


class ProgressReader:
    """Adds up the progress of all spans of a run; a damaged file or line is left out."""

    def __init__(self, run: Path) -> None:
        self._folder = run / _FOLDER
        self._finished: dict[str, _FinishedSpan] = {}
        self._offsets: dict[str, int] = {}
        self._sum = SpanProgress()

    def sum(self) -> SpanProgress:
        """Return the sum now. The time it takes depends on the spans since the last call."""
        names = os.listdir(self._folder) if self._folder.exists() else []
        # A span that is finished meanwhile is in one of both, because these are read first.
        current = {name.removesuffix(_CURRENT): self._current(name) for name in names}
        for name in names:
            if name.endswith(_FINISHED):
                self._read_finished(name)
        total = self._sum
        for span, progress in current.items():
            if progress is not None and span not in self._finished:
                total = _add(total, progress)
        return total

    def _current(self, name: str) -> SpanProgress | None:
        is_current = name.endswith(_CURRENT)
        return read_undamaged(self._folder / name, SpanProgress) if is_current else None

    def _read_finished(self, name: str) -> None:
        for line in self._new_lines(name):
            try:
                finished = _decoder.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                continue
            known = self._finished.get(finished.span)
            if known is None or known.time <= finished.time:
                self._finished[finished.span] = finished
                self._sum = _add(self._sum, finished.progress)
                if known is not None:
                    self._sum = _add(self._sum, known.progress, sign=-1)

    def _new_lines(self, name: str) -> Iterator[bytes]:
        """Yield the lines since the last call; a line without its end is still being written."""
        with (self._folder / name).open("rb") as stream:
            stream.seek(self._offsets.get(name, 0))
            for line in stream:
                if line.endswith(b"\n"):
                    self._offsets[name] = self._offsets.get(name, 0) + len(line)
                    yield line


def _folder_of(run: Path) -> Path:
    folder = run / _FOLDER
    folder.mkdir(exist_ok=True)
    return folder


def _add(total: SpanProgress, more: SpanProgress, *, sign: int = 1) -> SpanProgress:
    return SpanProgress(
        total.bytes + sign * more.bytes,
        total.records + sign * more.records,
        total.rejects + sign * more.rejects,
    )
