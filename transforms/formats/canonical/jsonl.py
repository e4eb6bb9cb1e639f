"""Read and write JSON lines of canonical records and memberships, for eyes, diffs and tests.

Each line is an object, a membership if it has a `group`. Keys are sorted, and fields with their
default value are left out. Bytes are base64, times are RFC 3339.

**Keeps:** every field. A line without a provenance, as written by hand, gets its place in the
stream.

**Drops:** nothing. Infinite numbers are refused, because JSON has none.

**Reads beyond our own files:** empty lines, a byte order mark and carriage returns, as editors
write them.
"""

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import IO, Any, ClassVar

import msgspec

from feedferry.schemas.errors import RecordError, not_unicode_error
from feedferry.schemas.membership import Membership, RecordOrMembership
from feedferry.schemas.record import Provenance, Record
from feedferry.schemas.reject import KEPT_BYTES, Place, Reject, record_error, reject_bytes
from feedferry.schemas.span import Span, SpanEnd
from feedferry.transforms.formats.base import (
    MORE_BYTES,
    Encoder,
    ReadOptions,
    ReadResult,
    WriteOptions,
)
from feedferry.transforms.formats.canonical import admit
from feedferry.transforms.formats.canonical.record_runs import RecordRuns
from feedferry.transforms.formats.fast_path.columns.cells import (
    Cells,
    EncodeColumn,
    as_stated,
    plain,
)
from feedferry.transforms.formats.fast_path.columns.column_kinds import (
    CONTENT_KINDS,
    TEXT_KINDS,
    Column,
    ColumnKind,
)
from feedferry.transforms.formats.fast_path.columns.holes import InspectedError
from feedferry.transforms.formats.fast_path.columns.json_cells import (
    in_base64,
    json_dates,
    json_texts,
    json_times,
)
from feedferry.transforms.formats.fast_path.columns.marks import stated
from feedferry.transforms.formats.fast_path.columns.record_batch import RecordBatch
from feedferry.transforms.formats.fast_path.elements.element_codes import (
    ACL,
    CONTENT,
    META,
    PERMIT,
    RECORD,
)
from feedferry.transforms.formats.fast_path.plans.element_plan import Pieces
from feedferry.transforms.formats.places import LinePlaces
from feedferry.transforms.formats.text.dates import parse_date
from feedferry.transforms.formats.text.streams import PIECE_BYTES, Line, read_lines, skip_line

_SLOTS = ("acl", "content", "metadata")
_TIMES = ("modified", "visited", "next_check")
_RUN_BYTES = 256 << 10
_NO_PROVENANCE = Provenance()
_GROUP = b'"group"'
_NO_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _GroupKey(msgspec.Struct):
    """The part of a line that distinguishes a membership from a record."""

    group: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _StatedGroup(msgspec.Struct, frozen=True):
    name: str = ""


class _StatedIdentity(msgspec.Struct):
    """What a line states of its record: its URL, or its group."""

    url: str = ""
    group: _StatedGroup = _StatedGroup()


def read(
    stream: IO[bytes], *, span: Span = Span(), options: ReadOptions = ReadOptions()
) -> Iterator[RecordOrMembership | RecordBatch | Reject | SpanEnd]:
    """Yield the record or membership of each line; a bad line costs only itself.

    Records that follow one another and are alike are in batches.
    """
    runs = RecordRuns(options)
    run: list[Record] = []
    length = 0
    line: Line | None = None
    for line in read_lines(stream, span, max_bytes=_max_line_bytes(options)):
        if line.text.isspace():
            continue
        result: RecordOrMembership | Reject
        try:
            result = _parse_line(line, span, options)
        except Exception as exc:
            place = Place(line.offset, line.length, line.number)
            data = line.text[:KEPT_BYTES]
            result = reject_bytes(record_error(exc), span=span, place=place, data=data)
        if isinstance(result, Record):
            run.append(result)
            length += line.length
            if len(run) < runs.max_records and length < _RUN_BYTES:
                continue
            yield from runs.take(run)
        else:
            yield from runs.take(run)
            yield result
        run, length = [], 0
    yield from runs.take(run)
    if line is not None and line.end >= span.stop_after(span.offset) and stream.read(1):
        yield SpanEnd(line.end, line.number + 1)


def cut(
    stream: IO[bytes], *, source: str, span_bytes: int, options: ReadOptions = ReadOptions()
) -> Iterator[Span]:
    """Yield the spans of a grid; the stream is read once, to count its lines."""
    span = Span(source=source, grid=span_bytes)
    length, lines = _skip_lines(stream, span_bytes)
    while length:
        following = span.next(SpanEnd(span.offset + length, span.line + lines))
        size = span.stop_after(following.offset) - following.offset
        next_length, lines = _skip_lines(stream, size)
        if not next_length:
            break
        yield msgspec.structs.replace(span, length=length, grid=0)
        span, length = following, next_length
    yield msgspec.structs.replace(span, grid=0)


def places(stream: IO[bytes], *, source: str = "") -> LinePlaces:
    """Return the places of the lines of a stream."""
    return LinePlaces(stream, source=source, find_url=_find_url)


def _find_url(text: bytes) -> str | None:
    """Return the URL or the name of the group of a line."""
    try:
        stated = msgspec.json.decode(text, type=_StatedIdentity)
    except _NO_JSON:
        return None
    return stated.url or stated.group.name or None


def line(result: ReadResult) -> bytes:
    """Return one line, with its end; raise RecordError for a value that JSON cannot hold."""
    try:
        fields = _without_defaults(result)
        return _json(fields) + b"\n"
    except UnicodeEncodeError as exc:
        raise not_unicode_error(exc) from exc


def _documents(kind: ColumnKind) -> EncodeColumn:
    """Return the function that encodes contents in base64."""
    return lambda values: in_base64(plain(kind, values))


def _bodies(kind: ColumnKind) -> EncodeColumn:
    """Return the function that encodes documents of any kind as texts."""
    return lambda values: [
        msgspec.json.encode(value.decode())[1:-1] for value in plain(kind, values)
    ]


def _numbers(values: Column) -> Column:
    if 0 in values:  # a default, which is left out
        raise InspectedError
    return [*map(str, values)]


class JsonlEncoder(Encoder):
    """Encodes records as lines."""

    extension = "jsonl"
    elements_once = ""
    cells: ClassVar[Cells] = {
        **dict.fromkeys((*TEXT_KINDS, ColumnKind.PARENT), (json_texts,)),
        **{kind: (_documents(kind), _bodies(kind)) for kind in CONTENT_KINDS},
        ColumnKind.DATE: (json_dates,),
        ColumnKind.TIME: (json_times,),
        ColumnKind.INTEGER: (as_stated,),
        ColumnKind.NUMBER: (_numbers,),
    }

    def __init__(self, options: WriteOptions = WriteOptions()) -> None:
        """No option changes how a line is written."""

    def encode(self, record: RecordOrMembership) -> bytes:
        return line(record)

    def elements(self, record: Record) -> Pieces:
        """Return the fields of a record, and the items of its lists."""
        fields = _without_defaults(record)
        pieces: list[tuple[str, bytes]] = [("", b"{")]
        for name in sorted({*fields, *_SLOTS}):
            if name not in fields:
                pieces.append(("", b""))
                continue
            value = fields[name]
            comma = b"" if name in ("acl", "action") else b","  # these may be first
            if name == "acl":
                principals = value.pop("principals", ())
                pieces.append((ACL, _json({name: value})[1:-2]))
                begin = b"," * bool(value) + b'"principals":['
                if principals:
                    pieces += [("", begin), *_items(PERMIT, principals), ("", b"]")]
                pieces.append(("", b"},"))
            elif name == "metadata":
                pieces += [("", b',"metadata":['), *_items(META, value), ("", b"]")]
            else:
                element = CONTENT if name == "content" else RECORD
                pieces.append((element, comma + _json({name: value})[1:-1]))
        return [*pieces, ("", b"}\n")]


def _json(value: object) -> bytes:
    return msgspec.json.encode(value, enc_hook=stated, order="sorted")


def _items(code: str, values: Sequence[object]) -> Iterator[tuple[str, bytes]]:
    """Yield the items of a list, and the commas between them."""
    for number, value in enumerate(values):
        if number:
            yield "", b","
        yield code, _json(value)


def _max_line_bytes(options: ReadOptions) -> int:
    """Return the length limit of a line; base64 in base64, a content takes 16/9 of its size."""
    return 2 * options.max_content_bytes + MORE_BYTES


def _skip_lines(stream: IO[bytes], size: int) -> tuple[int, int]:
    """Skip lines of at least `size` bytes, if there are as many; return their bytes and number."""
    length = lines = 0
    piece = b""
    while length < size and (piece := stream.read(min(size - length, PIECE_BYTES))):
        length += len(piece)
        lines += piece.count(b"\n")
    if piece and not piece.endswith(b"\n"):
        length += skip_line(stream)
        lines += 1
    return length, lines


def _parse_line(line: Line, span: Span, options: ReadOptions) -> RecordOrMembership:
    if line.length > len(line.text):
        reason = (
            f"a line of {line.length} bytes; expected at most {_max_line_bytes(options)}; "
            "raise ⟦max_content_bytes⟧"
        )
        raise RecordError("line-too-long", reason)
    record = _decode(line.text)
    if record.provenance == _NO_PROVENANCE:
        place = Provenance(
            source=span.source, span=span.ordinal, line=line.number, offset=line.offset
        )
        record = msgspec.structs.replace(record, provenance=place)
    if isinstance(record, Membership):
        return record
    record = _in_utc(record, zone=options.zone)
    return admit(record, max_content_bytes=options.max_content_bytes)


def _decode(text: bytes) -> RecordOrMembership:
    try:
        kind: type[RecordOrMembership] = Membership if _has_group(text) else Record
    except _NO_JSON as exc:
        raise _bad_json(exc, "record or a membership") from exc
    try:
        return msgspec.json.decode(text, type=kind)
    except _NO_JSON as exc:
        raise _bad_json(exc, kind.__name__.lower()) from exc


def _has_group(text: bytes) -> bool:
    """Whether a line is a membership; only the few lines with that word are decoded twice."""
    return _GROUP in text and msgspec.json.decode(text, type=_GroupKey).group is not msgspec.UNSET


def _bad_json(exc: Exception, name: str) -> RecordError:
    reason = str(exc).replace("Invalid ", "unreadable ").replace("invalid ", "unreadable ")
    return RecordError("bad-json", f"{reason}; expected a {name} in JSON")


def _in_utc(record: Record, *, zone: str) -> Record:
    changed = {}
    for name in _TIMES:
        moment: datetime | None = getattr(record, name)
        if moment is not None and moment.tzinfo is not UTC:
            changed[name] = parse_date(moment.isoformat(), zone=zone)
            if changed[name] is None:
                found = f"{name}={moment.isoformat()!r}"
                raise RecordError("bad-date", f"{found}; expected a time in UTC")
    return msgspec.structs.replace(record, **changed) if changed else record


def _without_defaults(value: object) -> Any:  # as JSON
    """Return a value for JSON, without the fields of structs that have their default."""
    if isinstance(value, msgspec.Struct):
        fields = ((name, getattr(value, name), default) for name, default in _defaults(type(value)))
        return {
            name: _without_defaults(field) for name, field, default in fields if field != default
        }
    if isinstance(value, tuple):
        return [_without_defaults(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise RecordError("not-finite", f"the number {value}; expected a finite one")
    return value


@cache
def _defaults(kind: type[msgspec.Struct]) -> tuple[tuple[str, object], ...]:
    return tuple((field.name, field.default) for field in msgspec.structs.fields(kind))
