"""Read and write Thunderstone dataload XML: an Item for each record, with its own action.

**Spec:** Thunderstone dataload API, "Specifying all fields manually" to "Other Details". The
namespace of additional fields and their sets of values: Parametric Search Appliance manual,
"Submitting Content", "Combining the two".

**Keeps:**

- Meta as metadata: a line `name: value` is a pair, another line is a value without a name, and a
  blank line is skipped. The line syntax is ours; the manual only says "separated by newlines".
- Each Category element as one category, unchanged.
- A child of Item in a namespace that has the shape of an additional field, as a field. A namespace
  other than the documented one is kept.
- Elements that no field understands as extras: `rid`, numbers and dates in other forms, a second
  Title, Refs of another URL. They are written after the fields, without prefixes that only a value
  uses.
- An empty Title, Description, Keywords, Body, MimeType or Charset as empty text, and empty Refs and
  Errors as empty lists. Any other empty element is skipped; in an update it clears a field of the
  appliance, so it is an extra. An empty RawData next to a Body is skipped; without a Body it is
  an empty document.
- Text that XML cannot hold, in base64 of the Charset of the Item, or of UTF-8 without one.

**Drops:** acl, overwrite_acls, crawl, provenance; fractions of seconds; the order of elements;
comments; extras of other formats; an empty content next to a body. A time in the hour that a zone
repeats reads back as the first of the two.
"""

from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache, partial
from typing import IO

import pybase64

from feedferry.schemas.content import to_base64
from feedferry.schemas.errors import RecordError
from feedferry.schemas.record import Action, Arrival, Extra, Field, Provenance, Record
from feedferry.schemas.span import Span
from feedferry.transforms.formats.base import Encoder, ReadOptions, ReadResult, WriteOptions
from feedferry.transforms.formats.fast_path.columns.cells import (
    CONTENT_CELLS,
    Cells,
    as_stated,
    of_dates,
)
from feedferry.transforms.formats.fast_path.columns.column_kinds import Column, ColumnKind
from feedferry.transforms.formats.fast_path.elements.element_codes import CONTENT, META, RECORD
from feedferry.transforms.formats.fast_path.plans.element_plan import Pieces
from feedferry.transforms.formats.text.dates import local_date
from feedferry.transforms.formats.text.xml_text import escape_bytes, escape_text, holds, holds_bytes
from feedferry.transforms.formats.thunderstone.dataload_format import (
    DATATYPES,
    ELEMENT_NAMES,
    PARAMETRIC,
)
from feedferry.transforms.formats.thunderstone.item_reader import (
    ATTRIBUTE_PLACE,
    CHARSET,
    FIELD_NAME,
    LEAVES,
    TEXT_PLACE,
    encode_text,
    parse_item,
    parse_item_extras,
)
from feedferry.transforms.formats.thunderstone.item_runs import ItemRuns
from feedferry.transforms.formats.thunderstone.rows import NESTED, SEPARATORS, TYPES, item_rows
from feedferry.transforms.formats.xml.elements import (
    ElementReader,
    Grammar,
    ParsedElement,
    parse_markup,
)
from feedferry.transforms.formats.xml.serializer import ExtraMarkup, attributes, element

_PROLOG = b'<?xml version="1.0" encoding="UTF-8"?>\n'
BASE64 = attributes([("dt:dt", "bin.base64")])
_RESULTS = attributes([("xmlns:dt", DATATYPES)])


@lru_cache(maxsize=256)
def tags(name: str, attrs: str = "") -> tuple[bytes, bytes]:
    """Return the start tag and the end tag of an element; `attrs` comes from `attributes`."""
    start, slash, end = element(name, "", attrs).rpartition("</")
    return start.encode(), f"{slash}{end}".encode()


def enclose(name: str, markup: bytes, attrs: str = "") -> bytes:
    """Return an element with markup in it."""
    start, end = tags(name, attrs)
    return b"".join((start, markup, end))


_ROOT = tags(ELEMENT_NAMES.root, attributes([("xmlns:dt", DATATYPES), ("xmlns:u", PARAMETRIC)]))
_END_ITEM = tags("Item")[1] + b"\n"
_NAMED = {"Title": "1", "Keywords": "2", "Description": "3", "Category": "4"}
"""The codes of elements that metadata become by their names."""

_TYPES = {TYPES.decode(name): enclose("Type", name.encode()) for name in TYPES.names}


def read(
    stream: IO[bytes], *, span: Span = Span(), options: ReadOptions = ReadOptions()
) -> Iterator[ReadResult]:
    """Yield a record for each Item and a Reject for other markup, in stream order; then notices."""

    def build(parsed: ParsedElement) -> Record:
        line, offset = parsed.raw.line, parsed.raw.offset
        provenance = Provenance(source=span.source, span=span.ordinal, line=line, offset=offset)
        return parse_item(parsed.element, options=options, provenance=provenance)

    grammar = Grammar(ELEMENT_NAMES, build, ItemRuns(options, build).bulk)
    return ElementReader(stream, grammar, span=span, options=options).read()


class ThunderstoneEncoder(Encoder):
    """Encodes records as Items; base64 is copied.

    A record to update the search indexes is an Item with only a Type. The manual has it come last
    in a batch.
    """

    extension = "xml"
    elements_once = ""

    def __init__(self, options: WriteOptions = WriteOptions()) -> None:
        self._rows, write_date = item_rows(options.zone), partial(local_date, zone=options.zone)
        self.cells: Cells = {
            **CONTENT_CELLS,
            ColumnKind.TEXT: (_texts,),
            ColumnKind.URL: (_texts,),
            ColumnKind.DATE: (of_dates(write_date),),
            ColumnKind.TIME: (lambda times: [*map(write_date, times)],),
            ColumnKind.INTEGER: (as_stated,),
        }

    def prolog(self) -> bytes:
        return b"".join((_PROLOG, _ROOT[0], b"\n"))

    def epilog(self) -> bytes:
        return _ROOT[1] + b"\n"

    def encode(self, record: Record) -> bytes:
        """Return the Item of a record; raise RecordError if the format cannot hold it."""
        start, extras = encode_extras(record.extras)
        markup = [start, _TYPES[record.action]]
        if record.action is not Action.UPDATE_INDEX:
            _check(record)
            charset = record.charset or CHARSET
            markup += (markup for _, markup in self._elements(record, charset))
            markup += (_field(field, charset) for field in record.fields)
        return b"".join((*markup, extras, _END_ITEM))

    def elements(self, record: Record) -> Pieces | None:
        """Return the elements of an Item, and the lines of its metadata; None for a rare Item."""
        if record.action is Action.UPDATE_INDEX or record.extras or record.fields:
            return None
        pieces = [(RECORD, tags("Item")[0] + _TYPES[record.action])]
        elements = [*self._elements(record, record.charset or CHARSET)]
        absent = {"Meta", *_NAMED} - {name for name, _ in elements}
        elements += [(name, b"") for name in absent]
        names = {row.name: place for place, row in enumerate(self._rows.rows)}
        for name, markup in sorted(elements, key=lambda of: names.get(of[0], len(names))):
            if name in _NAMED:
                pieces.append((_NAMED[name] if markup else "", markup))
            elif name == "Meta":
                pieces.extend(_metadata_pieces(markup))
            else:
                pieces.append((CONTENT if name in ("RawData", "Body") else RECORD, markup))
        return [*pieces, ("", _END_ITEM)]

    def _elements(self, record: Record, charset: str) -> Iterator[tuple[str, bytes]]:
        """Yield the elements with their names; contents have parts, and metadata may be empty."""
        for name, encode, value in self._rows.stated_by(record).columns(record):
            if value is None:
                continue
            if name == "Url":
                yield name, url_element(name, record.url, charset)
            elif isinstance(value, tuple):
                texts = [encode(each) or "" for each in value]
                separator = SEPARATORS[name] if texts else ""
                for text in [separator.join(texts)] if separator else texts:
                    yield name, text_element(name, text, charset)
                if not texts:
                    yield name, b""
            else:
                yield name, text_element(name, encode(value) or "", charset)
        for row in NESTED if record.history else ():
            nested = getattr(record.history, row.attribute)
            if nested is not None:
                yield row.name, nested_element(row.name, nested, url=record.url)
        if record.content is not None:
            start, end = tags("RawData", BASE64)
            for part in (start, to_base64(record.content), end):
                yield "RawData", part


def _metadata_pieces(markup: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the lines of metadata, and what is around them."""
    start, end = tags("Meta")
    if not markup.startswith(start):  # in base64
        yield "", markup
        return
    yield "", start
    for number, text in enumerate(markup.removeprefix(start).removesuffix(end).split(b"\n")):
        if number:
            yield "", b"\n"
        yield META, text
    yield "", end


def _texts(values: Column) -> Column:
    """Return texts of attributes as texts of elements, which need fewer references."""
    text = "\n".join(values)
    return text.replace("&quot;", '"').split("\n") if "&quot;" in text else values


def _check(record: Record) -> None:
    if not record.url.strip():
        reason = f"{record.action.value} of a record without url; expected one"
        raise RecordError("no-url", reason)
    if record.arrival is Arrival.CRAWLED:
        reason = "a url to be crawled; expected content: Thunderstone data cannot ask for a fetch"
        raise RecordError("crawled", reason)
    for category in record.categories:
        if not category.strip():
            raise RecordError("bad-category", f"category {category!r}; expected a name")


def _field(field: Field, charset: str) -> bytes:
    if not FIELD_NAME.fullmatch(field.name):
        reason = f"field {field.name!r}; expected a letter or _, then letters, digits, _ and -"
        raise RecordError("bad-field", reason)
    if not field.values:
        raise RecordError("bad-field", f"field {field.name!r} without values; expected one or more")
    name, attrs = f"u:{field.name}", ""
    if field.namespace is not None:
        name, attrs = f"f:{field.name}", _declare_namespace(field, field.namespace)
    if not field.many and len(field.values) == 1:
        return text_element(name, field.values[0], charset, attrs)
    values = (text_element("value", value, charset) for value in field.values)
    return enclose(name, b"".join(values), attrs)


def _declare_namespace(field: Field, uri: str) -> str:
    """Return the declaration of the prefix `f`; raise RecordError if XML does not allow the URI."""
    if uri != DATATYPES and holds(uri):
        declaration = attributes([("xmlns:f", uri)])
        with suppress(RecordError):
            parse_markup(element("f:f", "", declaration).encode())
            return declaration
    reason = f"field {field.name!r} in the namespace {uri!r}; expected another uri"
    raise RecordError("bad-field", reason)


# Elements


def text_element(name: str, text: str, charset: str, attrs: str = "") -> bytes:
    """Return an element with a text, in base64 if XML cannot hold it."""
    try:
        utf8 = text.encode()
    except UnicodeEncodeError:
        utf8 = b"\0"
    if holds_bytes(utf8):
        return enclose(name, escape_bytes(utf8), attrs)
    return _base64_element(name, encode_text(text, charset, name), attrs)


def url_element(name: str, url: str, charset: str) -> bytes:
    """Return an element with a URL, in base64 if white space around it must be kept."""
    if url == url.strip():
        return text_element(name, url, charset)
    return _base64_element(name, encode_text(url, charset, name))


def _base64_element(name: str, data: bytes, attrs: str = "") -> bytes:
    return enclose(name, pybase64.b64encode(data), attrs + BASE64)


def nested_element(name: str, texts: tuple[str, ...], *, url: str) -> bytes:
    """Return the element that `parse_nested` reads."""
    if not texts:
        return enclose(name, b"", BASE64)
    leaf = LEAVES[name]
    write = url_element if leaf == "Ref" else text_element
    location = url_element("Url", url, CHARSET)
    results = (enclose("result", location + write(leaf, text, CHARSET)) for text in texts)
    return _base64_element(name, enclose("results", b"".join(results), _RESULTS))


def encode_extras(extras: tuple[Extra, ...]) -> tuple[bytes, bytes]:
    """Return the start tag of an Item with the attributes among `extras`, and the others' markup.

    Extras may come from anywhere. Raises RecordError unless they read back as they are.
    """
    extras = tuple(extra for extra in extras if extra.place.startswith("Item/"))
    if not extras:
        return tags("Item")[0], b""
    elements = [
        extra for extra in extras if not extra.place.startswith((ATTRIBUTE_PLACE, TEXT_PLACE))
    ]
    texts = [escape_text(extra.value) for extra in extras if extra.place == TEXT_PLACE]
    try:
        start = f"<Item{ExtraMarkup(extras).attributes('Item')}>".encode()
        markup = "".join((*texts, *(extra.value for extra in elements))).encode()
        item = parse_markup(b"%b%b</Item>" % (start, markup))
    except (RecordError, ValueError):
        item = None
    stated = [extra for extra in extras if extra not in elements]
    if (
        item is None
        or [*parse_item_extras(item)] != stated
        or [f"Item/{child.tag!s}" for child in item] != [extra.place for extra in elements]
    ):
        places = ", ".join(extra.place for extra in extras)
        reason = f"{places} of an Item; expected extras with the markup of their places"
        raise RecordError("bad-extra", reason)
    return start, markup
