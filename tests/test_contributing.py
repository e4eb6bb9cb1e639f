"""The worked examples of CONTRIBUTING.md run."""

import re
from typing import Any

import pytest

from support.pages import read_page

_SECTION = re.compile(r"^## ", re.MULTILINE)
_PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def examples() -> dict[str, list[str]]:
    """Return the Python blocks of the page by the title of their section."""
    sections = _SECTION.split(read_page("CONTRIBUTING.md"))[1:]
    return {section.partition("\n")[0]: _PYTHON.findall(section) for section in sections}


def test_each_kind_of_change_has_an_example() -> None:
    titles = [title for title, blocks in examples().items() if blocks]
    assert titles == [f"How to add {kind}" for kind in ("a flag", "a command", "an error")]


@pytest.mark.filterwarnings("error")
def test_the_examples_run_in_order() -> None:
    names: dict[str, Any] = {"__name__": "contributing"}  # the globals of the examples
    for blocks in examples().values():
        for block in blocks:
            exec(compile(block, "CONTRIBUTING.md", "exec"), names)
