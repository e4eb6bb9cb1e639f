"""Parts of a chunk: halves, and the rejects of single records."""

import hashlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feedferry.schemas.account import Chunk
from feedferry.schemas.errors import FormatError, RecordError, SourceError
from feedferry.transforms.sinks.push.chunk_parts import MAX_REJECT_BYTES, ChunkSplitter, whole_chunk
from feedferry.transforms.sinks.push.model import ChunkPart
from feedferry.transforms.sinks.push.wire.body import verified_blocks
from support.appliance_sockets import chunk

HEAD = b"<gsafeed>\n<header><datasource>docs</datasource></header>\n<group>\n"
TAIL = b"</group>\n</gsafeed>\n"
LATIN = b'<?xml version="1.0" encoding="ISO-8859-1"?>\n'
REFUSED = RecordError("refused", "the appliance responded 'no'; expected it to take the record")
CHANGED = "the file was changed; convert again to make the chunk anew"


def record(url: str, size: int = 0) -> bytes:
    return f'<record url="{url}"><content>{"c" * size}</content></record>\n'.encode()


def chunk_of(root: Path, markup: bytes, *, format: str = "gsa-feed") -> Chunk:
    (root / "000001.xml").write_bytes(markup)
    return chunk(markup, path="000001.xml", format=format)


def splitter_of(root: Path, markup: bytes, *, format: str = "gsa-feed") -> ChunkSplitter:
    return ChunkSplitter(chunk_of(root, markup, format=format), root)


def splitter(root: Path, *sizes: int) -> ChunkSplitter:
    """Return a splitter of a feed with records of these sizes; their URLs are numbers."""
    records = (record(str(number), size) for number, size in enumerate(sizes))
    return splitter_of(root, HEAD + b"".join(records) + TAIL)


def ranges(*parts: ChunkPart) -> list[tuple[int, int]]:
    return [(part.first, part.count) for part in parts]


def halves(chunk_splitter: ChunkSplitter) -> list[tuple[int, int]]:
    return ranges(*chunk_splitter.split(chunk_splitter.whole))


def text_of(part: ChunkPart) -> bytes:
    return b"".join(verified_blocks(part))


def digest_of_range(part: ChunkPart) -> str:
    markup = part.path.read_bytes()[part.offset : part.offset + part.length]
    return hashlib.sha256(markup).hexdigest()


def singles(chunk_splitter: ChunkSplitter, part: ChunkPart) -> list[ChunkPart]:
    """Split a part until each record is alone."""
    if part.count == 1:
        return [part]
    return [
        single for half in chunk_splitter.split(part) for single in singles(chunk_splitter, half)
    ]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "No such file or directory; expected a readable chunk file"),
        (HEAD, f"65 bytes; expected 85 as in the manifest: {CHANGED}"),
    ],
)
def test_another_file_is_not_the_chunk(
    tmp_path: Path, content: bytes | None, expected: str
) -> None:
    chunk = chunk_of(tmp_path, HEAD + TAIL)
    path = tmp_path / "000001.xml"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SourceError) as caught:
        whole_chunk(chunk, tmp_path)

    assert str(caught.value) == f"{path}: {expected}"


# Halves


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [([100, 100, 200, 10, 10], [(0, 2), (2, 3)]), ([10, 10, 1000], [(0, 2), (2, 1)])],
)
def test_halves_have_about_the_same_size(
    tmp_path: Path, sizes: list[int], expected: list[tuple[int, int]]
) -> None:
    assert halves(splitter(tmp_path, *sizes)) == expected


def test_a_half_is_a_document_and_can_be_split(tmp_path: Path) -> None:
    chunk_splitter = splitter(tmp_path, 1, 1, 1)
    _, half = chunk_splitter.split(chunk_splitter.whole)

    assert text_of(half) == HEAD + (record("1", 1) + record("2", 1)).strip() + TAIL
    assert ranges(*chunk_splitter.split(half)) == [(1, 1), (2, 1)]
    assert half.sha256 == digest_of_range(half)


def test_a_single_record_is_not_split(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="1 records; expected several to split"):
        halves(splitter(tmp_path, 1))


@pytest.mark.parametrize(
    ("markup", "format", "expected"),
    [
        (LATIN + HEAD + record("0") * 2 + TAIL, "gsa-feed", ":1: .*expected UTF-8"),
        (b"text", "", ": a chunk without a format; expected "),
        (b"Obj", "avro", ": avro; expected a format whose chunks have parts"),
        (
            HEAD + record("0") + TAIL,
            "thunderstone",
            ":1: root element 'gsafeed'; expected <ThunderstoneReplication>",
        ),
    ],
)
def test_another_format_or_encoding_is_not_split(
    tmp_path: Path, markup: bytes, format: str, expected: str
) -> None:
    with pytest.raises(FormatError, match=f"^{tmp_path}/000001.xml{expected}"):
        halves(splitter_of(tmp_path, markup, format=format))


def test_the_reject_of_a_record_of_any_format_has_its_own_bytes(tmp_path: Path) -> None:
    lines = [b'{"url":"http://a/%d"}\n' % number for number in range(3)]
    chunk_splitter = splitter_of(tmp_path, b"".join(lines), format="jsonl")
    reject = chunk_splitter.reject(REFUSED, 1)
    assert (reject.url, reject.data, reject.line) == ("http://a/1", lines[1], 2)
    assert halves(chunk_splitter) == [(0, 1), (1, 2)]


@pytest.mark.parametrize("after_splits", [0, 1])
def test_a_changed_file_is_not_split(tmp_path: Path, after_splits: int) -> None:
    chunk_splitter = splitter(tmp_path, 1, 1, 1)
    part = chunk_splitter.whole
    for _ in range(after_splits):
        _, part = chunk_splitter.split(part)
    part.path.write_bytes(part.path.read_bytes().replace(record("2", 1), record("3", 1)))
    with pytest.raises(SourceError) as caught:
        chunk_splitter.split(part)

    assert str(caught.value) == (
        f"{part.path}: SHA-256 {digest_of_range(part)}; expected {part.sha256}: {CHANGED}"
    )


@settings(max_examples=40)
@given(sizes=st.lists(st.integers(0, 300), min_size=2, max_size=40))
def test_splitting_ends_with_each_record_alone(
    sizes: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("chunk")
    chunk_splitter = splitter(root, *sizes)
    parts = singles(chunk_splitter, chunk_splitter.whole)

    assert ranges(*parts) == [(number, 1) for number in range(len(sizes))]
    assert [part.sha256 for part in parts] == list(map(digest_of_range, parts))
    again = ChunkSplitter(chunk_splitter.whole.chunk, root)
    assert singles(again, again.whole) == parts


# Rejects


def test_a_reject_names_the_place_of_its_record(tmp_path: Path) -> None:
    reject = splitter(tmp_path, 1, 2).reject(REFUSED, 1)

    assert reject.message == (
        "000001.xml:5 (byte 111): the appliance responded 'no'; expected it to take the record"
    )
    assert (reject.url, reject.stage, reject.code) == ("1", "push", "refused")
    assert (reject.data, reject.truncated) == (record("1", 2).strip(), False)


def test_the_reject_of_a_membership_has_the_name_of_its_group(tmp_path: Path) -> None:
    groups = b"<xmlgroups><membership><principal>eng</principal></membership></xmlgroups>"

    assert splitter_of(tmp_path, groups, format="gsa-groups").reject(REFUSED, 0).url == "eng"


@pytest.mark.parametrize(
    ("markup", "record_number", "place", "data"),
    [
        (HEAD + record("0") + TAIL, None, (65, 4), record("0").strip()),
        (HEAD + TAIL, None, (0, 1), HEAD + TAIL),
        (LATIN + HEAD + record("0") + TAIL, 0, (0, 1), LATIN + HEAD + record("0") + TAIL),
    ],
)
def test_a_chunk_that_cannot_be_split_is_rejected_as_a_whole(
    tmp_path: Path, markup: bytes, record_number: int | None, place: tuple[int, int], data: bytes
) -> None:
    reject = splitter_of(tmp_path, markup).reject(REFUSED, record_number)

    assert ((reject.offset, reject.line), reject.data) == (place, data)


def test_a_reject_keeps_a_mebibyte(tmp_path: Path) -> None:
    reject = splitter(tmp_path, MAX_REJECT_BYTES).reject(REFUSED)

    assert (len(reject.data), reject.truncated) == (1 << 20, True)
