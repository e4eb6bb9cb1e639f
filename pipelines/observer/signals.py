"""Signals that end the command.

The first SIGINT or SIGTERM is raised as an exception, and the second one ends the process at once.
A push or a receiver finishes its current work at the first signal instead.
"""

import _thread
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from types import CodeType, FrameType, FunctionType
from typing import TypeVar

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_STDERR = 2
_LEAST_SECONDS = 0.001
"""A timer of 0 never ends."""

_AGAIN_SECONDS = 0.01
_IMPORT = "<frozen importlib._bootstrap>"
_SIGNAL_EXIT = 128
"""A shell expects this plus the number of the signal."""

_uninterrupted: set[CodeType] = set()
_Result = TypeVar("_Result")


class Terminated(BaseException):
    """SIGTERM was received."""


class DeadlinePassed(BaseException):
    """The time of `deadline_raised` has come."""


@contextmanager
def deadline_raised(at: float | None) -> Iterator[None]:
    """Raise DeadlinePassed in the block, as a signal, at a time in seconds since the epoch."""
    if at is None:
        yield
        return

    outer = _count_uninterrupted(sys._getframe())

    def handle(number: int, frame: FrameType | None) -> None:
        if _count_uninterrupted(frame) == outer:
            raise DeadlinePassed
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_SECONDS)

    previous = signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, max(at - time.time(), _LEAST_SECONDS))
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


@contextmanager
def raised() -> Iterator[None]:
    """Raise KeyboardInterrupt or Terminated at the first signal; exit without clean-up at the next.

    A run can be resumed after that, as after SIGKILL. Python ignores an exception in a finalizer,
    and modules ignore one while they are imported, some of which is then missing, or locked for
    ever. So an import is not interrupted, and the signal is sent again in both cases.
    """
    is_ending = False
    report = sys.unraisablehook
    outer = _count_uninterrupted(sys._getframe())

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal is_ending
        if is_ending:
            os._exit(_SIGNAL_EXIT + number)
        if _count_uninterrupted(frame) > outer:
            _send_later(number)
            return
        is_ending = True
        raise _exception_of(number)

    def send_again(ignored: "sys.UnraisableHookArgs") -> None:
        nonlocal is_ending
        if ignored.exc_type not in (KeyboardInterrupt, Terminated):
            report(ignored)
            return
        is_ending = False
        number = signal.SIGINT if ignored.exc_type is KeyboardInterrupt else signal.SIGTERM
        _send_later(number)

    sys.unraisablehook = send_again
    try:
        with _handling(handle):
            yield
    finally:
        sys.unraisablehook = report


class ReceivedSignal:
    """The first signal that was received, if any."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def exit_code(self, otherwise: int) -> int:
        """Return the exit code that a shell expects after the signal; without one, `otherwise`."""
        return otherwise if self.signal is None else _SIGNAL_EXIT + self.signal

    def raise_again(self) -> None:
        """Raise the exception of the signal, if there was one, so that nothing else is begun."""
        if self.signal is not None:
            raise _exception_of(self.signal)


@contextmanager
def draining(drain: Callable[[], None]) -> Iterator[ReceivedSignal]:
    """Call `drain` at the first signal; the next has its previous effect.

    `drain` is called in a signal handler. A thread other than the main one receives no signals.
    """
    received = ReceivedSignal()

    def handle(number: int, frame: FrameType | None) -> None:
        restore()
        received.signal = number
        drain()

    with _handling(handle) as restore:
        yield received


def in_thread(call: Callable[[], _Result], name: str = "job") -> Future[_Result]:
    """Call a function in a thread that does not keep the command from ending."""
    future: Future[_Result] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as exc:  # raised again by future.result()
            future.set_exception(exc)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


def uninterrupted(function: Callable[[], _Result]) -> Callable[[], _Result]:
    """Let signals and deadlines be raised only after calls of a function, as after imports."""
    if not isinstance(function, FunctionType):
        raise TypeError("a function")
    _uninterrupted.add(function.__code__)
    return function


def write_in_handler(message: str) -> None:
    """Write a line to stderr in a signal handler, over a line of progress."""
    clear = "\r\x1b[K" if os.isatty(_STDERR) else ""
    os.write(_STDERR, f"{clear}{message}\n".encode())


def _count_uninterrupted(frame: FrameType | None) -> int:
    """Return the number of frames in a stack that are not interrupted."""
    count = 0
    while frame is not None:
        code = frame.f_code
        count += code.co_filename == _IMPORT or code in _uninterrupted
        frame = frame.f_back
    return count


def _send_later(number: int) -> None:
    """Send a signal to this process again, soon; called in a signal handler."""

    def send() -> None:
        time.sleep(_AGAIN_SECONDS)
        os.kill(os.getpid(), number)

    # A `threading.Thread` takes a lock, which the interrupted code may hold.
    _thread.start_new_thread(send, ())


def _exception_of(number: int) -> type[BaseException]:
    return KeyboardInterrupt if number == signal.SIGINT else Terminated


@contextmanager
def _handling(
    handler: Callable[[int, FrameType | None], None],
) -> Iterator[Callable[[], None]]:
    """Handle signals that are not ignored, as SIGINT is in background jobs of a shell script.

    Yields the function that restores the previous handlers.
    """
    is_main = threading.current_thread() is threading.main_thread()
    known = {number: signal.getsignal(number) for number in _SIGNALS if is_main}
    previous = {number: old for number, old in known.items() if old is not signal.SIG_IGN}

    def restore() -> None:
        for number, old in previous.items():
            signal.signal(number, old)

    for number in previous:
        signal.signal(number, handler)
    try:
        yield restore
    finally:
        restore()
