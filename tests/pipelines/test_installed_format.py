"""A format of another package is used as soon as the package is installed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.runs import ROOT

pytestmark = pytest.mark.slow

PACKAGE = ROOT / "tests" / "support" / "toy_format"
TO_TOY = ("--to", "toy")
DOCUMENT = "url: http://intranet.example.com/harbour\ntitle: The harbour\n\n"
SETUP = ("-W", "ignore", "-c", "import setuptools; setuptools.setup()", "-q")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of packages with the toy format, built and installed by setuptools."""
    source, site = tmp_path / "source", tmp_path / "site"
    shutil.copytree(PACKAGE, source, ignore=shutil.ignore_patterns("__pycache__"))
    site.mkdir()
    steps = ("build_py", "--build-lib", str(site), "egg_info", "--egg-base", str(site))
    subprocess.run([sys.executable, *SETUP, *steps], cwd=source, check=True, capture_output=True)
    return site


def test_a_format_of_an_installed_package_is_used_as_ours(site: Path, tmp_path: Path) -> None:
    def feedferry(*args: str) -> str:
        code = "import sys; from feedferry.pipelines.cli.main import main; sys.exit(main())"
        paths = {"PYTHONPATH": f"{site}{os.pathsep}{ROOT}"}
        return subprocess.run(
            [sys.executable, "-P", "-c", code, *args],
            cwd=tmp_path,
            env={**os.environ, **paths},
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    (tmp_path / "in.txt").write_text(DOCUMENT)

    assert "toy                read/write  blocks of name: value lines\n" in feedferry("formats")
    assert "ADD" in feedferry("inspect", "in.txt")
    assert "http://intranet.example.com/harbour" in feedferry("plan", "in.txt", *TO_TOY)
    assert "acl" in feedferry("formats", "gsa-feed", "toy")
    feedferry("convert", "in.txt", "-o", "out", *TO_TOY)
    (chunk,) = (tmp_path / "out" / "chunks").iterdir()
    assert chunk.read_text() == DOCUMENT
