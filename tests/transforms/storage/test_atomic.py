"""Files as sinks: their names, when they get them, and what is told of them."""

import hashlib
from collections.abc import Iterator
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
ASKED = TargetFeed(feed=Feed(datasource="intranet", feedtype="full"), origin="feed.xml")
STATED = Feed(datasource="intranet", feedtype="incremental")
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


def tear(path: Path, exc: BaseException) -> None:
    """Write half a file."""
    with whole_file(path) as stream:
        stream.write(b"half")
        raise exc


def frame(
    number: int,
    text: bytes,
    *records: Record,
    target_feed: TargetFeed | None = None,
    feed: Feed | None = None,
) -> Frame:
    return Frame(number, target_feed, feed, text, list(records))


def test_a_file_has_its_content_when_the_block_ends(tmp_path: Path) -> None:
    with whole_file(tmp_path / "a") as stream:
        stream.write(b"one")

    assert (tmp_path / "a").read_bytes() == b"one"


def test_a_file_has_a_temporary_name_while_it_is_written(tmp_path: Path) -> None:
    with whole_file(tmp_path / "a.xml"):
        assert names(tmp_path) == ["a.xml.partial"]


def test_no_temporary_name_is_left(tmp_path: Path) -> None:
    with whole_file(tmp_path / "a.xml") as stream:
        stream.write(b"one")

    assert names(tmp_path) == ["a.xml"]


@pytest.mark.parametrize("exc", [FormatError("a torn end"), ValueError(), KeyboardInterrupt()])
def test_a_file_is_removed_when_its_writer_raises(tmp_path: Path, exc: BaseException) -> None:
    with pytest.raises(type(exc)):
        tear(tmp_path / "a", exc)

    assert names(tmp_path) == []


def test_what_stood_before_stands_when_its_writer_raises(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"before")

    with pytest.raises(FormatError):
        tear(tmp_path / "a", FormatError("a torn end"))

    assert (tmp_path / "a").read_bytes() == b"before"


def test_what_stood_before_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"before")

    with whole_file(tmp_path / "a") as stream:
        stream.write(b"after")

    assert (tmp_path / "a").read_bytes() == b"after"


def test_a_folder_that_is_missing_is_fatal(tmp_path: Path) -> None:
    path = tmp_path / "none" / "a"

    with pytest.raises(FatalError) as caught, whole_file(path):
        pass

    assert str(caught.value) == f"{path}: No such file or directory; expected to write there"


def test_a_folder_that_is_a_file_is_fatal(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    path = tmp_path / "file" / "a"

    with pytest.raises(FatalError) as caught, whole_file(path):
        pass

    assert str(caught.value) == f"{path}: Not a directory; expected to write there"


def test_a_name_that_a_folder_has_is_fatal(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()

    with pytest.raises(FatalError) as caught, whole_file(tmp_path / "a"):
        pass

    assert str(caught.value) == f"{tmp_path / 'a'}: Is a directory; expected to write there"


def test_a_full_disk_is_fatal_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(FatalError) as caught, whole_file(tmp_path / "a"):
        raise OSError(28, "No space left on device")

    found = (str(caught.value), names(tmp_path))
    assert found == (f"{tmp_path / 'a'}: No space left on device; expected to write there", [])


def test_a_document_is_indented_with_its_keys_sorted(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"b": [1], "a": "Zürich"})

    expected = '{\n  "a": "Zürich",\n  "b": [\n    1\n  ]\n}\n'
    assert (tmp_path / "a.json").read_text("utf-8") == expected


def test_chunks_are_called_after_their_span_in_order(tmp_path: Path) -> None:
    ChunkFiles(tmp_path, SPAN, "xml").write([frame(0, b"a", A), frame(1, b"b", B)])

    assert names(tmp_path) == ["00007-00002-000.xml", "00007-00002-001.xml"]


def test_a_chunk_is_its_frames_end_to_end(tmp_path: Path) -> None:
    frames = [frame(0, b"<feed>a", A), frame(0, b"b", B), frame(0, b"</feed>")]
    ChunkFiles(tmp_path, SPAN, "xml").write(frames)

    assert (tmp_path / "00007-00002-000.xml").read_bytes() == b"<feed>ab</feed>"


def test_a_chunk_is_described(tmp_path: Path) -> None:
    files = ChunkFiles(tmp_path, SPAN, "xml")
    files.write(
        [
            frame(0, b"<feed>ab", A, B, target_feed=ASKED, feed=STATED),
            frame(0, b"c", C, target_feed=ASKED, feed=STATED),
            frame(0, b"</feed>", target_feed=ASKED, feed=STATED),
        ]
    )

    assert files.finished == [
        Chunk(
            path="00007-00002-000.xml",
            bytes=16,
            sha256=hashlib.sha256(b"<feed>abc</feed>").hexdigest(),
            records={"ADD": 2, "DELETE": 1},
            first_url="http://www.example.com/a",
            last_url="http://www.example.com/c",
            source="feed.xml",
            span=2,
            datasource="intranet",
            feedtype="incremental",
            requested_feedtype="full",
            origin="feed.xml",
        )
    ]


def test_a_chunk_without_a_feed_states_none(tmp_path: Path) -> None:
    files = ChunkFiles(tmp_path, SPAN, "avro")
    files.write([frame(0, b"a", A)])

    [chunk] = files.finished
    assert (chunk.datasource, chunk.feedtype, chunk.requested_feedtype) == (None, None, None)


def test_no_frames_make_no_chunk(tmp_path: Path) -> None:
    files = ChunkFiles(tmp_path, SPAN, "xml")
    files.write([])

    assert (files.finished, names(tmp_path)) == ([], [])


def test_a_chunk_whose_last_frame_did_not_come_is_removed(tmp_path: Path) -> None:
    def torn() -> Iterator[Frame]:
        yield frame(0, b"a", A)
        yield frame(1, b"b", B)
        raise FormatError("a torn end")

    with pytest.raises(FormatError):
        ChunkFiles(tmp_path, SPAN, "xml").write(torn())

    assert names(tmp_path) == ["00007-00002-000.xml"]


def test_a_chunk_whose_last_frame_did_not_come_is_not_listed(tmp_path: Path) -> None:
    def torn() -> Iterator[Frame]:
        yield frame(0, b"a", A)
        raise FormatError("a torn end")

    files = ChunkFiles(tmp_path, SPAN, "xml")
    with pytest.raises(FormatError):
        files.write(torn())

    assert files.finished == []


def test_a_chunk_that_cannot_be_written_is_fatal(tmp_path: Path) -> None:
    files = ChunkFiles(tmp_path / "none", SPAN, "xml")

    with pytest.raises(FatalError) as caught:
        files.write([frame(0, b"a", A)])

    path = tmp_path / "none" / "00007-00002-000.xml"
    assert str(caught.value) == f"{path}: No such file or directory; expected to write there"


def test_rejects_can_be_read_with_their_original_bytes(tmp_path: Path) -> None:
    rejects = RejectFile(tmp_path / "r.avro")
    rejects.add(REJECT)
    rejects.close(whole=True)

    with (tmp_path / "r.avro").open("rb") as stream:
        found = list(fastavro.reader(stream))
    assert found == [
        {
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
    ]


def test_rejects_are_counted(tmp_path: Path) -> None:
    rejects = RejectFile(tmp_path / "r.avro")
    rejects.add(REJECT)
    rejects.add(REJECT)
    rejects.close(whole=True)

    assert rejects.count == 2


def test_the_same_rejects_make_the_same_bytes(tmp_path: Path) -> None:
    first, second = RejectFile(tmp_path / "1.avro"), RejectFile(tmp_path / "2.avro")
    first.add(REJECT)
    second.add(REJECT)
    first.close(whole=True)
    second.close(whole=True)

    assert (tmp_path / "1.avro").read_bytes() == (tmp_path / "2.avro").read_bytes()


def test_rejects_have_a_temporary_name_until_all_are_there(tmp_path: Path) -> None:
    rejects = RejectFile(tmp_path / "r.avro")
    rejects.add(REJECT)
    before = names(tmp_path)
    rejects.close(whole=True)

    assert (before, names(tmp_path)) == (["r.avro.partial"], ["r.avro"])


def test_rejects_of_a_span_that_was_stopped_are_removed(tmp_path: Path) -> None:
    rejects = RejectFile(tmp_path / "r.avro")
    rejects.add(REJECT)
    rejects.close(whole=False)

    assert names(tmp_path) == []


def test_no_rejects_make_no_file(tmp_path: Path) -> None:
    RejectFile(tmp_path / "r.avro").close(whole=True)

    assert names(tmp_path) == []


def test_lines_are_kept_in_order(tmp_path: Path) -> None:
    lines = LineFile(tmp_path / "urls.txt")
    lines.add(b"b")
    lines.add(b"a")
    lines.close(whole=True)

    assert (tmp_path / "urls.txt").read_bytes() == b"b\na\n"


def test_lines_have_a_temporary_name_until_all_are_there(tmp_path: Path) -> None:
    lines = LineFile(tmp_path / "urls.txt")
    lines.add(b"a")
    before = [path.name for path in tmp_path.iterdir()]
    lines.close(whole=True)

    assert before == ["urls.txt.partial"]
    assert [path.name for path in tmp_path.iterdir()] == ["urls.txt"]


def test_lines_of_a_span_that_was_stopped_are_removed(tmp_path: Path) -> None:
    lines = LineFile(tmp_path / "urls.txt")
    lines.add(b"a")
    lines.close(whole=False)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("whole", [True, False])
def test_no_lines_make_no_file(tmp_path: Path, whole: bool) -> None:
    LineFile(tmp_path / "urls.txt").close(whole=whole)

    assert list(tmp_path.iterdir()) == []


def test_a_line_that_cannot_be_written_is_fatal(tmp_path: Path) -> None:
    with pytest.raises(FatalError) as caught:
        LineFile(tmp_path / "none/urls.txt").add(b"a")

    assert str(caught.value) == (
        f"{tmp_path}/none/urls.txt: No such file or directory; expected to write there"
    )
