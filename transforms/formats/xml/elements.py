"""Raw elements, parsed: many at a time while they are well-formed, alone where one is not.

The parser never sees a DOCTYPE, so there are no entities to expand, and it has no network. Base64
payloads are cut out before it runs and handed on as the bytes that they are.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from itertools import groupby
from typing import IO, Generic, NamedTuple, TypeVar

import msgspec
from lxml import etree

from schemas.defect import record_error
from schemas.errors import RecordError
from schemas.membership import Membership
from schemas.notice import Notice
from schemas.record import Record
from schemas.reject import Place, Reject, reject_bytes
from schemas.span import Span
from transforms.formats.base import ReadOptions
from transforms.formats.xml.element_names import ElementNames
from transforms.formats.xml.raw_element import Context, RawElement, find_url
from transforms.formats.xml.scanner import Bulk, RecordScanner

_BATCH_BYTES = 64 << 10
_ATTRIBUTES = 1000
_PAYLOAD_BYTES = 512
"""Payloads below this are left to the parser."""

_CDATA = re.compile(rb"<!\[CDATA\[.*?\]\]>", re.S)
_UNDECLARED_ENTITY = 26
_WHERE = re.compile(r"(?:: <!--.*)?, line \d+, column \d+$", re.S)
_DEFAULT_NAMESPACE = re.compile(rb"""\sxmlns\s*=\s*(?:"[^"]*"|'[^']*')|\s+""")
_INSIDE = re.compile(r"^(?:xmlParse(?=\w+: )|StartTag: |PCDATA (?=invalid))")


class ParsedElement(NamedTuple):
    """One unit's element, where it stands, and the payload that was cut out of it, if any."""

    element: etree._Element
    unit: RawElement
    payload: bytes | None


One = TypeVar("One", bound=Record | Membership)
"""What a format makes of a unit."""

Build = Callable[[ParsedElement], One]


class Grammar(NamedTuple, Generic[One]):
    """What a format adds to the reading of units.

    `build` makes a record or a membership of an element, or raises RecordError. `quick` does so of
    a unit without a parser, or returns None; `bulk` of many units that are alike, records only.
    `payload` matches the start tag of an element whose text is base64; `payload_name` is its name.
    """

    vocabulary: ElementNames
    payload: re.Pattern[bytes]
    payload_name: str
    build: Build[One]
    quick: Callable[[RawElement], One | None] | None = None
    bulk: Bulk | None = None


def read_units(
    stream: IO[bytes], grammar: Grammar[One], *, span: Span, options: ReadOptions
) -> Iterator[One | Record | Reject]:
    """Yield what is built of each unit, a Reject for others and for what is between, in order."""
    return begin_units(stream, grammar, span=span, options=options).results()


def begin_units(
    stream: IO[bytes], grammar: Grammar[One], *, span: Span, options: ReadOptions
) -> "ElementReader[One]":
    """Return the units of a stream, of which nothing is read yet."""
    scanner = RecordScanner(
        stream,
        grammar.vocabulary,
        span,
        max_unit_bytes=options.max_unit_bytes,
        bulk=grammar.bulk and _without_defects(grammar.bulk),
    )
    return ElementReader(grammar, scanner, span, max_tags=options.max_tags)


def cut_units(
    stream: IO[bytes],
    vocabulary: ElementNames,
    *,
    source: str,
    span_bytes: int,
    options: ReadOptions = ReadOptions(),
) -> Iterator[Span]:
    """Yield spans of at least `span_bytes`, but for the last, that begin at a unit.

    A stream that is not UTF-8 is one span: its offsets cannot be sought.
    """
    span = Span(source=source)
    scanner = RecordScanner(
        stream,
        vocabulary,
        span,
        max_unit_bytes=options.max_unit_bytes,
        skim_bytes=span_bytes,
    )
    first, mended = vocabulary.units[0], False
    for one in scanner:
        if not scanner.is_utf8:
            break
        if isinstance(one, Reject) or mended:  # a stretch may end by what follows it
            mended = isinstance(one, Reject) or (isinstance(one, RawElement) and one.name != first)
            continue
        offset, line = (one.offset, one.line) if isinstance(one, RawElement) else scanner.place
        if offset - span.offset >= span_bytes:
            yield msgspec.structs.replace(span, length=offset - span.offset)
            span = Span(
                source=source,
                ordinal=span.ordinal + 1,
                offset=offset,
                line=line,
                context=msgspec.json.encode(scanner.context),
            )
    yield span


def parse_markup(markup: bytes) -> etree._Element:
    """Return the element of a well-formed fragment; raise RecordError otherwise."""
    try:
        return etree.fromstring(markup, _parser())
    except etree.XMLSyntaxError as exc:
        raise _malformed(exc) from exc


def _without_defects(bulk: Bulk) -> Bulk:
    """Return `bulk`, but with None where it fails: then its units are read one by one."""

    def take(run: bytes, offset: int, line: int, context: Context) -> list[Record] | None:
        try:
            return bulk(run, offset, line, context)
        except Exception as exc:
            record_error(exc)
            return None

    return take


def _never(unit: RawElement) -> None:
    """For a format whose units are all parsed."""


class ElementReader(Generic[One]):
    """Reads the elements of a stream; those in the same context are parsed together."""

    def __init__(
        self, grammar: Grammar[One], scanner: RecordScanner, span: Span, *, max_tags: int
    ) -> None:
        self._grammar = grammar
        self._max_tags = max_tags
        self._scanner = scanner
        self._span = span
        self._parser = _parser()
        self._size = 0
        self._noted: Context | None = None
        self._headers: set[bytes] = set()
        self.waiting: list[RawElement] = []

    def results(self) -> Iterator[One | Record | Reject]:
        """Read all units of the scanner."""
        quick = self._grammar.quick or _never
        for unit in self._scanner:
            if not isinstance(unit, RawElement):
                yield from self.flush()
                if isinstance(unit, list):
                    self.note(self._scanner.context)
                    yield from unit
                else:
                    yield unit
                continue
            try:
                one: One | Reject | None = quick(unit)
            except Exception as exc:
                one = self.reject(unit, record_error(exc))
            else:
                if one is not None:
                    self.note(unit.context)
            if one is not None:
                del unit  # a large record is not to be held beside what was made of it
                if self.waiting:
                    yield from self.flush()
                yield one
            elif (many := self.refuse_markup(unit, self._max_tags)) is not None:
                yield from self.flush()
                yield many
            elif self.wait(unit):
                del unit
                yield from self.flush()
        yield from self.flush()

    def notices(self) -> Iterator[Notice]:
        """Yield a notice if the encoding of the document is doubtful, after all was read."""
        if self._scanner.doubt is None:
            return
        codec, offset = self._scanner.doubt
        yield Notice(
            code="encoding-doubtful",
            detail=f"text that is valid UTF-8, in a document that declares {codec}; read as"
            " declared: --encoding utf-8 reads it as UTF-8",
            source=self._span.source,
            span=self._span.ordinal,
            offset=offset,
        )

    def note(self, context: Context) -> None:
        """Note that the document with this context has a record."""
        if context is not self._noted:
            self._noted = context
            self._headers.add(context.header)

    def without_records(self) -> list[Context]:
        """Return the contexts of the documents that have ended without a record."""
        ended = self._scanner.ended.items()
        return [context for header, context in ended if header not in self._headers]

    def wait(self, unit: RawElement) -> bool:
        """Add a unit; return whether it is time to flush."""
        self.waiting.append(unit)
        self._size += len(unit.text)
        return self._size > _BATCH_BYTES

    def refuse_markup(self, unit: RawElement, max_tags: int) -> Reject | None:
        """Return the reject of a unit whose elements would take too much memory when parsed."""
        if len(unit.text) <= max_tags or unit.text.count(b"<") <= max_tags:
            return None
        tags = _CDATA.sub(b"", unit.text).count(b"<")
        if tags <= max_tags:
            return None
        reason = f"{tags} tags; expected at most {max_tags}; raise --max-content-bytes"
        return self.reject(unit, RecordError("record-too-large", reason))

    def flush(self) -> Iterator[One | Reject]:
        """Read all that wait, in order."""
        waiting, self.waiting, self._size = self.waiting, [], 0
        runs = [list(units) for _, units in groupby(waiting, lambda unit: id(unit.context))]
        waiting.clear()
        runs.reverse()
        while runs:
            yield from self._read(runs.pop())

    def _read(self, units: list[RawElement]) -> Iterator[One | Reject]:
        """Read units that stand in one context; none is held while what was built is yielded."""
        try:
            built = self._build_all(units)
        except Exception as exc:
            yield from self._apart(units, _refusal(exc))
            return
        units.clear()
        built.reverse()
        while built:
            yield built.pop()

    def _build_all(self, units: list[RawElement]) -> list[One | Reject]:
        texts, payloads = zip(*map(self._lighten, units), strict=True)
        elements = self._parse(units[0].context, texts)
        del texts
        return [self._build(parsed) for parsed in map(ParsedElement, elements, units, payloads)]

    def _lighten(self, unit: RawElement) -> tuple[bytes, bytes | None]:
        """Cut out a long base64 payload, if the unit has one and nothing can be mistaken for it."""
        if len(unit.text) < _PAYLOAD_BYTES or not unit.plain:
            return unit.text, None
        tag = self._grammar.payload.search(unit.text)
        if not tag:
            return unit.text, None
        end = unit.text.find(b"<", tag.end())
        payload = unit.text[tag.end() : end]
        lines = b"\n" * payload.count(b"\n")  # so that what follows keeps its line
        return unit.text[: tag.end() - 1] + lines + b">" + unit.text[end:], payload

    def _parse(self, context: Context, texts: tuple[bytes, ...]) -> list[etree._Element]:
        root = etree.fromstring(
            b"".join((self._open(context.root), *texts, self._shut())), self._parser
        )
        for entry in self._parser.error_log:
            if entry.level >= etree.ErrorLevels.ERROR:  # a later warning can hide that it failed
                raise etree.XMLSyntaxError(entry.message, entry.type, entry.line, entry.column)
        elements = list(root)
        if len(elements) != len(texts):  # pragma: no cover - units are delimited
            raise etree.XMLSyntaxError("units that are not one element each", 0, 0, 0)
        return elements

    def _is_only(self, element: etree._Element) -> bool:
        """Whether the payload can only have come from the one child of that name."""
        name = self._grammar.payload_name
        return len(element.findall(name)) == 1 == sum(1 for _ in element.iter(name))

    def _whole(self, parsed: ParsedElement) -> ParsedElement:
        try:
            [element] = self._parse(parsed.unit.context, (parsed.unit.text,))
        except etree.XMLSyntaxError as exc:  # the payload was not parsed before
            raise _malformed(exc) from exc
        return ParsedElement(element, parsed.unit, None)

    def _open(self, root: bytes) -> bytes:
        return _wrapper(root, self._grammar.vocabulary.root, self._grammar.vocabulary.prefixes)

    def _shut(self) -> bytes:
        return f"</{self._grammar.vocabulary.root}>".encode()

    def _apart(self, units: list[RawElement], exc: RecordError) -> Iterator[One | Reject]:
        """Halve the batch until each unit that cannot be parsed is alone."""
        if len(units) == 1:
            yield self.reject(units[0], exc)
            return
        middle = len(units) // 2
        yield from self._read(units[:middle])
        yield from self._read(units[middle:])

    def _build(self, parsed: ParsedElement) -> One | Reject:
        try:
            if len(parsed.unit.text) > _BATCH_BYTES:
                _limit_attributes(parsed.element)
            if parsed.payload is not None and not self._is_only(parsed.element):
                parsed = self._whole(parsed)
            built = self._grammar.build(parsed)
        except Exception as exc:
            return self.reject(parsed.unit, record_error(exc))
        self.note(parsed.unit.context)
        return built

    def reject(self, unit: RawElement, exc: RecordError) -> Reject:
        text = self._scanner.original(unit.text)
        place = Place(unit.offset, len(text), unit.line)
        return reject_bytes(exc, span=self._span, place=place, data=text, url=find_url(unit.text))


def _limit_attributes(element: etree._Element) -> None:
    """To take the attributes of an element costs the square of their number."""
    most = max(len(inner.attrib) for inner in element.iter(etree.Element))
    if most > _ATTRIBUTES:
        reason = f"an element with {most} attributes; expected at most {_ATTRIBUTES}"
        raise RecordError("too-many-attributes", reason)


@cache
def _parser() -> etree.XMLParser:
    return etree.XMLParser(
        huge_tree=True,
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        remove_comments=True,
        remove_pis=True,
    )


@lru_cache(maxsize=16)
def _wrapper(root: bytes, name: str, prefixes: tuple[tuple[str, str], ...]) -> bytes:
    """The start tag that units are parsed in: the document's own, with all prefixes declared.

    No format has a default namespace; some feeds declare one. White space becomes one space, so
    that lines count from the unit.
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
    return _DEFAULT_NAMESPACE.sub(b" ", root)[:-1] + missing.encode() + b">"


def _refusal(exc: Exception) -> RecordError:
    return _malformed(exc) if isinstance(exc, etree.XMLSyntaxError) else record_error(exc)


def _malformed(exc: etree.XMLSyntaxError) -> RecordError:
    """The parser's words, and the line of the record that they are about, counted from 1."""
    if "EntityRef:" in (exc.msg or ""):
        code, found, expected = "malformed", "an & that is not escaped", "&amp;"
    else:
        code = "entity" if exc.code == _UNDECLARED_ENTITY else "malformed"
        found = _INSIDE.sub("", _WHERE.sub("", exc.msg or "no XML")).strip()
        expected = "well-formed XML"
    row = exc.position[0]
    where = f" in line {row} of the record" if row > 1 else ""
    return RecordError(code, f"{found}{where}; expected {expected}")
