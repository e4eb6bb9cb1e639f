"""The summary of a command: a table of counts, and lines with a label."""

from collections.abc import Sequence

import msgspec

LABEL_CHARS = 10
_COLUMN_CHARS = 12


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Counts in named columns, each row with its label, and further lines with their labels."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[int, ...]], ...]
    lines: tuple[tuple[str, str], ...] = ()
    label_chars: int = 0


def summary_text(summary: Summary) -> str:
    """Return the summary as plain text."""
    table = count_table(summary.columns, summary.rows, label_chars=summary.label_chars)
    width = max(LABEL_CHARS, summary.label_chars)
    return "\n".join([*table, *(f"{label:<{width}}{text}" for label, text in summary.lines)])


def count_table(
    head: Sequence[str], rows: Sequence[tuple[str, Sequence[int]]], *, label_chars: int = 0
) -> list[str]:
    """Return the lines of a table: the names of the columns, then each row after its label."""
    label_chars = max(label_chars, *(len(label) + 2 for label, _ in rows))
    widths = [max(_COLUMN_CHARS, len(name) + 2) for name in head]
    columns = [f"{name:>{width}}" for name, width in zip(head, widths, strict=True)]
    lines = [" " * label_chars + "".join(columns)]
    for label, counts in rows:
        cells = [f"{count:>{width},}" for count, width in zip(counts, widths, strict=True)]
        lines.append(f"{label:<{label_chars}}" + "".join(cells))
    return lines
