"""Installed, the program has one importable name, `feedferry`, with its types.

The distributions are built from a commit of the files that git has.
"""

import ast
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path
from shutil import copytree

import pytest

from support.archives import gsa_feed
from support.checkouts import clean_clone, git, new_environment, script_of
from support.ports import kept_port
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
SAVED = re.compile(r'^```yaml title="([\w.]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
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
        self.source, self.dist = clean_clone(folder / "source"), folder / "dist"
        build = [sys.executable, "-m", "build", "--installer", "uv", "--outdir", str(self.dist)]
        self.log = run([*build, str(self.source)], cwd=folder)
        self.venv = folder / "venv"
        venv.create(self.venv, with_pip=True)
        self.pip("setuptools>=77")
        self.python = self.venv / "bin" / "python"
        (self.site,) = self.venv.glob("lib/*/site-packages")
        libraries = next(path for path in sys.path if path.endswith("site-packages"))
        (self.site / "libraries.pth").write_text(f"{libraries}\n")
        (self.wheel,) = self.dist.glob("*.whl")
        (self.sdist,) = self.dist.glob("*.tar.gz")
        self.pip("--no-deps", "--force-reinstall", str(self.wheel))

    def pip(self, *args: str) -> None:
        pip = [str(self.venv / "bin" / "pip"), "install", "-q", "--disable-pip-version-check"]
        run([*pip, *args], cwd=self.source)

    def commit(self) -> str:
        return git(self.source, "rev-parse", "--short=12", "HEAD").strip()


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
        names = {*wheel.namelist()}
    assert {name.partition("/")[0] for name in names} == {"feedferry", "feedferry-0.1.0.dist-info"}
    with tarfile.open(installed.sdist) as archive:
        of_sdist = {name.partition("/")[2] for name in archive.getnames()}
        assert not any(member.issym() for member in archive.getmembers())
    folders = {name.partition("/")[0] for name in of_sdist if "/" in name}
    assert folders == {".ci", "feedferry", "feedferry.egg-info"}
    assert {name for name in names if "dist-info" not in name} <= of_sdist
    assert "would be ignored" not in installed.log


@pytest.mark.slow
def test_the_wheel_has_all_files_of_the_packages_and_no_tests(installed: Installation) -> None:
    kept = git(installed.source, "ls-files", "feedferry", *TOP).splitlines()
    of_packages = {
        name if name.startswith("feedferry/") else f"feedferry/{name}"
        for name in kept
        if not (installed.source / name).is_symlink()
    }
    with zipfile.ZipFile(installed.wheel) as wheel:
        names = {name for name in wheel.namelist() if "dist-info" not in name}
    assert names == of_packages | {"feedferry/commit.txt"}


@pytest.mark.slow
def test_an_index_accepts_the_distributions(installed: Installation) -> None:
    files = (installed.wheel, installed.sdist)
    printed = run([sys.executable, "-m", "twine", "check", "--strict", *files], cwd=installed.dist)
    assert printed.count("PASSED") == 2


def test_an_index_knows_the_classifiers() -> None:
    classifiers = pytest.importorskip("trove_classifiers").classifiers
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert {*project["classifiers"]} <= classifiers
    assert project["classifiers"] == sorted(project["classifiers"])
    versions = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    assert (versions[0], project["requires-python"]) == ("3.11", ">=3.11")


def test_each_extra_that_a_message_or_a_page_names_exists() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
        "optional-dependencies"
    ]
    paths = [path for name in TOP for path in (ROOT / name).rglob("*.py")]
    paths += [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    texts = "".join(path.read_text("utf-8") for path in paths)
    named = {
        name for group in re.findall(r"feedferry\[([\w,]+)\]", texts) for name in group.split(",")
    }
    assert {"dask", "otel", "sftp"} <= named <= {*extras}
    for name in ("dask", "http", "office", "otel", "pdf", "sftp", "yaml"):
        assert name in extras
        assert f"`{name}`" in (ROOT / "README.md").read_text("utf-8")


@pytest.mark.slow
def test_the_version_has_the_commit_of_the_build_or_of_the_checkout(
    installed: Installation, tmp_path: Path
) -> None:
    expected = f"feedferry 0.1.0 ({installed.commit()})\n"
    for command in (["-m", "feedferry"], ["-c", RUN]):
        assert run([installed.python, *command, "--version"], cwd=tmp_path) == expected
    command = [str(installed.python), "-m", "feedferry", "--version"]
    assert run(command, cwd=installed.source) == expected
    (installed.source / "README.md").write_text("changed")
    assert run(command, cwd=installed.source) == expected.replace(")", "-dirty)")
    git(installed.source, "checkout", "--quiet", "README.md")


@pytest.mark.slow
def test_uv_installs_a_tool_that_does_what_the_readme_shows(
    installed: Installation, tmp_path: Path
) -> None:
    tool = {"UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")}
    uv = (sys.executable, "-m", "uv", "tool", "install", "--quiet", "--python", sys.executable)
    run([*uv, installed.wheel], cwd=tmp_path, **tool)
    folder = tmp_path / "user"
    copytree(ROOT / "pipelines" / "sample", folder / "pipelines" / "sample")
    readme = (ROOT / "README.md").read_text("utf-8")
    with kept_port() as port:
        for name, text in SAVED.findall(readme):
            (folder / name).write_text(text.replace("19900", str(port)), "utf-8")
        script = script_of(re.sub(r"^```sh\n.*?^```$", "", readme, flags=re.M | re.S), port)
        path = f"{tmp_path / 'bin'}:{new_environment()['PATH']}"
        printed = run(["bash", "-c", script], cwd=folder, PATH=path, VIRTUAL_ENV="")
    assert re.findall(r"^pushed +(\d+) accepted,", printed, re.MULTILINE) == ["54"]


@pytest.mark.slow
def test_pipx_installs_the_wheel(installed: Installation, folder: Path, tmp_path: Path) -> None:
    places = {f"PIPX_{name.upper()}": str(tmp_path / name) for name in ("home", "bin_dir")}
    pipx = (sys.executable, "-m", "pipx", "install", "--quiet", "--python", sys.executable)
    run([*pipx, installed.wheel], cwd=folder, **places)
    program = tmp_path / "bin_dir" / "feedferry"
    assert run([program, "--version"], cwd=folder) == f"feedferry 0.1.0 ({installed.commit()})\n"
    run([program, "convert", "feed.xml", "-o", "out", "--to", "jsonl", "-q"], cwd=folder)
    assert len((folder / "out/chunks/000001.jsonl").read_bytes().splitlines()) == 2


@pytest.mark.slow
@pytest.mark.parametrize("extra", [(), ("--jobs", "2"), ("--runner", "dask")], ids=str)
def test_packages_of_the_user_do_not_disturb_a_conversion(
    installed: Installation, folder: Path, extra: tuple[str, ...]
) -> None:
    command = ("convert", "feed.xml", "-o", "out", "--to", "jsonl", "--progress", "none", *extra)
    run([installed.python, "-m", "feedferry", *command], cwd=folder, PYTHONPATH=".")
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
