"""feedferry as Apache Beam transforms, and its records as rows with a schema.

::

    from feedferry.beam import ReadRecords, WriteChunks, list_spans

Rows are for SQL, Beam YAML and the connectors of Beam; see docs/beam.md.
"""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import msgspec
from apache_beam.utils.timestamp import Timestamp
from msgspec.structs import replace

from feedferry.pipelines.convert.inputs.input_files import list_spans as _list_spans
from feedferry.pipelines.inspect.inspection import parse
from feedferry.pipelines.python_api import Inputs
from feedferry.schemas.acl import Acl
from feedferry.schemas.content import CHECKED, decode
from feedferry.schemas.errors import RecordError
from feedferry.schemas.record import Record
from feedferry.schemas.span import Span
from feedferry.transforms.conversion.conversion_settings import Settings
from feedferry.transforms.formats import ReadOptions, WriteOptions
from feedferry.transforms.formats.base import Target
from feedferry.transforms.formats.canonical.jsonl import line
from feedferry.transforms.stages import (
    Adapt,
    CompareRecords,
    Normalize,
    Push,
    ReadRecords,
    Transform,
    WriteChunks,
)
from feedferry.transforms.steps import Steps

__all__ = [
    "Adapt",
    "CompareRecords",
    "MetadataRow",
    "Normalize",
    "Push",
    "ReadOptions",
    "ReadRecords",
    "RecordRow",
    "Settings",
    "Span",
    "Steps",
    "Target",
    "Transform",
    "WriteChunks",
    "WriteOptions",
    "from_row",
    "list_spans",
    "to_row",
]


class MetadataRow(NamedTuple):
    """A metadata pair; a value that is not text is in `data`."""

    name: str
    value: str
    data: bytes | None = None


class RecordRow(NamedTuple):
    """A record as a row: columns for the fields that most programs use, and JSON for the others.

    `content` is decoded. `modified` is RFC 3339. `acl` and `other` have the form of the jsonl
    format. Without an `acl`, a document is public.
    """

    url: str
    action: str = "ADD"
    mimetype: str | None = None
    content: bytes | None = None
    title: str | None = None
    body: str | None = None
    modified: str | None = None
    datasource: str | None = None
    feedtype: str | None = None
    metadata: Sequence[MetadataRow] = ()
    acl: str | None = None
    other: str | None = None


beam.coders.registry.register_coder(RecordRow, beam.coders.RowCoder)


_OF_PROVENANCE = ("datasource", "feedtype")
_AS_STATED = ("url", "action", "mimetype", "title", "body", "modified", "metadata")


def list_spans(inputs: Inputs, *, from_format: str | None = None) -> list[bytes]:
    """Return the files, folders, globs or URLs as whole spans, which `ReadRecords` takes.

    The format is detected if it is not given. Raise ConfigError for inputs that cannot be used.
    """
    names = (str(inputs),) if isinstance(inputs, str | Path) else tuple(map(str, inputs))
    options = parse({"inputs": names, "from_format": from_format})
    copy = Path(tempfile.gettempdir(), "feedferry-stdin")
    return [*map(msgspec.json.encode, _list_spans(options, stdin_copy=copy))]


def to_row(record: Record) -> RecordRow:
    """Return a record as a row; `from_row` returns it again, with its content decoded.

    Raise RecordError for a content that is not in its encoding.
    """
    content = None if record.content is None else decode(record.content, max_bytes=CHECKED)
    fields: dict[str, Any] = msgspec.json.decode(line(replace(record, content=None)))
    columns = {name: fields.pop(name) for name in _AS_STATED if name in fields}
    columns["metadata"] = [MetadataRow(m.name, m.value, m.data) for m in record.metadata]
    provenance = fields.get("provenance", {})
    columns |= {name: provenance.pop(name, None) for name in _OF_PROVENANCE}
    acl = fields.pop("acl", None)
    columns["acl"] = None if acl is None else msgspec.json.encode(acl).decode()
    return RecordRow(**columns, content=content, other=msgspec.json.encode(fields).decode())


def from_row(row: Any) -> Record:  # Any: Beam generates the types of the rows of a connector
    """Return the record of a row with at least a `url`; other columns are ignored.

    `metadata` are rows with name and value, or a mapping. Raise RecordError for a column of another
    type than that of RecordRow.
    """
    try:
        columns = _stated(row)
        fields = msgspec.json.decode(columns.get("other", "{}"), type=dict[str, Any])
        acl = msgspec.json.decode(columns["acl"], type=Acl) if "acl" in columns else None
        feed = {name: columns[name] for name in _OF_PROVENANCE if name in columns}
        fields |= {"action": "ADD", "provenance": fields.get("provenance", {}) | feed}
        fields |= {name: columns[name] for name in _AS_STATED if name in columns}
        fields["content"] = {"data": columns["content"]} if "content" in columns else None
        record = msgspec.convert(fields, Record, builtin_types=(bytes,))
        if record.modified is not None and record.modified.tzinfo is None:
            raise ValueError(f"a time without a zone, '{record.modified}'")
    except (msgspec.MsgspecError, AttributeError, TypeError, ValueError) as exc:
        raise RecordError("bad-row", f"{exc}; expected a row with columns of RecordRow") from exc
    return record if acl is None else replace(record, acl=acl)


def _stated(row: Any) -> dict[str, Any]:
    """Return the columns that are not NULL, as plain values."""
    stated = {name: value for name, value in row._asdict().items() if value is not None}
    if isinstance(stated.get("modified"), Timestamp):  # of SQL
        stated["modified"] = stated["modified"].to_utc_datetime(has_tz=True)
    metadata = stated.get("metadata", ())
    if isinstance(metadata, Mapping):
        stated["metadata"] = [{"name": name, "value": value} for name, value in metadata.items()]
    elif not isinstance(metadata, str | bytes):
        stated["metadata"] = [pair._asdict() for pair in metadata]
    return stated
