"""The version of the program, with the commit of a checkout or of a build from one."""

import subprocess
from importlib.metadata import version
from pathlib import Path

_PACKAGE = Path(__file__).parents[2]
"""The package `feedferry`; in a checkout, this module is found by a link in it."""
_DESCRIBE = ("git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")


def version_text() -> str:
    """Return the version, and the commit if it is known, as `0.1.0 (16a0f25fd3fa)`."""
    commit = _commit_of(_PACKAGE)
    return version("feedferry") + (f" ({commit})" if commit else "")


def _commit_of(package: Path) -> str:
    """Return the commit that a build has written, or that of the checkout, "" if there is none."""
    built = package / "commit.txt"
    if built.exists():
        return built.read_text("ascii").strip()
    if not (package.parent / ".git").exists():
        return ""
    try:
        done = subprocess.run(
            _DESCRIBE, cwd=package.parent, capture_output=True, text=True, check=False
        )
    except OSError:  # git is not installed
        return ""
    return done.stdout.strip()
