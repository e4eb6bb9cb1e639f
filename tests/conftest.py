"""What all tests share: how hypothesis runs them, and how golden files are rewritten."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).parents[1]
settings.register_profile("local", deadline=None)  # a busy machine is not a failing test
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a script may have it ignored above us
settings.register_profile("quick", deadline=None, max_examples=20)

SERVERS = {"postgresql_server", "mariadb_server"}
"""Fixtures that start a database server: tests that use them are slow."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`pytest --accept` rewrites all expected and generated files; read the diff."""
    parser.addoption("--accept", action="store_true", help="rewrite expected and generated files")


@pytest.fixture
def accept(pytestconfig: pytest.Config) -> bool:
    """Whether to write the file that the test compares."""
    return bool(pytestconfig.getoption("--accept"))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run in a new folder, so that names in messages and manifests are short."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # worker processes find us from anywhere
    return tmp_path


def pytest_configure(config: pytest.Config) -> None:
    """Try fewer examples where slow tests are left out, and the same ones every time in CI.

    `--accept` runs slow tests too.
    """
    if config.getoption("--accept"):
        config.option.markexpr = ""
    is_quick = config.getoption("markexpr") == "not slow"
    settings.load_profile("quick" if is_quick else "ci" if "CI" in os.environ else "local")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--accept"):  # only tests that compare a file which they can write
        items[:] = [item for item in items if "accept" in getattr(item, "fixturenames", ())]
    for item in items:
        if isinstance(item, pytest.Function) and SERVERS.intersection(item.fixturenames):
            item.add_marker(pytest.mark.slow)
