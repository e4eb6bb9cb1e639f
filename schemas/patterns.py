"""URL patterns of deletions: `*` matches any text, `?` any character.

**Spec:** Thunderstone dataload API, whose only example is `/dir/*`. The page of the appliance
that lists URLs has both wildcards and refuses a deletion for a blank or `*` pattern.
"""

import re

# No part of a path before the first or after the last wildcard: one, several or all hosts.
_WIDE = re.compile(r"(?:[^/]*//)?[^/]*(?:/[*?]*)*")


def is_wide(pattern: str) -> bool:
    """Return whether a pattern is blank or matches a whole host."""
    pattern = pattern.strip()
    if not pattern:
        return True
    return ("*" in pattern or "?" in pattern) and _WIDE.fullmatch(pattern) is not None
