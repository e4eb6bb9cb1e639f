"""Texts of pages: what comes from the input is shortened."""

MAX_ROWS = 200
"""Most rows of a table."""

MAX_SAMPLES = 3
"""Most examples of a code or field."""

MAX_CHARS = 400
"""Most characters of a text that comes from the input."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def span_text(seconds: float) -> str:
    """Return a rounded duration.

    >>> span_text(3725), span_text(12.34), span_text(0.034)
    ('1 h 2 min', '12.3 s', '0.03 s')
    """
    if seconds < 60:
        return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def bytes_text(count: float) -> str:
    """Return a number of bytes with three digits.

    >>> bytes_text(569_674_155), bytes_text(2_000)
    ('543 MiB', '1.95 KiB')
    """
    power = min(max(int(count).bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    value = count / 1024**power
    return f"{value:.0f} {_UNITS[power]}" if value >= 100 else f"{value:.3g} {_UNITS[power]}"


def short_text(text: str, most: int = MAX_CHARS) -> str:
    return text if len(text) <= most else f"{text[:most]} …"
