"""Records and memberships as Avro datums, by the published schemas.

**Spec:** Apache Avro 1.12, "Binary Encoding" and "Schema Resolution".

Datums are encoded without fastavro, which looks up 23 fields and their unions in a dict and takes
six times as long, but by functions that are generated from the schema. The bytes are the same.
Numbers are zigzag, seven bits per byte, lowest bits first; tables have 14 bits per entry, because a
loop over the bytes takes twice as long.
"""

import json
import struct
from collections.abc import Callable, Iterator, Sequence, Sized
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from importlib.resources import files
from typing import IO, TYPE_CHECKING, Any, TypeVar

import msgspec

from feedferry.schemas.errors import RecordError
from feedferry.schemas.membership import RecordOrMembership
from feedferry.schemas.moments import Moments
from feedferry.schemas.record import Record
from feedferry.schemas.reject import record_error

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

Json = Any
"""A part of a schema, as `json` decodes it; also the names of generated functions."""

_Item = TypeVar("_Item", bound=RecordOrMembership)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_INT, _LONG = 1 << 31, 1 << 63
_LONG_BYTES = 10
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
_MANY = 64
"""Fewer numbers are encoded one by one."""

_POSITIVE = 1 << 62
_WIDTHS = [1 << 7 * width for width in range(1, 9)]
"""The least numbers of two bytes, three bytes, and so on."""

_LENGTHS = _LAST[::2]
"""Encodings of the longs from 0, for callers that avoid a function call."""
_SHORT = len(_LENGTHS)


def long(number: int) -> bytes:
    """Return an Avro long, or int, of at most 64 bits."""
    return _varint(number << 1 if number >= 0 else ~number << 1 | 1)


def read_long(data: bytes, at: int) -> tuple[int, int]:
    """Return the long at a place, and the place after it; raise RecordError if there is none."""
    number = 0
    for place, byte in enumerate(data[at : at + _LONG_BYTES]):
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return number >> 1 ^ -(number & 1), at + place + 1
    raise RecordError("bad-block", f"{data[: 2 * _LONG_BYTES]!r}; expected the size of a block")


def longs(numbers: Sequence[int], *, scale: int = 1) -> list[bytes]:
    """Return the longs of many numbers, each multiplied by `scale`.

    Those from 0 to 62 bits are made by NumPy, all of one width at once.
    """
    if len(numbers) < _MANY or min(numbers) < 0 or max(numbers) >= _POSITIVE // scale:
        return [long(number * scale) for number in numbers]
    import numpy as np

    zigzag = np.array(numbers, dtype=np.uint64) * np.uint64(2 * scale)
    least = np.array(_WIDTHS, dtype=np.uint64)  # of another type, they would be rounded
    widths = np.searchsorted(least, zigzag, side="right") + 1
    narrow, wide = int(widths.min()), int(widths.max())
    if narrow == wide:
        return _of_width(zigzag, wide)
    encoded = [_NULL] * len(numbers)
    for width in range(narrow, wide + 1):
        (places,) = np.nonzero(widths == width)
        found = zip(places.tolist(), _of_width(zigzag[places], width), strict=True)
        for place, data in found:
            encoded[place] = data
    return encoded


def _of_width(zigzag: Any, width: int) -> list[bytes]:  # Any: an array of NumPy
    """Return the encodings of numbers that have the same number of bytes."""
    import numpy as np

    groups = zigzag[:, None] >> np.arange(0, 7 * width, 7, dtype=np.uint64)
    groups = (groups & np.uint64(0x7F)).astype(np.uint8)
    groups[:, :-1] |= 0x80
    if width == 1:
        return [_ENDS[byte] for byte in groups.ravel().tolist()]
    # The last of several bytes is not 0, so that NumPy strips nothing from them.
    encoded: list[bytes] = groups.view(f"S{width}").ravel().tolist()
    return encoded


def texts(utf8: Sequence[bytes]) -> list[bytes]:
    """Return the strings, or bytes, of many values."""
    return [
        (_LENGTHS[size] if (size := len(data)) < _SHORT else long(size)) + data for data in utf8
    ]


def _length(data: Sized) -> bytes:
    """Return the length prefix of bytes, or of an array in one block."""
    size = len(data)
    return _LENGTHS[size] if size < _SHORT else long(size)


def _varint(number: int) -> bytes:
    if number < 1 << 14:
        return _LAST[number]
    if number < 1 << 28:
        return _LOW[number & 0x3FFF] + _LAST[number >> 14]
    return _LOW[number & 0x3FFF] + _LOW[number >> 14 & 0x3FFF] + _varint(number >> 28)


def encode(item: RecordOrMembership) -> bytes:
    """Return one schemaless datum; raise RecordError for a value that Avro cannot hold."""
    try:
        return b"".join(_parts_of(type(item))(item))
    except UnicodeEncodeError as exc:
        code = f"U+{ord(exc.object[exc.start]):04X}"
        raise RecordError("not-unicode", f"a lone surrogate {code}; expected Unicode text") from exc


def fields_of(kind: type[RecordOrMembership]) -> list[str]:
    """Return the names of the fields of a struct, in the order of the schema."""
    return [field["name"] for field in schema_document(kind.__name__.lower())["fields"]]


def encode_field(name: str, item: RecordOrMembership) -> bytes:
    """Return the part of a datum that one field is."""
    return b"".join(_parts_of(type(item), name)(item))


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


def schema_document(name: str) -> Json:
    """Return the published schema of that name, including its doc strings."""
    return json.loads(files("feedferry.schemas").joinpath(f"{name}.avsc").read_text("utf-8"))


def _bad_avro(problem: str, name: str) -> RecordError:
    return RecordError("bad-avro", f"{problem}; expected one Avro datum of a {name}")


def _clip(text: str) -> str:
    return text if len(text) <= 200 else text[:197] + "..."


@cache
def _parts_of(
    kind: type[RecordOrMembership], field: str | None = None
) -> Callable[[RecordOrMembership], list[bytes]]:
    """Return the function that encodes a struct, or one field, in parts; a content is not copied.

    It is generated from the schema: one expression for each field, without a loop over the fields.
    """
    generator = _EncoderGenerator()
    document = schema_document(kind.__name__.lower())
    if field is not None:
        fields = [stated for stated in document["fields"] if stated["name"] == field]
        document = {**document, "fields": fields}
    name = generator.add_record(document, path="")
    exec("\n".join(generator.functions), generator.names)
    function: Callable[[RecordOrMembership], list[bytes]] = generator.names[name]
    return function


_SHARED = ("Meta.name", "Provenance.source", "Provenance.datasource", "Provenance.feedtype")
"""Texts that many records share: their encodings are cached."""


_STATEMENT = "\n"
"""The begin of a part that is a statement, not an expression."""


class _EncoderGenerator:
    """Generates the functions that encode the records of a schema, as source.

    `names` are those that the source uses. A function returns the parts of a record as a list.
    """

    def __init__(self) -> None:
        self.functions: list[str] = []
        self._records: dict[str, Json] = {}
        self.names: dict[str, Json] = {  # functions, bytes and dicts
            "bounded": _bounded,
            "double": _DOUBLE,
            "length": _length,
            "long": long,
            "shared": _shared,
            "shared_or_null": _shared_or_null,
            "text": text,
            "timestamp": timestamp,
            "END": _END,
            "FLAG": _FLAG,
            "LENGTHS": _LENGTHS,
            "NULL": _NULL,
            "STATED": _STATED_FLAG,
            "VALUE": _VALUE,
        }

    def add_record(self, schema: Json, *, path: str) -> str:
        """Add the function of a record; return its name. `path` is the field that holds it."""
        name: str = schema["name"]
        self._records[name] = schema
        lines: list[str] = []
        parts: list[str] = []
        for part in (*self._fields(schema, "v", path), f"{_STATEMENT}return p"):
            if part.startswith(_STATEMENT):
                lines.append(f"p {'+=' if lines else '='} [{', '.join(parts)}]")
                lines.append(part.removeprefix(_STATEMENT))
                parts = []
            else:
                parts.append(part)
        self.functions.append(f"def {name}(v):\n " + "\n ".join(lines))
        return name

    def _fields(self, schema: Json, value: str, path: str) -> Iterator[str]:
        """Yield expressions for the parts of the fields of a record."""
        for field in schema["fields"]:
            name = field["name"]
            is_shared = f"{schema['name']}.{name}" in _SHARED
            place = f"{path}.{name}".lstrip(".")
            yield from self._parts(field["type"], f"{value}.{name}", place, is_shared=is_shared)

    def _parts(  # noqa: PLR0912  # a case for each type of Avro
        self, kind: Json, value: str, path: str, *, is_shared: bool = False
    ) -> list[str]:
        """Return expressions for the parts of a value; a part may be a starred tuple."""
        match kind:
            case ["null", "boolean"]:
                parts = [f"STATED[{value}]"]
            case ["null", "string"] if is_shared:
                parts = [f"shared_or_null({value})"]
            case ["null", "bytes"]:
                parts = [f"(NULL if {value} is None else VALUE + length({value}) + {value})"]
            case ["null", other]:
                inner = self._parts(other, value, path, is_shared=is_shared)
                is_one = len(inner) == 1 and not inner[0].startswith("*")
                stated = f"VALUE + {inner[0]}" if is_one else f"(VALUE, {', '.join(inner)})"
                null = f"NULL if {value} is None else {stated}"
                parts = [f"({null})" if is_one else f"*((NULL,) if {value} is None else {stated})"]
            case {"type": "array", "items": "string"}:
                parts = [f"*((length({value}), *map(text, {value}), END) if {value} else (END,))"]
            case {"type": "array", "items": items}:  # a loop is a third faster than a function
                record = self._records.get(str(items), items)
                self._records[record["name"]] = record
                fields = [*self._fields(record, "i", path)]
                has_arrays = any(part.startswith(_STATEMENT) for part in fields)
                each = f"{self.add_record(record, path=path)}(i)" if has_arrays else ""
                loop = f"for i in {value}: p += {each or '(' + ', '.join(fields) + ')'}"
                parts = [f"{_STATEMENT}if {value}:\n  p.append(length({value}))\n  {loop}", "END"]
            case {"type": "record"}:
                parts = [f"*{self.add_record(kind, path=path)}({value})"]
            case {"type": "enum", "name": name, "symbols": symbols}:
                self.names[name] = {symbol: long(at) for at, symbol in enumerate(symbols)}
                parts = [f"{name}[{value}._value_]"]
            case {"logicalType": "timestamp-micros"}:
                parts = [f"timestamp({value})"]
            case "bytes":
                parts = [f"length({value})", value]
            case "boolean":
                parts = [f"FLAG[{value}]"]
            case "int" | "long":
                bound = _INT if kind == "int" else _LONG
                other = f"bounded({path!r}, n, {bound})"
                parts = [f"(LENGTHS[n] if 0 <= (n := {value}) < {_SHORT} else {other})"]
            case "string" if not is_shared:
                size = f"(n := len(u := {value}.encode()))"
                parts = [f"((LENGTHS[n] if {size} < {_SHORT} else long(n)) + u)"]
            case "string" | "double":
                parts = [f"{'shared' if is_shared else 'double'}({value})"]
            case _:
                parts = [f"*{kind}({value})"]  # a record by its name
        return parts


@lru_cache(maxsize=2048)  # the metadata of a feed has few names
def _shared(value: str) -> bytes:
    return text(value)


@lru_cache(maxsize=64)
def _shared_or_null(value: str | None) -> bytes:
    return _NULL if value is None else _VALUE + text(value)


def timestamp(time: datetime) -> bytes:
    """Return an aware moment as a long of microseconds."""
    return long((time - _EPOCH) // _MICROSECOND)


def timestamps(times: Sequence[datetime]) -> list[bytes]:
    """Return the moments of many records."""
    if isinstance(times, Moments):
        return longs(times.numbers, scale=times.microseconds)
    return longs([(time - _EPOCH) // _MICROSECOND for time in times])


def text(value: str) -> bytes:
    """Return a string of Avro: the length of its UTF-8, and that."""
    utf8 = value.encode()
    size = len(utf8)
    return (_LENGTHS[size] if size < _SHORT else long(size)) + utf8


def _bounded(field: str, number: int, bound: int) -> bytes:
    """Return the bytes of an int or a long; raise RecordError if it is out of bounds."""
    if not -bound <= number < bound:
        raise RecordError("out-of-range", f"{field}={number}; expected {-bound} to {bound - 1}")
    return long(number)
