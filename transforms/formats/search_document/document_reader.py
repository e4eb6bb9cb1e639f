"""Read a document of a search index: the fields of our writers, others as fields of their names.

A document without the fields of a decision is shown to no user by our filter, so that its ACL
permits no user.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import msgspec
import pybase64

from feedferry.schemas.errors import RecordError
from feedferry.schemas.record import (
    Action,
    Arrival,
    Content,
    Crawl,
    Field,
    Meta,
    Provenance,
    Record,
)
from feedferry.schemas.reject import KEPT_BYTES, Place, Reject, record_error, reject_bytes
from feedferry.schemas.span import Span
from feedferry.transforms.access.index_fields import acl_of_fields, field_names
from feedferry.transforms.formats.base import MORE_BYTES, ReadOptions
from feedferry.transforms.formats.search_document.document_holds import OWN_FIELDS
from feedferry.transforms.formats.text.dates import parse_date

ReadLines = Callable[[bytes, Provenance, ReadOptions], Record]
"""Returns the record of some lines; it may raise any exception."""

_ACCESS = frozenset(field_names())


def read_lines(
    lines: bytes, read: ReadLines, *, place: Place, span: Span, options: ReadOptions
) -> Record | Reject:
    """Return the record of an action or a command, or the reject of what is none."""
    provenance = Provenance(
        source=span.source,
        span=span.ordinal,
        line=place.line,
        offset=place.offset,
        datasource=span.feed.datasource if span.feed else None,
        feedtype=(span.feed and span.feed.feedtype) or None,
    )
    try:
        if len(lines) > options.max_unit_bytes + MORE_BYTES:
            found = f"an action of {len(lines)} bytes"
            raise RecordError("line-too-long", f"{found}; raise ⟦max_content_bytes⟧")
        return read(lines, provenance, options)
    except Exception as exc:
        return reject_bytes(record_error(exc), span=span, place=place, data=lines[:KEPT_BYTES])


def document_of(
    stated: dict[str, object], key: str, provenance: Provenance, *, zone: str = "UTC"
) -> Record:
    """Return the document with an id; raise RecordError for a value of another type."""
    data, display_url = text_of(stated, "data"), text_of(stated, "display_url")
    modified, size = stated.get("modified"), stated.get("size")
    if size is not None and type(size) is not int:
        raise RecordError("bad-value", f"size is {size!r}; expected a number")
    datasource = text_of(stated, "datasource") or provenance.datasource
    access = {name: texts_of(stated, name) for name in _ACCESS & stated.keys()}
    return Record(
        url=text_of(stated, "url") or key,
        action=Action.ADD,
        arrival=Arrival.PUSHED,
        content=None if data is None else Content(_decoded(data)),
        categories=tuple(texts_of(stated, "categories")) if "categories" in stated else (),
        size=size,
        modified=None if modified is None else _moment(modified, zone),
        metadata=tuple(_metadata(stated.get("meta"), "meta")),
        fields=(*_fields(stated.get("fields"), "fields"), *_fields(_others(stated), "a field")),
        acl=acl_of_fields(access),
        crawl=None if display_url is None else Crawl(display_url=display_url),
        provenance=msgspec.structs.replace(provenance, datasource=datasource),
        title=text_of(stated, "title"),
        description=text_of(stated, "description"),
        keywords=text_of(stated, "keywords"),
        body=text_of(stated, "body"),
        mimetype=text_of(stated, "mimetype"),
    )


def text_of(values: dict[str, object], name: str) -> str | None:
    value = values.get(name)
    if not isinstance(value, str | None):
        raise RecordError("bad-value", f"{name} is {value!r}; expected a text")
    return value


def texts_of(values: dict[str, object], name: str) -> list[str]:
    value = values[name]
    texts = [
        text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)
    ]
    if len(texts) != (len(value) if isinstance(value, list) else 1):
        raise RecordError("bad-value", f"{name} is {value!r}; expected a list of texts")
    return texts


def _metadata(values: object, name: str) -> Iterator[Meta]:
    if not isinstance(values, dict | None):
        raise RecordError("bad-value", f"{name} is {values!r}; expected an object")
    for key, value in (values or {}).items():
        for one in value if isinstance(value, list) else [value]:
            yield Meta(key, one if isinstance(one, str) else msgspec.json.encode(one).decode())


def _others(stated: dict[str, object]) -> dict[str, object]:
    """Return the fields of users and of other programs."""
    return {name: value for name, value in stated.items() if name not in OWN_FIELDS}


def _fields(values: object, place: str) -> Iterator[Field]:
    named: dict[str, list[str]] = {}
    for meta in _metadata(values, place):
        named.setdefault(meta.name, []).append(meta.value)
    stated = values if isinstance(values, dict) else {}
    for name, texts in named.items():
        is_list = isinstance(stated.get(name), list)
        yield Field(name, tuple(texts), many=is_list and len(texts) > 1)


def _decoded(data: str) -> bytes:
    try:
        return pybase64.b64decode(data, validate=True)
    except ValueError as exc:
        raise RecordError("bad-base64", f"{data[:40]!r}; expected base64") from exc


def _moment(value: object, zone: str) -> datetime:
    if isinstance(value, int):  # milliseconds since 1970
        return datetime.fromtimestamp(value / 1000, UTC)
    moment = parse_date(value, zone=zone) if isinstance(value, str) else None
    if moment is None:
        raise RecordError("bad-date", f"modified is {value!r}; expected a time")
    return moment
