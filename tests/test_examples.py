"""The jobs of `examples/`: each is run as its page says, against a rehearsal server."""

import re
from pathlib import Path

import pytest

from feedferry.pipelines.job.file.job_file import load_job
from support.example_folders import EXAMPLES, NAMES, example_terminal, page_of
from support.pages import examples
from support.programs_needed import path_of
from support.runs import keep_levels

READ_SECONDS = 120
WORDS_PER_SECOND = 4
_LINK = re.compile(r"\]\(([\w./-]+)")


def test_there_are_four_examples_and_the_table_lists_them() -> None:
    page = (EXAMPLES / "README.md").read_text("utf-8")
    assert NAMES == ["database", "gateway", "gsa-archive", "share"]
    assert sorted(re.findall(r"^\| \[([\w-]+)\]", page, re.MULTILINE)) == NAMES


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_an_example_does_what_its_page_shows(name: str, tmp_path: Path) -> None:
    path_of("curl")
    with keep_levels(), example_terminal(name, tmp_path) as opened:
        for example in examples(page_of(name)):
            opened.check(example)


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_read_in_two_minutes(name: str) -> None:
    texts = [
        path.read_text("utf-8")
        for path in (EXAMPLES / name).glob("*")
        if path.suffix in {".md", ".yaml", ".sh", ".py", ".sql"}
    ]
    assert len(" ".join(texts).split()) < READ_SECONDS * WORDS_PER_SECOND


@pytest.mark.parametrize("name", NAMES)
def test_the_links_of_an_example_lead_to_files(name: str) -> None:
    links = _LINK.findall(page_of(name))
    assert links
    assert [link for link in links if not (EXAMPLES / name / link).exists()] == []


@pytest.mark.parametrize(
    "path", sorted(EXAMPLES.glob("*/job.yaml")), ids=lambda path: path.parent.name
)
def test_the_job_file_of_an_example_is_one(path: Path) -> None:
    assert load_job(path, {}, {}).name is not None
