"""The header of an Avro container file, and what stands before and behind each of its blocks.

**Spec:** Apache Avro 1.12, "Object Container Files".
"""

import hashlib
import io
import json
from functools import cache
from typing import Any, NamedTuple

import fastavro
from fastavro.schema import SchemaParseException, UnknownType

from schemas import avro
from schemas.errors import FormatError, RecordError
from transforms.formats.canonical.avro_codecs import check_codec

MAGIC = b"Obj\x01"
RECORD = "record"
MEMBERSHIP = "membership"
MAX_BLOCK_BYTES = 1 << 30
"""Most bytes of a block that is passed over."""
MAX_HEADER_BYTES = 1 << 20
SYNC_BYTES = 16
FRAMING_BYTES = 20
"""Most bytes that say how many records and bytes a block has."""

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


class Container(NamedTuple):
    """What a header says; `written` is the schema where it is not our own.

    `kind` is the name of our schema that the datums are read by: RECORD or MEMBERSHIP.
    """

    header: bytes
    codec: str
    sync: bytes
    written: Any
    kind: str


def open_container(head: bytes, *, source: str) -> Container:
    """Return what the header at the beginning of `head` says; raise FormatError without one."""
    if not head.startswith(MAGIC):
        expected = f"an Avro container, which begins with {MAGIC!r}"
        raise _bad_header(source, repr(head[:4]), expected)
    stream = io.BytesIO(head)
    try:
        header: Any = fastavro.schemaless_reader(stream, _HEADER, None)
    except avro.UNREADABLE as exc:
        found = f"a header without its end in {len(head)} bytes"
        raise _bad_header(source, found, "an Avro container with a whole one") from exc
    codec = header["meta"].get("avro.codec", b"null").decode("utf-8", "replace")
    try:
        check_codec(codec)
    except LookupError as exc:
        raise FormatError(f"{source}: {exc.args[0]}") from exc
    written, kind = _schema(header["meta"].get("avro.schema", b""), source=source)
    return Container(head[: stream.tell()], codec, header["sync"], written, kind)


@cache
def our_header(kind: str) -> bytes:
    """Return the header of a container without compression: the same one always."""
    stream = io.BytesIO()
    meta = {"avro.codec": b"null", "avro.schema": _published(kind)}
    header = {"magic": MAGIC, "meta": meta, "sync": our_sync(kind)}
    fastavro.schemaless_writer(stream, _HEADER, header)
    return stream.getvalue()


@cache
def our_sync(kind: str) -> bytes:
    """Return the sync marker, which other writers leave to chance: ours are to be reproducible."""
    return hashlib.sha256(_published(kind)).digest()[:SYNC_BYTES]


def framing(head: bytes, *, max_bytes: int = MAX_BLOCK_BYTES) -> tuple[int, int, int]:
    """Return how many records and bytes a block has, and how many bytes of `head` say so.

    Raises RecordError for what cannot be.
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


def _published(kind: str) -> bytes:
    return json.dumps(avro.schema_document(kind), separators=(",", ":")).encode()


def _schema(text: bytes, *, source: str) -> tuple[Any, str]:
    try:
        written: Any = fastavro.parse_schema(json.loads(text))
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


def _kind(written: Any, *, source: str) -> str:
    """What another schema may be resolved into, by the fields that it has."""
    names = {field["name"] for field in _fields(written)}
    for kind, needed in _NEEDED_FIELDS.items():
        if names.issuperset(needed):
            return kind
    expected = " or ".join(
        f"{kind}s with {', '.join(needed)}" for kind, needed in _NEEDED_FIELDS.items()
    )
    raise _bad_header(source, f"an Avro container of {_name(written)}", expected)


def _fields(schema: Any) -> Any:
    return schema.get("fields", ()) if isinstance(schema, dict) else ()


def _name(schema: Any) -> str:
    return repr(schema.get("name", schema["type"]) if isinstance(schema, dict) else schema)


def _check_finite(schema: Any, around: tuple[str, ...]) -> None:
    """Raise ValueError for a type of which few bytes can hold arbitrarily much.

    fastavro makes a million million nulls of an array of 6 bytes, and follows records inside
    each other until the stack overflows and takes the program with it.
    """
    if isinstance(schema, list):
        for branch in schema:
            _check_finite("int" if branch == "null" else branch, around)
    elif isinstance(schema, str):
        if schema == "null" or schema in around:
            raise ValueError(f"{schema!r} in {around[-1]!r}")
    elif schema["type"] in ("record", "error"):
        _check_record(schema, (*around, schema["name"]))
    elif schema["type"] == "fixed":
        if schema["size"] < 1:
            raise ValueError(f"{schema['name']!r} of size {schema['size']}")
    elif schema["type"] != "enum":
        _check_finite(schema.get("items", schema.get("values", schema["type"])), around)


def _check_record(schema: Any, around: tuple[str, ...]) -> None:
    if not schema["fields"]:
        raise ValueError(f"no fields in {schema['name']!r}")
    for field in schema["fields"]:
        _check_finite(field["type"], around)


def _bad_header(source: str, found: str, expected: str) -> FormatError:
    return FormatError(f"{source}: {found}; expected {expected}")


def _long(head: bytes, at: int) -> tuple[int, int]:
    number = 0
    for place, byte in enumerate(head[at : at + _LONG_BYTES]):
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return number >> 1 ^ -(number & 1), at + place + 1
    raise RecordError("bad-block", f"{head!r}; expected the size of a block")
