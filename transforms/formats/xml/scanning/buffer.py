"""The bytes of a document that are not consumed yet, and their place in the stream."""

import re
from typing import IO, NamedTuple

from feedferry.schemas.span import Span
from feedferry.transforms.formats.text.byte_scans import count_lines, find
from feedferry.transforms.formats.text.streams import read_block
from feedferry.transforms.formats.xml.scanning.encoding import HEAD_BYTES, Transcoded, detect
from feedferry.transforms.formats.xml.scanning.record_markup import MAX_BLANKS

BLOCK_BYTES = 512 << 10

OVERLAP_BYTES = MAX_BLANKS + 64
"""How much of the buffer is searched again after reading on: more than the longest end tag."""

BLANKS = b" \t\r\n"
"""The white space of XML. Form feed and vertical tab are text."""

_GROWTH = 4
"""The buffer of a large record grows by a quarter: a compromise between copying and memory."""

_SPACE = re.compile(rb"[%b]*" % BLANKS)


class Token(NamedTuple):
    """Markup that a pattern has found: the name of its group, its positions and its bytes."""

    kind: str
    begin: int
    end: int
    text: bytes


class Buffer:
    """The bytes of a stream that are read and not consumed, as UTF-8.

    A *position* is the number of bytes of UTF-8 before it, so it stays right when the buffer reads
    on. `position` is that of the first byte that is not consumed, and `start` that of the first
    byte of `data`. `offset` and `line` are the place of `position` in the stream, in its own
    encoding.
    """

    def __init__(self, stream: IO[bytes], span: Span) -> None:
        head = b""
        if span.offset == 0:
            while len(head) < HEAD_BYTES and (block := stream.read(HEAD_BYTES - len(head))):
                head += block
        codec, self.mark_bytes = detect(head, source=span.source, encoding=span.encoding)
        text = head[self.mark_bytes :]
        self.transcoded = Transcoded(stream, codec, text) if codec != "utf-8" else None
        self._read = self.transcoded.read if self.transcoded else stream.read
        self.data = b"" if self.transcoded else text
        self.start = self.position = 0
        self.offset, self.line = span.offset + self.mark_bytes, span.line
        self._has_ended = False

    @property
    def end(self) -> int:
        """The position after the last byte that is read."""
        return self.start + len(self.data)

    def read_on(self) -> bool:
        """Read a block and drop the consumed bytes; return whether there was more."""
        if not self._has_ended:
            self.drop()
            least = len(self.data) // _GROWTH
            block = read_block(self._read, max(BLOCK_BYTES, least), least=least)
            self._has_ended = not block
            self.data += block
        return not self._has_ended

    def drop(self) -> None:
        """Drop the consumed bytes."""
        self.data = self.data[self.position - self.start :]
        self.start = self.position

    def consume(self, end: int) -> None:
        """Consume the bytes before a position."""
        begin, after = self.position - self.start, end - self.start
        self.line += count_lines(self.data, begin, after)
        if self.transcoded:
            self.offset += len(self.transcoded.original(self.data[begin:after]))
        else:
            self.offset += after - begin
        self.position = end

    def skip_blanks(self) -> bool:
        """Consume white space; return whether anything is left, with its tag name in the buffer."""
        while True:
            blanks = self.match(_SPACE, self.position)
            if blanks and blanks.text:
                self.consume(blanks.end)
            if self.end - self.position >= OVERLAP_BYTES or not self.read_on():
                break
        return self.position < self.end

    def original(self, utf8: bytes) -> bytes:
        """Return the stream's own bytes for a part of it that was read."""
        return self.transcoded.original(utf8) if self.transcoded else utf8

    def text(self, begin: int, end: int) -> bytes:
        """Return the bytes of a range of positions."""
        return self.data[begin - self.start : end - self.start]

    def text_end(self, end: int) -> int:
        """Return the position after the last byte before `end` that is no white space."""
        return self.position + len(self.text(self.position, end).rstrip(BLANKS))

    def find(self, mark: bytes, begin: int, end: int | None = None) -> int:
        """Return the position of a mark in a range, or -1."""
        stop = len(self.data) if end is None else end - self.start
        index = find(self.data, mark, begin - self.start, stop)
        return index + self.start if index >= 0 else -1

    def search(
        self, pattern: re.Pattern[bytes], begin: int, end: int | None = None
    ) -> Token | None:
        """Return the first match of a pattern in a range."""
        stop = len(self.data) if end is None else end - self.start
        return self._token(pattern.search(self.data, begin - self.start, stop))

    def match(self, pattern: re.Pattern[bytes], begin: int, end: int | None = None) -> Token | None:
        """Return the match of a pattern at the begin of a range."""
        stop = len(self.data) if end is None else end - self.start
        return self._token(pattern.match(self.data, begin - self.start, stop))

    def is_all(self, pattern: re.Pattern[bytes], begin: int, end: int) -> bool:
        """Whether a pattern matches the whole of a range."""
        return pattern.fullmatch(self.data, begin - self.start, end - self.start) is not None

    def _token(self, match: re.Match[bytes] | None) -> Token | None:
        if match is None:
            return None
        begin, end = match.span()
        return Token(match.lastgroup or "", begin + self.start, end + self.start, match[0])
