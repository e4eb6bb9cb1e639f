"""Adapt records to JSON documents: texts, mapped metadata, and an ACL that can be written."""

from collections.abc import Callable, Container, Mapping
from functools import partial

from msgspec.structs import replace

from feedferry.schemas.content import decode
from feedferry.schemas.record import Meta
from feedferry.transforms.formats.base import Adapter, Target
from feedferry.transforms.formats.holding.adapt_rules import (
    Draft,
    counted,
    fit_metadata,
    is_alone,
    is_deletion,
)
from feedferry.transforms.formats.holding.decided_documents import (
    close_secure,
    fit_text,
    lose_acl_metadata,
    refuse_undecided,
)
from feedferry.transforms.formats.holding.hold import hold
from feedferry.transforms.formats.json_documents.access_values import access_values
from feedferry.transforms.formats.json_documents.document_mapping import (
    MetadataField,
    ReaderFields,
)
from feedferry.transforms.formats.json_documents.json_documents_format import (
    JsonDocumentsOptions,
    held_by,
)


def adapter(target: Target) -> Adapter:
    """Return the function that adapts records to documents with the fields of a mapping."""
    mapping = target.of(JsonDocumentsOptions).mapping
    fields = {each.label: each for each in mapping.metadata_fields}
    fit = partial(
        _fit,
        fit_meta=partial(_fit_meta, fields=fields, taken=mapping.taken),
        readers=mapping.acl,
        max_bytes=target.max_content_bytes,
    )
    return hold(held_by(target), target, refuse=refuse_undecided, fit=fit)


def _fit(
    draft: Draft,
    *,
    fit_meta: Callable[[Draft, Meta], Meta | None],
    readers: ReaderFields | None,
    max_bytes: int,
) -> None:
    if is_deletion(draft.record):
        return
    content = draft.record.content
    if content is not None:
        fit_text(draft, content, decode(content, max_bytes=max_bytes))
    if draft.record.charset is not None:
        draft.change(charset=None)
    close_secure(draft)
    lose_acl_metadata(draft)
    if draft.record.metadata:
        fit_metadata(draft, fit_meta)
    acl = draft.record.acl
    access_values(acl, readers)  # raises RecordError for an ACL that cannot be written
    if acl is not None and is_alone(draft.record):
        draft.change(acl=replace(acl, alone=True))


def _fit_meta(
    draft: Draft, meta: Meta, *, fields: Mapping[str, MetadataField], taken: Container[str]
) -> Meta | None:
    if meta.data is not None:
        draft.lose("metadata", f"{meta.name!r}, {counted(len(meta.data), 'byte')} that are no text")
        return None
    field = fields.get(meta.name)
    if field is not None and not field.is_all:
        if field.separator is not None and field.separator in meta.value:
            draft.lose("metadata", f"{meta.name!r}, whose value has the separator")
            return None
        return meta
    if "" in fields and meta.name.casefold() not in taken:
        return meta
    found = "the name of another field" if "" in fields else "without a field in the mapping"
    draft.lose("metadata", f"{meta.name!r}, {found}")
    return None
