"""JSON lines of canonical records and memberships, for eyes, diffs and golden files.

One object a line, a membership if it has a `group`; its keys sorted, without what is not stated;
bytes are base64, times RFC 3339.

**Keeps:** every field. What was written by hand, without a provenance, gets its place in the
stream as one.

**Drops:** nothing; infinite numbers, which JSON has not, are refused.

**Reads beyond our own:** empty lines, a byte order mark and carriage returns, which editors leave.
"""

import math
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import cache
from typing import IO, Any, NamedTuple

import msgspec

from schemas.defect import record_error
from schemas.errors import RecordError
from schemas.membership import Membership
from schemas.record import Provenance, Record
from schemas.reject import Place, Reject, reject_bytes
from schemas.span import Span
from transforms.formats.base import MORE_BYTES, ReadOptions, ReadResult, WriteOptions, write_all
from transforms.formats.canonical.admission import admit
from transforms.formats.dates import parse_date

KEPT_BYTES = 1 << 20
"""Most bytes of a line that its reject keeps."""

_PIECE_BYTES = 1 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_TIMES = ("modified", "visited", "next_check")
_NOWHERE = Provenance()
_GROUP = b'"group"'
_NO_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _Head(msgspec.Struct):
    """As much of a line as tells a membership from a record."""

    group: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


def read(
    stream: IO[bytes], *, span: Span = Span(), options: ReadOptions = ReadOptions()
) -> Iterator[Record | Membership | Reject]:
    """Yield the record or membership of each line; a line that is none costs nothing but itself."""
    for found in _lines(stream, span, max_line_bytes(options)):
        one: Record | Membership | Reject
        try:
            one = _one(found, span, options)
        except Exception as exc:
            one = _reject(found, record_error(exc), span)
        yield one


def max_line_bytes(options: ReadOptions) -> int:
    """Most bytes of a line that is read; base64 in base64, a content takes 16/9 of its size."""
    return 2 * options.max_content_bytes + MORE_BYTES


def cut(
    stream: IO[bytes], *, source: str, span_bytes: int, options: ReadOptions = ReadOptions()
) -> Iterator[Span]:
    """Yield spans that end with a line; reads the stream once, to count its lines."""
    span, passed = Span(source=source), _pass_lines(stream, span_bytes)
    while (following := _pass_lines(stream, span_bytes)).length:
        yield msgspec.structs.replace(span, length=passed.length)
        span = Span(
            source=source,
            ordinal=span.ordinal + 1,
            offset=span.offset + passed.length,
            line=span.line + passed.lines,
        )
        passed = following
    yield span


def write(
    records: Iterable[Record | Membership],
    stream: IO[bytes],
    *,
    options: WriteOptions = WriteOptions(),
) -> None:
    """Write a line for each record."""
    write_all(encoder(options), records, stream)


def line(found: ReadResult) -> bytes:
    """Return one line, its end included; raise RecordError for what JSON cannot hold."""
    try:
        return msgspec.json.encode(_stated(found), order="sorted") + b"\n"
    except UnicodeEncodeError as exc:
        code = f"U+{ord(exc.object[exc.start]):04X}"
        raise RecordError("not-unicode", f"a lone surrogate {code}; expected Unicode text") from exc


class NativeEncoder:
    """Records as lines; a frame adds nothing to them."""

    extension = "jsonl"
    frame_bytes = 0

    def prolog(self) -> bytes:
        """Return nothing: the first line is a record."""
        return b""

    def encode(self, record: Record | Membership) -> bytes:
        """Return one line."""
        return line(record)

    def frame(self, records: list[bytes]) -> bytes:
        """Return the lines, one behind the other."""
        return b"".join(records)

    def epilog(self) -> bytes:
        """Return nothing: the last line is a record."""
        return b""


def encoder(options: WriteOptions = WriteOptions()) -> NativeEncoder:
    """Return the encoder; there is one way only to write a line."""
    return NativeEncoder()


class _Passed(NamedTuple):
    length: int
    lines: int


def _pass_lines(stream: IO[bytes], size: int) -> _Passed:
    """Pass over whole lines of at least `size` bytes, unless the stream ends before."""
    length = lines = 0
    last = b""
    while length < size and (last := stream.read(min(size - length, _PIECE_BYTES))):
        length += len(last)
        lines += last.count(b"\n")
    if last and not last.endswith(b"\n"):
        length += _skip_line(stream)
        lines += 1
    return _Passed(length, lines)


class _Line(NamedTuple):
    """A line, or its first bytes where it is longer than the limit."""

    text: bytes
    number: int
    offset: int
    length: int


def _lines(stream: IO[bytes], span: Span, most: int) -> Iterator[_Line]:
    number, offset = span.line, span.offset
    while text := stream.readline(most):
        length = len(text)
        if length == most and not text.endswith(b"\n"):
            length += _skip_line(stream)
        if length > most:
            text = text[:KEPT_BYTES]
        if not text.isspace():
            yield _Line(text, number, offset, length)
        number, offset = number + 1, offset + length


def _skip_line(stream: IO[bytes]) -> int:
    skipped = 0
    while piece := stream.readline(_PIECE_BYTES):
        skipped += len(piece)
        if piece.endswith(b"\n"):
            break
    return skipped


def _one(found: _Line, span: Span, options: ReadOptions) -> Record | Membership:
    if found.length > len(found.text):
        reason = (
            f"a line of {found.length} bytes; expected at most {max_line_bytes(options)}; "
            "raise --max-content-bytes"
        )
        raise RecordError("line-too-long", reason)
    one = _decode(found)
    if one.provenance == _NOWHERE:
        place = Provenance(
            source=span.source, span=span.ordinal, line=found.number, offset=found.offset
        )
        one = msgspec.structs.replace(one, provenance=place)
    if isinstance(one, Membership):
        return one
    record = _in_utc(one, zone=options.zone)
    return admit(record, max_content_bytes=options.max_content_bytes)


def _decode(found: _Line) -> Record | Membership:
    text = found.text
    if found.offset == 0:
        text = text.removeprefix(_BYTE_ORDER_MARK)
    try:
        return msgspec.json.decode(text, type=Record)
    except _NO_JSON as exc:
        if not _has_group(text):
            raise _bad_json(exc, "record") from exc
    try:
        return msgspec.json.decode(text, type=Membership)
    except _NO_JSON as exc:
        raise _bad_json(exc, "membership") from exc


def _has_group(text: bytes) -> bool:
    """Whether what is no record is a membership; records need no second look at them."""
    if _GROUP not in text:
        return False
    try:
        return msgspec.json.decode(text, type=_Head).group is not msgspec.UNSET
    except _NO_JSON as exc:
        raise _bad_json(exc, "record or a membership") from exc


def _bad_json(exc: Exception, name: str) -> RecordError:
    reason = str(exc).replace("Invalid ", "unreadable ").replace("invalid ", "unreadable ")
    return RecordError("bad-json", f"{reason}; expected a {name} in JSON")


def _in_utc(record: Record, *, zone: str) -> Record:
    moments = {name: getattr(record, name) for name in _TIMES}
    changed = {
        name: _moment(moment, name, zone)
        for name, moment in moments.items()
        if moment is not None and moment.tzinfo is not UTC
    }
    return msgspec.structs.replace(record, **changed) if changed else record


def _moment(moment: datetime, name: str, zone: str) -> datetime:
    found = parse_date(moment.isoformat(), zone=zone)
    if found is None:
        raise RecordError("bad-date", f"{name}={moment.isoformat()!r}; expected a time in UTC")
    return found


def _reject(found: _Line, exc: RecordError, span: Span) -> Reject:
    place = Place(found.offset, found.length, found.number)
    return reject_bytes(exc, span=span, place=place, data=found.text[:KEPT_BYTES])


def _stated(found: Any) -> Any:
    """Return what is not as its default, as JSON has it; msgspec writes the rest."""
    if isinstance(found, msgspec.Struct):
        values = ((name, getattr(found, name), usual) for name, usual in _defaults(type(found)))
        return {name: _stated(value) for name, value, usual in values if value != usual}
    if isinstance(found, tuple):
        return [_stated(part) for part in found]
    if isinstance(found, float) and not math.isfinite(found):
        raise RecordError("not-finite", f"the number {found}; expected a finite one")
    return found


@cache
def _defaults(kind: type[msgspec.Struct]) -> tuple[tuple[str, Any], ...]:
    return tuple((field.name, field.default) for field in msgspec.structs.fields(kind))
