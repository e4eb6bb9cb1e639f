"""Records and rejects as Avro datums, by their published schemas.

**Spec:** Apache Avro 1.12, "Binary Encoding" and "Schema Resolution".

Records are encoded without fastavro, which looks up 23 fields and their unions in a dict and takes
six times as long. The bytes are the same as those of fastavro.
"""

import io
import json
import struct
from datetime import UTC, datetime
from functools import cache, lru_cache
from importlib.resources import files
from typing import IO, Any, TypeVar

import fastavro
import msgspec
from fastavro.read import SchemaResolutionError

from schemas.acl import Access, Acl, Inheritance, Principal, Scope
from schemas.avro_parts import (
    END,
    FLAG,
    INT,
    LONG,
    NULL,
    STATED_FLAG,
    VALUE,
    array,
    bounded,
    extra_part,
    not_unicode,
    optional_text,
    put_provenance,
    stated_symbols,
    symbols,
    text_part,
)
from schemas.errors import RecordError
from schemas.record import (
    Action,
    Anchor,
    Arrival,
    Authmethod,
    Crawl,
    Encoding,
    Field,
    History,
    Meta,
    Record,
    Scoring,
)
from schemas.reject import Reject
from schemas.varint import LENGTHS, SHORT, length, long

UNREADABLE = (
    EOFError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    RecursionError,
    MemoryError,
    msgspec.ValidationError,
)
"""Exceptions of fastavro and msgspec for bytes that are not a datum of a schema."""

_Struct = TypeVar("_Struct")
_KEPT_TYPES = (bytes, datetime)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAME_CHARS = 64
_DOUBLE = struct.Struct("<d").pack

_ACTION = symbols(Action)
_ENCODING = symbols(Encoding)
_SCOPE = symbols(Scope)
_ACCESS = symbols(Access)
_ARRIVAL = stated_symbols(Arrival)
_INHERITANCE = stated_symbols(Inheritance)
_AUTHMETHOD = stated_symbols(Authmethod)
_SCORING = stated_symbols(Scoring)


def encode(record: Record) -> bytes:
    """Return one schemaless datum; raise RecordError for a value that Avro cannot hold."""
    try:
        return b"".join(_record(record))
    except UnicodeEncodeError as exc:
        raise not_unicode(exc) from exc


def decode(datum: bytes) -> Record:
    """Return the record of one datum; raise RecordError for any other bytes."""
    stream = io.BytesIO(datum)
    record = decode_next(stream)
    check_end(stream, "record")
    return record


def decode_next(stream: IO[bytes], *, written: Any = None) -> Record:
    """Return the record of the next datum in `stream`; raise RecordError if there is none.

    `written` is the parsed schema of the writer if it is not ours. Raise RecordError with the code
    `other-schema` if Avro cannot resolve it into our schema.
    """
    record = convert(read_datum(stream, "record", written), Record)
    if written is not None:
        _check_aware(record)
    return record


def encode_reject(reject: Reject) -> bytes:
    """Return one schemaless datum."""
    stream = io.BytesIO()
    fields = msgspec.to_builtins(reject, builtin_types=_KEPT_TYPES)
    fastavro.schemaless_writer(stream, schema("reject"), fields)
    return stream.getvalue()


def decode_reject(datum: bytes) -> Reject:
    """Return the reject of one datum; raise RecordError for any other bytes."""
    stream = io.BytesIO(datum)
    reject = convert(read_datum(stream, "reject"), Reject)
    check_end(stream, "reject")
    return reject


@cache
def schema(name: str) -> Any:  # fastavro's schemas are untyped
    """Return the parsed schema `record`, `membership` or `reject`."""
    return fastavro.parse_schema(schema_document(name))


def schema_document(name: str) -> Any:
    """Return the published schema of that name, including its doc strings."""
    return json.loads(files("schemas").joinpath(f"{name}.avsc").read_text("utf-8"))


def read_datum(stream: IO[bytes], name: str, written: Any = None) -> Any:
    """Return the fields of the next datum of a schema; raise RecordError as `decode_next` does."""
    ours = schema(name)
    try:
        if written is None:
            return fastavro.schemaless_reader(stream, ours, None)
        return fastavro.schemaless_reader(stream, written, ours)
    except SchemaResolutionError as exc:
        reason = f"{_clip(str(exc))}; expected a schema that Avro resolves into a {name}"
        raise RecordError("other-schema", reason) from exc
    except UNREADABLE as exc:
        raise _bad_avro(f"unreadable bytes ({type(exc).__name__})", name) from exc


def check_end(stream: io.BytesIO, name: str) -> None:
    """Raise RecordError if bytes follow the datum."""
    extra_bytes = len(stream.read())
    if extra_bytes:
        raise _bad_avro(f"{extra_bytes} bytes after the datum", name)


def convert(fields: Any, struct: type[_Struct]) -> _Struct:
    """Return the struct of the fields of a datum; raise RecordError for fields of wrong types."""
    try:
        return msgspec.convert(fields, struct)
    except UNREADABLE as exc:  # another schema has other logical types than ours
        raise _bad_avro(_clip(str(exc)), struct.__name__.lower()) from exc


def _check_aware(record: Record) -> None:
    """Raise RecordError for a time of the logical type `local-timestamp-…`."""
    for time in (record.modified, record.visited, record.next_check):
        if time is not None and time.tzinfo is None:
            raise _bad_avro(f"a time without a zone, {time.isoformat()!r}", "record")


def _bad_avro(problem: str, name: str) -> RecordError:
    return RecordError("bad-avro", f"{problem}; expected one Avro datum of a {name}")


def _clip(text: str) -> str:
    return text if len(text) <= 200 else text[:197] + "..."


def _record(record: Record) -> list[bytes]:
    parts = [text_part(record.url), _ACTION[record.action._value_]]
    _put_document(parts, record)
    parts.append(array(text_part, record.categories) if record.categories else END)
    _put_metadata(parts, record.metadata)
    parts += (
        array(_field, record.fields) if record.fields else END,
        NULL if record.modified is None else _timestamp(record.modified),
        NULL if record.visited is None else _timestamp(record.visited),
        NULL if record.next_check is None else _timestamp(record.next_check),
        NULL if record.acl is None else _acl(record.acl),
        STATED_FLAG[record.overwrite_acls],
        NULL if record.crawl is None else _crawl(record.crawl),
        NULL if record.history is None else _history(record.history),
        array(extra_part, record.extras) if record.extras else END,
    )
    put_provenance(parts, record.provenance)
    return parts


def _put_document(parts: list[bytes], record: Record) -> None:
    arrival, content = record.arrival, record.content
    parts.append(NULL if arrival is None else _ARRIVAL[arrival._value_])
    if content is None:
        parts.append(NULL)
    else:  # no copy, because the content may be large
        parts += (VALUE, length(content.data), content.data, _ENCODING[content.encoding._value_])
    parts += (
        NULL if record.mimetype is None else _stated_text(record.mimetype),
        NULL if record.charset is None else _stated_text(record.charset),
        NULL if record.size is None else _optional_long("size", record.size),
        NULL if record.title is None else _stated_text(record.title),
        NULL if record.description is None else _stated_text(record.description),
        NULL if record.keywords is None else _stated_text(record.keywords),
        NULL if record.body is None else _stated_text(record.body),
    )


def _put_metadata(parts: list[bytes], metadata: tuple[Meta, ...]) -> None:
    if metadata:
        parts.append(long(len(metadata)))
    for meta in metadata:
        name, value = meta.name, meta.value.encode()
        size = len(value)
        parts += (
            _name(name) if len(name) < _NAME_CHARS else text_part(name),
            LENGTHS[size] if size < SHORT else long(size),
            value,
            NULL if meta.data is None else VALUE + length(meta.data) + meta.data,
        )
    parts.append(END)


def _field(field: Field) -> bytes:
    space = optional_text(field.namespace)
    return text_part(field.name) + array(text_part, field.values) + FLAG[field.many] + space


def _acl(acl: Acl) -> bytes:
    inheritance = acl.inheritance
    parts = (
        VALUE,
        NULL if inheritance is None else _INHERITANCE[inheritance._value_],
        optional_text(acl.inherit_from),
        optional_text(acl.inherit_fragment),
        array(_principal, acl.principals),
        FLAG[acl.alone],
    )
    return b"".join(parts)


def _principal(principal: Principal) -> bytes:
    parts = (
        text_part(principal.name),
        _SCOPE[principal.scope._value_],
        _ACCESS[principal.access._value_],
        optional_text(principal.namespace),
        STATED_FLAG[principal.case_sensitive],
        FLAG[principal.unqualified],
    )
    return b"".join(parts)


def _crawl(crawl: Crawl) -> bytes:
    authmethod, scoring = crawl.authmethod, crawl.scoring
    parts = (
        VALUE,
        STATED_FLAG[crawl.lock],
        STATED_FLAG[crawl.crawl_immediately],
        STATED_FLAG[crawl.crawl_once],
        NULL if authmethod is None else _AUTHMETHOD[authmethod._value_],
        _optional_int("crawl.pagerank", crawl.pagerank),
        _optional_int("crawl.feedrank", crawl.feedrank),
        NULL if scoring is None else _SCORING[scoring._value_],
        STATED_FLAG[crawl.secure],
        STATED_FLAG[crawl.no_index],
        STATED_FLAG[crawl.no_follow],
        STATED_FLAG[crawl.no_archive],
        optional_text(crawl.display_url),
        array(_anchor, crawl.anchors),
    )
    return b"".join(parts)


def _anchor(anchor: Anchor) -> bytes:
    return text_part(anchor.uri) + optional_text(anchor.text)


def _history(history: History) -> bytes:
    parts = (
        VALUE,
        _optional_double(history.download_seconds),
        _optional_long("history.depth", history.depth),
        _optional_long("history.views", history.views),
        _optional_long("history.clicks", history.clicks),
        _optional_double(history.click_ratio),
        _optional_long("history.popularity", history.popularity),
        NULL if history.references is None else VALUE + array(text_part, history.references),
        NULL if history.errors is None else VALUE + array(text_part, history.errors),
    )
    return b"".join(parts)


@lru_cache(maxsize=2048)  # metadata of a feed has few names
def _name(text: str) -> bytes:
    return text_part(text)


def _stated_text(text: str) -> bytes:
    return VALUE + text_part(text)


def _timestamp(time: datetime) -> bytes:
    since = time - _EPOCH
    micros = (since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds
    return VALUE + long(micros)


def _optional_double(number: float | None) -> bytes:
    return NULL if number is None else VALUE + _DOUBLE(number)


def _optional_long(field: str, number: int | None) -> bytes:
    return NULL if number is None else VALUE + bounded(field, number, LONG)


def _optional_int(field: str, number: int | None) -> bytes:
    return NULL if number is None else VALUE + bounded(field, number, INT)
