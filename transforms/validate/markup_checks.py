"""The checks of markup: each element of a GSA feed or groups feed against its DTD.

Elements are checked one by one, in the order of the stream, with one in memory. The reader reports
those that are not well-formed.
"""

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import IO

from lxml import etree

from feedferry.schemas.errors import RecordError
from feedferry.schemas.reject import Place
from feedferry.schemas.span import ElementContext, Span
from feedferry.transforms.formats.base import Format, ReadOptions
from feedferry.transforms.formats.element_names import ElementNames
from feedferry.transforms.formats.xml.elements import parse_markup
from feedferry.transforms.formats.xml.scanning.raw_elements import RawElement
from feedferry.transforms.formats.xml.scanning.scanner import RecordScanner
from feedferry.transforms.validate.rules import Finding, all_rules

_DOCTYPE = b"<!DOCTYPE"


def markup_findings(
    stream: IO[bytes], format_: Format, *, span: Span, options: ReadOptions
) -> Iterator[Finding]:
    """Yield the first error of each element that the DTD of the format does not allow."""
    names = format_.element_names
    if names is None or format_.dtd is None:
        return
    dtd = find_dtd(format_.dtd)
    context: ElementContext | None = None
    scanner = RecordScanner(stream, names, span, max_unit_bytes=options.max_unit_bytes)
    for item in scanner:
        if not isinstance(item, RawElement):
            continue
        if context is None and names.header and _DOCTYPE not in scanner.document.prolog:
            yield _finding(
                "doctype-missing", "no DOCTYPE; expected that of gsafeed", Place(0, 0, 1), span
            )
        if item.context is not context:
            context = item.context
            frame = _frame(names, context)
            yield from _of_markup(frame, dtd, item, span) if frame else ()
            if names.header and not context.group:
                place = Place(item.offset, len(item.text), item.line)
                yield _finding("dtd", f"a record outside {names.group}; expected one", place, span)
        yield from _of_markup(item.text, dtd, item, span)


def _frame(names: ElementNames, context: ElementContext) -> bytes:
    """Return a document with the header and the group of a context; nothing if one is unknown."""
    if not context.header.startswith(b"<") or not context.group.endswith(b">"):
        return b""
    root = names.root.encode()
    return b"<%b>%b%b</%b></%b>" % (root, context.header, context.group, names.group.encode(), root)


@cache
def find_dtd(name: str) -> etree.DTD:
    """Return the DTD of a file in `schemas`."""
    with files("feedferry.schemas").joinpath(name).open("rb") as stream:
        return etree.DTD(stream)


def _of_markup(markup: bytes, dtd: etree.DTD, at: RawElement, span: Span) -> Iterator[Finding]:
    try:
        element = parse_markup(markup)
    except RecordError:
        return
    if not dtd.validate(element):
        first = dtd.error_log.filter_from_errors()[0]
        place = Place(at.offset, len(at.text), at.line + max(first.line - 1, 0))
        yield _finding("dtd", first.message, place, span, url=element.get("url"))


def _finding(
    code: str, detail: str, place: Place, span: Span, *, url: str | None = None
) -> Finding:
    return all_rules()[code].finding(
        detail, source=span.source, line=place.line, offset=place.offset, url=url
    )
