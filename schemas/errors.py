"""The exceptions of feedferry, ordered by exit code and by the reaction of the caller.

Each class is a subclass of the one whose reaction it shares: correct the command line
(`ConfigError`), read the report (`StoppedError`), fix the input or the target and start again to
resume (`FatalError`), start again later (`BusyError`), reject the record and continue
(`RecordError`). Other errors are defects of feedferry.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from feedferry.schemas.setting import in_flags

FINDINGS_EXIT = 1
"""The exit code of a command that is done, but with rejects, findings or differences."""


class FeedferryError(Exception):
    """Base of all expected errors; the message is for the user.

    `text` is the message with marks for settings (`schemas.setting`); `str` names their flags.
    """

    exit_code = 5

    @property
    def text(self) -> str:
        return super().__str__()

    def __str__(self) -> str:
        return in_flags(self.text)


@contextmanager
def errors_worded(word: Callable[[str], str]) -> Iterator[None]:
    """Raise the errors of the block with their texts as `word` returns them."""
    try:
        yield
    except FeedferryError as exc:
        exc.args = (word(exc.text),)
        raise


class ConfigError(FeedferryError):
    """An option or argument is wrong; raised before input is read or output is written."""

    exit_code = 2


def raise_together(steps: Iterable[Callable[[], object]], messages: Iterable[str] = ()) -> None:
    """Take all steps, then raise ConfigError with the messages and the errors of the steps."""
    found = [*messages]
    for step in steps:
        try:
            step()
        except ConfigError as exc:
            found.append(exc.text)
    if found:
        raise ConfigError("\n".join(found))


class FileNameError(ConfigError):
    """The name of a file is not UTF-8, so no report can contain it."""


class UnknownFormatError(ConfigError):
    """A file is in none of the formats."""


class StoppedError(FeedferryError):
    """The run reached a limit; its output is not published."""

    exit_code = 3


class LossRefusedError(StoppedError):
    """A record has a field that the target cannot hold, and the loss was not accepted."""


class TooManyRejectsError(StoppedError):
    """More records were rejected than the limit allows."""


class FatalError(FeedferryError):
    """The source or the target failed; the run can be started again and resumes."""

    exit_code = 4


class FormatError(FatalError):
    """A stream is not in the expected format; the message has the place and the expectation."""


class EncodingError(FormatError):
    """A document declares an encoding that does not exist; only that document is rejected."""


class SourceError(FatalError):
    """An input cannot be found, opened or read."""


class UnreadableError(SourceError):
    """One file cannot be opened or read; `code` and `reason` are those of its reject."""

    def __init__(self, source: str, code: str, reason: str) -> None:
        super().__init__(f"{source}: {reason}")
        self.code = code
        self.reason = in_flags(reason)


class UnavailableError(SourceError):
    """A command stream contains `repository-unavailable`, so its documents are not known."""


class TargetError(FatalError):
    """An appliance is unreachable or refuses a feed; the message has its response."""


class BusyError(FeedferryError):
    """The command has to wait for another run, a backlog or a time; start it again later."""

    exit_code = 75


class RecordError(FeedferryError):
    """One record cannot be read or converted; its reader or adapter yields a `Reject`.

    `reason` names flags, because it is stored.
    """

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = in_flags(reason)


def not_unicode_error(exc: UnicodeEncodeError) -> RecordError:
    """Return the error of a record whose text has a lone surrogate, as no encoding holds it."""
    code = f"U+{ord(exc.object[exc.start]):04X}"
    return RecordError("not-unicode", f"a lone surrogate {code}; expected Unicode text")


class ProgramError(RecordError):
    """A call of a program failed; `stdout` is its output."""

    def __init__(self, code: str, reason: str, stdout: bytes = b"") -> None:
        super().__init__(code, reason)
        self.stdout = stdout


class ProgressError(FeedferryError):
    """A reader made a step without consuming a byte and would never end: a defect of feedferry."""


class BalanceError(FeedferryError):
    """Records read are not records written, rejected and filtered: a defect of feedferry."""
