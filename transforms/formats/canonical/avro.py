"""Avro object container files of canonical records: what is archived, and read again as it was.

A container has records or memberships; its schema says which.

**Spec:** Apache Avro 1.12, "Object Container Files".

**Keeps:** every field, the provenance too: it says where a record came from at first.

**Reads beyond our own:** any codec that fastavro knows, and any schema that Avro resolves into
`schemas/record.avsc` or `schemas/membership.avsc`. Blocks are found by their headers, never by
looking for the sync marker, which a content may hold. Only behind a damaged block is the marker
looked for.
"""

import io
from collections.abc import Callable, Iterable, Iterator
from typing import IO, NamedTuple

import fastavro
import msgspec

from schemas import avro, avro_membership
from schemas.defect import DEFECT, record_error
from schemas.errors import FormatError, RecordError
from schemas.membership import Membership
from schemas.record import Record
from schemas.reject import Reject
from schemas.span import ContainerHeader, Span
from schemas.varint import long
from transforms.formats.base import ReadOptions, WriteOptions
from transforms.formats.canonical.admission import admit
from transforms.formats.canonical.avro_codecs import unpack
from transforms.formats.canonical.avro_container import (
    FRAMING_BYTES,
    MAX_HEADER_BYTES,
    MEMBERSHIP,
    RECORD,
    SYNC_BYTES,
    Container,
    framing,
    open_container,
    our_header,
    our_sync,
)
from transforms.formats.canonical.avro_container import MAGIC as CONTAINER_MAGIC
from transforms.formats.canonical.lookahead import Tape

MAGIC = CONTAINER_MAGIC
KEPT_BYTES = 1 << 20
"""Most bytes of a damaged block that its reject keeps."""

_BLOCK_BYTES = 1 << 16
_TRIES = 4
"""How often each byte of a stream may be decoded, on average, to see whether a block is whole."""
_ONES = {MEMBERSHIP: "a group and its members", RECORD: "a record"}


def read(
    stream: IO[bytes], *, span: Span = Span(), options: ReadOptions = ReadOptions()
) -> Iterator[Record | Membership | Reject]:
    """Yield the records, or memberships, of all blocks; one block at a time is in memory.

    A damaged block costs its own records from the damage on.
    """
    tape = Tape(stream, offset=span.offset)
    if isinstance(span.position, ContainerHeader):
        container = open_container(span.position.header, source=span.source)
    else:
        container = open_container(tape.peek(MAX_HEADER_BYTES), source=span.source)
        tape.skip(len(container.header))
    yield from _BlockReader(tape, container, span, options).results()


def cut(
    stream: IO[bytes], *, source: str, span_bytes: int, options: ReadOptions = ReadOptions()
) -> Iterator[Span]:
    """Yield spans that end with a block, and carry the container's header.

    Behind a damaged block nothing is cut any more: only its reader can tell where to go on.
    """
    tape = Tape(stream)
    container = open_container(tape.peek(MAX_HEADER_BYTES), source=source)
    tape.skip(len(container.header))
    span = Span(source=source)
    while _skip_block(tape, container.sync):
        if tape.offset - span.offset >= span_bytes and tape.peek(1):
            yield msgspec.structs.replace(span, length=tape.offset - span.offset)
            span = Span(
                source=source,
                ordinal=span.ordinal + 1,
                offset=tape.offset,
                position=ContainerHeader(container.header),
            )
    yield span


def write(
    records: Iterable[Record | Membership],
    stream: IO[bytes],
    *,
    options: WriteOptions = WriteOptions(),
) -> None:
    """Write a container with blocks of about 64 KiB, or of one larger record each."""
    encode = encoder(options)
    stream.write(encode.prolog())
    block: list[bytes] = []
    size = 0
    for record in records:
        block.append(encode.encode(record))
        size += len(block[-1])
        if size >= _BLOCK_BYTES:
            stream.write(encode.frame(block))
            block, size = [], 0
    stream.write(encode.frame(block))


class AvroEncoder:
    """Records as datums of a container without compression; a frame is one block of it.

    With `memberships` of the options, it takes memberships and no records.
    """

    extension = "avro"
    frame_bytes = FRAMING_BYTES + SYNC_BYTES

    def __init__(self, options: WriteOptions) -> None:
        self._kind = MEMBERSHIP if options.memberships else RECORD

    def prolog(self) -> bytes:
        """Return the header; the same for all containers, so that the same records are the same."""
        return our_header(self._kind)

    def encode(self, record: Record | Membership) -> bytes:
        """Return one datum."""
        if isinstance(record, Record):
            return avro.encode(record) if self._kind == RECORD else self._refuse(record)
        return self._refuse(record) if self._kind == RECORD else avro_membership.encode(record)

    def frame(self, records: list[bytes]) -> bytes:
        """Return one block, or nothing for no records."""
        if not records:
            return b""
        size = sum(map(len, records))
        return b"".join((long(len(records)), long(size), *records, our_sync(self._kind)))

    def epilog(self) -> bytes:
        """Return nothing: a container ends with a block."""
        return b""

    def _refuse(self, record: Record | Membership) -> bytes:
        found = _ONES[RECORD if isinstance(record, Record) else MEMBERSHIP]
        reason = f"{found}, {record.url!r}; expected {_ONES[self._kind]}, as all of a container"
        raise RecordError(f"not-a-{self._kind}", reason)


def encoder(options: WriteOptions = WriteOptions()) -> AvroEncoder:
    """Return the encoder of records or of memberships."""
    return AvroEncoder(options)


def _skip_block(tape: Tape, sync: bytes) -> bool:
    try:
        _, size, width = framing(tape.peek(FRAMING_BYTES))
    except RecordError:
        return False
    tape.skip(width + size)
    return tape.take(SYNC_BYTES) == sync


_Place = tuple[int, int]
"""Where a stretch of the stream begins, and its length."""


class _Block(NamedTuple):
    offset: int
    records: int
    packed: bytes


class _BlockReader:
    """The blocks of one span, and what is made of a damaged one."""

    def __init__(self, tape: Tape, container: Container, span: Span, options: ReadOptions) -> None:
        self._tape = tape
        self._container = container
        self._span = span
        self._options = options
        self._resolved = False
        self._tried_bytes = 0
        self._decode: Callable[..., Record | Membership] = (
            avro_membership.decode_next if container.kind == MEMBERSHIP else avro.decode_next
        )

    def results(self) -> Iterator[Record | Membership | Reject]:
        while head := self._tape.peek(FRAMING_BYTES):
            try:
                count, size, width = framing(head, max_bytes=self._options.max_unit_bytes)
            except RecordError as exc:
                yield self._skip(exc)
            else:
                yield from self._read_block(head[:width], count, size)

    def _read_block(
        self, head: bytes, count: int, size: int
    ) -> Iterator[Record | Membership | Reject]:
        mark = self._tape.look(len(head) + size, SYNC_BYTES)
        if not self._stands(head, count, size, mark):
            found = f"{mark!r} behind a block of {size} bytes"
            expected = f"the sync marker {self._container.sync!r}"
            yield self._skip(RecordError("bad-block", f"{found}; expected {expected}"))
            return
        self._tape.skip(len(head))
        block = _Block(self._tape.offset, count, self._tape.take(size))
        self._tape.skip(len(mark))
        yield from self._records(block)

    def _stands(self, head: bytes, count: int, size: int, mark: bytes) -> bool:
        """Whether the block is as long as its head says, but for a torn end.

        A marker may be damaged alone. A block before such a marker is decoded to see whether it is
        whole. As blocks that are not whole may overlap, the bytes that are decoded for this are
        bounded by those that were passed.
        """
        if mark == self._container.sync:
            return True
        if len(mark) < SYNC_BYTES:
            return not self._tape.holds(self._container.sync)
        if self._tried_bytes > _TRIES * (self._tape.offset - self._span.offset):
            return False
        self._tried_bytes += size
        return self._is_whole(_Block(self._tape.offset, count, self._tape.look(len(head), size)))

    def _is_whole(self, block: _Block) -> bool:
        try:
            datums = self._unpack(block)
            stream = io.BytesIO(datums)
            for _ in range(block.records):
                self._decode_next(stream)
        except Exception as exc:
            record_error(exc)
            return False
        return stream.tell() == len(datums)

    def _skip(self, exc: RecordError) -> Reject:
        begin = self._tape.offset
        kept, length = self._tape.take_past(self._container.sync, keep=KEPT_BYTES)
        reject = self._reject(exc, kept, (begin, length))
        return msgspec.structs.replace(reject, truncated=length > len(kept))

    def _records(self, block: _Block) -> Iterator[Record | Membership | Reject]:
        try:
            datums = self._unpack(block)
        except Exception as exc:
            place = (block.offset, len(block.packed))
            yield self._reject(record_error(exc), block.packed, place)
            return
        stream = io.BytesIO(datums)
        for _ in range(block.records):
            at = stream.tell()
            try:
                record = self._decode_next(stream)
            except Exception as exc:
                error = record_error(exc)
                end = self._skip_datum(stream, at) if error.code == DEFECT else len(datums)
                yield self._reject(error, datums[at:end], _place(block, datums, at, end))
                if end == len(datums):
                    return
                continue
            end = stream.tell()
            yield self._admit(record, datums[at:end], _place(block, datums, at, end))
        at = stream.tell()
        if at < len(datums):
            found = f"{len(datums) - at} bytes behind {block.records} records; expected none"
            place = _place(block, datums, at, len(datums))
            yield self._reject(RecordError("bad-block", found), datums[at:], place)

    def _skip_datum(self, stream: io.BytesIO, at: int) -> int:
        """Skip the datum that begins at `at`, without our own code; return where it ends."""
        stream.seek(at)
        try:
            schema = self._container.written or avro.schema(self._container.kind)
            fastavro.schemaless_reader(stream, schema, None)
        except Exception as exc:
            record_error(exc)
            stream.seek(0, io.SEEK_END)
        return stream.tell()

    def _unpack(self, block: _Block) -> bytes:
        return unpack(self._container.codec, block.packed, max_bytes=self._options.max_unit_bytes)

    def _decode_next(self, stream: IO[bytes]) -> Record | Membership:
        try:
            record = self._decode(stream, written=self._container.written)
        except RecordError as exc:
            if exc.code == "other-schema" and not self._resolved:
                raise FormatError(f"{self._span.source}: {exc.reason}") from exc
            raise
        self._resolved = True
        return record

    def _admit(
        self, record: Record | Membership, datum: bytes, place: _Place
    ) -> Record | Membership | Reject:
        if isinstance(record, Membership):
            return record
        try:
            return admit(record, max_content_bytes=self._options.max_content_bytes)
        except Exception as exc:
            reject = self._reject(record_error(exc), datum, place)
        return msgspec.structs.replace(reject, url=record.url, action=record.action.value)

    def _reject(self, exc: RecordError, found: bytes, place: _Place) -> Reject:
        offset, length = place
        return Reject(
            code=exc.code,
            reason=exc.reason,
            stage="read",
            source=self._span.source,
            span=self._span.ordinal,
            offset=offset,
            length=length,
            data=found[:KEPT_BYTES],
            truncated=len(found) > KEPT_BYTES,
        )


def _place(block: _Block, datums: bytes, begin: int, end: int) -> _Place:
    if datums is block.packed:
        return block.offset + begin, end - begin
    return block.offset, len(block.packed)  # a datum in a packed block has no bytes of its own
