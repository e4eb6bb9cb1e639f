"""The charset of a text: as it declares, else UTF-8 if its bytes are, else as stated by the user.

Nothing is guessed by statistics and nothing is transcoded: the bytes of a document stay as they
are, and the charset is recorded next to them.

- Thunderstone dataload XML states it (`Charset`), and the appliance converts.
- A GSA feed has no place for it. The feeds guide strongly recommends UTF-8 ("Using the UTF-8
  Encoding"). Content that is not clean XML text in UTF-8 is sent as base64, and the appliance knows
  its charset only from a byte order mark or a declaration in the content.

**Spec:** XML 1.0, 4.3.3 and appendix F; HTML, "Determining the character encoding"; RFC 2045, 5.1.
"""

import codecs
import re
from functools import lru_cache

UTF_8 = "utf-8"

_MARKS = (
    (codecs.BOM_UTF8, UTF_8),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_MARK_BYTES = tuple(mark for mark, _ in _MARKS)
_TEXTS = frozenset(
    (
        "application/ecmascript",
        "application/javascript",
        "application/json",
        "application/mbox",
        "application/sql",
        "application/x-sh",
        "application/xml",
        "application/xml-dtd",
        "message/rfc822",
    )
)
_MAILS = ("message/rfc822", "application/mbox")
_HEAD_BYTES = 4096  # HTML searches 1024 bytes; real pages have scripts before the declaration
_HEADER_BYTES = 64 << 10
_XML = re.compile(rb"""<\?xml\s[^<>]*?\sencoding\s*=\s*["']([A-Za-z0-9._:-]{1,40})["']""")
_META = re.compile(
    rb"""<meta\s[^<>]*?(?<![\w-])charset\s*=\s*["']?\s*([A-Za-z0-9._:-]{1,40})""", re.IGNORECASE
)
_MAIL = re.compile(
    rb"""^content-type:(?:[^\n]|\n[ \t])*?;\s*charset\s*=\s*"?([A-Za-z0-9._:'()+-]{1,40})""",
    re.IGNORECASE | re.MULTILINE,
)
_BLANK_LINE = re.compile(rb"\r?\n\r?\n")
NO_CHARSETS = frozenset(
    ("idna", "mbcs", "oem", "punycode", "raw-unicode-escape", "undefined", "unicode-escape")
)
"""Codecs of Python that are no charsets of documents: they are quadratic, warn, or need one system.

Codecs of bytes fail by themselves.
"""

_WIDE = ("utf-16", "utf-32")


@lru_cache(maxsize=1 << 10)
def is_text(mimetype: str) -> bool:
    """Whether documents of that type are text, and so have a charset."""
    return (
        mimetype.startswith("text/") or mimetype in _TEXTS or mimetype.endswith(("+xml", "+json"))
    )


def mark_of(head: bytes) -> str | None:
    """Return the charset of a byte order mark."""
    if not head.startswith(_MARK_BYTES):
        return None
    return next(charset for mark, charset in _MARKS if head.startswith(mark))


def find_charset(content: bytes, *, mimetype: str, stated: str | None = None) -> str | None:
    """Return the charset of a complete document; None if it is no text.

    `stated` is used if the document declares none and is not UTF-8. A mail only has the charset of
    its header: its parts may have others.
    """
    if not is_text(mimetype):
        return None
    declared = mark_of(content) or _declared(content, mimetype)
    if declared or mimetype in _MAILS:
        return declared
    try:
        content.isascii() or content.decode()
    except UnicodeDecodeError:
        return stated
    return UTF_8


def declares_charset(content: bytes, *, mimetype: str) -> bool:
    """Whether a document itself states its charset."""
    return (mark_of(content) or _declared(content, mimetype)) is not None


def has_one_charset(mimetype: str) -> bool:
    """Whether documents of that type are texts in one charset; the parts of mails have others."""
    return is_text(mimetype) and mimetype not in _MAILS


def to_utf8(content: bytes, charset: str, *, mimetype: str) -> bytes:
    """Return a text in UTF-8, with UTF-8 in its declaration; raise ValueError for other bytes.

    A byte order mark is left out.
    """
    if not is_charset(charset):
        raise ValueError(f"{charset!r}; expected the name of a charset")
    text = content.decode(charset).removeprefix("\ufeff").encode()
    declaration = _declaration(text, mimetype)
    if declaration is None:
        return text
    begin, end = declaration.span(1)
    return text[:begin] + UTF_8.encode() + text[end:]


def _declared(content: bytes, mimetype: str) -> str | None:
    """Return the declared charset, if Python knows it and the declaration can be true."""
    match = _declaration(content, mimetype)
    name = match[1].decode("ascii").lower() if match else ""
    if not is_charset(name) or codecs.lookup(name).name.startswith(_WIDE):
        return None  # a UTF-16 text cannot declare it in ASCII
    return name


def _declaration(content: bytes, mimetype: str) -> re.Match[bytes] | None:
    if mimetype in _MAILS:
        header = _BLANK_LINE.split(content[:_HEADER_BYTES], 1)[0]
        return _MAIL.search(header)
    head = content[:_HEAD_BYTES]
    match = _XML.match(head, len(head) - len(head.lstrip()))
    return _META.search(head) if not match and "html" in mimetype else match


@lru_cache(maxsize=256)
def is_charset(name: str) -> bool:
    """Whether Python knows a charset of documents by that name."""
    try:
        codec = codecs.lookup(name).name
        return isinstance("a".encode(name), bytes) and codec not in NO_CHARSETS
    except (LookupError, ValueError):
        return False
