"""Patterns of deletions: `*` matches any text, `?` any character, and all else itself.

The Thunderstone dataload API has only the example `/dir/*`. The page of the appliance that lists
URLs has both wildcards, and refuses a deletion for a blank or `*` pattern.
"""

import re
from functools import lru_cache

# No part of a path before the first or after the last wildcard: one, several or all hosts.
_WIDE_PATTERN = re.compile(r"(?:[^/]*//)?[^/]*(?:/[*?]*)*")


def is_wide(pattern: str) -> bool:
    """Return whether a pattern is blank or matches a whole host."""
    pattern = pattern.strip()
    if not pattern:
        return True
    return ("*" in pattern or "?" in pattern) and _WIDE_PATTERN.fullmatch(pattern) is not None


@lru_cache(maxsize=16)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Return the expression that matches the whole URLs of a pattern.

    >>> bool(compile_pattern("http://h/a?[1]*").fullmatch("http://h/a-[1]/b"))
    True
    """
    texts = pattern.strip().split("*")
    first, *others = (".".join(map(re.escape, text.split("?"))) for text in texts)
    if not others:
        return re.compile(first, re.DOTALL)
    *middle, last = others
    found = "".join(f"(?>.*?{part})" for part in middle)  # no way back, which would take long
    return re.compile(f"{first}{found}.*{last}", re.DOTALL)


def sqlite_glob(pattern: str) -> str:
    """Return the operand of GLOB, in SQLite, that matches the same URLs."""
    return pattern.strip().replace("[", "[[]")


def prefix_of(pattern: str) -> str:
    """Return the text before the first wildcard, with which all its URLs begin."""
    return re.split(r"[*?]", pattern.strip(), maxsplit=1)[0]
