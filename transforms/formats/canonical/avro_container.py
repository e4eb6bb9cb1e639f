"""Avro object container files: the header, the framing of blocks, and their codecs.

**Spec:** Apache Avro 1.12, "Object Container Files".

A container is read here and not by `fastavro.block_reader`, which stops at the first damaged block,
unpacks blocks without a bound, and cannot start at a span.
"""

import hashlib
import io
import json
import zlib
from functools import cache
from typing import Any, NamedTuple

import fastavro
from fastavro.schema import SchemaParseException, UnknownType
from fastavro.types import Schema

from schemas import avro
from schemas.errors import FormatError, RecordError

MAGIC = b"Obj\x01"
RECORD = "record"
MEMBERSHIP = "membership"
MAX_BLOCK_BYTES = 1 << 30
"""Most bytes of a block that is skipped."""
MAX_HEADER_BYTES = 1 << 20
SYNC_BYTES = 16
FRAMING_BYTES = 20
"""Most bytes before a block: the number of its records and of its bytes."""

_LONG_BYTES = 10
_HEADER = fastavro.parse_schema(
    {
        "type": "record",
        "name": "org.apache.avro.file.Header",
        "fields": [
            {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": 4}},
            {"name": "meta", "type": {"type": "map", "values": "bytes"}},
            {"name": "sync", "type": {"type": "fixed", "name": "Sync", "size": SYNC_BYTES}},
        ],
    }
)
_NEEDED_FIELDS = {RECORD: ("url", "action", "provenance"), MEMBERSHIP: ("group", "members")}
_NO_SCHEMA = (SchemaParseException, UnknownType, AttributeError, *avro.UNREADABLE)
_CODECS = ("deflate", "null")


class Container(NamedTuple):
    """The content of a header. `written` is its schema, None if that is our own.

    `kind` is the name of our schema for its datums: RECORD or MEMBERSHIP.
    """

    header: bytes
    codec: str
    sync: bytes
    written: Schema | None
    kind: str


def open_container(head: bytes, *, source: str) -> Container:
    """Return the header at the beginning of `head`; raise FormatError if there is none."""
    if not head.startswith(MAGIC):
        expected = f"an Avro container, which begins with {MAGIC!r}"
        raise _bad_header(source, repr(head[:4]), expected)
    stream = io.BytesIO(head)
    try:
        header: Any = fastavro.schemaless_reader(stream, _HEADER, None)  # a dict by its schema
    except avro.UNREADABLE as exc:
        found = f"a header without its end in {len(head)} bytes"
        raise _bad_header(source, found, "an Avro container with a whole one") from exc
    codec = header["meta"].get("avro.codec", b"null").decode("utf-8", "replace")
    if codec not in _CODECS:
        expected = f"{' or '.join(_CODECS)}: write the container again with one of them"
        raise _bad_header(source, f"codec {codec!r}", expected)
    written, kind = _schema(header["meta"].get("avro.schema", b""), source=source)
    return Container(head[: stream.tell()], codec, header["sync"], written, kind)


@cache
def our_header(kind: str) -> bytes:
    """Return the header of a container without compression; it is always the same."""
    stream = io.BytesIO()
    meta = {"avro.codec": b"null", "avro.schema": _published(kind)}
    header = {"magic": MAGIC, "meta": meta, "sync": our_sync(kind)}
    fastavro.schemaless_writer(stream, _HEADER, header)
    return stream.getvalue()


@cache
def our_sync(kind: str) -> bytes:
    """Return our sync marker. Other writers take a random one; ours makes files reproducible."""
    return hashlib.sha256(_published(kind)).digest()[:SYNC_BYTES]


def framing(head: bytes, *, max_bytes: int = MAX_BLOCK_BYTES) -> tuple[int, int, int]:
    """Return the numbers of records and bytes of a block, and how many bytes of `head` state them.

    Raises RecordError for numbers that a block cannot have.
    """
    count, at = _long(head, 0)
    size, at = _long(head, at)
    found = f"a block of {count} records in {size} bytes"
    if count < 0 or size < 0:
        raise RecordError("bad-block", f"{found}; expected 0 or more of both")
    if size > max_bytes:
        expected = f"expected at most {max_bytes} bytes; raise --max-content-bytes"
        raise RecordError("block-too-large", f"{found}; {expected}")
    return count, size, at


def unpack(codec: str, block: bytes, *, max_bytes: int) -> bytes:
    """Return the datums of a block; raise RecordError if it is torn or holds over `max_bytes`."""
    if codec == "null":
        return block
    decompressor = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        datums = decompressor.decompress(block, max_bytes + 1)
    except zlib.error as exc:
        raise _bad_block(block, str(exc)) from exc
    if len(datums) > max_bytes:
        found = "a deflate block that unpacks to more"
        raise RecordError("block-too-large", f"{found}; expected at most {max_bytes} bytes")
    if not decompressor.eof:
        raise _bad_block(block, "its end is missing")
    return datums


def _bad_block(block: bytes, problem: str) -> RecordError:
    found = f"{len(block)} bytes that are none ({problem})"
    return RecordError("bad-block", f"{found}; expected a deflate block")


def _published(kind: str) -> bytes:
    return json.dumps(avro.schema_document(kind), separators=(",", ":")).encode()


def _schema(text: bytes, *, source: str) -> tuple[Schema | None, str]:
    try:
        written = fastavro.parse_schema(json.loads(text))
    except _NO_SCHEMA as exc:
        raise _bad_header(source, f"avro.schema={text[:40]!r}", "an Avro schema in JSON") from exc
    for kind in _NEEDED_FIELDS:
        if written == avro.schema(kind):
            return None, kind
    kind = _kind(written, source=source)
    try:
        _check_finite(written, ())
    except ValueError as exc:
        raise _bad_header(source, f"a schema with {exc}", "a type that takes bytes") from exc
    return written, kind


def _kind(written: Schema, *, source: str) -> str:
    """Return the name of our schema that another schema may resolve into, by its fields."""
    fields = written.get("fields", ()) if isinstance(written, dict) else ()
    names = {field["name"] for field in fields}
    for kind, needed in _NEEDED_FIELDS.items():
        if names.issuperset(needed):
            return kind
    name = written.get("name", written["type"]) if isinstance(written, dict) else written
    expected = (f"{kind}s with {', '.join(needed)}" for kind, needed in _NEEDED_FIELDS.items())
    raise _bad_header(source, f"an Avro container of {name!r}", " or ".join(expected))


def _check_finite(schema: Schema, parents: tuple[str, ...]) -> None:
    """Raise ValueError for a type of which a few bytes can hold any number of values.

    From an array of nulls, fastavro makes a million million values of 6 bytes. A record in itself
    overflows the stack, which ends the process.
    """
    if isinstance(schema, list):
        for branch in schema:
            if branch != "null":  # in a union, a null takes a byte
                _check_finite(branch, parents)
    elif isinstance(schema, str):
        if schema == "null" or schema in parents:
            raise ValueError(f"{schema!r} in {parents[-1]!r}")
    elif schema["type"] in ("record", "error"):
        if not schema["fields"]:
            raise ValueError(f"no fields in {schema['name']!r}")
        for field in schema["fields"]:
            _check_finite(field["type"], (*parents, schema["name"]))
    elif schema["type"] == "fixed":
        if schema["size"] < 1:
            raise ValueError(f"{schema['name']!r} of size {schema['size']}")
    elif schema["type"] != "enum":
        inner = next(schema[key] for key in ("items", "values", "type") if key in schema)
        _check_finite(inner, parents)


def _bad_header(source: str, found: str, expected: str) -> FormatError:
    return FormatError(f"{source}: {found}; expected {expected}")


def _long(head: bytes, at: int) -> tuple[int, int]:
    number = 0
    for place, byte in enumerate(head[at : at + _LONG_BYTES]):
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return number >> 1 ^ -(number & 1), at + place + 1
    raise RecordError("bad-block", f"{head!r}; expected the size of a block")
