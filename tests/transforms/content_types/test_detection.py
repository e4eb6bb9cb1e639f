"""MIME types by name and content, which may disagree."""

import io
import struct
import zipfile
from collections.abc import Callable
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedferry.transforms.content_types.detection import FileType, detect
from feedferry.transforms.content_types.mimetype_table import load_table, type_of_name

OOXML = "application/vnd.openxmlformats-officedocument"
ODF = "application/vnd.oasis.opendocument"
DOCX = f"{OOXML}.wordprocessingml.document"
OLE_MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
NOISE = b"\x91\x02\xfe\x00\x13\x88\xff\x07" * 20
PNG = b"\x89PNG\r\n\x1a\n" + NOISE
PDF = b"%PDF-1.7\n" + NOISE
PAGE = b"<!DOCTYPE html>\n<html><head><title>Plan</title></head></html>"
MAIL = b"Received: from a by b\r\n\tfor c\r\nFrom: a@example.com\r\nSubject: plan\r\n\r\nText\r\n"


def zipped(*names: str, stated: str = "") -> bytes:
    """Return a zip archive of small files, after a member `mimetype` if it is `stated`."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        if stated:
            archive.writestr(zipfile.ZipInfo("mimetype"), stated)
        for name in names:
            archive.writestr(zipfile.ZipInfo(name), "<x/>")
    return stream.getvalue()


def ole(*streams: str) -> bytes:
    """Return the start of an OLE2 file: the header, and the directory in the third sector."""
    header = bytearray(512)
    header[:8] = OLE_MAGIC
    struct.pack_into("<H", header, 30, 9)
    struct.pack_into("<I", header, 48, 1)
    entries = [f"{name}\0".encode("utf-16-le").ljust(128, b"\0") for name in streams]
    return bytes(header) + bytes(512) + b"".join(entries).ljust(512, b"\0")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("plan.pdf", "application/pdf"),
        ("PLAN.PDF", "application/pdf"),
        ("a.b/plan.v2.doc", "application/msword"),
        ("plan.dotx", f"{OOXML}.wordprocessingml.template"),
        ("plan.xlsm", "application/vnd.ms-excel.sheet.macroenabled.12"),
        ("plan.ppsx", f"{OOXML}.presentationml.slideshow"),
        ("plan.ods", f"{ODF}.spreadsheet"),
        ("plan.rtf", "application/rtf"),
        ("plan.htm", "text/html"),
        ("plan.xhtml", "application/xhtml+xml"),
        ("plan.xml", "application/xml"),
        ("plan.md", "text/plain"),
        ("plan.csv", "text/plain"),
        ("plan.log", "text/plain"),
        ("plan.java", "text/plain"),
        ("plan.eml", "message/rfc822"),
        ("plan.mht", "message/rfc822"),
        ("plan.msg", "application/vnd.ms-outlook"),
        ("plan.jpeg", "image/jpeg"),
        ("plan.mp4", "video/mp4"),
        ("plan.tgz", "application/gzip"),
    ],
)
def test_a_name_has_a_type(name: str, expected: str) -> None:
    assert type_of_name(name) == expected


@pytest.mark.parametrize("name", ["README", ".pdf", "plan.", "plan.q7", "pdf", ""])
def test_these_names_have_no_type(name: str) -> None:
    assert type_of_name(name) is None


def test_every_extension_has_one_type() -> None:
    lines = (
        files("feedferry.transforms.content_types")
        .joinpath("mimetypes.tsv")
        .read_text()
        .splitlines()
    )
    extensions = " ".join(line.split("\t")[2] for line in lines if not line.startswith("#")).split()
    assert sorted(extensions) == sorted(load_table().by_extension)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (PDF, "application/pdf"),
        (b"{\\rtf1\\ansi plan}", "application/rtf"),
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF\0" + NOISE, "image/jpeg"),
        (b"GIF89a" + NOISE, "image/gif"),
        (b"II*\0" + NOISE, "image/tiff"),
        (b"BM\x36\x00\x0c\x00\0\0\0\0\x36\0\0\0", "image/bmp"),
        (b"RIFF\x24\0\0\0WEBPVP8 ", "image/webp"),
        (b"RIFF\x24\0\0\0WAVEfmt ", "audio/wav"),
        (b"RIFF\x24\0\0\0AVI LIST", "video/x-msvideo"),
        (b"\0\0\0\x18ftypmp42" + NOISE, "video/mp4"),
        (b"\0\0\0\x14ftypqt  " + NOISE, "video/quicktime"),
        (b"\0\0\0\x18ftypheic" + NOISE, "image/heic"),
        (b"ID3\x03\0" + NOISE, "audio/mpeg"),
        (b"\x1f\x8b\x08\0" + NOISE, "application/gzip"),
        (b"BZh91AY&SY" + NOISE, "application/x-bzip2"),
        (b"\xfd7zXZ\0" + NOISE, "application/x-xz"),
        (b"7z\xbc\xaf\x27\x1c" + NOISE, "application/x-7z-compressed"),
        (b"Rar!\x1a\x07\x01\0" + NOISE, "application/vnd.rar"),
        (b"plan".ljust(257, b"\0") + b"ustar\x0000", "application/x-tar"),
        (b"MZ\x90\0\x03\0" + NOISE, "application/vnd.microsoft.portable-executable"),
        (zipped("plan.txt"), "application/zip"),
        (zipped("[Content_Types].xml", "_rels/.rels", "word/document.xml"), DOCX),
        (zipped("[Content_Types].xml", "xl/workbook.xml"), f"{OOXML}.spreadsheetml.sheet"),
        (zipped("ppt/presentation.xml"), f"{OOXML}.presentationml.presentation"),
        (zipped("META-INF/MANIFEST.MF", "A.class"), "application/java-archive"),
        (zipped("content.xml", stated=f"{ODF}.text"), f"{ODF}.text"),
        (zipped("content.opf", stated="application/epub+zip"), "application/epub+zip"),
        (zipped("plan.txt", stated="application/x-nobody"), "application/zip"),
        (ole("Root Entry", "WordDocument"), "application/msword"),
        (ole("Root Entry", "Workbook"), "application/vnd.ms-excel"),
        (ole("Root Entry", "PowerPoint Document"), "application/vnd.ms-powerpoint"),
        (ole("Root Entry", "__properties_version1.0"), "application/vnd.ms-outlook"),
        (ole("Root Entry", "Nobody"), "application/x-ole-storage"),
        (OLE_MAGIC, "application/x-ole-storage"),
    ],
)
def test_content_decides_the_type_of_a_file_without_an_extension(
    content: bytes, expected: str
) -> None:
    assert detect("plan", content) == FileType(expected)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (PAGE, "text/html"),
        (b"\xef\xbb\xbf  <!-- a --><!-- b -->\n<HTML lang=en>", "text/html"),
        (b'<?xml version="1.0"?><!-- c -->\n<html xmlns="x">', "application/xhtml+xml"),
        (b'<?xml version="1.0"?>\n<plan/>', "application/xml"),
        (b'<?xml version="1.0"?><?xml-stylesheet href="a"?><rss/>', "application/xml"),
        (b'<?xml version="1.0"?><!DOCTYPE svg PUBLIC "a" "b"><svg/>', "image/svg+xml"),
        (b'<svg xmlns="http://www.w3.org/2000/svg"/>', "image/svg+xml"),
        (b"<plan>", "text/plain"),
        (b"<!-- never closed", "text/plain"),
        (b"<p>Plan</p>", "text/plain"),
        (b"From: a\nTo: b, as they said\nplan", "message/rfc822"),
        (b"From a@example.com Mon\nFrom: a\nTo: b\n\nplan", "application/mbox"),
        (b"Subject: plans\nwe have none\nsorry", "text/plain"),
        (b"#!/bin/sh\necho plan\n", "text/plain"),
    ],
)
def test_text_without_an_extension_may_be_markup_or_mail(content: bytes, expected: str) -> None:
    assert detect("plan", content).mimetype == expected


def test_a_page_in_utf_16_is_html() -> None:
    file_type = detect("plan", PAGE.decode().encode("utf-16"))
    assert file_type == FileType("text/html", "utf-16")


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("plan.txt", PDF, FileType("application/pdf", None, "text/plain")),
        ("plan.pdf", PAGE, FileType("text/html", "utf-8", "application/pdf")),
        ("plan.xls", PAGE, FileType("text/html", "utf-8", "application/vnd.ms-excel")),
        ("plan.doc", b"{\\rtf1}", FileType("application/rtf", None, "application/msword")),
        ("plan.doc", zipped("word/document.xml"), FileType(DOCX, None, "application/msword")),
        ("plan.docx", ole("WordDocument"), FileType("application/msword", None, DOCX)),
        ("plan.zip", zipped("word/a.xml"), FileType(DOCX, None, "application/zip")),
        ("plan.msg", MAIL, FileType("message/rfc822", None, "application/vnd.ms-outlook")),
        ("plan.jpg", PNG, FileType("image/png", None, "image/jpeg")),
        ("plan.doc", b"A plan.\n", FileType("text/plain", "utf-8", "application/msword")),
        ("id.pub", b"ssh-rsa AA", FileType("text/plain", "utf-8", "application/x-mspublisher")),
    ],
)
def test_content_wins_against_the_name(name: str, content: bytes, expected: FileType) -> None:
    assert detect(name, content) == expected


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("plan.pdf", PDF, "application/pdf"),
        ("plan.dot", ole("WordDocument"), "application/msword"),
        ("plan.xlt", ole("Nobody"), "application/vnd.ms-excel"),
        ("plan.docm", zipped("word/a.xml"), "application/vnd.ms-word.document.macroenabled.12"),
        ("plan.docx", ole("EncryptedPackage"), DOCX),
        ("plan.docx", zipped("[Content_Types].xml"), DOCX),
        ("plan.kmz", zipped("doc.kml"), "application/vnd.google-earth.kmz"),
        ("plan.apk", zipped("META-INF/MANIFEST.MF"), "application/vnd.android.package-archive"),
        ("plan.mov", b"\0\0\0\x14ftypmp42", "video/quicktime"),
        ("plan.nef", b"MM\0*" + NOISE, "image/x-raw"),
        ("plan.mp3", b"\xff\xfb\x90" + NOISE, "audio/mpeg"),
        ("plan.doc", NOISE, "application/msword"),
        ("plan.eps", b"Plan", "application/postscript"),
    ],
)
def test_a_name_chooses_what_the_content_leaves_open(
    name: str, content: bytes, expected: str
) -> None:
    assert detect(name, content) == FileType(expected)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("plan.txt", "text/plain"),
        ("plan.py", "text/plain"),
        ("plan.eml", "message/rfc822"),
        ("plan.json", "application/json"),
        ("plan.svg", "image/svg+xml"),
    ],
)
def test_text_with_markup_has_the_type_of_its_name(name: str, expected: str) -> None:
    assert detect(name, PAGE).mimetype == expected


def test_text_that_declares_no_charset_has_the_given_one() -> None:
    file_type = detect("plan.txt", b"Pl\xf6n", charset="iso-8859-1")
    assert file_type == FileType("text/plain", "iso-8859-1")


@pytest.mark.parametrize(
    "content",
    [b"plan", "Plön".encode(), "\N{BYTE ORDER MARK}plan".encode("utf-16-le"), b"\xef\xbb\xbfplan"],
)
def test_clean_text_of_an_unknown_name_is_plain_text(content: bytes) -> None:
    assert detect("plan.q7", content).mimetype == "text/plain"


def test_a_character_cut_off_at_the_end_of_the_head_is_text() -> None:
    content = b"p" * 65535 + "öö".encode()
    assert detect("plan", content) == FileType("text/plain", "utf-8")


@pytest.mark.parametrize("content", [b"", NOISE, b"Pl\xf6n", b"plan\0", b"\xef\xbb\xbf\x01"])
def test_other_bytes_of_an_unknown_name_are_of_no_known_type(content: bytes) -> None:
    assert detect("plan", content) == FileType("application/octet-stream")


@pytest.mark.parametrize(
    "flood", [b"<!-- -->", b"<!--", b"<?xml ", b"<?a?>", b"PK\3\4", b"From: a\n", b"<!doctype "]
)
def test_hostile_beginnings_take_linear_time(flood: bytes) -> None:
    assert detect("plan", flood * 200_000).named is None


@pytest.mark.parametrize("make", [lambda: ole("WordDocument"), lambda: zipped("word/a.xml")])
def test_truncated_containers_have_a_type(make: Callable[[], bytes]) -> None:
    whole = make()
    assert all(detect("plan", whole[:end]).mimetype for end in range(len(whole)))


@given(st.text(max_size=20), st.binary(max_size=600))
def test_every_file_has_a_type(name: str, content: bytes) -> None:
    assert "/" in detect(name, content).mimetype
