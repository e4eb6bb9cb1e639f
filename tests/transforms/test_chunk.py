"""Chunks keep order, lose nothing and stay in bounds, to the byte."""

import io
from collections.abc import Iterator, Sequence
from itertools import groupby, takewhile

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.content import decode
from schemas.errors import RecordError
from schemas.feed import Feed, TargetFeed
from schemas.membership import RecordOrMembership
from schemas.record import Action, Arrival, Content, Provenance, Record
from schemas.reject import Reject
from support.gsa_records import Held, held
from transforms.chunk import FRAME_BYTES, Frame, UnwrittenRecord, chunk
from transforms.formats import Encoder, WriteOptions, by_name
from transforms.formats.base import write_all

FULL = Feed(datasource="docs", feedtype="full")
OTHER = Feed(datasource="web", feedtype="incremental")
UNLIMITED = 1 << 40


class Bricks:
    """A format whose records are as long as they say; 0 stands for one that it cannot hold."""

    extension = "bricks"

    def __init__(self, *, prolog: int = 3, mark: int = 1, frame_bytes: int = 2) -> None:
        self._prolog = b"p" * prolog
        self._mark = b"f" * mark
        self.frame_bytes = frame_bytes

    def prolog(self) -> bytes:
        return self._prolog

    def encode(self, record: Record) -> bytes:
        if not record.size:
            raise RecordError("bad-brick", "a brick of nothing; expected a byte or more")
        return b"r" * record.size

    def frame(self, records: list[bytes]) -> bytes:
        return self._mark + b"".join(records)

    def epilog(self) -> bytes:
        return b"e"


class Build(list[bytes]):
    """The chunks of a run by their numbers, and the records of each."""

    def __init__(self, results: Iterator[Frame | UnwrittenRecord]) -> None:
        found = list(results)
        frames = [one for one in found if isinstance(one, Frame)]
        self.refused = [one for one in found if isinstance(one, UnwrittenRecord)]
        self.numbers = [number for number, _ in groupby(frames, lambda frame: frame.number)]
        self.frames = [list(run) for _, run in groupby(frames, lambda frame: frame.number)]
        self.records = [
            [one for frame in run for one in frame.records if isinstance(one, Record)]
            for run in self.frames
        ]
        super().__init__(b"".join(frame.data for frame in run) for run in self.frames)


def bricks(sizes: list[int], *, feeds: list[Feed] | None = None) -> list[Record]:
    """Records of these sizes, each with a url of its own, of the feeds in turn or of none."""
    return [
        Record(url=str(number), action=Action.ADD, size=size, provenance=_of(feeds, number))
        for number, size in enumerate(sizes)
    ]


def _of(feeds: list[Feed] | None, number: int) -> Provenance:
    if not feeds:
        return Provenance()
    feed = feeds[number % len(feeds)]
    return Provenance(datasource=feed.datasource, feedtype=feed.feedtype)


def target_feed_of(record: RecordOrMembership) -> TargetFeed | None:
    provenance = record.provenance
    if provenance.datasource is None or provenance.feedtype is None:
        return None
    feed = Feed(datasource=provenance.datasource, feedtype=provenance.feedtype)
    return TargetFeed(feed=feed, origin=provenance.source)


def build(
    records: list[Record],
    *,
    max_bytes: int,
    encoder: Encoder | None = None,
    **limits: int,
) -> Build:
    """The chunks of `records`; each states the feed of its records."""
    made = encoder or Bricks()
    return Build(
        chunk(
            records,
            target_feed_of=target_feed_of,
            encoder_of=lambda target_feed, number: (
                target_feed.feed if target_feed else None,
                made,
            ),
            max_bytes=max_bytes,
            **limits,
        )
    )


def urls(records: Sequence[RecordOrMembership]) -> list[str]:
    return [record.url for record in records]


def widths(made: Build) -> list[int]:
    return [len(one) for one in made]


# Any sizes, any bound

_SIZES = st.lists(st.sampled_from((0, 1, 2, 5, 9, FRAME_BYTES // 2, FRAME_BYTES)), max_size=12)
_BOUNDS = st.sampled_from((1, 6, 7, 10, 20, FRAME_BYTES, 2 * FRAME_BYTES, UNLIMITED))
_FEEDS = st.lists(st.sampled_from((FULL, OTHER)), max_size=3)
_ENCODERS = st.builds(
    Bricks,
    prolog=st.integers(0, 5),
    mark=st.integers(0, 2),
    frame_bytes=st.sampled_from((2, 2, 7)),
)


class Case:
    """Records, the bound of a chunk, and the chunks."""

    def __init__(
        self, sizes: list[int], feeds: list[Feed], max_bytes: int, encoder: Bricks
    ) -> None:
        self.input = bricks(sizes, feeds=feeds)
        self.max_bytes = max_bytes
        self.encoder = encoder
        self.made = build(self.input, max_bytes=max_bytes, encoder=encoder)

    def __repr__(self) -> str:
        sizes = [(record.size, target_feed_of(record)) for record in self.input]
        return f"{sizes} in chunks of {self.max_bytes} bytes: {widths(self.made)}"

    @property
    def written(self) -> list[Record]:
        return [record for run in self.made.records for record in run]

    @property
    def closed_early(self) -> list[int]:
        """The numbers of chunks that had room for the next record of their feed."""
        return [
            number
            for number, run in zip(self.made.numbers, self.made.records, strict=True)
            if self._had_room(len(self.made[number]), run[-1])
        ]

    def _had_room(self, width: int, last: Record) -> bool:
        behind = self.input[self.input.index(last) + 1 :]
        same = list(
            takewhile(lambda record: target_feed_of(record) == target_feed_of(last), behind)
        )
        following = next((record for record in same if record.size), None)
        if following is None:
            return False
        return width + (following.size or 0) + self.encoder.frame_bytes <= self.max_bytes


CASES = st.builds(Case, _SIZES, _FEEDS, _BOUNDS, _ENCODERS)


@settings(max_examples=150)
@given(CASES)
def test_no_chunk_is_larger_than_it_may_be(case: Case) -> None:
    assert [width for width in widths(case.made) if width > case.max_bytes] == []


@settings(max_examples=150)
@given(CASES)
def test_the_records_keep_their_order(case: Case) -> None:
    assert urls(case.written) == sorted(urls(case.written), key=int)


@settings(max_examples=150)
@given(CASES)
def test_every_record_is_in_a_chunk_or_refused(case: Case) -> None:
    refused = [one.record.url for one in case.made.refused]
    assert sorted(urls(case.written) + refused, key=int) == urls(case.input)


@settings(max_examples=150)
@given(CASES)
def test_a_chunk_ends_only_where_the_next_record_does_not_fit(case: Case) -> None:
    assert case.closed_early == []


@settings(max_examples=80)
@given(CASES)
def test_a_chunk_has_records_of_one_feed(case: Case) -> None:
    mixed = [
        run for run in case.made.records if len({target_feed_of(record) for record in run}) != 1
    ]
    assert mixed == []


@settings(max_examples=80)
@given(CASES)
def test_chunks_are_numbered_from_0(case: Case) -> None:
    assert case.made.numbers == list(range(len(case.made)))


@settings(max_examples=80)
@given(CASES)
def test_a_frame_is_written_when_it_is_large_enough(case: Case) -> None:
    assert [run for run in case.made.frames if max(map(held_bytes, run)) > 2 * FRAME_BYTES] == []


def held_bytes(frame: Frame) -> int:
    return sum(one.size or 0 for one in frame.records if isinstance(one, Record))


# To the byte


@pytest.mark.parametrize(
    ("max_bytes", "expected"),
    [
        (7, []),  # prolog 3, epilog 1, 2 kept for a frame: a record has 1
        (8, [[0]]),
        (9, [[0]]),
        (10, [[0], [1], [2]]),
        (11, [[0], [1], [2]]),
        (12, [[0, 1], [2]]),
        (13, [[0, 1], [2]]),
        (14, [[0, 1], [2]]),
        (15, [[0, 1], [2]]),
        (16, [[0, 1, 2]]),
    ],
)
def test_a_chunk_is_filled_to_the_byte(max_bytes: int, expected: list[list[int]]) -> None:
    made = build(bricks([2, 4, 4]), max_bytes=max_bytes)
    assert [[int(url) for url in urls(run)] for run in made.records] == expected


def test_a_frame_that_is_shorter_than_it_may_be_leaves_room_for_another() -> None:
    encoder = Bricks(prolog=0, mark=0, frame_bytes=100)
    sizes = [FRAME_BYTES] * 3
    made = build(bricks(sizes), max_bytes=3 * FRAME_BYTES + 101, encoder=encoder)
    assert widths(made) == [3 * FRAME_BYTES + 1]


def test_bytes_that_are_reserved_are_left_free() -> None:
    made = build(bricks([2, 4, 4]), max_bytes=21, reserved_bytes=5)
    assert widths(made) == [15]
    assert widths(build(bricks([2, 4, 4]), max_bytes=20, reserved_bytes=5)) == [11, 9]


def test_a_chunk_is_prolog_frames_and_epilog() -> None:
    assert build(bricks([2, 4]), max_bytes=UNLIMITED) == [b"pppf" + b"r" * 6 + b"e"]


def test_a_large_chunk_comes_in_frames() -> None:
    made = build(bricks([FRAME_BYTES, 1, FRAME_BYTES - 1, 1]), max_bytes=UNLIMITED)
    assert [[urls(frame.records) for frame in run] for run in made.frames] == [
        [["0"], ["1", "2"], ["3"], []]
    ]


def test_no_records_are_no_chunk() -> None:
    assert build([], max_bytes=UNLIMITED) == []


def test_records_that_are_all_refused_are_no_chunk() -> None:
    assert build(bricks([0, 0]), max_bytes=UNLIMITED) == []


def test_records_are_taken_one_at_a_time() -> None:
    def endless() -> Iterator[Record]:
        while True:
            yield from bricks([FRAME_BYTES])

    frames = chunk(
        endless(),
        target_feed_of=target_feed_of,
        encoder_of=lambda target_feed, number: (None, Bricks()),
        max_bytes=UNLIMITED,
    )
    assert isinstance(next(frames), Frame)


# Feeds


def test_another_feed_begins_another_chunk() -> None:
    records = bricks([1, 1, 1], feeds=[FULL, OTHER, OTHER])
    assert [urls(run) for run in build(records, max_bytes=UNLIMITED).records] == [["0"], ["1", "2"]]


def test_a_feed_that_comes_again_begins_another_chunk() -> None:
    records = bricks([1, 1, 1], feeds=[FULL, OTHER])
    found = build(records, max_bytes=UNLIMITED)
    assert [run[0].feed for run in found.frames] == [FULL, OTHER, FULL]


def test_the_same_feed_of_another_origin_begins_another_chunk() -> None:
    one, other, same = bricks([1, 1, 1], feeds=[FULL])
    provenance = msgspec.structs.replace(one.provenance, source="other.xml")
    moved = [msgspec.structs.replace(record, provenance=provenance) for record in (other, same)]
    found = build([one, *moved], max_bytes=UNLIMITED)
    assert [run[0].target_feed for run in found.frames] == [
        TargetFeed(feed=FULL, origin=""),
        TargetFeed(feed=FULL, origin="other.xml"),
    ]


def test_the_encoder_is_asked_for_by_feed_and_number() -> None:
    calls: list[tuple[TargetFeed | None, int]] = []

    def encoder_of(target_feed: TargetFeed | None, number: int) -> tuple[Feed | None, Encoder]:
        calls.append((target_feed, number))
        return OTHER if number else FULL, Bricks()

    records = bricks([4, 4, 4, 4], feeds=[FULL])
    made = Build(chunk(records, target_feed_of=target_feed_of, encoder_of=encoder_of, max_bytes=14))
    target_feed = TargetFeed(feed=FULL, origin="")
    assert calls == [(target_feed, 0), (target_feed, 1)]
    assert [run[0].feed for run in made.frames] == [FULL, OTHER]


def test_a_feed_without_a_record_that_can_be_written_takes_no_number() -> None:
    records = bricks([1, 0, 1], feeds=[FULL, OTHER, FULL])
    assert build(records, max_bytes=UNLIMITED).numbers == [0, 1]


# What is refused


def refusal(records: list[Record], *, max_bytes: int) -> Reject:
    (refused,) = build(records, max_bytes=max_bytes).refused
    return refused.reject


def test_a_record_that_fits_in_no_chunk_is_refused() -> None:
    reject = refusal(bricks([100]), max_bytes=105)
    assert (reject.code, reject.reason) == (
        "record-too-large",
        "a record of 100 bytes as written; expected one that fits in a chunk of 105 bytes; "
        "raise --max-chunk-bytes",
    )


def test_a_record_that_its_format_cannot_hold_is_refused() -> None:
    reject = refusal(bricks([0]), max_bytes=UNLIMITED)
    assert (reject.code, reject.reason) == (
        "bad-brick",
        "a brick of nothing; expected a byte or more",
    )


def test_a_reject_says_which_record_it_was() -> None:
    provenance = Provenance(source="feed.xml", span=1, line=2, offset=3)
    record = Record(url="http://e.com/", action=Action.DELETE, provenance=provenance)
    assert refusal([record], max_bytes=UNLIMITED) == Reject(
        code="bad-brick",
        reason="a brick of nothing; expected a byte or more",
        stage="write",
        source="feed.xml",
        span=1,
        line=2,
        offset=3,
        url="http://e.com/",
        action="DELETE",
    )


def test_what_is_refused_takes_no_other_record_with_it() -> None:
    made = build(bricks([4, 0, 100, 4]), max_bytes=20)
    assert (urls([one for run in made.records for one in run]), len(made.refused)) == (
        ["0", "3"],
        2,
    )


# Real formats


def documents(lengths: list[int]) -> list[Record]:
    """Records with content of these lengths, that every format can hold."""
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


LENGTHS = st.lists(st.sampled_from((0, 1, 63, 64, 500, 8200)), min_size=1, max_size=8)
EVERY_FORMAT = pytest.mark.parametrize("name", ["gsa-feed", "thunderstone", "avro", "native"])


def contents(name: str, markup: bytes) -> list[bytes]:
    found = by_name(name).read(io.BytesIO(markup))
    return [decode(one.content) for one in found if isinstance(one, Record) and one.content]


def least(name: str) -> int:
    """The bytes of a chunk with one long document."""
    return len(build(documents([8200]), max_bytes=UNLIMITED, encoder=encoder(name))[0])


def encoder(name: str) -> Encoder:
    return by_name(name).make_encoder(WriteOptions(feed=FULL))


@EVERY_FORMAT
@settings(max_examples=25)
@given(LENGTHS, st.integers(0, 20_000))
def test_no_chunk_of_any_format_is_larger_than_it_may_be(
    name: str, lengths: list[int], room: int
) -> None:
    bound = least(name) + room
    made = build(documents(lengths), max_bytes=bound, encoder=encoder(name))
    assert [width for width in widths(made) if width > bound] == []


@EVERY_FORMAT
@settings(max_examples=25)
@given(LENGTHS, st.integers(64, 20_000))
def test_chunks_of_any_format_are_read_as_their_records(
    name: str, lengths: list[int], room: int
) -> None:
    records = documents(lengths)
    made = build(records, max_bytes=least(name) + room, encoder=encoder(name))
    read = [data for markup in made for data in contents(name, markup)]
    assert read == [b"w" * length for length in lengths]


@pytest.mark.parametrize("name", ["gsa-feed", "thunderstone", "native"])
def test_a_chunk_of_all_records_is_the_document_of_all_records(name: str) -> None:
    records = documents([0, 300_000, 5, 200_000])
    stream = io.BytesIO()
    write_all(encoder(name), records, stream)
    assert build(records, max_bytes=UNLIMITED, encoder=encoder(name)) == [stream.getvalue()]


@settings(max_examples=40)
@given(held(), st.integers(300, 2000))
def test_any_feed_in_chunks_is_read_record_by_record(case: Held, max_bytes: int) -> None:
    encoder = by_name("gsa-feed").make_encoder(WriteOptions(feed=case.feed))
    made = build(case.records, max_bytes=max_bytes, encoder=encoder)
    found = [one for markup in made for one in by_name("gsa-feed").read(io.BytesIO(markup))]
    read = [one.url if isinstance(one, Record) else one for one in found]
    refused = [id(one.record) for one in made.refused]
    assert read == [record.url for record in case.records if id(record) not in refused]


def test_a_chunk_takes_no_more_records_than_it_may() -> None:
    made = build(bricks([1, 1, 1, 1, 1]), max_bytes=UNLIMITED, max_records=2)

    assert [urls(records) for records in made.records] == [["0", "1"], ["2", "3"], ["4"]]


def test_a_refused_record_counts_for_no_chunk() -> None:
    made = build(bricks([1, 99, 1]), max_bytes=50, max_records=1)

    assert [urls(records) for records in made.records] == [["0"], ["2"]]


class Faulty(Bricks):
    """A format that fails at records of one size; with a `least`, from that chunk on."""

    def __init__(self, *, size: int) -> None:
        super().__init__()
        self._size = size

    def encode(self, record: Record) -> bytes:
        if record.size == self._size:
            raise KeyError(record.size)
        return super().encode(record)


def test_a_record_at_which_the_encoder_fails_is_refused() -> None:
    records = [brick(size) for size in (2, 7, 3)]
    found = list(chunk_with(Faulty(size=7), records))
    refused = [one for one in found if isinstance(one, UnwrittenRecord)]
    assert [(one.reject.code, one.reject.stage) for one in refused] == [("defect", "write")]
    written = [record for one in found if isinstance(one, Frame) for record in one.records]
    assert written == [records[0], records[2]]


def test_a_record_at_which_the_encoder_of_the_next_chunk_fails_is_refused() -> None:
    records = [brick(size) for size in (8, 7, 3)]
    encoders = iter([Bricks(), Faulty(size=7)])
    found = list(
        chunk(
            records,
            target_feed_of=lambda record: None,
            encoder_of=lambda target_feed, number: (None, next(encoders)),
            max_bytes=16,
        )
    )
    refused = [one.record for one in found if isinstance(one, UnwrittenRecord)]
    written = [record for one in found if isinstance(one, Frame) for record in one.records]
    assert (refused, written) == ([records[1]], [records[0], records[2]])


def brick(size: int) -> Record:
    return Record(url=f"http://a.example.com/{size}", action=Action.ADD, size=size)


def chunk_with(encoder: Encoder, records: list[Record]) -> Iterator[Frame | UnwrittenRecord]:
    return chunk(
        records,
        target_feed_of=lambda record: None,
        encoder_of=lambda target_feed, number: (None, encoder),
        max_bytes=100,
    )
