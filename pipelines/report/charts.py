"""Charts of a report: numbers become the geometry of inline SVG.

A chart is a box of 1000 by 100 units, which the page stretches; labels are placed in percent.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from pipelines.cli.display import format_size
from schemas.units import duration_text

WIDTH, HEIGHT = 1000, 100

MAX_BINS = 120
"""Most bars, or corners of a line: a chart of 100,000 chunks is as large as one of 120."""

_MAX_TICKS = 4
_STEPS = [step * 10.0**power for power in range(-3, 16) for step in (1, 2, 5)]
_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0


class Unit(NamedTuple):
    """How the values of an axis are written, and the distances between its ticks."""

    text: Callable[[float], str]
    steps: Sequence[float]


COUNT = Unit(lambda value: f"{value:,.0f}" if value >= 10 else f"{value:g}", _STEPS)
INTEGER = Unit(lambda value: f"{value:,.0f}", [step for step in _STEPS if step >= 1])
BYTES = Unit(
    lambda value: format_size(int(value)).replace(".0 ", " "),
    [step * 1024.0**power for power in range(5) for step in (1, 2, 5, 10, 20, 50, 100, 200, 500)],
)
SECONDS = Unit(
    lambda value: duration_text(round(value, 3)) if value else "0",
    [
        *(step for step in _STEPS if step < 10),
        *(10.0, 20.0, 30.0, _MINUTE),
        *(_MINUTE * count for count in (2, 5, 10, 20, 30)),
        *(_HOUR * count for count in (1, 2, 3, 6, 12)),
        *(_DAY * count for count in (1, 2, 5, 10, 20, 50, 100)),
    ],
)


class Bin(NamedTuple):
    """The value of a part of the horizontal axis, and what is shown when it is pointed at."""

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
    """A bin in the units of the box; the bar begins at `y`."""

    x: float
    width: float
    y: float
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
    bars = tuple(
        Bar(
            x=round((one.begin - begin) * scale, 1),
            width=round((one.end - one.begin) * scale, 1),
            y=round(HEIGHT * (1 - one.value / top), 2),
            words=one.words,
            tone=one.tone,
        )
        for one in bins
    )
    middle = [(round(bar.x + bar.width / 2, 1), bar.y) for bar in bars]
    corners = [(0, bars[0].y), *middle, (WIDTH, bars[-1].y)]
    return Chart(
        title=title,
        words=words,
        rows=tuple(Tick(100 * (1 - row / top), axes.y.text(row)) for row in rows),
        columns=tuple(
            Tick(100 * (at - begin) / ((end - begin) or 1.0), axes.x.text(at))
            for at in _ticks(begin, end, axes.x, is_covered=False)
        ),
        bars=bars,
        line=" ".join(f"{x},{y}" for x, y in corners),
        breaks=tuple(round((at - begin) * scale, 1) for at in axes.breaks),
        is_line=is_line,
    )


def bar_bins(values: Sequence[tuple[int, float]], unit: Unit, *, noun: str) -> list[Bin]:
    """Return a bin for each numbered value, or for each group of neighbours if there are many.

    A group is as high as its highest value.
    """
    size = -(-len(values) // MAX_BINS) or 1
    bins = []
    for index in range(0, len(values), size):
        group = values[index : index + size]
        highest = max(value for _, value in group)
        first, last = group[0][0], group[-1][0]
        words = f"{noun} {first:,}: {unit.text(highest)}"
        if size > 1:
            words = f"{noun}s {first:,} to {last:,}: at most {unit.text(highest)}"
        bins.append(Bin(index + 0.5, index + len(group) + 0.5, highest, words))
    return bins


def _ticks(begin: float, end: float, unit: Unit, *, is_covered: bool) -> Iterator[float]:
    """Yield up to five round values from `begin` to `end`, or to the first value that covers it."""
    steps: Iterable[float] = (step for step in unit.steps if step * _MAX_TICKS >= end - begin)
    step = next(iter(steps), unit.steps[-1])
    at = -(-begin // step) * step
    while at <= end:
        yield at
        at += step
    if is_covered and (at - step < end or end == begin):
        yield at
