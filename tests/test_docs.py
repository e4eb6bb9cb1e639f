"""What the pages of the formats show is what happens, and they leave nothing out."""

import re
from collections.abc import Iterator
from pathlib import Path

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
EXAMPLES = [(name, one) for name in sorted(PAGES) for one in examples(PAGES[name])]
STREAMS = (
    *("command-streams", "lister-stream", "retriever-stream", "authorizer-stream", "command"),
)
DTDS = {"gsafeed-5": "gsa-feed", "gsafeed-7": "gsa-feed", "xmlgroups": "gsa-groups"}
YAML_KEYS = sorted({*config._PARSERS, *config._USER_PARSERS})

_LINK = re.compile(r"\]\(([\w.-]+\.md)(?:#[\w-]+)?\)")
_CODE = re.compile(
    r'(?:RecordError|ProgramError|BadRange|_reject|_note|_notice|\bnotice)\(\s*"([a-z0-9-]+)"'
    r'|\bcode(?:, reason)? ?= ?"([a-z0-9-]+)"|_TOO_LARGE = "([a-z0-9-]+)"'
)
"""How the source names what it rejects a record, filters it or notes something for."""


def codes(*globs: str) -> list[str]:
    """The codes that modules below `transforms` and `schemas` may give."""
    paths = {path for glob in globs for path in ROOT.glob(glob)}
    texts = (path.read_text("utf-8") for path in paths)
    found = (match for text in texts for match in _CODE.findall(text))
    return sorted({"".join(groups) for groups in found})


OTHER_CODES = codes("transforms/sources/spool.py")
STREAM_CODES = [
    code
    for code in codes(
        *("transforms/formats/command_stream/*.py", "transforms/sources/programs/*.py"),
        "transforms/sources/*.py",
    )
    if code not in OTHER_CODES
]


def attributes() -> Iterator[tuple[str, str]]:
    """The attributes of all DTDs, each with the page that must have it."""
    for name, page in DTDS.items():
        for element in etree.DTD(str(ROOT / "schemas" / f"{name}.dtd")).iterelements():
            for attribute in element.iterattributes():
                yield page, f"`{element.name}/@{attribute.name}`"


def rows(*pages: str) -> str:
    """The rows of the tables of some pages."""
    lines = (line for page in pages for line in PAGES[page].splitlines())
    return "\n".join(line for line in lines if line.startswith("|"))


@pytest.fixture(scope="module")
def standing(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    name: str = request.param
    with laid_out(PAGES[name], tmp_path_factory.mktemp(name)) as folder:
        yield folder


@pytest.fixture(autouse=True)
def levels() -> Iterator[None]:
    with keep_levels():
        yield


@pytest.mark.slow
@pytest.mark.parametrize(
    ("standing", "example"),
    EXAMPLES,
    ids=lambda one: " ".join(one.words) if isinstance(one, Example) else str(one),
    indirect=["standing"],
    scope="module",
)
@pytest.mark.usefixtures("standing")
def test_an_example_of_a_page_does_what_it_shows(
    example: Example, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(example)
    out, err = capsys.readouterr()
    assert (code in {0, 1}, out) == (True, example.printed or out), err


@pytest.mark.parametrize("name", NAMES)
def test_a_format_has_a_page_with_an_example_that_the_index_names(name: str) -> None:
    assert f"]({name}.md)" in PAGES["index"]
    assert name in {page for page, _ in EXAMPLES}


def test_a_link_leads_to_a_page() -> None:
    links = {link for page in PAGES.values() for link in _LINK.findall(page)}
    assert sorted(link for link in links if link.removesuffix(".md") not in PAGES) == []


@pytest.mark.parametrize("name", COMMAND_NAMES)
def test_a_command_is_in_a_row_of_a_page_of_streams(name: str) -> None:
    assert re.search(rf"`{name}=?`", rows(*STREAMS))


@pytest.mark.parametrize(("page", "attribute"), sorted(set(attributes())))
def test_an_attribute_of_a_dtd_is_on_the_page_of_its_format(page: str, attribute: str) -> None:
    assert attribute in PAGES[page]


@pytest.mark.parametrize("key", YAML_KEYS)
def test_a_key_of_a_file_of_programs_is_in_a_row_of_its_page(key: str) -> None:
    assert f"`{key}`" in rows("command")


@pytest.mark.parametrize("code", STREAM_CODES)
def test_a_code_of_streams_and_programs_is_on_one_of_their_pages(code: str) -> None:
    assert f"`{code}`" in "".join(PAGES[name] for name in STREAMS)


@pytest.mark.parametrize("code", codes("transforms/**/*.py", "schemas/*.py"))
def test_a_code_is_on_a_page(code: str) -> None:
    assert f"`{code}`" in "".join((*PAGES.values(), read_page("docs/serve.md")))


def test_the_codes_are_found_in_the_source() -> None:
    sought = {"no-id", "overlap", "crlf", "program-exit", "unsafe-delimiter", "not-found"}
    assert sought - set(STREAM_CODES) == set()
