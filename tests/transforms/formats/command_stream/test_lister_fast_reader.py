"""The fast reader of listings, compared with reading command by command."""

import io
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.errors import FormatError, UnavailableError
from schemas.record import Action, Arrival, Crawl, Provenance, Record
from schemas.span import Span
from support.command_streams import HEADER, MODES
from support.slow_streams import slow
from transforms.formats.base import Mode, ReadOptions
from transforms.formats.command_stream import lister
from transforms.formats.command_stream.document import LISTER
from transforms.formats.command_stream.lister_fast_reader import FastListingParser
from transforms.formats.command_stream.reader import DocumentReader, StreamKind

TOKENS = st.sampled_from(
    [
        *("id=a", "id=b", "id=c=d", "id=", "id=\u00e9", "id=id=x", "id-list", "", "", "x", "lock"),
        *("last-modified=0", "last-modified=1312387643", "last-modified=-5", "last-modified=+5"),
        *("last-modified=99999999999", "last-modified=253402300800", "last-modified=007"),
        *("crawl-once", "crawl-immediately", "delete", "lock=false", "what=ever", "id=a\r"),
        *("result-link=http://e.com/", "id", "id=\udcff", "\udcff", "id=\udcc0\udc80", "ID=a"),
        *("last-modified=20110803 16:07:23", "meta-name=a", "meta-value=b", "id-list=x"),
    ]
)
LISTS = st.lists(st.one_of(TOKENS, st.sampled_from(["id=a", "id=b", "lock"])), max_size=30)
parser = FastListingParser(b"\n", str.upper, Span(source="ids", ordinal=2))


def read(stream: Any, mode: Mode) -> list[Any]:
    """The results, with the error that ends them."""
    results: list[Any] = []
    try:
        results += lister.read(stream, options=ReadOptions(mode=mode))
    except (FormatError, UnavailableError) as exc:
        results.append(str(exc))
    return results


def read_by_commands(data: bytes, mode: Mode) -> list[Any]:
    """The same without the fast reader."""
    results: list[Any] = []
    kind = StreamKind("lister", LISTER, is_listed=True)
    stream, options = io.BytesIO(data), ReadOptions(mode=mode)
    reader = DocumentReader(stream, kind, span=Span(), options=options)
    try:
        results += reader.open()
        for command in reader.commands:
            results += reader.take(command)
        results += reader.finish(reader.tokens.offset)
    except (FormatError, UnavailableError) as exc:
        results.append(str(exc))
    return results


@MODES
@given(tokens=LISTS)
def test_a_listing_is_read_as_command_by_command(mode: Mode, tokens: list[str]) -> None:
    data = HEADER + "\n".join(tokens).encode(errors="surrogateescape")
    assert read(io.BytesIO(data), mode) == read_by_commands(data, mode)


@MODES
@given(tokens=LISTS, read_bytes=st.integers(1, 50))
def test_a_listing_is_read_alike_in_blocks_of_any_size(
    mode: Mode, tokens: list[str], read_bytes: int
) -> None:
    data = HEADER + "\n".join(tokens).encode(errors="surrogateescape") + b"\n"
    assert read(slow(data, read_bytes), mode) == read(io.BytesIO(data), mode)


@MODES
@pytest.mark.parametrize("delimiter", ["\0", "^", "\\", "~", "&", "|", "$", ".", "*", "#", "("])
def test_any_byte_may_delimit(mode: Mode, delimiter: str) -> None:
    tokens = ["", "id=a]", "last-modified=5", "lock", "delete", "id=\\b", "id=c", "id=d", ""]
    data = f"GSA Adaptor Data Version 1 [{delimiter}]{delimiter.join(tokens)}".encode()
    urls = [one.url for one in read(io.BytesIO(data.replace(b"\\b", b"b")), mode)]
    assert urls == ["a]", "b", "c", "d"]


def test_the_usual_shape_is_read_at_once() -> None:
    stretch = (
        b"id=a\nlast-modified=86400\nlock\nid=b\ndelete\nid=c\ncrawl-once\ncrawl-immediately\n"
    )
    results = parser.documents(stretch, 100)
    assert list(results or ()) == [
        Record(
            url="A",
            action=Action.ADD,
            arrival=Arrival.CRAWLED,
            modified=datetime(1970, 1, 2, tzinfo=UTC),
            crawl=Crawl(lock=True),
            provenance=Provenance(source="ids", span=2, offset=100),
        ),
        Record(
            url="B",
            action=Action.DELETE,
            provenance=Provenance(source="ids", span=2, offset=130),
        ),
        Record(
            url="C",
            action=Action.ADD,
            arrival=Arrival.CRAWLED,
            crawl=Crawl(crawl_once=True, crawl_immediately=True),
            provenance=Provenance(source="ids", span=2, offset=142),
        ),
    ]


@pytest.mark.parametrize(
    "stretch",
    [
        b"id=a\nwhat\n",
        b"id=a\n\n",
        b"id=a\nlast-modified=-1\n",
        b"id=a\nlast-modified=\n",
        b"id=a\nlast-modified=999999999999\n",
        b"id=a\nlock\nlast-modified=1\n",
        b"id=a\nlock=false\n",
        b"id=a\nlock\nlock\nlock\nlock\nlock\n",
        b"id=a\nid-list\nb\n",
        b"id=a\nid\n",
        b"id=\xc0\x8a\n",
        b"id=\xff\n",
        b"id=a\nxid=b\n",
    ],
)
def test_any_other_shape_is_left_to_the_slow_path(stretch: bytes) -> None:
    assert parser.documents(stretch, 0) is None


def test_ids_are_read_at_once() -> None:
    results = parser.ids("a\n\u00e9\nid=b\n".encode(), 50)
    assert [(one.url, one.provenance.offset) for one in results or ()] == [
        ("A", 50),
        ("\u00c9", 52),
        ("ID=B", 55),
    ]


@pytest.mark.parametrize("stretch", [b"\xc0\x80\n", b"a\n\xff\n"])
def test_ids_with_liberties_are_left_to_the_slow_path(stretch: bytes) -> None:
    assert parser.ids(stretch, 0) is None


def test_what_follows_a_list_concerns_its_last_id() -> None:
    data = HEADER + b"id-list\n" + b"".join(b"%d\n" % n for n in range(50)) + b"\nlock\nid=z\n"
    records = read(slow(data, 16), Mode.STRICT)
    assert [one.url for one in records if one.crawl] == ["49"]


def test_what_follows_a_stretch_concerns_its_last_id() -> None:
    data = HEADER + b"".join(b"id=%d\nlock\n" % n for n in range(50)) + b"delete\n"
    records = read(slow(data, 16), Mode.STRICT)
    assert [one.url for one in records if one.action is Action.DELETE] == ["49"]


@MODES
def test_a_long_token_is_results_in_the_usual_shape_too(mode: Mode) -> None:
    options = ReadOptions(mode=mode, max_token_bytes=30)
    data = HEADER + b"id=a\nid=b\nid=" + b"c" * 28 + b"\nid=d\n"
    results: list[Any] = []
    with pytest.raises(FormatError) as caught:
        results += lister.read(io.BytesIO(data), options=options)
    assert str(caught.value) == (
        " (byte 41): a token of more than 30 bytes; expected the delimiter b'\\n' before;"
        " raise --max-token-bytes"
    )
