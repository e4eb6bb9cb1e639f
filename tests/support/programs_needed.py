"""Programs that a machine may not have: tests that need one are skipped, in one line of output."""

import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator

import pytest

_NOT_INSTALLED = " is not installed"


def without(program: str) -> str:
    """Return the reason of a skip."""
    return program + _NOT_INSTALLED


def path_of(program: str) -> str:
    """Return the path of a program; skip the test if it is not installed."""
    path = shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin")
    if path is None:
        pytest.skip(without(program))
    return path


def needs(program: str) -> pytest.MarkDecorator:
    """Mark tests that are skipped if a program is not installed."""
    return pytest.mark.skipif(not shutil.which(program), reason=without(program))


def summary_of_skips(reasons: Iterable[str]) -> Iterator[str]:
    """Yield one line for all missing programs, and one for each other reason.

    >>> print(*summary_of_skips(["curl is not installed", "no ACLs here", "curl is not installed"]))
    skipped 2 tests: curl is not installed skipped 1 test: no ACLs here
    """
    counts = Counter(reasons)
    programs = sorted(reason for reason in counts if reason.endswith(_NOT_INSTALLED))
    if programs:
        names = ", ".join(reason.removesuffix(_NOT_INSTALLED) for reason in programs)
        verb = "is" if len(programs) == 1 else "are"
        yield _line(sum(counts[reason] for reason in programs), f"{names} {verb} not installed")
    for reason in sorted({*counts} - {*programs}):
        yield _line(counts[reason], reason)


def _line(count: int, reason: str) -> str:
    return f"skipped {count} {'test' if count == 1 else 'tests'}: {reason}"
