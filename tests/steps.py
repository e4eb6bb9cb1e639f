"""Counts of work that do not depend on the clock: lines of Python that are executed."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

_Result = TypeVar("_Result")
_Trace = Callable[[FrameType, str, Any], Any]  # what `sys.settrace` takes
_PACKAGES = ("transforms.", "schemas.")


class TooManyStepsError(AssertionError):
    """The code under test executed more lines than it may."""


def within_lines(most: int, action: Callable[[], _Result]) -> _Result:
    """Return what `action` returns; raise if the project executes more than `most` lines for it.

    A loop without end raises, wherever it is.
    """
    left = most

    def on_line(frame: FrameType, event: str, argument: object) -> _Trace:
        nonlocal left
        if event == "line":
            left -= 1
            if left < 0:
                where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                raise TooManyStepsError(f"more than {most} lines; the last one is {where}")
        return on_line

    def on_call(frame: FrameType, event: str, argument: object) -> _Trace | None:
        return on_line if frame.f_globals.get("__name__", "").startswith(_PACKAGES) else None

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        return action()
    finally:
        sys.settrace(before)
