"""An appliance to push to."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.served import Served, serving


@pytest.fixture
def appliance(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path / "spool") as served:
        yield served
