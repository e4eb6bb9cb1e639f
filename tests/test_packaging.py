"""Installed, the program has one importable name, `feedferry`, with its types.

The distributions are built from a copy of the files that git has.
"""

import ast
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path
from shutil import copytree

import pytest

from support.archives import gsa_feed
from support.runs import ROOT

TOP = {"pipelines", "schemas", "transforms"}
ACME = ROOT / "docs" / "extend" / "acme_bulk"
OTHER = """\
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "orchestrator"
version = "1.0"

[tool.setuptools]
packages = ["pipelines", "schemas", "transforms"]
"""
RECORDS = '<record url="http://a.example.com/1"/>', '<record url="http://a.example.com/2"/>'
RUN = "import sys; from feedferry.pipelines.cli.main import main; sys.exit(main())"


def run(command: Sequence[str | Path], *, cwd: Path, **variables: str) -> str:
    """Run a command that succeeds; return what it prints."""
    usual = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=usual | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


class Installation:
    """A virtual environment with the libraries of this one, and the distributions."""

    def __init__(self, folder: Path) -> None:
        self.source, self.dist, self.venv = folder / "source", folder / "dist", folder / "venv"
        names = run(["git", "ls-files", "-z"], cwd=ROOT).split("\0")
        for name in filter(None, names):
            copy, original = self.source / name, ROOT / name
            if original.is_symlink() or original.exists():
                copy.parent.mkdir(parents=True, exist_ok=True)
                if original.is_symlink():
                    copy.symlink_to(original.readlink())
                else:
                    copy.write_bytes(original.read_bytes())
        venv.create(self.venv, with_pip=True)
        self.pip("setuptools>=77")
        self.python = self.venv / "bin" / "python"
        build = "from setuptools.build_meta import *; build_sdist({0!r}); build_wheel({0!r})"
        self.log = run([self.python, "-c", build.format(str(self.dist))], cwd=self.source)
        (self.site,) = self.venv.glob("lib/*/site-packages")
        libraries = next(path for path in sys.path if path.endswith("site-packages"))
        (self.site / "libraries.pth").write_text(f"{libraries}\n")
        (self.wheel,) = self.dist.glob("*.whl")
        self.pip("--no-deps", "--force-reinstall", str(self.wheel))

    def pip(self, *args: str) -> None:
        pip = [str(self.venv / "bin" / "pip"), "install", "-q", "--disable-pip-version-check"]
        run([*pip, *args], cwd=self.source)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    return Installation(tmp_path_factory.mktemp("installed"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of a user of orchestrators, with packages of our former names."""
    for name in TOP:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"raise SystemExit('{name} of the user')\n")
    (tmp_path / "feed.xml").write_bytes(gsa_feed(*RECORDS))
    return tmp_path


@pytest.mark.slow
def test_the_distributions_have_one_name_at_the_top(installed: Installation) -> None:
    with zipfile.ZipFile(installed.wheel) as wheel:
        names = wheel.namelist()
    assert {name.partition("/")[0] for name in names} == {"feedferry", "feedferry-0.1.0.dist-info"}
    assert "feedferry/py.typed" in names
    assert "feedferry/pipelines/sample/01-intranet.xml" in names
    assert "feedferry/testing/samples.jsonl" in names
    (path,) = installed.dist.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        folders = {name.split("/")[1] for name in archive.getnames() if name.count("/") > 1}
        assert not any(member.issym() for member in archive.getmembers())
    assert folders == {"feedferry", "feedferry.egg-info"}
    assert "would be ignored" not in installed.log


@pytest.mark.slow
@pytest.mark.parametrize("extra", [(), ("--jobs", "2"), ("--runner", "dask")], ids=str)
def test_packages_of_the_user_do_not_disturb_a_conversion(
    installed: Installation, folder: Path, extra: tuple[str, ...]
) -> None:
    command = ("convert", "feed.xml", "-o", "out", "--to", "jsonl", "--progress", "none", *extra)
    run([installed.python, "-c", RUN, *command], cwd=folder, PYTHONPATH=".")
    assert len((folder / "out/chunks/000001.jsonl").read_bytes().splitlines()) == 2


@pytest.mark.slow
def test_packages_of_the_user_do_not_disturb_an_import(
    installed: Installation, folder: Path
) -> None:
    program = installed.venv / "bin" / "feedferry"
    assert "Usage: feedferry" in run([program, "--help"], cwd=folder, PYTHONPATH=".")
    code = "import feedferry; print(feedferry.Record.__module__, feedferry.__file__)"
    printed = run([installed.python, "-c", code], cwd=folder, PYTHONPATH=".")
    assert printed.startswith(f"feedferry.schemas.record {installed.site}")


@pytest.mark.slow
def test_a_package_with_our_folders_installs_next_to_it(
    installed: Installation, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    for name in TOP:
        (other / name).mkdir(parents=True)
        (other / name / "__init__.py").write_text(f"OWNER = 'orchestrator {name}'\n")
    (other / "pyproject.toml").write_text(OTHER)
    before = {path: path.stat() for path in installed.site.glob("feedferry/**/*.py")}
    installed.pip("--no-build-isolation", str(other))
    assert {path: path.stat() for path in installed.site.glob("feedferry/**/*.py")} == before
    code = "import pipelines, feedferry; print(pipelines.OWNER, feedferry.convert.__module__)"
    printed = run([installed.python, "-c", code], cwd=tmp_path)
    assert printed == "orchestrator pipelines feedferry.pipelines.python_api\n"


@pytest.mark.slow
def test_an_editable_installation_has_the_one_name(
    installed: Installation, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    target = tmp_path_factory.mktemp("editable")
    command = ["-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target"]
    run([installed.python, *command, target, "-e", installed.source], cwd=folder)
    code = f"import site; site.addsitedir({str(target)!r}); import feedferry.pipelines as p; "
    paths = run([installed.python, "-S", "-c", code + "print(p.__path__)"], cwd=folder)
    assert paths == f"['{installed.source}/feedferry/pipelines']\n"


@pytest.mark.slow
def test_a_package_of_others_is_typed_by_the_installed_wheel(
    installed: Installation, tmp_path: Path
) -> None:
    package = copytree(ACME, tmp_path / "package")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental"]
    command += ["--python-executable", str(installed.python)]
    printed = run([*command, "src", "tests"], cwd=package, MYPYPATH="src")
    assert printed == "Success: no issues found in 4 source files\n"


def test_no_module_imports_a_folder_at_the_top() -> None:
    files = [path for name in ("feedferry", "tests") for path in (ROOT / name).glob("**/*.py")]
    files += [path for name in TOP for path in (ROOT / name).glob("**/*.py")]
    assert len(files) > 700
    wrong = [
        f"{path.relative_to(ROOT)}: {ast.unparse(node)}"
        for path in files
        for node in ast.walk(ast.parse(path.read_bytes()))
        if {name.partition(".")[0] for name in _imported(node)} & TOP
    ]
    assert wrong == []


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""] if not node.level else []
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
