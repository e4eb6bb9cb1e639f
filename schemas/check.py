"""Checks before a run. A check opens and reads; it changes neither the source nor the target."""

import enum
from collections.abc import Callable, Iterable

import msgspec

from feedferry.schemas.errors import FeedferryError


class Level(enum.Enum):
    """How a check ended; a run works with an OK and a WARN."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class CheckLine(msgspec.Struct, frozen=True):
    """A line of a check: the thing, what was found there, and the cure unless it is OK.

    `input_bytes` are those that a run would read there.
    """

    level: Level
    what: str
    found: str
    cure: str = ""
    input_bytes: int = 0


class Check(msgspec.Struct, frozen=True):
    """A check of one thing. `run` is called with the seconds that it may take."""

    what: str
    run: Callable[[float], Iterable[CheckLine]]


def ok(what: str, found: str, *, size: int = 0) -> CheckLine:
    return CheckLine(Level.OK, what, found, input_bytes=size)


def warn(what: str, found: str, cure: str) -> CheckLine:
    return CheckLine(Level.WARN, what, found, cure)


def fail(what: str, found: str, cure: str) -> CheckLine:
    return CheckLine(Level.FAIL, what, found, cure)


def fail_of(what: str, error: FeedferryError | OSError | str) -> CheckLine:
    """Return the line of an error, whose message is *finding; cure*."""
    text = error.text if isinstance(error, FeedferryError) else str(error)
    if isinstance(error, OSError):
        text = f"{error.filename or what}: {error.strerror or text}"
    found, _, cure = text.partition("; ")
    return fail(what, found, cure or "correct that, then run the checks again")
