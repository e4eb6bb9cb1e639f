"""What can go wrong, as one tree ordered by what the caller does next.

::

    FeedferryError
    ├── ConfigError        correct the command line; nothing was touched (exit code 2)
    │   └── FileNameError         the name of a file is not UTF-8
    ├── StoppedError       look at the report; a threshold that was asked for is reached (3)
    │   ├── LossRefusedError      the target cannot hold a field and nobody accepted that
    │   └── TooManyRejectsError   more records were set aside than was allowed
    ├── FatalError         mend the input or the target, then start again: the run resumes (4)
    │   ├── FormatError    the input is not what it is said to be, and no record can be found in it
    │   │   └── EncodingError     it declares an encoding that does not exist
    │   ├── SourceError    the input cannot be opened or read
    │   │   ├── UnreadableError   one file cannot be opened or read; others can
    │   │   └── UnavailableError  a program says that its repository is unavailable, for now
    │   └── TargetError    the appliance takes nothing, or not this
    ├── BusyError          start again later: a backlog, a lock, a deadline (75)
    ├── RecordError        set this one record aside as a Reject, and go on
    │   └── ProgramError   a program that was to give it cannot be relied on
    ├── ProgressError      a defect of feedferry: a reader does not advance in its input (5)
    └── BalanceError       a defect of feedferry: the account of a run does not balance (5)

A single bad record ends nothing: what reads or adapts it catches the `RecordError` and yields a
`Reject`.
"""


class FeedferryError(Exception):
    """Base of everything that feedferry raises on purpose; the message is for its user."""

    exit_code = 5


class ConfigError(FeedferryError):
    """An option or argument cannot be used; raised before anything is read or written."""

    exit_code = 2


class FileNameError(ConfigError):
    """The name of a file is not UTF-8, so that no report could name it."""


class StoppedError(FeedferryError):
    """The run ended at a threshold; what it made is not published."""

    exit_code = 3


class LossRefusedError(StoppedError):
    """A record has a field that the target cannot hold, and the user did not accept its loss."""


class TooManyRejectsError(StoppedError):
    """More records were set aside than `--max-rejects` allows."""


class FatalError(FeedferryError):
    """The source or the target gave up; the run can be started again and resumes."""

    exit_code = 4


class FormatError(FatalError):
    """A stream is not in the format that it is read as; says where, what was found and expected."""


class EncodingError(FormatError):
    """A document declares an encoding that does not exist; costs that document only."""


class SourceError(FatalError):
    """An input cannot be found, opened or read."""


class UnreadableError(SourceError):
    """One file cannot be opened or read; `code` and `reason` are those of its reject."""

    def __init__(self, source: str, code: str, reason: str) -> None:
        super().__init__(f"{source}: {reason}")
        self.code = code
        self.reason = reason


class UnavailableError(SourceError):
    """A command stream says `repository-unavailable`; what it would list or give is not known."""


class TargetError(FatalError):
    """An appliance cannot be reached, or refuses what is pushed; says what it answered."""


class BusyError(FeedferryError):
    """Nothing is wrong, but now is not the time; what was pushed stays so, and the rest waits."""

    exit_code = 75


class RecordError(FeedferryError):
    """One record cannot be understood or carried; its reader or adapter makes a `Reject` of it."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class ProgramError(RecordError):
    """A run of a program that cannot be relied on; `stdout` is what came of it."""

    def __init__(self, code: str, reason: str, stdout: bytes = b"") -> None:
        super().__init__(code, reason)
        self.stdout = stdout


class ProgressError(FeedferryError):
    """A reader took a step that consumed no byte, so it would never end: a defect of feedferry."""


class BalanceError(FeedferryError):
    """Records read are not records written, rejected and filtered: never to be seen by a user."""
