"""The tables of formats, and how a format is found by its first bytes."""

import codecs
import io
from pathlib import Path

import pytest

from feedferry.schemas.errors import ConfigError, FormatError
from feedferry.transforms.formats import Format, by_name, look_of, registered, sniff
from feedferry.transforms.formats.element_names import ElementNames
from feedferry.transforms.formats.xml.scanning.encoding import HEAD_BYTES
from kits import KITS
from kits.base import EXPECTED, all_golden

READABLE = [
    path
    for path in all_golden()
    if by_name(path.parent.name.replace("_", "-")).is_xml
    and b'\n{"error":' not in b"\n" + path.with_suffix(EXPECTED).read_bytes()
]


@pytest.mark.parametrize("path", READABLE, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_format_of_a_golden_input_is_found(path: Path) -> None:
    assert sniff(path.read_bytes()[:HEAD_BYTES]) == path.parent.name.replace("_", "-")


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
        (b'{"url":', "jsonl"),
        (b'\xef\xbb\xbf \r\n\t{"url":', "jsonl"),
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


def test_a_format_of_another_package_that_fails_to_recognise_an_input_is_named() -> None:
    def fail(head: bytes) -> bool:
        raise KeyError(head[:3])

    with registered(Format(name="acme", title="of others", matches=fail)):
        assert sniff(b"Obj\x01") == "avro"  # ours are asked first
        with pytest.raises(ConfigError, match=r"the format acme .*: KeyError: b'abc'; expected"):
            sniff(b"abcd")


def test_a_format_of_another_package_does_not_replace_ours() -> None:
    names = ElementNames(root="gsafeed", records=("item",))
    with registered(Format(name="acme", title="of others", element_names=names)):
        assert sniff(b"<gsafeed>") == "gsa-feed"


@pytest.mark.parametrize("name", [name for name in KITS if KITS[name].start and "csv" not in name])
def test_an_empty_stream_is_refused(name: str) -> None:
    with pytest.raises(FormatError):
        list(by_name(name).read(io.BytesIO(b"")))


@pytest.mark.parametrize(
    ("head", "look"),
    [
        (b"", "an empty file"),
        (b" \r\n", "an empty file"),
        (codecs.BOM_UTF8, "an empty file"),
        (b"\x89PNG\r\n\x1a\n\0\0", "a PNG image"),
        (b"\xff\xd8\xff\xe0", "a JPEG image"),
        (b"%PDF-1.7", "a PDF document"),
        (b"PK\x03\x04", "a ZIP archive or an Office document"),
        (b"\x1f\x8b\x08", "gzip data in a file whose name does not end in .gz"),
        (b"a" + b"\0" * 256 + b"ustar\x0000", "a tar archive"),
        (b"a\0b", "binary data"),
        (b'<rss version="2.0">', "an RSS feed"),
        (b"<?xml version='1.0'?><rdf:RDF xmlns:rdf='a'>", "an RSS feed"),
        (b'<feed xmlns="http://www.w3.org/2005/Atom">', "an Atom feed"),
        (b"<!-- a --><!DOCTYPE html>\n<HTML>", "an HTML page"),
        (b'<!DOCTYPE a [<!ENTITY b "c">]><a>', "XML with the root element <a>"),
        (codecs.BOM_UTF16_LE + "<rss/>".encode("utf-16-le"), "an RSS feed"),
        (b"<!-- without an end", "XML without an element"),
        (b"[1]", "JSON"),
        (b"plan", "plain text"),
    ],
)
def test_what_a_file_looks_like(head: bytes, look: str) -> None:
    assert look_of(head) == look
