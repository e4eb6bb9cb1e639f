"""Shows that a run moves: on a terminal one line that is rewritten, elsewhere a line at times."""

import shutil
import threading
import time
from collections.abc import Callable
from typing import IO, Self

import msgspec

from pipelines.cli.convert_options import ProgressStyle

BAR_SECONDS = 0.2
PLAIN_SECONDS = 10.0

_BAR_WIDTH = 20
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run is; `bytes_total` is `None` where the length of an input is not known."""

    bytes_done: int
    bytes_total: int | None
    records: int
    rejects: int


class Reporter:
    """Draws what `snapshot` returns, from a thread of its own while it is entered.

    `snapshot` is called in that thread, and once more in the caller's when the run ends.
    """

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        *,
        style: ProgressStyle,
        stream: IO[str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._snapshot = snapshot
        self._style = resolve(style, terminal=stream.isatty())
        self._stream = stream
        self._clock = clock
        self._begun = clock()
        self._width = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._draw_until_ended, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self._begun = self._clock()
        if self._style is not ProgressStyle.NONE:
            self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._style is ProgressStyle.NONE:
            return
        self._ended.set()
        self._thread.join()
        self.draw()
        if self._style is ProgressStyle.BAR:
            self._stream.write("\n")
            self._stream.flush()

    def draw(self) -> None:
        """Write the line of this moment; on a terminal over the one before."""
        elapsed = self._clock() - self._begun
        if self._style is ProgressStyle.BAR:
            columns = shutil.get_terminal_size().columns
            line = bar(self._snapshot(), elapsed_seconds=elapsed)[: columns - 1]
            self._stream.write("\r" + line.ljust(self._width))
            self._width = len(line)
        else:
            self._stream.write(plain(self._snapshot(), elapsed_seconds=elapsed) + "\n")
        self._stream.flush()

    def _draw_until_ended(self) -> None:
        pause = BAR_SECONDS if self._style is ProgressStyle.BAR else PLAIN_SECONDS
        while not self._ended.wait(pause):
            self.draw()


def resolve(style: ProgressStyle, *, terminal: bool) -> ProgressStyle:
    """The style that AUTO means on a terminal, or on none; any other is itself."""
    if style is not ProgressStyle.AUTO:
        return style
    return ProgressStyle.BAR if terminal else ProgressStyle.PLAIN


def bar(snapshot: Snapshot, *, elapsed_seconds: float) -> str:
    """The plain line, led by a bar where the total is known; without colour, as NO_COLOR asks."""
    share = _share(snapshot)
    line = plain(snapshot, elapsed_seconds=elapsed_seconds)
    if share is None:
        return line
    full = int(share * _BAR_WIDTH)
    return f"[{'#' * full}{'.' * (_BAR_WIDTH - full)}] {line}"


def plain(snapshot: Snapshot, *, elapsed_seconds: float) -> str:
    """What is done of what there is, how fast, what was set aside, and when it may be over."""
    parts = (
        _amount(snapshot),
        f"{snapshot.records:,} records",
        f"{_rate(snapshot, elapsed_seconds):,.0f} records/s",
        f"{snapshot.rejects:,} rejects",
        f"ETA {_eta(snapshot, elapsed_seconds)}",
    )
    return ", ".join(parts)


def size(count: int) -> str:
    """A number of bytes for eyes.

    >>> size(943718400)
    '900.0 MiB'
    """
    power = min(max(count.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    return f"{count} B" if power == 0 else f"{count / 1024**power:.1f} {_UNITS[power]}"


def duration(seconds: float) -> str:
    """A duration for eyes.

    >>> duration(3725)
    '1:02:05'
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _amount(snapshot: Snapshot) -> str:
    share = _share(snapshot)
    if share is None or snapshot.bytes_total is None:
        return size(snapshot.bytes_done)
    return f"{size(snapshot.bytes_done)} of {size(snapshot.bytes_total)} ({share:.0%})"


def _share(snapshot: Snapshot) -> float | None:
    """At most 1: a file may grow while it is read."""
    if not snapshot.bytes_total:
        return None
    return min(snapshot.bytes_done / snapshot.bytes_total, 1.0)


def _rate(snapshot: Snapshot, elapsed_seconds: float) -> float:
    return snapshot.records / elapsed_seconds if elapsed_seconds > 0 else 0.0


def _eta(snapshot: Snapshot, elapsed_seconds: float) -> str:
    share = _share(snapshot)
    if not share:
        return "-"
    return duration(elapsed_seconds * (1 - share) / share)
