"""What the first bytes of a file show beyond doubt: its type, and those that begin as it does."""

import codecs
import re
from collections.abc import Iterator
from typing import NamedTuple

from transforms import mimetype_table as names
from transforms.charset import is_text, mark_of

_LOOKED_INTO = 48  # so many names of a zip archive
_LOOKED_BYTES = 1 << 20
_OLE_SECTOR = 512
_ROOT_ENTRIES = 16
_ENTRY_BYTES = 128
_HEAD_BYTES = 4096


class Sign(NamedTuple):
    """A type that is shown, and those that a name may tell instead and be right."""

    mimetype: str
    kin: frozenset[str] = frozenset()

    def allows(self, named: str) -> bool:
        """Whether a file of that type, by its name, may begin so."""
        return named == self.mimetype or named in self.kin


def _sign(mimetype: str, *kin: str) -> Sign:
    return Sign(mimetype, frozenset(kin))


_ZIP = Sign(names.ZIP, names.ZIP_TYPES)
_OLE = Sign(names.OLE, names.OLE_TYPES)
_ENCRYPTED = Sign(names.OLE, names.OLE_TYPES | names.OOXML_TYPES)
_TAR = _sign(names.TAR)
_BMP = _sign("image/bmp")
_TIFF = _sign("image/tiff", "image/x-raw")
_MP3 = _sign("audio/mpeg", "audio/aac", "audio/flac")
_OGG = _sign("audio/ogg", "video/ogg")
_EPS = _sign("application/postscript", "application/illustrator")
_MATROSKA = _sign("video/webm", "video/matroska")
_ASF = _sign("video/x-ms-wmv", "audio/x-ms-wma", "video/x-ms-asf")
_EXE = _sign("application/vnd.microsoft.portable-executable")
_DEB = _sign("application/x-archive", "application/vnd.debian.binary-package")
_PDF = _sign("application/pdf", "application/illustrator")
_MP4 = _sign("video/mp4", "audio/mp4", "video/quicktime", "video/3gpp", "image/heic", "image/avif")

_SIGNS = {
    b"%PDF-": _PDF,
    b"{\\rtf": _sign("application/rtf"),
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": _OLE,
    b"PK\x03\x04": _ZIP,
    b"PK\x05\x06": _ZIP,
    b"\x89PNG\r\n\x1a\n": _sign("image/png"),
    b"\xff\xd8\xff": _sign("image/jpeg"),
    b"GIF87a": _sign("image/gif"),
    b"GIF89a": _sign("image/gif"),
    b"II*\0": _TIFF,
    b"MM\0*": _TIFF,
    b"8BPS\0\x01": _sign("image/vnd.adobe.photoshop"),
    b"gimp xcf ": _sign("image/x-xcf"),
    b"AT&TFORM": _sign("image/vnd.djvu"),
    b"\0\0\0\x0cjP  \r\n": _sign("image/jp2"),
    b"%!PS-": _EPS,
    b"\xc5\xd0\xd3\xc6": _EPS,
    b"\x1f\x8b\x08": _sign(names.GZIP),
    **{b"BZh%d1AY&SY" % level: _sign(names.BZIP2) for level in range(1, 10)},
    b"\xfd7zXZ\0": _sign(names.XZ),
    b"7z\xbc\xaf\x27\x1c": _sign("application/x-7z-compressed"),
    b"Rar!\x1a\x07": _sign("application/vnd.rar"),
    b"\x28\xb5\x2f\xfd": _sign("application/zstd"),
    b"MSCF\0\0\0\0": _sign("application/vnd.ms-cab-compressed"),
    b"\xed\xab\xee\xdb": _sign("application/x-rpm"),
    b"!<arch>\n": _DEB,
    b"OggS\0": _OGG,
    b"fLaC\0": _sign("audio/flac"),
    b"ID3\x02": _MP3,
    b"ID3\x03": _MP3,
    b"ID3\x04": _MP3,
    b"FLV\x01": _sign("video/x-flv"),
    b"MThd\0\0\0\x06": _sign("audio/midi"),
    b"\x1aE\xdf\xa3": _MATROSKA,
    b"\x30\x26\xb2\x75\x8e\x66\xcf\x11": _ASF,
    b"wOFF\0": _sign("font/woff"),
    b"wOF2\0": _sign("font/woff2"),
    b"OTTO\0": _sign("font/otf", "font/ttf"),
    b"\x7fELF": _sign("application/x-elf"),
    b"\0asm": _sign("application/wasm"),
    b"SQLite format 3\0": _sign("application/vnd.sqlite3"),
    b"\xffWPC": _sign("application/vnd.wordperfect"),
    b"ITSF\x03": _sign("application/vnd.ms-htmlhelp"),
    b"!BDN": _sign("application/vnd.ms-outlook-pst"),
    b"\x78\x9f\x3e\x22": _sign("application/vnd.ms-tnef"),
    b"\xd7\xcd\xc6\x9a": _sign("image/wmf"),
}


def _by_first_byte() -> dict[int, tuple[tuple[bytes, Sign], ...]]:
    found: dict[int, tuple[tuple[bytes, Sign], ...]] = {}
    for magic, sign in _SIGNS.items():
        found[magic[0]] = (*found.get(magic[0], ()), (magic, sign))
    return found


_BY_FIRST_BYTE = _by_first_byte()
_IN_RIFF = {
    b"WAVE": _sign("audio/wav"),
    b"AVI ": _sign("video/x-msvideo"),
    b"WEBP": _sign("image/webp"),
}
_HEIC = _sign("image/heic", "image/avif")
_IN_FTYP = {
    b"heic": _HEIC,
    b"heix": _HEIC,
    b"mif1": _HEIC,
    b"avif": _sign("image/avif"),
    b"qt  ": Sign("video/quicktime", _MP4.kin | {"video/mp4"}),
}
_IN_OFFICE = (
    ("word/", Sign(names.DOCX, frozenset(names.WORD_TYPES))),
    ("xl/", Sign(names.XLSX, frozenset(names.SHEET_TYPES))),
    ("ppt/", Sign(names.PPTX, frozenset(names.SLIDE_TYPES))),
    ("visio/", Sign(names.VSDX, frozenset(names.DRAWING_TYPES))),
    (
        "META-INF/MANIFEST.MF",
        Sign(names.JAR, frozenset((*names.JAR_TYPES, *names.OTHER_ZIP_TYPES))),
    ),
)
_IN_OLE = (
    ("WordDocument", Sign(names.DOC, names.OLE_TYPES)),
    ("Workbook", Sign(names.XLS, names.OLE_TYPES)),
    ("Book", Sign(names.XLS, names.OLE_TYPES)),
    ("PowerPoint Document", Sign(names.PPT, names.OLE_TYPES)),
    ("__properties_version1.0", Sign(names.MSG, names.OLE_TYPES)),
    ("VisioDocument", Sign(names.VSD, names.OLE_TYPES)),
    ("EncryptedPackage", _ENCRYPTED),
)
_STATED_IN_ZIP = re.compile(rb"application/[a-z0-9.+-]{1,100}")
_HTML = _sign("text/html")
_TAGS = re.compile(rb"<(?:!doctype\s+html|html|head|body|title|frameset)[\s>]", re.IGNORECASE)
_XML_HEAD = re.compile(rb"<\?xml\s[^<>]*\?>")
_DOCTYPE = re.compile(rb"<!doctype[^<>\[]*>", re.IGNORECASE)
_ROOTS = {
    b"html": _sign("application/xhtml+xml"),
    b"svg": _sign("image/svg+xml"),
    b"rss": _sign("application/rss+xml"),
    b"feed": _sign("application/atom+xml"),
    b"kml": _sign("application/vnd.google-earth.kml+xml"),
    b"gpx": _sign("application/gpx+xml"),
}
_XML = _sign("application/xml")
_ROOT = re.compile(rb"<(?:[\w.-]+:)?([\w.-]+)")
_MAIL = _sign("message/rfc822", "application/mbox")
_MBOX = _sign("application/mbox", "message/rfc822")
_MAIL_LINE = re.compile(
    rb"(?:return-path|received|delivered-to|message-id|mime-version|from|to|date|subject"
    rb"|content-type|reply-to|x-[a-z-]+):[ \t\r\n]",
    re.IGNORECASE,
)


def find_sign(head: bytes, named: str | None) -> Sign | None:
    """Return what the first bytes show, if they do; `named` is the type that the name tells.

    The more of a file there is, the more is known of what stands in a container.
    """
    for magic, sign in _BY_FIRST_BYTE.get(head[0], ()) if head else ():
        if head.startswith(magic):
            return _looked_into(head, sign, named)
    return _further_in(head) or find_text_sign(head, named)


def find_text_sign(head: bytes, named: str | None) -> Sign | None:
    """Return what a text shows; None where its name says that it is a text of its own kind."""
    if named is not None and is_text(named):
        return None
    text = head[:_HEAD_BYTES]
    if mark := mark_of(head):
        text = text.decode(mark, "ignore").encode().removeprefix(codecs.BOM_UTF8)
    text = text.lstrip()
    return _markup_sign(text) if text.startswith(b"<") else _mail_sign(text)


def _looked_into(head: bytes, sign: Sign, named: str | None) -> Sign:
    """What stands in a container whose first bytes say only that it is one."""
    if sign is _ZIP:
        return _zip_sign(head)
    if sign is _OLE and (named is None or not sign.allows(named)):
        return _ole_sign(head)
    return sign


def _further_in(head: bytes) -> Sign | None:
    """What is shown by bytes that are not the first ones."""
    if head[4:8] == b"ftyp":
        return _IN_FTYP.get(head[8:12], _MP4)
    if head.startswith(b"RIFF"):
        return _IN_RIFF.get(head[8:12])
    if head[257:262] == b"ustar":
        return _TAR
    if head.startswith(b"MZ") and b"\0" in head[:64]:
        return _EXE
    if head.startswith(b"BM") and head[6:10] == b"\0\0\0\0":
        return _BMP
    return None


def _zip_sign(head: bytes) -> Sign:
    for number, (name, begin) in enumerate(_zip_names(head)):
        if number == 0 and name == "mimetype":
            stated = _STATED_IN_ZIP.match(head, begin)
            if stated and (mimetype := stated[0].decode()) in names.ODF_TYPES:
                return _sign(mimetype)
        for prefix, sign in _IN_OFFICE:
            if name.startswith(prefix):
                return sign
        if number == _LOOKED_INTO:
            break
    return _ZIP


def _zip_names(head: bytes) -> Iterator[tuple[str, int]]:
    """Yield the names of local headers, each with where its bytes begin.

    They are searched for: the header before may not tell how long its bytes are.
    """
    begin = 0
    while begin >= 0:
        name_bytes = int.from_bytes(head[begin + 26 : begin + 28], "little")
        extra_bytes = int.from_bytes(head[begin + 28 : begin + 30], "little")
        end = begin + 30 + name_bytes
        yield head[begin + 30 : end].decode("latin-1"), end + extra_bytes
        begin = head.find(b"PK\x03\x04", begin + 30, _LOOKED_BYTES)


def _ole_sign(head: bytes) -> Sign:
    """What the names of streams show, if the directory is where we have read."""
    sector = 1 << min(int.from_bytes(head[30:32], "little"), 12)
    begin = (int.from_bytes(head[48:52], "little") + 1) * max(sector, _OLE_SECTOR)
    directory = head[begin : begin + _ROOT_ENTRIES * _ENTRY_BYTES]
    for name, sign in _IN_OLE:
        if (name + "\0").encode("utf-16-le") in directory:
            return sign
    return _OLE


def _markup_sign(text: bytes) -> Sign | None:
    text, is_xml = _without_prolog(text)
    if _TAGS.match(text):
        return _ROOTS[b"html"] if is_xml else _HTML
    root = _ROOT.match(_DOCTYPE.sub(b"", text, count=1).lstrip())
    name = root[1].lower() if root else b""
    if is_xml:
        return _ROOTS.get(name, _XML)
    return _ROOTS[b"svg"] if name == b"svg" else None


def _without_prolog(text: bytes) -> tuple[bytes, bool]:
    """The text from its first tag on, and whether it has an XML declaration."""
    is_xml = False
    if declaration := _XML_HEAD.match(text):
        is_xml = True
        text = text[declaration.end() :].lstrip()
    while text.startswith(b"<!--") or (is_xml and text.startswith(b"<?")):
        mark = b"-->" if text.startswith(b"<!--") else b"?>"
        text = text.partition(mark)[2].lstrip()
    return text, is_xml


def _mail_sign(text: bytes) -> Sign | None:
    """Two lines of a header of a mail at the beginning show one."""
    if text.startswith(b"From ") and _is_header(text.partition(b"\n")[2]):
        return _MBOX
    return _MAIL if _is_header(text) else None


def _is_header(text: bytes) -> bool:
    if not _MAIL_LINE.match(text):
        return False
    lines = [line for line in text.split(b"\n", 32)[:32] if not line.startswith((b" ", b"\t"))]
    return len(lines) > 2 and all(_MAIL_LINE.match(line + b"\n") for line in lines[:2])
