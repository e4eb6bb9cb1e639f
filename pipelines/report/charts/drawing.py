"""Charts of a report: numbers become the geometry of inline SVG.

A chart is a box of 1000 by 100 units, which the page stretches; labels are placed in percent.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from feedferry.pipelines.report.page_text import bytes_text

WIDTH, HEIGHT = 1000, 100

MAX_BINS = 120
"""Most bars, or corners of a line: a chart of 100,000 chunks is as large as one of 120."""

_MAX_ROWS, _MAX_COLUMNS = 4, 5
_MAX_BAR_WIDTH = 40.0
_MIN_BAR_HEIGHT = 3.0
"""The least height of a value that is not zero, so that it is seen next to a large one."""

_STEPS = [step * 10.0**power for power in range(-3, 16) for step in (1, 2, 5)]
_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0
_TIMES = ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"))


class Unit(NamedTuple):
    """How the values of an axis are written, and the distances between its ticks.

    `name` is written before the first value of a horizontal axis.
    """

    text: Callable[[float], str]
    steps: Sequence[float]
    name: str = ""


def _time_text(seconds: float) -> str:
    length, name = next((unit for unit in _TIMES if seconds and seconds % unit[0] == 0), (1.0, "s"))
    return f"{seconds / length:g} {name}" if seconds else "0"


COUNT = Unit(lambda value: f"{value:,.0f}" if value >= 10 else f"{value:g}", _STEPS)
INTEGER = Unit(lambda value: f"{value:,.0f}", [step for step in _STEPS if step >= 1])
BYTES = Unit(
    bytes_text,
    [step * 1024.0**power for power in range(5) for step in (1, 2, 5, 10, 20, 50, 100, 200, 500)],
)
SECONDS = Unit(
    _time_text,
    [
        *(step for step in _STEPS if step < 10),
        *(10.0, 20.0, 30.0, _MINUTE),
        *(_MINUTE * count for count in (2, 5, 10, 20, 30)),
        *(_HOUR * count for count in (1, 2, 3, 6, 12)),
        *(_DAY * count for count in (1, 2, 5, 10, 20, 50, 100)),
    ],
)


CHUNKS = Unit(INTEGER.text, INTEGER.steps, "chunk ")


class Bin(NamedTuple):
    """The value of a part of the horizontal axis, and its text for the pointer."""

    begin: float
    end: float
    value: float
    words: str
    tone: str = ""


class Tick(NamedTuple):
    """A label of an axis; `at` is in percent from the left or from the top."""

    at: float
    label: str


class Bar(NamedTuple):
    """A bin in the units of the box; its bar is narrower, and begins at `y`."""

    x: float
    width: float
    y: float
    bar_x: float
    bar_width: float
    words: str
    tone: str


class Chart(msgspec.Struct, frozen=True, kw_only=True):
    """A chart; `line` has the corners of a polyline, `breaks` places of vertical lines."""

    title: str
    words: str
    rows: tuple[Tick, ...]
    columns: tuple[Tick, ...]
    bars: tuple[Bar, ...]
    line: str
    breaks: tuple[float, ...] = ()
    is_line: bool = False


class Axes(NamedTuple):
    """The units of both axes; `breaks` are places on the horizontal one."""

    x: Unit
    y: Unit
    breaks: tuple[float, ...] = ()


def draw(title: str, bins: Sequence[Bin], axes: Axes, *, words: str, is_line: bool) -> Chart:
    """Return the chart of some bins, which touch each other and of which there is at least one."""
    begin, end = bins[0].begin, bins[-1].end
    rows = list(_ticks(0.0, max(one.value for one in bins), axes.y, is_covered=True))
    top = rows[-1] or 1.0
    scale = WIDTH / ((end - begin) or 1.0)
    bars = tuple(_bar(one, (one.begin - begin) * scale, scale, top) for one in bins)
    middle = [(round(bar.x + bar.width / 2, 1), bar.y) for bar in bars]
    corners = [(0, bars[0].y), *middle, (WIDTH, bars[-1].y)]
    return Chart(
        title=title,
        words=words,
        rows=tuple(Tick(100 * (1 - row / top), axes.y.text(row)) for row in rows),
        columns=tuple(
            Tick((at - begin) * scale / 10, axes.x.name * (not index) + axes.x.text(at))
            for index, at in enumerate(_ticks(begin, end, axes.x, is_covered=False))
        ),
        bars=bars,
        line=" ".join(f"{x},{y}" for x, y in corners),
        breaks=tuple(round((at - begin) * scale, 1) for at in axes.breaks),
        is_line=is_line,
    )


def chunk_bins(
    ordinals: Sequence[int], values: Mapping[int, float], text: Callable[[float], str]
) -> list[Bin]:
    """Return a bin for the value of each chunk, or for groups of neighbours if there are many.

    A group is as high as its highest value. A chunk without a value was not accepted.
    """
    size = -(-len(ordinals) // MAX_BINS) or 1
    bins = []
    for index in range(0, len(ordinals), size):
        group = ordinals[index : index + size]
        known = [values[ordinal] for ordinal in group if ordinal in values]
        highest = text(max(known)) if known else "not accepted"
        words = f"chunk {group[0]:,}: {highest}"
        if size > 1:
            words = f"chunks {group[0]:,} to {group[-1]:,}: {'at most ' * bool(known)}{highest}"
        bins.append(Bin(index + 0.5, index + len(group) + 0.5, max(known, default=0.0), words))
    return bins


def _bar(one: Bin, x: float, scale: float, top: float) -> Bar:
    slot = (one.end - one.begin) * scale
    width = min(slot * 0.8, _MAX_BAR_WIDTH)
    height = max(HEIGHT * one.value / top, _MIN_BAR_HEIGHT) if one.value else 0.0
    return Bar(
        x=round(x, 1),
        width=round(slot, 1),
        y=round(HEIGHT - height, 2),
        bar_x=round(x + (slot - width) / 2, 1),
        bar_width=round(width, 1),
        words=one.words,
        tone=one.tone,
    )


def _ticks(begin: float, end: float, unit: Unit, *, is_covered: bool) -> Iterator[float]:
    """Yield a few round values from `begin` to `end`, or to the first value that covers it."""
    most = _MAX_ROWS if is_covered else _MAX_COLUMNS
    steps: Iterable[float] = (step for step in unit.steps if step * most >= end - begin)
    step = next(iter(steps), unit.steps[-1])
    at = -(-begin // step) * step
    while at <= end:
        yield at
        at += step
    if is_covered and (at - step < end or end == begin):
        yield at
