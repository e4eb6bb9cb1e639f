"""Tables of plain text, whose last column is wrapped."""

import shutil
import textwrap
from collections.abc import Iterator, Sequence

_GAP = "  "
_LEAST_CHARS = 24


def aligned(rows: Sequence[Sequence[str]], *, width: int | None = None) -> str:
    """Return rows as lines with aligned columns, `width` characters wide, that of the terminal.

    >>> print(aligned([("ok", "disk", "12 GB free"), ("fail", "target", "refused")]))
    ok    disk    12 GB free
    fail  target  refused
    """
    width = width or shutil.get_terminal_size((100, 24)).columns
    widths = [max(map(len, column)) for column in list(zip(*rows, strict=True))[:-1]]
    return "\n".join(line for row in rows for line in _lines(row, widths, width))


def _lines(row: Sequence[str], widths: Sequence[int], width: int) -> Iterator[str]:
    cells = zip(row[:-1], widths, strict=True)
    begin = "".join(f"{cell:<{length}}{_GAP}" for cell, length in cells)
    room = max(width - len(begin), _LEAST_CHARS)
    for line in textwrap.wrap(row[-1], room, break_long_words=False, break_on_hyphens=False) or [
        ""
    ]:
        yield (begin + line).rstrip()
        begin = " " * len(begin)
