"""A command stream's header, and its tokens: the bytes between two delimiters.

**Spec:** GSA adaptor library, CommandStreamParser, "Header Format".

What the deployed parser does beyond it, and `Mode.STRICT` does as well: any version number is
read, the delimiter behind the header may be missing, and a delimiter is looked for without going
back, so that of CR CR LF no CR LF is seen.
"""

import re
from collections.abc import Callable, Iterator
from typing import IO

from schemas.errors import FormatError, RecordError
from schemas.notice import Notice
from schemas.span import Span
from transforms.formats.base import Mode, ReadOptions
from transforms.formats.xml.window import read_block

PREFIX = b"GSA Adaptor Data Version"
BLOCK_BYTES = 1 << 17
KEPT_BYTES = 1 << 20
"""Most bytes that are kept of what was marked."""

COMMAND_NAMES = (
    *("id", "id-list", "repository-unavailable", "result-link", "last-modified"),
    *("crawl-immediately", "crawl-once", "lock", "delete", "up-to-date", "not-found"),
    *("mime-type", "meta-name", "meta-value", "param-name", "param-value", "content"),
    *("authz-status", "secure", "anchor-uri", "anchor-text", "no-index", "no-follow"),
    *("no-archive", "display-url", "acl", "namespace", "acl-permit-user", "acl-deny-user"),
    *("acl-permit-group", "acl-deny-group", "acl-inherit-from", "acl-inherit-fragment"),
    *("acl-inheritance-type", "acl-case-sensitive", "acl-case-insensitive"),
)
"""All commands that the deployed parser knows."""

FORBIDDEN = re.compile(r"[a-zA-Z0-9:/\-_ =+\[\]]")
"""A character that no delimiter may have."""

TRIMMED = "".join(map(chr, range(0x21)))
"""What Java trims."""

DELIMITER_SIZE = 100  # the pattern that looks for one is nested as deeply
_OTHER_NAMES = ("username", "user", "password", "group", "meta-content")

# A byte order mark, and the flag that some shells have their `echo` say
BEFORE_HEADER = rb"(?:\xef\xbb\xbf)?\s*(?:-e\s+)?"
_BEFORE = re.compile(BEFORE_HEADER + b"(?=GSA Adaptor)")
_BEFORE_BYTES = 1 << 12
_LINE_BYTES = 1 << 16
_SHOWN_BYTES = 40
_NUMBER = re.compile(r"[+-]?\d+")
_DIGIT = re.compile(r"\d")
_BEYOND_CHAR = re.compile("[\U00010000-\U0010ffff]")  # Java looks at halves of these
_LONGEST = 19 + 1
_MODIFIED = re.compile(rb"\xc0([\x80\x8a])")
_MODIFIED_CHARS = {b"\x80": b"\x00", b"\x8a": b"\n"}
_FIRST_LINE_ENDS_CRLF = re.compile(rb"\n*[^\n]*\r\n")
_COMMAND_BYTES = 32
_CONTENT = b"content"  # what follows is no command, and may be anything


def decode(token: bytes) -> str:
    """Return a token as text; raise RecordError where it is not UTF-8, but for C0 80 and C0 8A."""
    if b"\xc0" in token:
        token = _MODIFIED.sub(lambda match: _MODIFIED_CHARS[match[1]], token)
    try:
        return token.decode()
    except UnicodeDecodeError as exc:
        found = token[exc.start : exc.start + 4]
        reason = f"the bytes {found!r} in a token; expected UTF-8, with C0 80 and C0 8A besides"
        raise RecordError("not-utf8", reason) from exc


def integer(text: str, *, bits: int) -> int | None:
    """Return the number that Java reads in `text`: any decimal digits, no blanks, `bits` wide."""
    if not _NUMBER.fullmatch(text) or _BEYOND_CHAR.search(text):
        return None
    text = text if text.isascii() else _DIGIT.sub(lambda match: str(int(match[0])), text)
    if len(text.lstrip("+-0")) > _LONGEST:
        return None
    number = int(text.lstrip("+-0") or "0") * (-1 if text[0] == "-" else 1)
    return number if -(2 ** (bits - 1)) <= number < 2 ** (bits - 1) else None


class Tokens:
    """The tokens of a stream, one after the other; a block of the stream is in memory at a time.

    `offset` is that of the next token, from where the source begins; `crlf` takes a CR off the end
    of each; `is_mended` tells whether the last token ends where the deployed parser sees no end.
    Raises FormatError for a token of more than `max_token_bytes`.
    """

    def __init__(self, stream: IO[bytes], span: Span, options: ReadOptions) -> None:
        self._stream = stream
        self._source = span.source
        self._is_strict = options.mode is Mode.STRICT
        self._data = b""
        self._base = span.offset
        self._pos = 0
        self._ended = False
        self._mark: int | None = None
        self._kept = b""
        self.limit = options.max_token_bytes
        self.delimiter = b""
        self.crlf = False
        self.is_mended = False

    @property
    def offset(self) -> int:
        return self._base + self._pos

    @property
    def is_single(self) -> bool:
        """Whether the delimiter is one byte, so that nobody can disagree on where it is."""
        return len(self.delimiter) == 1

    def separate(self, delimiter: bytes) -> None:
        """Separate what follows by this delimiter."""
        self.delimiter = delimiter
        self._find = self._finder(delimiter)
        self._is_ambiguous = len(delimiter) > 1 and not self._is_strict
        self._deployed = _Deployed(delimiter, self._window)
        self._slack = _ahead_of(delimiter)
        self._empties = re.compile(b"(?:%b)+" % re.escape(delimiter))

    def next(self) -> bytes | None:
        """Return the next token, None at the end."""
        while (end := self._find(self._pos)) < 0:
            self._check_size(len(self._data) - self._slack)
            if self._ended:
                return self._last()
            self._more()
        self._check_size(end)
        if self._is_ambiguous:
            self.is_mended = self._deployed.find(self._pos, end + 1) != end
        token = self._data[self._pos : end]
        self._pos = end + len(self.delimiter)
        return token.removesuffix(b"\r") if self.crlf else token

    def mark(self, offset: int) -> None:
        """Keep what stands from `offset` on: the last token that was returned, or the next."""
        self._mark, self._kept = offset, b""

    def forget(self) -> None:
        """Keep no longer what was marked."""
        self._mark, self._kept = None, b""

    def marked(self, end: int) -> bytes:
        """Return what stands from the mark up to `end`, of which KEPT_BYTES are kept at most."""
        if self._mark is None:
            return b""
        return (self._kept + self._unkept(end - self._base))[: end - self._mark]

    def peek(self, size: int) -> bytes:
        """Return the next `size` bytes and leave them there; fewer only at the end."""
        while len(self._data) - self._pos < size and self._more():
            pass
        return self._data[self._pos : self._pos + size]

    def skip(self, size: int) -> None:
        """Pass over bytes that were looked at."""
        self._pos += size

    def skip_empty(self) -> None:
        """Pass over empty tokens that are in memory, all or none."""
        if self.is_single:
            match = self._empties.match(self._data, self._pos)
            self._pos = match.end() if match else self._pos

    def ahead(self, marker: bytes, *, before: bytes | None = None) -> bytes:
        """Return all that is in memory and stands before the last `marker`, and leave it there.

        If there is a `before` in memory, it is not looked for behind that.
        """
        if len(self._data) - self._pos < BLOCK_BYTES // 4:
            self._more()
        stop = -1 if before is None else self._data.find(before, self._pos)
        end = self._data.rfind(marker, self._pos, None if stop < 0 else stop + len(marker))
        return self._data[self._pos : end] if end >= 0 else b""

    def stretch(self) -> bytes:
        """Return at least one token and all others that are in memory, each with its delimiter.

        They are left there. What the end of the stream ends, and no delimiter, is not among them.
        """
        end = self._data.rfind(self.delimiter, self._pos)
        while end < 0:
            self._check_size(len(self._data))
            if not self._more():
                return b""
            end = self._data.rfind(self.delimiter, self._pos)
        return self._data[self._pos : end + len(self.delimiter)]

    def rest(self) -> Iterator[bytes]:
        """Yield what is left of the stream, delimiters and all, in blocks."""
        piece = self._data[self._pos :]
        self._pos = len(self._data)
        if piece:
            yield piece
        while self._more():
            piece = self._data
            self._pos = len(self._data)
            yield piece

    def _more(self) -> bool:
        if self._ended:
            return False
        self._kept += self._unkept(self._pos)
        unread = self._data[self._pos :]
        size = max(BLOCK_BYTES, len(unread))
        block = read_block(self._stream.read, size, least=len(unread) // 4)
        self._ended = not block
        self._data = unread + block
        self._base += self._pos
        self._pos = 0
        return not self._ended

    def _unkept(self, end: int) -> bytes:
        """What was marked, is not kept yet, and stands in memory before `end`."""
        if self._mark is None:
            return b""
        begin = self._mark + len(self._kept) - self._base
        return self._data[begin:end][: KEPT_BYTES - len(self._kept)] if begin >= 0 else b""

    def _check_size(self, end: int) -> None:
        if end - self._pos > self.limit:
            raise FormatError(
                f"{self._source} (byte {self.offset}): a token of more than {self.limit} bytes; "
                f"expected the delimiter {self.delimiter!r} before; raise --max-token-bytes"
            )

    def _last(self) -> bytes | None:
        self._check_size(len(self._data))
        self.is_mended = False
        token = self._data[self._pos :]
        self._pos = len(self._data)
        return (token.removesuffix(b"\r") if self.crlf else token) or None

    def _finder(self, delimiter: bytes) -> Callable[[int], int]:
        if len(delimiter) == 1:
            return lambda begin: self._data.find(delimiter, begin)
        if self._is_strict:
            return _Deployed(delimiter, self._window).find
        return _Leftmost(delimiter, self._window).find

    def _window(self) -> tuple[bytes, bool]:
        return self._data, self._ended


_Window = Callable[[], tuple[bytes, bool]]
"""The bytes in memory, and whether the stream ends behind them."""


class _Deployed:
    """Finds a delimiter as the deployed parser does, which never goes back.

    What began like one and was none is data, and so is the byte behind it, whatever it begins.
    """

    def __init__(self, delimiter: bytes, window: _Window) -> None:
        self._size = len(delimiter)
        self._first = delimiter[:1]
        self._begun = re.compile(_begin_of(delimiter), re.DOTALL)
        self._window = window

    def find(self, begin: int, last: int | None = None) -> int:
        """Return where it is found, -1 if that is not in memory or not before `last`."""
        data, _ = self._window()
        while (at := data.find(self._first, begin, last)) >= 0:
            match = self._begun.match(data, at)
            end = match.end() if match else at
            if end - at == self._size:
                return at
            if end == len(data):
                return -1
            begin = end + 1
        return -1


def _begin_of(delimiter: bytes) -> bytes:
    """A pattern for the longest begin of a delimiter."""
    pattern = b""
    for at in range(len(delimiter) - 1, 0, -1):
        pattern = b"(?:" + re.escape(delimiter[at : at + 1]) + pattern + b")?"
    return re.escape(delimiter[:1]) + pattern


def _ahead_of(delimiter: bytes) -> int:
    """How many bytes from its begin on tell whether it is one: it may be shifted, and a command."""
    return 3 * len(delimiter) + _COMMAND_BYTES


class _Leftmost:
    """Finds a delimiter where it stands first, or behind that, if it then begins a command.

    Of `id=a***id=b` with the delimiter `**`, the first id is `a*`.
    """

    def __init__(self, delimiter: bytes, window: _Window) -> None:
        self._delimiter = delimiter
        self._window = window
        self._steps = [
            step for step in range(1, len(delimiter)) if delimiter.startswith(delimiter[step:])
        ]
        self._ahead_bytes = _ahead_of(delimiter)
        names = b"|".join(re.escape(name.encode()) for name in (*COMMAND_NAMES, *_OTHER_NAMES))
        self._command = re.compile(
            b"(?:" + names + b")(?:=|" + re.escape(delimiter) + b"|\\Z)|" + re.escape(delimiter)
        )

    def find(self, begin: int) -> int:
        data, ended = self._window()
        at = data.find(self._delimiter, begin)
        if at < 0 or not self._steps or data[begin:at] == _CONTENT:
            return at
        if not ended and len(data) - at < self._ahead_bytes:
            return -1
        return next(filter(self._begins_command, self._candidates(data, at)), at)

    def _candidates(self, data: bytes, at: int) -> list[int]:
        shifted = [at + step for step in self._steps]
        return [at, *(one for one in shifted if data.startswith(self._delimiter, one))]

    def _begins_command(self, at: int) -> bool:
        data, _ = self._window()
        behind = at + len(self._delimiter)
        return behind == len(data) or self._command.match(data, behind) is not None


def read_header(tokens: Tokens, *, span: Span, options: ReadOptions) -> Iterator[Notice]:
    """Read the header and let `tokens` stand behind it; yield what was mended.

    Raises FormatError where it is none.
    """
    if options.mode is Mode.LENIENT:
        yield from _skip_before(tokens, span)
    found = tokens.peek(_SHOWN_BYTES)
    if not found.startswith(PREFIX):
        raise _refused(span, f"{_shown(found)!r}; expected {PREFIX.decode()!r} to begin with")
    tokens.separate(b"[")
    line = _text(tokens.next() or b"", span)
    tokens.separate(b"]")
    delimiter = _text(tokens.next() or b"", span)
    _check_delimiter(delimiter, span)
    _check_version(line[len(PREFIX) :], span, options)
    tokens.separate(delimiter.encode())


def read_line_ends(tokens: Tokens, *, span: Span, options: ReadOptions) -> Iterator[Notice]:
    """Tell whether lines end with CR LF where the delimiter is LF: if the first does, all do."""
    if options.mode is Mode.LENIENT and tokens.delimiter == b"\n":
        tokens.crlf = _FIRST_LINE_ENDS_CRLF.match(tokens.peek(_LINE_BYTES)) is not None
        if tokens.crlf:
            detail = "CR LF at the end of lines, LF in the header; a CR is taken off each"
            yield notice("crlf", detail, span, tokens.offset)


def notice(code: str, detail: str, span: Span, offset: int) -> Notice:
    """Return a notice of what stands at `offset`."""
    return Notice(code=code, detail=detail, source=span.source, span=span.ordinal, offset=offset)


def _skip_before(tokens: Tokens, span: Span) -> Iterator[Notice]:
    match = _BEFORE.match(tokens.peek(_BEFORE_BYTES))
    if match and match[0]:
        offset = tokens.offset
        tokens.skip(len(match[0]))
        detail = f"{match[0]!r} before the header; skipped"
        yield notice("before-header", detail, span, offset)


def _shown(found: bytes) -> str:
    return found.partition(b"[")[0].decode(errors="backslashreplace")


def _text(token: bytes, span: Span) -> str:
    try:
        return decode(token)
    except RecordError as exc:
        raise _refused(span, exc.reason) from exc


def _check_delimiter(delimiter: str, span: Span) -> None:
    if not delimiter:
        raise _refused(span, "no delimiter; expected one or more characters in brackets")
    if forbidden := FORBIDDEN.search(delimiter):
        expected = "neither a letter, a digit nor one of : / - _ space = + [ ]"
        raise _refused(span, f"{forbidden[0]!r} in the delimiter; expected {expected}")
    if (size := len(delimiter)) > DELIMITER_SIZE:
        raise _refused(span, f"a delimiter of {size} characters; expected at most {DELIMITER_SIZE}")


def _check_version(stated: str, span: Span, options: ReadOptions) -> None:
    """The deployed parser wants three characters, and then takes any number among them."""
    number = stated.strip(TRIMMED)
    is_long = len(stated) >= 3 or options.mode is Mode.LENIENT
    if not is_long or integer(number, bits=32) is None:
        raise _refused(span, f"version {stated!r}; expected a number between spaces")


def _refused(span: Span, reason: str) -> FormatError:
    return FormatError(f"{span.source}: header: {reason}")
