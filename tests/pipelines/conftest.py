"""Pipelines in tests leave nothing to the next test."""

from collections.abc import Iterator

import pytest

from support.browser import Browser, Page, browser
from support.runs import keep_levels


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
