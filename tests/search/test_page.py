"""The page about OpenSearch, read line by line with a real server in place of the rehearsal."""

import json
from pathlib import Path

import pytest

from support.pages import examples, read_page, terminal
from support.runs import keep_levels
from support.search_servers import SearchServer

pytestmark = pytest.mark.slow

PAGE = read_page("docs/opensearch.md")


def test_the_examples_of_the_page_print_what_it_shows(server: SearchServer, tmp_path: Path) -> None:
    with keep_levels(), terminal(PAGE, tmp_path) as opened:
        opened.place("127.0.0.1:19900", server.url.removeprefix("http://"))
        for example in examples(PAGE):
            if "feedferry serve" not in example.command:
                opened.check(example)

    printed = json.loads((tmp_path / "bob.json").read_text("utf-8"))
    (permission,) = printed["role"]["index_permissions"]
    tokens = json.dumps(printed["backend_roles"])[1:-1]
    of_role = json.loads(permission["dls"].replace("${user.roles}", tokens))
    assert server.ids("intranet", of_role) == ["http://files.example.com/canteen"]
