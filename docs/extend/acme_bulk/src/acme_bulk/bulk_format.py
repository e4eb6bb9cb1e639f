"""Bodies of `_bulk` requests: a line for each action, and after an index action, its document.

**Keeps:** the URL, title, text and MIME type of a document, and deletions.

**Drops:** everything else, each field as a loss under its name. An ACL has no place, so a document
with one stops the run.
"""

import json
import re
from collections.abc import Iterator
from typing import IO, Any

from feedferry.extend import (
    Action,
    Content,
    Format,
    Holds,
    LinePlaces,
    Place,
    Provenance,
    ReadOptions,
    ReadResult,
    Record,
    RecordError,
    Reject,
    Span,
    WriteOptions,
    record_error,
    reject_bytes,
)

_BEGIN = re.compile(rb'\{"(?:index|delete)": ?\{"_id"')


def read(
    stream: IO[bytes], *, span: Span = Span(), options: ReadOptions = ReadOptions()
) -> Iterator[ReadResult]:
    """Yield a Record for each action, and a Reject for lines that are none."""
    offset, pending = span.offset, b""
    for line in stream:
        if pending and _begins_action(line):  # its document is missing
            yield _read_action(pending, offset - len(pending), span)
            pending = b""
        pending += line
        offset += len(line)
        if not _BEGIN.match(pending) or pending.startswith(b'{"delete"') or pending != line:
            yield _read_action(pending, offset - len(pending), span)
            pending = b""
    if pending:
        yield _read_action(pending, offset - len(pending), span)


def split(
    stream: IO[bytes], *, source: str, span_bytes: int, options: ReadOptions = ReadOptions()
) -> Iterator[Span]:
    """Yield spans of about `span_bytes`, each of which begins with an action."""
    ordinal = begin = end = 0
    for line in stream:
        if _begins_action(line) and end - begin >= span_bytes:
            yield Span(source=source, ordinal=ordinal, offset=begin, length=end - begin)
            ordinal, begin = ordinal + 1, end
        end += len(line)
    yield Span(source=source, ordinal=ordinal, offset=begin)


def find_places(stream: IO[bytes], *, source: str = "") -> LinePlaces:
    """Return the places of the actions of a chunk."""
    return LinePlaces(stream, source=source, begins_record=_begins_action, find_url=_find_url)


class BulkEncoder:
    """Writes actions; there is nothing around them."""

    extension = "ndjson"
    frame_bytes = 0

    def prolog(self) -> bytes:
        return b""

    def encode(self, record: Record) -> bytes:
        if record.action is Action.DELETE:
            return _line({"delete": {"_id": record.url}})
        fields = {"title": record.title, "type": record.mimetype, "text": _text_of(record.content)}
        stated = {name: value for name, value in fields.items() if value is not None}
        return _line({"index": {"_id": record.url}}) + _line(stated)

    def frame(self, records: list[bytes]) -> bytes:
        return b"".join(records)

    def epilog(self) -> bytes:
        return b""


def make_encoder(_options: WriteOptions) -> BulkEncoder:
    return BulkEncoder()


BULK = Format(
    name="acme-bulk",
    title="bodies of _bulk requests",
    matches=lambda head: _BEGIN.match(head) is not None,
    read=read,
    split=split,
    encoder=make_encoder,
    places=find_places,
    holds=Holds(fields={"title", "content", "mimetype"}, actions={Action.ADD, Action.DELETE}),
    content_type="application/x-ndjson",
    chunk_bytes=10 << 20,
)


def _begins_action(line: bytes) -> bool:
    return _BEGIN.match(line) is not None


def _find_url(line: bytes) -> str | None:
    try:
        return _url_of(_object(line))
    except RecordError:
        return None


def _read_action(lines: bytes, offset: int, span: Span) -> Record | Reject:
    provenance = Provenance(source=span.source, span=span.ordinal, offset=offset)
    try:
        return _record(lines, provenance)
    except Exception as exc:
        error = record_error(exc)  # of one record; other exceptions are raised again
        return reject_bytes(error, span=span, place=Place(offset, len(lines)), data=lines)


def _record(lines: bytes, provenance: Provenance) -> Record:
    first, _, second = lines.partition(b"\n")
    action = _object(first)
    url = _url_of(action)
    if "delete" in action:
        return Record(url=url, action=Action.DELETE, provenance=provenance)
    document = _object(second)
    if not {*document} <= {"title", "type", "text"}:
        raise RecordError("bad-document", f"{[*document]}; expected title, type and text")
    text = _stated(document, "text")
    return Record(
        url=url,
        action=Action.ADD,
        title=_stated(document, "title"),
        mimetype=_stated(document, "type"),
        content=None if text is None else Content(text.encode()),
        provenance=provenance,
    )


def _object(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as exc:
        raise RecordError("bad-json", f"{line[:40]!r}; expected a line of JSON") from exc
    if not isinstance(value, dict):
        raise RecordError("bad-json", f"{line[:40]!r}; expected an object")
    return value


def _url_of(action: dict[str, Any]) -> str:
    address = action.get("index", action.get("delete"))
    if len(action) != 1 or not isinstance(address, dict) or [*address] != ["_id"]:
        raise RecordError("bad-action", f"{[*action]}; expected an index or delete action")
    return _stated(address, "_id") or ""


def _stated(values: dict[str, Any], name: str) -> str | None:
    value = values.get(name)
    if not isinstance(value, str | None):
        raise RecordError("bad-value", f"{name} is {value!r}; expected a text")
    try:
        (value or "").encode()
    except UnicodeEncodeError as exc:
        raise RecordError("bad-value", f"{name} has half a character; expected a text") from exc
    return value


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"


def _text_of(content: Content | None) -> str | None:
    try:
        return None if content is None else content.data.decode()
    except UnicodeDecodeError as exc:
        raise RecordError("not-text", f"{exc.reason}; expected a text in UTF-8") from exc
