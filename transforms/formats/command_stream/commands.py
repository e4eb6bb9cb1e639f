"""A command stream's tokens as commands with arguments; the ids of an id-list are commands too.

**Spec:** GSA adaptor library, CommandStreamParser, "Body Format". Inside an id-list every token is
an id, whatever it looks like, up to an empty token. What follows a list concerns its last id.
"""

from collections.abc import Iterator
from typing import NamedTuple

from schemas.defect import record_error
from schemas.errors import RecordError, UnavailableError
from schemas.span import Span
from transforms.formats.command_stream.tokenizer import Tokens, decode

ID_LIST = b"id-list"
OVERLAP = "a delimiter that overlaps what it ends; read as what makes sense"
_UNAVAILABLE = "repository-unavailable"
_REASON_CHARS = 200
_NAME_CHARS = 40
_NAMES = 100


class Command(NamedTuple):
    """A command, its argument (None without `=`), and the token that it was made of.

    `trouble` says why the token cannot be read; it has no argument then. `is_mended`
    tells whether the deployed parser would not see its end.
    """

    name: str
    argument: str | None
    token: bytes
    offset: int
    trouble: RecordError | None = None
    is_mended: bool = False


class Commands:
    """The commands of a stream, in its order; `in_list` tells whether the next one is of a list.

    Raises UnavailableError where the stream says that the repository is unavailable.
    """

    def __init__(self, tokens: Tokens, *, span: Span) -> None:
        self.in_list = False
        self._tokens = tokens
        self._span = span

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
        trouble = None
        try:
            text = decode(token)
        except Exception as exc:
            text, trouble = token.decode(errors="replace"), record_error(exc)
        is_mended = self._tokens.is_mended
        if self.in_list:
            return Command("id", None if trouble else text, token, offset, trouble, is_mended)
        name, equals, argument = text.partition("=")
        if name == _UNAVAILABLE:
            reason = argument[:_REASON_CHARS] or "no reason given"
            where = f"{self._span.source} (byte {offset})"
            raise UnavailableError(f"{where}: {name}: {reason!r}")
        stated = argument if equals and not trouble else None
        return Command(name, stated, token, offset, trouble, is_mended)


class UnknownNames:
    """What commands that nobody knows are counted by: of the first hundred each by its name."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def code(self, name: str) -> str:
        """Return what one more command of this name is counted by."""
        shown = shown_name(name)
        if len(self._names) < _NAMES:
            self._names.add(shown)
        return f"unknown-command {shown}" if shown in self._names else "unknown-command"


def shown_name(name: str) -> str:
    """Return as much of a command's name as a message needs."""
    return name[:_NAME_CHARS]
