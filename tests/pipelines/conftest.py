"""Pipelines in tests leave nothing to the next test."""

from collections.abc import Iterator

import pytest

from support.runs import keep_levels


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    """Gives the loggers their levels back."""
    with keep_levels():
        yield
