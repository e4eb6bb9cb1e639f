"""Chunks keep order, lose nothing and stay in bounds, to the byte."""

import hashlib
import io
from collections.abc import Iterable, Sequence
from itertools import islice, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feedferry.schemas.account import Chunk
from feedferry.schemas.content import decode
from feedferry.schemas.errors import FatalError, RecordError
from feedferry.schemas.feed import Feed, TargetFeed
from feedferry.schemas.membership import RecordOrMembership
from feedferry.schemas.record import Action, Arrival, Content, Provenance, Record
from feedferry.schemas.reject import record_error
from feedferry.schemas.span import Span
from feedferry.transforms.conversion.chunk import FRAME_BYTES, ChunkWriter
from feedferry.transforms.formats import Encoder, WriteOptions, by_name
from feedferry.transforms.formats.base import write_all
from feedferry.transforms.storage.storage import LocalStorage
from support.gsa_records import Held, held

FULL = Feed(datasource="docs", feedtype="full")
OTHER = Feed(datasource="web", feedtype="incremental")
UNLIMITED = 1 << 40
SPAN = Span(source="feed.xml", source_ordinal=7, ordinal=2)


class Bricks:
    """A format whose records are as long as they state; 0 is a record that it cannot hold."""

    extension = "bricks"

    def __init__(self, *, prolog: int = 3, mark: int = 1, frame_bytes: int = 2) -> None:
        self._prolog = b"p" * prolog
        self._mark = b"f" * mark
        self.frame_bytes = frame_bytes
        self.framed: list[int] = []

    def prolog(self) -> bytes:
        return self._prolog

    def encode(self, record: Record) -> bytes:
        if not record.size:
            raise RecordError("bad-brick", "a brick of nothing; expected a byte or more")
        return b"r" * record.size

    def frame(self, records: list[bytes]) -> bytes:
        self.framed.append(sum(map(len, records)))
        return self._mark + b"".join(records)

    def epilog(self) -> bytes:
        return b"e"


class FaultyBricks(Bricks):
    """A format with a defect at records of one size."""

    def __init__(self, *, size: int) -> None:
        super().__init__()
        self._size = size

    def encode(self, record: Record) -> bytes:
        if record.size == self._size:
            raise KeyError(record.size)
        return super().encode(record)


class Build:
    """The chunks of some records: their descriptions, bytes and records, and the refusals."""

    def __init__(self, records: Sequence[RecordOrMembership], writer: ChunkWriter) -> None:
        self.refused: dict[str, RecordError] = {}
        self.refusals = 0
        written = []
        for record in records:
            try:
                writer.write(record, target_feed_of(record))
                written.append(record)
            except Exception as exc:
                self.refused[record.url] = record_error(exc)
                self.refusals += 1
        writer.close(whole=True)
        self.chunks: list[Chunk] = writer.finished
        self.texts = [writer._storage.get(chunk.path) or b"" for chunk in self.chunks]
        left = iter(written)
        self.records = [list(islice(left, sum(chunk.records.values()))) for chunk in self.chunks]

    @property
    def urls(self) -> list[list[str]]:
        return [[record.url for record in records] for records in self.records]

    @property
    def sizes(self) -> list[int]:
        return [len(text) for text in self.texts]


def build(
    records: Sequence[RecordOrMembership],
    *,
    max_bytes: int = UNLIMITED,
    encoder: Encoder | None = None,
    **limits: int,
) -> Build:
    """Write records; each chunk states the feed of its records."""
    used = encoder or Bricks()
    with TemporaryDirectory() as folder:
        writer = ChunkWriter(
            LocalStorage(Path(folder)),
            SPAN,
            encoder_of=lambda target, number: (target.feed if target else None, used),
            max_bytes=max_bytes,
            **limits,
        )
        return Build(records, writer)


def target_feed_of(record: RecordOrMembership) -> TargetFeed | None:
    provenance = record.provenance
    if provenance.datasource is None or provenance.feedtype is None:
        return None
    feed = Feed(datasource=provenance.datasource, feedtype=provenance.feedtype)
    return TargetFeed(feed=feed, origin=provenance.source)


def bricks(sizes: Iterable[int], *, feeds: Sequence[Feed] = ()) -> list[Record]:
    """Return records of these sizes, of the feeds in turn or of none."""
    records = []
    for number, size in enumerate(sizes):
        provenance = Provenance()
        if feeds:
            feed = feeds[number % len(feeds)]
            provenance = Provenance(datasource=feed.datasource, feedtype=feed.feedtype)
        records.append(Record(url=str(number), action=Action.ADD, size=size, provenance=provenance))
    return records


# Any sizes, any bound


@settings(max_examples=200)
@given(
    st.lists(st.sampled_from((0, 1, 2, 5, 9, FRAME_BYTES // 2, FRAME_BYTES)), max_size=12),
    st.lists(st.sampled_from((FULL, OTHER)), max_size=3),
    st.sampled_from((1, 6, 7, 10, 20, FRAME_BYTES, 2 * FRAME_BYTES, UNLIMITED)),
    st.builds(
        Bricks,
        prolog=st.integers(0, 5),
        mark=st.integers(0, 2),
        frame_bytes=st.sampled_from((2, 2, 7)),
    ),
)
def test_chunks_are_in_bounds_full_in_order_and_complete(
    sizes: list[int], feeds: list[Feed], max_bytes: int, encoder: Bricks
) -> None:
    records = bricks(sizes, feeds=feeds)
    output = build(records, max_bytes=max_bytes, encoder=encoder)

    assert [size for size in output.sizes if size > max_bytes] == []
    written = [url for urls in output.urls for url in urls]
    assert written == sorted(written, key=int)
    assert sorted([*written, *output.refused], key=int) == [record.url for record in records]
    assert [chunk.path for chunk in output.chunks] == [
        f"{SPAN.name}-{number:03d}.bricks" for number in range(len(output.chunks))
    ]
    assert [len({target_feed_of(record) for record in run}) for run in output.records] == [
        1 for _ in output.chunks
    ]
    assert max(encoder.framed, default=0) <= 2 * FRAME_BYTES
    for (size, run), (_, following) in pairwise(zip(output.sizes, output.records, strict=True)):
        between = records[int(run[-1].url) + 1 : int(following[0].url) + 1]
        if {target_feed_of(record) for record in between} == {target_feed_of(run[-1])}:
            least = next(record.size or 0 for record in between if record.size)
            assert size + least + encoder.frame_bytes > max_bytes  # the chunk had no room


# To the byte


@pytest.mark.parametrize(
    ("max_bytes", "expected"),
    [
        (7, []),  # prolog 3, epilog 1, 2 kept for a frame: a record has 1
        (8, [["0"]]),
        (9, [["0"]]),
        (10, [["0"], ["1"], ["2"]]),
        (11, [["0"], ["1"], ["2"]]),
        (12, [["0", "1"], ["2"]]),
        (15, [["0", "1"], ["2"]]),
        (16, [["0", "1", "2"]]),
    ],
)
def test_a_chunk_is_filled_to_the_byte(max_bytes: int, expected: list[list[str]]) -> None:
    assert build(bricks([2, 4, 4]), max_bytes=max_bytes).urls == expected


def test_a_frame_that_is_shorter_than_it_may_be_leaves_room_for_another() -> None:
    encoder = Bricks(prolog=0, mark=0, frame_bytes=100)
    output = build(bricks([FRAME_BYTES] * 3), max_bytes=3 * FRAME_BYTES + 101, encoder=encoder)
    assert output.sizes == [3 * FRAME_BYTES + 1]


def test_reserved_bytes_are_left_free() -> None:
    assert build(bricks([2, 4, 4]), max_bytes=21, reserved_bytes=5).sizes == [15]
    assert build(bricks([2, 4, 4]), max_bytes=20, reserved_bytes=5).sizes == [11, 9]


def test_a_large_chunk_is_written_in_frames() -> None:
    encoder = Bricks()
    output = build(bricks([FRAME_BYTES, 1, FRAME_BYTES - 1, 1]), encoder=encoder)
    assert encoder.framed == [FRAME_BYTES, FRAME_BYTES, 1]
    [text] = output.texts
    assert (text[:4], text[-3:]) == (b"pppf", b"fre")


@pytest.mark.parametrize("sizes", [[], [0, 0]])
def test_without_a_written_record_there_is_no_chunk(sizes: list[int]) -> None:
    assert build(bricks(sizes)).chunks == []


def test_a_chunk_has_at_most_max_records_and_refused_records_do_not_count() -> None:
    output = build(bricks([1, 1, 1, 0, 1]), max_records=2)
    assert output.urls == [["0", "1"], ["2", "4"]]


# Feeds


def test_a_chunk_is_described(tmp_path: Path) -> None:
    target_feed = TargetFeed(feed=FULL, origin="a.xml")
    stated = Feed(datasource="docs", feedtype="incremental")
    writer = ChunkWriter(
        LocalStorage(tmp_path),
        SPAN,
        encoder_of=lambda _feed, _number: (stated, Bricks()),
        max_bytes=100,
    )
    for action, url in ((Action.ADD, "a"), (Action.DELETE, "b"), (Action.ADD, "c")):
        writer.write(Record(url=url, action=action, size=2), target_feed)
    writer.close(whole=True)

    text = b"pppf" + b"r" * 6 + b"e"
    assert writer.finished == [
        Chunk(
            path="00007-00002-000.bricks",
            bytes=11,
            sha256=hashlib.sha256(text).hexdigest(),
            records={"ADD": 2, "DELETE": 1},
            first_url="a",
            last_url="c",
            source="feed.xml",
            span=2,
            datasource="docs",
            feedtype="incremental",
            requested_feedtype="full",
            origin="a.xml",
        )
    ]
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [
        ("00007-00002-000.bricks", text)
    ]


def test_another_feed_begins_another_chunk_also_if_it_occurred_before() -> None:
    output = build(bricks([1, 1, 1, 1], feeds=[FULL, OTHER, OTHER]))
    assert output.urls == [["0"], ["1", "2"], ["3"]]
    assert [chunk.datasource for chunk in output.chunks] == ["docs", "web", "docs"]


def test_the_same_feed_of_another_origin_begins_another_chunk() -> None:
    first, second, third = bricks([1, 1, 1], feeds=[FULL])
    provenance = msgspec.structs.replace(first.provenance, source="other.xml")
    moved = [msgspec.structs.replace(record, provenance=provenance) for record in (second, third)]
    assert [chunk.origin for chunk in build([first, *moved]).chunks] == ["", "other.xml"]


def test_the_encoder_depends_on_feed_and_number(tmp_path: Path) -> None:
    calls: list[tuple[TargetFeed | None, int]] = []

    def encoder_of(target_feed: TargetFeed | None, number: int) -> tuple[Feed | None, Encoder]:
        calls.append((target_feed, number))
        return OTHER if number else FULL, Bricks()

    writer = ChunkWriter(LocalStorage(tmp_path), SPAN, encoder_of=encoder_of, max_bytes=14)
    output = Build(bricks([4, 4, 4, 4], feeds=[FULL]), writer)
    target_feed = TargetFeed(feed=FULL, origin="")
    assert calls == [(target_feed, 0), (target_feed, 1)]
    assert [chunk.datasource for chunk in output.chunks] == ["docs", "web"]


# Refused records


def test_records_that_are_too_large_or_cannot_be_encoded_are_refused_alone() -> None:
    output = build(bricks([4, 0, 100, 4]), max_bytes=105)
    assert output.urls == [["0"], ["3"]]
    assert {url: (error.code, error.reason) for url, error in output.refused.items()} == {
        "1": ("bad-brick", "a brick of nothing; expected a byte or more"),
        "2": (
            "record-too-large",
            "a record of 100 bytes as written; expected one that fits in a chunk of 105 bytes; "
            "raise --max-chunk-bytes",
        ),
    }


def test_a_defect_of_the_encoder_refuses_one_record_also_in_the_next_chunk(tmp_path: Path) -> None:
    encoders = iter([FaultyBricks(size=6), FaultyBricks(size=7)])
    writer = ChunkWriter(
        LocalStorage(tmp_path),
        SPAN,
        encoder_of=lambda _feed, _number: (None, next(encoders)),
        max_bytes=16,
    )
    output = Build(bricks([8, 6, 7, 3]), writer)
    assert {url: error.code for url, error in output.refused.items()} == {
        "1": "defect",
        "2": "defect",
    }
    assert output.urls == [["0"], ["3"]]


def test_an_incomplete_chunk_is_removed(tmp_path: Path) -> None:
    writer = ChunkWriter(
        LocalStorage(tmp_path),
        SPAN,
        encoder_of=lambda _feed, _number: (None, Bricks()),
        max_bytes=UNLIMITED,
    )
    for feed, record in zip([None, TargetFeed()], bricks([FRAME_BYTES] * 2), strict=True):
        writer.write(record, feed)
    writer.close(whole=False)

    assert [chunk.path for chunk in writer.finished] == ["00007-00002-000.bricks"]
    assert [path.name for path in tmp_path.iterdir()] == ["00007-00002-000.bricks"]


def test_a_chunk_that_cannot_be_written_is_fatal(tmp_path: Path) -> None:
    folder = tmp_path / "none"
    writer = ChunkWriter(
        LocalStorage(folder),
        SPAN,
        encoder_of=lambda _feed, _number: (None, Bricks()),
        max_bytes=UNLIMITED,
    )
    with pytest.raises(FatalError) as caught:
        writer.write(bricks([FRAME_BYTES])[0], None)
    assert str(caught.value) == (
        f"{folder / '00007-00002-000.bricks'}: No such file or directory; expected to write there"
    )


# Real formats


def documents(lengths: list[int]) -> list[Record]:
    """Return records with content of these lengths, which every format can hold."""
    return [
        Record(
            url=f"http://www.example.com/{number}",
            action=Action.ADD,
            arrival=Arrival.PUSHED,
            content=Content(b"w" * length),
            mimetype="text/plain",
        )
        for number, length in enumerate(lengths)
    ]


def encoder_named(name: str) -> Encoder:
    return by_name(name).make_encoder(WriteOptions(feed=FULL))


@pytest.mark.parametrize("name", ["gsa-feed", "thunderstone", "avro", "jsonl"])
@settings(max_examples=25)
@given(
    st.lists(st.sampled_from((0, 1, 63, 64, 500, 8200)), min_size=1, max_size=8),
    st.integers(64, 20_000),
)
def test_chunks_of_any_format_are_in_bounds_and_read_as_their_records(
    name: str, lengths: list[int], room: int
) -> None:
    [least] = build(documents([8200]), encoder=encoder_named(name)).sizes
    output = build(documents(lengths), max_bytes=least + room, encoder=encoder_named(name))
    assert [size for size in output.sizes if size > least + room] == []
    results = [result for text in output.texts for result in by_name(name).read(io.BytesIO(text))]
    assert [
        decode(result.content)
        for result in results
        if isinstance(result, Record) and result.content
    ] == [b"w" * length for length in lengths]


@pytest.mark.parametrize("name", ["gsa-feed", "thunderstone", "jsonl"])
def test_a_chunk_of_all_records_is_the_document_of_all_records(name: str) -> None:
    records = documents([0, 300_000, 5, 200_000])
    stream = io.BytesIO()
    write_all(encoder_named(name), records, stream)
    assert build(records, encoder=encoder_named(name)).texts == [stream.getvalue()]


@settings(max_examples=40)
@given(held(), st.integers(300, 2000))
def test_any_feed_in_chunks_is_read_record_by_record(case: Held, max_bytes: int) -> None:
    encoder = by_name("gsa-feed").make_encoder(WriteOptions(feed=case.feed))
    output = build(case.records, max_bytes=max_bytes, encoder=encoder)
    results = [
        result for text in output.texts for result in by_name("gsa-feed").read(io.BytesIO(text))
    ]
    read = [result.url if isinstance(result, Record) else result for result in results]
    assert read == [url for urls in output.urls for url in urls]
    assert len(read) + output.refusals == len(case.records)
