"""Plain files in batches are converted to the same bytes, rejects and accounts as single files."""

import io
import os
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feedferry.schemas.record import Record
from feedferry.schemas.sent_document import UNCHANGED, StateChange
from feedferry.schemas.source_options import SourceOptions
from feedferry.schemas.span import Span
from feedferry.transforms.formats import ContentOptions, ReadOptions
from feedferry.transforms.formats.gsa.gsa_formats import FeedOptions
from feedferry.transforms.rules.adapt import Target
from feedferry.transforms.sources.changes.detector import ChangeDetector
from feedferry.transforms.sources.listing import LISTING, EntryKind, write_changes, write_listing
from feedferry.transforms.sources.tree.documents.member_keys import MemberLister
from feedferry.transforms.sources.tree.documents.read import read_tree
from feedferry.transforms.sources.tree.file_changes import compare, merge_unchanged
from feedferry.transforms.sources.tree.folders.walk import list_blocks, list_tree
from feedferry.transforms.sources.tree.rules.tree import Tree
from feedferry.transforms.storage.state import StateHead, open_state, update_state
from support.batches import SIZES, Conversion, span_conversion

ALL = SourceOptions(to_format="", min_records=0, max_delete_percent=Decimal(100))
BASE = "https://docs.example.com/"
SECOND = 1_000_000_000
PLAIN = (b"a", b"two words\n", "Z\u00fcrich \u6771\u4eac".encode(), b"<p>&amp; & ]]> \"'</p>")
HOSTILE = (
    *(b"", b"\0", b"a\r\nb", b"\x07", b"\x7f", b"\xff", "\ufffe".encode(), b"\xef\xbb\xbfa"),
    *(b"%PDF-1.4", b"PK\x03\x04", b"\x1f\x8b\x08", b"<html><body>a", b"<?xml version='1.0'?>"),
    *(
        b"<meta charset=latin1>\xe4",
        b"From a@b.c Mon\nTo: x\nDate: y\n",
        b"~hole-0001~",
        b"a" * 9000,
    ),
)
NAMES = (
    *("a.txt", "b.txt", "c d.html", "e.md", "f.html", "g.txt", "h.txt", "i", "j.html", "k.txt"),
    *(
        "\u00fc\u6771.txt",
        "50% & more.txt",
        "a'b.txt",
        '"q".txt',
        "line\nend.txt",
        "~x.txt",
        "m/n.txt",
    ),
    *(
        "m/o.html",
        "m/p.txt",
        "x.pdf",
        "x.zip",
        ".hidden.txt",
        "a.tmp",
        "a.txt.meta.json",
        "\u202e.txt",
    ),
)
SIDECARS = (b'{"author": "Ann"}', b"no JSON")
TIMES = (0, 1_714_979_290_123_456_789, 1_714_979_290 * SECOND, -SECOND, 253402300800 * SECOND, 1)
TARGETS: dict[str, dict[str, Any]] = {
    "gsa-feed": {},
    "gsa-feed, web": {"feedtype": "metadata-and-url"},
    "gsa-feed, base64": {"own": (ContentOptions(content_encoding="base64"),)},
    "gsa-feed, zlib": {"own": (ContentOptions(content_encoding="zlib"),)},
    "gsa-feed, 5.0": {"own": (FeedOptions(dialect="5.0"),)},
    "thunderstone": {},
    "avro": {},
    "jsonl": {},
}
TREES: tuple[dict[str, Any], ...] = (
    {"base_url": BASE},
    {"base_url": "https://docs.example.com/a&b'/"},
    {"base_url": "http://intranet/"},
    {"url_template": "https://docs.example.com/?id={id}&x=1"},
    {"base_url": BASE, "path_metadata": True},
    {"base_url": BASE, "display_url": "file:///{path}"},
    {"base_url": BASE, "is_public": True, "open_archives": True},
    {"base_url": BASE, "is_crawled": True},
)


@st.composite
def trees(draw: st.DrawFn) -> dict[str, tuple[bytes, int, int]]:
    """Files of a tree: content, time and mode; most of them are plain."""
    files = {}
    for name in draw(st.lists(st.sampled_from(NAMES), min_size=4, unique=True)):
        contents = SIDECARS if name.endswith(".meta.json") else PLAIN * 12 + HOSTILE
        mode = draw(st.sampled_from((0o644,) * 20 + (0o600,)))
        time = draw(st.sampled_from(TIMES[:3] * 5 + TIMES))
        files[name] = (draw(st.sampled_from(contents)), time, mode)
    return files


def write(folder: Path, files: Mapping[str, tuple[bytes, int, int]]) -> None:
    for name, (content, time, mode) in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        path.chmod(mode)
        os.utime(path, ns=(time, time))


def converted(folder: Path, tree: Tree, target: Target, size: int, **stated: Any) -> Conversion:
    listing = folder.parent / "listing"
    write_listing(list_tree(tree), listing)
    span = Span(source="docs", path=str(listing), format=LISTING)
    return span_conversion(span, target, batch_records=size, sources={"docs": tree}, **stated)


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=25)
@given(
    files=trees(),
    rules=st.sampled_from(TREES[:2] * 5 + TREES),
    size=st.sampled_from(SIZES),
    stated=st.fixed_dictionaries(
        {
            "max_chunk_bytes": st.sampled_from((1500, 20_000, 1 << 20)),
            "state": st.sampled_from((None, None, "state.db")),
        }
    ),
)
def test_batches_of_any_size_give_the_result_of_single_files(
    name: str,
    files: dict[str, tuple[bytes, int, int]],
    rules: dict[str, Any],
    size: int,
    stated: dict[str, Any],
) -> None:
    target = Target(
        format=name.partition(",")[0],
        **{"datasource": "docs", "feedtype": "incremental", **TARGETS[name]},
    )
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "root")
        root.mkdir()
        write(root, files)
        tree = Tree(root=str(root), **rules)
        single, batched = (converted(root, tree, target, count, **stated) for count in (0, size))
    assert batched == single


class TreeHistory:
    """Successive runs of one size of batches, with their state."""

    def __init__(self, folder: Path, name: str) -> None:
        self._listing = folder / f"{name}.listing"
        self._state = folder / f"{name}.state"

    def run(
        self, tree: Tree, target: Target, size: int, *, is_refresh: bool, is_counted: bool = True
    ) -> Conversion:
        """Convert what has changed, and update the state; times later than all files are sure."""
        with open_state(self._state) as state:
            listed = list_blocks(tree) if size else list_tree(tree)
            detector = ChangeDetector(state)
            members = MemberLister(tree)
            lines = compare(listed, detector, rules="r", is_refresh=is_refresh, member_keys=members)
            merged = merge_unchanged(lines, detector) if is_counted else lines
            write_changes(merged, detector.deletions(ALL if is_counted else None), self._listing)
            before = state.head.generation
        span = Span(source="docs", path=str(self._listing), format=LISTING)
        stated: dict[str, Any] = {"sources": {"docs": tree}, "state": str(self._state)}
        result = span_conversion(span, target, batch_records=size, **stated)
        seen = next((data for name, data in result.files.items() if "seen" in name), b"")
        changes = [msgspec.json.decode(line, type=StateChange) for line in seen.splitlines()]
        stamp = StateHead(rules="r", listed_at_ns=1 << 62)
        update_state(self._state, changes, before=before, stamp=stamp)
        return result

    def entries(self) -> list[Any]:
        with open_state(self._state) as state:
            return [*state.documents()]


@pytest.mark.slow
@settings(max_examples=60)
@given(
    nights=st.lists(st.tuples(trees(), st.sampled_from((False,) * 5 + (True,))), min_size=2),
    archives=st.lists(st.sampled_from((b"", b"a", b"b", b"\x07")), min_size=3),
    rules=st.sampled_from(TREES[:2] * 5 + TREES),
    size=st.sampled_from(SIZES),
    name=st.sampled_from(sorted(TARGETS)),
)
def test_nights_with_batches_are_nights_with_single_files(
    nights: list[tuple[dict[str, tuple[bytes, int, int]], bool]],
    archives: list[bytes],
    rules: dict[str, Any],
    size: int,
    name: str,
) -> None:
    target = Target(
        format=name.partition(",")[0],
        **{"datasource": "docs", "feedtype": "incremental", **TARGETS[name]},
    )
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "root")
        root.mkdir()
        tree = Tree(root=str(root), **rules)
        single, batched, uncounted = (
            TreeHistory(Path(folder), each) for each in ("single", "batched", "uncounted")
        )
        for number, (files, is_refresh) in enumerate(nights[:4]):
            for path in [path for path in root.rglob("*") if path.is_file()][number % 2 :: 3]:
                path.unlink()
            write(root, files)
            _write_archive(root / "x.zip", archives[: number + 2])
            options = {"is_refresh": is_refresh}
            result = single.run(tree, target, 0, **options)
            assert batched.run(tree, target, size, **options) == result
            assert batched.entries() == single.entries()
            each = uncounted.run(tree, target, size, is_counted=False, **options)
            assert _counts_of(each) == _counts_of(result)
            assert uncounted.entries() == single.entries()


def _write_archive(path: Path, contents: list[bytes]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for number, content in enumerate(contents):
            archive.writestr(f"member {number}.txt", content)


def _counts_of(conversion: Conversion) -> dict[str, Any]:
    account = msgspec.json.decode(conversion.account)
    names = ("read", "written", "rejected", "filtered", "filter_codes", "reject_codes", "losses")
    return {name: account.get(name) for name in names}


def results(
    folder: Path, size: int, unchanged: frozenset[str] = frozenset(), **rules: Any
) -> Iterator[Any]:
    tree = Tree(root=str(folder), base_url=BASE, **rules)
    lines = (
        msgspec.structs.replace(line, kind=EntryKind.FILTERED, code=UNCHANGED)
        if line.key in unchanged
        else line
        for line in list_tree(tree)
    )
    write_listing(lines, folder.parent / "listing")
    stream = io.BytesIO((folder.parent / "listing").read_bytes())
    options = ReadOptions(batch_records=size)
    yield from read_tree(stream, span=Span(source="docs"), tree=tree, options=options)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def test_plain_files_that_follow_one_another_are_a_batch_of_their_types(folder: Path) -> None:
    names = [f"{number}.{'html' if number % 2 else 'txt'}" for number in range(10)]
    write(folder, {**dict.fromkeys(names, (b"a", 0, 0o644)), "5.pdf": (b"%PDF-\xff", 0, 0o644)})
    single, first, pdf, last = results(folder, 1000)
    assert single.url == f"{BASE}0.txt"
    assert [group.count for group in first.groups] == [3, 2]
    assert first.order == [0, 1, 0, 1, 0]
    assert pdf.mimetype == "application/pdf"
    assert [record.url.removeprefix(BASE) for record in last] == names[6:]


def test_the_records_of_a_batch_are_those_of_single_files(folder: Path) -> None:
    write(folder, {f"{number} \u00fc.txt": (b"a & b\r\n", number, 0o644) for number in range(7)})
    first, batch = results(folder, 1000)
    assert [first, *batch] == [*results(folder, 0)]


def test_batches_have_at_most_the_records_and_bytes_of_a_run(folder: Path) -> None:
    write(folder, {f"{number:03}.txt": (b"a" * 8000, 0, 0o644) for number in range(80)})
    _, *batches = results(folder, 1000)
    assert [len(batch.order) for batch in batches] == [33, 33, 13]
    _, *batches = results(folder, 20)
    assert [len(batch.order) for batch in batches] == [20, 20, 20, 19]


def test_files_of_a_tree_with_acls_or_paths_are_no_batches(folder: Path) -> None:
    write(folder, {f"{number}.txt": (b"a", 0, 0o644) for number in range(7)})
    assert {type(result) for result in results(folder, 1000, path_metadata=True)} == {Record}


def test_most_plain_files_are_written_by_plans(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(folder, {f"{number:02}.txt": (b"a", 0, 0o644) for number in range(30)})
    target = Target(format="gsa-feed", datasource="docs", feedtype="full")
    with caplog.at_level("DEBUG", "feedferry.transforms.conversion.convert"):
        converted(folder, Tree(root=str(folder), base_url=BASE), target, 10)
    assert "29 of 30 records by a plan" in caplog.text


def test_a_text_that_xml_cannot_hold_is_a_record_between_batches(folder: Path) -> None:
    texts = {f"{number}.txt": (b"\x01" if number == 3 else b"a", 0, 0o644) for number in range(8)}
    write(folder, texts)
    _, first, single, last = results(folder, 1000)
    assert len(first.order) == 2
    assert single.url == f"{BASE}3.txt"
    assert len(last.order) == 4


def test_files_that_are_unchanged_do_not_end_a_batch(folder: Path) -> None:
    write(folder, {f"{number}.txt": (b"a", 0, 0o644) for number in range(9)})
    first, four, six, batch = results(folder, 1000, frozenset({"4.txt", "6.txt"}))
    assert first.url == f"{BASE}0.txt"
    assert [four.code, six.code] == ["unchanged", "unchanged"]
    assert [record.url.removeprefix(BASE) for record in batch] == [
        f"{number}.txt" for number in (1, 2, 3, 5, 7, 8)
    ]


def test_files_that_are_left_out_end_a_batch(folder: Path) -> None:
    write(folder, {f"{number}.txt": (b"a", 0, 0o644) for number in range(9)})
    write(folder, {"4.tmp": (b"a", 0, 0o644), "6.txt": (b"", 0, 0o644)})
    first, before, temporary, between, empty, after = results(folder, 1000)
    assert first.url == f"{BASE}0.txt"
    assert [temporary.code, empty.code] == ["temporary", "empty"]
    assert [[record.url.removeprefix(BASE) for record in batch] for batch in (before, after)] == [
        ["1.txt", "2.txt", "3.txt"],
        ["7.txt", "8.txt"],
    ]
    assert [record.url.removeprefix(BASE) for record in between] == ["4.txt", "5.txt"]
