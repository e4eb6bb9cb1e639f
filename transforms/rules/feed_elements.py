"""Elements of an XML feed as documents: each with the markup that it needs around it."""

import re
from collections.abc import Container, Iterator
from typing import IO, NamedTuple

from lxml import etree

from feedferry.schemas.feed import FULL, INCREMENTAL
from feedferry.schemas.span import ElementContext, Span
from feedferry.transforms.formats import Format
from feedferry.transforms.formats.element_names import ElementNames
from feedferry.transforms.formats.gsa.record_reader import feed_context
from feedferry.transforms.formats.xml.scanning.raw_elements import RawElement
from feedferry.transforms.formats.xml.scanning.scanner import RecordScanner

DECLARATION = b'<?xml version="1.0" encoding="UTF-8"?>\n'

_MAX_RECORD_BYTES = 1 << 30
_FULL = re.compile(rb"(<feedtype[^<>]*>\s*)full(\s*</feedtype)", re.IGNORECASE)


class FeedMarkup(NamedTuple):
    """The start tags and the header before an element, in a feed that is not full."""

    root_name: str
    group_name: str
    root: bytes
    header: bytes
    group: bytes

    @property
    def head(self) -> bytes:
        return DECLARATION + self.root + self.header + self.group

    @property
    def tail(self) -> bytes:
        return f"{self.group_end}</{self.root_name}>".encode()

    @property
    def group_end(self) -> str:
        return f"</{self.group_name}>" if self.group else ""

    def is_document(self, text: bytes) -> bool:
        """Whether the text is well-formed XML between head and tail."""
        return is_well_formed(self.head + text + self.tail)


class FeedElement(NamedTuple):
    """An element, or damaged bytes; `text` is in UTF-8, `original` has the bytes of the feed."""

    offset: int
    text: bytes
    original: bytes
    is_damaged: bool
    markup: FeedMarkup


def find_elements(
    stream: IO[bytes], format_: Format, span: Span, offsets: Container[int]
) -> Iterator[FeedElement]:
    """Yield what begins at these bytes of a feed; damage that is too large to keep is left out."""
    names = format_.element_names
    if names is None:
        return
    scanner = RecordScanner(stream, names, span, max_unit_bytes=_MAX_RECORD_BYTES)
    for item in scanner:
        if isinstance(item, list) or item.offset not in offsets:
            continue
        if isinstance(item, RawElement):
            markup, original = _markup(names, item.context), scanner.original(item.text)
            yield FeedElement(item.offset, item.text, original, False, markup)
        elif not item.truncated:
            markup = _markup(names, scanner.step_context)
            yield FeedElement(item.offset, item.data, item.data, True, markup)


def is_well_formed(text: bytes) -> bool:
    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True)
    try:
        etree.fromstring(text, parser)
    except (etree.XMLSyntaxError, ValueError):
        return False
    return True


def _markup(names: ElementNames, context: ElementContext) -> FeedMarkup:
    """Return the markup of a context; a damaged root or header is written anew."""
    end = f"</{names.root}>".encode()
    root = context.root if is_well_formed(context.root + end) else f"<{names.root}>".encode()
    header = _FULL.sub(rb"\1incremental\2", context.header)
    if header and not is_well_formed(header):
        feed = feed_context(context)
        feedtype = INCREMENTAL if feed.feedtype == FULL else feed.feedtype or INCREMENTAL
        datasource = feed.datasource or ""
        header = (
            f"<header><datasource>{datasource}</datasource><feedtype>{feedtype}</feedtype></header>"
        ).encode()
    return FeedMarkup(names.root, names.group, root, header, context.group)
