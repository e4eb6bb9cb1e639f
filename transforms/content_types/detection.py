"""The MIME type of a file, by its content and its name together.

The name has a type in a fixed table. If the first bytes prove another type, as those of a PDF that
is named `.txt`, they win; if they prove only a family of types, such as zip archives, the name
decides between them. Text that is named as text or source code keeps that type. A file without a
known extension has the type of its bytes, or is plain text if it is clean text.

The signatures are those of documents, images, sound, archives and programs that are found in
trees of documents. Bytes that have none of them are of the type of their name.

**Experience:** Word saves RTF as `.doc`, programs export HTML as `.xls`, mail clients save MIME as
`.msg`, and encrypted `.docx` files are OLE2 files.
"""

import codecs
import re
from collections.abc import Iterator

import msgspec

from feedferry.transforms.content_types.charset import find_charset, is_text, mark_of
from feedferry.transforms.content_types.mimetype_table import (
    BZIP2,
    GZIP,
    TAR,
    XZ,
    ZIP,
    load_table,
    type_of_name,
)

UNKNOWN = "application/octet-stream"

_PLAIN = "text/plain"
_HTML = "text/html"
_OLE = "application/x-ole-storage"
_HEAD_BYTES = 64 << 10
_TEXT_HEAD_BYTES = 4096
_ZIP_HEAD_BYTES = 1 << 20
_ZIP_NAMES = 48
_OLE_MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_OLE_SECTOR = 512
_OLE_DIRECTORY_BYTES = 16 * 128
_TEXT_SHAPED = frozenset(
    ("application/pkcs7-mime", "application/postscript", "application/x-mif", "image/vnd.dxf")
)
_CONTROLS = bytes({*range(0x20), 0x7F} - {*b"\t\n\v\f\r\x1b"})
_PROOFS = (
    (rb"%PDF-", "application/pdf"),
    (rb"\{\\rtf", "application/rtf"),
    (rb"%!PS-", "application/postscript"),
    (rb"\x89PNG\r\n\x1a\n", "image/png"),
    (rb"GIF8[79]a", "image/gif"),
    (rb"\xff\xd8\xff", "image/jpeg"),
    (rb"II\*\0|MM\0\*", "image/tiff"),
    (rb"BM.{4}\0{4}", "image/bmp"),
    (rb"RIFF.{4}WEBP", "image/webp"),
    (rb".{4}ftyp(?:heic|heix|mif1)", "image/heic"),
    (rb".{4}ftypqt  ", "video/quicktime"),
    (rb".{4}ftyp", "video/mp4"),
    (rb"RIFF.{4}AVI ", "video/x-msvideo"),
    (rb"RIFF.{4}WAVE", "audio/wav"),
    (rb"ID3[\x02-\x04]", "audio/mpeg"),
    (rb"\x1f\x8b\x08", GZIP),
    (rb"BZh[1-9]1AY&SY", BZIP2),
    (rb"\xfd7zXZ\0", XZ),
    (rb".{257}ustar[\0 ]", TAR),
    (rb"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (rb"Rar!\x1a\x07", "application/vnd.rar"),
    (rb"!<arch>\n", "application/x-archive"),
    (rb"MZ.{0,61}\0", "application/vnd.microsoft.portable-executable"),
    (rb"\x7fELF", "application/x-elf"),
    (rb"SQLite format 3\0", "application/vnd.sqlite3"),
)
_PROOF = re.compile(rb"|".join(b"(%b)" % pattern for pattern, _ in _PROOFS), re.DOTALL)
_IN_OFFICE = (
    ("word/", "docx"),
    ("xl/", "xlsx"),
    ("ppt/", "pptx"),
    ("visio/", "vsdx"),
    ("META-INF/MANIFEST.MF", "jar"),
)
_IN_OLE = (
    ("WordDocument", "doc"),
    ("Workbook", "xls"),
    ("Book", "xls"),
    ("PowerPoint Document", "ppt"),
    ("__properties_version1.0", "msg"),
    ("VisioDocument", "vsd"),
)
_ENCRYPTED_OFFICE = "EncryptedPackage"
_STATED_IN_ZIP = re.compile(rb"application/[a-z0-9.+-]{1,100}")
_HTML_TAG = re.compile(rb"<(?:!doctype\s+html|html|head|body|title|frameset)[\s>]", re.IGNORECASE)
_XML_DECLARATION = re.compile(rb"<\?xml\s[^<>]*\?>")
_DOCTYPE = re.compile(rb"<!doctype[^<>\[]*>", re.IGNORECASE)
_ROOT = re.compile(rb"<(?:[\w.-]+:)?([\w.-]+)")
_ROOTS = {b"html": "application/xhtml+xml", b"svg": "image/svg+xml"}
_MAIL_LINE = (
    rb"(?:return-path|received|delivered-to|message-id|mime-version|from|to|date|subject"
    rb"|content-type|reply-to|x-[a-z-]+):[ \t][^\n]*\n"
)
_MAIL = re.compile(
    rb"(?P<box>From [^\n]*\n)?" + _MAIL_LINE + rb"(?:[ \t][^\n]*\n){0,32}" + _MAIL_LINE,
    re.IGNORECASE,
)


class FileType(msgspec.Struct, frozen=True):
    """The type and charset of a file; `named` is the type of its name, if that is another one."""

    mimetype: str
    charset: str | None = None
    named: str | None = None


def detect(name: str, content: bytes, *, charset: str | None = None) -> FileType:
    """Return the type of a document, and its charset if it is text.

    `content` is all of it, or its first bytes; `charset` is that of texts that declare none.
    """
    named = type_of_name(name)
    mimetype = _type_of(content, named)
    return FileType(
        mimetype,
        find_charset(content, mimetype=mimetype, stated=charset),
        None if named == mimetype else named,
    )


def _type_of(content: bytes, named: str | None) -> str:
    if content.startswith(_OLE_MAGIC):
        return _ole_type(content, named)
    if content.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        shown: str | None = _zip_type(content)
    else:
        proof = _PROOF.match(content)
        shown = None if proof is None else _PROOFS[(proof.lastindex or 0) - 1][1]
    if shown is None and named is not None and is_text(named):
        return named
    head = content[:_HEAD_BYTES]
    if shown is None and _is_clean_text(head):
        shown = _text_type(head)
        if shown is None:
            return named if named in _TEXT_SHAPED else _PLAIN
    if named is not None and (shown is None or _is_compatible(shown, named)):
        return named
    return shown or UNKNOWN


def _is_compatible(shown: str, named: str) -> bool:
    """Whether the type of a name is in the family that the content shows."""
    families = load_table().families
    family = families.get(shown)
    named_family = families.get(named)
    if shown == ZIP and named_family is not None:
        return named_family.partition("/")[0] == family
    return shown == named or (family is not None and family == named_family)


def _is_clean_text(head: bytes) -> bool:
    """Whether bytes are text for people; the last character may be cut off."""
    if mark := mark_of(head):
        return mark != "utf-8" or not _has_controls(head)
    try:
        head.isascii() or codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return head != b"" and not _has_controls(head)


def _has_controls(head: bytes) -> bool:
    return len(head.translate(None, _CONTROLS)) != len(head)


def _zip_type(head: bytes) -> str:
    """Return the type of a zip archive by the names of its first members."""
    table = load_table()
    for number, (name, begin) in enumerate(_zip_names(head)):
        if number == 0 and name == "mimetype":
            stated = _STATED_IN_ZIP.match(head, begin)
            if stated and table.families.get(mimetype := stated[0].decode()) == "zip/odf":
                return mimetype
        for prefix, extension in _IN_OFFICE:
            if name.startswith(prefix):
                return table.by_extension[extension]
        if number == _ZIP_NAMES:
            break
    return ZIP


def _zip_names(head: bytes) -> Iterator[tuple[str, int]]:
    """Yield the names in local headers, each with the offset of its bytes.

    Headers are searched for: the header before need not state how long its bytes are.
    """
    begin = 0
    while begin >= 0:
        name_bytes = int.from_bytes(head[begin + 26 : begin + 28], "little")
        extra_bytes = int.from_bytes(head[begin + 28 : begin + 30], "little")
        end = begin + 30 + name_bytes
        yield head[begin + 30 : end].decode("latin-1"), end + extra_bytes
        begin = head.find(b"PK\x03\x04", begin + 30, _ZIP_HEAD_BYTES)


def _ole_type(head: bytes, named: str | None) -> str:
    """Return the type of an OLE2 file by the names of its streams, if its directory is in the head.

    A name in the family of OLE2 is trusted.
    """
    table = load_table()
    family = table.families.get(named or "", "")
    if named is not None and family == "ole":
        return named
    sector = 1 << min(int.from_bytes(head[30:32], "little"), 12)
    begin = (int.from_bytes(head[48:52], "little") + 1) * max(sector, _OLE_SECTOR)
    directory = head[begin : begin + _OLE_DIRECTORY_BYTES]
    for name, extension in _IN_OLE:
        if f"{name}\0".encode("utf-16-le") in directory:
            return table.by_extension[extension]
    is_encrypted = f"{_ENCRYPTED_OFFICE}\0".encode("utf-16-le") in directory
    return named if named is not None and is_encrypted and family.startswith("zip/") else _OLE


def _text_type(head: bytes) -> str | None:
    """Return the type of markup or mail; None for other text."""
    text = head[:_TEXT_HEAD_BYTES]
    if mark := mark_of(head):
        text = text.decode(mark, "ignore").encode().removeprefix(codecs.BOM_UTF8)
    text = text.lstrip()
    if text.startswith(b"<"):
        return _markup_type(text)
    mail = _MAIL.match(text)
    if mail is None:
        return None
    return "application/mbox" if mail["box"] else "message/rfc822"


def _markup_type(text: bytes) -> str | None:
    declaration = _XML_DECLARATION.match(text)
    if declaration:
        text = text[declaration.end() :].lstrip()
    while text.startswith(b"<!--") or (declaration and text.startswith(b"<?")):
        end = b"-->" if text.startswith(b"<!--") else b"?>"
        text = text.partition(end)[2].lstrip()
    if _HTML_TAG.match(text):
        return _ROOTS[b"html"] if declaration else _HTML
    root = _ROOT.match(_DOCTYPE.sub(b"", text, count=1).lstrip())
    name = root[1].lower() if root else b""
    if declaration:
        return _ROOTS.get(name, "application/xml")
    return _ROOTS[b"svg"] if name == b"svg" else None
