"""docs/extend.md: its package is installed, used, tested by its kits, and typed.

The page shows functions and objects of its files; `pytest --accept` writes them into the page.
"""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import Any

import pytest

import feedferry.extend
import feedferry.testing
from feedferry.testing import ScriptedReply, ScriptedRequest, scripted_server
from support.pages import read_page
from support.runs import ROOT

PAGE = "docs/extend.md"
PACKAGE = ROOT / "docs" / "extend" / "acme_bulk"
SETUP = ("-W", "ignore", "-c", "import setuptools; setuptools.setup()", "-q")
MAIN = "import sys; from feedferry.pipelines.cli.main import main; sys.exit(main())"
_FILE = re.compile(r'^```(\w+) title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_BLANK_LINES = re.compile(r"\n{2,}(?=\S)")
FEED = b"""\
<gsafeed><header><datasource>harbour</datasource><feedtype>incremental</feedtype></header><group>
%s</group></gsafeed>
"""
RECORD = (
    b'<record url="http://a.example.com/%d" mimetype="text/plain">%s<content>Text %d</content>'
    b"</record>\n"
)
ACL = b'<acl><principal scope="user" access="permit">joe</principal></acl>'
FORMAT, APPLIANCE = "bulk_format.py", "bulk_appliance.py"
BROKEN = {
    "a title is not written": (FORMAT, '"title": record.title, ', ""),
    "an ACL is declared and not written": (FORMAT, '{"title", ', '{"acl", "title", '),
    "an error of one record ends the reading": (FORMAT, "except Exception", "except OSError"),
    "a span begins with a document": (FORMAT, "if _begins_action(line) and end", "if end"),
    "any JSON is claimed": (FORMAT, "_BEGIN.match(head) is not None", 'head[:1] == b"{"'),
    "a refused action is taken for accepted": (APPLIANCE, ">= 300", ">= 600"),
    "a busy action is refused": (APPLIANCE, "(429, 503)", "()"),
    "a reply for fewer actions is an acceptance": (
        APPLIANCE,
        "items is None or len(items) != part.records",
        "False",
    ),
    "a step has no receipt": (
        APPLIANCE,
        'session.step("refresh", lambda: ',
        "(lambda reply: reply)(",
    ),
}
"""Mistakes in the package, as replacements of text; its tests find each of them."""


def install(source: Path, site: Path) -> None:
    """Build a package with setuptools, and put it with its metadata into a folder."""
    site.mkdir()
    steps = ("build_py", "--build-lib", str(site), "egg_info", "--egg-base", str(site))
    subprocess.run([sys.executable, *SETUP, *steps], cwd=source, check=True, capture_output=True)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the package; `site` next to it is on the path of programs."""
    folder = tmp_path_factory.mktemp("acme")
    copytree(PACKAGE, folder / "source", ignore=ignore_patterns("__pycache__"))
    install(folder / "source", folder / "site")
    return folder / "source"


def python(package: Path, *args: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    """Run Python with the package installed."""
    paths = os.pathsep.join(map(str, (package.parent / "site", ROOT)))
    command = [sys.executable, "-P", *args]
    variables = os.environ | {"PYTHONPATH": paths}
    return subprocess.run(
        command, cwd=cwd, env=variables, capture_output=True, text=True, check=False
    )


class Index:
    """A search server with a `_bulk` endpoint; `faults` are replies before it takes anything."""

    def __init__(
        self, *faults: ScriptedReply, refused: Sequence[str] = (), most: int = 100
    ) -> None:
        self.faults, self.refused, self.most = [*faults], refused, most
        self.documents: dict[str, Any] = {}
        self.refreshed: list[int] = []

    def __call__(self, request: ScriptedRequest) -> ScriptedReply:
        if request.path == "/intranet/_refresh":
            self.refreshed.append(len(self.documents))
            return ScriptedReply(body=b'{"_shards": {"failed": 0}}')
        if request.path == "/intranet/_count":
            return ScriptedReply(body=json.dumps({"count": len(self.documents)}).encode())
        if request.path != "/intranet/_bulk":
            return ScriptedReply(404)
        if self.faults:
            return self.faults.pop(0)
        lines = [json.loads(line) for line in request.body.splitlines()]
        if len(lines) > 2 * self.most:
            return ScriptedReply(413)
        items = [*self._items(iter(lines))]
        return ScriptedReply(body=json.dumps({"items": items}).encode())

    def _items(self, lines: Iterator[Any]) -> Iterator[Any]:
        for line in lines:
            url = line["index"]["_id"]
            document = next(lines)
            if url in self.refused:
                yield {"index": {"status": 400, "error": "mapper_parsing_exception"}}
            else:
                self.documents[url] = document
                yield {"index": {"status": 201}}


@pytest.mark.slow
def test_the_package_is_used_as_what_is_ours(package: Path, tmp_path: Path) -> None:
    def feedferry(*args: str) -> tuple[int, str]:
        done = python(package, "-c", MAIN, *args, cwd=tmp_path)
        return done.returncode, done.stdout + done.stderr

    records = b"".join(RECORD % (number, b"", number) for number in range(8))
    (tmp_path / "feed.xml").write_bytes(FEED % records)
    busy = ScriptedReply(429, headers={"Retry-After": "0"})
    index = Index(busy, refused=["http://a.example.com/5"], most=4)

    code, text = feedferry("formats")
    assert code == 0
    assert "acme-bulk          read/write  bodies of _bulk requests\n" in text
    code, text = feedferry("convert", "feed.xml", "-o", "out", "--to", "acme-bulk")
    assert code == 0, text
    (chunk,) = (tmp_path / "out" / "chunks").iterdir()
    assert chunk.name == "000001.ndjson"
    with scripted_server(index) as url:
        to = ("--to", f"{url}/intranet/_bulk", "--progress", "none")
        code, text = feedferry("push", "out", *to)
        assert code == 1, text
        assert index.documents == {
            f"http://a.example.com/{number}": {"type": "text/plain", "text": f"Text {number}"}
            for number in range(8)
            if number != 5
        }
        assert index.refreshed == [7]
        code, text = feedferry("rejects", "show", "out", "--url", "http://a.example.com/5")
        assert "mapper_parsing_exception" in text
        assert feedferry("push", "out", *to)[0] in (0, 1)
        assert index.refreshed == [7]
    assert feedferry("convert", "out/chunks", "-o", "back", "--to", "jsonl")[0] == 0


@pytest.mark.slow
def test_a_document_with_an_acl_stops_the_run(package: Path, tmp_path: Path) -> None:
    (tmp_path / "feed.xml").write_bytes(FEED % (RECORD % (1, ACL, 1)))
    command = ("convert", "feed.xml", "-o", "out", "--to", "acme-bulk")
    done = python(package, "-c", MAIN, *command, cwd=tmp_path)
    assert done.returncode == 3
    assert "acl: 1 principal; --accept-loss acl goes on without it" in done.stderr


@pytest.mark.slow
def test_the_tests_of_the_package_pass(package: Path) -> None:
    done = python(package, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", cwd=package)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("mistake", BROKEN)
def test_the_kits_find_a_mistake(tmp_path: Path, mistake: str) -> None:
    name, right, wrong = BROKEN[mistake]
    tests = {FORMAT: "TestBulkFormat", APPLIANCE: "TestAcme"}[name]
    source = copytree(PACKAGE, tmp_path / "source", ignore=ignore_patterns("__pycache__"))
    path = source / "src" / "acme_bulk" / name
    assert right in path.read_text()
    path.write_text(path.read_text().replace(right, wrong))
    install(source, tmp_path / "site")

    words = ("-m", "pytest", "-qx", "-p", "no:cacheprovider", "-k", tests, "tests")
    done = python(source, *words, cwd=source)
    assert done.returncode == 1, done.stdout
    assert "1 failed" in done.stdout


def test_the_package_imports_public_names_only() -> None:
    public = {module.__name__: module.__all__ for module in (feedferry.extend, feedferry.testing)}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("feedferry"):
                assert {alias.name for alias in node.names} <= {*public[node.module or ""]}, path


def test_each_public_name_is_there() -> None:
    for module in (feedferry.extend, feedferry.testing):
        assert [name for name in module.__all__ if not hasattr(module, name)] == []


def test_the_page_shows_parts_of_the_files_of_the_package(accept: bool) -> None:
    text = _FILE.sub(with_parts_of_the_file, page())
    if accept:
        (ROOT / PAGE).write_text(text)
    assert page() == text


def test_the_page_links_to_the_files_of_the_package() -> None:
    files = {
        path.relative_to(ROOT / "docs").as_posix()
        for path in PACKAGE.rglob("*.*")
        if path.suffix in (".py", ".toml") and path.name != "__init__.py"  # one docstring
    }
    assert {*re.findall(r"\]\((extend/[^)]+)\)", page())} == files
    assert not any("type: ignore" in (ROOT / "docs" / file).read_text() for file in files)


def test_the_source_of_the_page_reads_its_file(tmp_path: Path) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```$", page(), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"__name__": "urls"}
    exec(compile(code, PAGE, "exec"), names)
    path = tmp_path / "urls.txt"
    path.write_bytes(b"https://www.example.com/1\nnonsense\n")
    request = names["SpanRequest"](span=names["Span"](source="urls.txt", path=str(path)))
    record, reject = names["UrlListSource"]().read(request)
    assert (record.url, record.provenance.source) == ("https://www.example.com/1", "urls.txt")
    assert (reject.code, reject.data) == ("url-not-absolute", b"nonsense\n")


def page() -> str:
    return read_page(PAGE)


def with_parts_of_the_file(block: "re.Match[str]") -> str:
    """Return a block with the present text of the parts of a file that it shows."""
    language, name, shown = block.groups()
    parts = {first_line(part): part for part in parts_of((PACKAGE / name).read_text())}
    missing = [line for line in map(first_line, parts_of(shown)) if line not in parts]
    assert missing == [], f"{name} has no part that begins with these lines"
    between = "\n\n" if language == "toml" else "\n\n\n"
    text = between.join(parts[first_line(part)] for part in parts_of(shown))
    return f'```{language} title="{name}"\n{text}\n```'


def parts_of(text: str) -> list[str]:
    """Return the functions, classes and objects of a module, or the tables of a TOML file."""
    return _BLANK_LINES.split(text.strip())


def first_line(part: str) -> str:
    return part.partition("\n")[0]
