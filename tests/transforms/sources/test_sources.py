"""`read_span` reads spans of any source, and counts the bytes that it has read."""

from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from feedferry.schemas.account import NoticeCount
from feedferry.schemas.notice import Notice
from feedferry.schemas.record import Record
from feedferry.schemas.sent_document import StateChange
from feedferry.schemas.span import KeyRange, Span
from feedferry.transforms.formats.base import ReadResult
from feedferry.transforms.sources import SpanRequest, read_span
from feedferry.transforms.sources.database.mapping.row_mapping import DATABASE
from feedferry.transforms.sources.listing import ListingEntry, cut_listing, write_listing
from feedferry.transforms.sources.spool.spool_source import SELECTION, Selection
from feedferry.transforms.sources.tree.rules.tree import Tree
from support.database_runs import Database
from support.spools import delivered

TWO = b'{"action":"DELETE","url":"http://a.example.com/1"}\n' * 2


def put(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def jsonl(path: Path) -> Span:
    return Span(source=path.name, path=str(put(path, TWO)), format="jsonl")


def read(span: Span, **stated: Any) -> tuple[list[ReadResult], int]:
    """Return the results of a span, and the bytes that were read."""
    request: SpanRequest[Any] = SpanRequest(span=span, **stated)
    return list(read_span(request)), request.count.total


def urls(results: list[ReadResult]) -> list[str]:
    return [result.url for result in results if isinstance(result, Record)]


def test_small_files_are_read_in_their_order_and_format(tmp_path: Path) -> None:
    members = tuple(jsonl(tmp_path / name) for name in ("a.jsonl", "b.jsonl"))
    results, size = read(Span(source="a … b", members=members))
    sources = [result.provenance.source for result in results if isinstance(result, Record)]
    assert sources == ["a.jsonl", "a.jsonl", "b.jsonl", "b.jsonl"]
    assert size == 2 * len(TWO)


def test_nothing_is_read_before_the_first_result(tmp_path: Path) -> None:
    request: SpanRequest[None] = SpanRequest(span=jsonl(tmp_path / "a.jsonl"))
    with closing(read_span(request)) as results:
        assert request.count.total == 0
        next(results)
        assert request.count.total == len(TWO)


def test_files_of_a_tree_are_read_by_their_listing(tmp_path: Path) -> None:
    lines = (
        ListingEntry(
            key=name,
            path=str(put(tmp_path / name, b"plan")),
            url=f"https://docs.example.com/{name}",
            size=4,
        )
        for name in ("a.txt", "b.txt")
    )
    write_listing(lines, tmp_path / "listing")
    whole = Span(source="docs", path=str(tmp_path / "listing"))
    (part,) = cut_listing(whole, span_bytes=1 << 20)
    tree = Tree(root=str(tmp_path), base_url="https://docs.example.com/")
    changes: list[StateChange] = []
    results, size = read(part, config=tree, see=changes.append)
    assert urls(results) == ["https://docs.example.com/a.txt", "https://docs.example.com/b.txt"]
    assert (size, [change.document.key for change in changes]) == (8, ["a.txt", "b.txt"])


def test_rows_are_read_by_their_mapping(tmp_path: Path) -> None:
    database = Database(
        tmp_path,
        "CREATE TABLE people (id INTEGER PRIMARY KEY, body TEXT)",
        "INSERT INTO people VALUES (1, 'keel'), (2, 'planks')",
    )
    span = Span(source="people.yaml", format=DATABASE, position=KeyRange())
    results, size = read(span, config=database.mapping)
    assert urls(results) == ["http://db.example.com/1", "http://db.example.com/2"]
    assert size == 10


def test_a_selection_yields_its_notices(tmp_path: Path) -> None:
    noted = NoticeCount(2, Notice(code="superseded", detail="2 of 'crm'"))
    path = tmp_path / "selection"
    path.write_bytes(msgspec.json.encode(Selection(deliveries=(delivered(1),), notices=(noted,))))
    results, _ = read(Span(source="spool", path=str(path), format=SELECTION))
    assert results == [noted.first, noted.first]
