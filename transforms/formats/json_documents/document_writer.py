"""Write JSON documents, one a line.

**Keeps:** what the mapping has a field for, and who may see the document: the decision of its ACL
and all above it, in the fields of `access.index_fields`, or its readers by name.

**Drops:** everything else, each as a loss.

A line is a whole document, a deletion, or an ACL alone: the new values of the fields of the
decision of a document that the target has. A document that is withheld is deleted, as a later ACL
alone must not show the version that the target has.
"""

from datetime import UTC

import msgspec

from feedferry.schemas.errors import not_unicode_error
from feedferry.schemas.record import Action, Record
from feedferry.transforms.formats.base import Encoder, WriteOptions
from feedferry.transforms.formats.holding.decided_documents import hashed_id
from feedferry.transforms.formats.json_documents.access_values import access_values
from feedferry.transforms.formats.json_documents.document_mapping import DateField
from feedferry.transforms.formats.json_documents.json_documents_format import JsonDocumentsOptions

_DELETE = Action.DELETE  # a look-up in the enum costs ten times as much


class JsonDocumentEncoder(Encoder):
    """Encodes records as lines; there is nothing around them."""

    extension = "jsonl"

    def __init__(self, options: WriteOptions = WriteOptions()) -> None:
        self._mapping = options.of(JsonDocumentsOptions).mapping

    def encode(self, record: Record) -> bytes:
        """Return the line of a record; raise RecordError for a text that is no Unicode."""
        try:
            return msgspec.json.encode(self._line(record)) + b"\n"
        except UnicodeEncodeError as exc:
            raise not_unicode_error(exc) from exc

    def _line(self, record: Record) -> dict[str, object]:
        mapping, action = self._mapping, self._mapping.action
        line: dict[str, object] = {mapping.key: hashed_id(record.url)}
        line[action.column] = action.document
        if mapping.url is not None:
            line[mapping.url.column] = record.url
        acl = record.acl
        if record.action is _DELETE or (acl is not None and acl.withholds):
            return line | {action.column: action.delete}
        access = access_values(acl, mapping.acl)
        if acl is not None and acl.alone:
            return line | {action.column: action.acl} | access
        return line | self._stated(record) | access

    def _stated(self, record: Record) -> dict[str, object]:
        """Return the fields of a document without those of its decision."""
        mapping, crawl = self._mapping, record.crawl
        stated: dict[str, object] = {
            column: text
            for name, column in mapping.texts.items()
            if (text := getattr(record, name)) is not None
        }
        display_url = None if crawl is None else crawl.display_url
        if mapping.display_url is not None and display_url is not None:
            stated[mapping.display_url.column] = display_url
        modified, moment = mapping.modified, record.modified
        if isinstance(modified, DateField) and moment is not None:
            stated[modified.column] = f"{moment.astimezone(UTC):{modified.format}}"
        elif isinstance(modified, str) and moment is not None:
            stated[modified] = moment
        if mapping.content is not None and record.body is not None:
            stated[mapping.content.column] = record.body
        return stated | self._metadata(record)

    def _metadata(self, record: Record) -> dict[str, object]:
        values: dict[str, list[str]] = {}
        for meta in record.metadata:
            values.setdefault(meta.name, []).append(meta.value)
        fields: dict[str, object] = {}
        for field in self._mapping.metadata_fields:
            if not field.is_all and field.label in values:
                texts = values.pop(field.label)
                is_one = field.separator is not None
                fields[field.column] = (field.separator or "").join(texts) if is_one else texts
        return fields | values
