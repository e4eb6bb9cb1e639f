"""The summary of a command: a table of counts, and lines with a label."""

import msgspec

LABEL_CHARS = 10
_COLUMN_CHARS = 12


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Counts in named columns, each row with its label, and further lines with their labels.

    Without columns, there are lines only.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[int, ...]], ...]
    lines: tuple[tuple[str, str], ...] = ()
    label_chars: int = 0


def summary_text(summary: Summary) -> str:
    """Return the summary as plain text."""
    label_chars = max([summary.label_chars, *(len(label) + 2 for label, _ in summary.rows)])
    widths = [max(_COLUMN_CHARS, len(name) + 2) for name in summary.columns]
    columns = [f"{name:>{width}}" for name, width in zip(summary.columns, widths, strict=True)]
    lines = [" " * label_chars + "".join(columns)] if columns else []
    for label, counts in summary.rows:
        cells = [f"{count:>{width},}" for count, width in zip(counts, widths, strict=True)]
        lines.append(f"{label:<{label_chars}}" + "".join(cells))
    label_chars = max(LABEL_CHARS, summary.label_chars)
    return "\n".join([*lines, *(f"{label:<{label_chars}}{text}" for label, text in summary.lines)])
