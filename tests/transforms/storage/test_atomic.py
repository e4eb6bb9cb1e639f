"""Files that get their name when they are complete: chunks, rejects, lists and reports."""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import fastavro
import pytest

from schemas.account import Chunk
from schemas.errors import FatalError, FormatError
from schemas.feed import Feed, TargetFeed
from schemas.record import Action, Record
from schemas.reject import Reject
from schemas.span import Span
from transforms.chunk import Frame
from transforms.storage.atomic import ChunkFiles, LineFile, RejectFile, whole_file, write_json

A = Record(url="http://www.example.com/a", action=Action.ADD)
B = Record(url="http://www.example.com/b", action=Action.DELETE)
C = Record(url="http://www.example.com/c", action=Action.ADD)
SPAN = Span(source="feed.xml", source_ordinal=7, ordinal=2)
REJECT = Reject(
    code="malformed",
    reason="line 6: an & that is not escaped; expected &amp;",
    stage="read",
    source="feed.xml",
    span=2,
    line=6,
    offset=97,
    length=9,
    url="http://www.example.com/a",
    data=b"\x00<rec\xff&>\n",
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write(path: Path, content: bytes, *, error: BaseException | None = None) -> None:
    with whole_file(path) as stream:
        stream.write(content)
        assert path.name + ".partial" in names(path.parent)
        if error:
            raise error


def frame(number: int, data: bytes, *records: Record, **feeds: object) -> Frame:
    target_feed, feed = feeds.get("target_feed"), feeds.get("feed")
    return Frame(number, target_feed, feed, data, list(records))  # type: ignore[arg-type]


def unwritable(action: Callable[[], object]) -> str:
    with pytest.raises(FatalError) as caught:
        action()
    return str(caught.value)


# Whole files


def test_a_file_gets_its_name_when_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    for content in (b"before", b"after"):
        write(path, content)

        assert path.read_bytes() == content
        assert names(tmp_path) == ["a.xml"]


@pytest.mark.parametrize("error", [FormatError("a torn end"), ValueError(), KeyboardInterrupt()])
def test_a_block_that_raises_leaves_the_folder_as_it_was(
    tmp_path: Path, error: BaseException
) -> None:
    path = tmp_path / "a"
    with pytest.raises(type(error)):
        write(path, b"half", error=error)
    assert names(tmp_path) == []
    path.write_bytes(b"before")
    with pytest.raises(type(error)):
        write(path, b"half", error=error)

    assert (names(tmp_path), path.read_bytes()) == (["a"], b"before")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("none/a", "No such file or directory"),
        ("file/a", "Not a directory"),
        ("folder", "Is a directory"),
    ],
)
def test_a_path_that_cannot_be_written_is_fatal(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    path = tmp_path / name

    def open_file() -> None:
        with whole_file(path):
            pass

    assert unwritable(open_file) == f"{path}: {reason}; expected to write there"


def test_a_full_disk_is_fatal_and_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    message = unwritable(lambda: write(path, b"", error=OSError(28, "No space left on device")))

    assert message == f"{path}: No space left on device; expected to write there"
    assert names(tmp_path) == []


def test_a_document_is_indented_with_sorted_keys(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"b": [1], "a": "Zürich"})

    expected = '{\n  "a": "Zürich",\n  "b": [\n    1\n  ]\n}\n'
    assert (tmp_path / "a.json").read_text("utf-8") == expected


# Chunks


def test_a_chunk_is_its_frames_and_described(tmp_path: Path) -> None:
    feeds = {
        "target_feed": TargetFeed(feed=Feed(datasource="docs", feedtype="full"), origin="a.xml"),
        "feed": Feed(datasource="docs", feedtype="incremental"),
    }
    files = ChunkFiles(tmp_path, SPAN, "xml")
    files.write(
        [
            frame(0, b"<feed>ab", A, B, **feeds),
            frame(0, b"c", C, **feeds),
            frame(0, b"</feed>", **feeds),
            frame(1, b"d", A),
        ]
    )

    first, second = files.finished
    assert (tmp_path / first.path).read_bytes() == b"<feed>abc</feed>"
    assert first == Chunk(
        path="00007-00002-000.xml",
        bytes=16,
        sha256=hashlib.sha256(b"<feed>abc</feed>").hexdigest(),
        records={"ADD": 2, "DELETE": 1},
        first_url="http://www.example.com/a",
        last_url="http://www.example.com/c",
        source="feed.xml",
        span=2,
        datasource="docs",
        feedtype="incremental",
        requested_feedtype="full",
        origin="a.xml",
    )
    assert second.path == "00007-00002-001.xml"
    assert (second.datasource, second.feedtype, second.requested_feedtype) == (None, None, None)


def test_no_frames_make_no_chunk(tmp_path: Path) -> None:
    files = ChunkFiles(tmp_path, SPAN, "xml")
    files.write([])

    assert (files.finished, names(tmp_path)) == ([], [])


def test_an_incomplete_chunk_is_removed(tmp_path: Path) -> None:
    def frames() -> Iterator[Frame]:
        yield frame(0, b"a", A)
        yield frame(1, b"b", B)
        raise FormatError("a torn end")

    files = ChunkFiles(tmp_path, SPAN, "xml")
    with pytest.raises(FormatError):
        files.write(frames())

    assert [chunk.path for chunk in files.finished] == names(tmp_path) == ["00007-00002-000.xml"]


def test_a_chunk_that_cannot_be_written_is_fatal(tmp_path: Path) -> None:
    files = ChunkFiles(tmp_path / "none", SPAN, "xml")
    path = tmp_path / "none" / "00007-00002-000.xml"

    assert unwritable(lambda: files.write([frame(0, b"a", A)])) == (
        f"{path}: No such file or directory; expected to write there"
    )


# Rejects and lines


def test_rejects_can_be_read_with_their_bytes(tmp_path: Path) -> None:
    for name in ("1.avro", "2.avro"):
        rejects = RejectFile(tmp_path / name)
        rejects.add(REJECT)
        rejects.add(REJECT)
        rejects.close(whole=True)
        assert rejects.count == 2

    with (tmp_path / "1.avro").open("rb") as stream:
        first, _ = fastavro.reader(stream)
    assert first == {
        "code": "malformed",
        "reason": "line 6: an & that is not escaped; expected &amp;",
        "stage": "read",
        "source": "feed.xml",
        "span": 2,
        "line": 6,
        "offset": 97,
        "length": 9,
        "url": "http://www.example.com/a",
        "action": None,
        "data": b"\x00<rec\xff&>\n",
        "truncated": False,
    }
    assert (tmp_path / "1.avro").read_bytes() == (tmp_path / "2.avro").read_bytes()


def test_lines_keep_their_order(tmp_path: Path) -> None:
    lines = LineFile(tmp_path / "urls.txt")
    lines.add(b"b")
    lines.add(b"a")
    lines.close(whole=True)

    assert (tmp_path / "urls.txt").read_bytes() == b"b\na\n"
    assert lines.written is not None
    assert (lines.written.name, lines.written.bytes) == ("urls.txt", 4)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize(("kind", "item"), [(LineFile, b"a"), (RejectFile, REJECT)])
def test_a_file_of_items_is_made_on_demand_and_kept_if_it_is_whole(
    tmp_path: Path, kind: Callable[[Path], LineFile | RejectFile], item: object, whole: bool
) -> None:
    kind(tmp_path / "file").close(whole=whole)
    assert names(tmp_path) == []
    file = kind(tmp_path / "file")
    file.add(item)  # type: ignore[arg-type]  # the item of its kind
    assert names(tmp_path) == ["file.partial"]
    file.close(whole=whole)

    assert names(tmp_path) == (["file"] if whole else [])


def test_a_line_that_cannot_be_written_is_fatal(tmp_path: Path) -> None:
    path = tmp_path / "none" / "urls.txt"

    assert unwritable(lambda: LineFile(path).add(b"a")) == (
        f"{path}: No such file or directory; expected to write there"
    )
