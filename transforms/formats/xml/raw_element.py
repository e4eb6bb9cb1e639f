"""One element of a document that becomes a record, and its context, as bytes."""

import re
from typing import NamedTuple

from schemas.span import ElementContext

NESTED = b"<group"
"""The `group` of a context between the end tags of an inner and an outer group."""

_URL = re.compile(rb"""(?:\surl\s*=\s*["']|<Url>)([^"'<>]+)""")


class RawElement(NamedTuple):
    """One element of the document: its bytes and its place in the stream.

    A *plain* element has no CDATA section, comment or processing instruction. `cdata` is the range
    of the text of a CDATA section that is the only section of the element. It is None without such
    a section, and for an element that the scanner read one piece of markup at a time.
    """

    name: str
    text: bytes
    offset: int
    line: int
    is_plain: bool
    context: ElementContext
    cdata: tuple[int, int] | None = None


def find_url(text: bytes) -> str | None:
    """Return the first URL in the markup of a record, with its references, if there is one."""
    url = _URL.search(text)
    return url[1].decode("utf-8", "replace") if url else None
