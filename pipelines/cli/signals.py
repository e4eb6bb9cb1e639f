"""Signals that ask the command to end.

Everywhere, the first SIGINT or SIGTERM is raised as an exception, and the second one ends the
process. A push or a receiver drains at the first signal instead.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_HEARD = (signal.SIGINT, signal.SIGTERM)
DRAINING = "feedferry: the chunk that is under way is finished; once more ends at once"
_STDERR = 2
_BASE = 128


class Terminated(BaseException):
    """SIGTERM came."""


@contextmanager
def raised() -> Iterator[None]:
    """Raise KeyboardInterrupt or Terminated at the first signal; exit without clean-up at the next.

    Whatever the clean-up waits for, a second signal ends the process. A run can be resumed after
    that, as after SIGKILL. A signal that is ignored stays so.
    """
    known = {number: signal.getsignal(number) for number in _HEARD}
    before = {number: was for number, was in known.items() if was is not signal.SIG_IGN}
    is_ending = False

    def hear(number: int, frame: FrameType | None) -> NoReturn:
        nonlocal is_ending
        if is_ending:
            os._exit(_BASE + number)
        is_ending = True
        raise KeyboardInterrupt if number == signal.SIGINT else Terminated

    for number in before:
        signal.signal(number, hear)
    try:
        yield
    finally:
        for number, was in before.items():
            signal.signal(number, was)


class Heard:
    """Which signal came first, if one did."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def exit_code(self, otherwise: int) -> int:
        """What the shell expects of a command that a signal ended."""
        return otherwise if self.signal is None else _BASE + self.signal


@contextmanager
def draining(drain: Callable[[], None], *, said: str | None = DRAINING) -> Iterator[Heard]:
    """Call `drain` at the first SIGINT or SIGTERM; the next has the effect that it had before.

    `said` is then said on stderr, if it is anything. A signal that is ignored stays so, as SIGINT
    is for what a script runs in the background.
    """
    heard = Heard()
    known = {number: signal.getsignal(number) for number in _HEARD}
    before = {number: was for number, was in known.items() if was is not signal.SIG_IGN}

    def hear(number: int, frame: FrameType | None) -> None:
        for each, was in before.items():
            signal.signal(each, was)
        heard.signal = number
        drain()
        if said is not None:
            os.write(_STDERR, f"{said}\n".encode())

    for number in before:
        signal.signal(number, hear)
    try:
        yield heard
    finally:
        for number, was in before.items():
            signal.signal(number, was)
