"""A command stream's header, and its tokens: the bytes between two delimiters.

**Spec:** GSA adaptor library, CommandStreamParser, "Header Format".

The deployed parser, and `Mode.STRICT`, deviate from it: any version number is accepted, the
delimiter after the header may be missing, and the search for a delimiter never goes back. In
CR CR LF it does not find CR LF.
"""

import re
from collections.abc import Callable, Iterator
from typing import IO

from schemas.errors import ConfigError, FormatError, RecordError
from schemas.notice import Notice
from schemas.span import Span
from transforms.formats.base import Mode, ReadOptions
from transforms.formats.command_stream.syntax import (
    COMMAND_NAMES,
    PREFIX,
    TRIMMED,
    check_delimiter,
    decode,
    integer,
)
from transforms.formats.streams import read_block

BLOCK_BYTES = 1 << 17
KEPT_BYTES = 1 << 20
"""Most bytes that are kept of a capture."""

BEFORE_HEADER = rb"(?:\xef\xbb\xbf)?\s*(?:-e\s+)?"
"""A byte order mark, blanks, and the `-e` that the `echo` of some shells prints."""

_BEFORE = re.compile(BEFORE_HEADER + b"(?=GSA Adaptor)")
_BEFORE_BYTES = 1 << 12
_LINE_BYTES = 1 << 16
_SHOWN_BYTES = 40
_FIRST_LINE_ENDS_CRLF = re.compile(rb"\n*[^\n]*\r\n")
_COMMAND_BYTES = 32
_CONTENT = b"content"  # the content that follows is not a command and may hold any bytes
_AUTHORIZER_NAMES = ("username", "user", "password", "group")


class Tokenizer:
    """The tokens of a stream, in order; one block of the stream is in memory at a time.

    `offset` is the position of the next token in the source. With `crlf`, the CR at the end of
    each token is removed. `is_repaired` is true if the deployed parser does not find the end of
    the last token. Raises FormatError for a token of more than `max_token_bytes`.
    """

    def __init__(self, stream: IO[bytes], span: Span, options: ReadOptions) -> None:
        self.span = span
        self.is_strict = options.mode is Mode.STRICT
        self.limit = options.max_token_bytes
        self.delimiter = b""
        self.crlf = False
        self.is_repaired = False
        self._stream = stream
        self._data = b""
        self._base = span.offset
        self._pos = 0
        self._ended = False
        self._capture_begin: int | None = None
        self._captured = b""

    @property
    def offset(self) -> int:
        return self._base + self._pos

    @property
    def is_single(self) -> bool:
        """Whether the delimiter is one byte, so that all parsers find the same tokens."""
        return len(self.delimiter) == 1

    def separate(self, delimiter: bytes) -> None:
        """Use this delimiter from here on."""
        self.delimiter = delimiter
        self._strict = _StrictFinder(delimiter)
        self._find: _Find = lambda data, begin, _is_end: data.find(delimiter, begin)
        if len(delimiter) > 1:
            self._find = self._strict.find if self.is_strict else _LenientFinder(delimiter).find
        self._is_ambiguous = len(delimiter) > 1 and not self.is_strict
        self._slack = _lookahead_bytes(delimiter)
        self._empties = re.compile(b"(?:%b)+" % re.escape(delimiter))

    def next(self) -> bytes | None:
        """Return the next token, None at the end."""
        while (end := self._find(self._data, self._pos, self._ended)) < 0:
            self._check_size(len(self._data) - self._slack)
            if self._ended:
                return self._last()
            self._read_block()
        self._check_size(end)
        if self._is_ambiguous:
            self.is_repaired = self._strict.find(self._data, self._pos, last=end + 1) != end
        token = self._data[self._pos : end]
        self._pos = end + len(self.delimiter)
        return token.removesuffix(b"\r") if self.crlf else token

    def capture(self, offset: int) -> None:
        """Keep the bytes from `offset` on: the begin of the last token, or of the next."""
        self._capture_begin, self._captured = offset, b""

    def end_capture(self) -> None:
        self._capture_begin, self._captured = None, b""

    def captured(self, end: int) -> bytes:
        """Return the bytes from the begin of the capture to `end`, at most KEPT_BYTES."""
        if self._capture_begin is None:
            return b""
        data = self._captured + self._not_yet_captured(end - self._base)
        return data[: end - self._capture_begin]

    def peek(self, size: int) -> bytes:
        """Return the next `size` bytes without taking them; fewer only at the end."""
        while len(self._data) - self._pos < size and self._read_block():
            pass
        return self._data[self._pos : self._pos + size]

    def skip(self, size: int) -> None:
        """Skip bytes that `peek`, `peek_before` or `peek_tokens` returned."""
        self._pos += size

    def skip_empty(self) -> None:
        """Skip the empty tokens that are in memory, with a delimiter of one byte."""
        if self.is_single:
            match = self._empties.match(self._data, self._pos)
            self._pos = match.end() if match else self._pos

    def peek_before(self, marker: bytes, *, limit: bytes | None = None) -> bytes:
        """Return the bytes in memory before the last `marker`, without taking them.

        If `limit` is in memory, markers after it do not count.
        """
        if len(self._data) - self._pos < BLOCK_BYTES // 4:
            self._read_block()
        stop = -1 if limit is None else self._data.find(limit, self._pos)
        end = self._data.rfind(marker, self._pos, None if stop < 0 else stop + len(marker))
        return self._data[self._pos : end] if end >= 0 else b""

    def peek_tokens(self) -> bytes:
        """Return all tokens in memory, at least one, each with its delimiter; do not take them.

        A last token without a delimiter is not included.
        """
        end = self._data.rfind(self.delimiter, self._pos)
        while end < 0:
            self._check_size(len(self._data))
            if not self._read_block():
                return b""
            end = self._data.rfind(self.delimiter, self._pos)
        return self._data[self._pos : end + len(self.delimiter)]

    def remainder(self) -> Iterator[bytes]:
        """Yield the unread part of the stream, with its delimiters, in blocks."""
        piece = self._data[self._pos :]
        self._pos = len(self._data)
        if piece:
            yield piece
        while self._read_block():
            piece = self._data
            self._pos = len(self._data)
            yield piece

    def notice(self, code: str, detail: str, offset: int) -> Notice:
        source, span = self.span.source, self.span.ordinal
        return Notice(code=code, detail=detail, source=source, span=span, offset=offset)

    def error(self, reason: str, offset: int) -> FormatError:
        return FormatError(f"{self.span.source} (byte {offset}): {reason}")

    def _read_block(self) -> bool:
        if self._ended:
            return False
        self._captured += self._not_yet_captured(self._pos)
        unread = self._data[self._pos :]
        size = max(BLOCK_BYTES, len(unread))
        block = read_block(self._stream.read, size, least=len(unread) // 4)
        self._ended = not block
        self._data = unread + block
        self._base += self._pos
        self._pos = 0
        return not self._ended

    def _not_yet_captured(self, end: int) -> bytes:
        """Return the bytes of the capture that are in memory before `end` and not yet kept."""
        if self._capture_begin is None:
            return b""
        begin = self._capture_begin + len(self._captured) - self._base
        left = KEPT_BYTES - len(self._captured)
        return self._data[begin:end][:left] if begin >= 0 else b""

    def _check_size(self, end: int) -> None:
        if end - self._pos > self.limit:
            reason = (
                f"a token of more than {self.limit} bytes; "
                f"expected the delimiter {self.delimiter!r} before; raise --max-token-bytes"
            )
            raise self.error(reason, self.offset)

    def _last(self) -> bytes | None:
        self._check_size(len(self._data))
        self.is_repaired = False
        token = self._data[self._pos :]
        self._pos = len(self._data)
        return (token.removesuffix(b"\r") if self.crlf else token) or None


_Find = Callable[[bytes, int, bool], int]
"""Returns the index of the next delimiter in a block from an index on, or -1.

The third argument is true if the stream ends with the block.
"""


class _StrictFinder:
    """Finds a delimiter as the deployed parser does, which never goes back.

    Where a delimiter begins and does not end, its bytes and the byte after them are data, even if
    that byte begins another delimiter.
    """

    def __init__(self, delimiter: bytes) -> None:
        self._size = len(delimiter)
        self._first = delimiter[:1]
        self._begun = re.compile(_begin_pattern(delimiter), re.DOTALL)

    def find(
        self, data: bytes, begin: int, is_end: bool = False, *, last: int | None = None
    ) -> int:
        """Return the index, or -1 if the delimiter is not in `data` or not before `last`."""
        while (at := data.find(self._first, begin, last)) >= 0:
            match = self._begun.match(data, at)
            end = match.end() if match else at
            if end - at == self._size:
                return at
            if end == len(data):
                return -1
            begin = end + 1
        return -1


def _begin_pattern(delimiter: bytes) -> bytes:
    """Return a pattern for the longest begin of a delimiter."""
    pattern = b""
    for at in range(len(delimiter) - 1, 0, -1):
        pattern = b"(?:" + re.escape(delimiter[at : at + 1]) + pattern + b")?"
    return re.escape(delimiter[:1]) + pattern


def _lookahead_bytes(delimiter: bytes) -> int:
    """Return how many bytes a finder needs from a delimiter on: two shifts of it and a command."""
    return 3 * len(delimiter) + _COMMAND_BYTES


class _LenientFinder:
    """Finds the first delimiter; if shifts of it overlap, the first that a command follows.

    In `id=a***id=b` with the delimiter `**`, the first id is `a*`.
    """

    def __init__(self, delimiter: bytes) -> None:
        self._delimiter = delimiter
        self._steps = [
            step for step in range(1, len(delimiter)) if delimiter.startswith(delimiter[step:])
        ]
        self._lookahead = _lookahead_bytes(delimiter)
        names = (*COMMAND_NAMES, *_AUTHORIZER_NAMES, "meta-content")
        name = b"|".join(re.escape(name.encode()) for name in names)
        mark = re.escape(delimiter)
        self._command = re.compile(b"(?:%b)(?:=|%b|\\Z)|%b" % (name, mark, mark))

    def find(self, data: bytes, begin: int, is_end: bool) -> int:
        at = data.find(self._delimiter, begin)
        if at < 0 or not self._steps or data[begin:at] == _CONTENT:
            return at
        if not is_end and len(data) - at < self._lookahead:
            return -1
        for shifted in (at, *(at + step for step in self._steps)):
            after = shifted + len(self._delimiter)
            is_delimiter = data.startswith(self._delimiter, shifted)
            if is_delimiter and (after == len(data) or self._command.match(data, after)):
                return shifted
        return at


def read_header(tokens: Tokenizer) -> Iterator[Notice]:
    """Read the header, and in lenient mode the line ends; yield a notice for each repair.

    Raises FormatError if there is no header.
    """
    if not tokens.is_strict:
        yield from _skip_before(tokens)
    head = tokens.peek(_SHOWN_BYTES)
    if not head.startswith(PREFIX):
        shown = head.partition(b"[")[0].decode(errors="backslashreplace")
        raise _bad_header(tokens, f"{shown!r}; expected {PREFIX.decode()!r} to begin with")
    try:
        tokens.separate(b"[")
        line = decode(tokens.next() or b"")
        tokens.separate(b"]")
        delimiter = check_delimiter(decode(tokens.next() or b""))
    except (RecordError, ConfigError) as exc:
        raise _bad_header(tokens, str(exc)) from exc
    _check_version(tokens, line[len(PREFIX) :])
    tokens.separate(delimiter.encode())
    if not tokens.is_strict and delimiter == "\n":
        yield from _detect_crlf(tokens)


def _detect_crlf(tokens: Tokenizer) -> Iterator[Notice]:
    """Lines end with CR LF if the first one does."""
    tokens.crlf = _FIRST_LINE_ENDS_CRLF.match(tokens.peek(_LINE_BYTES)) is not None
    if tokens.crlf:
        detail = "CR LF at the end of lines, LF in the header; a CR is taken off each"
        yield tokens.notice("crlf", detail, tokens.offset)


def _skip_before(tokens: Tokenizer) -> Iterator[Notice]:
    match = _BEFORE.match(tokens.peek(_BEFORE_BYTES))
    if match and match[0]:
        offset = tokens.offset
        tokens.skip(len(match[0]))
        yield tokens.notice("before-header", f"{match[0]!r} before the header; skipped", offset)


def _check_version(tokens: Tokenizer, version: str) -> None:
    """The deployed parser requires three characters, and accepts any number among them."""
    is_long_enough = len(version) >= 3 or not tokens.is_strict
    if not is_long_enough or integer(version.strip(TRIMMED), bits=32) is None:
        raise _bad_header(tokens, f"version {version!r}; expected a number between spaces")


def _bad_header(tokens: Tokenizer, reason: str) -> FormatError:
    return FormatError(f"{tokens.span.source}: header: {reason}")
