"""Files that get their name when they are complete: chunks, rejects, lists and reports."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import fastavro
import pytest
from msgspec.structs import replace

from feedferry.schemas.account import SpanFile
from feedferry.schemas.errors import FatalError, FormatError
from feedferry.schemas.reject import Reject
from feedferry.transforms.storage.atomic import (
    AtomicFile,
    RejectFile,
    read_rejects,
    whole_file,
    write_json,
)
from feedferry.transforms.storage.storage import LocalStorage

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


# Rejects and lines


def test_a_reject_that_cannot_be_stored_leaves_no_part(tmp_path: Path) -> None:
    rejects = RejectFile(LocalStorage(tmp_path), "a.avro")
    rejects.add(REJECT)
    with pytest.raises(UnicodeEncodeError):
        rejects.add(replace(REJECT, url="\udcfc"))
    rejects.add(REJECT)
    rejects.close(whole=True)
    assert [*read_rejects(tmp_path / "a.avro")] == [REJECT, REJECT]


def test_rejects_can_be_read_with_their_bytes(tmp_path: Path) -> None:
    for name in ("1.avro", "2.avro"):
        rejects = RejectFile(LocalStorage(tmp_path), name)
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
        "key": None,
        "length": 9,
        "url": "http://www.example.com/a",
        "action": None,
        "datasource": None,
        "feedtype": None,
        "data": b"\x00<rec\xff&>\n",
        "truncated": False,
    }
    assert (tmp_path / "1.avro").read_bytes() == (tmp_path / "2.avro").read_bytes()


def test_a_file_is_described_when_it_is_complete(tmp_path: Path) -> None:
    file = AtomicFile(LocalStorage(tmp_path), "urls.txt")
    assert file.is_empty
    file.write(b"b\n")
    file.write(b"a\n")
    written = SpanFile(path="urls.txt", bytes=4, sha256=hashlib.sha256(b"b\na\n").hexdigest())

    assert (file.finish(), file.written) == (written, written)
    assert (tmp_path / "urls.txt").read_bytes() == b"b\na\n"


@pytest.mark.parametrize("size", [1 << 20, (1 << 20) + 1, 3_000_001])
def test_a_large_file_is_as_it_was_written(tmp_path: Path, size: int) -> None:
    file = AtomicFile(LocalStorage(tmp_path), "1.xml")
    for _ in range(size // 1000):
        file.write(b"x" * 1000)
    file.write(b"y" * (size % 1000))
    content = b"x" * (size // 1000 * 1000) + b"y" * (size % 1000)

    digest = hashlib.sha256(content).hexdigest()
    assert file.finish() == SpanFile(path="1.xml", bytes=size, sha256=digest)
    assert (tmp_path / "1.xml").read_bytes() == content


def test_a_file_without_a_byte_is_written_if_it_is_finished(tmp_path: Path) -> None:
    assert AtomicFile(LocalStorage(tmp_path), "1.xml").finish().bytes == 0
    assert (tmp_path / "1.xml").read_bytes() == b""


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("kind", [AtomicFile, RejectFile])
def test_a_file_is_made_on_demand_and_kept_if_it_is_whole(
    tmp_path: Path, kind: type[AtomicFile], whole: bool
) -> None:
    storage = LocalStorage(tmp_path)
    kind(storage, "file").close(whole=whole)
    assert names(tmp_path) == []
    file = kind(storage, "file")
    if isinstance(file, RejectFile):
        file.add(REJECT)
    else:
        file.write(b"a")
    assert names(tmp_path) == ["file.partial"]
    file.close(whole=whole)

    assert names(tmp_path) == (["file"] if whole else [])


def test_a_file_that_cannot_be_made_is_fatal(tmp_path: Path) -> None:
    path = tmp_path / "none" / "urls.txt"
    message = f"{path}: No such file or directory; expected to write there"

    storage = LocalStorage(path.parent)
    assert unwritable(lambda: AtomicFile(storage, path.name).write(b"a")) == message
    assert unwritable(lambda: RejectFile(storage, path.name).add(REJECT)) == message
