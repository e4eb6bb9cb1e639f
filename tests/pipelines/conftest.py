"""Servers for tests of pipelines, and log levels that are as before after each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.browser import Browser, Page, browser
from support.runs import keep_levels
from support.served import Served, serving


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    """Gives the loggers their levels back."""
    with keep_levels():
        yield


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    with chromium.page() as opened:
        yield opened


@pytest.fixture
def appliance(tmp_path: Path) -> Iterator[Served]:
    """An appliance to push to."""
    with serving(tmp_path / "spool") as served:
        yield served
