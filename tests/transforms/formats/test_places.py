"""Pieces of feeds: what stands around them, and that together they hold what the whole holds."""

import io
import tracemalloc
from itertools import pairwise
from pathlib import Path
from typing import IO, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from msgspec.structs import replace

from feedferry.schemas.errors import FormatError, RecordError
from feedferry.schemas.feed import Feed
from feedferry.schemas.membership import Membership
from feedferry.schemas.record import Record
from feedferry.testing.strategies import held_memberships, records
from feedferry.transforms.formats import FORMATS, GSA_FEED, Encoder, Places, WriteOptions, by_name
from feedferry.transforms.formats.places import LinePlaces, PartPlace
from support.damage import MadeFeed, damaged, feeds, torn
from support.gsa_records import held
from support.streams import slow

GOLDEN = Path(__file__).parents[2] / "golden"
PROLOG = b'<?xml version="1.0"?>\n<!DOCTYPE gsafeed PUBLIC "-//Google//DTD GSA Feeds//EN" "">\n'
HEADER = b"<header><datasource>docs</datasource><feedtype>full</feedtype></header>"
HEAD = PROLOG + b"<gsafeed>\n" + HEADER + b"\n"
A, B, C = b'<record url="a"/>', b'<record url="b"><metadata/></record>', b'<acl url="c"/>'
FEED = HEAD + b"<group>\n" + A + b"\n" + B + b"\n" + C + b"\n</group>\n</gsafeed>\n"
GROUPED = (
    HEAD
    + b"<group>\n"
    + A
    + b'\n</group>\n<group action="delete" pagerank="9">\n'
    + B
    + b"\n"
    + C
    + b"\n</group>\n</gsafeed>\n"
)
ITEM = b"<Item><Type>I</Type><Url>http://a/?x=1&amp;y</Url><Body>a</Body></Item>"
UPDATE = b"<Item><Type>UI</Type></Item>"
THUNDERSTONE = b'<ThunderstoneReplication xmlns:u="urn:u">%b</ThunderstoneReplication>'
MEMBERSHIP = (
    b'<membership><principal scope="GROUP"> R&amp;D </principal><members>'
    b'<principal scope="USER">joe</principal></members></membership>'
)


def look(markup: bytes, format: str = "gsa-feed") -> Places:
    return by_name(format).find_places(io.BytesIO(markup), source="f.xml")


def document(markup: bytes, piece: PartPlace) -> bytes:
    return piece.head + markup[piece.offset :][: piece.length] + piece.tail


def part(markup: bytes, first: int, count: int, format: str = "gsa-feed") -> bytes:
    return document(markup, look(markup, format).part(first, count))


def read(markup: bytes, format: str) -> list[Record | Membership]:
    """The records of a document, without their places."""
    results = by_name(format).read(io.BytesIO(markup))
    return [
        replace(item, provenance=replace(item.provenance, line=0, offset=0))
        for item in results
        if isinstance(item, Record | Membership)
    ]


def read_in_parts(markup: bytes, format: str, borders: set[int]) -> list[Record | Membership]:
    """The records of all parts of a document that is cut before these records."""
    offsets = look(markup, format)
    count = len(offsets)
    bounds = sorted({0, count, *(border % count for border in borders)} if count else {0})
    pieces = [offsets.part(first, last - first) for first, last in pairwise(bounds)]
    return [item for piece in pieces for item in read(document(markup, piece), format)]


def has_parts(markup: bytes, format: str = "gsa-feed") -> bool:
    try:
        offsets = look(markup, format)
        return not len(offsets) or offsets.part(0, 1) is not None
    except FormatError:
        return False


def format_of(path: Path) -> str:
    return path.parent.name.replace("_", "-")


INPUTS = [
    path
    for format in [format_.name for format_ in FORMATS.ours if format_.is_xml]
    for path in sorted(GOLDEN.glob(f"{format.replace('-', '_')}/*.xml"))
    if has_parts(path.read_bytes(), format_of(path))
]


def refusal(markup: bytes, format: str = "gsa-feed") -> str:
    with pytest.raises(FormatError) as caught:
        look(markup, format).part(0, 1)
    return str(caught.value)


def written(encoder: Encoder, results: list[Record] | list[Membership]) -> bytes:
    """A document of what the format can hold of these."""
    kept = [text for item in results if (text := encoded(encoder, item))]
    return encoder.prolog() + encoder.frame(kept) + encoder.epilog()


def encoded(encoder: Encoder, item: Record | Membership) -> bytes:
    try:
        return encoder.encode(item)
    except RecordError:
        return b""


def borders() -> SearchStrategy[set[int]]:
    return st.sets(st.integers(1, 12), max_size=6)


# What the parts hold


def written_feeds() -> SearchStrategy[tuple[str, bytes]]:
    """A format, and a document of it."""

    def write(
        format: str, results: list[Record] | list[Membership], feed: Feed
    ) -> tuple[str, bytes]:
        return format, written(by_name(format).make_encoder(WriteOptions(feed=feed)), results)

    feed = Feed(datasource="d", feedtype="incremental")
    return (
        held(most=6).map(lambda case: write("gsa-feed", case.records, case.feed))
        | st.lists(held_memberships(), max_size=5).map(
            lambda result: write("gsa-groups", result, feed)
        )
        | st.lists(records(), max_size=5).map(lambda item: write("thunderstone", item, feed))
        | feeds().map(lambda case: ("gsa-feed", case.markup))
    )


@pytest.mark.slow
@settings(max_examples=250)
@given(written_feeds(), borders())
def test_the_parts_of_a_feed_hold_its_records(case: tuple[str, bytes], cuts: set[int]) -> None:
    format, markup = case
    assert read_in_parts(markup, format, cuts) == read(markup, format)


@pytest.mark.slow
@settings(max_examples=150)
@given((damaged() | torn()).map(lambda case: case.markup).filter(has_parts), borders())
def test_the_parts_of_a_damaged_feed_hold_what_can_be_read_of_it(
    markup: bytes, cuts: set[int]
) -> None:
    assert read_in_parts(markup, "gsa-feed", cuts) == read(markup, "gsa-feed")


@pytest.mark.slow
@settings(max_examples=60)
@given(feeds())
def test_a_part_of_a_feed_that_is_well_formed_reads_without_rejects(feed: MadeFeed) -> None:
    offsets = look(feed.markup)
    pieces = [document(feed.markup, offsets.part(number, 1)) for number in range(len(offsets))]
    read = by_name("gsa-feed").read
    assert [len(list(read(io.BytesIO(piece)))) for piece in pieces] == [1] * len(offsets)


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_records_of_a_golden_input_are_those_of_its_parts(path: Path) -> None:
    markup, format = path.read_bytes(), format_of(path)
    assert read_in_parts(markup, format, set(range(100))) == read(markup, format)


@pytest.mark.slow
@settings(max_examples=60)
@given(damaged().map(lambda case: case.markup).filter(has_parts), st.sampled_from((1, 3, 64, 1000)))
def test_blocks_make_no_difference(markup: bytes, block_bytes: int) -> None:
    offsets = GSA_FEED.find_places(slow(markup, block_bytes), source="f.xml")
    assert pieces_of(offsets) == pieces_of(look(markup))


def pieces_of(offsets: Places) -> list[PartPlace]:
    return [offsets.part(number, 1) for number in range(len(offsets))]


# The text around a part

DELETING = b'<group action="delete" pagerank="9">'
DOCTYPE = b'<!DOCTYPE gsafeed [ <!ENTITY a "<record>"> ]>\n'
END = b"</group>\n</gsafeed>\n"
STRAY = b'stray <record url="x"><metadata>\n'


@pytest.mark.parametrize(
    ("markup", "first", "count", "expected"),
    [
        (FEED, 1, 1, HEAD + b"<group>\n" + B + b"\n" + END),
        (
            FEED.replace(B, b"<!-- b -->\n" + B),
            0,
            2,
            HEAD + b"<group>\n" + A + b"\n<!-- b -->\n" + B + b"\n" + END,
        ),
        (FEED, 2, 1, HEAD + b"<group>\n" + C + END),
        (GROUPED, 1, 2, HEAD + DELETING + b"\n" + B + b"\n" + C + END),
        (
            GROUPED,
            0,
            2,
            HEAD + b"<group>\n" + A + b"\n</group>\n" + DELETING + b"\n" + B + b"\n" + END,
        ),
        (
            FEED.replace(B, b"<group/>\n" + B),
            0,
            2,
            HEAD + b"<group>\n" + A + b"\n<group/>\n" + B + b"\n" + END,
        ),
        (b"<gsafeed>" + A + B + b"</gsafeed>", 1, 1, b"<gsafeed>\n" + B + b"</gsafeed>\n"),
        (
            DOCTYPE + b"<gsafeed>" + A + B + b"</gsafeed>",
            1,
            1,
            DOCTYPE + b"<gsafeed>\n" + B + b"</gsafeed>\n",
        ),
        (HEAD + b"<group " + A + B + b"</group></gsafeed>", 1, 1, HEAD + b"<group\n" + B + END),
        # Bytes that are no record belong to the record before them, or to the first.
        (FEED.replace(B, STRAY + B), 0, 1, HEAD + b"<group>\n" + A + b"\n" + STRAY + END),
        (GROUPED.replace(A, A + b" stray"), 0, 1, HEAD + b"<group>\n" + A + b" stray" + END),
        (FEED.replace(A, b"stray " + A), 0, 1, HEAD + b"<group>\nstray " + A + b"\n" + END),
    ],
)
def test_a_part_has_the_start_and_end_tags_of_its_records(
    markup: bytes, first: int, count: int, expected: bytes
) -> None:
    assert part(markup, first, count) == expected


def test_a_part_of_another_format_has_its_root() -> None:
    root = b'<ThunderstoneReplication xmlns:u="urn:u">\n'
    assert part(THUNDERSTONE % (ITEM + UPDATE), 1, 1, "thunderstone") == (
        root + UPDATE + b"</ThunderstoneReplication>\n"
    )
    groups = b"<xmlgroups>\n" + MEMBERSHIP * 2 + b"</xmlgroups>\n"
    assert part(groups, 1, 1, "gsa-groups") == b"<xmlgroups>\n" + MEMBERSHIP + b"</xmlgroups>\n"


def test_a_byte_order_mark_is_kept() -> None:
    assert part(b"\xef\xbb\xbf" + FEED, 0, 1).startswith(b"\xef\xbb\xbf<?xml")


# The whole feed


@pytest.mark.parametrize(
    ("markup", "count", "header", "documents", "is_torn"),
    [
        (FEED, 3, ("docs", "full"), 1, False),
        (HEAD + b"</gsafeed>", 0, ("docs", "full"), 1, False),
        (b"<gsafeed><group/></gsafeed>", 0, (None, None), 1, False),
        (FEED + FEED.replace(b"docs", b"other"), 6, ("docs", "full"), 2, False),
        (FEED.removesuffix(b"</gsafeed>\n"), 3, ("docs", "full"), 1, True),
    ],
)
def test_a_feed_is_described(
    markup: bytes, count: int, header: tuple[str | None, str | None], documents: int, is_torn: bool
) -> None:
    offsets = look(markup)
    assert (offsets.datasource, offsets.feedtype) == header
    assert (len(offsets), offsets.documents, offsets.is_torn) == (count, documents, is_torn)


def test_a_record_has_a_line_and_a_name() -> None:
    assert look(FEED).line(1) == 7
    items = look(THUNDERSTONE % (ITEM + ITEM.replace(b"//a", b"//b")), "thunderstone")
    assert (items.first_url, items.last_url) == ("http://a/?x=1&y", "http://b/?x=1&y")
    assert look(THUNDERSTONE % (UPDATE + ITEM), "thunderstone").first_url == ""
    assert look(b"<xmlgroups>" + MEMBERSHIP + b"</xmlgroups>", "gsa-groups").first_url == "R&D"


# The middle of a run of records

LARGE = b'<record url="l"><content>' + b"l" * 1000 + b"</content></record>"


@pytest.mark.parametrize(
    ("markup", "first", "count", "middle"),
    [
        (b"<gsafeed>" + A * 5 + b"</gsafeed>", 0, 5, 2),
        (b"<gsafeed>" + LARGE + A * 9 + b"</gsafeed>", 0, 10, 1),
        (b"<gsafeed>" + A * 9 + LARGE + b"</gsafeed>", 0, 10, 9),
        (FEED, 1, 2, 2),
    ],
)
def test_the_second_half_begins_nearest_to_the_middle(
    markup: bytes, first: int, count: int, middle: int
) -> None:
    assert look(markup).middle(first, count) == middle


# What has no parts


@pytest.mark.parametrize(
    ("markup", "finding"),
    [
        (
            b'<?xml version="1.0" encoding="ISO-8859-1"?>\n' + FEED,
            "another encoding than UTF-8; expected UTF-8",
        ),
        (FEED + FEED, "2 feeds in one file; expected one"),
        (FEED + A, "records outside of a feed; expected a whole feed"),
        (
            b"<gsafeed><group>" + A + b"<group>" + B + b"</group></group></gsafeed>",
            "a group inside a group; expected groups one after another",
        ),
    ],
)
def test_a_stream_without_parts_is_refused(markup: bytes, finding: str) -> None:
    assert len(look(markup)) > 1
    assert refusal(markup) == (
        f"f.xml:1: {finding}, for a feed that is to be sent in parts: convert it first"
    )


@pytest.mark.parametrize(
    ("markup", "format", "message"),
    [
        (FEED, "avro", "f.xml: avro; expected a format whose chunks have parts"),
        (b"<html/>", "gsa-feed", "f.xml:1: root element 'html'; expected <gsafeed>"),
    ],
)
def test_another_format_has_no_parts(markup: bytes, format: str, message: str) -> None:
    assert refusal(markup, format) == message


LINES = (
    b'\n{"url":"http://a/1","title":"caf\xc3\xa9"}\n{"url":"http://a/2"}\n\n \n'
    b'{"group":{"name":"staff"},"members":[]}\nno JSON\n{"url":"http://a/3"}'
)


def test_a_line_is_a_record_with_the_blank_lines_after_it() -> None:
    places = look(LINES, "jsonl")
    parts = [part(LINES, number, 1, "jsonl") for number in range(len(places))]
    assert [text.strip()[:20] for text in parts] == [
        b'{"url":"http://a/1",',
        b'{"url":"http://a/2"}',
        b'{"group":{"name":"st',
        b"no JSON",
        b'{"url":"http://a/3"}',
    ]
    assert b"".join(parts) == LINES == part(LINES, 0, 5, "jsonl")
    assert part(LINES, 1, 3, "jsonl") == b"".join(parts[1:4])
    assert [places.line(number) for number in range(5)] == [2, 3, 6, 7, 8]
    urls = ["http://a/1", "http://a/2", "staff", None, "http://a/3"]
    assert [*map(places.url_of, parts)] == urls
    assert (places.first_url, places.last_url) == ("http://a/1", "http://a/3")


def test_a_record_of_several_lines_begins_where_the_format_says() -> None:
    bulk = b"+ a\nbody\n- b\n+ c\n+ no action\n"
    places = LinePlaces(
        io.BytesIO(bulk),
        begins_record=lambda line: line[:2] in (b"+ ", b"- ") and b"action" not in line,
        find_url=lambda line: line[2:].decode(),
    )
    parts = [document(bulk, places.part(number, 1)) for number in range(len(places))]
    assert parts == [b"+ a\nbody\n", b"- b\n", b"+ c\n+ no action\n"]
    assert (places.first_url, places.last_url) == ("a", "c")


def test_a_stream_without_lines_has_no_records() -> None:
    places = look(b"", "jsonl")
    assert (len(places), places.first_url, places.last_url) == (0, "", "")


@pytest.mark.slow
def test_a_large_feed_takes_little_memory() -> None:
    record = (
        b'<record url="http://www.example.com/"><content>' + b"c" * 1000 + b"</content></record>"
    )
    stream = cast("IO[bytes]", _Repeated(b"<gsafeed><group>", record, 30_000))
    tracemalloc.start()
    count = len(GSA_FEED.find_places(stream))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (count, peak < 8 << 20) == (30_000, True)


class _Repeated(io.RawIOBase):
    """A stream of many like records, none of which is kept."""

    def __init__(self, head: bytes, record: bytes, count: int) -> None:
        self._head = head
        self._record = record
        self._left = count

    def read(self, size: int = -1) -> bytes:
        head, self._head = self._head, b""
        if head:
            return head
        count = min(self._left, max(1, size // len(self._record)))
        self._left -= count
        return self._record * count
