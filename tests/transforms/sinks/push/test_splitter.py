"""Parts of a chunk: halves, parts that fit, single records, and their rejects."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.account import Chunk
from schemas.errors import FormatError, RecordError, SourceError
from transforms.sinks.push.model import ChunkPart
from transforms.sinks.push.splitter import MAX_REJECT_BYTES, ChunkSplitter, whole_chunk

HEAD = b"<gsafeed>\n<header><datasource>docs</datasource></header>\n<group>\n"
TAIL = b"</group>\n</gsafeed>\n"
LATIN = b'<?xml version="1.0" encoding="ISO-8859-1"?>\n'
REFUSED = RecordError("refused", "the appliance responded 'no'; expected it to take the record")
SIZES = st.lists(st.integers(0, 300), min_size=1, max_size=40)


def record(url: str, size: int = 0) -> bytes:
    return f'<record url="{url}"><content>{"c" * size}</content></record>\n'.encode()


def chunk_of(root: Path, markup: bytes, *, format: str | None = None) -> Chunk:
    (root / "000001.xml").write_bytes(markup)
    return Chunk(
        ordinal=1,
        path="000001.xml",
        bytes=len(markup),
        sha256=hashlib.sha256(markup).hexdigest(),
        records={},
        first_url="",
        last_url="",
        source="feed.xml",
        span=0,
        format=format,
    )


def splitter_of(root: Path, markup: bytes, *, format: str | None = None) -> ChunkSplitter:
    return ChunkSplitter(chunk_of(root, markup, format=format), root)


def splitter(root: Path, *sizes: int) -> ChunkSplitter:
    """Return a splitter of a feed with records of these sizes; their URLs are numbers."""
    records = (record(str(number), size) for number, size in enumerate(sizes))
    return splitter_of(root, HEAD + b"".join(records) + TAIL)


def ranges(*parts: ChunkPart) -> list[tuple[int, int]]:
    return [(part.first, part.count) for part in parts]


def halves(made: ChunkSplitter) -> list[tuple[int, int]]:
    return ranges(*made.split(made.whole))


def text_of(part: ChunkPart) -> bytes:
    with part.path.open("rb") as stream:
        return b"".join(part.blocks(stream))


def digest_of_range(part: ChunkPart) -> str:
    markup = part.path.read_bytes()[part.offset : part.offset + part.length]
    return hashlib.sha256(markup).hexdigest()


def below(size: int) -> Callable[[ChunkPart], bool]:
    return lambda part: part.size < size


def singles(made: ChunkSplitter, part: ChunkPart) -> list[ChunkPart]:
    """Split a part until each record is alone."""
    if made.single(part, 0) is part:
        return [part]
    return [single for half in made.split(part) for single in singles(made, half)]


# Whole chunks


def test_a_whole_chunk_is_its_file(tmp_path: Path) -> None:
    markup = HEAD + record("0", 1) + TAIL
    chunk = chunk_of(tmp_path, markup)
    part = whole_chunk(chunk, tmp_path)

    assert part == ChunkPart(
        chunk=chunk,
        path=tmp_path / "000001.xml",
        offset=0,
        length=len(markup),
        sha256=chunk.sha256,
    )
    assert text_of(part) == markup


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "No such file or directory; expected the file of a chunk"),
        (
            HEAD,
            "65 bytes; expected 85 as in the manifest: the file was changed; convert again to make "
            "the chunk anew",
        ),
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
    made = splitter(tmp_path, 1, 1, 1)
    _, half = made.split(made.whole)

    assert text_of(half) == HEAD + (record("1", 1) + record("2", 1)).strip() + TAIL
    assert ranges(*made.split(half)) == [(1, 1), (2, 1)]
    assert (half.chunk, half.path) == (made.whole.chunk, made.whole.path)
    assert half.sha256 == digest_of_range(half)


def test_a_single_record_is_not_split(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="1 records; expected several to split"):
        halves(splitter(tmp_path, 1))


@pytest.mark.parametrize(
    ("markup", "format", "expected"),
    [
        (LATIN + HEAD + record("0") * 2 + TAIL, None, ":1: .*expected UTF-8"),
        (b"text", None, ": ''; expected one of gsa-feed, "),
        (
            HEAD + record("0") + TAIL,
            "thunderstone",
            ":1: root element 'gsafeed'; expected <ThunderstoneReplication>",
        ),
    ],
)
def test_another_format_or_encoding_is_not_split(
    tmp_path: Path, markup: bytes, format: str | None, expected: str
) -> None:
    with pytest.raises(FormatError, match=f"^{tmp_path}/000001.xml{expected}"):
        halves(splitter_of(tmp_path, markup, format=format))


@pytest.mark.parametrize("content", [None, HEAD + record("0", 1) + record("2", 1) + TAIL])
def test_a_changed_file_is_not_split(tmp_path: Path, content: bytes | None) -> None:
    made = splitter(tmp_path, 1, 1)
    made.whole.path.unlink()
    if content is not None:
        made.whole.path.write_bytes(content)
    with pytest.raises(SourceError) as caught:
        halves(made)

    found = hashlib.sha256(content or b"").hexdigest()
    assert str(caught.value).removeprefix(f"{made.whole.path}: ") in {
        "No such file or directory; expected the file of a chunk",
        f"SHA-256 {found}; expected {made.whole.sha256} as in the manifest: the file was changed; "
        "convert again to make the chunk anew",
    }


def test_a_file_that_changes_after_a_split_is_not_split_again(tmp_path: Path) -> None:
    made = splitter(tmp_path, 1, 1, 1)
    _, half = made.split(made.whole)
    path = half.path
    path.write_bytes(path.read_bytes().replace(record("2", 1), record("3", 1)))
    with pytest.raises(SourceError) as caught:
        made.split(half)

    assert str(caught.value) == (
        f"{path}: SHA-256 {digest_of_range(half)}; expected {half.sha256}: the file was changed; "
        "convert again to make the chunk anew"
    )


@settings(max_examples=40)
@given(sizes=SIZES)
def test_splitting_ends_with_each_record_alone(
    sizes: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("chunk")
    made = splitter(root, *sizes)
    parts = singles(made, made.whole)

    assert [made.reject(part, REFUSED).url for part in parts] == [
        str(number) for number in range(len(sizes))
    ]
    again = ChunkSplitter(made.whole.chunk, root)
    assert singles(again, again.whole) == parts


# Parts that fit


@pytest.mark.parametrize(
    ("sizes", "limit", "expected"),
    [
        ([100] * 5, 485, [(0, 2), (2, 2), (4, 1)]),
        ([100, 100], 10_000, [(0, 2)]),
        ([1, 1, 1000, 1, 1], 500, [(0, 2), (2, 1), (3, 2)]),
        ([], 1, []),
    ],
)
def test_parts_are_as_long_as_they_can_be(
    tmp_path: Path, sizes: list[int], limit: int, expected: list[tuple[int, int]]
) -> None:
    assert ranges(*splitter(tmp_path, *sizes).split_to_fit(below(limit))) == expected


@settings(max_examples=40)
@given(sizes=SIZES, limit=st.integers(150, 3000))
def test_parts_have_all_records_in_order_and_fit(
    sizes: list[int], limit: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    made = splitter(tmp_path_factory.mktemp("chunk"), *sizes)
    parts = list(made.split_to_fit(below(limit)))

    assert [part.first + at for part in parts for at in range(part.count)] == [*range(len(sizes))]
    assert [part for part in parts if part.count > 1 and part.size >= limit] == []
    assert [part.sha256 for part in parts] == list(map(digest_of_range, parts))


def test_few_sizes_are_tried(tmp_path: Path) -> None:
    tried: list[int] = []

    def fits(part: ChunkPart) -> bool:
        tried.append(part.count)
        return part.count <= 500

    splitter(tmp_path, *[0] * 2000).split_to_fit(fits)
    assert tried[:8] == [2000, 1000, 500, 750, 625, 562, 531, 515]


# Single records and their rejects


def test_a_single_record_is_a_part(tmp_path: Path) -> None:
    made = splitter(tmp_path, 1, 1, 1, 1)
    _, half = made.split(made.whole)

    assert ranges(made.single(half, 1)) == [(3, 1)]


@pytest.mark.parametrize("sizes", [(), (1,)])
def test_a_chunk_with_one_record_or_none_is_single(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    made = splitter(tmp_path, *sizes)

    assert made.single(made.whole, 0) is made.whole


def test_a_reject_names_the_place_of_its_record(tmp_path: Path) -> None:
    made = splitter(tmp_path, 1, 2)
    reject = made.reject(made.single(made.whole, 1), REFUSED)

    assert reject.message == (
        "000001.xml:5 (byte 111): the appliance responded 'no'; expected it to take the record"
    )
    assert (reject.url, reject.stage, reject.code) == ("1", "push", "refused")
    assert (reject.data, reject.truncated) == (record("1", 2).strip(), False)


def test_the_reject_of_a_membership_has_the_name_of_its_group(tmp_path: Path) -> None:
    groups = b"<xmlgroups><membership><principal>eng</principal></membership></xmlgroups>"
    made = splitter_of(tmp_path, groups)

    assert made.reject(made.whole, REFUSED).url == "eng"


@pytest.mark.parametrize(
    ("markup", "place", "data"),
    [
        (HEAD + record("0") + TAIL, (65, 4), record("0").strip()),
        (HEAD + TAIL, (0, 1), HEAD + TAIL),
        (LATIN + HEAD + record("0") + TAIL, (0, 1), LATIN + HEAD + record("0") + TAIL),
    ],
)
def test_the_reject_of_a_whole_chunk_begins_with_its_first_record(
    tmp_path: Path, markup: bytes, place: tuple[int, int], data: bytes
) -> None:
    made = splitter_of(tmp_path, markup)
    reject = made.reject(made.whole, REFUSED)

    assert ((reject.offset, reject.line), reject.data) == (place, data)


def test_a_reject_keeps_a_mebibyte(tmp_path: Path) -> None:
    made = splitter(tmp_path, MAX_REJECT_BYTES)
    reject = made.reject(made.whole, REFUSED)

    assert (len(reject.data), reject.truncated) == (1 << 20, True)
