"""The charset of a text: as it says itself, else as its bytes show beyond doubt, else as its user.

Nothing is guessed by statistics and nothing is transcoded: the bytes of a document stay as they
are, and what is found here is evidence that travels beside them. What becomes of it:

- A Thunderstone appliance is told (`Charset`), and converts to its own.
- A gsafeed has no place for it. The feeds guide strongly recommends UTF-8 ("Using the UTF-8
  Encoding"); content that is no clean XML text in UTF-8 travels as base64, and then the appliance
  knows its charset only from what the content says itself: a byte order mark, a declaration.

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
_HEAD_BYTES = 4096  # HTML looks for it in 1024 bytes; pages in the wild have scripts before it
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
_NO_CHARSETS = frozenset(  # codecs of Python that no other program knows
    ("idna", "mbcs", "oem", "punycode", "raw-unicode-escape", "undefined", "unicode-escape")
)
_WIDE = ("utf-16", "utf-32")


def is_text(mimetype: str) -> bool:
    """Whether documents of that type are text, so that they have a charset."""
    return (
        mimetype.startswith("text/") or mimetype in _TEXTS or mimetype.endswith(("+xml", "+json"))
    )


def mark_of(head: bytes) -> str | None:
    """Return the charset that a byte order mark tells."""
    for mark, charset in _MARKS:
        if head.startswith(mark):
            return charset
    return None


def find_charset(content: bytes, *, mimetype: str, stated: str | None = None) -> str | None:
    """Return the charset of a whole document, `stated` where it shows none; None if it is no text.

    A mail has only the one that its header tells: its parts may be in several.
    """
    if not is_text(mimetype):
        return None
    found = mark_of(content) or _declared(content, mimetype)
    if found or mimetype in _MAILS:
        return found
    return UTF_8 if is_utf_8(content) else stated


def is_told(content: bytes, *, mimetype: str) -> bool:
    """Whether a document says itself what charset it is in."""
    return (mark_of(content) or _declared(content, mimetype)) is not None


def is_utf_8(content: bytes) -> bool:
    """Whether bytes are UTF-8, of which ASCII is a part."""
    if content.isascii():
        return True
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _declared(content: bytes, mimetype: str) -> str | None:
    """What the text says of itself, if that is a charset at all and can be true."""
    if mimetype in _MAILS:
        header = _BLANK_LINE.split(content[:_HEADER_BYTES], 1)[0]
        found = _MAIL.search(header)
    else:
        head = content[:_HEAD_BYTES]
        found = _XML.match(head.lstrip()) if b"<?xml" in head else None
        if not found and "html" in mimetype:
            found = _META.search(head)
    name = found[1].decode("ascii").lower() if found else ""
    return name if _is_charset(name) else None


@lru_cache(maxsize=256)
def _is_charset(name: str) -> bool:
    """Whether a declaration can be true: one that is read as ASCII says nothing of wider units."""
    try:
        codec = codecs.lookup(name).name
        b"a".decode(name)
    except (LookupError, ValueError):
        return False
    return codec not in _NO_CHARSETS and not codec.startswith(_WIDE)
