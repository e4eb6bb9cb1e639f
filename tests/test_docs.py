"""The pages below docs/: examples work; no key, command, attribute, code, flag or path is wrong.

`pytest --accept` writes what the examples print into their pages; read the difference.
"""

import re
from pathlib import Path

import msgspec
import pytest

from feedferry.pipelines.job.file.job_file import load_job
from feedferry.schemas.errors import ConfigError
from feedferry.schemas.setting import in_flags
from feedferry.transforms.formats import FORMATS
from feedferry.transforms.formats.command_stream.vocabulary import COMMAND_NAMES
from feedferry.transforms.formats.gsa.rows import (
    ACL_ALONE,
    CONTENT,
    GROUP,
    MEMBER,
    MEMBERS,
    MEMBERSHIP,
    META,
    METADATA,
    PRINCIPAL,
    RECORD,
)
from feedferry.transforms.formats.thunderstone.rows import item_rows
from feedferry.transforms.sources import SOURCES
from feedferry.transforms.sources.programs import config
from support.pages import examples, read_page, terminal
from support.reference import all_commands, table_of_formats
from support.runs import ROOT, keep_levels

FOLDER = "docs/formats"
PAGES = {path.stem: read_page(f"{FOLDER}/{path.name}") for path in (ROOT / FOLDER).glob("*.md")}
ALL_PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
    for path in sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")})
}
NAMES = [*(source.name for source in SOURCES), *(format_.name for format_ in FORMATS)]
WITH_EXAMPLES = [
    name for name, text in ALL_PAGES.items() if name != "README.md" and any(examples(text))
]
STREAM_PAGES = (
    *("command-streams", "lister-stream", "retriever-stream", "authorizer-stream", "adaptor"),
)
ELEMENTS = {
    "gsa-feed": (RECORD, METADATA, META, CONTENT, GROUP, ACL_ALONE, PRINCIPAL),
    "gsa-groups": (MEMBERSHIP, MEMBERS, MEMBER),
    "thunderstone": (item_rows("UTC"),),
}
COMMANDS = {
    name: {
        option
        for parameter in context.command.get_params(context)
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    for name, context in all_commands()
}
"""The flags of each command, by its words."""
YAML_KEYS = {
    field.encode_name
    for struct in (config.Programs, config.User)
    for field in msgspec.structs.fields(struct)
}

_QUOTED = re.compile(r"`([^`]+)`")
_MARKED = re.compile(r"`([^`]+)`((?: \(?\*7\*\)?)?)")
_LINK = re.compile(r"\]\((?!https?:)([\w./-]+)")
_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
_COMMAND_LINE = re.compile(r"^(?:\$ )?(?:\./run_local\.sh|feedferry) ((?:.*\\\n)*.+)", re.MULTILINE)
_PATH = re.compile(r"`((?:docs|pipelines|schemas|tests|transforms)/[\w./-]+)`")
_JOB = re.compile(r"^```yaml[^\n]*\n((?:#[^\n]*\n)*version: 1\n.*?)^```$", re.MULTILINE | re.DOTALL)
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
FOREIGN_FLAGS = {
    *(
        "--accept",
        "--batch",
        "--config-file",
        "--direct",
        "--filter",
        "--mirror",
        "--noout",
        "--prism",
        "--server",
        "--stream",
    )
}
"""Flags of other programs, in the text of pages."""

_CODE = re.compile(
    r'(?:RecordError|ProgramError|BadRange|_reject|_note|_notice|\bnotice)\(\s*"([a-z0-9-]+)"'
    r'|\bcode(?:, reason)? ?= ?"([a-z0-9-]+)"|_TOO_LARGE = "([a-z0-9-]+)"'
)
"""Codes of rejects, filtered records and notices in the source."""


def codes(*globs: str) -> set[str]:
    """Return the codes in modules below `transforms` and `schemas`."""
    texts = (path.read_text("utf-8") for glob in globs for path in ROOT.glob(glob))
    return {"".join(groups) for text in texts for groups in _CODE.findall(text)}


def elements_in(page: str) -> dict[str, tuple[set[str], bool]]:
    """Return the fields of each element in the tables of a page, and whether it is marked *7*."""
    cells = [line.split("|") for line in table_rows(page).splitlines()]
    return {
        name: ({field.rpartition(".")[2] for field in _QUOTED.findall(row[2])}, "*7*" in mark)
        for row in cells
        for name, mark in _MARKED.findall(row[1])
    }


def table_rows(*pages: str) -> str:
    """Return the rows of the tables of some pages."""
    lines = (line for page in pages for line in PAGES[page].splitlines())
    return "\n".join(line for line in lines if line.startswith("|"))


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_of_a_page_print_what_it_shows(
    name: str, tmp_path: Path, accept: bool
) -> None:
    accept_in = ROOT / name if accept else None
    with keep_levels(), terminal(ALL_PAGES[name], tmp_path) as opened:
        for example in examples(ALL_PAGES[name]):
            opened.check(example, accept_in=accept_in)


@pytest.mark.parametrize("name", NAMES)
def test_a_format_has_a_page_with_an_example(name: str) -> None:
    assert f"{FOLDER}/{name}.md" in WITH_EXAMPLES


def test_the_table_of_formats_has_all(accept: bool) -> None:
    page = ROOT / FOLDER / "index.md"
    title, _, text = page.read_text("utf-8").split("\n\n", 2)
    if accept:
        page.write_text("\n\n".join((title, table_of_formats(), text)), "utf-8")
    assert page.read_text("utf-8").split("\n\n")[1] == table_of_formats()


def test_links_and_paths_in_pages_lead_to_files() -> None:
    wrong = [
        f"{name}: {path}"
        for name, text in ALL_PAGES.items()
        for folder, pattern in (((ROOT / name).parent, _LINK), (ROOT, _PATH))
        for path in pattern.findall(text)
        if "NAME" not in path and not (folder / path).exists()
    ]
    assert wrong == []


def test_each_command_line_of_a_page_has_a_command_and_flags_that_exist() -> None:
    wrong = [
        f"{name}: feedferry {line}"
        for name, text in ALL_PAGES.items()
        for line in _COMMAND_LINE.findall("\n".join(_FENCED.findall(text)))
        if not is_known(line.replace("\\\n", " "))
    ]
    assert wrong == []


def is_known(line: str) -> bool:
    """Whether the words after `feedferry` are a command that has all these flags."""
    words = line.partition(" -- ")[0].split()
    names = [name for name in COMMANDS if name.split() == words[: len(name.split())]]
    if not names:
        of_script = {"#", "test", "test-all", "test-cluster"}
        return words[0] in {*of_script, "--help", "--version", "COMMAND", "VERB"}
    return {*_FLAG.findall(line.partition(" -- ")[0])} <= COMMANDS[max(names, key=len)] | {"--help"}


def test_each_flag_in_the_text_of_a_page_exists() -> None:
    known = {"--help", "--version"}.union(FOREIGN_FLAGS, *COMMANDS.values())
    wrong = [
        f"{name}: {flag}"
        for name, text in ALL_PAGES.items()
        if name != "CHANGELOG.md"  # which also names flags that no longer exist
        for code in re.findall(r"`[^`\n]+`", _FENCED.sub("", text))
        for flag in _FLAG.findall(code)
        if flag not in known
    ]
    assert wrong == []


def test_each_job_file_on_a_page_is_one(tmp_path: Path) -> None:
    wrong = []
    for name, text in ALL_PAGES.items():
        for block in _JOB.findall(text):
            (tmp_path / "job.yaml").write_text(block, "utf-8")
            try:
                load_job(tmp_path / "job.yaml", {}, {"EXPORT_TOKEN": "token"})
            except ConfigError as exc:
                if "No such file" not in str(exc):
                    wrong.append(f"{name}: {exc}")
    assert wrong == []


def test_each_command_is_in_a_table() -> None:
    rows = table_rows(*STREAM_PAGES)
    assert [name for name in COMMAND_NAMES if not re.search(rf"`{name}=?`", rows)] == []


@pytest.mark.parametrize("page", ELEMENTS)
def test_each_row_of_a_format_is_in_a_table_of_its_page(page: str) -> None:
    named = elements_in(page)
    for element in ELEMENTS[page]:
        place = element.place.rpartition("/")[2] + "/@"
        for row in element.rows:
            fields, is_new = named[row.name if place == "Item/@" else place + row.name]
            assert row.attribute in fields or not fields
            assert is_new is (row.is_new or element in (ACL_ALONE, PRINCIPAL))


def test_each_key_of_a_file_of_programs_is_in_a_table() -> None:
    rows = table_rows("adaptor")
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
    others = ("docs/losses.md", "docs/serve.md", "docs/transform.md", "docs/validate.md")
    text = "".join((*PAGES.values(), *map(read_page, others)))
    known = codes("transforms/**/*.py", "schemas/*.py")
    assert sorted(code for code in known if f"`{code}`" not in text) == []


def test_each_message_of_the_troubleshooting_page_is_in_the_source() -> None:
    rows = re.findall(r"^\| (.*?) \|", read_page("docs/troubleshooting.md"), re.MULTILINE)
    quoted = {text for row in rows if "code" not in row for text in re.findall(r"`([^`]+)`", row)}
    paths = [
        path
        for name in ("pipelines", "schemas", "transforms")
        for path in (ROOT / name).rglob("*.py")
    ]
    source = re.sub(
        r'"\s*\n?\s*f?"', "", in_flags("\n".join(path.read_text("utf-8") for path in paths))
    )
    assert sorted(text for text in quoted if text.casefold() not in source.casefold()) == []


def test_each_line_of_a_check_is_on_the_page() -> None:
    page = read_page("docs/troubleshooting.md")
    folders = ("pipelines/check", "transforms/sources", "transforms/sinks/push/wire")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    lines = re.compile(r'(?:\bok|\bwarn|\bfail|fail_of|Check)\(\s*"([a-z ]+)"')
    names = {name for path in paths for name in lines.findall(path.read_text("utf-8"))}
    assert len(names) > 15
    assert sorted(name for name in names if f"`{name}`" not in page) == []
