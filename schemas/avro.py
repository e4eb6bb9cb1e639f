"""Records and rejects as Avro datums, by their published schemas.

**Spec:** Apache Avro 1.12, "Binary Encoding" and "Schema Resolution".

Records are written by hand: fastavro looks up 23 fields and their unions in a dict, which takes
six times as long. What is written is, byte for byte, what fastavro would write.
"""

import enum
import io
import json
import struct
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache, lru_cache
from importlib.resources import files
from typing import IO, Any, TypeVar

import fastavro
import msgspec
from fastavro.read import SchemaResolutionError

from schemas.acl import Access, Acl, Inheritance, Principal, Scope
from schemas.errors import RecordError
from schemas.record import (
    Action,
    Anchor,
    Arrival,
    Authmethod,
    Crawl,
    Encoding,
    Extra,
    Field,
    History,
    Meta,
    Provenance,
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
"""What fastavro and msgspec raise, between them, on bytes that are no datum of a schema."""

_Kind = TypeVar("_Kind")
_Part = TypeVar("_Part")
_KEPT_TYPES = (bytes, datetime)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INT = (-(2**31), 2**31 - 1)
_LONG = (-(2**63), 2**63 - 1)
_NAME_CHARS = 64
_DOUBLE = struct.Struct("<d").pack

_NULL = b"\x00"
_VALUE = b"\x02"
_END = b"\x00"
_FLAG = (b"\x00", b"\x01")
_STATED_FLAG = {None: _NULL, False: _VALUE + b"\x00", True: _VALUE + b"\x01"}


def _symbols(symbols: type[enum.Enum]) -> dict[str, bytes]:
    return {symbol.value: long(ordinal) for ordinal, symbol in enumerate(symbols)}


def _stated_symbols(symbols: type[enum.Enum]) -> dict[str, bytes]:
    return {value: _VALUE + ordinal for value, ordinal in _symbols(symbols).items()}


_ACTION = _symbols(Action)
_ENCODING = _symbols(Encoding)
_SCOPE = _symbols(Scope)
_ACCESS = _symbols(Access)
_ARRIVAL = _stated_symbols(Arrival)
_INHERITANCE = _stated_symbols(Inheritance)
_AUTHMETHOD = _stated_symbols(Authmethod)
_SCORING = _stated_symbols(Scoring)


def encode(record: Record) -> bytes:
    """Return one schemaless datum; raise RecordError for what Avro cannot hold."""
    try:
        return b"".join(_record(record))
    except UnicodeEncodeError as exc:
        code = f"U+{ord(exc.object[exc.start]):04X}"
        raise RecordError("not-unicode", f"a lone surrogate {code}; expected Unicode text") from exc


def decode(datum: bytes) -> Record:
    """Return the record of one datum; raise RecordError unless it is one and nothing more."""
    stream = io.BytesIO(datum)
    record = decode_next(stream)
    _check_end(stream, "record")
    return record


def decode_next(stream: IO[bytes], *, written: Any = None) -> Record:
    """Return the record of the datum that is next in `stream`; raise RecordError if there is none.

    `written` is the parsed schema that it was written with, where that is not our own; Avro
    resolves it into ours, or the RecordError has the code `other-schema`.
    """
    record = _convert(_read(stream, "record", written), Record)
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
    """Return the reject of one datum; raise RecordError unless it is one and nothing more."""
    stream = io.BytesIO(datum)
    reject = _convert(_read(stream, "reject"), Reject)
    _check_end(stream, "reject")
    return reject


@cache
def schema(name: str) -> Any:  # fastavro's schemas are untyped
    """The parsed schema `record` or `reject`."""
    return fastavro.parse_schema(schema_document(name))


def schema_document(name: str) -> Any:
    """The schema `record` or `reject` as it is published, doc strings and all."""
    return json.loads(files("schemas").joinpath(f"{name}.avsc").read_text("utf-8"))


def _read(stream: IO[bytes], name: str, written: Any = None) -> Any:
    ours = schema(name)
    try:
        if written is None:
            return fastavro.schemaless_reader(stream, ours, None)
        return fastavro.schemaless_reader(stream, written, ours)
    except SchemaResolutionError as exc:
        reason = f"{_clip(str(exc))}; expected what Avro resolves into a {name}"
        raise RecordError("other-schema", reason) from exc
    except UNREADABLE as exc:
        raise _bad_avro(f"bytes that are none ({type(exc).__name__})", name) from exc


def _check_end(stream: io.BytesIO, name: str) -> None:
    behind = len(stream.read())
    if behind:
        raise _bad_avro(f"{behind} bytes behind one", name)


def _convert(found: Any, kind: type[_Kind]) -> _Kind:
    try:
        return msgspec.convert(found, kind)
    except UNREADABLE as exc:  # another schema has other logical types than ours
        raise _bad_avro(_clip(str(exc)), kind.__name__.lower()) from exc


def _check_aware(record: Record) -> None:
    """Raise RecordError for a time of the logical type `local-timestamp-…`."""
    for moment in (record.modified, record.visited, record.next_check):
        if moment is not None and moment.tzinfo is None:
            raise _bad_avro(f"a time without a zone, {moment.isoformat()!r}", "record")


def _bad_avro(found: str, name: str) -> RecordError:
    return RecordError("bad-avro", f"{found}; expected one Avro datum of a {name}")


def _clip(text: str) -> str:
    return text if len(text) <= 200 else text[:197] + "..."


def _record(record: Record) -> list[bytes]:
    parts = [_text(record.url), _ACTION[record.action._value_]]
    _put_document(parts, record)
    parts.append(_array(_text, record.categories) if record.categories else _END)
    _put_metadata(parts, record.metadata)
    parts += (
        _array(_field, record.fields) if record.fields else _END,
        _NULL if record.modified is None else _moment(record.modified),
        _NULL if record.visited is None else _moment(record.visited),
        _NULL if record.next_check is None else _moment(record.next_check),
        _NULL if record.acl is None else _acl(record.acl),
        _STATED_FLAG[record.overwrite_acls],
        _NULL if record.crawl is None else _crawl(record.crawl),
        _NULL if record.history is None else _history(record.history),
        _array(_extra, record.extras) if record.extras else _END,
    )
    _put_provenance(parts, record.provenance)
    return parts


def _put_document(parts: list[bytes], record: Record) -> None:
    arrival, content = record.arrival, record.content
    parts.append(_NULL if arrival is None else _ARRIVAL[arrival._value_])
    if content is None:
        parts.append(_NULL)
    else:  # without a copy of what may be large
        parts += (_VALUE, length(content.data), content.data, _ENCODING[content.encoding._value_])
    parts += (
        _NULL if record.mimetype is None else _stated_text(record.mimetype),
        _NULL if record.charset is None else _stated_text(record.charset),
        _NULL if record.size is None else _optional_long("size", record.size),
        _NULL if record.title is None else _stated_text(record.title),
        _NULL if record.description is None else _stated_text(record.description),
        _NULL if record.keywords is None else _stated_text(record.keywords),
        _NULL if record.body is None else _stated_text(record.body),
    )


def _put_metadata(parts: list[bytes], metadata: tuple[Meta, ...]) -> None:
    if metadata:
        parts.append(long(len(metadata)))
    for meta in metadata:
        name, value = meta.name, meta.value.encode()
        size = len(value)
        parts += (
            _name(name) if len(name) < _NAME_CHARS else _text(name),
            LENGTHS[size] if size < SHORT else long(size),
            value,
            _NULL if meta.data is None else _VALUE + length(meta.data) + meta.data,
        )
    parts.append(_END)


def _put_provenance(parts: list[bytes], provenance: Provenance) -> None:
    parts += (
        _origin(provenance.source, provenance.span),
        _bounded("provenance.line", provenance.line, _LONG),
        _bounded("provenance.offset", provenance.offset, _LONG),
        _feed(provenance.datasource, provenance.feedtype),
    )


@lru_cache(maxsize=16)  # the same for all records of a span
def _origin(source: str, span: int) -> bytes:
    return _text(source) + _bounded("provenance.span", span, _INT)


@lru_cache(maxsize=16)
def _feed(datasource: str | None, feedtype: str | None) -> bytes:
    return _optional_text(datasource) + _optional_text(feedtype)


def _field(field: Field) -> bytes:
    space = _optional_text(field.namespace)
    return _text(field.name) + _array(_text, field.values) + _FLAG[field.many] + space


def _acl(acl: Acl) -> bytes:
    inheritance = acl.inheritance
    parts = (
        _VALUE,
        _NULL if inheritance is None else _INHERITANCE[inheritance._value_],
        _optional_text(acl.inherit_from),
        _optional_text(acl.inherit_fragment),
        _array(_principal, acl.principals),
        _FLAG[acl.alone],
    )
    return b"".join(parts)


def _principal(principal: Principal) -> bytes:
    parts = (
        _text(principal.name),
        _SCOPE[principal.scope._value_],
        _ACCESS[principal.access._value_],
        _optional_text(principal.namespace),
        _STATED_FLAG[principal.case_sensitive],
        _FLAG[principal.unqualified],
    )
    return b"".join(parts)


def _crawl(crawl: Crawl) -> bytes:
    authmethod, scoring = crawl.authmethod, crawl.scoring
    parts = (
        _VALUE,
        _STATED_FLAG[crawl.lock],
        _STATED_FLAG[crawl.crawl_immediately],
        _STATED_FLAG[crawl.crawl_once],
        _NULL if authmethod is None else _AUTHMETHOD[authmethod._value_],
        _optional_int("crawl.pagerank", crawl.pagerank),
        _optional_int("crawl.feedrank", crawl.feedrank),
        _NULL if scoring is None else _SCORING[scoring._value_],
        _STATED_FLAG[crawl.secure],
        _STATED_FLAG[crawl.no_index],
        _STATED_FLAG[crawl.no_follow],
        _STATED_FLAG[crawl.no_archive],
        _optional_text(crawl.display_url),
        _array(_anchor, crawl.anchors),
    )
    return b"".join(parts)


def _anchor(anchor: Anchor) -> bytes:
    return _text(anchor.uri) + _text(anchor.text)


def _history(history: History) -> bytes:
    parts = (
        _VALUE,
        _optional_double(history.download_seconds),
        _optional_long("history.depth", history.depth),
        _optional_long("history.views", history.views),
        _optional_long("history.clicks", history.clicks),
        _optional_double(history.click_ratio),
        _optional_long("history.popularity", history.popularity),
        _NULL if history.references is None else _VALUE + _array(_text, history.references),
        _NULL if history.errors is None else _VALUE + _array(_text, history.errors),
    )
    return b"".join(parts)


def _extra(extra: Extra) -> bytes:
    return _text(extra.place) + _text(extra.value)


def _array(encode_one: Callable[[_Part], bytes], parts: tuple[_Part, ...]) -> bytes:
    if not parts:
        return _END
    return long(len(parts)) + b"".join(map(encode_one, parts)) + _END


def _text(text: str) -> bytes:
    utf8 = text.encode()
    return length(utf8) + utf8


@lru_cache(maxsize=2048)  # metadata of a feed has few names
def _name(text: str) -> bytes:
    return _text(text)


def _stated_text(text: str) -> bytes:
    return _VALUE + _text(text)


def _optional_text(text: str | None) -> bytes:
    return _NULL if text is None else _VALUE + _text(text)


def _moment(moment: datetime) -> bytes:
    since = moment - _EPOCH
    micros = (since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds
    return _VALUE + long(micros)


def _optional_double(number: float | None) -> bytes:
    return _NULL if number is None else _VALUE + _DOUBLE(number)


def _optional_long(field: str, number: int | None) -> bytes:
    return _NULL if number is None else _VALUE + _bounded(field, number, _LONG)


def _optional_int(field: str, number: int | None) -> bytes:
    return _NULL if number is None else _VALUE + _bounded(field, number, _INT)


def _bounded(field: str, number: int, bounds: tuple[int, int]) -> bytes:
    lowest, highest = bounds
    if not lowest <= number <= highest:
        raise RecordError("out-of-range", f"{field}={number}; expected {lowest} to {highest}")
    return long(number)
