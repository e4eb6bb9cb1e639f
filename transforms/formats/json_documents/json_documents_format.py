"""The format `json-documents`: what a JSON document may have, by the mapping of its fields."""

from typing import Annotated

import msgspec
from msgspec.structs import replace

from feedferry.schemas.own_key import OwnKey
from feedferry.schemas.record import Action
from feedferry.transforms.formats.base import WHOLE_DOCUMENTS, Format, Holds, Target, deferred
from feedferry.transforms.formats.json_documents.document_mapping import (
    DEFAULT_MAPPING,
    DocumentMapping,
)


class JsonDocumentsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of JSON documents."""

    document_mapping: Annotated[
        DocumentMapping | None,
        OwnKey(help="YAML file with the fields of a JSON document.", metavar="FILE", is_file=True),
    ] = None

    @property
    def mapping(self) -> DocumentMapping:
        return self.document_mapping or DEFAULT_MAPPING


HOLDS = Holds(
    fields=frozenset(
        {
            *("acl", "body", "charset", "content", "description", "display_url", "keywords"),
            *("metadata", "mimetype", "modified", "secure", "title"),
        }
    ),
    actions=frozenset({Action.ADD, Action.UPDATE, Action.DELETE}),
    acls_alone=True,
    decisions=True,
    partly={
        "charset": "texts are decoded",
        "content": "documents that are no text",
        "metadata": "values that are no text, and names of other fields",
        "secure": "without an ACL, no user may see the document",
    },
    refuses=WHOLE_DOCUMENTS,
)


def held_by(target: Target) -> Holds:
    """Return what a document holds by its mapping; what has no field is lost."""
    mapping = target.of(JsonDocumentsOptions).mapping
    absent = {"title", "description", "keywords", "mimetype"} - mapping.texts.keys()
    if mapping.content is None:
        absent |= {"body", "content"}
    if not mapping.metadata:
        absent.add("metadata")
    absent.update(name for name in ("display_url", "modified") if getattr(mapping, name) is None)
    return replace(HOLDS, fields=HOLDS.fields - absent)


JSON_DOCUMENTS = Format(
    name="json-documents",
    title="documents as JSON lines, in the fields of a mapping file",
    encoder=deferred("json_documents.document_writer:JsonDocumentEncoder"),
    adapter=deferred("json_documents.adapt_documents:adapter"),
    holds=HOLDS,
    variant=held_by,
    options=(JsonDocumentsOptions,),
    keeps_unlisted=True,
    content_type="application/jsonl",
    chunk_bytes=100 << 20,
)
