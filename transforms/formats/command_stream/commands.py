"""A command stream's tokens as commands with arguments; each id of an id-list is a command.

**Spec:** GSA adaptor library, CommandStreamParser, "Body Format". In an id-list every token is an
id, up to an empty token. A command after the list belongs to its last id.
"""

from collections.abc import Iterator
from typing import NamedTuple

from schemas.errors import RecordError, UnavailableError
from schemas.reject import record_error
from transforms.formats.command_stream.syntax import decode
from transforms.formats.command_stream.tokenizer import Tokenizer

ID_LIST = b"id-list"
OVERLAP = "a delimiter that overlaps what it ends; read as what makes sense"
"""Detail of the notice for a command with `is_repaired`."""

_UNAVAILABLE = "repository-unavailable"
_REASON_CHARS = 200
_NAME_CHARS = 40
_MAX_NAMES = 100


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
    """The commands of a stream, in order; `in_list` is true inside an id-list.

    Raises UnavailableError at `repository-unavailable`.
    """

    def __init__(self, tokens: Tokenizer) -> None:
        self.in_list = False
        self._tokens = tokens

    def __iter__(self) -> Iterator[Command]:
        while (command := self.next()) is not None:
            yield command

    def next(self) -> Command | None:
        """Return the next command, None at the end."""
        tokens = self._tokens
        while True:
            offset = tokens.offset
            token = tokens.next()
            if token is None:
                return None
            if not token:
                self.in_list = False
                tokens.skip_empty()
            elif token == ID_LIST and not self.in_list:
                self.in_list = True
            else:
                return self._command(token, offset)

    def _command(self, token: bytes, offset: int) -> Command:
        error = None
        try:
            text = decode(token)
        except Exception as exc:
            text, error = token.decode(errors="replace"), record_error(exc)
        is_repaired = self._tokens.is_repaired
        if self.in_list:
            return Command("id", None if error else text, token, offset, error, is_repaired)
        name, equals, value = text.partition("=")
        if name == _UNAVAILABLE:
            reason = value[:_REASON_CHARS] or "no reason given"
            where = f"{self._tokens.span.source} (byte {offset})"
            raise UnavailableError(f"{where}: {name}: {reason!r}")
        argument = value if equals and not error else None
        return Command(name, argument, token, offset, error, is_repaired)


class UnknownCommandCodes:
    """Codes of the notices for unknown commands: the first hundred names have one each."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def code(self, name: str) -> str:
        name = truncate_name(name)
        if len(self._names) < _MAX_NAMES:
            self._names.add(name)
        return f"unknown-command {name}" if name in self._names else "unknown-command"


def truncate_name(name: str) -> str:
    """Return the beginning of a command's name, for a message."""
    return name[:_NAME_CHARS]
