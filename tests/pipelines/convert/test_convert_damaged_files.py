"""Files that are torn or cannot be read cost what is missing of them; other files go on."""

import bz2
import gzip
import lzma
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import fastavro
import pytest
import zstandard

from feedferry.pipelines.cli.main import main
from feedferry.schemas.reject import KEPT_BYTES
from support.archives import documents, gsa_feed, put
from support.runs import chunks, column, convert, manifest, report
from support.spools import HandSpool

COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": partial(lzma.compress, preset=0),
    "zst": zstandard.ZstdCompressor().compress,
}
HEADER = b"GSA Adaptor Data Version 1 [\n]\n"
TO_GSA = ("-o", "out", "--to", "gsa-feed")
TO_JSONL = ("-o", "out", "--to", "jsonl")

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("here")]


def noise(number: int) -> str:
    """A text that compresses badly, so that a torn file has records before the tear."""
    return os.urandom(6000).hex() + str(number)


def feed(first: int, last: int, *, feedtype: str = "incremental") -> bytes:
    texts = [documents(number, number, text=noise(number))[0] for number in range(first, last + 1)]
    return gsa_feed(*texts, feedtype=feedtype)


def torn(packed: bytes) -> bytes:
    return packed[: len(packed) * 3 // 4]


def rejects() -> list[tuple[str, str, int]]:
    """Code, source and offset of each reject of the run."""
    return [(reject["code"], reject["source"], reject["offset"]) for reject in all_rejects()]


def all_rejects() -> Iterator[Any]:
    """The rejects of the run, as dicts."""
    for path in sorted(Path("out/rejects").iterdir()):
        with path.open("rb") as stream:
            yield from fastavro.reader(stream)


def refusal(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str]:
    """The exit code, and the message: the first line of stderr."""
    code = convert(*args)
    return code, capsys.readouterr().err.splitlines()[0]


@pytest.mark.parametrize("suffix", COMPRESSORS)
def test_a_torn_file_is_read_as_far_as_it_goes_and_the_others_go_on(suffix: str) -> None:
    text = feed(1, 400)
    put(Path(f"in/1.xml.{suffix}"), torn(COMPRESSORS[suffix](text)))
    put(Path("in/2.xml"), gsa_feed(*documents(500, 501)))

    assert convert("in", *TO_JSONL) == 1
    (code, source, offset) = rejects()[-1]
    assert (code, source) == ("torn-compression", f"in/1.xml.{suffix}")
    assert report("out")["account"]["bytes_read"] == offset + len(gsa_feed(*documents(500, 501)))
    assert len(text) // 4 < offset < len(text)
    whole = text[:offset].count(b"</record>")
    assert column("out", "records") == [{"ADD": whole}, {"ADD": 2}]


@pytest.mark.parametrize("suffix", COMPRESSORS)
def test_all_that_can_be_decompressed_of_a_torn_file_is_read(suffix: str) -> None:
    text = feed(1, 40)
    put(Path(f"1.xml.{suffix}"), COMPRESSORS[suffix](text)[:-1])

    assert convert(f"1.xml.{suffix}", *TO_JSONL) == 1
    assert ("torn-compression", f"1.xml.{suffix}") in [reject[:2] for reject in rejects()]


def test_a_gz_file_whose_checksum_is_wrong_has_all_records_and_a_reject() -> None:
    packed = bytearray(gzip.compress(gsa_feed(*documents(1, 3))))
    packed[-8] ^= 1
    put(Path("1.xml.gz"), bytes(packed))

    assert convert("1.xml.gz", *TO_JSONL) == 1
    assert column("out", "records") == [{"ADD": 3}]
    assert [reject[0] for reject in rejects()] == ["torn-compression"]


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        (b"not compressed", ("--from", "gsa-feed")),
        (gzip.compress(gsa_feed(*documents(1, 1)))[:12], ()),
    ],
    ids=["not compressed", "format unknown"],
)
def test_a_compressed_file_that_cannot_be_read_costs_itself(
    text: bytes, flags: tuple[str, ...]
) -> None:
    put(Path("1.xml.gz"), text)
    put(Path("2.xml"), gsa_feed(*documents(1, 1)))

    assert convert("1.xml.gz", "2.xml", *TO_JSONL, *flags) == 1
    assert rejects() == [("torn-compression", "1.xml.gz", 0)]
    assert column("out", "source") == ["2.xml"]


def test_the_only_input_that_cannot_be_read_stops_the_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    put(Path("1.xml.gz"), gzip.compress(gsa_feed(*documents(1, 1)))[:12])

    assert refusal(capsys, "1.xml.gz", *TO_JSONL) == (
        4,
        "feedferry: 1.xml.gz: Compressed file ended before the end-of-stream marker was reached;"
        " expected a file that can be read",
    )


@pytest.mark.parametrize(
    ("format_", "text"),
    [
        (
            "lister-stream",
            HEADER + b"".join(b"id=/docs/%06d\n" % number for number in range(20_000)),
        ),
        ("retriever-stream", HEADER + b"id=/docs/1\ncontent\n" + os.urandom(9000)),
        (
            "groups-csv",
            b"group,member,scope\n"
            + b"".join(b"staff%d,user%d,USER\n" % (n % 7, n) for n in range(5000)),
        ),
    ],
    ids=["lister-stream", "retriever-stream", "groups-csv"],
)
def test_nothing_that_may_be_a_part_of_a_torn_file_is_used(format_: str, text: bytes) -> None:
    put(Path("1.gz"), torn(gzip.compress(text)))

    args = ("1.gz", "--from", format_, "--base-url", "http://e.example.com/doc/")
    assert convert(*args, *TO_JSONL) == 1
    assert rejects()[0][0] == "torn-compression"
    lines = [line for chunk in chunks("out") for line in chunk.splitlines()]
    urls = [line.split(b'"url":"')[1].split(b'"')[0] for line in lines]
    assert (format_ == "lister-stream", {len(url) for url in urls[1:]}) == (
        bool(urls),
        {len(url) for url in urls[:1]},
    )


def test_an_input_error_or_a_name_that_is_not_utf_8_costs_its_file() -> None:
    Path("in").mkdir()
    Path("in/1.xml").symlink_to("/proc/self/mem")  # reading its first page is an input error
    put(Path("in/2.xml"), gsa_feed(*documents(1, 1)))
    Path(os.fsdecode(b"in/3\xff.xml")).write_bytes(gsa_feed(*documents(2, 2)))

    assert convert("in", *TO_JSONL, "--from", "gsa-feed") == 1
    assert rejects() == [("unreadable", "in/1.xml", 0), ("file-name", "in/3\\udcff.xml", 0)]


NO_FEEDS = {
    "cut": b"<gsafeed",
    "rss": b'<rss version="2.0"><channel/></rss>',
    "html": b"<!DOCTYPE html><html><body>login</body></html>",
    "text": b"hello",
    "empty": b"",
    "encoding": b'<?xml version="1.0" encoding="klingon"?><gsafeed></gsafeed>',
    "large": b"<html>" + b"x" * KEPT_BYTES,
}


def data_of(source: str) -> tuple[bytes, bool, str | None]:
    """The bytes of the only reject of a source, whether they are truncated, and its action."""
    (reject,) = (item for item in all_rejects() if item["source"] == source)
    assert (reject["stage"], reject["offset"]) == ("read", 0)
    return reject["data"], reject["truncated"], reject["action"]


@pytest.mark.parametrize("flags", [(), ("--from", "gsa-feed")], ids=["", "from"])
@pytest.mark.parametrize("name", NO_FEEDS)
def test_a_file_that_is_no_feed_is_one_reject_and_the_others_go_on(
    name: str, flags: tuple[str, ...]
) -> None:
    text = NO_FEEDS[name]
    put(Path("1.xml"), gsa_feed(*documents(1, 1)))
    put(Path("2.xml"), text)
    put(Path("3.xml"), gsa_feed(*documents(2, 2)))
    args = ("1.xml", "2.xml", "3.xml", *flags)

    assert convert(*args, *TO_GSA) == 1
    assert column("out", "source") == ["1.xml", "3.xml"]
    assert data_of("2.xml") == (text[:KEPT_BYTES], len(text) > KEPT_BYTES, None)
    assert main(["inspect", *args]) == 1
    assert convert(*args, *TO_GSA, "--fresh", "--feedtype", "full") == 3


@pytest.mark.parametrize("name", NO_FEEDS)
def test_the_only_file_that_is_no_feed_is_an_error(name: str) -> None:
    put(Path("1.xml"), NO_FEEDS[name])

    assert convert("1.xml", *TO_GSA) == (4 if name == "encoding" else 2)
    assert convert("1.xml", *TO_GSA, "--from", "gsa-feed") == 4
    assert main(["inspect", "1.xml", "--from", "gsa-feed"]) == 4


def test_an_unknown_encoding_names_its_file(capsys: pytest.CaptureFixture[str]) -> None:
    put(Path("1.xml"), NO_FEEDS["encoding"])

    assert refusal(capsys, "1.xml", "-o", "third", "--to", "jsonl") == (
        4,
        "feedferry: 1.xml:1: encoding='klingon'; expected the name of an encoding, such as 'UTF-8'",
    )


def test_inspect_continues_after_a_torn_file(capsys: pytest.CaptureFixture[str]) -> None:
    put(Path("in/1.xml.gz"), torn(gzip.compress(feed(1, 40))))
    put(Path("in/2.xml"), gsa_feed(*documents(500, 501)))

    assert main(["inspect", "in"]) == 1
    assert "torn-compression: 1, as in/1.xml.gz (byte " in capsys.readouterr().out


# Full feeds


def test_a_torn_file_of_a_full_feed_stops_the_run() -> None:
    put(Path("1.xml.gz"), torn(gzip.compress(feed(1, 40, feedtype="full"))))
    put(Path("2.xml"), gsa_feed(*documents(1, 1), datasource="wiki", feedtype="full"))

    assert convert("1.xml.gz", "2.xml", *TO_GSA) == 3
    assert convert("1.xml.gz", "2.xml", *TO_GSA, "--accept-holes") == 1
    assert column("out", "feedtype") == ["full", "full"]


@pytest.mark.parametrize("name", ["avro", "jsonl"])
@pytest.mark.parametrize("size", [60, 30_000], ids=["unreadable", "torn"])
def test_a_torn_archive_of_a_full_feed_stops_the_run(name: str, size: int) -> None:
    args = ("--to", name, "--max-chunk-records", "20")
    source = put(Path("feed.xml"), feed(1, 40, feedtype="full"))
    assert convert(source, "-o", "archive", *args) == 0
    first, last = chunks("archive")
    put(Path("in/1.part"), first)
    put(Path("in/2.part.gz"), gzip.compress(last)[:size])

    assert convert("in", *TO_GSA) == 3
    assert convert("in", *TO_GSA, "--accept-holes") == 1
    assert column("out", "feedtype")[0] == "full"


def test_a_torn_full_feed_without_a_whole_record_never_becomes_an_empty_one() -> None:
    packed = gzip.compress(gsa_feed(*documents(1, 1, text=noise(1)), feedtype="full"))
    put(Path("1.xml.gz"), torn(packed))

    assert convert("1.xml.gz", *TO_GSA, "--allow-empty-full") == 3
    assert convert("1.xml.gz", *TO_GSA, "--allow-empty-full", "--accept-holes") == 1
    assert chunks("out") == []


def test_a_file_that_cannot_be_read_stops_a_full_feed_of_all_files() -> None:
    put(Path("in/1.xml.gz"), b"not compressed")
    put(Path("in/2.xml"), gsa_feed(*documents(1, 1)))
    args = ("in", *TO_GSA, "--from", "gsa-feed", "--feedtype", "full")

    assert convert(*args) == 3
    assert convert(*args, "--accept-holes") == 1


def test_a_file_that_cannot_be_read_in_a_tree_stops_a_full_feed() -> None:
    put(Path("docs/a.txt"), b"keel")
    Path("docs/b.txt").symlink_to("/nowhere")
    args = ("docs", "--from", "files", "--base-url", "https://docs.example.com/", *TO_GSA)
    full = ("--follow-links", "--datasource", "docs", "--feedtype", "full")

    assert convert(*args, *full) == 3
    assert convert(*args, *full, "--accept-holes") == 1
    assert column("out", "feedtype") == ["full"]


# Spools


def test_a_feed_that_is_gone_from_a_spool_is_rejected_and_the_others_go_on() -> None:
    spooled = HandSpool()
    Path(spooled.feed(gsa_feed(*documents(1, 1)))).unlink()
    spooled.feed(gsa_feed(*documents(2, 2)))

    assert convert("spool", *TO_GSA) == 1
    assert rejects() == [("unreadable", "spool#1", 0)]
    assert column("out", "source") == ["spool#2"]


def test_a_full_feed_that_is_gone_from_a_spool_stops_the_run_and_supersedes_nothing() -> None:
    spooled = HandSpool()
    spooled.feed(gsa_feed(*documents(1, 1), feedtype="full"), feedtype="full")
    Path(spooled.feed(gsa_feed(*documents(2, 2), feedtype="full"), feedtype="full")).unlink()

    assert convert("spool", *TO_GSA, "--allow-empty-full") == 3
    assert convert("spool", *TO_GSA, "--allow-empty-full", "--accept-holes") == 1
    assert [(line["source"], line["feedtype"]) for line in manifest("out")] == [("spool#1", "full")]


@pytest.mark.parametrize("name", NO_FEEDS)
def test_a_post_that_is_no_feed_costs_itself(name: str) -> None:
    spooled = HandSpool()
    spooled.feed(gsa_feed(*documents(1, 1)))
    spooled.feed(NO_FEEDS[name])
    spooled.feed(gsa_feed(*documents(2, 2)))

    assert convert("spool", *TO_GSA) == 1
    assert column("out", "source") == ["spool#1", "spool#3"]
    assert data_of("spool#2")[0] == NO_FEEDS[name][:KEPT_BYTES]


@pytest.mark.parametrize("name", NO_FEEDS)
def test_a_full_post_that_is_no_feed_supersedes_nothing(name: str) -> None:
    spooled = HandSpool()
    spooled.feed(gsa_feed(*documents(1, 1), feedtype="full"), feedtype="full")
    spooled.feed(NO_FEEDS[name], feedtype="full")

    exit_code = convert("spool", *TO_GSA)
    assert exit_code == (3 if name == "encoding" else 0)
    if exit_code:
        assert convert("spool", *TO_GSA, "--accept-holes") == 1
    assert column("out", "source") == ["spool#1"]
