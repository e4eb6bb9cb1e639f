"""Counts of work that do not depend on the clock: lines of Python, and bytes looked at."""

import io
import re
import sys
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any, TypeVar

from feedferry.transforms.formats.element_names import ElementNames
from feedferry.transforms.formats.xml.scanning.record_markup import markup_of

_Result = TypeVar("_Result")
_Trace = Callable[[FrameType, str, Any], Any]  # what `sys.settrace` takes
_PACKAGES = ("feedferry.transforms.", "feedferry.schemas.")


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


class Steps:
    """How many bytes were looked at, or copied, by the methods of bytes and of patterns."""

    def __init__(self) -> None:
        self.count = 0


class CountedBytes(bytes):
    """Bytes that count what is looked at in them; what is cut out of them counts as well."""

    steps: Steps

    @classmethod
    def of(cls, text: bytes, steps: Steps) -> "CountedBytes":
        counted = cls(text)
        counted.steps = steps
        return counted

    def __getitem__(self, key: Any) -> Any:  # an int gives an int, a slice gives bytes
        result = super().__getitem__(key)
        if isinstance(result, int):
            return result
        self.steps.count += len(result)
        return CountedBytes.of(result, self.steps)

    def __add__(self, other: Any) -> "CountedBytes":
        self.steps.count += len(self) + len(other)
        return CountedBytes.of(super().__add__(other), self.steps)

    def __radd__(self, other: bytes) -> "CountedBytes":
        self.steps.count += len(self) + len(other)
        return CountedBytes.of(other + bytes(self), self.steps)

    def find(self, sub: Any, start: Any = 0, end: Any = None) -> int:
        result = super().find(sub, start, end)
        begin, stop, _ = slice(start, end).indices(len(self))
        self.steps.count += 1 + max(0, (stop if result < 0 else result) - begin)
        return result

    def rfind(self, sub: Any, start: Any = 0, end: Any = None) -> int:
        result = super().rfind(sub, start, end)
        begin, stop, _ = slice(start, end).indices(len(self))
        self.steps.count += 1 + max(0, stop - (begin if result < 0 else result))
        return result

    def count(self, sub: Any, start: Any = 0, end: Any = None) -> int:
        begin, stop, _ = slice(start, end).indices(len(self))
        self.steps.count += 1 + max(0, stop - begin)
        return super().count(sub, start, end)

    def decode(self, *args: Any, **kwargs: Any) -> str:
        self.steps.count += len(self)
        return super().decode(*args, **kwargs)


class CountedStream(io.BytesIO):
    """A stream that gives counted bytes, at most `most` at once."""

    def __init__(self, text: bytes, steps: Steps, *, most: int = 1 << 30) -> None:
        super().__init__(text)
        self._steps = steps
        self._most = most

    def read(self, size: int | None = -1, /) -> bytes:
        size = self._most if size is None or size < 0 else min(size, self._most)
        return CountedBytes.of(super().read(size), self._steps)

    def readline(self, size: int | None = -1, /) -> bytes:
        return CountedBytes.of(super().readline(size), self._steps)


class CountedPattern:
    """A pattern that counts how far it looks: to the end of what it finds, or of the text.

    What does not match at one place costs one step: it is not known how far was looked.
    """

    def __init__(self, pattern: re.Pattern[Any], steps: Steps) -> None:
        self._pattern = pattern
        self._steps = steps

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pattern, name)

    def search(self, text: Any, pos: int = 0, endpos: int = sys.maxsize) -> Any:
        result = self._pattern.search(text, pos, endpos)
        stop = result.end() if result else min(endpos, len(text))
        self._steps.count += 1 + max(0, stop - pos)
        return result

    def finditer(self, text: Any, pos: int = 0, endpos: int = sys.maxsize) -> Any:
        self._steps.count += 1 + max(0, min(endpos, len(text)) - pos)
        return self._pattern.finditer(text, pos, endpos)

    def match(self, text: Any, pos: int = 0, endpos: int = sys.maxsize) -> Any:
        result = self._pattern.match(text, pos, endpos)
        self._steps.count += 1 + (result.end() - pos if result else 0)
        return result


def count_in(
    module: ModuleType, steps: Steps, patch: Callable[[object, str, object], None]
) -> None:
    """Let all patterns of a module, and of its objects that hold patterns, count their steps."""
    for name, value in list(vars(module).items()):
        if isinstance(value, re.Pattern):
            patch(module, name, CountedPattern(value, steps))
        elif isinstance(value, ElementNames):
            markup = markup_of(value)
            _count_in_object(markup, steps, patch)
            _count_in_object(markup.frame, steps, patch)


def _count_in_object(
    owner: object, steps: Steps, patch: Callable[[object, str, object], None]
) -> None:
    for name, value in list(vars(owner).items()):
        if isinstance(value, re.Pattern):
            patch(owner, name, CountedPattern(value, steps))
        elif isinstance(value, dict):
            counted = {key: CountedPattern(pattern, steps) for key, pattern in value.items()}
            patch(owner, name, counted)
