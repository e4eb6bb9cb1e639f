"""The build backend: that of setuptools, which also writes the commit of a checkout.

Distributions have the commit in `feedferry/commit.txt`, the checkout has no such file. A wheel that
is built from an sdist has the file of the sdist.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403  # the hooks that are not replaced

ROOT = Path(__file__).parents[1]
COMMIT = ROOT / "feedferry" / "commit.txt"
DESCRIBE = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
Settings = dict[str, str | list[str] | None] | None


def build_sdist(directory: str, settings: Settings = None) -> str:
    """Build the sdist with the commit."""
    with _commit_file():
        return build_meta.build_sdist(directory, settings)


def build_wheel(directory: str, settings: Settings = None, metadata: str | None = None) -> str:
    """Build the wheel with the commit."""
    with _commit_file():
        return build_meta.build_wheel(directory, settings, metadata)


@contextmanager
def _commit_file() -> Iterator[None]:
    """Write the file during a build from a checkout, and remove it after that."""
    if not (ROOT / ".git").exists():
        yield
        return
    commit = subprocess.run(DESCRIBE, cwd=ROOT, capture_output=True, check=True).stdout
    COMMIT.write_bytes(commit)
    try:
        yield
    finally:
        COMMIT.unlink(missing_ok=True)  # another build may have removed it
