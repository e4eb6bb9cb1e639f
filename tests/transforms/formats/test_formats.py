"""The tables of formats, and how a format is found by its first bytes."""

import io
from pathlib import Path

import pytest

from schemas.errors import FormatError
from schemas.feed import Feed
from schemas.record import Action, Record
from transforms.formats import WriteOptions, by_name, sniff
from transforms.formats.base import Encoder, write_all
from transforms.formats.xml.encoding import HEAD_BYTES

GOLDEN = Path(__file__).parents[2] / "golden"
READABLE = sorted(
    path
    for path in GOLDEN.glob("*/*")
    if path.suffix in {".xml", ".avro", ".json"}
    and path.parent.name != "convert"
    and b'\n{"error":' not in b"\n" + path.with_suffix(".jsonl").read_bytes()
)
ARCHIVED = ["gsa-feed", "thunderstone", "avro", "native"]
"""The formats that hold every kind of record."""

STREAMS = ["lister-stream", "retriever-stream", "authorizer-stream"]
EVERY_FORMAT = pytest.mark.parametrize("name", ARCHIVED)


def encoder(name: str) -> Encoder:
    return by_name(name).make_encoder(WriteOptions(feed=Feed(datasource="d", feedtype="full")))


def written(name: str, records: list[Record]) -> bytes:
    stream = io.BytesIO()
    write_all(encoder(name), records, stream)
    return stream.getvalue()


@pytest.mark.parametrize("path", READABLE, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_format_of_a_golden_input_is_found(path: Path) -> None:
    assert sniff(path.read_bytes()[:HEAD_BYTES]) == path.parent.name.replace("_", "-")


@EVERY_FORMAT
def test_the_format_of_what_is_written_is_found(name: str) -> None:
    record = Record(url="http://www.example.com/", action=Action.DELETE)
    assert sniff(written(name, [record])) == name


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b"<gsafeed>", "gsa-feed"),
        (b"<gsafeed/>", "gsa-feed"),
        (b"<gsafeed\nxmlns='a'>", "gsa-feed"),
        (b"<x:gsafeed xmlns:x='a'>", "gsa-feed"),
        (b"\xef\xbb\xbf\n<gsafeed>", "gsa-feed"),
        ("<gsafeed>".encode("utf-16"), "gsa-feed"),
        ('<?xml version="1.0" encoding="Shift_JIS"?><gsafeed>'.encode("shift_jis"), "gsa-feed"),
        (b"<!DOCTYPE gsafeed><!-- \xff --><gsafeed>", "gsa-feed"),
        (b"<ThunderstoneReplication >", "thunderstone"),
        (b"Obj\x01", "avro"),
        (b'{"url":', "native"),
        (b'\xef\xbb\xbf \r\n\t{"url":', "native"),
        (b"", None),
        (b"Obj", None),
        (b"[", None),
        (b"<xmlgroups>", "gsa-groups"),
        (b"group,member,scope\n", "groups-csv"),
        (b"\xef\xbb\xbfGroup,Member,Scope,Namespace\r\n", "groups-csv"),
        (b"group,members\n", None),
        (b"<gsafeeds>", None),
        (b"<html><body>gsafeed</body></html>", None),
        (b"<!DOCTYPE gsafeed>", None),
        (b"GSA Adaptor Data Version 1 [\n]", "lister-stream"),
        (bytes(range(256)), None),
    ],
)
def test_a_format_is_found_by_its_first_bytes(head: bytes, name: str | None) -> None:
    assert sniff(head) == name


@pytest.mark.parametrize("name", ["gsa-feed", "thunderstone", *STREAMS, "gsa-groups", "avro"])
def test_an_empty_stream_is_refused(name: str) -> None:
    with pytest.raises(FormatError):
        list(by_name(name).read(io.BytesIO(b"")))
