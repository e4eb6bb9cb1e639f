"""Adapt records to documents of an index: texts in `body`, and a decision that is resolved."""

from collections.abc import Sequence
from functools import partial

from msgspec.structs import replace

from feedferry.schemas.content import decode
from feedferry.schemas.record import Arrival, Content, Field, Meta
from feedferry.transforms.content_types.document_text import is_text
from feedferry.transforms.formats.base import Adapter, Holds, Target
from feedferry.transforms.formats.fast_path.columns.holes import inspected
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
from feedferry.transforms.formats.search_document.document_holds import (
    MAX_COLUMN_CHARS,
    MAX_KEYWORD_BYTES,
)


def make_adapter(
    target: Target,
    holds: Holds,
    fields: Sequence[tuple[str, str]],
    *,
    has_pipeline: bool | None = None,
) -> Adapter:
    """Return the function that adapts records to documents of an index.

    `fields` are metadata and the fields that they become. With a pipeline, the server extracts the
    text of documents that are no text; None is of a target without pipelines.
    """
    fit = partial(
        _fit,
        has_pipeline=has_pipeline,
        named={name.lower(): field for name, field in fields},
        max_bytes=target.max_content_bytes,
    )
    return hold(holds, target, refuse=refuse_undecided, fit=fit)


def _fit(draft: Draft, *, has_pipeline: bool | None, named: dict[str, str], max_bytes: int) -> None:
    if is_deletion(draft.record):
        return
    content = draft.record.content
    if content is not None:
        _fit_content(draft, content, has_pipeline=has_pipeline, max_bytes=max_bytes)
    if draft.record.charset is not None:
        draft.change(charset=None)
    acl = draft.record.acl
    close_secure(draft)
    if draft.record.metadata:
        lose_acl_metadata(draft)
        fit_metadata(draft, _fit_meta)
        if named:
            _metadata_as_fields(draft, named)
    if draft.record.fields:
        draft.change(fields=tuple(_fit_field(draft, field) for field in draft.record.fields))
    if acl is not None and is_alone(draft.record):
        draft.change(acl=replace(acl, alone=True))


def _fit_content(
    draft: Draft, content: Content, *, has_pipeline: bool | None, max_bytes: int
) -> None:
    """Make a text the body; a document that is no text stays for a pipeline, or is lost."""
    data = decode(content, max_bytes=max_bytes)
    if has_pipeline and draft.record.body is None and not is_text(draft.record.mimetype, data):
        draft.change(content=Content(data))
        if draft.record.arrival is Arrival.CRAWLED:
            draft.change(arrival=Arrival.PUSHED)
        return
    pipeline = "" if has_pipeline is None else " or target.pipeline"
    fit_text(draft, content, data, keeps=f"the step `text`{pipeline} keeps them")


def _fit_meta(draft: Draft, meta: Meta) -> Meta | None:
    if meta.data is not None:
        draft.lose("metadata", f"{meta.name!r}, {counted(len(meta.data), 'byte')} that are no text")
        return None
    value = _cut(draft, "metadata", meta.name, meta.value)
    return meta if value is meta.value else Meta(meta.name, value)


def _metadata_as_fields(draft: Draft, named: dict[str, str]) -> None:
    """Move metadata that the user names to fields, unless the record has such a field."""
    record = draft.record
    present = {field.name for field in record.fields}
    fields: dict[str, list[str]] = {}
    remaining = []
    for meta in record.metadata:
        name = named.get(meta.name.lower())
        if name is None or name in present:
            remaining.append(meta)
        else:
            fields.setdefault(name, []).append(meta.value)
    if fields:
        new = (Field(name, tuple(values), len(values) > 1) for name, values in fields.items())
        draft.change(metadata=tuple(remaining), fields=(*record.fields, *new))


def _fit_field(draft: Draft, field: Field) -> Field:
    if field.namespace is not None:
        draft.lose("fields", f"namespace {field.namespace!r} of {field.name!r}")
    values = tuple(_cut(draft, "fields", field.name, value) for value in field.values)
    return Field(field.name, values, field.many)


def _cut(draft: Draft, lost: str, name: str, value: str) -> str:
    if len(f"{name}{value}") <= MAX_COLUMN_CHARS:  # also if the value is a hole
        return value
    most = MAX_KEYWORD_BYTES - len(name.encode("utf-8", "surrogatepass"))
    data = inspected(value).encode("utf-8", "surrogatepass")
    if len(data) <= most:
        return value
    draft.lose(lost, f"the end of {name!r}, of {counted(len(data), 'byte')}")
    return data[: max(most, 0)].decode("utf-8", "ignore")
