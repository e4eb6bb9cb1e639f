"""What all tests share: how hypothesis runs them, and how golden files are rewritten."""

import os
import signal

import pytest
from hypothesis import settings

settings.register_profile("local", deadline=None)  # a busy machine is not a failing test
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a script may have it ignored above us
settings.load_profile("ci" if "CI" in os.environ else "local")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`pytest --accept` takes what is made now as what is expected; read the diff."""
    parser.addoption("--accept", action="store_true", help="rewrite the golden files")
