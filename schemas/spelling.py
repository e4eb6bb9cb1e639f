"""Suggestions for unknown names."""

import difflib
from collections.abc import Iterable


def did_you_mean(word: object, names: Iterable[str]) -> str:
    """Return a question to append to a message, or "" if no name is similar.

    Case is ignored, and `_` is the same as `-`.

    >>> did_you_mean("Gsa_fed", ["gsa-feed", "avro"])
    "; did you mean 'gsa-feed'?"
    """
    name = closest(str(word), names)
    return f"; did you mean {name!r}?" if name is not None else ""


def closest(word: str, names: Iterable[str]) -> str | None:
    """Return the name that is most similar to a word, None if none is similar."""
    by_key = {_key(name): name for name in sorted(names)}
    close = difflib.get_close_matches(_key(word), by_key, n=1)
    return by_key[close[0]] if close else None


def _key(name: str) -> str:
    return name.lower().replace("_", "-")
