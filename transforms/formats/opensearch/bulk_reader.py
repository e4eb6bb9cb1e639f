"""Read bodies of `_bulk` requests: documents of our own, and actions of others.

**Spec:** OpenSearch "Bulk" and Elasticsearch "Bulk API".

`index` and `create` are documents, `delete` a deletion. An `update` is read if it is the ACL of a
document, as the writer makes it. The fields are those of the writer; others become metadata. A
document without the fields of a decision is shown to no user by our filter, so that its ACL permits
nobody.
"""

import re
from collections.abc import Iterator
from functools import partial
from typing import IO

import msgspec

from feedferry.schemas.acl import Acl
from feedferry.schemas.errors import RecordError
from feedferry.schemas.record import (
    Action,
    Provenance,
    Record,
)
from feedferry.schemas.reject import Place
from feedferry.schemas.span import Span
from feedferry.transforms.access.index_fields import acl_of_fields, field_names
from feedferry.transforms.formats.base import ReadOptions, ReadResult
from feedferry.transforms.formats.places import LinePlaces
from feedferry.transforms.formats.search_document.document_reader import (
    document_of,
    read_lines,
    text_of,
    texts_of,
)

ACTION = re.compile(rb'\s*\{\s*"(index|create|update|delete)"\s*:\s*\{')
_DELETE = b"delete"
_ACCESS = frozenset(field_names())
_NO_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def read(
    stream: IO[bytes], *, span: Span = Span(), options: ReadOptions = ReadOptions()
) -> Iterator[ReadResult]:
    """Yield a record for each action, and a reject for lines that are none."""
    offset, number, begin, line_number = span.offset, span.line - 1, span.offset, span.line
    pending = b""
    read_action = partial(read_lines, read=_record, span=span, options=options)
    for line in stream:
        number += 1
        if pending and begins_action(line):  # its document is missing
            yield read_action(pending, place=Place(begin, len(pending), line_number))
            pending = b""
        if not pending:
            begin, line_number = offset, number
        offset += len(line)
        if not pending and line.isspace():
            continue
        pending += line
        if is_whole(pending, line):
            yield read_action(pending, place=Place(begin, len(pending), line_number))
            pending = b""
    if pending:
        yield read_action(pending, place=Place(begin, len(pending), line_number))


def split(
    stream: IO[bytes], *, source: str, span_bytes: int, options: ReadOptions = ReadOptions()
) -> Iterator[Span]:
    """Yield spans of about `span_bytes`, each of which begins with an action."""
    ordinal = begin = end = 0
    begin_line = 1
    for number, line in enumerate(stream, 1):
        if begins_action(line) and end - begin >= span_bytes:
            yield Span(
                source=source, ordinal=ordinal, offset=begin, length=end - begin, line=begin_line
            )
            ordinal, begin, begin_line = ordinal + 1, end, number
        end += len(line)
    yield Span(source=source, ordinal=ordinal, offset=begin, line=begin_line)


def places(stream: IO[bytes], *, source: str = "") -> LinePlaces:
    """Return the places of the actions of a chunk."""
    return LinePlaces(stream, source=source, begins_record=begins_action, find_url=_find_url)


def begins_action(line: bytes) -> bool:
    """Whether a line is an action; a document begins with another key."""
    return ACTION.match(line) is not None


def is_whole(pending: bytes, line: bytes) -> bool:
    """Whether the lines of an action are complete with this one."""
    begin = ACTION.match(pending)
    return (
        begin is None or begin[1] == _DELETE or (pending is not line and len(pending) > len(line))
    )


def _find_url(line: bytes) -> str | None:
    try:
        return _id_of(_object(line))[1]
    except RecordError:
        return None


def _record(lines: bytes, provenance: Provenance, options: ReadOptions) -> Record:
    first, _, second = lines.strip(b"\r\n").partition(b"\n")
    action, key = _id_of(_object(first))
    if action == "delete":
        return Record(url=key, action=Action.DELETE, provenance=provenance)
    document = _object(second)
    if action == "update":
        acl = msgspec.structs.replace(_acl_of_update(document), alone=True)
        return Record(url=key, action=Action.UPDATE, acl=acl, provenance=provenance)
    return document_of(document, key, provenance, zone=options.zone)


def _acl_of_update(document: dict[str, object]) -> Acl:
    script = document.get("script")
    params = script.get("params") if isinstance(script, dict) else None
    fields = params.get("fields") if isinstance(params, dict) else document.get("doc")
    if not isinstance(fields, dict) or not fields.keys() <= _ACCESS:
        found = f"an update of {[*fields] if isinstance(fields, dict) else [*document]}"
        raise RecordError("partial-update", f"{found}; expected the fields of an ACL")
    acl = acl_of_fields({name: texts_of(fields, name) for name in fields})
    return acl if acl is not None else Acl(alone=True)


def _object(line: bytes) -> dict[str, object]:
    try:
        value = msgspec.json.decode(line)
    except _NO_JSON as exc:
        raise RecordError("bad-json", f"{line[:40]!r}; expected a line of JSON") from exc
    if not isinstance(value, dict):
        raise RecordError("bad-json", f"{line[:40]!r}; expected an object")
    return value


def _id_of(action: dict[str, object]) -> tuple[str, str]:
    """Return the name of an action, and its id."""
    names = [*action]
    address = action[names[0]] if len(names) == 1 else None
    if not isinstance(address, dict) or names[0] not in ("index", "create", "update", "delete"):
        raise RecordError("bad-action", f"{names}; expected index, create, update or delete")
    key = text_of(address, "_id")
    if not key:
        raise RecordError("url-missing", f"{names[0]} without an _id; expected the URL as _id")
    return names[0], key
