"""Arguments of commands as values, strictly or with repairs.

**Spec:** GSA adaptor library, CommandStreamParser, "Lister Commands", "Retriever Commands".
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from schemas.errors import RecordError
from transforms.formats.base import Mode, ReadOptions
from transforms.formats.command_stream.java_uri import is_uri
from transforms.formats.command_stream.syntax import integer, require_argument
from transforms.formats.dates import parse_date

Note = Callable[[str, str], None]
"""Takes the code and the detail of a repair."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TRUE = frozenset({"true", "yes", "1", "on"})
_FALSE = frozenset({"false", "no", "0", "off"})


class StrictArguments:
    """Arguments as the deployed parser reads them; raises RecordError where that throws."""

    def moment(self, text: str | None) -> datetime | None:
        """Return the time of epoch seconds, None for a time outside the years 1 to 9999.

        Java multiplies by 1000 in 64 bits, and an overflow wraps around.
        """
        seconds = None if text is None else integer(text, bits=64)
        if seconds is None:
            raise RecordError("bad-date", f"last-modified={text!r}; expected seconds since 1970")
        millis = (seconds * 1000 + 2**63) % 2**64 - 2**63
        try:
            return _EPOCH + timedelta(milliseconds=millis)
        except OverflowError:
            return None

    def listed_flag(self, name: str, text: str | None) -> bool:
        """Return the value of a flag in a listing: true, whatever its argument is."""
        return True

    def flag(self, name: str, text: str | None) -> bool:
        """Return whether the argument is `true`, in any case."""
        return text is not None and text.lower() == "true"

    def uri(self, name: str, text: str | None) -> str:
        uri = require_argument(name, text)
        if not is_uri(uri):
            raise RecordError("bad-url", f"{name}={uri!r}; expected a well-formed URL")
        return uri


class LenientArguments(StrictArguments):
    """Arguments with repairs; each repair is noted."""

    def __init__(self, note: Note, *, zone: str) -> None:
        self._note = note
        self._zone = zone

    def moment(self, text: str | None) -> datetime | None:
        try:
            return super().moment(text)
        except RecordError:
            moment = parse_date(text or "", zone=self._zone)
            if moment is None:
                raise
            self._note("date", f"last-modified={text!r}, not seconds since 1970; read as a date")
            return moment

    def listed_flag(self, name: str, text: str | None) -> bool:
        if text is None or text.lower() in _TRUE:
            return True
        word = text.strip().lower()
        if name == "delete" and word not in _TRUE | _FALSE:  # a deletion is never guessed
            raise RecordError("bad-flag", f"delete={text!r}; expected delete without an argument")
        value = word not in _FALSE
        self._note("flag", f"{name}={text!r}, a flag with an argument; read as {_word(value)}")
        return value

    def flag(self, name: str, text: str | None) -> bool:
        """Read an unknown word as false, but for `secure`, where true is the safe value."""
        word = None if text is None else text.lower()
        if word in ("true", "false"):
            return word == "true"
        value = word is None or word in _TRUE or (name == "secure" and word not in _FALSE)
        shown = name if text is None else f"{name}={text!r}"
        self._note("flag", f"{shown}, neither true nor false; read as {_word(value)}")
        return value

    def uri(self, name: str, text: str | None) -> str:
        uri = require_argument(name, text)
        if not is_uri(uri):
            self._note("url", f"{name}={uri!r} is not a well-formed URL; kept")
        return uri


def arguments(options: ReadOptions, note: Note) -> StrictArguments:
    """Return the arguments for the mode of the options."""
    if options.mode is Mode.STRICT:
        return StrictArguments()
    return LenientArguments(note, zone=options.zone)


def _word(value: bool) -> str:
    return "true" if value else "false"
