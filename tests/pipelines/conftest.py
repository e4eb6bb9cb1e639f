"""Where pipelines run in tests, and what they must not leave to the next one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.runs import ROOT, keep_levels


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own to stand in, so that names in messages and manifests are short."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # worker processes find us from anywhere
    return tmp_path


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    """Gives the loggers their levels back."""
    with keep_levels():
        yield
