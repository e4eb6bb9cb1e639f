"""Which urls a pattern names, as a deletion has it: `*` is any text, `?` any one character."""

import re
from functools import lru_cache
from typing import NamedTuple

_LITERAL = re.compile(r"[^*?]*")
_LAST_BEFORE_SURROGATES, _FIRST_BEHIND = 0xD7FF, 0xE000
_LARGEST = "\U0010ffff"


def fits(pattern: str, url: str) -> bool:
    """Whether the pattern names a url; many wildcards do not make that slow."""
    first, *others = _pieces(pattern)
    if not others:
        return first.matcher.fullmatch(url) is not None
    found = first.matcher.match(url)
    for piece in others[:-1]:
        found = piece.matcher.search(url, found.end()) if found else None
    last = others[-1]
    end = len(url) - last.length
    return found is not None and end >= found.end() and bool(last.matcher.match(url, end))


def literal_prefix(pattern: str) -> str:
    """Return what all urls begin with that a pattern names."""
    found = _LITERAL.match(pattern)
    return found[0] if found else ""


def behind(prefix: str) -> str | None:
    """Return the least text that is greater than all that begin so, `None` if there is none."""
    bare = prefix.rstrip(_LARGEST)
    if not bare:
        return None
    last = ord(bare[-1])
    following = _FIRST_BEHIND if last == _LAST_BEFORE_SURROGATES else last + 1
    return bare[:-1] + chr(following)


class _Piece(NamedTuple):
    """What stands between two stars; all that it matches has one length."""

    matcher: re.Pattern[str]
    length: int


@lru_cache(maxsize=64)
def _pieces(pattern: str) -> tuple[_Piece, ...]:
    return tuple(_Piece(_compile(text), len(text)) for text in pattern.split("*"))


def _compile(text: str) -> re.Pattern[str]:
    return re.compile(".".join(map(re.escape, text.split("?"))), re.DOTALL)
