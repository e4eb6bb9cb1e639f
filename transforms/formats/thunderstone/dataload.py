"""Reads and writes Thunderstone dataload XML: an Item for each record, with an action of its own.

**Spec:** Thunderstone dataload API, "Specifying all fields manually" to "Other Details"; the
namespace of additional fields and their sets of values: Parametric Search Appliance manual,
"Submitting Content", "Combining the two".

**Keeps:**

- Meta as metadata: `name: value` on a line is a pair, another line a value without a name; blank
  lines say nothing. The line syntax is ours, the manual only says "separated by newlines".
- Category as it stands, one category per element; several elements are several categories.
- A child of Item in a namespace, that has the shape of an additional field, is a field. One in
  another namespace than the documented one keeps it.
- What no field understands (`rid`, numbers and dates in other forms, a second Title, Refs of
  another url) as Extras, written again behind the fields; prefixes that only a value uses go.
- An empty Title, Description, Keywords, Body, MimeType or Charset is empty text, and empty Refs
  and Errors are none, not unstated. Any other empty element says nothing, but clears in an update,
  where it is an Extra. An empty RawData beside a Body says nothing; without, the document is empty.
- Text that XML cannot hold, in base64 of the Charset that the Item declares, else of UTF-8.

**Drops:** acl, overwrite_acls, crawl, provenance; fractions of seconds; the order of elements;
comments; extras of other formats; an empty content beside a body. A time in the hour that a zone
repeats reads back as the first of the two.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import IO

from schemas.content import to_base64
from schemas.errors import RecordError
from schemas.record import Action, Arrival, Field, History, Provenance, Record
from schemas.reject import Reject
from schemas.span import Span
from transforms.formats.base import Encoder, ReadOptions, ReadResult, WriteOptions, write_all
from transforms.formats.dates import local_date
from transforms.formats.thunderstone.extras import extra_markup, parse_only, start_item
from transforms.formats.thunderstone.item_reader import ACTIONS, FIELD_NAME, parse_item
from transforms.formats.thunderstone.text import (
    BASE64,
    CHARSET,
    DATATYPES,
    PARAMETRIC,
    enclose,
    metadata_text,
    ratio_text,
    seconds_text,
    tags,
    text_element,
    url_element,
)
from transforms.formats.thunderstone.thunderstone_nested import ERRORS, REFS, nested_element
from transforms.formats.xml.element_names import ElementNames
from transforms.formats.xml.elements import (
    ElementReader,
    Grammar,
    ParsedElement,
    cut_spans,
)
from transforms.formats.xml.serializer import attributes, element, holds

ELEMENT_NAMES = ElementNames(
    root="ThunderstoneReplication",
    records=("Item",),
    prefixes=(("dt", DATATYPES), ("u", PARAMETRIC)),
)
_PAYLOAD = re.compile(rb"""<RawData\s+(?!xmlns:)[\w.-]+:dt\s*=\s*["']bin\.base64["']\s*>""")
_PROLOG = b'<?xml version="1.0" encoding="UTF-8"?>\n'
_ROOT = tags(ELEMENT_NAMES.root, attributes([("xmlns:dt", DATATYPES), ("xmlns:u", PARAMETRIC)]))
_TYPES = {action: stated.encode() for stated, action in ACTIONS.items()}
_END_ITEM = tags("Item")[1] + b"\n"
_NO_HISTORY = History()
_WHOLE = Span()
_AS_IS = ReadOptions()
_PLAIN = WriteOptions()


def read(
    stream: IO[bytes], *, span: Span = _WHOLE, options: ReadOptions = _AS_IS
) -> Iterator[Record | Reject]:
    """Yield a record for each Item, and a Reject for what is none, in stream order."""
    return _begin(stream, span, options).read()


def read_feed(
    stream: IO[bytes], *, span: Span = Span(), options: ReadOptions = ReadOptions()
) -> Iterator[ReadResult]:
    """Yield what `read` does, and notices."""
    units = _begin(stream, span, options)
    yield from units.read()
    yield from units.notices()


def _begin(stream: IO[bytes], span: Span, options: ReadOptions) -> ElementReader[Record]:
    def build(parsed: ParsedElement) -> Record:
        unit = parsed.raw
        provenance = Provenance(
            source=span.source, span=span.ordinal, line=unit.line, offset=unit.offset
        )
        return parse_item(
            parsed.element, options=options, provenance=provenance, content=parsed.payload
        )

    grammar = Grammar(ELEMENT_NAMES, _PAYLOAD, "RawData", build)
    return ElementReader(stream, grammar, span=span, options=options)


def cut(
    stream: IO[bytes], *, source: str, span_bytes: int, options: ReadOptions = _AS_IS
) -> Iterator[Span]:
    """Yield spans of at least `span_bytes`, but for the last, that begin at an Item."""
    return cut_spans(stream, ELEMENT_NAMES, source=source, span_bytes=span_bytes, options=options)


def write(records: Iterable[Record], stream: IO[bytes], *, options: WriteOptions = _PLAIN) -> None:
    """Write one document; raise RecordError at a record that the format cannot hold."""
    write_all(encoder(options), records, stream)


def encoder(options: WriteOptions) -> Encoder:
    """Return the encoder of Items."""
    return ThunderstoneEncoder(options)


class ThunderstoneEncoder:
    """Encodes records as Items; text that is base64 already is copied.

    A record to update the search indexes is an Item with a Type; the manual has them come last,
    after a batch.
    """

    extension = "xml"
    frame_bytes = 0

    def __init__(self, options: WriteOptions) -> None:
        self._zone = options.zone

    def prolog(self) -> bytes:
        return b"".join((_PROLOG, _ROOT[0], b"\n"))

    def epilog(self) -> bytes:
        return _ROOT[1] + b"\n"

    def frame(self, records: list[bytes]) -> bytes:
        return b"".join(records)

    def encode(self, record: Record) -> bytes:
        """Return the Item of a record; raise RecordError where the format cannot hold it."""
        markup = [start_item(record.extras), enclose("Type", _TYPES[record.action])]
        if record.action is not Action.UPDATE_INDEX:
            _check(record)
            charset = record.charset or CHARSET
            markup += self._core(record, charset)
            markup += (_field(field, charset) for field in record.fields)
        markup += map(extra_markup, record.extras)
        markup.append(_END_ITEM)
        return b"".join(markup)

    def _core(self, record: Record, charset: str) -> Iterator[bytes]:
        for name, text in self._texts(record):
            if name == "Url":
                yield url_element(name, record.url, charset)
            elif text is not None:
                yield text_element(name, text, charset)
        history = record.history or _NO_HISTORY
        if history.references is not None:
            yield nested_element(REFS, history.references, url=record.url)
        if history.errors is not None:
            yield nested_element(ERRORS, history.errors, url=record.url)
        if record.content is not None:
            start, end = tags("RawData", BASE64)
            yield from (start, to_base64(record.content), end)

    def _texts(self, record: Record) -> Iterator[tuple[str, str | None]]:
        """Yield names and texts in the order of the specification."""
        history = record.history or _NO_HISTORY
        yield "Size", _integer(record.size)
        yield "Visited", self._date(record.visited)
        yield "Dlsecs", _number("Dlsecs", history.download_seconds, seconds_text)
        yield "Depth", _integer(history.depth)
        yield "Url", record.url
        yield "Title", record.title
        yield "Body", record.body
        yield "Keywords", record.keywords
        yield "Description", record.description
        yield "Meta", metadata_text(record.metadata) if record.metadata else None
        yield from (("Category", _category(category)) for category in record.categories)
        yield "Modified", self._date(record.modified)
        yield "NextCheck", self._date(record.next_check)
        yield "Views", _integer(history.views)
        yield "Clicks", _integer(history.clicks)
        yield "CTR", _number("CTR", history.click_ratio, ratio_text)
        yield "Pop", _integer(history.popularity)
        yield "MimeType", record.mimetype
        yield "Charset", record.charset

    def _date(self, moment: datetime | None) -> str | None:
        return None if moment is None else local_date(moment, zone=self._zone)


def _check(record: Record) -> None:
    if not record.url.strip():
        reason = f"{record.action.value} of a record without url; expected one"
        raise RecordError("no-url", reason)
    if record.arrival is Arrival.CRAWLED:
        reason = "a url to be crawled; expected content: Thunderstone data cannot ask for a fetch"
        raise RecordError("crawled", reason)


def _category(category: str) -> str:
    if not category.strip():
        raise RecordError("bad-category", f"category {category!r}; expected a name")
    return category


def _integer(number: int | None) -> str | None:
    return None if number is None else str(number)


def _number(name: str, number: float | None, form: Callable[[float], str]) -> str | None:
    if number is None:
        return None
    if not math.isfinite(number):
        raise RecordError("bad-number", f"{name} {number!r}; expected a finite number")
    return form(number)


def _field(field: Field, charset: str) -> bytes:
    if not FIELD_NAME.fullmatch(field.name):
        reason = f"field {field.name!r}; expected a letter or _, then letters, digits, _ and -"
        raise RecordError("bad-field", reason)
    if not field.values:
        raise RecordError("bad-field", f"field {field.name!r} without values; expected one or more")
    if field.namespace is None:
        return _field_element(f"u:{field.name}", field, charset)
    return _field_element(f"f:{field.name}", field, charset, _namespace(field))


def _namespace(field: Field) -> str:
    """Return the declaration of a field's namespace; raise RecordError where XML has no such."""
    uri = field.namespace or ""
    if uri != DATATYPES and holds(uri):
        declared = attributes([("xmlns:f", uri)])
        if parse_only(element("f:f", "", declared)) is not None:
            return declared
    reason = f"field {field.name!r} in the namespace {uri!r}; expected another uri"
    raise RecordError("bad-field", reason)


def _field_element(name: str, field: Field, charset: str, attrs: str = "") -> bytes:
    if not field.many and len(field.values) == 1:
        return text_element(name, field.values[0], charset, attrs)
    values = (text_element("value", value, charset) for value in field.values)
    return enclose(name, b"".join(values), attrs)
