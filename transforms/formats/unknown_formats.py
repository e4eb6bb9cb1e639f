"""Guess the type of a file that is in none of the formats, for the message that refuses it."""

import re

from feedferry.transforms.formats.xml.scanning.encoding import detect

_TAR_OFFSET = 257
_BINARY = (
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"II*\0", "a TIFF image"),
    (b"MM\0*", "a TIFF image"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive or an Office document"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an Office document"),
    (b"\x1f\x8b", "gzip data in a file whose name does not end in .gz"),
    (b"BZh", "bzip2 data in a file whose name does not end in .bz2"),
    (b"\xfd7zXZ\0", "xz data in a file whose name does not end in .xz"),
    (b"\x28\xb5\x2f\xfd", "Zstandard data in a file whose name does not end in .zst"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"\x7fELF", "a program"),
)
_ROOTS = {
    "rss": "an RSS feed",
    "rdf": "an RSS feed",
    "feed": "an Atom feed",
    "html": "an HTML page",
    "urlset": "a sitemap",
    "sitemapindex": "a sitemap",
}
_ROOT = re.compile(r"<(?:[A-Za-z_][\w.-]*:)?([A-Za-z_][\w.-]{0,40})(?=[\s/>])")
_PROLOG = re.compile(r"<!--.*?-->|<\?.*?\?>|<!doctype[^>\[]*(?:\[.*?\])?\s*>", re.DOTALL | re.I)


def look_of(head: bytes) -> str:
    """Return the likely type of a file that begins with `head`, with its article.

    >>> look_of(b'<?xml version="1.0"?><rss version="2.0">')
    'an RSS feed'
    """
    if binary := binary_look_of(head):
        return binary
    codec, mark_bytes = detect(head, source="")
    return _look_of_text(head[mark_bytes:].decode(codec, "replace").lstrip())


def binary_look_of(head: bytes) -> str | None:
    """Return the type of a file that begins with the mark of a binary type, None for another."""
    for mark, name in _BINARY:
        if head.startswith(mark):
            return name
    return "a tar archive" if head.startswith(b"ustar", _TAR_OFFSET) else None


def _look_of_text(text: str) -> str:
    if not text:
        return "an empty file"
    if text.startswith("<"):
        return _look_of_markup(text)
    if "\0" in text:
        return "binary data"
    return "JSON" if text.startswith("[") else "plain text"


def _look_of_markup(text: str) -> str:
    root = _ROOT.match(_PROLOG.sub("", text).lstrip())
    if root is None:
        return "XML without an element"
    return _ROOTS.get(root[1].lower(), f"XML with the root element <{root[1]}>")
