"""Patterns of urls, as a deletion names them: `*` is any text, `?` any one character.

**Spec:** Thunderstone dataload API, which has `/dir/*` as its only example; the appliance's page to
list and edit urls has both wildcards, and denies a deletion for a blank or `*` pattern.
"""

import re

# Nothing of a path before the first wildcard, nor after the last: a host, some, or all.
_WIDE = re.compile(r"(?:[^/]*//)?[^/]*(?:/[*?]*)*")


def is_wide(pattern: str) -> bool:
    """Whether a pattern is blank, or covers the whole of a host."""
    pattern = pattern.strip()
    if not pattern:
        return True
    return ("*" in pattern or "?" in pattern) and _WIDE.fullmatch(pattern) is not None
