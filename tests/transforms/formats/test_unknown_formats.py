import codecs

import pytest

from transforms.formats import look_of


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
