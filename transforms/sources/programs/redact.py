"""What no message may show, taken out of messages.

A program may write a secret that it was given, and a message may quote what it wrote: escaped, as
bytes, percent-encoded, a line of it, or as much as the message has room for.
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import AnyStr
from urllib.parse import quote

from msgspec.structs import replace

from schemas.errors import FatalError
from schemas.notice import Notice
from schemas.reject import Reject
from transforms.formats.base import Found

_STARS = "***"
_LEAST = 4
"""The fewest characters of a secret that are hidden without the rest of it."""
_QUOTES = re.compile("(['\"])")


class Mask:
    """Replaces secrets by stars; one of no secrets leaves all as it is."""

    def __init__(self, secrets: Iterable[str]) -> None:
        texts = {text for secret in secrets if secret for text in (secret, *_long_lines(secret))}
        self._shapes = _longest_first(shape for text in texts for shape in _shapes(text))
        self._bytes = _longest_first(map(os.fsencode, texts))

    @property
    def is_empty(self) -> bool:
        return not self._bytes

    @property
    def longest(self) -> int:
        """The bytes of the longest secret."""
        return len(self._bytes[0]) if self._bytes else 0

    def bytes(self, shown: bytes) -> bytes:
        for secret in self._bytes:
            shown = shown.replace(secret, _STARS.encode())
        return shown

    def text(self, shown: str) -> str:
        """Return a message without any secret, or the rest of one where a quotation was cut."""
        for shape in self._shapes:
            shown = shown.replace(shape, _STARS)
        return "".join(map(self._mend_cut, _QUOTES.split(shown)))

    def found(self, found: Found) -> Found:
        """Return what was found, with all that is said of it masked; its bytes are kept."""
        if isinstance(found, Reject):
            return replace(found, reason=self.text(found.reason))
        if isinstance(found, Notice):
            return replace(found, code=self.text(found.code), detail=self.text(found.detail))
        return found

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Mask the message of a FatalError; what it was raised from, which may tell, is not told.

        Its traceback stays.
        """
        try:
            yield
        except FatalError as exc:
            if self.is_empty:
                raise
            raise type(exc)(self.text(str(exc))).with_traceback(exc.__traceback__) from None

    def _mend_cut(self, piece: str) -> str:
        for shape in self._shapes:
            piece = _hide_beginning(piece, shape)
            piece = _hide_beginning(piece[::-1], shape[::-1])[::-1]
        return piece


def _long_lines(secret: str) -> list[str]:
    return [line for line in secret.splitlines() if len(line) >= _LEAST]


def _shapes(text: str) -> Iterator[str]:
    """Yield what a text may look like in a message; which quotes `repr` escapes depends."""
    written = os.fsencode(text)
    yield text
    yield repr(text)[1:-1]
    yield repr('"' + text)[2:-1]
    yield repr(written)[2:-1]
    yield repr(b'"' + written)[3:-1]
    yield quote(written, safe="")


def _longest_first(texts: Iterable[AnyStr]) -> list[AnyStr]:
    """One secret may hold another."""
    return sorted(set(texts), key=len, reverse=True)


def _hide_beginning(piece: str, secret: str) -> str:
    """Hide the beginning of a secret at the end of a piece."""
    if secret[:_LEAST] not in piece:
        return piece
    for length in range(min(len(secret) - 1, len(piece)), _LEAST - 1, -1):
        if piece.endswith(secret[:length]):
            return piece[:-length] + _STARS
    return piece
