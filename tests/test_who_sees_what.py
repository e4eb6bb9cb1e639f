"""The picture on the page about OpenSearch shows who finds the documents of its feed."""

import json
import re
from pathlib import Path

import pytest

from feedferry import access
from support.pages import read_page, terminal
from support.runs import convert

PEOPLE = {"alice": ["staff", "hr"], "bob": ["staff"], "eve": []}
_ROW = re.compile(r'<g id="\w+">.*?<text x="24"[^>]*>([^<]+)<(.*?)</g>', re.DOTALL)
_CELL = re.compile(r'<rect class="([yn])"')


@pytest.mark.slow
def test_the_picture_shows_who_finds_each_document(tmp_path: Path) -> None:
    page = read_page("docs/opensearch.md")
    with terminal(page, tmp_path):
        convert("feeds", "-o", "out", "--to", "opensearch")
        lines = (tmp_path / "out" / "chunks" / "000001.ndjson").read_text("utf-8").splitlines()
    stored = {
        document["url"].removeprefix("http://files.example.com/"): document
        for document in map(json.loads, lines)
        if "url" in document
    }
    tokens = [
        access.tokens_of(access.members_of([name], groups=groups))
        for name, groups in PEOPLE.items()
    ]
    picture = read_page("docs/images/who-sees-what.svg")
    shown = {url: "".join(_CELL.findall(cells)) for url, cells in _ROW.findall(picture)}

    assert shown == {
        url: "".join("y" if access.permits(stored.get(url, {}), held) else "n" for held in tokens)
        for url in ("canteen", "yard", "hr/salaries", "old/offers")
    }
    assert shown == {"canteen": "yyy", "yard": "ynn", "hr/salaries": "ynn", "old/offers": "nnn"}
