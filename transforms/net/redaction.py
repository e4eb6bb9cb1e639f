"""Remove secrets from messages.

A program may write a secret that it was given, and a message may quote the output of the program:
escaped, as bytes, percent-encoded, one line of it, or truncated.
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar
from urllib.parse import quote

from msgspec.structs import replace

from feedferry.schemas.errors import FatalError
from feedferry.schemas.notice import Notice
from feedferry.schemas.reject import Reject

Result = TypeVar("Result")
_STARS = "***"
_MIN_PART = 4
"""Fewest characters of a truncated secret that are hidden, and of one that is within a word."""
_QUOTES = re.compile("(['\"])")


class Mask:
    """Replaces secrets by stars."""

    def __init__(self, secrets: Iterable[str]) -> None:
        texts = {text for secret in secrets if secret for text in (secret, *_long_lines(secret))}
        spellings = {spelling for text in texts for spelling in _spellings(text)}
        self._spellings = sorted(spellings, key=len, reverse=True)  # one may contain another
        self._patterns = [*map(_pattern_of, self._spellings)]

    @property
    def longest(self) -> int:
        """The length of the longest spelling of a secret."""
        return len(self._spellings[0]) if self._spellings else 0

    def text(self, message: str) -> str:
        """Return a message without secrets and without parts of secrets in truncated quotations."""
        for pattern in self._patterns:
            message = pattern.sub(_STARS, message)
        return "".join(map(self._hide_parts, _QUOTES.split(message)))

    def result(self, result: Result) -> Result:
        """Return a result with masked reasons and details; the bytes of rejects are kept."""
        if isinstance(result, Reject):
            return replace(result, reason=self.text(result.reason))
        if isinstance(result, Notice):
            return replace(result, code=self.text(result.code), detail=self.text(result.detail))
        return result

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Mask the message of a FatalError and drop its cause, which may show a secret."""
        try:
            yield
        except FatalError as exc:
            if not self._spellings:
                raise
            raise type(exc)(self.text(exc.text)).with_traceback(exc.__traceback__) from None

    def _hide_parts(self, piece: str) -> str:
        for spelling in self._spellings:
            piece = _hide_beginning(piece, spelling)
            piece = _hide_beginning(piece[::-1], spelling[::-1])[::-1]
        return piece


def _pattern_of(spelling: str) -> re.Pattern[str]:
    """Return what hides a spelling: a short one as a word, and one letter as a value."""
    text = re.escape(spelling)
    before = r"(?<!\w)" if len(spelling) > 1 else r"(?<=['\":=])"
    return re.compile(text if len(spelling) >= _MIN_PART else rf"{before}{text}(?!\w)")


def _long_lines(secret: str) -> list[str]:
    return [line for line in secret.splitlines() if len(line) >= _MIN_PART]


def _spellings(text: str) -> Iterator[str]:
    """Yield the ways in which messages may quote a text; `repr` escapes either kind of quote."""
    data = os.fsencode(text)
    yield text
    yield repr(text)[1:-1]
    yield repr('"' + text)[2:-1]
    yield repr(data)[2:-1]
    yield repr(b'"' + data)[3:-1]
    yield quote(data, safe="")


def _hide_beginning(piece: str, secret: str) -> str:
    """Hide the first characters of a secret at the end of a piece."""
    if secret[:_MIN_PART] not in piece:
        return piece
    for length in range(min(len(secret) - 1, len(piece)), _MIN_PART - 1, -1):
        if piece.endswith(secret[:length]):
            return piece[:-length] + _STARS
    return piece
