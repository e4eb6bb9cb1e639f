"""The tree of errors."""

import re

import pytest

from schemas import errors
from schemas.errors import (
    BalanceError,
    ConfigError,
    FatalError,
    FeedferryError,
    FormatError,
    LossRefusedError,
    ProgressError,
    RecordError,
    SourceError,
    StoppedError,
    TooManyRejectsError,
)

_BRANCH = re.compile(r"^ {4}((?:│ {3}| {4})*)[├└]── (\w+)", re.MULTILINE)


def drawn_tree() -> list[tuple[int, str]]:
    """Depth and name of every class below the root, as the module's docstring draws them."""
    drawing = errors.__doc__ or ""
    return [(len(match[1]) // 4 + 1, match[2]) for match in _BRANCH.finditer(drawing)]


def tree_of(kind: type[Exception], depth: int = 1) -> list[tuple[int, str]]:
    below = [
        [(depth, child.__name__), *tree_of(child, depth + 1)] for child in kind.__subclasses__()
    ]
    return [branch for branches in below for branch in branches]


def test_the_tree_is_the_one_that_is_drawn() -> None:
    assert tree_of(FeedferryError) == drawn_tree()


def test_the_root_is_drawn_above_its_branches() -> None:
    assert "::\n\n    FeedferryError\n    ├──" in (errors.__doc__ or "")


@pytest.mark.parametrize(
    ("kind", "exit_code"),
    [
        (ConfigError, 2),
        (StoppedError, 3),
        (LossRefusedError, 3),
        (TooManyRejectsError, 3),
        (FatalError, 4),
        (FormatError, 4),
        (SourceError, 4),
        (ProgressError, 5),
        (BalanceError, 5),
        (FeedferryError, 5),
    ],
)
def test_an_error_ends_the_command_with_its_exit_code(
    kind: type[FeedferryError], exit_code: int
) -> None:
    assert kind.exit_code == exit_code


def test_a_record_error_says_what_kind_it_is_and_why() -> None:
    found = RecordError("bad-date", "last-modified='x'; expected a date")
    assert (found.code, found.reason) == ("bad-date", "last-modified='x'; expected a date")


def test_a_record_error_reads_as_its_reason() -> None:
    found = RecordError("bad-date", "last-modified='x'; expected a date")
    assert str(found) == "last-modified='x'; expected a date"
