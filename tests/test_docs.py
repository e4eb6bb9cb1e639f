"""The pages about formats: examples work; no key, command, attribute or code is missing.

`pytest --accept` writes what the examples print into their pages; read the difference.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from lxml import etree

from support.pages import Example, examples, laid_out, read_page, run
from support.runs import ROOT, keep_levels
from transforms.formats import FORMATS
from transforms.formats.command_stream.syntax import COMMAND_NAMES
from transforms.sources import SOURCES
from transforms.sources.programs import config

FOLDER = "docs/formats"
PAGES = {path.stem: read_page(f"{FOLDER}/{path.name}") for path in (ROOT / FOLDER).glob("*.md")}
NAMES = [*(source.name for source in SOURCES), *(format_.name for format_ in FORMATS)]
EXAMPLES = [(name, example) for name in sorted(PAGES) for example in examples(PAGES[name])]
STREAM_PAGES = (
    *("command-streams", "lister-stream", "retriever-stream", "authorizer-stream", "command"),
)
DTDS = {"gsafeed-5": "gsa-feed", "gsafeed-7": "gsa-feed", "xmlgroups": "gsa-groups"}
YAML_KEYS = {
    field.encode_name
    for struct in (config.Programs, config.User)
    for field in msgspec.structs.fields(struct)
}

_LINK = re.compile(r"\]\(([\w.-]+\.md)(?:#[\w-]+)?\)")
_CODE = re.compile(
    r'(?:RecordError|ProgramError|BadRange|_reject|_note|_notice|\bnotice)\(\s*"([a-z0-9-]+)"'
    r'|\bcode(?:, reason)? ?= ?"([a-z0-9-]+)"|_TOO_LARGE = "([a-z0-9-]+)"'
)
"""Codes of rejects, filtered records and notices in the source."""


def codes(*globs: str) -> set[str]:
    """Return the codes in modules below `transforms` and `schemas`."""
    texts = (path.read_text("utf-8") for glob in globs for path in ROOT.glob(glob))
    return {"".join(groups) for text in texts for groups in _CODE.findall(text)}


def attributes() -> Iterator[tuple[str, str]]:
    """Yield each attribute of the DTDs with the page that must have it."""
    for name, page in DTDS.items():
        for element in etree.DTD(str(ROOT / "schemas" / f"{name}.dtd")).iterelements():
            for attribute in element.iterattributes():
                yield page, f"`{element.name}/@{attribute.name}`"


def table_rows(*pages: str) -> str:
    """Return the rows of the tables of some pages."""
    lines = (line for page in pages for line in PAGES[page].splitlines())
    return "\n".join(line for line in lines if line.startswith("|"))


@pytest.fixture(scope="module")
def folder_of_page(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """The working folder of a page, in which its examples run one after another."""
    name: str = request.param
    with laid_out(PAGES[name], tmp_path_factory.mktemp(name)) as folder:
        yield folder


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    with keep_levels():
        yield


@pytest.mark.slow
@pytest.mark.parametrize(
    ("folder_of_page", "name", "example"),
    [(name, name, example) for name, example in EXAMPLES],
    ids=lambda value: " ".join(value.words) if isinstance(value, Example) else str(value),
    indirect=["folder_of_page"],
    scope="module",
)
@pytest.mark.usefixtures("folder_of_page")
def test_an_example_prints_the_documented_output(
    name: str,
    example: Example,
    capsys: pytest.CaptureFixture[str],
    pytestconfig: pytest.Config,
) -> None:
    code = run(example)
    out, err = capsys.readouterr()
    if pytestconfig.getoption("--accept") and example.printed:
        path = ROOT / FOLDER / f"{name}.md"
        path.write_text(path.read_text("utf-8").replace(example.printed, out), "utf-8")
        return
    assert (code in {0, 1}, out) == (True, example.printed or out), err


@pytest.mark.parametrize("name", NAMES)
def test_a_format_has_a_page_with_an_example_and_a_link_in_the_index(name: str) -> None:
    assert f"]({name}.md)" in PAGES["index"]
    assert name in {page for page, _ in EXAMPLES}


def test_links_lead_to_pages() -> None:
    links = {link for page in PAGES.values() for link in _LINK.findall(page)}
    assert sorted(link for link in links if link.removesuffix(".md") not in PAGES) == []


def test_each_command_is_in_a_table() -> None:
    rows = table_rows(*STREAM_PAGES)
    assert [name for name in COMMAND_NAMES if not re.search(rf"`{name}=?`", rows)] == []


def test_each_attribute_of_a_dtd_is_on_the_page_of_its_format() -> None:
    pairs = sorted(set(attributes()))
    assert pairs
    assert [pair for pair in pairs if pair[1] not in PAGES[pair[0]]] == []


def test_each_key_of_a_file_of_programs_is_in_a_table() -> None:
    rows = table_rows("command")
    assert sorted(key for key in YAML_KEYS if f"`{key}`" not in rows) == []


def test_each_code_of_streams_and_programs_is_on_one_of_their_pages() -> None:
    stream_codes = codes(
        *("transforms/formats/command_stream/*.py", "transforms/sources/programs/*.py"),
        "transforms/sources/*.py",
    )
    expected = {"no-id", "overlap", "crlf", "program-exit", "unsafe-delimiter", "late-group"}
    assert expected <= stream_codes
    text = "".join(PAGES[name] for name in STREAM_PAGES)
    assert sorted(code for code in stream_codes if f"`{code}`" not in text) == []


def test_each_code_is_on_a_page() -> None:
    text = "".join((*PAGES.values(), read_page("docs/serve.md")))
    found = codes("transforms/**/*.py", "schemas/*.py")
    assert sorted(code for code in found if f"`{code}`" not in text) == []
