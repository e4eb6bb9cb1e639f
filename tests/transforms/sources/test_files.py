"""Files as sources: compression, spans, formats, errors and signatures."""

import bz2
import gzip
import io
import lzma
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
import zstandard
from msgspec.structs import replace

from feedferry.schemas.errors import ConfigError, SourceError
from feedferry.schemas.feed import Feed
from feedferry.schemas.record import Record
from feedferry.schemas.span import FileSignature, Span
from feedferry.transforms.formats import ReadResult
from feedferry.transforms.sources import SpanRequest, read_span
from feedferry.transforms.sources.files import (
    ByteRangeStream,
    SpanStream,
    cut_file,
    is_compressed,
    open_span,
    sign_path,
    sniff_format,
)
from support.archives import document, documents, gsa_feed, jsonl, put, thunderstone
from support.format_names import READ

TEXT = bytes(range(256)) * 16
Compress = Callable[[bytes], bytes]

PACKED = [
    (".gz", gzip.compress),
    (".bz2", bz2.compress),
    (".xz", lzma.compress),
    (".zst", zstandard.ZstdCompressor().compress),
]


def content_of(span: Span) -> bytes:
    with open_span(span) as stream:
        return stream.read()


TORN = "Compressed file ended before the end-of-stream marker was reached"


@pytest.mark.parametrize(("extension", "compress"), [("", bytes), (".GZ", gzip.compress), *PACKED])
def test_files_are_decompressed_by_their_extension_also_if_several_follow_each_other(
    tmp_path: Path, extension: str, compress: Compress
) -> None:
    source = put(tmp_path / f"a.xml{extension}", compress(TEXT) + compress(b"one two three"))
    assert content_of(Span(source=source)) == TEXT + b"one two three"
    assert content_of(Span(source=source, offset=len(TEXT) + 4, length=3)) == b"two"


@pytest.mark.parametrize(
    ("name", "text", "cause"),
    [
        ("a.gz", gzip.compress(TEXT, mtime=0)[:-10], TORN),
        ("a.bz2", bz2.compress(TEXT)[:-10], TORN),
        ("a.xz", lzma.compress(TEXT)[:-10], TORN),
        ("a.zst", zstandard.ZstdCompressor().compress(TEXT)[:-10], None),
        ("a.gz", b"no compressed file", "Not a gzipped file (b'no')"),
        ("a.bz2", b"no compressed file", "Invalid data stream"),
        ("a.xz", b"no compressed file", "Input format not supported by decoder"),
        (
            "a.zst",
            b"no compressed file",
            "Unable to decompress Zstandard data: Unknown frame descriptor",
        ),
        ("a.xml", None, "No such file or directory"),
        ("a.xml.gz", None, "No such file or directory"),
        ("", None, "Is a directory"),
    ],
)
def test_a_torn_or_missing_file_is_an_error(
    tmp_path: Path, name: str, text: bytes | None, cause: str | None
) -> None:
    path = tmp_path / name
    if text is not None:
        put(path, text)
    with pytest.raises(SourceError) as caught:
        content_of(Span(source=str(path)))
    assert str(caught.value).startswith(f"{path}: {cause or ''}")
    assert str(caught.value).endswith("; expected a file that can be read")


def test_a_uri_of_an_unknown_scheme_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"^unknown scheme 'nosuch'; expected one of s3, "):
        content_of(Span(source="nosuch://host/a.xml"))


def test_a_span_is_a_byte_range_of_its_file(tmp_path: Path) -> None:
    source = put(tmp_path / "a.xml", b"one two three")
    assert content_of(Span(source=source, offset=4, length=3)) == b"two"
    with open_span(Span(source=source, length=5)) as stream:
        assert (stream.read(4), stream.read(4), stream.read(4)) == (b"one ", b"t", b"")
    with open_span(Span(source=source, offset=4)) as stream:
        assert (stream.read(), stream.bytes_read) == (b"two three", 9)


@pytest.mark.parametrize(
    ("name", "text", "format_"),
    [
        ("feed.txt", gsa_feed(document(1)), "gsa-feed"),
        ("items.txt", thunderstone("http://www.example.com/"), "thunderstone"),
        ("records.txt", b"Obj\x01\x02", "avro"),
        ("lines.txt", jsonl("http://www.example.com/"), "jsonl"),
        ("a.xz", lzma.compress(gsa_feed(document(1))), "gsa-feed"),
        ("a.xml", b"<!--" + b" " * 60_000 + b"--><gsafeed>", "gsa-feed"),
    ],
)
def test_a_format_is_recognised(tmp_path: Path, name: str, text: bytes, format_: str) -> None:
    assert sniff_format(Span(source=put(tmp_path / name, text))) == format_


def test_a_file_of_no_known_format_is_refused(tmp_path: Path) -> None:
    source = put(tmp_path / "a.xml", b"%PDF-1.4")
    with pytest.raises(ConfigError) as caught:
        sniff_format(Span(source=source))
    assert str(caught.value) == (
        f"INPUT: {source!r} looks like a PDF document; expected one of the formats {READ}; "
        "convert --from files takes any file as a document"
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *((name, True) for name in ("a.gz", "a.xml.bz2", "s3://bucket/a.XZ", "a.zst")),
        *((name, False) for name in ("a.xml", "gz", "a.gz.xml")),
    ],
)
def test_compressed_files_have_a_known_extension(name: str, expected: bool) -> None:
    assert is_compressed(name) is expected


TWO = jsonl("http://a.example.com/", "http://b.example.com/")


@pytest.mark.parametrize(
    ("name", "text", "format_"),
    [
        ("a", b"123456789", "jsonl"),
        ("a.gz", gzip.compress(TWO, mtime=0), "jsonl"),
        ("people.yaml", b"connection: sqlite:///people.db", "database"),
    ],
)
def test_small_and_compressed_files_and_other_sources_stay_whole(
    tmp_path: Path, name: str, text: bytes, format_: str
) -> None:
    whole = Span(source=put(tmp_path / name, text), format=format_, source_ordinal=3)
    assert list(cut_file(whole, span_bytes=9)) == [whole]


def test_a_long_file_is_cut_between_its_records(tmp_path: Path) -> None:
    path = put(tmp_path / "a", TWO)
    os.utime(path, ns=(0, 5_500_000_000))
    whole = Span(
        source="spool#1",
        path=path,
        format="jsonl",
        source_ordinal=3,
        feed=Feed(datasource="crm", feedtype="full"),
    )
    signature = FileSignature(size=100, modified_ns=5_500_000_000)
    assert list(cut_file(whole, span_bytes=48)) == [
        replace(whole, length=50, signature=signature),
        replace(whole, ordinal=1, offset=50, line=2, signature=signature),
    ]


# Streams that are handed to readers

LINES = b"".join(b"line %d\n" % number for number in range(100_000))


class CountingStream(io.BytesIO):
    """Counts how often it is read."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.reads = 0

    def read(self, size: int | None = -1) -> bytes:
        self.reads += 1
        return super().read(size)


def test_lines_of_a_span_are_read_in_blocks() -> None:
    source = CountingStream(LINES)
    with SpanStream(ByteRangeStream(source, "a.jsonl", None)) as stream:
        lines = sum(1 for _ in iter(stream.readline, b""))
    assert (lines, source.reads < 20) == (100_000, True)


@pytest.mark.parametrize(("extension", "compress"), [("", bytes), *PACKED])
def test_the_stream_of_a_span_can_be_wrapped(
    tmp_path: Path, extension: str, compress: Compress
) -> None:
    source = put(tmp_path / f"a.txt{extension}", compress(LINES))
    with open_span(Span(source=source)) as stream:
        assert io.BufferedReader(stream, 1 << 10).readline() == b"line 0\n"
    with open_span(Span(source=source)) as stream:
        assert list(io.TextIOWrapper(stream, "utf-8"))[-1] == "line 99999\n"


def test_a_wrapped_span_ends_where_the_span_ends(tmp_path: Path) -> None:
    source = put(tmp_path / "a.txt", b"one\ntwo\nthree\n")
    with open_span(Span(source=source, offset=4, length=4)) as stream:
        assert list(io.TextIOWrapper(stream, "utf-8")) == ["two\n"]


def test_damage_is_an_error_for_a_reader_of_lines(tmp_path: Path) -> None:
    source = put(tmp_path / "a.txt.gz", gzip.compress(LINES)[:-100])
    with (
        open_span(Span(source=source)) as stream,
        pytest.raises(SourceError, match=r"a\.txt\.gz: "),
    ):
        list(iter(stream.readline, b""))


# A file that changes while it is converted stops the run, whatever the change is.

FEED = gsa_feed(*documents(1, 2000), feedtype="full")
SECOND_NS = 1_700_000_000_000_000_000
MOMENT_NS = SECOND_NS + 500_000_000
CURE = (
    "; expected it to stay as it is; start again when nothing writes to it any more, and all of it"
    " is converted"
)


@pytest.fixture
def feed(tmp_path: Path) -> Path:
    path = Path(put(tmp_path / "feed.xml", FEED))
    os.utime(path, ns=(MOMENT_NS, MOMENT_NS))
    return path


def whole(path: Path) -> Span:
    """Return the span of a file as a run lists it."""
    return Span(
        source="feed.xml", path=str(path), format="gsa-feed", signature=sign_path(str(path))
    )


def parts(path: Path) -> list[Span]:
    """Return the spans that the file is cut into."""
    return list(cut_file(whole(path), span_bytes=32 << 10))


def shrink(path: Path) -> None:
    """Let a file end after half of its records, at the end of one of them."""
    text = path.read_bytes()
    os.truncate(path, text.index(b"\n", len(text) // 2) + 1)


def grow(path: Path) -> None:
    with path.open("ab") as stream:
        stream.write(b"<!-- more -->\n")


def touch(path: Path) -> None:
    os.utime(path, ns=(MOMENT_NS + 1, MOMENT_NS + 1))


def swap(path: Path) -> None:
    """Put another file in its place, which is as long."""
    other = path.with_name("other")
    other.write_bytes(FEED.replace(b"plan", b"plot"))
    os.replace(other, path)


CHANGES = (shrink, grow, touch, swap)
by_change = pytest.mark.parametrize("change", CHANGES, ids=[change.__name__ for change in CHANGES])


def results_of(span: Span) -> Iterator[ReadResult]:
    return read_span(SpanRequest(span=span))


def refusal(results: Iterable[object]) -> str:
    with pytest.raises(SourceError) as caught:
        list(results)
    return str(caught.value)


def test_a_file_that_does_not_change_is_read(feed: Path) -> None:
    read = [result for part in parts(feed) for result in results_of(part)]
    assert sum(isinstance(result, Record) for result in read) == 2000


@by_change
def test_a_file_that_changed_since_the_run_began_or_it_was_cut_is_refused(
    feed: Path, change: Callable[[Path], None]
) -> None:
    span, (first, *others) = whole(feed), parts(feed)
    list(results_of(first))
    change(feed)
    assert {refusal(results_of(part)).partition(": it had")[0] for part in (span, *others)} == {
        "feed.xml: changed while it was converted"
    }


@pytest.mark.parametrize("change", [shrink, grow, touch])
@pytest.mark.parametrize("name", ["feed.xml", "feed.xml.gz"])
def test_a_file_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, name: str, change: Callable[[Path], None]
) -> None:
    path = Path(put(tmp_path / name, gzip.compress(FEED) if name.endswith(".gz") else FEED))
    results = results_of(whole(path))
    next(results)
    if name.endswith(".gz") and change is shrink:
        os.truncate(path, path.stat().st_size // 2)
    else:
        change(path)
    assert refusal(results).startswith("feed.xml: changed while it was converted")


def test_a_file_that_is_replaced_while_it_is_read_is_read_as_it_was(feed: Path) -> None:
    results = results_of(whole(feed))
    next(results)
    swap(feed)
    assert len(list(results)) == 1999


def test_a_file_that_changes_while_it_is_cut_is_refused(feed: Path) -> None:
    spans = cut_file(whole(feed), span_bytes=32 << 10)
    next(spans)
    shrink(feed)
    assert "changed while it was converted" in refusal(spans)


def test_the_message_has_both_signatures(feed: Path) -> None:
    span = whole(feed)
    os.truncate(feed, 100)
    os.utime(feed, ns=(0, MOMENT_NS + 2_000_000_000))
    assert refusal(results_of(span)) == (
        "feed.xml: changed while it was converted: it had"
        f" {len(FEED):,} bytes of 2023-11-14 22:13:20.500000+00:00, and has"
        f" 100 bytes of 2023-11-14 22:13:22.500000+00:00 now{CURE}"
    )


def test_a_file_without_a_signature_that_ends_inside_a_span_is_refused(feed: Path) -> None:
    *_, last = parts(feed)
    os.truncate(feed, last.offset + 10)
    unsigned = replace(last, signature=None, length=len(FEED) - last.offset)

    left = len(FEED) - last.offset - 10
    assert refusal(results_of(unsigned)) == (
        f"feed.xml: ends {left:,} bytes before the end of a span that was cut from it; expected it"
        " to stay as it is; start again when nothing writes to it any more"
    )


def test_a_changed_member_of_several_files_is_refused(tmp_path: Path) -> None:
    first, second = (Path(put(tmp_path / name, FEED)) for name in ("a.xml", "b.xml"))
    span = Span(members=(whole(first), whole(second)))
    grow(second)
    assert "changed while it was converted" in refusal(results_of(span))


def test_a_time_that_is_rounded_to_seconds_is_the_same_time(feed: Path) -> None:
    """A server may keep whole seconds, while the client that wrote the file has more."""
    span = whole(feed)
    os.utime(feed, ns=(0, SECOND_NS))
    assert len(list(results_of(span))) == 2000


def test_a_pipe_has_no_signature(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert sign_path(str(tmp_path / "pipe")) is None


def test_a_file_that_was_copied_for_the_run_may_have_any_time(feed: Path) -> None:
    signed = FileSignature(size=len(FEED), sha256="of the copy")
    with open_span(replace(whole(feed), signature=signed)) as stream:
        assert len(stream.read()) == len(FEED)


def test_a_file_that_was_removed_since_it_was_cut_is_refused(feed: Path) -> None:
    *_, last = parts(feed)
    feed.unlink()
    assert refusal(results_of(last)) == (
        f"feed.xml: removed while it was converted: it had {len(FEED):,} bytes of"
        " 2023-11-14 22:13:20.500000+00:00; expected it to stay as it is; start again when it is"
        " there, and all of it is converted"
    )
