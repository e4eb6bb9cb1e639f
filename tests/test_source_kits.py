"""The tests that `feedferry.testing` has for sources, of two of ours: folders and tables."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from feedferry.testing import SourceKit, SourceTests
from feedferry.transforms.sources import ROWS, TREE

MAPPING = """\
connection: sqlite:///{path}
table: pages
url: http://docs.example.com/{{name}}
content: {{column: body}}
mimetype: text/plain
incremental: {{deletes: compare}}
"""


def fill_folder(folder: Path, documents: Mapping[str, str]) -> str:
    tree = folder / "tree"
    tree.mkdir(exist_ok=True)
    for path in tree.iterdir():
        if path.stem not in documents:
            path.unlink()
    for name, text in documents.items():
        path = tree / f"{name}.txt"
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
    return str(tree)


def fill_table(folder: Path, documents: Mapping[str, str]) -> str:
    mapping, database = folder / "pages.map.yaml", folder / "pages.db"
    mapping.write_text(MAPPING.format(path=database))
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("CREATE TABLE IF NOT EXISTS pages (name TEXT PRIMARY KEY, body TEXT)")
        connection.execute("DELETE FROM pages")
        connection.executemany("INSERT INTO pages VALUES (?, ?)", documents.items())
    return str(mapping)


TREE_KIT = SourceKit(
    source=TREE,
    fill=fill_folder,
    url_of=lambda name: f"http://docs.example.com/{name}.txt",
    settings={"base_url": "http://docs.example.com/", "acl": "public"},
)
ROWS_KIT = SourceKit(
    source=ROWS, fill=fill_table, url_of=lambda name: f"http://docs.example.com/{name}"
)


@pytest.mark.slow
class TestSources(SourceTests):
    kits = TREE_KIT, ROWS_KIT
