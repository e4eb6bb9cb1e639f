"""A unit: one element of a document that becomes a record, and what stands around it."""

import re
from typing import NamedTuple

import msgspec

NESTED = b"<group"
"""The group of records between the end tags of an inner and an outer group."""

_URL = re.compile(rb"""(?:\surl\s*=\s*["']|<Url>)([^"'<>]+)""")


class Context(msgspec.Struct, frozen=True):
    """What stands around a unit: start tags of root and group, and the header element, as bytes.

    A `group` that is not empty and does not end in `>` could not be read. A group that begins in a
    group, at `depth` 2, is taken as its successor, for end tags get lost; what follows its own end
    tag is in NESTED, because the end tag may not have been lost.
    """

    root: bytes = b""
    header: bytes = b""
    group: bytes = b""
    depth: int = 0


class RawElement(NamedTuple):
    """One element of the document and where it stands; `plain` has no CDATA, comment, PI in it.

    `cdata` tells where the text of its one CDATA section stands, if that is all there is but tags.
    """

    name: str
    text: bytes
    offset: int
    line: int
    plain: bool
    context: Context
    cdata: tuple[int, int] | None = None


def find_url(text: bytes) -> str | None:
    """The url in what was to be a record, as it is written there, if there is one."""
    url = _URL.search(text)
    return url[1].decode("utf-8", "replace") if url else None
