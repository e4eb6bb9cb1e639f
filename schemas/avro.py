"""Records and memberships as Avro datums, by the published schemas.

**Spec:** Apache Avro 1.12, "Binary Encoding" and "Schema Resolution".

Datums are encoded without fastavro, which looks up 23 fields and their unions in a dict and takes
six times as long. The bytes are the same as those of fastavro. Numbers are zigzag, seven bits per
byte, lowest bits first; tables have 14 bits per entry, because a loop over the bytes takes twice as
long.
"""

import enum
import json
import struct
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache, lru_cache
from importlib.resources import files
from typing import IO, TYPE_CHECKING, Any, TypeVar

import msgspec

from schemas.acl import Access, Acl, Inheritance, Principal, Scope
from schemas.errors import RecordError
from schemas.membership import Member, Membership, RecordOrMembership
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
from schemas.reject import record_error

if TYPE_CHECKING:
    from fastavro.types import Schema

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

_Item = TypeVar("_Item", bound=RecordOrMembership)
_Part = TypeVar("_Part")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAME_CHARS = 64
_INT, _LONG = 1 << 31, 1 << 63
_DOUBLE = struct.Struct("<d").pack

_NULL = b"\x00"
_VALUE = b"\x02"
_END = b"\x00"
_FLAG = (b"\x00", b"\x01")
_STATED_FLAG = {None: _NULL, False: _VALUE + b"\x00", True: _VALUE + b"\x01"}


_ENDS = tuple(bytes((byte,)) for byte in range(1 << 7))
_MORE = tuple(bytes((byte,)) for byte in range(1 << 7, 1 << 8))
_LOW = tuple(low + high for high in _MORE for low in _MORE)
"""Encodings of the lowest 14 bits of a longer number."""
_LAST = (*_ENDS, *(low + high for high in _ENDS[1:] for low in _MORE))
_LENGTHS = _LAST[::2]
"""Encodings of the longs from 0, for callers that avoid a function call."""
_SHORT = len(_LENGTHS)


def long(number: int) -> bytes:
    """Return an Avro long, or int, of at most 64 bits."""
    return _varint(number << 1 if number >= 0 else ~number << 1 | 1)


def _length(data: bytes) -> bytes:
    """Return the length prefix of `data`."""
    size = len(data)
    return _LENGTHS[size] if size < _SHORT else long(size)


def _varint(number: int) -> bytes:
    if number < 1 << 14:
        return _LAST[number]
    if number < 1 << 28:
        return _LOW[number & 0x3FFF] + _LAST[number >> 14]
    return _LOW[number & 0x3FFF] + _LOW[number >> 14 & 0x3FFF] + _varint(number >> 28)


def _symbols(enum_type: type[enum.Enum], *, before: bytes = b"") -> dict[str, bytes]:
    """Return the bytes of each value of an enum; `before` is _VALUE if it may be null."""
    return {symbol.value: before + long(ordinal) for ordinal, symbol in enumerate(enum_type)}


_ACTION = _symbols(Action)
_ENCODING = _symbols(Encoding)
_SCOPE = _symbols(Scope)
_ACCESS = _symbols(Access)
_ARRIVAL = _symbols(Arrival, before=_VALUE)
_INHERITANCE = _symbols(Inheritance, before=_VALUE)
_AUTHMETHOD = _symbols(Authmethod, before=_VALUE)
_SCORING = _symbols(Scoring, before=_VALUE)


def encode(item: RecordOrMembership) -> bytes:
    """Return one schemaless datum; raise RecordError for a value that Avro cannot hold."""
    try:
        return b"".join(_record(item) if isinstance(item, Record) else _membership(item))
    except UnicodeEncodeError as exc:
        code = f"U+{ord(exc.object[exc.start]):04X}"
        raise RecordError("not-unicode", f"a lone surrogate {code}; expected Unicode text") from exc


def carried_bytes(record: RecordOrMembership) -> bytes:
    """Return the bytes of a record in its reject: a datum, or JSON if Avro cannot hold it.

    The JSON has the fields of the jsonl format. It is ASCII and can therefore hold lone
    surrogates.
    """
    try:
        return encode(record)
    except Exception as exc:
        record_error(exc)
        return json.dumps(msgspec.to_builtins(record, enc_hook=repr), default=repr).encode()


def read_fields(stream: IO[bytes], name: str, *, written: "Schema | None" = None) -> object:
    """Return the fields of the next `record` or `membership`.

    After a RecordError, the end of the datum is not known. The error has the code `other-schema` if
    Avro cannot resolve `written` into our schema.
    """
    from fastavro.read import SchemaResolutionError, schemaless_reader

    ours = schema(name)
    try:
        if written is None:
            return schemaless_reader(stream, ours, None)
        return schemaless_reader(stream, written, ours)
    except SchemaResolutionError as exc:
        reason = f"{_clip(str(exc))}; expected a schema that Avro resolves into a {name}"
        raise RecordError("other-schema", reason) from exc
    except UNREADABLE as exc:
        raise _bad_avro(f"unreadable bytes ({type(exc).__name__})", name) from exc


def convert(fields: object, kind: type[_Item]) -> _Item:
    """Return the record or membership that has the fields; another schema has other types."""
    name = kind.__name__.lower()
    try:
        item = msgspec.convert(fields, kind)
    except UNREADABLE as exc:
        raise _bad_avro(_clip(str(exc)), name) from exc
    if isinstance(item, Record):
        for time in (item.modified, item.visited, item.next_check):
            if time is not None and time.tzinfo is None:  # of the logical type local-timestamp-…
                raise _bad_avro(f"a time without a zone, {time.isoformat()!r}", name)
    return item


@cache
def schema(name: str) -> "Schema":
    """Return the parsed schema `record`, `membership` or `reject`."""
    from fastavro.schema import parse_schema

    return parse_schema(schema_document(name))


def schema_document(name: str) -> Any:  # JSON
    """Return the published schema of that name, including its doc strings."""
    return json.loads(files("schemas").joinpath(f"{name}.avsc").read_text("utf-8"))


def _bad_avro(problem: str, name: str) -> RecordError:
    return RecordError("bad-avro", f"{problem}; expected one Avro datum of a {name}")


def _clip(text: str) -> str:
    return text if len(text) <= 200 else text[:197] + "..."


def _record(record: Record) -> list[bytes]:
    parts = [_text(record.url), _ACTION[record.action._value_]]
    _put_document(parts, record)
    parts.append(_array(_text, record.categories) if record.categories else _END)
    _put_metadata(parts, record.metadata)
    parts += (
        _array(_field, record.fields) if record.fields else _END,
        _NULL if record.modified is None else _timestamp(record.modified),
        _NULL if record.visited is None else _timestamp(record.visited),
        _NULL if record.next_check is None else _timestamp(record.next_check),
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
    else:  # no copy, because the content may be large
        parts += (_VALUE, _length(content.data), content.data, _ENCODING[content.encoding._value_])
    parts += (
        _NULL if record.mimetype is None else _VALUE + _text(record.mimetype),
        _NULL if record.charset is None else _VALUE + _text(record.charset),
        _NULL if record.size is None else _optional_long("size", record.size),
        _NULL if record.title is None else _VALUE + _text(record.title),
        _NULL if record.description is None else _VALUE + _text(record.description),
        _NULL if record.keywords is None else _VALUE + _text(record.keywords),
        _NULL if record.body is None else _VALUE + _text(record.body),
    )


def _put_metadata(parts: list[bytes], metadata: tuple[Meta, ...]) -> None:
    if metadata:
        parts.append(long(len(metadata)))
    for meta in metadata:
        name, value = meta.name, meta.value.encode()
        size = len(value)
        parts += (
            _name(name) if len(name) < _NAME_CHARS else _text(name),
            _LENGTHS[size] if size < _SHORT else long(size),
            value,
            _NULL if meta.data is None else _VALUE + _length(meta.data) + meta.data,
        )
    parts.append(_END)


def _field(field: Field) -> bytes:
    space = _text_or_null(field.namespace)
    return _text(field.name) + _array(_text, field.values) + _FLAG[field.many] + space


def _acl(acl: Acl) -> bytes:
    inheritance = acl.inheritance
    parts = (
        _VALUE,
        _NULL if inheritance is None else _INHERITANCE[inheritance._value_],
        _text_or_null(acl.inherit_from),
        _text_or_null(acl.inherit_fragment),
        _array(_principal, acl.principals),
        _FLAG[acl.alone],
    )
    return b"".join(parts)


def _principal(principal: Principal) -> bytes:
    parts = (
        _text(principal.name),
        _SCOPE[principal.scope._value_],
        _ACCESS[principal.access._value_],
        _text_or_null(principal.namespace),
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
        _text_or_null(crawl.display_url),
        _array(_anchor, crawl.anchors),
    )
    return b"".join(parts)


def _anchor(anchor: Anchor) -> bytes:
    return _text(anchor.uri) + _text_or_null(anchor.text)


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


@lru_cache(maxsize=2048)  # metadata of a feed has few names
def _name(text: str) -> bytes:
    return _text(text)


def _timestamp(time: datetime) -> bytes:
    since = time - _EPOCH
    micros = (since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds
    return _VALUE + long(micros)


def _optional_double(number: float | None) -> bytes:
    return _NULL if number is None else _VALUE + _DOUBLE(number)


def _optional_long(field: str, number: int | None) -> bytes:
    return _NULL if number is None else _VALUE + _bounded(field, number, _LONG)


def _optional_int(field: str, number: int | None) -> bytes:
    return _NULL if number is None else _VALUE + _bounded(field, number, _INT)


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
    return _text_or_null(datasource) + _text_or_null(feedtype)


def _extra(extra: Extra) -> bytes:
    return _text(extra.place) + _text(extra.value)


def _membership(membership: Membership) -> list[bytes]:
    parts = [
        _member(membership.group),
        _array(_member, membership.members),
        _text_or_null(membership.origin),
        _array(_extra, membership.extras),
    ]
    _put_provenance(parts, membership.provenance)
    return parts


def _member(member: Member) -> bytes:
    parts = (
        _text(member.name),
        _SCOPE[member.scope._value_],
        _text_or_null(member.namespace),
        _STATED_FLAG[member.case_sensitive],
        _FLAG[member.unqualified],
    )
    return b"".join(parts)


def _text(text: str) -> bytes:
    utf8 = text.encode()
    size = len(utf8)
    return (_LENGTHS[size] if size < _SHORT else long(size)) + utf8


def _text_or_null(text: str | None) -> bytes:
    return _NULL if text is None else _VALUE + _text(text)


def _array(encode_item: Callable[[_Part], bytes], parts: tuple[_Part, ...]) -> bytes:
    if not parts:
        return _END
    return long(len(parts)) + b"".join(map(encode_item, parts)) + _END


def _bounded(field: str, number: int, bound: int) -> bytes:
    """Return the bytes of an int or a long; raise RecordError if it is out of bounds."""
    if not -bound <= number < bound:
        raise RecordError("out-of-range", f"{field}={number}; expected {-bound} to {bound - 1}")
    return long(number)
