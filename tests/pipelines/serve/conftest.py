"""What the tests of a receiver share: an appliance without a door."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from support.rehearsal import Rehearsal


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Rehearsal]:
    """A rehearsal appliance in a folder of its own."""
    rehearsal = Rehearsal(tmp_path)
    with closing(rehearsal.index):
        yield rehearsal
