"""Texts of XML: which ones it can hold, and how they are escaped."""

import re

from feedferry.transforms.formats.text.byte_scans import find, has_controls

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NOT_RAW = bytes(range(0x20)) + b"<"
_SPECIAL = bytes(range(0x20)) + b'&<>"'
IN_TEXT = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("\r", "&#13;"))
_IN_TEXT_BYTES = tuple((char.encode(), reference.encode()) for char, reference in IN_TEXT)
IN_ATTRIBUTE = (*IN_TEXT, ('"', "&quot;"), ("\t", "&#9;"), ("\n", "&#10;"))
"""The references in double quotes, the one of `&` first."""

_ATTRIBUTE_TABLE = str.maketrans(dict(IN_ATTRIBUTE))


def holds(text: str) -> bool:
    """Whether XML 1.0 can hold the text: it has no control characters, surrogates, U+FFFE/F."""
    return _FORBIDDEN.search(text) is None


def escape_text(text: str) -> str:
    """Return `text` as character data that reads back unchanged."""
    for char, reference in IN_TEXT:
        text = text.replace(char, reference)
    return text


def escape_attribute(text: str) -> str:
    """Return `text` for use in double quotes; tabs and line ends survive normalization."""
    return text.translate(_ATTRIBUTE_TABLE)


def holds_bytes(text: bytes) -> bool:
    """Whether XML 1.0 can hold `text`, which must be valid UTF-8."""
    if has_controls(text, allowed=b"\n\r\t"):
        return False
    return text.isascii() or (find(text, b"\xef\xbf\xbe") < 0 and find(text, b"\xef\xbf\xbf") < 0)


def escape_bytes(text: bytes) -> bytes:
    """Return UTF-8 `text` as character data; `escape_text` for long texts."""
    for char, reference in _IN_TEXT_BYTES:
        text = text.replace(char, reference)
    return text


def is_plain(text: str) -> bool:
    """Whether `text` needs no escapes in an attribute; false for a few texts that need none.

    Joining many values and checking them at once costs a fraction of checking each.
    """
    try:
        utf8 = text.encode()
    except UnicodeEncodeError:
        return False
    return len(utf8.translate(None, _SPECIAL)) == len(utf8) and b"\xef\xbf" not in utf8


def may_be_attribute(text: str) -> bool:
    """Whether a text of a document can be the values of attributes: it has no markup."""
    utf8 = text.encode()
    return len(utf8.translate(None, _NOT_RAW)) == len(utf8) and b"\xef\xbf" not in utf8
