"""Faults that tests put into readers: the reading of one record raises an exception of its own.

The command line has no place to hand in a reader that fails, so the function that reads one record
is replaced. The marked record has MARK in its url or name; it is the second of three.
"""

import importlib
from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest

from feedferry.testing.format_kit import FormatKit


def put_in(patch: pytest.MonkeyPatch, kit: FormatKit) -> None:
    """Let the function that reads one record raise a KeyError for the marked record."""
    break_at(patch, kit.reads_record, kit.is_marked)


def break_at(patch: pytest.MonkeyPatch, name: str, is_marked: Callable[..., bool]) -> None:
    """Let the function of that name raise a KeyError where its arguments are marked."""
    path, _, attribute = name.rpartition(".")
    module, _, holder = path.partition(":")
    owner: Any = importlib.import_module(module)
    if holder:
        owner = getattr(owner, holder)
    function = getattr(owner, attribute)

    @wraps(function)
    def broken(*args: Any, **kwargs: Any) -> Any:  # whatever the function takes and returns
        if is_marked(*args, **kwargs):
            raise KeyError("secret of the document")
        return function(*args, **kwargs)

    patch.setattr(owner, attribute, broken)
