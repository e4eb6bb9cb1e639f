"""Parts of a chunk: halves, runs that fit, single records, and the rejects of these."""

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
REFUSED = RecordError("refused", "the appliance said 'no'; expected it to take the record")


def record(url: str, size: int = 0) -> bytes:
    return f'<record url="{url}"><content>{"c" * size}</content></record>\n'.encode()


def chunk_of(root: Path, markup: bytes, *, records: int = 0, format: str | None = None) -> Chunk:
    (root / "000001.xml").write_bytes(markup)
    return Chunk(
        ordinal=1,
        path="000001.xml",
        bytes=len(markup),
        sha256=hashlib.sha256(markup).hexdigest(),
        records={"ADD": records} if records else {},
        first_url="",
        last_url="",
        source="feed.xml",
        span=0,
        format=format,
    )


def cutter(root: Path, *sizes: int, records: int = 0) -> ChunkSplitter:
    """A cutter of a feed of records with so much content; their urls are numbers."""
    texts = (record(str(number), size) for number, size in enumerate(sizes))
    return ChunkSplitter(chunk_of(root, HEAD + b"".join(texts) + TAIL, records=records), root)


def runs(*parts: ChunkPart) -> list[tuple[int, int]]:
    return [(part.first, part.count) for part in parts]


def text_of(part: ChunkPart) -> bytes:
    with part.path.open("rb") as stream:
        return b"".join(part.blocks(stream))


def below(size: int) -> Callable[[ChunkPart], bool]:
    return lambda part: part.size < size


def refusal(root: Path, chunk: Chunk) -> str:
    with pytest.raises(SourceError) as caught:
        whole_chunk(chunk, root)
    return str(caught.value)


# The whole


def test_the_whole_is_the_file_of_its_chunk(tmp_path: Path) -> None:
    chunk = chunk_of(tmp_path, HEAD + TAIL)
    assert whole_chunk(chunk, tmp_path) == ChunkPart(
        chunk=chunk,
        path=tmp_path / "000001.xml",
        offset=0,
        length=len(HEAD + TAIL),
        sha256=chunk.sha256,
    )


def test_the_whole_is_sent_as_it_stands(tmp_path: Path) -> None:
    assert text_of(cutter(tmp_path, 1).whole) == HEAD + record("0", 1) + TAIL


def test_the_file_of_a_chunk_is_missed(tmp_path: Path) -> None:
    chunk = chunk_of(tmp_path, HEAD + TAIL)
    (tmp_path / "000001.xml").unlink()
    assert refusal(tmp_path, chunk) == (
        f"{tmp_path}/000001.xml: No such file or directory; expected the file of a chunk"
    )


def test_a_file_with_another_size_is_not_that_of_the_chunk(tmp_path: Path) -> None:
    chunk = chunk_of(tmp_path, HEAD + TAIL)
    (tmp_path / "000001.xml").write_bytes(HEAD)
    assert refusal(tmp_path, chunk) == (
        f"{tmp_path}/000001.xml: 65 bytes; expected 85 as in the manifest: the file was "
        "changed; convert again to make the chunk anew"
    )


def test_the_file_of_a_chunk_may_vanish_before_it_is_cut(tmp_path: Path) -> None:
    cut = cutter(tmp_path, 1, 1)
    (tmp_path / "000001.xml").unlink()
    with pytest.raises(SourceError) as caught:
        cut.split(cut.whole)
    assert str(caught.value) == (
        f"{tmp_path}/000001.xml: No such file or directory; expected the file of a chunk"
    )


# Halves


def test_halves_have_about_as_many_bytes(tmp_path: Path) -> None:
    cut = cutter(tmp_path, 100, 100, 200, 10, 10)
    assert runs(*cut.split(cut.whole)) == [(0, 2), (2, 3)]


def test_halves_are_never_empty(tmp_path: Path) -> None:
    cut = cutter(tmp_path, 10, 10, 1000)
    assert runs(*cut.split(cut.whole)) == [(0, 2), (2, 1)]


def test_a_half_is_a_document_of_its_own(tmp_path: Path) -> None:
    cut = cutter(tmp_path, 1, 1)
    assert text_of(cut.split(cut.whole)[1]) == HEAD + record("1", 1).strip() + TAIL


def test_a_half_belongs_to_its_chunk(tmp_path: Path) -> None:
    cut = cutter(tmp_path, 1, 1)
    half = cut.split(cut.whole)[0]
    assert (half.chunk, half.path, half.sha256) == (cut.whole.chunk, cut.whole.path, None)


def test_a_half_is_split_again(tmp_path: Path) -> None:
    cut = cutter(tmp_path, 1, 1, 1, 1, 1, 1)
    assert runs(*cut.split(cut.split(cut.whole)[1])) == [(3, 1), (4, 2)]


def test_feeds_behind_one_another_are_split_first(tmp_path: Path) -> None:
    feeds = HEAD + record("0") + TAIL + HEAD + record("1") * 9 + TAIL
    cut = ChunkSplitter(chunk_of(tmp_path, feeds), tmp_path)
    assert runs(*cut.split(cut.whole)) == [(0, 1), (1, 9)]


def test_a_single_record_is_not_split(tmp_path: Path) -> None:
    cut = cutter(tmp_path, 1)
    with pytest.raises(ValueError, match="expected") as caught:
        cut.split(cut.whole)
    assert str(caught.value) == f"{tmp_path}/000001.xml: 1 records; expected several to split"


def test_a_chunk_that_is_not_utf_8_is_not_split(tmp_path: Path) -> None:
    cut = ChunkSplitter(chunk_of(tmp_path, LATIN + HEAD + record("0") * 2 + TAIL), tmp_path)
    with pytest.raises(FormatError) as caught:
        cut.split(cut.whole)
    assert str(caught.value) == (
        f"{tmp_path}/000001.xml:1: another encoding than UTF-8; expected UTF-8, for a feed that is "
        "to be sent in parts: convert it first"
    )


def test_what_is_no_feed_is_not_split(tmp_path: Path) -> None:
    cut = ChunkSplitter(chunk_of(tmp_path, b"text"), tmp_path)
    with pytest.raises(FormatError) as caught:
        cut.split(cut.whole)
    assert str(caught.value) == (
        f"{tmp_path}/000001.xml: ''; expected one of gsa-feed, gsa-groups, thunderstone"
    )


def test_a_chunk_may_state_its_format(tmp_path: Path) -> None:
    chunk = chunk_of(tmp_path, HEAD + record("0") + TAIL, format="thunderstone")
    with pytest.raises(FormatError) as caught:
        ChunkSplitter(chunk, tmp_path).split(whole_chunk(chunk, tmp_path))
    assert str(caught.value) == (
        f"{tmp_path}/000001.xml:1: root element 'gsafeed'; expected <ThunderstoneReplication>"
    )


@settings(max_examples=40)
@given(sizes=st.lists(st.integers(0, 300), min_size=1, max_size=12))
def test_splitting_ends_in_each_record_alone(
    sizes: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    cut = cutter(tmp_path_factory.mktemp("chunk"), *sizes)
    alone = [cut.reject(part, REFUSED).url for part in singles(cut, cut.whole)]
    assert alone == [str(number) for number in range(len(sizes))]


def singles(cut: ChunkSplitter, part: ChunkPart) -> list[ChunkPart]:
    if cut.single(part, 0) is part:
        return [part]
    return [one for half in cut.split(part) for one in singles(cut, half)]


def test_a_second_cutter_finds_the_same_parts(tmp_path: Path) -> None:
    cut = cutter(tmp_path, 5, 300, 20, 20, 100, 7)
    again = ChunkSplitter(cut.whole.chunk, tmp_path)
    assert singles(again, again.whole) == singles(cut, cut.whole)


def test_one_record_is_single(tmp_path: Path) -> None:
    cut = cutter(tmp_path, 1)
    assert cut.single(cut.whole, 0) is cut.whole


def test_two_records_are_not_single(tmp_path: Path) -> None:
    cut = cutter(tmp_path, 1, 1)
    assert cut.single(cut.whole, 0) is not cut.whole


def test_a_chunk_without_records_is_not_to_be_split(tmp_path: Path) -> None:
    cut = cutter(tmp_path)
    assert cut.single(cut.whole, 0) is cut.whole


# Runs that fit


def test_runs_are_as_long_as_they_can_be(tmp_path: Path) -> None:
    cut = cutter(tmp_path, 100, 100, 100, 100, 100)
    assert runs(*cut.split_to_fit(below(len(HEAD + TAIL) + 400))) == [(0, 2), (2, 2), (4, 1)]


def test_what_fits_is_one_run(tmp_path: Path) -> None:
    assert runs(*cutter(tmp_path, 100, 100).split_to_fit(below(10_000))) == [(0, 2)]


def test_a_record_that_does_not_fit_comes_alone(tmp_path: Path) -> None:
    cut = cutter(tmp_path, 1, 1, 1000, 1, 1)
    assert runs(*cut.split_to_fit(below(500))) == [(0, 2), (2, 1), (3, 2)]


def test_a_chunk_without_records_has_no_runs(tmp_path: Path) -> None:
    assert list(cutter(tmp_path).split_to_fit(below(1))) == []


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(0, 300), min_size=1, max_size=40),
    most=st.integers(150, 3000),
)
def test_runs_hold_all_records_in_order(
    sizes: list[int], most: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    found = runs(*cutter(tmp_path_factory.mktemp("chunk"), *sizes).split_to_fit(below(most)))
    assert [first + at for first, count in found for at in range(count)] == list(range(len(sizes)))


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(0, 300), min_size=1, max_size=40),
    most=st.integers(150, 3000),
)
def test_runs_of_several_records_fit(
    sizes: list[int], most: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    found = cutter(tmp_path_factory.mktemp("chunk"), *sizes).split_to_fit(below(most))
    assert [part for part in found if part.count > 1 and part.size >= most] == []


def test_few_questions_are_asked_of_many_records(tmp_path: Path) -> None:
    asked: list[int] = []

    def fits(part: ChunkPart) -> bool:
        asked.append(part.count)
        return part.count <= 500

    next(cutter(tmp_path, *[0] * 2000).split_to_fit(fits))
    assert asked == [2000, 1000, 500, 750, 625, 562, 531, 515]


# Single records and their rejects


def test_a_record_is_a_part_of_its_own(tmp_path: Path) -> None:
    cut = cutter(tmp_path, 1, 1, 1, 1)
    assert runs(cut.single(cut.split(cut.whole)[1], 1)) == [(3, 1)]


def test_the_only_record_of_a_part_is_that_part(tmp_path: Path) -> None:
    cut = cutter(tmp_path, 1)
    assert cut.single(cut.whole, 0) is cut.whole


def test_a_reject_has_the_bytes_of_its_record(tmp_path: Path) -> None:
    cut = cutter(tmp_path, 1, 2)
    assert cut.reject(cut.single(cut.whole, 1), REFUSED).data == record("1", 2).strip()


def test_a_reject_tells_where_its_record_stands(tmp_path: Path) -> None:
    cut = cutter(tmp_path, 1, 2)
    reject = cut.reject(cut.single(cut.whole, 1), REFUSED)
    assert (reject.message, reject.url, reject.stage, reject.code, reject.length) == (
        "000001.xml:5 (byte 111): the appliance said 'no'; expected it to take the record",
        "1",
        "push",
        "refused",
        46,
    )


def test_the_reject_of_a_whole_chunk_begins_with_its_first_record(tmp_path: Path) -> None:
    cut = cutter(tmp_path, 1)
    reject = cut.reject(cut.whole, REFUSED)
    assert (reject.offset, reject.line, reject.data) == (65, 4, record("0", 1).strip())


def test_the_reject_of_a_membership_has_the_name_of_its_group(tmp_path: Path) -> None:
    groups = b"<xmlgroups><membership><principal>eng</principal></membership></xmlgroups>"
    cut = ChunkSplitter(chunk_of(tmp_path, groups), tmp_path)
    assert cut.reject(cut.whole, REFUSED).url == "eng"


def test_a_reject_keeps_a_megabyte(tmp_path: Path) -> None:
    cut = cutter(tmp_path, MAX_REJECT_BYTES)
    reject = cut.reject(cut.whole, REFUSED)
    assert (len(reject.data), reject.truncated) == (1 << 20, True)


def test_a_small_reject_is_whole(tmp_path: Path) -> None:
    cut = cutter(tmp_path, 1)
    assert not cut.reject(cut.whole, REFUSED).truncated


def test_what_cannot_be_cut_is_rejected_as_it_stands(tmp_path: Path) -> None:
    cut = ChunkSplitter(chunk_of(tmp_path, LATIN + HEAD + record("0") + TAIL), tmp_path)
    reject = cut.reject(cut.whole, REFUSED)
    assert (reject.offset, reject.line, reject.data) == (0, 1, LATIN + HEAD + record("0") + TAIL)


def test_a_chunk_without_records_is_rejected_as_it_stands(tmp_path: Path) -> None:
    cut = cutter(tmp_path)
    assert cut.reject(cut.whole, REFUSED).data == HEAD + TAIL


def test_a_file_that_was_changed_is_not_cut(tmp_path: Path) -> None:
    cut = cutter(tmp_path, 1, 1)
    path = cut.whole.path
    path.write_bytes(path.read_bytes().replace(b'url="1"', b'url="2"'))
    with pytest.raises(SourceError) as caught:
        cut.split(cut.whole)

    found = hashlib.sha256(path.read_bytes()).hexdigest()
    assert str(caught.value) == (
        f"{path}: SHA-256 {found}; expected {cut.whole.sha256} as in the manifest: the file "
        "was changed; convert again to make the chunk anew"
    )
