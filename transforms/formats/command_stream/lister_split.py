"""Cuts a listing into spans that begin with an id; their context tells whether that is listed."""

from collections.abc import Iterator
from typing import IO

from msgspec.structs import replace

from schemas.span import Span
from transforms.formats.base import ReadOptions
from transforms.formats.command_stream.tokenizer import Tokens, read_header, read_line_ends

_IN_LIST = b"L"
_OUTSIDE = b"-"
_LENIENT = ReadOptions()


def cut_listing(stream: IO[bytes], *, source: str, span_bytes: int) -> Iterator[Span]:
    """Yield spans of at least `span_bytes`, but for the last; one, if its delimiter is long.

    Nobody can tell where a token of a stream begins whose delimiter may overlap its data.
    """
    whole = Span(source=source)
    tokens = Tokens(stream, whole, _LENIENT)
    for _ in read_header(tokens, span=whole, options=_LENIENT):
        pass
    for _ in read_line_ends(tokens, span=whole, options=_LENIENT):
        pass
    if not tokens.is_single or tokens.crlf:
        yield whole
        return
    span = whole
    for offset, context in _places(tokens, span_bytes):
        yield replace(span, length=offset - span.offset)
        span = Span(source=source, ordinal=span.ordinal + 1, offset=offset, context=context)
    yield span


def in_list(context: bytes) -> bool:
    """Whether the span with this context begins inside an id-list."""
    return context[:1] == _IN_LIST


def delimiter_of(context: bytes) -> bytes:
    """Return the delimiter of a stream from the context of one of its spans."""
    return context[1:]


def _places(tokens: Tokens, span_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Yield where a span may begin, and its context."""
    separator = tokens.delimiter
    course = _Course(separator)
    target = span_bytes
    while stretch := tokens.stretch():
        # As tokens begin behind a delimiter, the text is looked at with one before it.
        text = separator + stretch
        base = tokens.offset - 1
        course.at = 1
        while (at := course.following(text, target - base)) is not None:
            yield base + at, (_IN_LIST if course.in_list else _OUTSIDE) + separator
            target = base + at + span_bytes
        tokens.skip(len(stretch))


class _Course:
    """Follows a listing in and out of its id-lists; `at` is how far a text is known."""

    def __init__(self, separator: bytes) -> None:
        self.at = 1
        self.in_list = False
        self._separator = separator
        self._empty = separator * 2
        self._begin = separator + b"id-list" + separator
        self._id = separator + b"id="

    def following(self, text: bytes, least: int) -> int | None:
        """Return where the first id at or behind `least` begins; None if that is further on."""
        while self.at < len(text):
            mark = self._empty if self.in_list else self._begin
            end = text.find(mark, self.at - 1)
            found = self._id_from(text, max(least, self.at), len(text) if end < 0 else end)
            if found is not None:
                self.at = found
                return found
            if end < 0:
                return None
            self.at = end + len(mark)
            self.in_list = not self.in_list
        return None

    def _id_from(self, text: bytes, least: int, most: int) -> int | None:
        """Return where the first id at or behind `least` begins, if not behind `most`."""
        mark = self._separator if self.in_list else self._id
        at = text.find(mark, least - 1, most - 1 + len(mark))
        behind = at + 1
        return behind if at >= 0 and behind < len(text) else None
