"""Parse the elements that the scanner finds, each by itself.

The parser never sees a DOCTYPE, so there are no entities to expand, and it has no network access.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from typing import IO, Generic, NamedTuple, TypeVar

from lxml import etree
from msgspec.structs import replace

from feedferry.schemas.errors import FormatError, RecordError
from feedferry.schemas.feed import FeedHeader
from feedferry.schemas.membership import Membership
from feedferry.schemas.notice import Notice
from feedferry.schemas.record import Record
from feedferry.schemas.reject import Place, Reject, record_error, reject_bytes
from feedferry.schemas.span import ElementContext, Span, SpanEnd
from feedferry.transforms.formats.base import ReadOptions
from feedferry.transforms.formats.element_names import ElementNames
from feedferry.transforms.formats.fast_path.columns.record_batch import RecordBatch
from feedferry.transforms.formats.fast_path.elements.element_block import ElementBlock
from feedferry.transforms.formats.xml.scanning.frame_reader import HEADER_DAMAGED
from feedferry.transforms.formats.xml.scanning.raw_elements import Bulk, RawElement
from feedferry.transforms.formats.xml.scanning.rejected_ranges import find_url
from feedferry.transforms.formats.xml.scanning.scanner import RecordScanner
from feedferry.transforms.formats.xml.serializer import shut_parser

_MAX_ATTRIBUTES = 1000
_MANY_BYTES = 64 << 10
"""Attributes are counted in an element of more bytes."""

_CDATA = re.compile(rb"<!\[CDATA\[.*?\]\]>", re.S)
_UNDECLARED_ENTITY = 26
_PLACE = re.compile(r"(?:: <!--.*)?, line \d+, column \d+$", re.S)
_DEFAULT_NAMESPACE = re.compile(rb"""\sxmlns\s*=\s*(?:"[^"]*"|'[^']*')|\s+""")
_PARSER_STATE = re.compile(r"^(?:xmlParse(?=\w+: )|StartTag: |PCDATA (?=invalid))")


class ParsedElement(NamedTuple):
    """An element and its raw form."""

    element: etree._Element
    raw: RawElement


Built = TypeVar("Built", bound=Record | Membership)
"""A format makes one of each element."""

Build = Callable[[ParsedElement], Built]


class Grammar(NamedTuple, Generic[Built]):
    """The parts of reading that differ between formats.

    `build` makes a record or a membership of an element, or raises RecordError. `bulk` makes
    records of a run of elements without a parser, or returns None. `header` returns the header of a
    document without records.
    """

    names: ElementNames
    build: Build[Built]
    bulk: Bulk | None = None
    header: Callable[[ElementContext], FeedHeader] | None = None


def parse_markup(markup: bytes) -> etree._Element:
    """Return the element of a well-formed fragment; raise RecordError otherwise."""
    try:
        return etree.fromstring(markup, _parser())
    except etree.XMLSyntaxError as exc:
        raise _malformed(exc) from exc


class ElementReader(Generic[Built]):
    """Reads a stream: what `Grammar.build` makes of each element, and rejects, in order."""

    def __init__(
        self, stream: IO[bytes], grammar: Grammar[Built], *, span: Span, options: ReadOptions
    ) -> None:
        self._grammar = grammar
        self._span = span
        self._max_tags = options.max_tags
        self._scanner = RecordScanner(
            stream, grammar.names, span, max_unit_bytes=options.max_unit_bytes, bulk=grammar.bulk
        )
        self._noted: ElementContext | None = None
        self._headers_with_records: set[bytes] = set()

    def read(
        self,
    ) -> Iterator[
        Built | Record | RecordBatch | ElementBlock | Reject | FeedHeader | Notice | SpanEnd
    ]:
        """Yield the records or memberships of the stream, and a Reject for all else.

        Then yield the headers of the documents without records, a notice if the encoding of the
        document is doubtful, and the end of a span that ends at a border.
        """
        yield from self._read_elements()
        if self._grammar.header is not None:
            for markup, context in self._scanner.document.ended.items():
                header = self._grammar.header(context)
                if markup not in self._headers_with_records:
                    yield header
                if header.repair:
                    yield self._notice("header-repaired", header.repair)
        if self._scanner.doubtful_encoding is not None:
            codec, offset, meant = self._scanner.doubtful_encoding
            text = "text that is valid UTF-8" if meant == "utf-8" else "a byte from 0x80 to 0x9F"
            detail = (
                f"{text}, in a document that declares {codec}; read as declared:"
                f" --encoding {meant} reads it as {meant.replace('utf', 'UTF')}"
            )
            yield self._notice("encoding-doubtful", detail, offset)
        if self._scanner.border is not None:
            yield self._scanner.border

    def _read_elements(
        self,
    ) -> Iterator[Built | Record | RecordBatch | ElementBlock | Reject | Notice]:
        for item in self._scanner:
            if isinstance(item, list):
                context = self._scanner.context
                for of_run in item:
                    yield self._read_bulk(of_run, context)
                continue
            result = self._parse(item) if isinstance(item, RawElement) else item
            del item  # a large element must not be held while its record is in use
            if isinstance(result, Reject) and result.datasource is None:
                result = self._in_feed(result, self._scanner.context)
            yield result
            if isinstance(result, Reject) and result.code == HEADER_DAMAGED:
                yield self._header_damaged(result)

    def _header_damaged(self, reject: Reject) -> Notice:
        header = self._grammar.header and self._grammar.header(self._scanner.context)
        known = [
            f"the {name} {value!r}" if value else f"no {name}"
            for name, value in (
                ("datasource", header and header.datasource),
                ("feedtype", header and header.feedtype),
            )
        ]
        detail = (
            f"{' and '.join(known)} in what is left of the header; the records after it are read:"
            " --datasource and --feedtype state what is missing"
        )
        return self._notice(HEADER_DAMAGED, detail, reject.offset)

    def _notice(self, code: str, detail: str, offset: int = 0) -> Notice:
        source, span = self._span.source, self._span.ordinal
        return Notice(code=code, detail=detail, source=source, span=span, offset=offset)

    def _read_bulk(
        self, item: Record | RecordBatch | ElementBlock | RawElement, context: ElementContext
    ) -> Built | Record | RecordBatch | ElementBlock | Reject:
        """Return what was read without a parser, and parse the rest."""
        if isinstance(item, RawElement):
            return self._parse(item)
        if not isinstance(item, ElementBlock):
            self._note(context)
            return item
        item.read = self._parse
        for number in range(len(item.ends)):
            if context is self._noted:
                break
            item.parsed(number)  # that notes it, unless the record is refused
        return item

    def _parse(self, raw: RawElement) -> Built | Reject:
        try:
            parsed = parse_element(raw, self._grammar.names, max_tags=self._max_tags)
            built = self._grammar.build(parsed)
        except Exception as exc:
            return self._reject(raw, record_error(exc))
        self._note(raw.context)
        return built

    def _note(self, context: ElementContext) -> None:
        if context is not self._noted:
            self._noted = context
            self._headers_with_records.add(context.header)

    def _reject(self, raw: RawElement, exc: RecordError) -> Reject:
        text = self._scanner.original(raw.text)
        place = Place(raw.offset, len(text), raw.line)
        url = find_url(raw.text)
        reject = reject_bytes(exc, span=self._span, place=place, data=text, url=url)
        return self._in_feed(reject, raw.context)

    def _in_feed(self, reject: Reject, context: ElementContext) -> Reject:
        """Return a reject with the feed that it was found in, if its header can be used."""
        if self._grammar.header is None:
            return reject
        try:
            header = self._grammar.header(context)
        except FormatError:  # the next record raises it
            return reject
        except Exception as exc:
            record_error(exc)  # a header that a defect cannot read; other errors are raised again
            return reject
        return replace(reject, datasource=header.datasource, feedtype=header.feedtype)


def parse_element(raw: RawElement, names: ElementNames, *, max_tags: int) -> ParsedElement:
    """Parse an element in its root; raise RecordError if it is not well-formed or too large.

    Text and elements before and after it are an error, too: the parser drops a byte order mark, and
    takes what is around an element for the text of the root.
    """
    text = raw.text
    if len(text) > max_tags:
        _limit_tags(text, max_tags)
    start_tag, end_tag = _root_tags(raw.context.root, names.root, names.prefixes)
    root = parse_markup(start_tag + text + end_tag)
    for entry in _parser().error_log:
        if entry.level >= etree.ErrorLevels.ERROR:  # a later warning can hide that it failed
            raise _malformed(
                etree.XMLSyntaxError(entry.message, entry.type, entry.line, entry.column)
            )
    element, *others = root if start_tag else [root]
    if not text.startswith(f"<{raw.name}".encode()) or others or element.tail:
        expected = f"<{raw.name}> and nothing before or after it"
        raise RecordError("malformed", f"text or elements around a record; expected {expected}")
    if len(text) > _MANY_BYTES:
        _limit_attributes(element)
    return ParsedElement(element, raw)


def _limit_tags(text: bytes, max_tags: int) -> None:
    """Raise RecordError for an element whose tags would take too much memory when parsed."""
    if text.count(b"<") <= max_tags:
        return
    tags = _CDATA.sub(b"", text).count(b"<")
    if tags > max_tags:
        reason = f"{tags} tags; expected at most {max_tags}; raise ⟦max_content_bytes⟧"
        raise RecordError("record-too-large", reason)


def _limit_attributes(element: etree._Element) -> None:
    """Raise RecordError for too many attributes: to read them costs the square of their number."""
    count = max(len(inner.attrib) for inner in element.iter(etree.Element))
    if count > _MAX_ATTRIBUTES:
        reason = f"an element with {count} attributes; expected at most {_MAX_ATTRIBUTES}"
        raise RecordError("too-many-attributes", reason)


@cache
def _parser() -> etree.XMLParser:
    return shut_parser(huge_tree=True)


@lru_cache(maxsize=16)
def _root_tags(
    root: bytes, name: str, prefixes: tuple[tuple[str, str], ...]
) -> tuple[bytes, bytes]:
    """Return a root around an element that declares all prefixes, and no default namespace.

    No format has a default namespace; some feeds declare one. White space becomes one space, so
    that lines count from the element. Without prefixes no root is needed: parsing it takes time.
    """
    try:
        etree.fromstring(root + f"</{name}>".encode())
    except etree.XMLSyntaxError:
        root = f"<{name}>".encode()
    missing = "".join(
        f' xmlns:{prefix}="{uri}"'
        for prefix, uri in prefixes
        if f"xmlns:{prefix}".encode() not in root
    )
    root = _DEFAULT_NAMESPACE.sub(b" ", root)[:-1] + missing.encode() + b">"
    return (root, f"</{name}>".encode()) if b"xmlns:" in root else (b"", b"")


def _malformed(exc: etree.XMLSyntaxError) -> RecordError:
    """Return the parser's message with the line in the record, counted from 1."""
    if "EntityRef:" in (exc.msg or ""):
        code, found, expected = "malformed", "an & that is not escaped", "&amp;"
    else:
        code = "entity" if exc.code == _UNDECLARED_ENTITY else "malformed"
        found = _PARSER_STATE.sub("", _PLACE.sub("", exc.msg or "no XML")).strip()
        expected = "well-formed XML"
    row = exc.position[0]
    where = f" in line {row} of the record" if row > 1 else ""
    return RecordError(code, f"{found}{where}; expected {expected}")
