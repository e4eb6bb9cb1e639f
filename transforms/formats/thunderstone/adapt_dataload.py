"""Adapt records to Thunderstone dataload XML.

**Spec:** Thunderstone dataload API, "Specifying all fields manually", "Additional Fields".
"""

import re
from functools import partial

from feedferry.schemas.record import Arrival, Content, Encoding, Field, Meta, Record
from feedferry.transforms.formats.base import Adapter, Target
from feedferry.transforms.formats.holding.adapt_rules import (
    Draft,
    counted,
    fit_metadata,
    is_deletion,
)
from feedferry.transforms.formats.holding.hold import hold
from feedferry.transforms.formats.thunderstone.dataload_format import HOLDS, DataloadOptions

_SINGLE = ("title", "description", "keywords")
_CATEGORY = "category"
_UTF_8 = (None, "utf-8", "utf8")
_LINE_END = re.compile(r"\r?\n")
_SEPARATOR = re.compile(": +")


def adapter(target: Target) -> Adapter:
    """Return the function that adapts records to Items."""
    named = {name.lower(): field for name, field in target.of(DataloadOptions).fields}
    return hold(HOLDS, target, fit=partial(_fit, target=target, named=named))


def _fit(draft: Draft, target: Target, *, named: dict[str, str]) -> None:
    record = draft.record
    arrival = None if is_deletion(record) else Arrival.PUSHED
    if record.arrival is not arrival:
        draft.change(arrival=arrival)
    if record.content is not None and _is_plain_text(record):
        _content_as_body(draft, record.content, target)
    if record.metadata:
        _metadata_as_fields(draft, named)
        fit_metadata(draft, _fit_meta)


def _is_plain_text(record: Record) -> bool:
    """Return whether it has only plain text as content, with no charset or UTF-8."""
    mimetype = (record.mimetype or "").partition(";")[0].strip()
    charset = record.charset and record.charset.lower()
    return mimetype == "text/plain" and charset in _UTF_8 and record.body is None


def _content_as_body(draft: Draft, content: Content, target: Target) -> None:
    """Write plain text as Body, which needs no extraction; other content stays RawData."""
    if content.encoding is not Encoding.NONE or len(content.data) > target.max_content_bytes:
        return
    try:
        body = content.data.decode("utf-8")
    except UnicodeDecodeError:
        return
    draft.change(content=None, body=body, charset="UTF-8")


def _metadata_as_fields(draft: Draft, named: dict[str, str]) -> None:
    """Move metadata with an element of its own there, unless the record has that element."""
    record = draft.record
    present = {field.name for field in record.fields}
    texts: dict[str, str] = {}
    categories: list[str] = []
    fields: dict[str, list[str]] = {}
    remaining = []
    for meta in record.metadata:
        name = meta.name.lower()
        if meta.data is None and name in named and named[name] not in present:
            fields.setdefault(named[name], []).append(meta.value)
        elif meta.data is not None or name in named:
            remaining.append(meta)
        elif name in _SINGLE and getattr(record, name) is None and name not in texts:
            texts[name] = meta.value
        elif name == _CATEGORY and not record.categories:
            categories.append(meta.value)
        else:
            remaining.append(meta)
    if len(remaining) == len(record.metadata):
        return
    new = (Field(name, tuple(values), len(values) > 1) for name, values in fields.items())
    draft.change(
        metadata=tuple(remaining),
        fields=(*record.fields, *new),
        categories=(*record.categories, *categories),
        **texts,
    )


def _fit_meta(draft: Draft, meta: Meta) -> Meta | None:
    """Fit a pair on a line of Meta."""
    if meta.data is not None:
        draft.lose("metadata", f"{meta.name!r}, {counted(len(meta.data), 'byte')} that are no text")
        return None
    name, value = meta.name, meta.value
    if "\n" in name or ": " in name:
        name = _SEPARATOR.sub(":", _LINE_END.sub(" ", name))
        draft.lose("metadata", f"name {meta.name!r} written as {name!r}")
    if "\n" in value:
        value = _LINE_END.sub(" ", value)
        draft.lose("metadata", f"line ends in the value of {meta.name!r} written as spaces")
    return meta if (name, value) == (meta.name, meta.value) else Meta(name, value)
