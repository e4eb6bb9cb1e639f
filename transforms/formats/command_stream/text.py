"""Values of commands as the bytes between two delimiters, so that every parser ends them there.

**Spec:** GSA adaptor library, CommandStreamParser, "Header Format", modified UTF-8.
"""

from schemas.errors import ConfigError, RecordError
from schemas.record import Extra
from transforms.formats.command_stream.arguments import DeployedArguments
from transforms.formats.command_stream.tokenizer import (
    COMMAND_NAMES,
    DELIMITER_SIZE,
    FORBIDDEN,
    PREFIX,
)

PLACE = "stream/"
"""What the places of extras begin with that are commands nobody knows."""

PARAM = PLACE + "param/"
"""Place of an extra that holds a `param-name` and its `param-value`; the name comes last."""

PARAM_WITHOUT_VALUE = PLACE + "param=/"
"""The same for a `param-value` without `=`, which the deployed parser reads as null.

No unknown command has such a place, because `=` ends the name of a command.
"""

PARAMS = (PARAM, PARAM_WITHOUT_VALUE)

_KNOWN = frozenset(COMMAND_NAMES)
_SHOWN_CHARS = 80


def check_delimiter(text: str) -> str:
    """Return a delimiter that a header may state; raise ConfigError for any other."""
    if not text:
        raise ConfigError("an empty delimiter; expected one or more characters")
    forbidden = FORBIDDEN.search(text)
    if forbidden:
        raise ConfigError(
            f"{forbidden[0]!r} in the delimiter {text!r}; expected neither a letter, a digit nor"
            " one of : / - _ space = + [ ]"
        )
    if len(text) > DELIMITER_SIZE:
        raise ConfigError(
            f"a delimiter of {len(text)} characters; expected at most {DELIMITER_SIZE}"
        )
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        raise ConfigError(
            f"a lone surrogate in the delimiter {text!r}; expected Unicode text"
        ) from exc
    return text


def not_unicode(exc: UnicodeEncodeError) -> RecordError:
    code = f"U+{ord(exc.object[exc.start]):04X}"
    return RecordError("not-unicode", f"a lone surrogate {code}; expected Unicode text")


def unknown_command(extra: Extra) -> tuple[str, str | None] | None:
    """Return the command that an extra was, and its argument; None if a parser knows such.

    Known commands are extras where the deployed parser makes nothing of them: a date that no
    calendar has, and `id-list=`, which is no `id-list`.
    """
    name, equals, _ = extra.place.removeprefix(PLACE).partition("=")
    is_one = bool(name) and extra.place == f"{PLACE}{name}{equals}"
    if not is_one or (extra.value and not equals):
        return None
    argument = extra.value if equals else None
    if name not in _KNOWN or (name == "id-list" and equals):
        return name, argument
    return (name, argument) if name == "last-modified" and _is_far(argument) else None


class Separator:
    """A delimiter, and the tokens that it ends; `mark` are its bytes.

    A token that holds the delimiter, or that a parser cannot tell from its beginning, is a
    RecordError.
    """

    def __init__(self, delimiter: str) -> None:
        self.mark = check_delimiter(delimiter).encode()
        self._delimiter = delimiter
        # The deployed parser never goes back: it sees no CR LF behind a CR. And a reader that
        # takes files of other systems takes a CR before a LF for a part of the line end.
        begins = {self.mark[:length] for length in range(1, len(self.mark))}
        self._begins = tuple(begins | {b"\r"} if self.mark == b"\n" else begins)

    def header(self) -> bytes:
        """Return the header of version 1, and the delimiter behind it."""
        return b"%b 1 [%b]%b" % (PREFIX, self.mark, self.mark)

    def flag(self, name: str) -> bytes:
        """Return a command without argument."""
        return name.encode() + self.mark

    def token(self, name: str, argument: str | None) -> bytes:
        """Return a command, with NUL and LF in their forms of two bytes; None is no argument."""
        text = name if argument is None else f"{name}={argument}"
        token = text.encode()
        if b"\n" in token or b"\0" in token:
            token = token.replace(b"\n", b"\xc0\x8a").replace(b"\0", b"\xc0\x80")
        if not self._ends(token):
            raise self._unsafe(repr(text[:_SHOWN_CHARS]))
        return token + self.mark

    def plain(self, name: str, argument: str) -> bytes:
        """Return a command with its argument in plain UTF-8; a RecordError does not show it."""
        token = f"{name}={argument}".encode()
        if not self._ends(token):
            raise self._unsafe(f"the value of {name}")
        return token + self.mark

    def _ends(self, token: bytes) -> bool:
        return self.mark not in token and not token.endswith(self._begins)

    def _unsafe(self, found: str) -> RecordError:
        return RecordError(
            "unsafe-delimiter",
            f"{found} holds the delimiter {self._delimiter!r} or runs into it; expected one that"
            " is clear of all values, as --delimiter '\\0' is",
        )


def _is_far(argument: str | None) -> bool:
    try:
        return DeployedArguments().moment(argument) is None
    except RecordError:
        return False
