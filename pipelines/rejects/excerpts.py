"""One reject as text: what was found, what was expected, the cure, and its bytes with a mark.

A record that was read is shown as JSON without its content, because that is how its reason
names things. Text has the numbers of its lines in the source, other bytes are shown as
hexadecimal numbers next to the characters of ASCII.
"""

import io
import re
from collections.abc import Iterator
from itertools import chain

import msgspec
from lxml import etree

from feedferry.pipelines.rejects.run_rejects import RunReject
from feedferry.schemas.avro import convert, read_fields
from feedferry.schemas.codes import find_code
from feedferry.schemas.errors import RecordError
from feedferry.schemas.membership import Membership, RecordOrMembership
from feedferry.schemas.printable import printable
from feedferry.schemas.record import Record
from feedferry.schemas.reject import Reject
from feedferry.transforms.storage.run_folders.mirrors import shown

RAW_STAGES = ("read", "push", "retrieve")
"""Stages whose rejects have bytes of a file or a program; the others have records."""

_LINES = 5
_LETTERS = 68  # so that a line fits into 80 columns, and the mark stays below its place
_HEX_BYTES = 16
_LEAST_TEXT = 8
"""Bytes are text if at most one in this many is not UTF-8."""

_UTF16 = {b"<\0": "utf-16-le", b"\0<": "utf-16-be"}
_QUOTED = re.compile(r"'([^']{1,200})'|<([^<>]{1,200})>|=([^\s';]{1,200});")
_POSITION = re.compile(r"\((?:byte|column) (\d+)\)|\bbyte (\d+)\b")


def show(found: RunReject) -> Iterator[str]:
    """Yield the lines of a reject."""
    reject, code = found.reject, find_code("reject", found.reject.code)
    finding, separator, expected = reject.reason.rpartition("; expected ")
    line = f", line {reject.line:,}" if reject.line else ""
    place = f"{line}, byte {reject.offset:,}" if reject.key is None else f": {reject.key}"
    size = f", {reject.length:,} bytes" if reject.length else ""
    state = f", replayed in {found.replayed_in}" if found.replayed_in else ""
    state = ", accepted" if found.is_accepted else state
    yield f"reject    {found.number} of {shown(found.run)}{state}"
    yield f"code      {reject.code}" + (f": {code.meaning}" if code else "")
    yield f"place     {printable(reject.source + place)}{size}"
    if reject.url:
        yield f"url       {printable(reject.url)}"
    yield f"stage     {reject.stage}" + (f", action {reject.action}" if reject.action else "")
    yield f"found     {printable(finding if separator else expected)}"
    if separator:
        yield f"expected  {printable(expected)}"
    if code:
        yield f"cause     {code.cause}"
        yield f"cure      {code.cure}"
    if reject.data:
        yield ""
        yield from excerpt(reject)
        if reject.truncated:
            yield f"only the first {len(reject.data):,} bytes were kept"


def excerpt(reject: Reject) -> Iterator[str]:
    """Yield the bytes around the place that the reason names, with a mark below it."""
    record = record_of(reject)
    if record is not None:
        yield from _fields(record)
        return
    data = reject.data
    text, bad = _decode(data)
    if text is None:
        yield from _hex_dump(data, bad, reject.offset)
        return
    text = text.rstrip()
    mark = _mark_of(reject, text)
    yield from _text_lines(text, bad if mark is None else mark, max(reject.line, 1))


def record_of(reject: Reject) -> RecordOrMembership | None:
    """Return the record that a reject has in place of bytes of a file, None if it has none."""
    if reject.stage in RAW_STAGES:
        return None
    for kind in (Record, Membership):
        stream = io.BytesIO(reject.data)
        try:
            item: RecordOrMembership = convert(read_fields(stream, kind.__name__.lower()), kind)
        except RecordError:
            continue
        if not stream.read(1):
            return item
    return None


def _decode(data: bytes) -> tuple[str | None, int]:
    """Return text with escapes for bytes that are not UTF-8, and the place of the first of them.

    Other bytes than text have None.
    """
    codec = _UTF16.get(data[:2])
    if codec is not None:
        return data.decode(codec, "replace"), 0
    bad = len(data) - len(data.decode("utf-8", "ignore").encode())
    first = 0
    try:
        data.decode()
    except UnicodeDecodeError as exc:
        first = exc.start
    if b"\0" in data or bad * _LEAST_TEXT > len(data):
        return None, first
    return data.decode("utf-8", "backslashreplace"), len(data[:first].decode())


def _fields(record: RecordOrMembership) -> Iterator[str]:
    values = msgspec.to_builtins(record, enc_hook=repr)
    if isinstance(record, Record) and record.content is not None:
        values["content"]["data"] = f"{len(record.content.data):,} bytes"
    stated = {name: value for name, value in values.items() if value not in (None, (), [], "", {})}
    text = msgspec.json.format(msgspec.json.encode(stated), indent=2).decode()
    lines = text.splitlines()
    yield from (printable(line)[: _LETTERS * 2] for line in lines[: _LINES * 12])
    if len(lines) > _LINES * 12:
        yield "  …"


def _mark_of(reject: Reject, text: str) -> int | None:
    """Return the index of the character at which the fault is, None if that is not known."""
    words = [next(filter(None, found)) for found in _QUOTED.findall(reject.reason)]
    for word in words:
        if (at := text.find(f"&{word};")) >= 0:
            return at
    if text.lstrip().startswith("<"):
        try:
            etree.fromstring(text.encode(), etree.XMLParser(resolve_entities=False))
        except etree.XMLSyntaxError as exc:
            row, column = exc.position
            lines = text.splitlines(keepends=True)
            before = sum(len(line) for line in lines[: row - 1])
            width = len(lines[row - 1]) if 0 < row <= len(lines) else 0
            at = before + min(max(column - 1, 0), max(width - 1, 0))
            amp = text.rfind("&", before, at + 1)  # the parser stops after a reference
            return amp if "EntityRef" in (exc.msg or "") and amp >= 0 else at
        except ValueError:
            return None
    if position := _POSITION.search(reject.reason):
        at = int(position[1] or position[2])
        if at < len(text):
            return at
    for pattern in chain.from_iterable((f'="{word}"', word) for word in words):
        if (at := text.find(pattern)) >= 0:
            return at
    return None


def _text_lines(text: str, mark: int, first_line: int) -> Iterator[str]:
    lines = text.split("\n")
    marked = text.count("\n", 0, mark)
    column = mark - (text.rfind("\n", 0, mark) + 1)
    begin = max(0, marked - _LINES)
    end = min(len(lines), marked + _LINES + 1)
    width = len(f"{first_line + end - 1:,}")
    if begin:
        yield f"{'…':>{width}} |"
    for index in range(begin, end):
        start = max(0, column - _LETTERS // 2) if index == marked else 0
        shown = lines[index][start : start + _LETTERS]
        cut = "…" if len(lines[index]) > start + _LETTERS else ""
        head = "…" if start else ""
        yield f"{first_line + index:>{width},} | {head}{printable(shown)}{cut}".rstrip()
        if index == marked:
            before = head + printable(lines[index][start:column])
            yield f"{'':>{width}} | {' ' * len(before)}^"
    if end < len(lines):
        yield f"{'…':>{width}} |"


def _hex_dump(data: bytes, mark: int, offset: int) -> Iterator[str]:
    begin = max(0, (mark // _HEX_BYTES - _LINES) * _HEX_BYTES)
    for start in range(begin, min(len(data), begin + (2 * _LINES + 1) * _HEX_BYTES), _HEX_BYTES):
        row = data[start : start + _HEX_BYTES]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        yield f"{offset + start:08x}  {row.hex(' '):<{3 * _HEX_BYTES}} {letters}"
        if start <= mark < start + _HEX_BYTES:
            yield f"{'':8}  {'   ' * (mark - start)}^^"
