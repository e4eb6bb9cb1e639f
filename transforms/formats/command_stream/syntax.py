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
from typing import IO, NamedTuple

from feedferry.schemas.errors import ConfigError, FormatError, RecordError, UnavailableError
from feedferry.schemas.notice import Notice
from feedferry.schemas.reject import record_error
from feedferry.schemas.span import Span
from feedferry.transforms.formats.base import ReadOptions
from feedferry.transforms.formats.command_stream.tokens import TokenReader
from feedferry.transforms.formats.command_stream.vocabulary import LISTER, RETRIEVER, USERS

PREFIX = b"GSA Adaptor Data Version"
"""The first bytes of every command stream."""

TRIMMED = "".join(map(chr, range(0x21)))
"""The characters that Java's String.trim removes."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_DELIMITER_CHARS = 100
_FORBIDDEN = re.compile(r"[a-zA-Z0-9:/\-_ =+\[\]\ud800-\udfff]")
_MODIFIED = re.compile(rb"\xc0([\x80\x8a])")
_MODIFIED_CHARS = {b"\x80": b"\x00", b"\x8a": b"\n"}
_NUMBER = re.compile(r"[+-]?[0-9]{1,40}")

OVERLAP = "a delimiter that overlaps what it ends; read as what makes sense"
"""Detail of the notice for a command with `is_repaired`."""

_BEFORE = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:-e\s+)?(?=GSA Adaptor)")
"""A byte order mark, blanks, and the `-e` that the `echo` of some shells prints."""

_ID_LIST = b"id-list"
_BEFORE_BYTES = 1 << 12
_LINE_BYTES = 1 << 16
_SHOWN_BYTES = 40
_FIRST_LINE_ENDS_CRLF = re.compile(rb"\n*[^\n]*\r\n")
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


class CommandReader(TokenReader):
    """The commands of a stream, in order.

    `in_list` is true inside an id-list. Raises FormatError for a token that is too large, and
    UnavailableError at `repository-unavailable`.
    """

    def __init__(self, stream: IO[bytes], span: Span, options: ReadOptions) -> None:
        super().__init__(stream, span, options)
        self.in_list = False
        self._unknown_names: set[str] = set()

    def __iter__(self) -> Iterator[Command]:
        while (command := self.next()) is not None:
            yield command

    def next(self) -> Command | None:
        """Return the next command, None at the end."""
        while True:
            offset = self.offset
            token = self.next_token()
            if token is None:
                return None
            if not token:
                self.in_list = False
                self.skip_empty_tokens()
            elif token == _ID_LIST and not self.in_list:
                self.in_list = True
            else:
                return self._command(token, offset)

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

    def _command(self, token: bytes, offset: int) -> Command:
        error = None
        try:
            text = decode(token)
        except Exception as exc:
            text, error = token.decode(errors="replace"), record_error(exc)
        if self.in_list:
            docid = None if error else text
            return Command("id", docid, token, offset, error, self.is_repaired)
        name, equals, value = text.partition("=")
        if name == _UNAVAILABLE:
            reason = value[:_REASON_CHARS] or "no reason given"
            where = f"{self.span.source} (byte {offset})"
            raise UnavailableError(f"{where}: {name}: {reason!r}")
        argument = value if equals and not error else None
        return Command(name, argument, token, offset, error, self.is_repaired)


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
