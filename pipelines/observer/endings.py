"""How a command ended: the message and the exit code of its exception."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from feedferry.pipelines.observer.signals import DeadlinePassed, Terminated
from feedferry.schemas.errors import BusyError, FatalError, FeedferryError
from feedferry.transforms.config.secrets import check_no_secret

INTERRUPTED_EXIT = 130
TERMINATED_EXIT = 143


_BEGUN = "the run has begun; a start without --fresh goes on with it"


class Ending(NamedTuple):
    """The end of a command that did not come to its own."""

    message: str
    exit_code: int


def ending_of(exc: BaseException) -> Ending:
    """Return what the user is told, and the exit code, of a signal, a deadline or an error."""
    if signal := _signal_ending(exc):
        return signal
    match exc:
        case FeedferryError():
            return Ending(str(exc), exc.exit_code)
        case OSError() if exc.strerror:
            return Ending(f"{exc.filename or 'stream'}: {exc.strerror}", FatalError.exit_code)
    error = f"{type(exc).__name__}: {exc}"
    message = f"a defect of feedferry: {error}; -v shows where"
    return Ending(message, FeedferryError.exit_code)


@contextmanager
def begun() -> Iterator[None]:
    """Note in the exceptions of the block that a run has begun, which --fresh would not resume."""
    try:
        yield
    except BaseException as exc:
        exc.add_note(_BEGUN)
        raise


def next_start(args: Sequence[str], exc: BaseException | None) -> str:
    """Return the command that goes on after the command `args`, which ended, maybe with `exc`."""
    is_begun = exc is None or _BEGUN in getattr(exc, "__notes__", ())
    words = [arg for arg in args if not is_begun or arg != "--fresh"]
    try:
        check_no_secret(" ".join(words))
    except ValueError:
        return "the same command"
    return shlex.join(["feedferry", *words])


def _signal_ending(exc: BaseException | None) -> Ending | None:
    """Return the ending of the signal that caused `exc`, directly or indirectly.

    Beam raises a RuntimeError from it.
    """
    while exc is not None:
        match exc:
            case KeyboardInterrupt():
                return Ending("interrupted", INTERRUPTED_EXIT)
            case Terminated():
                return Ending("terminated", TERMINATED_EXIT)
            case DeadlinePassed():
                message = "the deadline has passed; start again to resume"
                return Ending(message, BusyError.exit_code)
        exc = exc.__cause__ or exc.__context__
    return None
