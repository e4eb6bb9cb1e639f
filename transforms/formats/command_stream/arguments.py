"""What the arguments of commands mean: to the deployed parser, and to one that mends them.

**Spec:** GSA adaptor library, CommandStreamParser, "Lister Commands", "Retriever Commands".
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from schemas.errors import RecordError
from transforms.formats.base import Mode, ReadOptions
from transforms.formats.command_stream.java_uri import is_uri
from transforms.formats.command_stream.tokenizer import integer
from transforms.formats.dates import parse_date

Note = Callable[[str, str], None]
"""Takes the code and the detail of something that was mended."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TRUE = frozenset({"true", "yes", "1", "on"})
_FALSE = frozenset({"false", "no", "0", "off"})


class DeployedArguments:
    """Arguments as the deployed parser takes them; raises RecordError where that throws."""

    def moment(self, text: str | None) -> datetime | None:
        """Return the moment of epoch seconds; None for one beyond the years 1 to 9999.

        Java multiplies by 1000 in 64 bits: what is too large comes out somewhere else.
        """
        seconds = None if text is None else integer(text, bits=64)
        if seconds is None:
            raise RecordError("bad-date", f"last-modified={text!r}; expected seconds since 1970")
        millis = (seconds * 1000 + 2**63) % 2**64 - 2**63
        try:
            return _EPOCH + timedelta(milliseconds=millis)
        except OverflowError:
            return None

    def flag(self, name: str, text: str | None) -> bool:
        """Return true: in a listing that a flag is there is all that counts."""
        return True

    def truth(self, name: str, text: str | None) -> bool:
        """Return whether it is `true`, in any case; whatever else there is, is false."""
        return text is not None and text.lower() == "true"

    def uri(self, name: str, text: str | None) -> str:
        if text is None:
            raise RecordError("no-argument", f"{name} without an argument; expected {name}=…")
        if not is_uri(text):
            raise RecordError("bad-url", f"{name}={text!r}; expected a url that is well-formed")
        return text


class LenientArguments(DeployedArguments):
    """Arguments with repairs, each of which is noted."""

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

    def flag(self, name: str, text: str | None) -> bool:
        word = None if text is None else text.strip().lower()
        if word is None or (word in _TRUE and len(word) == len(text or "")):
            return True
        if name == "delete" and word not in _TRUE | _FALSE:  # never by accident
            raise RecordError("bad-flag", f"delete={text!r}; expected delete, and nothing behind")
        stated = word not in _FALSE
        self._note(
            "flag", f"{name}={text!r}, a flag with an argument; read as {str(stated).lower()}"
        )
        return stated

    def truth(self, name: str, text: str | None) -> bool:
        """Where nobody can know what is meant, a document is secure, and nothing else is true."""
        if text is not None and text.lower() in ("true", "false"):
            return text.lower() == "true"
        stated = self._guess(name, text)
        found = name if text is None else f"{name}={text!r}"
        self._note("flag", f"{found}, neither true nor false; read as {str(stated).lower()}")
        return stated

    def uri(self, name: str, text: str | None) -> str:
        if text is None:
            raise RecordError("no-argument", f"{name} without an argument; expected {name}=…")
        if not is_uri(text):
            self._note("url", f"{name}={text!r}, a url that is not well-formed; kept as it is")
        return text

    def _guess(self, name: str, text: str | None) -> bool:
        if text is None or text.lower() in _TRUE:
            return True
        return name == "secure" and text.lower() not in _FALSE


def arguments(options: ReadOptions, note: Note) -> DeployedArguments:
    """Return the arguments of the mode that is asked for."""
    if options.mode is Mode.STRICT:
        return DeployedArguments()
    return LenientArguments(note, zone=options.zone)
