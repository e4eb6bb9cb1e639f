"""Cut a listing into spans that begin with an id."""

from collections.abc import Iterator
from typing import IO

from msgspec.structs import replace

from schemas.span import Span, TokenState
from transforms.formats.base import ReadOptions
from transforms.formats.command_stream.tokenizer import Tokenizer, read_header


def cut_listing(
    stream: IO[bytes], *, source: str, span_bytes: int, options: ReadOptions = ReadOptions()
) -> Iterator[Span]:
    """Yield spans of at least `span_bytes`, except the last; each begins with an id.

    Yield one span if the delimiter is longer than a byte or lines end with CR LF: the begin of a
    token cannot be found then without the tokens before it.
    """
    span = Span(source=source)
    tokens = Tokenizer(stream, span, ReadOptions())
    for _ in read_header(tokens):
        pass
    if tokens.is_single and not tokens.crlf:
        for offset, position in _places(tokens, span_bytes):
            yield replace(span, length=offset - span.offset)
            span = Span(source=source, ordinal=span.ordinal + 1, offset=offset, position=position)
    yield span


def _places(tokens: Tokenizer, span_bytes: int) -> Iterator[tuple[int, TokenState]]:
    """Yield the offset and the position of each span after the first."""
    separator = tokens.delimiter
    tracker = _ListTracker(separator)
    target = span_bytes
    while block := tokens.peek_tokens():
        text = separator + block  # each token then follows a delimiter
        base = tokens.offset - 1
        tracker.at = 1
        while (at := tracker.next_id(text, target - base)) is not None:
            yield base + at, TokenState(separator, tracker.in_list)
            target = base + at + span_bytes
        tokens.skip(len(block))


class _ListTracker:
    """Follows a listing into and out of its id-lists; `at` is the position in the text."""

    def __init__(self, separator: bytes) -> None:
        self.at = 1
        self.in_list = False
        self._separator = separator
        self._empty = separator * 2
        self._list_begin = separator + b"id-list" + separator
        self._id = separator + b"id="

    def next_id(self, text: bytes, least: int) -> int | None:
        """Return the begin of the first id at or after `least`, None if the text has none."""
        while self.at < len(text):
            mark = self._empty if self.in_list else self._list_begin
            end = text.find(mark, self.at - 1)
            begin = self._first_id(text, max(least, self.at), len(text) if end < 0 else end)
            if begin is not None:
                self.at = begin
                return begin
            if end < 0:
                return None
            self.at = end + len(mark)
            self.in_list = not self.in_list
        return None

    def _first_id(self, text: bytes, least: int, most: int) -> int | None:
        mark = self._separator if self.in_list else self._id
        begin = text.find(mark, least - 1, most - 1 + len(mark)) + 1
        return begin if 0 < begin < len(text) else None
