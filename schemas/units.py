"""Sizes, durations and counts as text: one grammar for flags, YAML files and messages."""

import re
from collections.abc import Sequence

from feedferry.schemas.errors import ConfigError

BYTES = {"b": 1}
"""Bytes of each unit of size, in small letters: `kb` is 1000 bytes, `kib` 1024."""

BYTES |= {f"{unit}b": 1000**power for power, unit in enumerate("kmgt", start=1)}
BYTES |= {f"{unit}ib": 1024**power for power, unit in enumerate("kmgt", start=1)}

SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
"""Seconds of each unit of time, the longest first."""

SIZE_PATTERN = "^[0-9]{1,18} ?([kKmMgGtT]?[iI]?[bB])?$"
"""Sizes as a regular expression of JSON Schema."""

DURATION_PATTERN = "^([0-9]{1,9}([.][0-9]{1,6})? ?(d|h|m|s|ms) ?)+$"
"""Durations as a regular expression of JSON Schema; the order of the units is not in it."""

_SIZE = re.compile(r"([0-9]{1,18}) ?([kmgt]i?b|b)?", re.ASCII | re.IGNORECASE)
_NUMBER = r"[0-9]{1,9}(?:\.[0-9]{1,6})?"
_DURATION = re.compile("".join(rf"(?:({_NUMBER}) ?{unit} ?)?" for unit in SECONDS), re.ASCII)
_BINARY_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_UNIT_NAMES = ("TiB", "TB", "GiB", "GB", "MiB", "MB", "KiB", "kB")


def parse_size(text: str) -> int:
    """Return a number of bytes.

    >>> parse_size("900MiB")
    943718400
    """
    match = _SIZE.fullmatch(text)
    if not match:
        raise ConfigError(f"{text!r}; expected a size such as 4096, 64KiB, 900MiB or 1GB")
    return int(match[1]) * BYTES[(match[2] or "b").lower()]


def size_text(count: int) -> str:
    """Return the shortest text that `parse_size` reads as this number of bytes.

    >>> size_text(943718400)
    '900MiB'
    """
    for name in _UNIT_NAMES:
        if count and count % BYTES[name.lower()] == 0:
            return f"{count // BYTES[name.lower()]}{name}"
    return str(count)


def parse_duration(text: str) -> float:
    """Return a number of seconds, 0 or more.

    >>> parse_duration("1h30m")
    5400.0
    """
    match = _DURATION.fullmatch(text.strip())
    if not match or not any(match.groups()):
        raise ConfigError(f"{text!r}; expected a duration such as 200ms, 90s, 2h, 1h30m or 1d")
    numbers = zip(match.groups("0"), SECONDS.values(), strict=True)
    return sum(float(number) * seconds for number, seconds in numbers)


def duration_text(seconds: float) -> str:
    """Return a text that `parse_duration` reads as this number of seconds, in its longest unit.

    >>> duration_text(5400.0)
    '90m'
    """
    for unit, length in SECONDS.items():
        if seconds and seconds % length == 0:
            return f"{round(seconds / length)}{unit}"
    return f"{seconds:g}s"


def format_duration(seconds: float) -> str:
    """Return a rounded duration in words, for messages.

    >>> format_duration(121.3)
    '2 minutes'
    """
    if seconds < 100:
        return _format_count(float(f"{seconds:.2g}"), "second")
    if seconds < 100 * 60:
        return _format_count(round(seconds / 60, 1), "minute")
    if seconds < 48 * 3600:
        return _format_count(round(seconds / 3600, 1), "hour")
    return _format_count(round(seconds / 86400, 1), "day")


def _format_count(number: float, unit: str) -> str:
    return f"{number:g} {unit}{'' if number == 1 else 's'}"


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is 1."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def names_text(names: Sequence[str]) -> str:
    """Return names for a message; after ten, the others are counted.

    >>> names_text(["a.xml", "b.xml"])
    'a.xml, b.xml'
    """
    more = f" and {len(names) - 10:,} more" if len(names) > 10 else ""
    return ", ".join(names[:10]) + more


def format_size(count: int) -> str:
    """Return a rounded number of bytes.

    >>> format_size(943718400)
    '900.0 MiB'
    """
    power = min(max(count.bit_length() - 1, 0) // 10, len(_BINARY_UNITS) - 1)
    return f"{count} B" if power == 0 else f"{count / 1024**power:.1f} {_BINARY_UNITS[power]}"


def format_clock(seconds: float) -> str:
    """Return a duration as hours, minutes and seconds.

    >>> format_clock(3725)
    '1:02:05'
    """
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
