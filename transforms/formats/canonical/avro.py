"""Read and write Avro object container files of canonical records, for archives.

A container has records or memberships; its schema says which.

**Spec:** Apache Avro 1.12, "Object Container Files".

**Keeps:** every field, including the provenance: where a record was read first.

**Reads beyond our own files:** the codec deflate, and any schema that Avro resolves into
`schemas/record.avsc` or `schemas/membership.avsc`. Blocks are found by their headers. Only after a
damaged block the reader searches for the sync marker, which a content may hold, too.

`fastavro.block_reader` stops at the first damaged block, unpacks blocks without a bound, and cannot
start at a span.
"""

import hashlib
import io
import json
import zlib
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from typing import IO, Any, ClassVar, NamedTuple

import fastavro
import msgspec
from fastavro.schema import SchemaParseException, UnknownType
from fastavro.types import Schema
from msgspec.structs import replace

from feedferry.schemas import avro
from feedferry.schemas.errors import FormatError, RecordError
from feedferry.schemas.membership import Membership, RecordOrMembership
from feedferry.schemas.record import Record
from feedferry.schemas.reject import KEPT_BYTES, Place, Reject, record_error, reject_bytes
from feedferry.schemas.span import ContainerHeader, Span, SpanEnd
from feedferry.transforms.formats.base import Encoder, ReadOptions, WriteOptions
from feedferry.transforms.formats.canonical import admit
from feedferry.transforms.formats.canonical.canonical_formats import AVRO_MAGIC
from feedferry.transforms.formats.canonical.datum_runs import DatumRuns
from feedferry.transforms.formats.canonical.lookahead import LookaheadReader
from feedferry.transforms.formats.fast_path.columns.cells import (
    Cells,
    EncodeColumn,
    of_dates,
    plain,
    unescaped_utf8,
)
from feedferry.transforms.formats.fast_path.columns.column_kinds import (
    CONTENT_KINDS,
    Column,
    ColumnKind,
)
from feedferry.transforms.formats.fast_path.columns.record_batch import RecordBatch
from feedferry.transforms.formats.fast_path.elements import element_codes
from feedferry.transforms.formats.fast_path.plans.element_plan import Pieces

RECORD = "record"
MEMBERSHIP = "membership"
MAX_BLOCK_BYTES = 1 << 30
"""Most bytes of a block that is skipped."""
MAX_HEADER_BYTES = 1 << 20
SYNC_BYTES = 16
FRAMING_BYTES = 20
"""Most bytes before a block: the number of its records and of its bytes."""

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
_NULL = b"\0"
_DESCRIPTIONS = {MEMBERSHIP: "a group and its members", RECORD: "a record"}


def read(
    stream: IO[bytes], *, span: Span = Span(), options: ReadOptions = ReadOptions()
) -> Iterator[RecordOrMembership | RecordBatch | Reject | SpanEnd]:
    """Yield the records, or memberships, of all blocks; one block at a time is in memory.

    A damaged block costs its records after the damage.
    """
    yield from _open_blocks(stream, span, options).results()


def cut(
    stream: IO[bytes], *, source: str, span_bytes: int, options: ReadOptions = ReadOptions()
) -> Iterator[Span]:
    """Yield the spans of a grid; all but the first need the header of the container.

    Where the block after a damaged one begins depends on bytes after it. So the spans keep their
    grid, and a reader finds the end of each again.
    """
    span = Span(source=source, grid=span_bytes)
    for item in _open_blocks(stream, span, options).blocks():
        if isinstance(item, SpanEnd):
            yield msgspec.structs.replace(span, length=item.offset - span.offset)
            span = span.next(item)
    yield span


def _texts(values: Column) -> list[bytes]:
    return avro.texts(unescaped_utf8(values))


def _contents(kind: ColumnKind) -> EncodeColumn:
    return lambda values: avro.texts(plain(kind, values))


class AvroEncoder(Encoder):
    """Encodes records as datums of a container without compression; a frame is one block."""

    extension = "avro"
    elements_once = ""
    frame_bytes = FRAMING_BYTES + SYNC_BYTES
    cells: ClassVar[Cells] = {
        ColumnKind.TEXT: (_texts,),
        ColumnKind.NAME: (_texts,),
        ColumnKind.URL: (_texts,),
        ColumnKind.PARENT: (_texts,),
        ColumnKind.DOCID: (_texts,),
        ColumnKind.DATE: (of_dates(avro.timestamp),),
        **{kind: (_contents(kind),) for kind in CONTENT_KINDS},
        ColumnKind.TIME: (avro.timestamps,),
        ColumnKind.INTEGER: (lambda values: avro.longs([*map(int, values)]),),
        ColumnKind.NUMBER: (avro.longs,),
    }

    def __init__(self, options: WriteOptions = WriteOptions()) -> None:
        self._kind = MEMBERSHIP if options.memberships else RECORD

    def prolog(self) -> bytes:
        """Return the header, which is the same in all containers of a kind."""
        return our_header(self._kind)

    def encode(self, record: RecordOrMembership) -> bytes:
        """Return one datum; raise RecordError for a group among records, or the reverse."""
        kind = RECORD if isinstance(record, Record) else MEMBERSHIP
        if kind == self._kind:
            return avro.encode(record)
        found = f"{_DESCRIPTIONS[kind]}, {record.url!r}"
        expected = f"{_DESCRIPTIONS[self._kind]}, as all of a container"
        raise RecordError(f"not-a-{self._kind}", f"{found}; expected {expected}")

    def elements(self, record: Record) -> Pieces:
        """Return the fields of a record, and the items of its arrays."""
        return [*chain.from_iterable(_pieces(name, record) for name in avro.fields_of(Record))]

    def frame(self, records: list[bytes]) -> bytes:
        """Return one block, or nothing for no records."""
        if not records:
            return b""
        size = sum(map(len, records))
        return b"".join((avro.long(len(records)), avro.long(size), *records, our_sync(self._kind)))


_ACL_END_BYTES = 4
"""The end of the principals, `alone`, a decision without layers, and `withholds`."""


def _pieces(name: str, record: Record) -> Iterator[tuple[str, bytes]]:
    """Yield a field of a record in pieces: an array has its length before, and an end after it."""
    data = avro.encode_field(name, record)
    if name == "metadata":
        metas = [replace(record, metadata=(meta,)) for meta in record.metadata]
        items = [avro.encode_field(name, of_one)[1:-1] for of_one in metas]
        yield from _array(element_codes.META, items)
        yield "", data[-1:]
    elif name == "acl" and record.acl is not None:
        acls = [replace(record.acl, principals=of) for of in ((), *zip(record.acl.principals))]
        none, *ones = [avro.encode_field(name, replace(record, acl=acl)) for acl in acls]
        plain = replace(record, acl=replace(acls[0], decision=()))
        begin = avro.encode_field(name, plain)[:-_ACL_END_BYTES]
        end = none[len(begin) :]
        yield element_codes.ACL, begin
        yield from _array(element_codes.PERMIT, [one[len(begin) + 1 : -len(end)] for one in ones])
        yield "", end
    elif name in ("content", "acl"):
        yield "" if data == _NULL else element_codes.CONTENT, data
    else:
        yield element_codes.RECORD, data


def _array(code: str, items: Sequence[bytes]) -> Iterator[tuple[str, bytes]]:
    if items:
        yield "", avro.long(len(items))
    for item in items:
        yield code, item


def _open_blocks(stream: IO[bytes], span: Span, options: ReadOptions) -> "_BlockReader":
    ahead = LookaheadReader(stream, offset=span.offset)
    if isinstance(span.position, ContainerHeader):
        container = open_container(span.position.data, source=span.source)
    else:
        container = open_container(ahead.peek(MAX_HEADER_BYTES), source=span.source)
        ahead.take(len(container.header))
    return _BlockReader(ahead, container, span, options)


class Container(NamedTuple):
    """The content of a header. `written` is its schema, None if that is our own.

    `kind` is the name of our schema for its datums: RECORD or MEMBERSHIP.
    """

    header: bytes
    codec: str
    sync: bytes
    written: Schema | None
    kind: str


class _Block(NamedTuple):
    offset: int
    records: int
    packed: bytes


class _BlockReader:
    """Reads the blocks of one span, and makes rejects of damaged ones."""

    def __init__(
        self, ahead: LookaheadReader, container: Container, span: Span, options: ReadOptions
    ) -> None:
        self._ahead = ahead
        self._container = container
        self._span = span
        self._max_block_bytes = options.max_unit_bytes
        self._max_content_bytes = options.max_content_bytes
        self._is_resolved = span.position is not None
        self._kind: type[RecordOrMembership] = Record
        if container.kind == MEMBERSHIP:
            self._kind = Membership

        self._runs = DatumRuns(self._read_record, AvroEncoder(), options)
        self._is_ours = container.written is None and container.kind == RECORD

    def results(self) -> Iterator[RecordOrMembership | RecordBatch | Reject | SpanEnd]:
        for item in self.blocks():
            if isinstance(item, _Block):
                yield from self._records(item)
            else:
                yield item
            if isinstance(item, SpanEnd):
                return
            self._is_resolved = True

    def blocks(self) -> Iterator[_Block | Reject | SpanEnd]:
        """Yield the blocks, a reject for each damaged one, and the borders of the grid."""
        stop = self._span.stop_after(self._span.offset)
        header = ContainerHeader(len(self._container.header))
        while head := self._ahead.peek(FRAMING_BYTES):
            item: _Block | Reject
            try:
                item = self._take_block(head)
            except RecordError as exc:
                item = self._skip_damage(exc)
            yield item
            offset = self._ahead.offset
            if offset >= stop and self._ahead.peek(1):
                yield SpanEnd(offset, self._span.line, header)
                stop = self._span.stop_after(offset)

    def _take_block(self, head: bytes) -> _Block:
        count, size, width = framing(head, max_bytes=self._max_block_bytes)
        mark = self._ahead.look(width + size, SYNC_BYTES)
        if mark != self._container.sync and not self._ends_here(width + size, mark):
            found = f"{mark!r} after a block of {size} bytes"
            expected = f"the sync marker {self._container.sync!r}"
            raise RecordError("bad-block", f"{found}; expected {expected}")
        self._ahead.take(width)
        block = _Block(self._ahead.offset, count, self._ahead.take(size))
        self._ahead.take(SYNC_BYTES)
        return block

    def _ends_here(self, length: int, mark: bytes) -> bool:
        """Whether a block ends after `length`, although another mark follows.

        It does if only its sync marker is damaged, so that the next block ends with one, or if it
        is the last block and torn.
        """
        if len(mark) < SYNC_BYTES:
            return not self._ahead.holds(self._container.sync)
        begin = length + SYNC_BYTES
        head = self._ahead.look(begin, FRAMING_BYTES)
        if not head:
            return True
        try:
            _, size, width = framing(head, max_bytes=self._max_block_bytes)
        except RecordError:
            return False
        return self._ahead.look(begin + width + size, SYNC_BYTES) == self._container.sync

    def _skip_damage(self, exc: RecordError) -> Reject:
        begin = self._ahead.offset
        kept, length = self._ahead.take_past(self._container.sync, keep=KEPT_BYTES)
        reject = self._reject(exc, kept, Place(begin, length))
        return msgspec.structs.replace(reject, truncated=length > len(kept))

    def _records(self, block: _Block) -> Iterator[RecordOrMembership | RecordBatch | Reject]:
        try:
            datums = unpack(self._container.codec, block.packed, max_bytes=self._max_block_bytes)
        except Exception as exc:
            place = Place(block.offset, len(block.packed))
            yield self._reject(record_error(exc), block.packed, place)
            return
        if (batches := self._batches(datums, block.records)) is not None:
            yield from batches
            return
        stream = io.BytesIO(datums)
        for _ in range(block.records):
            at, end = stream.tell(), None
            record: RecordOrMembership | None = None
            try:
                fields = self._read_fields(stream)
                end = stream.tell()
                record = avro.convert(fields, self._kind)
                if isinstance(record, Record):
                    record = admit(record, max_content_bytes=self._max_content_bytes)
            except Exception as exc:
                datum = datums[at:end]
                place = _place(block, datums, at, at + len(datum))
                reject = self._reject(record_error(exc), datum, place)
                if record is not None:
                    action = record.action.value
                    reject = msgspec.structs.replace(reject, url=record.url, action=action)
                yield reject
            else:
                yield record
            if end is None:  # so the begin of the next datum is not known
                return
        at = stream.tell()
        if at < len(datums):
            reason = f"{len(datums) - at} bytes after {block.records} records; expected none"
            place = _place(block, datums, at, len(datums))
            yield self._reject(RecordError("bad-block", reason), datums[at:], place)

    def _batches(self, datums: bytes, count: int) -> Iterator[RecordBatch] | None:
        """Return the records of a block in batches; None if they must be read one by one."""
        try:
            return self._runs.take(datums, count) if self._is_ours else None
        except Exception as exc:
            record_error(exc)
            return None

    def _read_record(self, stream: IO[bytes]) -> Record:
        return avro.convert(self._read_fields(stream), Record)

    def _read_fields(self, stream: IO[bytes]) -> object:
        """Read a datum; if the first of the container has another schema than ours, so have all."""
        try:
            fields = avro.read_fields(stream, self._container.kind, written=self._container.written)
        except RecordError as exc:
            if exc.code == "other-schema" and not self._is_resolved:
                raise FormatError(f"{self._span.source}: {exc.reason}") from exc
            raise
        self._is_resolved = True
        return fields

    def _reject(self, exc: RecordError, data: bytes, place: Place) -> Reject:
        reject = reject_bytes(exc, span=self._span, place=place, data=data[:KEPT_BYTES])
        return msgspec.structs.replace(reject, truncated=len(data) > KEPT_BYTES)


def _place(block: _Block, datums: bytes, begin: int, end: int) -> Place:
    """Return the place of a datum, which in a packed block is that of the block."""
    if datums is block.packed:
        return Place(block.offset + begin, end - begin)
    return Place(block.offset, len(block.packed))


def open_container(head: bytes, *, source: str) -> Container:
    """Return the header at the beginning of `head`; raise FormatError if there is none."""
    if not head.startswith(AVRO_MAGIC):
        expected = f"an Avro container, which begins with {AVRO_MAGIC!r}"
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
    header = {"magic": AVRO_MAGIC, "meta": meta, "sync": our_sync(kind)}
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
    count, at = avro.read_long(head, 0)
    size, at = avro.read_long(head, at)
    found = f"a block of {count} records in {size} bytes"
    if count < 0 or size < 0:
        raise RecordError("bad-block", f"{found}; expected 0 or more of both")
    if size > max_bytes:
        expected = f"expected at most {max_bytes} bytes; raise ⟦max_content_bytes⟧"
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
