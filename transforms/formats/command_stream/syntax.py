"""The header, the tokens and the commands of a stream, and their vocabulary.

**Spec:** GSA adaptor library, CommandStreamParser, "Header Format" and "Body Format". A token is
the bytes between two delimiters. In an id-list every token is an id, up to an empty token. A
command after the list belongs to its last id.

In this package *the deployed parser* is the CommandStreamParser of the adaptor library, as it runs
on Java 17. A reader in strict mode accepts and refuses the same streams. Both deviate from the
specification: any version number is accepted, the delimiter after the header may be missing, and
the search for a delimiter never goes back. In CR CR LF it does not find CR LF.
"""

import io
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import IO, NamedTuple

from feedferry.schemas.acl import Access, Inheritance, Scope
from feedferry.schemas.errors import ConfigError, FormatError, RecordError, UnavailableError
from feedferry.schemas.notice import Notice
from feedferry.schemas.reject import KEPT_BYTES, record_error
from feedferry.schemas.span import Span
from feedferry.transforms.formats.base import ReadOptions
from feedferry.transforms.formats.command_stream.stream_formats import StreamOptions
from feedferry.transforms.formats.text.streams import read_block

PREFIX = b"GSA Adaptor Data Version"
"""The first bytes of every command stream."""

PAIRS = {"meta-name": "meta-value", "param-name": "param-value", "anchor-uri": "anchor-text"}
"""The commands that come in pairs: the second by the first."""

PRINCIPALS = {
    "acl-permit-user": (Scope.USER, Access.PERMIT),
    "acl-deny-user": (Scope.USER, Access.DENY),
    "acl-permit-group": (Scope.GROUP, Access.PERMIT),
    "acl-deny-group": (Scope.GROUP, Access.DENY),
}
CASES = {"acl-case-sensitive": True, "acl-case-insensitive": False}
ACL_SETTINGS = (
    *("acl", "namespace", "acl-inherit-from", "acl-inherit-fragment", "acl-inheritance-type"),
    *CASES,
)
LISTED_FLAGS = ("crawl-immediately", "crawl-once", "lock")
FLAGS = ("secure", "no-index", "no-follow", "no-archive", "crawl-once", "lock")
"""The flags of documents; fields of `Crawl` have the same names as flags."""

LISTER = frozenset({"last-modified", "result-link", "delete", *LISTED_FLAGS})
"""The commands of a lister, except `id`."""

RETRIEVER = frozenset(
    {
        *("last-modified", "up-to-date", "not-found", "mime-type", "display-url", "content"),
        *(*FLAGS, *PAIRS, *PAIRS.values(), *PRINCIPALS, *ACL_SETTINGS),
    }
)
"""The commands of a retriever, except `id`."""

COMMAND_NAMES = LISTER | RETRIEVER | {"id", "id-list", "repository-unavailable", "authz-status"}
"""The commands that the deployed parser knows."""

USERS = ("username", "user", "password", "group")
"""Commands of a question to an authorizer, which the deployed parser does not know."""

INHERITANCES = {kind.value.lower().replace("_", "-"): kind for kind in Inheritance}
"""The values of `acl-inheritance-type`."""

STATUSES = ("PERMIT", "DENY", "INDETERMINATE")
"""The values of `authz-status`."""

# Commands without a field of the record are extras at these places.
PLACE = "stream/"
STATUS = PLACE + "authz-status"
USERNAME = PLACE + "username"
GROUP = PLACE + "group"
PARAM = PLACE + "param/"
"""Place of a `param-name` and its `param-value`, followed by the name."""

TRIMMED = "".join(map(chr, range(0x21)))
"""The characters that Java's String.trim removes."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_DELIMITER_CHARS = 100
_FORBIDDEN = re.compile(r"[a-zA-Z0-9:/\-_ =+\[\]\ud800-\udfff]")
_MODIFIED = re.compile(rb"\xc0([\x80\x8a])")
_MODIFIED_CHARS = {b"\x80": b"\x00", b"\x8a": b"\n"}
_NUMBER = re.compile(r"[+-]?[0-9]{1,40}")

BLOCK_BYTES = 1 << 17

OVERLAP = "a delimiter that overlaps what it ends; read as what makes sense"
"""Detail of the notice for a command with `is_repaired`."""

_BEFORE = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:-e\s+)?(?=GSA Adaptor)")
"""A byte order mark, blanks, and the `-e` that the `echo` of some shells prints."""

_ID_LIST = b"id-list"
_BEFORE_BYTES = 1 << 12
_LINE_BYTES = 1 << 16
_SHOWN_BYTES = 40
_FIRST_LINE_ENDS_CRLF = re.compile(rb"\n*[^\n]*\r\n")
_COMMAND_BYTES = 32
_CONTENT = b"content"  # the content that follows is not a command and may hold any bytes
_UNAVAILABLE = "repository-unavailable"
_REASON_CHARS = 200
_NAME_CHARS = 40
_MAX_NAMES = 100


def decode(token: bytes) -> str:
    """Decode a token: UTF-8, in which C0 80 is NUL and C0 8A is LF; raise RecordError otherwise."""
    if b"\xc0" in token:
        token = _MODIFIED.sub(lambda match: _MODIFIED_CHARS[match[1]], token)
    try:
        return token.decode()
    except UnicodeDecodeError as exc:
        found = token[exc.start : exc.start + 4]
        reason = f"the bytes {found!r} in a token; expected UTF-8, with C0 80 and C0 8A besides"
        raise RecordError("not-utf8", reason) from exc


def encode(text: str) -> bytes:
    """Encode a token, with NUL and LF in their two-byte forms."""
    token = text.encode()
    if b"\n" in token or b"\0" in token:
        return token.replace(b"\n", b"\xc0\x8a").replace(b"\0", b"\xc0\x80")
    return token


def integer(text: str, *, bits: int) -> int | None:
    """Return the integer that Java parses: no blanks, and at most `bits` wide."""
    number = int(text) if _NUMBER.fullmatch(text) else None
    is_in_range = number is not None and -(2 ** (bits - 1)) <= number < 2 ** (bits - 1)
    return number if is_in_range else None


def moment_of(seconds: int) -> datetime | None:
    """Return the time of epoch seconds, None for a time outside the years 1 to 9999.

    Java multiplies by 1000 in 64 bits, and an overflow wraps around.
    """
    millis = (seconds * 1000 + 2**63) % 2**64 - 2**63
    try:
        return EPOCH + timedelta(milliseconds=millis)
    except OverflowError:
        return None


def require_argument(name: str, argument: str | None) -> str:
    """Return the argument of a command; raise RecordError if there is none."""
    if argument is None:
        raise RecordError("no-argument", f"{name} without an argument; expected {name}=…")
    return argument


def check_delimiter(text: str) -> str:
    """Return a delimiter that a header can state; raise ConfigError if it cannot be one."""
    if not text:
        raise ConfigError("an empty delimiter; expected one or more characters")
    if forbidden := _FORBIDDEN.search(text):
        expected = "neither a letter, a digit nor one of : / - _ space = + [ ]"
        raise ConfigError(f"{forbidden[0]!r} in the delimiter {text!r}; expected {expected}")
    if len(text) > _DELIMITER_CHARS:
        found = f"a delimiter of {len(text)} characters"
        raise ConfigError(f"{found}; expected at most {_DELIMITER_CHARS}")
    return text


class Command(NamedTuple):
    """A command, its argument (None without `=`), and its token.

    `error` is the reason if the token cannot be decoded; the argument is None then. `is_repaired`
    is true if the deployed parser does not find the end of the token.
    """

    name: str
    argument: str | None
    token: bytes
    offset: int
    error: RecordError | None = None
    is_repaired: bool = False


class CommandReader:
    """The tokens and commands of a stream, in order; one block of it is in memory at a time.

    `offset` is the position of the next token in the source. With `crlf`, the CR at the end of
    each token is removed. `in_list` is true inside an id-list. Raises FormatError for a token of
    more than `max_token_bytes`, and UnavailableError at `repository-unavailable`.
    """

    def __init__(self, stream: IO[bytes], span: Span, options: ReadOptions) -> None:
        self.span = span
        own = options.of(StreamOptions)
        self.is_strict = own.strict
        self.limit = own.max_token_bytes
        self.delimiter = b""
        self.crlf = False
        self.in_list = False
        self._is_repaired = False
        self._stream = stream
        self._data = b""
        self._base = span.offset
        self._pos = 0
        self._ended = False
        self._capture_begin: int | None = None
        self._captured = b""
        self._unknown_names: set[str] = set()

    def __iter__(self) -> Iterator[Command]:
        while (command := self.next()) is not None:
            yield command

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

    def next(self) -> Command | None:
        """Return the next command, None at the end."""
        while True:
            offset = self.offset
            token = self.next_token()
            if token is None:
                return None
            if not token:
                self.in_list = False
                if not self._is_long:
                    match = self._empties.match(self._data, self._pos)
                    self._pos = match.end() if match else self._pos
            elif token == _ID_LIST and not self.in_list:
                self.in_list = True
            else:
                return self._command(token, offset)

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
            self._is_repaired = strict_end != end and not is_last
        token = self._data[self._pos : end]
        self._pos = end if is_last else end + len(self.delimiter)
        token = token.removesuffix(b"\r") if self.crlf else token
        return None if is_last and not token else token

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

    def notice(self, code: str, detail: str, offset: int) -> Notice:
        source, span = self.span.source, self.span.ordinal
        return Notice(code=code, detail=detail, source=source, span=span, offset=offset)

    def unknown_command(self, name: str, outcome: str, offset: int) -> Notice:
        """Return the notice about an unknown command; the first hundred names have a code each."""
        name = name[:_NAME_CHARS]
        if len(self._unknown_names) < _MAX_NAMES:
            self._unknown_names.add(name)
        code = f"unknown-command {name}" if name in self._unknown_names else "unknown-command"
        return self.notice(code, f"{name!r}, an unknown command; {outcome}", offset)

    def error(self, reason: str, offset: int) -> FormatError:
        return FormatError(f"{self.span.source} (byte {offset}): {reason}")

    def _command(self, token: bytes, offset: int) -> Command:
        error = None
        try:
            text = decode(token)
        except Exception as exc:
            text, error = token.decode(errors="replace"), record_error(exc)
        if self.in_list:
            docid = None if error else text
            return Command("id", docid, token, offset, error, self._is_repaired)
        name, equals, value = text.partition("=")
        if name == _UNAVAILABLE:
            reason = value[:_REASON_CHARS] or "no reason given"
            where = f"{self.span.source} (byte {offset})"
            raise UnavailableError(f"{where}: {name}: {reason!r}")
        argument = value if equals and not error else None
        return Command(name, argument, token, offset, error, self._is_repaired)

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


def read_header(commands: CommandReader) -> Iterator[Notice]:
    """Read the header, and in lenient mode the line ends; yield a notice for each repair.

    Raises FormatError if there is no header.
    """
    if not commands.is_strict:
        yield from _skip_before(commands)
    head = commands.peek(_SHOWN_BYTES)
    if not head.startswith(PREFIX):
        shown = head.partition(b"[")[0].decode(errors="backslashreplace")
        raise _bad_header(commands, f"{shown!r}; expected {PREFIX.decode()!r} to begin with")
    try:
        commands.separate(b"[")
        line = decode(commands.next_token() or b"")
        commands.separate(b"]")
        delimiter = check_delimiter(decode(commands.next_token() or b""))
    except (RecordError, ConfigError) as exc:
        raise _bad_header(commands, str(exc)) from exc
    version = line[len(PREFIX) :]
    is_long_enough = len(version) >= 3 or not commands.is_strict  # for the deployed parser
    if not is_long_enough or integer(version.strip(TRIMMED), bits=32) is None:
        raise _bad_header(commands, f"version {version!r}; expected a number between spaces")
    commands.separate(delimiter.encode())
    if delimiter == "\n" and not commands.is_strict:
        yield from _detect_crlf(commands)


def _skip_before(commands: CommandReader) -> Iterator[Notice]:
    match = _BEFORE.match(commands.peek(_BEFORE_BYTES))
    if match and match[0]:
        offset = commands.offset
        commands.skip(len(match[0]))
        yield commands.notice("before-header", f"{match[0]!r} before the header; skipped", offset)


def _detect_crlf(commands: CommandReader) -> Iterator[Notice]:
    """Lines end with CR LF if the first one does."""
    commands.crlf = _FIRST_LINE_ENDS_CRLF.match(commands.peek(_LINE_BYTES)) is not None
    if commands.crlf:
        detail = "CR LF at the end of lines, LF in the header; a CR is taken off each"
        yield commands.notice("crlf", detail, commands.offset)


def _bad_header(commands: CommandReader, reason: str) -> FormatError:
    return FormatError(f"{commands.span.source}: header: {reason}")


def is_stream(name: str, head: bytes) -> bool:
    """Whether a stream that begins with `head` is of the format with a name.

    The first command that only one of the formats has decides. A stream of ids alone is a listing,
    and a stream of several ids is not of a retriever.
    """
    commands = CommandReader(io.BytesIO(head), Span(), ReadOptions())
    names = (command.name for command in commands)
    try:
        for _ in read_header(commands):
            pass
        return name == _deciding_stream(names)
    except UnavailableError:
        return name == "lister-stream"
    except FormatError:
        return False


def _deciding_stream(names: Iterator[str]) -> str:
    ids = 0
    for name in names:
        ids += name == "id"
        if name == "authz-status" or name in USERS:
            return "authorizer-stream"
        if name in RETRIEVER and name not in LISTER and ids <= 1:
            return "retriever-stream"
        if (name in LISTER) != (name in RETRIEVER):
            break
    return "lister-stream"
