"""The tokens of a stream: the bytes between two delimiters."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import IO

from feedferry.schemas.errors import FormatError
from feedferry.schemas.reject import KEPT_BYTES
from feedferry.schemas.span import Span
from feedferry.transforms.formats.base import ReadOptions
from feedferry.transforms.formats.command_stream.stream_formats import StreamOptions
from feedferry.transforms.formats.command_stream.vocabulary import COMMAND_NAMES, USERS
from feedferry.transforms.formats.text.streams import read_block

BLOCK_BYTES = 1 << 17

_COMMAND_BYTES = 32
_CONTENT = b"content"  # the content that follows is not a command and may hold any bytes


class _Capture:
    """The bytes of a stream from an offset on, at most KEPT_BYTES, of which some are in memory."""

    def __init__(self, begin: int) -> None:
        self._begin = begin
        self._kept = b""

    def keep(self, data: bytes, base: int, end: int) -> None:
        """Keep what `data`, which begins at the offset `base`, has of the capture before `end`."""
        begin = self._begin + len(self._kept) - base
        left = KEPT_BYTES - len(self._kept)
        self._kept += data[begin : min(end, begin + left)] if begin >= 0 else b""

    def up_to(self, end: int) -> bytes:
        """Return the kept bytes before an offset."""
        return self._kept[: end - self._begin]


class TokenReader:
    """The tokens of a stream, in order; one block of it is in memory at a time.

    `offset` is the position of the next token in the source. With `crlf`, the CR at the end of
    each token is removed. `is_repaired` is true if the deployed parser does not find the end of the
    last token. Raises FormatError for a token of more than `max_token_bytes`.
    """

    def __init__(self, stream: IO[bytes], span: Span, options: ReadOptions) -> None:
        self.span = span
        own = options.of(StreamOptions)
        self.is_strict = own.strict
        self.limit = own.max_token_bytes
        self.delimiter = b""
        self.crlf = False
        self.is_repaired = False
        self._stream = stream
        self._data = b""
        self._base = span.offset
        self._pos = 0
        self._ended = False
        self._capture: _Capture | None = None

    @property
    def offset(self) -> int:
        return self._base + self._pos

    @property
    def has_plain_tokens(self) -> bool:
        """Whether the delimiter is one byte, so that a token can be found without those before."""
        return len(self.delimiter) == 1 and not self.crlf

    def separate(self, delimiter: bytes) -> None:
        """Use this delimiter from here on."""
        self.delimiter = delimiter
        self._is_long = len(delimiter) > 1
        self._finder = _finder_of(delimiter)
        self._empties = re.compile(b"(?:%b)+" % re.escape(delimiter))

    def skip_empty_tokens(self) -> None:
        """Skip the empty tokens in memory, unless their delimiters may overlap."""
        if not self._is_long:
            match = self._empties.match(self._data, self._pos)
            self._pos = match.end() if match else self._pos

    def next_token(self) -> bytes | None:
        """Return the next token, None at the end."""
        while (end := self._find_end()) < 0:
            self._check_size(len(self._data) - self._finder.lookahead_bytes)
            if self._ended:
                end = len(self._data)
                break
            self._read_block()
        self._check_size(end)
        is_last = end == len(self._data)
        if self._is_long and not self.is_strict:
            strict_end = self._finder.find_strictly(self._data, self._pos, end + 1)
            self.is_repaired = strict_end != end and not is_last
        token = self._data[self._pos : end]
        self._pos = end if is_last else end + len(self.delimiter)
        token = token.removesuffix(b"\r") if self.crlf else token
        return None if is_last and not token else token

    def capture(self, offset: int) -> None:
        """Keep the bytes from `offset` on: the begin of the last token, or of the next."""
        self._capture = _Capture(offset)

    def end_capture(self) -> None:
        self._capture = None

    def captured(self, end: int) -> bytes:
        """Return the bytes from the begin of the capture to `end`, at most KEPT_BYTES."""
        if self._capture is None:
            return b""
        self._keep_captured(end - self._base)
        return self._capture.up_to(end)

    def peek(self, size: int) -> bytes:
        """Return the next `size` bytes without taking them; fewer only at the end."""
        while len(self._data) - self._pos < size and self._read_block():
            pass
        return self._data[self._pos : self._pos + size]

    def peek_tokens(self) -> bytes:
        """Return all tokens in memory, at least one, each with its delimiter; do not take them.

        A last token without a delimiter is not included.
        """
        if len(self._data) - self._pos < BLOCK_BYTES // 4:
            self._read_block()
        while (end := self._data.rfind(self.delimiter, self._pos)) < 0:
            self._check_size(len(self._data))
            if not self._read_block():
                return b""
        return self._data[self._pos : end + len(self.delimiter)]

    def skip(self, size: int) -> None:
        """Skip bytes that `peek` or `peek_tokens` returned."""
        self._pos += size

    def remainder(self) -> Iterator[bytes]:
        """Yield the unread part of the stream, with its delimiters, in blocks."""
        while self._pos < len(self._data) or self._read_block():
            piece = self._data[self._pos :]
            self._pos = len(self._data)
            yield piece

    def error(self, reason: str, offset: int) -> FormatError:
        return FormatError(f"{self.span.source} (byte {offset}): {reason}")

    def _find_end(self) -> int:
        """Return the index of the delimiter after the next token, -1 if more bytes are needed."""
        if not self._is_long:
            return self._data.find(self.delimiter, self._pos)
        if self.is_strict:
            return self._finder.find_strictly(self._data, self._pos)
        return self._finder.find(self._data, self._pos, self._ended)

    def _read_block(self) -> bool:
        if self._ended:
            return False
        self._keep_captured(self._pos)
        unread = self._data[self._pos :]
        size = max(BLOCK_BYTES, len(unread))
        block = read_block(self._stream.read, size, least=len(unread) // 4)
        self._ended = not block
        self._data = unread + block
        self._base += self._pos
        self._pos = 0
        return not self._ended

    def _keep_captured(self, end: int) -> None:
        """Keep the bytes of the capture that are in memory before `end`."""
        if self._capture is not None:
            self._capture.keep(self._data, self._base, end)

    def _check_size(self, end: int) -> None:
        if end - self._pos > self.limit:
            reason = (
                f"a token of more than {self.limit} bytes; "
                f"expected the delimiter {self.delimiter!r} before; raise ⟦max_token_bytes⟧"
            )
            raise self.error(reason, self.offset)


class _DelimiterFinder:
    """Finds a delimiter of several bytes; each method returns its index, or -1."""

    def __init__(self, delimiter: bytes) -> None:
        self._delimiter = delimiter
        names = (*sorted(COMMAND_NAMES), *USERS, "meta-content")
        name = b"|".join(re.escape(name.encode()) for name in names)
        mark = re.escape(delimiter)
        self._followed = re.compile(
            b"%b(?:(?:%b)(?:=|%b|\\Z)|%b|\\Z)" % (mark, name, mark, mark), re.DOTALL
        )
        self.lookahead_bytes = 3 * len(delimiter) + _COMMAND_BYTES
        """How many bytes `find` needs from a delimiter on: two shifts of it and a command."""

    def find_strictly(self, data: bytes, begin: int, last: int | None = None) -> int:
        """Find the delimiter before `last` as the deployed parser does, which never goes back.

        Where a delimiter begins and does not end, its bytes and the byte after them are data, even
        if that byte begins another delimiter.
        """
        while (at := data.find(self._delimiter[:1], begin, last)) >= 0:
            if data.startswith(self._delimiter, at):
                return at
            begun = 1
            while data.startswith(self._delimiter[: begun + 1], at):
                begun += 1
            if at + begun == len(data):
                return -1
            begin = at + begun + 1
        return -1

    def find(self, data: bytes, begin: int, is_end: bool) -> int:
        """Find the first delimiter; if shifts of it overlap, the first that a command follows.

        In `id=a***id=b` with the delimiter `**`, the first id is `a*`.
        """
        at = data.find(self._delimiter, begin)
        if at < 0 or data[begin:at] == _CONTENT:
            return at
        if not is_end and len(data) - at < self.lookahead_bytes:
            return -1
        match = self._followed.search(data, at, at + self.lookahead_bytes)
        is_shifted = match is not None and match.start() < at + len(self._delimiter)
        return match.start() if match and is_shifted else at


_finder_of = lru_cache(maxsize=16)(_DelimiterFinder)
