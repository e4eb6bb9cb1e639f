"""Draw lines as SVG: axes from 0, a point for each measurement, the name at the end of a line."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

_WIDTH, _HEIGHT = 560, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 90, 40, 40
_TICKS = 5
_COLORS = ("#0b62a4", "#b3400a", "#3a7d34", "#6b4c9a")
_STEPS = (1, 2, 2.5, 5, 10)


class Line(NamedTuple):
    """A named line through points."""

    name: str
    points: Sequence[tuple[float, float]]


def plot(title: str, lines: Sequence[Line]) -> str:
    """Return a picture of lines.

    >>> picture = plot("Seconds", [Line("one", [(1, 2), (2, 4)])])
    >>> picture.count("<circle"), picture.count("<polyline")
    (2, 1)
    """
    highest_x, highest_y = (
        max(point[axis] for line in lines for point in line.points) for axis in (0, 1)
    )
    across, up = _tick_step(highest_x), _tick_step(highest_y)
    scale_x = (_WIDTH - _LEFT - _RIGHT) / (across * _count(highest_x, across))
    scale_y = (_HEIGHT - _TOP - _BOTTOM) / (up * _count(highest_y, up))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
        f' font-family="sans-serif" font-size="12" role="img" aria-label="{escape(title)}">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
        f'<text x="{_LEFT}" y="20" font-size="14" fill="#222">{escape(title)}</text>',
        *_axis(across, _count(highest_x, across), scale_x, is_vertical=False),
        *_axis(up, _count(highest_y, up), scale_y, is_vertical=True),
    ]
    for line, color in zip(lines, _COLORS, strict=False):
        points = [(_LEFT + x * scale_x, _HEIGHT - _BOTTOM - y * scale_y) for x, y in line.points]
        parts += _drawn(line.name, points, color)
    return "\n".join([*parts, "</svg>\n"])


def _tick_step(highest: float) -> float:
    """Return the smallest round distance with which at most five ticks reach the highest value.

    >>> [_tick_step(highest) for highest in (0.4, 10, 165)]
    [0.1, 2.0, 50.0]
    """
    power = 10.0**-6
    while True:
        for step in _STEPS:
            if step * power * _TICKS >= highest:
                return float(f"{step * power:g}")
        power *= 10


def _count(highest: float, step: float) -> int:
    return max(1, -int(-highest // step))


def _axis(step: float, count: int, scale: float, *, is_vertical: bool) -> Iterator[str]:
    for tick in range(count + 1):
        if is_vertical:
            y = _HEIGHT - _BOTTOM - tick * step * scale
            yield f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}" stroke="#ddd"/>'
            yield f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick * step:g}</text>'
        else:
            x, y = _LEFT + tick * step * scale, _HEIGHT - _BOTTOM + 18
            yield f'<text x="{x:.1f}" y="{y}" text-anchor="middle">{tick * step:g}</text>'


def _drawn(name: str, points: Sequence[tuple[float, float]], color: str) -> Iterator[str]:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    yield f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>'
    yield from (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in points)
    x, y = points[-1]
    yield f'<text x="{x + 8:.1f}" y="{y + 4:.1f}" fill="{color}">{escape(name)}</text>'
