"""Fixtures of the receiver: a rehearsal appliance without a server."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from support.rehearsal import Rehearsal


@pytest.fixture
def rehearsal(tmp_path: Path) -> Iterator[Rehearsal]:
    """A rehearsal appliance in a folder of its own."""
    rehearsal = Rehearsal(tmp_path)
    with closing(rehearsal.index):
        yield rehearsal
