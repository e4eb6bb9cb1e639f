"""Read commands of Solr: a JSON object with `add` or `delete` on each line.

**Spec:** Solr Reference Guide, "Indexing with Update Handlers".

A document with `_version_` is read as an update of an ACL, as the writer makes it. The fields are
those of the writer; others become fields of their names. A document without the fields of a
decision is shown to no user by our filter, so that its ACL permits no user.
"""

import re
from collections.abc import Collection, Iterator
from io import BytesIO
from typing import IO

import msgspec

from feedferry.schemas.acl import Acl
from feedferry.schemas.errors import RecordError
from feedferry.schemas.record import Action, Provenance, Record
from feedferry.schemas.reject import Place
from feedferry.schemas.span import Span
from feedferry.transforms.access.index_fields import acl_of_fields, field_names, withheld_fields
from feedferry.transforms.access.solr_filter import WITHHELD_FIELD
from feedferry.transforms.formats.base import ReadOptions, ReadResult
from feedferry.transforms.formats.places import LinePlaces
from feedferry.transforms.formats.search_document.document_encoder import id_of
from feedferry.transforms.formats.search_document.document_reader import (
    document_of,
    read_lines,
    text_of,
)
from feedferry.transforms.formats.solr.solr_format import ALLOW, DENY, FIELD, META

COMMAND = re.compile(rb'\{"(add|delete)":\{(?:"doc":\{("_version_":1,)?)?"id":("(?:[^"\\]|\\.)*+")')
"""Begins a line of the writer: its command, whether it is an update, and the id in quotes."""

_ACCESS = frozenset((*field_names(), WITHHELD_FIELD, ALLOW, DENY))
_NOT_STATED = ("id", "run", "_version_", "_root_", ALLOW, DENY)
_NO_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def read(
    stream: IO[bytes], *, span: Span = Span(), options: ReadOptions = ReadOptions()
) -> Iterator[ReadResult]:
    """Yield a record for each line, and a reject for lines that are no command."""
    offset = span.offset
    for number, line in enumerate(stream, span.line):
        if not line.isspace():
            yield read_lines(
                line, _record, place=Place(offset, len(line), number), span=span, options=options
            )
        offset += len(line)


def split(
    stream: IO[bytes], *, source: str, span_bytes: int, options: ReadOptions = ReadOptions()
) -> Iterator[Span]:
    """Yield spans of about `span_bytes`, each of which begins with a line."""
    ordinal = begin = end = 0
    begin_line = 1
    for number, line in enumerate(stream, 1):
        if end - begin >= span_bytes:
            length = end - begin
            yield Span(source=source, ordinal=ordinal, offset=begin, length=length, line=begin_line)
            ordinal, begin, begin_line = ordinal + 1, end, number
        end += len(line)
    yield Span(source=source, ordinal=ordinal, offset=begin, line=begin_line)


def places(stream: IO[bytes], *, source: str = "") -> LinePlaces:
    """Return the places of the commands of a chunk."""
    return LinePlaces(stream, source=source, find_url=_find_url)


def find_records(stream: IO[bytes], urls: Collection[str]) -> Iterator[Record]:
    """Yield the records of URLs in a chunk that the writer has made, with their offsets."""
    ids, offset = {id_of(url) for url in urls}, 0
    for line in stream:
        command = COMMAND.match(line)
        if command is not None and url_id(msgspec.json.decode(command[3], type=str)) in ids:
            for result in read(BytesIO(line), span=Span(offset=offset)):
                if isinstance(result, Record):
                    yield result
        offset += len(line)


def url_id(id: str) -> str:
    """Return the URL of the id of a document, or its digest, without the datasource."""
    return id.partition(" ")[2] or id


def solr_document(
    stated: dict[str, object], key: str, provenance: Provenance, *, zone: str = "UTC"
) -> Record:
    """Return the document with an id; raise RecordError for a value of another type."""
    nested: dict[str, object] = {}
    below: dict[str, dict[str, object]] = {"meta": {}, "fields": {}}
    for name, value in stated.items():
        if name.startswith(META):
            below["meta"][name.removeprefix(META)] = value
        elif name.startswith(FIELD):
            below["fields"][name.removeprefix(FIELD)] = value
        elif name not in _NOT_STATED and name != WITHHELD_FIELD:
            nested[name] = value
    if stated.get(WITHHELD_FIELD):
        nested |= withheld_fields()
    nested |= {name: values for name, values in below.items() if values}
    return document_of(nested, url_id(key), provenance, zone=zone)


def _find_url(line: bytes) -> str | None:
    try:
        name, command = _command(line)
        stated = _document(command) if name == "add" else {}
        return text_of(stated, "url") or url_id(_id_of(stated or command))
    except RecordError:
        return None


def _record(line: bytes, provenance: Provenance, options: ReadOptions) -> Record:
    name, command = _command(line)
    if name == "delete":
        return Record(url=url_id(_id_of(command)), action=Action.DELETE, provenance=provenance)
    stated = _document(command)
    key = _id_of(stated)
    if "_version_" not in stated:
        return solr_document(stated, key, provenance, zone=options.zone)
    if not stated.keys() - {"_version_", "id"} <= _ACCESS:
        found = f"an update of {[*stated]}"
        raise RecordError("partial-update", f"{found}; expected the fields of an ACL")
    acl = msgspec.structs.replace(acl_of_fields(set_tokens(stated)) or Acl(), alone=True)
    return Record(url=url_id(key), action=Action.UPDATE, acl=acl, provenance=provenance)


def set_tokens(stated: dict[str, object]) -> dict[str, list[str]]:
    """Return the fields of the decision that an update sets; raise RecordError for another value.

    >>> set_tokens({"acl_1_permit_1": {"set": ["*"]}, "acl_1_deny_1": {"set": None}})
    {'acl_1_permit_1': ['*']}
    """
    fields: dict[str, list[str]] = {}
    for name in _ACCESS & stated.keys():
        try:
            tokens = msgspec.convert(stated[name], type=dict[str, list[str] | None]).get("set")
        except msgspec.ValidationError as exc:
            raise RecordError("bad-value", f"{name}: {exc}; expected a list of texts") from exc
        if tokens and name == WITHHELD_FIELD:
            return withheld_fields()
        if tokens and name not in (ALLOW, DENY):
            fields[name] = tokens
    return fields


def _command(line: bytes) -> tuple[str, dict[str, object]]:
    """Return the name of a command, and its object."""
    try:
        value = msgspec.json.decode(line)
    except _NO_JSON as exc:
        raise RecordError("bad-json", f"{line[:40]!r}; expected a line of JSON") from exc
    names = [*value] if isinstance(value, dict) else []
    if len(names) != 1 or names[0] not in ("add", "delete"):
        raise RecordError("bad-action", f"{names or line[:40]!r}; expected add or delete")
    command = value[names[0]]
    if isinstance(command, str):
        command = {"id": command}
    if not isinstance(command, dict):
        raise RecordError("bad-json", f"{line[:40]!r}; expected an object")
    return names[0], command


def _document(command: dict[str, object]) -> dict[str, object]:
    stated = command.get("doc")
    if not isinstance(stated, dict):
        raise RecordError("bad-json", f"{[*command]}; expected `doc`, an object")
    return stated


def _id_of(stated: dict[str, object]) -> str:
    if not (key := text_of(stated, "id")):
        raise RecordError("url-missing", f"{[*stated]}; expected an id")
    return key
