"""The MIME type of a file, by its content and its name together.

The name tells a type by a fixed table. Where the first bytes show another one beyond doubt, as
those of a PDF that is called `.txt` do, they have the last word; where they show a family, such as
that of zip archives, the name chooses in it. Text that is called as text or source code is stays
what it is called, whatever it is about. Files whose names tell nothing are what their bytes show,
else plain text if they are clean text, else what puremagic's table of first bytes knows.

**Experience:** Word saves RTF as `.doc`, programs export HTML as `.xls`, mail clients save MIME as
`.msg`, and encrypted `.docx` files are OLE2 files.
"""

import codecs
import re

import msgspec
import puremagic

from transforms.charset import find_charset, is_text, mark_of
from transforms.mimetype_table import type_of_name
from transforms.sources.tree.magic import Sign, find_sign

UNKNOWN = "application/octet-stream"
DIFFERS = "mimetype-differs"
"""The code of the notice that a name tells another type than the content."""

_HEAD_BYTES = 64 << 10
_PLAIN = "text/plain"
_TEXT_SHAPED = frozenset(
    (
        "application/pkcs7-mime",
        "application/postscript",
        "application/x-mif",
        "image/vnd.dxf",
    )
)
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_LEAST_CONFIDENCE = 0.4  # four bytes that agree, for puremagic


class Detected(msgspec.Struct, frozen=True):
    """What a file is; `named` is what its name says, where that is something else."""

    mimetype: str
    charset: str | None = None
    named: str | None = None

    @property
    def notice(self) -> str | None:
        """The code of what is to be noticed."""
        return DIFFERS if self.named else None


def detect(name: str, content: bytes, *, charset: str | None = None) -> Detected:
    """Return the type of a document, and its charset if it is a text.

    `content` is all of it, or its first bytes; `charset` is that of texts that show none.
    """
    named = type_of_name(name)
    mimetype = _type_of(content, named, name)
    return Detected(
        mimetype,
        find_charset(content, mimetype=mimetype, stated=charset),
        None if named == mimetype else named,
    )


def _type_of(content: bytes, named: str | None, name: str) -> str:
    sign = find_sign(content, named)
    if sign:
        return _agreed(sign, named)
    head = content[:_HEAD_BYTES]
    if named is None:
        return _PLAIN if _is_clean_text(head) else _guess(head, name)
    if is_text(named) or named in _TEXT_SHAPED or not _is_clean_text(head):
        return named
    return _PLAIN


def _agreed(sign: Sign, named: str | None) -> str:
    return named if named is not None and sign.allows(named) else sign.mimetype


def _is_clean_text(head: bytes) -> bool:
    """Whether bytes are a text for people; its last letter may be cut off."""
    if mark := mark_of(head):
        return mark != "utf-8" or not _CONTROL.search(head)
    if not head or _CONTROL.search(head):
        return False
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def _guess(head: bytes, name: str) -> str:
    """What puremagic knows; of several that match as well, always the same."""
    try:
        found = puremagic.magic_string(head, name)
    except (puremagic.PureError, ValueError):  # nothing matches, or there is nothing
        return UNKNOWN
    matches = [
        (one.confidence, len(one.byte_match), one.mime_type)
        for one in found
        if one.mime_type and one.confidence >= _LEAST_CONFIDENCE
    ]
    return max(matches)[2] if matches else UNKNOWN
