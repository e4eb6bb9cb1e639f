"""Spans of any source, read through the one door, and how many bytes that took."""

from contextlib import closing
from pathlib import Path

from schemas.account import NoticeCount
from schemas.key_range import KeyRange
from schemas.known import Seen
from schemas.notice import Notice
from schemas.record import Record
from schemas.span import Span
from support.archives import HOST, document, gsa_feed
from support.database_runs import Database
from support.listings import shell
from support.spools import HandSpool, delivered
from transforms.formats.base import ReadResult
from transforms.sources.database.mapping import DATABASE
from transforms.sources.listing import ListingEntry, cut_listing, write_listing
from transforms.sources.programs.config import Programs
from transforms.sources.span_reader import SpanReader
from transforms.sources.spool.selection import Selection, write_selection
from transforms.sources.spool.source import SELECTION, SPOOL
from transforms.sources.tree.tree import Tree

TWO = b'{"action":"DELETE","url":"http://a.example.com/1"}\n' * 2


def put(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def native(path: Path) -> Span:
    return Span(source=path.name, path=str(path), format="native")


def listing(folder: Path, *names: str) -> Span:
    """The span of a listing of small texts."""
    lines = (
        ListingEntry(
            key=name,
            path=str(put(folder / name, b"plan")),
            url=f"https://docs.example.com/{name}",
            size=4,
        )
        for name in names
    )
    write_listing(lines, folder / "listing")
    (part,) = cut_listing(Span(source="docs", path=str(folder / "listing")), span_bytes=1 << 20)
    return part


def urls(found: list[ReadResult]) -> list[str]:
    return [one.url for one in found if isinstance(one, Record)]


def test_a_file_is_read_in_its_format(tmp_path: Path) -> None:
    reader = SpanReader(native(put(tmp_path / "a.jsonl", TWO)))
    assert urls(list(reader.results())) == ["http://a.example.com/1", "http://a.example.com/1"]


def test_bytes_of_a_file_are_counted(tmp_path: Path) -> None:
    reader = SpanReader(native(put(tmp_path / "a.jsonl", TWO)))
    list(reader.results())
    assert reader.bytes_read == len(TWO)


def test_nothing_is_read_before_it_is_asked_for(tmp_path: Path) -> None:
    assert SpanReader(native(put(tmp_path / "a.jsonl", TWO))).bytes_read == 0


def test_small_files_are_read_one_behind_the_other(tmp_path: Path) -> None:
    members = tuple(native(put(tmp_path / name, TWO)) for name in ("a.jsonl", "b.jsonl"))
    reader = SpanReader(Span(source="a … b", members=members))
    sources = [one.provenance.source for one in reader.results() if isinstance(one, Record)]
    assert sources == ["a.jsonl", "a.jsonl", "b.jsonl", "b.jsonl"]
    assert reader.bytes_read == 2 * len(TWO)


def test_files_of_a_tree_are_read_by_their_listing(tmp_path: Path) -> None:
    tree = Tree(root=str(tmp_path), base_url="https://docs.example.com/")
    reader = SpanReader(listing(tmp_path, "a.txt", "b.txt"), config=tree)
    assert urls(list(reader.results())) == [
        "https://docs.example.com/a.txt",
        "https://docs.example.com/b.txt",
    ]


def test_of_a_tree_the_bytes_of_contents_are_counted(tmp_path: Path) -> None:
    tree = Tree(root=str(tmp_path), base_url="https://docs.example.com/")
    reader = SpanReader(listing(tmp_path, "a.txt", "b.txt"), config=tree)
    list(reader.results())
    assert reader.bytes_read == 8


def test_whoever_sees_for_a_state_is_told_of_files(tmp_path: Path) -> None:
    seen: list[Seen] = []
    tree = Tree(root=str(tmp_path), base_url="https://docs.example.com/")
    list(SpanReader(listing(tmp_path, "a.txt"), config=tree, see=seen.append).results())
    assert [one.known.key for one in seen] == ["a.txt"]


def test_files_are_closed_when_nobody_reads_on(tmp_path: Path) -> None:
    with closing(SpanReader(native(put(tmp_path / "a.jsonl", TWO))).results()) as found:
        next(found)
    (tmp_path / "a.jsonl").unlink()
    assert list(tmp_path.iterdir()) == []


def test_what_a_lister_names_is_asked_for(tmp_path: Path) -> None:
    programs = Programs(lister=("list",), retriever=shell("retriever.sh", "good"))
    listing = put(tmp_path / "listing", b"GSA Adaptor Data Version 1 [\n]\nid=a\nid=b\n")
    span = Span(source="docs", path=str(listing), format="command")
    assert len(list(SpanReader(span, config=programs).results())) == 2


def test_rows_are_read_as_a_mapping_says(tmp_path: Path) -> None:
    database = Database(
        tmp_path,
        "CREATE TABLE people (id INTEGER PRIMARY KEY, body TEXT)",
        "INSERT INTO people VALUES (1, 'keel'), (2, 'planks')",
    )
    span = Span(source="people.yaml", format=DATABASE, position=KeyRange())
    reader = SpanReader(span, config=database.mapping)
    assert urls(list(reader.results())) == ["http://db.example.com/1", "http://db.example.com/2"]
    assert reader.bytes_read == 10


def test_a_spool_is_all_that_was_ever_delivered(tmp_path: Path) -> None:
    spool = HandSpool(tmp_path)
    spool.feed(gsa_feed(document(1)))
    spool.feed(gsa_feed(document(2)), feedtype="full")
    reader = SpanReader(Span(source="spool", path=str(tmp_path), format=SPOOL))
    assert urls(list(reader.results())) == [f"{HOST}/1.txt", f"{HOST}/2.txt"]


def test_a_selection_only_tells(tmp_path: Path) -> None:
    noted = NoticeCount(2, Notice(code="superseded", detail="2 of 'crm'"))
    path = tmp_path / "selection"
    write_selection(Selection(deliveries=(delivered(1),), notices=(noted,)), path)
    reader = SpanReader(Span(source="spool", path=str(path), format=SELECTION))
    assert list(reader.results()) == [noted.first, noted.first]
