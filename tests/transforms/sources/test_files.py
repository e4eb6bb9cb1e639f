"""Files as sources: what is in them, what is torn, where a span begins and ends."""

import bz2
import gzip
import io
import lzma
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from schemas.errors import ConfigError, SourceError
from schemas.feed import Feed
from schemas.span import FileSignature, Span
from support.archives import document, gsa_feed, native, put, thunderstone
from transforms.sources.files import (
    ByteRangeStream,
    SpanStream,
    cut_file,
    is_compressed,
    open_span,
    sniff_format,
)

TEXT = bytes(range(256)) * 16
Compress = Callable[[bytes], bytes]

COMPRESSED = [
    (".gz", gzip.compress),
    (".bz2", bz2.compress),
    (".xz", lzma.compress),
    (".zst", zstandard.ZstdCompressor().compress),
]
BY_EXTENSION = pytest.mark.parametrize(("extension", "compress"), COMPRESSED)


def content_of(span: Span) -> bytes:
    with open_span(span) as stream:
        return stream.read()


def test_a_plain_file_is_read_as_it_is(tmp_path: Path) -> None:
    source = put(tmp_path / "a.xml", TEXT)

    assert content_of(Span(source=source)) == TEXT


@BY_EXTENSION
def test_a_compressed_file_is_decompressed(
    tmp_path: Path, extension: str, compress: Compress
) -> None:
    source = put(tmp_path / f"a.xml{extension}", compress(TEXT))

    assert content_of(Span(source=source)) == TEXT


@BY_EXTENSION
def test_compressed_files_laid_end_to_end_are_read_to_the_last(
    tmp_path: Path, extension: str, compress: Compress
) -> None:
    source = put(tmp_path / f"a.xml{extension}", compress(b"one, ") + compress(b"two"))

    assert content_of(Span(source=source)) == b"one, two"


def test_an_extension_in_capitals_is_one_too(tmp_path: Path) -> None:
    source = put(tmp_path / "A.XML.GZ", gzip.compress(TEXT))

    assert content_of(Span(source=source)) == TEXT


@pytest.mark.parametrize(
    ("extension", "compress", "cause"),
    [
        (".gz", gzip.compress, "Compressed file ended before the end-of-stream marker was reached"),
        (".bz2", bz2.compress, "Compressed file ended before the end-of-stream marker was reached"),
        (".xz", lzma.compress, "Compressed file ended before the end-of-stream marker was reached"),
    ],
)
def test_a_torn_file_is_told(
    tmp_path: Path, extension: str, compress: Compress, cause: str
) -> None:
    source = put(tmp_path / f"a.xml{extension}", compress(TEXT)[:-10])

    with pytest.raises(SourceError) as caught:
        content_of(Span(source=source))

    assert str(caught.value) == f"{source}: {cause}; expected a file that can be read"


def test_a_torn_zstandard_file_is_not_taken_for_one_that_ends_there(tmp_path: Path) -> None:
    compressed = zstandard.ZstdCompressor().compress(TEXT)
    source = put(tmp_path / "a.xml.zst", compressed[:-10])

    with pytest.raises(SourceError):
        content_of(Span(source=source))


@pytest.mark.parametrize(
    ("extension", "cause"),
    [
        (".gz", "Not a gzipped file (b'no')"),
        (".bz2", "Invalid data stream"),
        (".xz", "Input format not supported by decoder"),
        (".zst", "Unable to decompress Zstandard data: Unknown frame descriptor"),
    ],
)
def test_a_file_that_is_not_what_its_extension_says_is_told(
    tmp_path: Path, extension: str, cause: str
) -> None:
    source = put(tmp_path / f"a.xml{extension}", b"no compressed file at all")

    with pytest.raises(SourceError) as caught:
        content_of(Span(source=source))

    assert str(caught.value) == f"{source}: {cause}; expected a file that can be read"


@pytest.mark.parametrize("name", ["a.xml", "a.xml.gz", "a.xml.zst"])
def test_a_missing_file_is_told(tmp_path: Path, name: str) -> None:
    source = str(tmp_path / name)

    with pytest.raises(SourceError) as caught:
        content_of(Span(source=source))

    expected = f"{source}: No such file or directory; expected a file that can be read"
    assert str(caught.value) == expected


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as caught:
        content_of(Span(source=str(tmp_path)))

    assert str(caught.value) == f"{tmp_path}: Is a directory; expected a file that can be read"


def test_a_uri_of_an_unknown_scheme_is_told() -> None:
    with pytest.raises(ConfigError, match=r"^unknown scheme 'nosuch'; expected one of s3, "):
        content_of(Span(source="nosuch://host/a.xml"))


def test_a_span_is_a_stretch_of_its_file(tmp_path: Path) -> None:
    source = put(tmp_path / "a.xml", b"one two three")

    assert content_of(Span(source=source, offset=4, length=3)) == b"two"


def test_a_span_without_a_length_reaches_to_the_end(tmp_path: Path) -> None:
    source = put(tmp_path / "a.xml", b"one two three")

    assert content_of(Span(source=source, offset=8)) == b"three"


def test_a_span_of_a_compressed_file_counts_decompressed_bytes(tmp_path: Path) -> None:
    source = put(tmp_path / "a.xml.gz", gzip.compress(b"one two three"))

    assert content_of(Span(source=source, offset=4, length=3)) == b"two"


def test_no_read_goes_beyond_its_span(tmp_path: Path) -> None:
    source = put(tmp_path / "a.xml", b"one two three")

    with open_span(Span(source=source, length=5)) as stream:
        assert (stream.read(4), stream.read(4), stream.read(4)) == (b"one ", b"t", b"")


def test_a_span_counts_the_bytes_that_were_read(tmp_path: Path) -> None:
    source = put(tmp_path / "a.xml", b"one two three")

    with open_span(Span(source=source, offset=4)) as stream:
        stream.read()
        assert stream.bytes_read == 9


@pytest.mark.parametrize(
    ("name", "text", "format_"),
    [
        ("feed.txt", gsa_feed(document(1)), "gsa-feed"),
        ("items.txt", thunderstone("http://www.example.com/"), "thunderstone"),
        ("records.txt", b"Obj\x01\x02", "avro"),
        ("lines.txt", native("http://www.example.com/"), "native"),
    ],
)
def test_a_format_is_found_by_looking(tmp_path: Path, name: str, text: bytes, format_: str) -> None:
    assert sniff_format(Span(source=put(tmp_path / name, text))) == format_


def test_a_format_is_found_in_a_compressed_file(tmp_path: Path) -> None:
    source = put(tmp_path / "a.xz", lzma.compress(gsa_feed(document(1))))

    assert sniff_format(Span(source=source)) == "gsa-feed"


def test_a_format_is_found_behind_a_long_comment(tmp_path: Path) -> None:
    source = put(tmp_path / "a.xml", b"<!--" + b" " * 60_000 + b"--><gsafeed>")

    assert sniff_format(Span(source=source)) == "gsa-feed"


def test_a_file_of_no_known_format_is_refused_with_what_it_looks_like(tmp_path: Path) -> None:
    source = put(tmp_path / "a.xml", b"%PDF-1.4")

    with pytest.raises(ConfigError) as caught:
        sniff_format(Span(source=source))

    assert str(caught.value) == (
        f"INPUT: {source!r} looks like a PDF document; expected one of the formats gsa-feed, "
        "thunderstone, lister-stream, retriever-stream, authorizer-stream, gsa-groups, groups-csv, "
        "avro, native; convert --from files takes any file as a document"
    )


@pytest.mark.parametrize("name", ["a.gz", "a.xml.bz2", "s3://bucket/a.XZ", "a.zst"])
def test_an_extension_tells_a_compressed_file(name: str) -> None:
    assert is_compressed(name)


@pytest.mark.parametrize("name", ["a.xml", "gz", "a.gz.xml"])
def test_no_other_file_counts_as_compressed(name: str) -> None:
    assert not is_compressed(name)


def test_a_file_that_is_not_longer_than_a_span_stays_whole(tmp_path: Path) -> None:
    whole = Span(source=put(tmp_path / "a", b"123456789"), format="native", source_ordinal=3)

    assert list(cut_file(whole, span_bytes=9)) == [whole]


def test_a_compressed_file_stays_whole(tmp_path: Path) -> None:
    text = gzip.compress(native("http://a.example.com/", "http://b.example.com/"))
    whole = Span(source=put(tmp_path / "a.gz", text), format="native")

    assert list(cut_file(whole, span_bytes=9)) == [whole]


def test_a_long_file_is_cut_between_its_records(tmp_path: Path) -> None:
    text = native("http://a.example.com/", "http://b.example.com/")
    source = put(tmp_path / "a", text)
    signature = FileSignature(size=100, modified_ns=5_500_000_000)
    os.utime(source, ns=(0, 5_500_000_000))
    whole = Span(source=source, format="native", source_ordinal=3)

    assert list(cut_file(whole, span_bytes=48)) == [
        Span(
            source=source,
            format="native",
            source_ordinal=3,
            length=50,
            signature=signature,
        ),
        Span(
            source=source,
            format="native",
            source_ordinal=3,
            ordinal=1,
            offset=50,
            line=2,
            signature=signature,
        ),
    ]


def test_a_span_of_a_database_stays_whole(tmp_path: Path) -> None:
    mapping = put(tmp_path / "people.yaml", b"connection: sqlite:///people.db")
    whole = Span(source=mapping, format="database")

    assert list(cut_file(whole, span_bytes=9)) == [whole]


def test_the_parts_of_a_file_know_what_it_was_posted_as(tmp_path: Path) -> None:
    source = put(tmp_path / "a", native("http://a.example.com/", "http://b.example.com/"))
    posted = Feed(datasource="crm", feedtype="full")
    whole = Span(source="spool#1", path=source, format="native", feed=posted)

    assert [span.feed for span in cut_file(whole, span_bytes=48)] == [posted, posted]


# Streams that are handed to readers

LINES = b"".join(b"line %d\n" % number for number in range(100_000))


class Counted(io.BytesIO):
    """Counts how often it is read."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.reads = 0

    def read(self, size: int | None = -1) -> bytes:
        self.reads += 1
        return super().read(size)


def test_lines_of_a_span_are_read_in_blocks() -> None:
    source = Counted(LINES)

    with SpanStream(ByteRangeStream(source, "a.jsonl", None)) as stream:
        lines = sum(1 for _ in iter(stream.readline, b""))

    assert (lines, source.reads < 20) == (100_000, True)


@pytest.mark.parametrize(("extension", "compress"), [("", bytes), *COMPRESSED])
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


def test_damage_is_told_to_who_reads_by_lines(tmp_path: Path) -> None:
    source = put(tmp_path / "a.txt.gz", gzip.compress(LINES)[:-100])

    with (
        open_span(Span(source=source)) as stream,
        pytest.raises(SourceError, match=r"a\.txt\.gz: "),
    ):
        list(iter(stream.readline, b""))
