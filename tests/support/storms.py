"""How long the tests take that kill and race processes: shortened, or in full.

`FEEDFERRY_STORM=full pytest -m slow tests/…` runs all instants of a storm.
"""

import os
from typing import TypeVar

_T = TypeVar("_T")


def chosen(*, usual: _T, full: _T) -> _T:
    """Return what a test goes through: `full` if that is asked for by the environment."""
    return full if os.environ.get("FEEDFERRY_STORM") == "full" else usual
