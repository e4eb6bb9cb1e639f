"""The losses of a conversion as text, and tables whose last column is wrapped."""

import shutil
import textwrap
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from feedferry.transforms.rules.adapt import Target
from feedferry.transforms.rules.losses import LossRow

_GAP = "  "
_LEAST_CHARS = 16
_FOOTER = (
    "A field that stops the run is converted without by --accept-loss FIELD. A run stops at any"
    " other field with --fail-on-loss FIELD. Rejects are kept, with their records."
)


def as_text(rows: Sequence[LossRow], target: Target, *, source: str | None) -> str:
    if not rows:
        return f"{source or 'any record'} to {target.format}: nothing is lost"
    head = ("what", "by default", "as", "detail")
    lines = [
        (row.item, row.effect.value, row.name, "; ".join(filter(None, (row.detail, flag_of(row)))))
        for row in rows
    ]
    footer = textwrap.fill(_FOOTER, _columns(), break_on_hyphens=False)
    return f"{aligned([head, *lines])}\n\n{footer}"


def flag_of(row: LossRow) -> str:
    """Return how a reject is avoided; the flags of losses are the same for all fields."""
    return "" if row.change.startswith(("--accept-loss", "--fail-on-loss")) else row.change


def aligned(rows: Sequence[Sequence[str]], *, least: Sequence[int] = ()) -> str:
    """Return rows as lines with aligned columns, as wide as the terminal.

    `least` are the least widths of the first columns.

    >>> print(aligned([("ok", "disk", "12 GB free"), ("fail", "target", "refused")]))
    ok    disk    12 GB free
    fail  target  refused
    """
    columns = list(zip(*rows, strict=True))[:-1]
    longest = (max(map(len, column)) for column in columns)
    widths = [max(pair) for pair in zip_longest(longest, least, fillvalue=0)]
    return "\n".join(line for row in rows for line in _lines(row, widths))


def _columns() -> int:
    return shutil.get_terminal_size((100, 24)).columns


def _lines(row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    cells = zip(row[:-1], widths, strict=True)
    begin = "".join(f"{cell:<{length}}{_GAP}" for cell, length in cells)
    room = max(_columns() - len(begin), _LEAST_CHARS)
    for line in textwrap.wrap(row[-1], room, break_long_words=False, break_on_hyphens=False) or [
        ""
    ]:
        yield (begin + line).rstrip()
        begin = " " * len(begin)
