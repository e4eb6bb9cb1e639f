"""The jobs of `examples/` with a real server in place of the rehearsal."""

from pathlib import Path

import pytest

from support.example_folders import NAMES, example_terminal, page_of
from support.pages import examples
from support.runs import keep_levels
from support.search_servers import SearchServer

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", NAMES)
def test_an_example_does_what_its_page_shows(
    name: str, server: SearchServer, tmp_path: Path
) -> None:
    with keep_levels(), example_terminal(name, tmp_path) as opened:
        opened.place("127.0.0.1:19900", server.url.removeprefix("http://"))
        for example in examples(page_of(name)):
            if "--port 19900" not in example.command:
                opened.check(example)
